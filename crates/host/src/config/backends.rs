//! Back ends by name, and who works on which: `[ssh.NAME]` and `[docker.NAME]` beside `[ssh]` and
//! `[docker]`, and `backend` in `[agents.NAME]` and `[sessions.KIND]`.
//!
//! Whoever names none works on that of `[ssh]` or `[docker]`, or on this machine. A caller that
//! narrows itself cannot leave the back end that its agent or its kind of session was given: what it
//! cannot have named itself decides first.

use std::{collections::BTreeMap, fmt};

use haft_backends::{container::backend_id, ssh::ssh_id};
use haft_contract::{AgentId, Principal, SessionKind, ops::BackendId};

use super::{
    Settings,
    docker::DockerSettings,
    file::{Reader, Table, Value},
    ssh::SshSettings,
};
use crate::{
    error::HostError,
    remote_workspace::{id_at, is_name},
};

/// The word for the directory on this machine.
const LOCAL: &str = "local";

/// What reaches a workspace that is not on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKind {
    /// Another machine, over SSH.
    Ssh,
    /// A running container.
    Docker,
}

impl BackendKind {
    const ALL: [Self; 2] = [Self::Ssh, Self::Docker];

    /// The name of its table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Docker => "docker",
        }
    }
}

/// A back end, as `backend` names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendName {
    /// The directory on this machine.
    Local,
    /// That of a table without a name: `[ssh]` or `[docker]`.
    Plain(BackendKind),
    /// That of `[ssh.NAME]` or `[docker.NAME]`.
    Named(BackendKind, String),
}

impl BackendName {
    /// Parses what `backend` may say.
    fn parse(text: &str) -> Option<Self> {
        if text == LOCAL {
            return Some(Self::Local);
        }
        let (kind, name) = text.split_once(':')?;
        let kind = BackendKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)?;
        is_name(name).then(|| Self::Named(kind, name.to_owned()))
    }

    /// Where the configuration says how to reach it: `[ssh.build]`.
    pub fn table(&self) -> Option<String> {
        match self {
            Self::Local => None,
            Self::Plain(kind) => Some(format!("[{}]", kind.as_str())),
            Self::Named(kind, name) => Some(format!("[{}.{name}]", kind.as_str())),
        }
    }

    /// Its id in plans and in the record.
    pub fn id_at(&self, address: &str) -> BackendId {
        id_at(address, self.name())
    }

    /// The name of its table, if it has one of its own.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local | Self::Plain(_) => None,
            Self::Named(_, name) => Some(name),
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str(LOCAL),
            Self::Plain(kind) => f.write_str(kind.as_str()),
            Self::Named(kind, name) => write!(f, "{}:{name}", kind.as_str()),
        }
    }
}

/// A workspace that is not on this machine, and how to reach it.
#[derive(Debug, Clone, PartialEq)]
pub enum Elsewhere {
    /// On another machine.
    Ssh(SshSettings),
    /// In a container.
    Docker(DockerSettings),
}

impl Elsewhere {
    /// What it is called in the record, without the name of a back end.
    fn address(&self) -> String {
        match self {
            Self::Ssh(ssh) => ssh_id(&ssh.destination),
            Self::Docker(docker) => backend_id(&docker.container),
        }
    }

    /// The workspace directory over there, as written.
    pub fn root(&self) -> &str {
        match self {
            Self::Ssh(ssh) => &ssh.root,
            Self::Docker(docker) => &docker.workspace,
        }
    }
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(ssh) => write!(f, "`{}` on `{}`, over SSH", ssh.root, ssh.destination),
            Self::Docker(docker) => write!(
                f,
                "`{}` in the container `{}`, by `{}`",
                docker.workspace,
                docker.container,
                docker.program.name()
            ),
        }
    }
}

/// A `backend` that was set, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BackendOf {
    backend: BackendName,
    /// The file and the line, for messages.
    place: String,
}

/// The back ends of a configuration, and who works on which.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Backends {
    known: BTreeMap<BackendName, Elsewhere>,
    agents: BTreeMap<AgentId, BackendOf>,
    sessions: BTreeMap<SessionKind, BackendOf>,
}

/// The back end that a principal works on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendInForce {
    /// The back end.
    pub backend: BackendName,
    /// Who says so, for a person.
    pub because: String,
}

