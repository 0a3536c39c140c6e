//! Which presets apply to whom: to everyone, agents, tenants, users, kinds of session and channels.
//!
//! Presets only ever add up: the strictest answer of all that apply wins.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::{
    AgentId, Principal,
    identity::{ChannelId, Scope, SessionKind, TenantId, UserId},
};

use crate::preset::Preset;

/// Which presets apply to whom. Each file is evaluated separately and the strictest answer wins, so
/// that no section of one file loosens what another says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Presets {
    /// What each file says about everyone and about agents.
    pub(crate) files: Vec<FilePresets>,
    /// By kind of session, in addition to the above.
    pub(crate) sessions: BTreeMap<SessionKind, Preset>,
    /// By channel, in addition to the above.
    pub(crate) channels: BTreeMap<ChannelId, Preset>,
    /// The tenants that have a section, and the preset it names, in addition to the above.
    pub(crate) tenants: BTreeMap<TenantId, Option<Preset>>,
    /// The same for users.
    pub(crate) users: BTreeMap<UserId, Option<Preset>>,
    /// The scopes that rules name.
    pub(crate) scopes: BTreeSet<Scope>,
    /// Whether a rule is about agents that another one started.
    pub(crate) about_subagents: bool,
}

/// What rules can distinguish about the caller besides agent, session and channel: tenant, user,
/// scopes, and whether another agent started it, each only if a rule names it. Anyone not named is
/// like everybody else, so that a cached answer for one of them serves all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct NamedPrincipal {
    pub(crate) tenant: Option<TenantId>,
    pub(crate) user: Option<UserId>,
    pub(crate) scopes: BTreeSet<Scope>,
    pub(crate) is_subagent: bool,
    /// The other kind of session whose rules apply.
    pub(crate) narrowed_from: Option<SessionKind>,
}

/// What one file says about everyone and about agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePresets {
    /// The name of the file.
    pub(crate) source: String,
    /// The preset for everyone without a more specific one.
    pub(crate) everyone: Option<Preset>,
    /// The agents that have a section, and the preset it names.
    pub(crate) agents: BTreeMap<AgentId, Option<Preset>>,
}

impl Presets {
    /// Whether an agent counts as known.
    pub(crate) fn lists(&self, agent: &AgentId) -> bool {
        self.omits(agent).is_none()
    }

    /// The first file that lists agents but not this one.
    pub(crate) fn omits(&self, agent: &AgentId) -> Option<&FilePresets> {
        self.files
            .iter()
            .find(|file| !file.agents.is_empty() && !file.agents.contains_key(agent))
    }

    /// What rules name of a principal.
    pub(crate) fn named(&self, principal: &Principal) -> NamedPrincipal {
        let tenant = self.tenants.contains_key(&principal.tenant);
        let user = self.users.contains_key(&principal.user);
        NamedPrincipal {
            tenant: tenant.then(|| principal.tenant.clone()),
            user: user.then(|| principal.user.clone()),
            scopes: self
                .scopes
                .intersection(&principal.scopes)
                .cloned()
                .collect(),
            narrowed_from: principal.narrowed_from,
            is_subagent: self.about_subagents && principal.is_subagent(),
        }
    }

    /// The presets that apply, without repetition: the agent's own or everyone's, plus those of the
    /// tenant, the user, the session's kind and the channel.
    pub(crate) fn of(&self, principal: &Principal, agent: &AgentId) -> Vec<Preset> {
        let kinds = principal.session_kinds();
        let sessions = kinds.map(|kind| self.sessions.get(&kind).copied());
        let channel = principal.channel.as_ref();
        let channel = channel.and_then(|channel| self.channels.get(channel).copied());
        let mut presets = vec![self.of_agent(agent)];
        let tenant = self.tenants.get(&principal.tenant).copied().flatten();
        let user = self.users.get(&principal.user).copied().flatten();
        let others = [tenant, user, channel].into_iter().chain(sessions);
        for preset in others.flatten() {
            if !presets.contains(&preset) {
                presets.push(preset);
            }
        }
        presets
    }

    fn of_agent(&self, agent: &AgentId) -> Preset {
        strictest(self.files.iter().map(|file| {
            let own = file.agents.get(agent).copied().flatten();
            own.or(file.everyone)
        }))
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.files.iter().flat_map(|file| file.agents.keys())
    }

    pub(crate) fn uses(&self, preset: Preset) -> bool {
        strictest(self.files.iter().map(|file| file.everyone)) == preset
            || self.agents().any(|agent| self.of_agent(agent) == preset)
            || self.sessions.values().any(|used| *used == preset)
            || self.channels.values().any(|used| *used == preset)
            || self.tenants.values().any(|used| *used == Some(preset))
            || self.users.values().any(|used| *used == Some(preset))
    }
}

/// The strictest preset that any file names; `careful` if none does.
fn strictest(named: impl Iterator<Item = Option<Preset>>) -> Preset {
    named.max().flatten().unwrap_or(Preset::Careful)
}
