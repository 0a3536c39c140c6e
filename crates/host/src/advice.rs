//! What the command line can tell a person beyond what the runtime told the model: where paths
//! start, which line would allow a call, which command shows more. Does not look at the disk, so it
//! never reveals what exists.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    Access, CallEvent, ErrorKind, Outcome, Principal, SealedPlan,
    event::{EventSink, RecordedEvent},
    host::Verdict,
    outcome::DeniedBy,
};

use crate::{
    config::Settings,
    mount::{MountPlan, Unknown},
    own_tools::off_until_named,
    suggest::Suggest,
};

/// Records the plan of a call and suggests what to do if it does not succeed.
pub struct Advice {
    place: AdviceContext,
    suggest: Suggest,
    principal: Arc<Principal>,
    mounts: Arc<MountPlan>,
    plan: Mutex<Option<Arc<SealedPlan>>>,
}

/// The directories the tools and the person are in.
#[derive(Debug, Clone)]
pub struct AdviceContext {
    workspace: PathBuf,
    current_dir: PathBuf,
}

impl AdviceContext {
    /// From a configuration and the directory the program was started in.
    pub fn new(settings: &Settings, current_dir: &Path) -> Self {
        Self {
            workspace: match settings.elsewhere() {
                Some(elsewhere) => PathBuf::from(elsewhere.root()),
                None => settings.places.workspace.clone(),
            },
            current_dir: current_dir.to_owned(),
        }
    }

    /// Where a missing path was looked for, if that is not where the person is.
    fn not_here(&self, plan: Option<&SealedPlan>) -> Option<String> {
        if self.current_dir == self.workspace {
            return None;
        }
        let mut text = format!(
            "paths are relative to the workspace `{}`",
            self.workspace.display()
        );
        let below = self.current_dir.strip_prefix(&self.workspace).ok();
        if let (Some(below), Some(path)) = (below, plan.and_then(only_path)) {
            let meant = below.join(path);
            // Writing to a `String` cannot fail.
            let _ = write!(text, "; did you mean `{}`?", meant.display());
        }
        Some(text)
    }
}

impl Advice {
    /// For the calls of one principal.
    pub fn new(
        place: AdviceContext,
        suggest: Suggest,
        principal: Arc<Principal>,
        mounts: Arc<MountPlan>,
    ) -> Self {
        Self {
            place,
            suggest,
            principal,
            mounts,
            plan: Mutex::new(None),
        }
    }

    /// The hint for a call that did not succeed: the runtime's, plus what only the command line
    /// knows.
    pub fn hint(&self, tool: &str, outcome: &Outcome) -> Option<String> {
        let error = outcome.error.as_ref()?;
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plan.as_deref();
        let own = if outcome.facts.denied_by == Some(DeniedBy::Policy) {
            let decision = outcome.facts.decision.as_ref();
            // What the tool itself was refused, such as a private address, no rule would change.
            let decision = decision.filter(|decision| decision.verdict == Verdict::Deny);
            match decision.and_then(|decision| decision.rule.as_ref()) {
                Some(rule) if rule.line.is_some() => Some(self.suggest.about_denial()),
                Some(_) => None,
                None if decision.is_none() => None,
                None => plan.and_then(|plan| self.suggest.to_allow(&self.principal, plan)),
            }
        } else {
            match error.kind {
                ErrorKind::NotFound => self.place.not_here(plan),
                ErrorKind::UnknownTool => match self.mounts.about_unknown(tool) {
                    // No name is similar, because none is known yet.
                    Some(Unknown::Unseen(hint)) => return Some(hint),
                    Some(Unknown::Other(hint)) => Some(hint),
                    None => match off_until_named(tool) {
                        // A tool of a similar name would not do the same.
                        Some(off) => return Some(format!("{}; {}", off.reason, off.hint)),
                        None => Some("`haft tools` lists the tools".to_owned()),
                    },
                },
                ErrorKind::InvalidInput => outcome
                    .tool
                    .as_ref()
                    .map(|key| format!("`haft tools {}` shows its parameters", key.tool)),
                _ => None,
            }
        };
        match (&error.hint, own) {
            // Wording for a model that has no command line.
            (Some(generic), Some(own)) if GENERIC.contains(&generic.as_str()) => Some(own),
            (Some(hint), Some(own)) if hint.ends_with('?') => Some(format!("{hint} {own}")),
            (Some(hint), Some(own)) => Some(format!("{hint}; {own}")),
            (Some(hint), None) => Some(hint.clone()),
            (None, own) => own,
        }
    }
}

/// Hints of the runtime that say less than the command line can.
const GENERIC: [&str; 2] = [
    "list the tools to see their names",
    "see the tool's input schema",
];

impl EventSink for Advice {
    fn happened(&self, happened: &RecordedEvent) {
        if let CallEvent::Planned { plan } = &happened.event {
            *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(plan));
        }
    }
}

/// The path a plan is about, if there is only one.
fn only_path(plan: &SealedPlan) -> Option<String> {
    let mut paths = plan.accesses().iter().filter_map(|access| match access {
        Access::Path(path) => Some(path.path.to_string()),
        Access::Command(_)
        | Access::Process(_)
        | Access::Host { .. }
        | Access::Database { .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => None,
    });
    paths.next().filter(|_| paths.next().is_none())
}