/// A section whose `backend` may be in force for a principal.
#[derive(Clone, Copy)]
enum Speaker<'p> {
    Agent(&'p AgentId),
    Session(SessionKind),
}

impl<'p> Speaker<'p> {
    /// The sections of a principal, those first that it cannot have named itself: the agent that was
    /// started first, the kind of session it was connected as, and only then what it or a client
    /// added. So nobody leaves a back end by calling itself something else.
    fn in_order(principal: &'p Principal) -> Vec<Self> {
        let mut agents = principal.ancestors.iter().rev().chain([&principal.agent]);
        let mut kinds = principal.session_kinds();
        let mut order: Vec<Self> = agents.next().map(Self::Agent).into_iter().collect();
        order.extend(kinds.next().map(Self::Session));
        order.extend(agents.map(Self::Agent));
        order.extend(kinds.map(Self::Session));
        order
    }
}

impl fmt::Display for Speaker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "[agents.{agent}]"),
            Self::Session(kind) => write!(f, "[sessions.{kind}]"),
        }
    }
}

impl Backends {
    /// Adds what another file says. The files are in order of precedence.
    pub(super) fn join(&mut self, other: Self) -> Result<(), HostError> {
        // One file says where the workspace is, whichever way.
        let has_default = self.default_backend() != BackendName::Local;
        for (name, elsewhere) in other.known {
            match name {
                BackendName::Local => {}
                BackendName::Plain(_) if has_default => {}
                BackendName::Named(..) if self.known.contains_key(&name) => {
                    return Err(HostError::config(
                        format!("two files have {}", name.table().unwrap_or_default()),
                        "give every back end its own name in one of the files",
                    ));
                }
                BackendName::Plain(_) | BackendName::Named(..) => {
                    self.known.insert(name, elsewhere);
                }
            }
        }
        for (agent, used) in other.agents {
            self.agents.entry(agent).or_insert(used);
        }
        for (kind, used) in other.sessions {
            self.sessions.entry(kind).or_insert(used);
        }
        Ok(())
    }

    /// Removes where entries were written, to compare files.
    #[cfg(test)]
    pub(crate) fn forget_places(&mut self) {
        for used in self.agents.values_mut().chain(self.sessions.values_mut()) {
            used.place.clear();
        }
    }

