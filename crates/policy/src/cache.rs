//! Bounded caches of answers. Forgetting is always safe; remembering is exact: an entry is used
//! only if its whole key is equal, so two questions can never share an answer through an accidental
//! or deliberate hash collision.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    Access, ActionName, ActionSpec, AgentId, Effects, Label, Labels, Masks, SessionKind, ToolKey,
    access::Command,
    host::{Decision, Question},
    identity::ChannelId,
    ops::Tier,
};

use crate::audience::NamedPrincipal;

/// How many decisions are remembered in all.
const DECISIONS: usize = 8192;
/// How many locks they are spread over.
const SHARDS: usize = 16;
/// The largest question that is cached, in bytes of its variable parts.
const MAX_QUESTION_BYTES: usize = 4096;

/// Caches values in two generations: when the young one is full it becomes the old one, and unused
/// old values are dropped.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    capacity: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Generations<K, V> {
    /// Holds at most twice `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            capacity,
        }
    }

    /// The value, if it is cached.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

/// Decisions by question.
#[derive(Debug)]
pub(crate) struct DecisionCache {
    hasher: RandomState,
    shards: Vec<Mutex<Generations<u64, Arc<Entry>>>>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    decision: Arc<Decision>,
}

/// Everything in a question that a decision can depend on. User and tenant are included only if a
/// rule names them.
#[derive(Debug)]
struct Key {
    agent: AgentId,
    ancestors: Vec<AgentId>,
    session_kind: SessionKind,
    channel: Option<ChannelId>,
    named: NamedPrincipal,
    tool: ToolKey,
    action: Option<ActionName>,
    groups: Vec<&'static str>,
    actions: Vec<ActionSpec>,
    usual_effects: Effects,
    effects: Effects,
    tier: Tier,
    /// Whether there is network access, not which.
    network: bool,
    accesses: Vec<Access>,
    /// Determines which absolute paths in a command are inside the workspace.
    workspace: String,
    read_from: Labels,
    masks: Masks,
}

/// A question's slot in the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheSlot(u64);

impl DecisionCache {
    pub(crate) fn new() -> Self {
        let shard = || Mutex::new(Generations::new(DECISIONS / SHARDS / 2));
        Self {
            hasher: RandomState::new(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
        }
    }

    /// A question's slot; none if it is too large to be cached.
    pub(crate) fn place(&self, question: &Question<'_>) -> Option<CacheSlot> {
        let mut hasher = self.hasher.build_hasher();
        let bytes = hash(question, &mut hasher);
        (bytes <= MAX_QUESTION_BYTES).then(|| CacheSlot(hasher.finish()))
    }

    /// The decision on this question, if it is cached.
    pub(crate) fn get(
        &self,
        place: CacheSlot,
        question: &Question<'_>,
        named: &NamedPrincipal,
    ) -> Option<Arc<Decision>> {
        let entry = self
            .shard(place)?
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&place.0)?;
        let same = entry.key.named == *named && entry.key.is_of(question);
        same.then(|| Arc::clone(&entry.decision))
    }

    pub(crate) fn insert(
        &self,
        place: CacheSlot,
        question: &Question<'_>,
        named: NamedPrincipal,
        decision: &Arc<Decision>,
    ) {
        let entry = Arc::new(Entry {
            key: Key::of(question, named),
            decision: Arc::clone(decision),
        });
        if let Some(shard) = self.shard(place) {
            shard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(place.0, entry);
        }
    }

    fn shard(&self, place: CacheSlot) -> Option<&Mutex<Generations<u64, Arc<Entry>>>> {
        // The low bits choose the shard; the map mixes the whole value again.
        let shards = u64::try_from(SHARDS).unwrap_or(1);
        self.shards.get(usize::try_from(place.0 % shards).ok()?)
    }
}

impl Key {
    fn of(question: &Question<'_>, named: NamedPrincipal) -> Self {
        let Question {
            principal,
            tool,
            plan,
            grants: _,
        } = question;
        Self {
            agent: principal.agent.clone(),
            ancestors: principal.ancestors.clone(),
            session_kind: principal.session_kind,
            channel: principal.channel.clone(),
            named,
            tool: tool.key.clone(),
            action: plan.action().cloned(),
            groups: tool.groups.to_vec(),
            actions: tool.actions.to_vec(),
            usual_effects: tool.effects,
            effects: plan.effects(),
            tier: plan.tier(),
            network: plan.egress().is_some(),
            accesses: plan.accesses().to_vec(),
            workspace: plan.workspace().to_owned(),
            read_from: plan.read_from().clone(),
            masks: plan.masks().clone(),
        }
    }

    fn is_of(&self, question: &Question<'_>) -> bool {
        let Question {
            principal,
            tool,
            plan,
            grants: _,
        } = question;
        self.accesses == plan.accesses()
            && self.tool == *tool.key
            && self.action.as_ref() == plan.action()
            && self.agent == principal.agent
            && self.ancestors == principal.ancestors
            && self.session_kind == principal.session_kind
            && self.channel == principal.channel
            && self.groups == tool.groups
            && self.actions == tool.actions
            && self.usual_effects == tool.effects
            && self.effects == plan.effects()
            && self.tier == plan.tier()
            && self.network == plan.egress().is_some()
            && self.workspace == plan.workspace()
            && self.read_from == *plan.read_from()
            && self.masks == *plan.masks()
    }
}

/// Hashes what differs most often, in few large pieces, and returns the question's size. Comparing
/// keys covers the rest.
fn hash(question: &Question<'_>, hasher: &mut impl Hasher) -> usize {
    let principal = question.principal;
    let mut bytes = 0;
    let mut text = |text: &str| {
        bytes += text.len();
        hasher.write(text.as_bytes());
    };
    text(question.tool.key.tool.as_str());
    text(question.plan.action().map_or("", ActionName::as_str));
    text(principal.agent.as_str());
    for ancestor in &principal.ancestors {
        text(ancestor.as_str());
    }
    question
        .plan
        .read_from()
        .iter()
        .map(Label::as_str)
        .for_each(&mut text);
    for access in question.plan.accesses() {
        match access {
            Access::Path(path) => {
                text(path.path.as_str());
                if let Some(resolved) = &path.resolved {
                    text(resolved.as_str());
                }
                text(path.protected.as_deref().unwrap_or_default());
            }
            Access::Command(command) => {
                text(command.cwd.as_str());
                match &command.command {
                    Command::Shell(script) => text(script),
                    Command::Argv(argv) => argv.iter().for_each(|word| text(word)),
                }
            }
            Access::Process(process) => text(&process.text()),
            Access::Host { host, .. } => text(host),
            Access::Database { source, .. } => text(source),
            Access::Message { channel, target } => {
                text(channel);
                text(target);
            }
            Access::RemoteTool { provider, tool } => {
                text(provider);
                text(tool);
            }
            Access::Custom(custom) => {
                text(custom.kind().as_str());
                text(custom.target().as_str());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_survives_and_the_rest_is_forgotten() {
        let mut cache = Generations::new(2);
        cache.insert(1, "one");
        cache.insert(2, "two");
        cache.insert(3, "three");
        assert_eq!(cache.get(&1), Some("one"));
        cache.insert(4, "four");
        assert_eq!(cache.get(&1), Some("one"));
        assert_eq!(cache.get(&2), None);
        assert!(cache.young.len() + cache.old.len() <= 4);
    }
}
