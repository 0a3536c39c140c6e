//! The registry at one moment: look-up, listing, search, suggestions.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use haft_contract::{Effects, ProviderId, ToolKey, spec::ForeignCall};

use super::{Entry, MAX_TOOLS, RegistryError, search::SearchIndex};

/// The most names suggested for an unknown one.
const MAX_SUGGESTIONS: usize = 3;

/// How similar two names must be to suggest one for the other, from 0 to 1.
const SUGGESTION_LIKENESS: f64 = 0.72;

/// An immutable list of tools.
#[derive(Debug)]
pub struct Snapshot {
    /// Sorted by name.
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<String, Arc<Entry>>,
    by_alias: HashMap<&'static str, Arc<Entry>>,
    by_foreign_name: HashMap<&'static str, Vec<ForeignTool>>,
    index: OnceLock<SearchIndex>,
}

/// A call of another system's tool, and the tool here that takes it.
#[derive(Debug)]
pub(crate) struct ForeignTool {
    pub(crate) call: ForeignCall,
    pub(crate) entry: Arc<Entry>,
}

/// Which tools to list. All conditions that are set must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only tools of this provider.
    pub provider: Option<ProviderId>,
    /// Only tools of this group.
    pub group: Option<String>,
    /// Only tools with (or without) these effects.
    pub effects: Option<fn(Effects) -> bool>,
    /// Only tools whose name, description or parameters contain all of these words.
    pub text: Option<String>,
    /// Whether quarantined tools are listed too.
    pub quarantined: bool,
}