    /// Refuses a `backend` that names none of the back ends.
    pub(super) fn check(&self) -> Result<(), HostError> {
        let agents = self.agents.iter();
        let agents = agents.map(|(agent, used)| (format!("[agents.{agent}]"), used));
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|(kind, used)| (format!("[sessions.{kind}]"), used));
        for (section, BackendOf { backend, place }) in agents.chain(sessions) {
            if *backend == BackendName::Local || self.known.contains_key(backend) {
                continue;
            }
            let table = backend.table().unwrap_or_default();
            return Err(HostError::config(
                format!(
                    "{place}: `backend` in {section} is \"{backend}\", but there is no {table}"
                ),
                format!("there are: {}", self.names().join(", ")),
            ));
        }
        Ok(())
    }

    /// Every name that `backend` may have here.
    fn names(&self) -> Vec<String> {
        let named = self.known.keys().filter(|name| name.name().is_some());
        let named = named.map(|name| format!("\"{name}\""));
        std::iter::once(format!("\"{LOCAL}\""))
            .chain(named)
            .collect()
    }

    /// Every back end that is not on this machine.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&BackendName, &Elsewhere)> {
        self.known.iter()
    }

    /// The id of a back end in plans and in the record.
    pub fn id(&self, name: &BackendName) -> BackendId {
        match self.get(name) {
            Some(elsewhere) => name.id_at(&elsewhere.address()),
            None => BackendId::new(LOCAL),
        }
    }

    /// How to reach a back end; none for the directory on this machine.
    pub fn get(&self, name: &BackendName) -> Option<&Elsewhere> {
        self.known.get(name)
    }

    /// The back end of whoever names none.
    pub fn default_backend(&self) -> BackendName {
        let plain = |name: &&BackendName| matches!(name, BackendName::Plain(_));
        let plain = self.known.keys().find(plain);
        plain.cloned().unwrap_or(BackendName::Local)
    }

    /// Every back end that some calls here may work on, the default first.
    pub fn used(&self) -> Vec<BackendName> {
        let mut used = vec![self.default_backend()];
        for other in self.agents.values().chain(self.sessions.values()) {
            if !used.contains(&other.backend) {
                used.push(other.backend.clone());
            }
        }
        used
    }

    /// The back end that a principal's calls work on.
    pub fn of(&self, principal: &Principal) -> BackendInForce {
        let mut speaking = Speaker::in_order(principal).into_iter();
        let named = speaking.find_map(|speaker| Some((speaker, self.named_by(speaker)?)));
        if let Some((speaker, BackendOf { backend, place })) = named {
            return BackendInForce {
                backend: backend.clone(),
                because: format!("`backend` in {speaker} says so ({place})"),
            };
        }
        let backend = self.default_backend();
        let because = match backend.table() {
            Some(table) => format!("{table} is for everybody who has no `backend`"),
            None => "nothing names another for this caller".to_owned(),
        };
        BackendInForce { backend, because }
    }

    /// Whether callers that act in this principal's name may work on another back end than it does:
    /// another kind of session, or an agent that it started.
    pub fn may_vary_for(&self, principal: &Principal) -> bool {
        // What is added to a principal comes after what it has: who has a back end keeps it.
        let speaking = Speaker::in_order(principal).into_iter();
        let mut speaking = speaking.filter(|speaker| self.named_by(*speaker).is_some());
        self.may_vary() && speaking.next().is_none()
    }

    fn named_by(&self, speaker: Speaker<'_>) -> Option<&BackendOf> {
        match speaker {
            Speaker::Agent(agent) => self.agents.get(agent),
            Speaker::Session(kind) => self.sessions.get(&kind),
        }
    }

    /// Whether anybody works on another back end than the default.
    pub fn may_vary(&self) -> bool {
        !self.agents.is_empty() || !self.sessions.is_empty()
    }

    /// What these back ends mean, for a person: each place, and who works there.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for (name, elsewhere) in &self.known {
            lines.push(match name.name() {
                None => ("workspace", elsewhere.to_string()),
                Some(_) => ("back end", format!("`{name}` is {elsewhere}")),
            });
        }
        lines.extend(self.users().into_iter().map(|line| ("works on", line)));
        lines
    }

    /// Who works on which back end, for a person.
    pub fn users(&self) -> Vec<String> {
        let agents = self
            .agents
            .iter()
            .map(|(agent, used)| (format!("agent `{agent}`"), used));
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|(kind, used)| (format!("sessions of kind `{kind}`"), used));
        let line = |(whom, BackendOf { backend, place }): (String, &BackendOf)| {
            format!("`{backend}` for {whom} ({place})")
        };
        agents.chain(sessions).map(line).collect()
    }
}

impl Settings {
    /// The same settings for a process that acts for this principal: its back end is in force.
    pub fn used_by(mut self, principal: &Principal) -> Result<Self, HostError> {
        let in_force = self.backends.of(principal);
        self.may_reach(&in_force.backend)?;
        self.varies = self.backends.may_vary_for(principal);
        self.backend = in_force.backend;
        Ok(self)
    }

    /// The back end in force.
    pub fn backend(&self) -> &BackendName {
        &self.backend
    }

    /// The back end that a principal works on and why, if there are others than this machine.
    pub fn said_of_backend(&self, principal: &Principal) -> Option<BackendInForce> {
        let others = self.backends.elsewhere().next();
        others.map(|_| self.backends.of(principal))
    }

    /// How to reach the workspace; none if it is on this machine.
    pub fn elsewhere(&self) -> Option<&Elsewhere> {
        self.backends.get(&self.backend)
    }

