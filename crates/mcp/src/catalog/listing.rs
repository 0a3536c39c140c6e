//! Which of the tools shown to a principal an endpoint lists.

use std::sync::Arc;

use haft_contract::{ProviderId, Tool as _};
use haft_runtime::registry::Entry;

use super::{EffectClass, FindTools, tokens};

/// The most tokens of definitions an endpoint lists before it switches to search, unless
/// configured: a tenth of what the smaller models can read at all.
pub const DEFAULT_BUDGET: usize = 20_000;

/// How an endpoint lists its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Every tool.
    Full,
    /// The built-in tools, plus those that find and call the others.
    Search,
    /// Every tool while they fit the budget, otherwise as in [`Self::Search`].
    #[default]
    Auto,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Full, Self::Search, Self::Auto];

    /// Its name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Search => "search",
            Self::Auto => "auto",
        }
    }

    /// The mode with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// What an endpoint lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Whether everything is listed or some tools have to be searched for.
    pub mode: Mode,
    /// The most tokens of definitions that `auto` lists in full.
    pub budget: usize,
    /// Tools that stay listed in search mode, in addition to the built-in ones.
    pub always: Vec<String>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            budget: DEFAULT_BUDGET,
            always: Vec::new(),
        }
    }
}

/// Whether a tool is one of the catalog's own search tools, and not somebody else's tool with the
/// same name.
pub fn is_catalog_tool(entry: &Entry) -> bool {
    let key = entry.key();
    let name = key.tool.as_str();
    key.provider == ProviderId::builtin()
        && (name == FindTools::NAME || EffectClass::of_call_tool(name).is_some())
}

impl Catalog {
    /// Whether the endpoint may ever list less than everything, and so needs the search tools.
    pub fn may_search(&self) -> bool {
        self.mode != Mode::Full
    }

    /// The tools to list out of those a principal is shown, in the same order. A principal that is
    /// not shown `find_tools` could not find the others, so for it everything is listed.
    pub fn listed(&self, shown: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let searches = self.searches(&shown);
        let mut listed = shown;
        listed.retain(|entry| match (searches, is_catalog_tool(entry)) {
            (true, true) | (false, false) => true,
            (true, false) => self.stays(entry),
            (false, true) => false,
        });
        listed
    }

    /// Whether these tools are listed in search mode.
    pub fn searches(&self, shown: &[Arc<Entry>]) -> bool {
        let name = |entry: &Arc<Entry>| entry.key().tool.as_str() == FindTools::NAME;
        match self.mode {
            Mode::Full => false,
            Mode::Search => shown.iter().any(name),
            Mode::Auto => shown.iter().any(name) && self.is_over_budget(shown),
        }
    }

    /// Whether a tool stays listed in search mode.
    fn stays(&self, entry: &Entry) -> bool {
        let key = entry.key();
        let own = [
            ProviderId::builtin(),
            ProviderId::embedded(),
            ProviderId::script(),
        ];
        own.contains(&key.provider) || self.always.iter().any(|name| name == key.tool.as_str())
    }

    /// Counts no further than it has to: a catalog of ten thousand tools is over the budget after a
    /// hundred.
    fn is_over_budget(&self, shown: &[Arc<Entry>]) -> bool {
        let mut left = self.budget;
        for entry in shown {
            if is_catalog_tool(entry) {
                continue;
            }
            match left.checked_sub(tokens(entry)) {
                Some(rest) => left = rest,
                None => return true,
            }
        }
        false
    }
}
