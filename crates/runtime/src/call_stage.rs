//! How far a call in flight has got, for whoever lists what is running. Read from the events of the
//! call, so that no stage has to report it.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use haft_contract::{CallEvent, host::Verdict};

/// The stage that a call in flight is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallStage {
    /// Its workspace and its record are being opened.
    Open,
    /// Its tool is looked up by name.
    Resolve,
    /// Its input is checked against the tool's schema.
    Validate,
    /// Its plan is made.
    Plan,
    /// Policy judges its plan.
    Decide,
    /// A person is asked.
    Approve,
    /// It waits for other calls that touch the same things.
    Admit,
    /// Its start is recorded.
    Start,
    /// Its tool runs.
    Run,
    /// Its outcome is put together and recorded.
    Settle,
}

impl CallStage {
    const ALL: [Self; 10] = [
        Self::Open,
        Self::Resolve,
        Self::Validate,
        Self::Plan,
        Self::Decide,
        Self::Approve,
        Self::Admit,
        Self::Start,
        Self::Run,
        Self::Settle,
    ];

    /// The stage in one word, as the architecture names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolve => "resolve",
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::Decide => "decide",
            Self::Approve => "approve",
            Self::Admit => "admit",
            Self::Start => "start",
            Self::Run => "run",
            Self::Settle => "settle",
        }
    }

    /// The stage that follows an event; `None` if the call stays where it is.
    fn after(event: &CallEvent) -> Option<Self> {
        Some(match event {
            CallEvent::Opened { .. } => Self::Resolve,
            CallEvent::Resolved { .. } => Self::Validate,
            CallEvent::Validated { .. } => Self::Plan,
            CallEvent::Planned { .. } => Self::Decide,
            CallEvent::Decided { decision } if decision.verdict == Verdict::Ask => Self::Approve,
            CallEvent::Decided { .. } | CallEvent::ApprovalAnswered { .. } => Self::Admit,
            CallEvent::ApprovalAsked { .. } => Self::Approve,
            CallEvent::Admitted { .. } => Self::Start,
            CallEvent::RunEnded | CallEvent::Settled { .. } => Self::Settle,
            _ => return None,
        })
    }
}

impl std::fmt::Display for CallStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where one call notes its stage. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StageMark(Arc<AtomicU8>);

impl StageMark {
    /// Moves on as an event says.
    pub(crate) fn follow(&self, event: &CallEvent) {
        if let Some(stage) = CallStage::after(event) {
            self.0.store(stage as u8, Ordering::Relaxed);
        }
    }

    /// Moves on once the start is recorded.
    pub(crate) fn set_running(&self) {
        self.0.store(CallStage::Run as u8, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> CallStage {
        let stage = usize::from(self.0.load(Ordering::Relaxed));
        // Only numbers of stages are stored.
        CallStage::ALL
            .get(stage)
            .copied()
            .unwrap_or(CallStage::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_read_as_it_was_stored() {
        for (number, stage) in CallStage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, number);
        }
        let mark = StageMark::default();
        assert_eq!(mark.get(), CallStage::Open);
        mark.clone().follow(&CallEvent::RunEnded);
        assert_eq!(mark.get(), CallStage::Settle);
        mark.follow(&CallEvent::Running);
        assert_eq!(mark.get(), CallStage::Settle);
    }
}
