//! How the children of one call ended, and what the sandbox did to them: the limit they exceeded,
//! and what they were refused. Based on what back ends report, never on what a command printed or a
//! tool says.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haft_contract::{
    Content, DeniedBy, Facts,
    ops::{ChildExit, ExitStatus, Layer, Limit, Refusal},
};

/// Collects reports about all children of a call. Most calls have none, so nothing is allocated
/// before there is one.
#[derive(Debug, Default)]
pub(crate) struct Confinement(OnceLock<Arc<ChildReports>>);

/// The reports, shared with every child, which may outlive the guard.
#[derive(Debug, Default)]
pub(crate) struct ChildReports(Mutex<ConfinementNotes>);

#[derive(Debug, Default)]
struct ConfinementNotes {
    status: Option<ExitStatus>,
    exceeded: Option<Limit>,
    refusals: Vec<Refusal>,
}

/// Whether the call did what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallSucceeded {
    Well,
    Wrong,
}

impl Confinement {
    /// Where a child's reports go.
    pub(crate) fn reports(&self) -> &Arc<ChildReports> {
        self.0.get_or_init(Arc::default)
    }

    /// Adds what was noted to the facts of the call, and returns a line for the model about each
    /// refusal that may matter to it.
    pub(crate) fn tell(&self, facts: &mut Facts, went: CallSucceeded) -> Option<Content> {
        self.0.get()?.tell(facts, went)
    }
}

impl ChildReports {
    /// Notes how a child ended. The same end may be noted twice.
    pub(crate) fn note(&self, exit: &ChildExit) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.exceeded = noted.exceeded.or(exit.exceeded);
        for refusal in &exit.refusals {
            if noted.refusals.len() < Refusal::MAX && !noted.refusals.contains(refusal) {
                noted.refusals.push(refusal.clone());
            }
        }
    }

    /// Notes how the process that the call is about ended; if there are several, the last one
    /// counts.
    pub(crate) fn note_end(&self, status: ExitStatus) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.status = Some(status);
    }

    /// If a program merely tried something and succeeded without it, the refusal is not worth a
    /// line.
    fn tell(&self, facts: &mut Facts, went: CallSucceeded) -> Option<Content> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        facts.exceeded = noted.exceeded;
        match noted.status {
            Some(ExitStatus::Code(code)) => facts.exit_code = Some(code),
            Some(ExitStatus::Signal(signal)) => facts.signal = Some(signal),
            None => {}
        }
        if !noted.refusals.is_empty() && went == CallSucceeded::Wrong {
            facts.denied_by = facts.denied_by.or(Some(DeniedBy::Sandbox));
        }
        let lines: Vec<String> = noted
            .refusals
            .iter()
            .filter(|refusal| went == CallSucceeded::Wrong || always_matters(refusal.layer))
            .map(|refusal| format!("[sandbox: {refusal}]"))
            .collect();
        facts.refusals = noted.refusals;
        (!lines.is_empty()).then(|| Content::text(lines.join("\n")))
    }
}

/// An unreachable host or a removed file matters even to a command that reports success.
fn always_matters(layer: Layer) -> bool {
    match layer {
        Layer::Egress | Layer::Protected => true,
        Layer::Namespaces | Layer::Landlock | Layer::Seccomp | Layer::Limits => false,
    }
}