impl Snapshot {
    pub(super) fn empty() -> Self {
        Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            by_alias: HashMap::new(),
            by_foreign_name: HashMap::new(),
            index: OnceLock::new(),
        }
    }

    /// The tool with this name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).or_else(|| self.by_alias.get(name))
    }

    /// The calls that a tool of this name is known for in other systems, and who takes each here.
    pub(crate) fn foreign(&self, name: &str) -> &[ForeignTool] {
        let known = self.by_foreign_name.get(name);
        known.map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether there is a tool with this name or alias.
    pub fn exists(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A page of all tools by name, quarantined ones included.
    pub fn page(&self, offset: usize, limit: usize) -> &[Arc<Entry>] {
        let start = offset.min(self.entries.len());
        let end = start.saturating_add(limit).min(self.entries.len());
        self.entries.get(start..end).unwrap_or_default()
    }

    /// The tools that pass a filter, sorted by name. Tools for hosts are never listed.
    pub fn list(&self, filter: &Filter) -> Vec<&Arc<Entry>> {
        let found = filter.text.as_deref();
        let found = found.map(|text| self.index().having_all(text));
        let passes = |entry: &&Arc<Entry>| {
            filter
                .provider
                .as_ref()
                .is_none_or(|provider| &entry.key().provider == provider)
                && filter
                    .group
                    .as_deref()
                    .is_none_or(|group| entry.spec().groups.contains(&group))
                && filter
                    .effects
                    .is_none_or(|wanted| wanted(entry.spec().effects))
                && (filter.quarantined || entry.quarantine().is_none())
                && entry.is_listed()
        };
        match found {
            None => self.entries.iter().filter(passes).collect(),
            Some(positions) => positions
                .iter()
                .filter_map(|at| self.entries.get(*at))
                .filter(passes)
                .collect(),
        }
    }

    /// The tools that match a query, best first, quarantined ones included. Those that
    /// have only some of the words come last.
    pub fn search(&self, text: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let found = self.index().ranked(text);
        let entries = found.filter_map(|at| self.entries.get(at));
        entries.filter(|entry| entry.is_listed())
    }

    /// The names most similar to an unknown one, nearest first.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        let wanted = name.to_ascii_lowercase();
        let listed = self.entries.iter().filter(|entry| entry.is_listed());
        let known = listed.map(|entry| {
            let name = entry.key().tool.as_str();
            (name, name)
        });
        let aliases = self
            .by_alias
            .iter()
            .map(|(alias, entry)| (*alias, entry.key().tool.as_str()));
        let mut ranked: Vec<(f64, &str)> = known
            .chain(aliases)
            .map(|(spelling, name)| {
                (
                    strsim::jaro_winkler(&wanted, &spelling.to_ascii_lowercase()),
                    name,
                )
            })
            .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in ranked {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.truncate(MAX_SUGGESTIONS);
        names
    }

    pub(super) fn with_added(&self, added: Vec<Arc<Entry>>) -> Result<Self, RegistryError> {
        if self.entries.len() + added.len() > MAX_TOOLS {
            return Err(RegistryError::Full);
        }
        let mut entries = self.entries.clone();
        entries.extend(added);
        Self::build(entries)
    }

    pub(super) fn without(&self, key: &ToolKey) -> Result<Self, RegistryError> {
        let entries: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.key() != key)
            .cloned()
            .collect();
        if entries.len() == self.entries.len() {
            return Err(RegistryError::Unknown(key.clone()));
        }
        Self::build(entries)
    }

    pub(super) fn without_provider(&self, provider: &ProviderId) -> Self {
        let kept = |entry: &&Arc<Entry>| &entry.key().provider != provider;
        let entries = self.entries.iter().filter(kept).cloned().collect();
        // Removing tools cannot make two names collide.
        Self::build(entries).unwrap_or_else(|_| Self::empty())
    }

    fn build(mut entries: Vec<Arc<Entry>>) -> Result<Self, RegistryError> {
        entries.sort_by(|a, b| a.key().tool.cmp(&b.key().tool));
        let builtin = ProviderId::builtin();
        let mut by_name: HashMap<String, Arc<Entry>> = HashMap::with_capacity(entries.len());
        for entry in &entries {
            let name = entry.key().tool.as_str().to_owned();
            if let Some(first) = by_name.insert(name, Arc::clone(entry)) {
                return Err(conflict(&first, entry, &builtin));
            }
        }
        let mut by_alias: HashMap<&'static str, Arc<Entry>> = HashMap::new();
        let mut by_foreign_name: HashMap<&'static str, Vec<ForeignTool>> = HashMap::new();
        // Only the tools compiled into this program and the operator's own scripts may claim
        // aliases; a foreign tool could use one to take over a name that models already know. For
        // the same reason a script gets only what nobody else claims.
        for provider in [
            builtin.clone(),
            ProviderId::embedded(),
            ProviderId::script(),
        ] {
            for entry in entries
                .iter()
                .filter(|entry| entry.key().provider == provider)
            {
                for alias in &entry.spec().aliases {
                    let own = provider == builtin;
                    if let Some(other) = by_name.get(*alias) {
                        if own && other.key().provider != builtin {
                            return Err(RegistryError::ShadowsBuiltin {
                                name: (*alias).to_owned(),
                                builtin: entry.key().tool.clone(),
                                provider: other.key().provider.clone(),
                            });
                        }
                        continue;
                    }
                    by_alias.entry(alias).or_insert_with(|| Arc::clone(entry));
                }
                for call in &entry.spec().foreign_calls {
                    let takers: &mut Vec<_> = by_foreign_name.entry(call.name).or_default();
                    takers.push(ForeignTool {
                        call: *call,
                        entry: Arc::clone(entry),
                    });
                }
            }
        }
        Ok(Self {
            entries,
            by_name,
            by_alias,
            by_foreign_name,
            index: OnceLock::new(),
        })
    }

    fn index(&self) -> &SearchIndex {
        self.index
            .get_or_init(|| SearchIndex::build(self.entries.iter().map(AsRef::as_ref)))
    }
}

fn conflict(first: &Entry, second: &Entry, builtin: &ProviderId) -> RegistryError {
    let (first, second) = (first.key(), second.key());
    let (ours, theirs) = if &second.provider == builtin {
        (second, first)
    } else {
        (first, second)
    };
    if &ours.provider == builtin && &theirs.provider != builtin {
        return RegistryError::ShadowsBuiltin {
            name: ours.tool.as_str().to_owned(),
            builtin: ours.tool.clone(),
            provider: theirs.provider.clone(),
        };
    }
    RegistryError::Duplicate {
        name: first.tool.clone(),
        first: first.provider.clone(),
        second: second.provider.clone(),
    }
}