    /// Refuses a back end that cannot be used with these settings: a home that is meant here is not
    /// one over there.
    pub(crate) fn may_reach(&self, backend: &BackendName) -> Result<(), HostError> {
        if *backend != BackendName::Local && self.backends.get(backend).is_none() {
            return Err(HostError::config(
                format!("there is no back end `{backend}`"),
                format!("there are: {}", self.backends.names().join(", ")),
            ));
        }
        match &self.sandbox.below_home {
            Some(place) if self.backends.get(backend).is_some() => Err(HostError::config(
                format!(
                    "[sandbox] names `{}`, but the back end `{backend}` is not on this machine",
                    place.display()
                ),
                "write an absolute path; Haft does not know `~` on another machine",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Reader<'_> {
    /// Reads `[ssh]`, `[docker]`, their named tables, and who uses which.
    pub(super) fn backends(&mut self, document: &Table<'_>) -> Backends {
        let mut backends = Backends::default();
        for kind in BackendKind::ALL {
            let word = kind.as_str();
            let Some(table) = self.table(document, word) else {
                continue;
            };
            let at = document.get(word).map_or(0, |value| value.span().start);
            let is_plain = |value: &Value<'_>| value.get_ref().as_table().is_none();
            let plain = table.iter().filter(|(_, value)| is_plain(value));
            let plain: Table<'_> = plain
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            if !plain.is_empty() || table.is_empty() {
                if !backends.known.is_empty() && backends.default_backend() != BackendName::Local {
                    self.problem(
                        at,
                        "[ssh] and [docker] both say where the workspace is",
                        "keep one of them, or give one a name: [docker.NAME]",
                    );
                }
                let read = self.elsewhere(kind, &plain, &format!("[{word}]"), at);
                backends
                    .known
                    .extend(read.map(|read| (BackendName::Plain(kind), read)));
            }
            for (name, value) in table {
                let Some(table) = value.get_ref().as_table() else {
                    continue;
                };
                let (at, name) = (name.span().start, name.get_ref().as_ref());
                if !is_name(name) || kind_keys(kind).contains(&name) {
                    self.problem(
                        at,
                        format!("`{}` cannot be the name of a back end", name.escape_debug()),
                        "choose a name of letters, digits, `-` and `_` other than the keys of the table",
                    );
                    continue;
                }
                let title = format!("[{word}.{name}]");
                let read = self.elsewhere(kind, table, &title, at);
                let name = BackendName::Named(kind, name.to_owned());
                backends.known.extend(read.map(|read| (name, read)));
            }
        }
        // Mistakes in the names of sections are policy's to report.
        for (name, used) in self.backends_of(document, "agents") {
            backends
                .agents
                .extend(AgentId::parse(&name).ok().map(|agent| (agent, used)));
        }
        for (name, used) in self.backends_of(document, "sessions") {
            let kind = SessionKind::ALL
                .into_iter()
                .find(|kind| kind.as_str() == name);
            backends.sessions.extend(kind.map(|kind| (kind, used)));
        }
        backends
    }

    fn elsewhere(
        &mut self,
        kind: BackendKind,
        table: &Table<'_>,
        title: &str,
        at: usize,
    ) -> Option<Elsewhere> {
        match kind {
            BackendKind::Ssh => self.ssh(table, title, at).map(Elsewhere::Ssh),
            BackendKind::Docker => self.docker(table, title, at).map(Elsewhere::Docker),
        }
    }

    /// Every `backend` in the sections of one kind.
    fn backends_of(&mut self, document: &Table<'_>, kind: &str) -> Vec<(String, BackendOf)> {
        let sections = document
            .get(kind)
            .and_then(|value| value.get_ref().as_table());
        let mut found = Vec::new();
        for (name, section) in sections.into_iter().flatten() {
            let section = section.get_ref().as_table();
            let Some(value) = section.and_then(|section| section.get("backend")) else {
                continue;
            };
            let name = name.get_ref().to_string();
            found.extend(
                self.backend(value, &format!("[{kind}.{name}]"))
                    .map(|used| (name, used)),
            );
        }
        found
    }

    fn backend(&mut self, value: &Value<'_>, section: &str) -> Option<BackendOf> {
        let at = value.span().start;
        let named = value.get_ref().as_str().and_then(BackendName::parse);
        if named.is_none() {
            self.problem(
                at,
                format!("`backend` in {section} is not a back end"),
                "write \"local\", or \"ssh:NAME\" or \"docker:NAME\" for [ssh.NAME] or [docker.NAME]",
            );
        }
        Some(BackendOf {
            backend: named?,
            place: self.place(at),
        })
    }
}

/// The keys of a table, which are no names.
fn kind_keys(kind: BackendKind) -> &'static [&'static str] {
    match kind {
        BackendKind::Ssh => &super::ssh::KEYS,
        BackendKind::Docker => &super::docker::KEYS,
    }
}

#[cfg(test)]
mod tests;
