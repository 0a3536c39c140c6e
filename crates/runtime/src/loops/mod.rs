//! The loop guard: notices a session that makes the same call over and over, or alternates between
//! two calls, and gets the same result every time. First the result says so, then a person is asked
//! before it happens again.
//!
//! It is not a security boundary: a call that differs in one letter is another call. It does not
//! replace any rule, and only ever makes a verdict stricter. Its memory has a fixed size per
//! session, for a fixed number of sessions. `tail.rs` counts, `sessions.rs` forgets, `watched.rs`
//! is one watched call.

mod sessions;
mod tail;
mod watched;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_contract::{
    CallRequest, Content, Outcome, SealedPlan,
    host::{Decision, RuleRef, Verdict},
};

pub(crate) use self::watched::WatchedCall;
use self::{
    sessions::RecentCalls,
    tail::SeenInTail,
    watched::{asked, planned, result},
};

/// How many sessions are remembered. Beyond that the least recently active one is forgotten, which
/// only resets its count.
const MAX_SESSIONS: usize = 4096;

/// Recorded as the source of the guard's own questions, in place of a rule's file.
pub const LOOP_GUARD: &str = "loop guard";

/// After how many equal results in a row the loop guard acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopGuard {
    /// From this many on, the result says that it repeats. 0 means never.
    pub warn: u32,
    /// After this many, a person is asked before the call is made again. 0 means never.
    pub ask: u32,
}

impl LoopGuard {
    /// Neither warns nor asks.
    pub const OFF: Self = Self { warn: 0, ask: 0 };
}

impl Default for LoopGuard {
    fn default() -> Self {
        Self { warn: 3, ask: 6 }
    }
}

/// The guard of one engine.
pub(crate) struct Loops {
    settings: LoopGuard,
    sessions: Mutex<RecentCalls>,
}

impl Loops {
    pub(crate) fn new(settings: LoopGuard) -> Self {
        Self {
            settings,
            sessions: Mutex::new(RecentCalls::new(MAX_SESSIONS)),
        }
    }

    /// Starts watching a call; `None` when the guard is off.
    pub(crate) fn watch(&self, request: &CallRequest) -> Option<Arc<WatchedCall>> {
        if self.settings == LoopGuard::OFF {
            return None;
        }
        Some(Arc::new(WatchedCall::new(request, asked(request))))
    }

    /// Makes policy's decision about a watched call stricter if the call has repeated too often.
    pub(crate) fn weigh(
        &self,
        watched: &WatchedCall,
        plan: &SealedPlan,
        decision: Arc<Decision>,
    ) -> Arc<Decision> {
        let call = watched.plan(planned(plan));
        let ask = self.settings.ask;
        if ask == 0 || decision.verdict == Verdict::Deny {
            return decision;
        }
        let seen = self.sessions().seen(watched.whose(), call);
        if seen.times < ask {
            return decision;
        }
        watched.ask();
        let what = repetition(plan.tool().tool.as_str(), seen);
        let decision = Arc::unwrap_or_clone(decision);
        Arc::new(match decision.verdict {
            Verdict::Allow => Decision {
                verdict: Verdict::Ask,
                rule: Some(RuleRef {
                    text: format!("ask = {ask}"),
                    source: LOOP_GUARD.to_owned(),
                    line: None,
                }),
                reason: format!("{what}, so the loop guard asks before it is made again"),
                access: None,
                // The standing approvals that would let it pass are not used up when a person
                // answers.
                grants: Vec::new(),
                ..decision
            },
            Verdict::Ask => Decision {
                reason: format!("{}; {what}", decision.reason),
                ..decision
            },
            Verdict::Deny => decision,
        })
    }

    /// Records how a watched call ended, and says so in the outcome if it has repeated.
    pub(crate) fn settle(&self, watched: &WatchedCall, ran: DidRun, outcome: &mut Outcome) {
        // A question from the guard that got no yes is not a result of the call: counting it would
        // let the next one pass without asking.
        if ran == DidRun::Not && watched.was_asked() {
            return;
        }
        let call = watched.call();
        let seen = self.sessions().note(watched.whose(), call, result(outcome));
        let warn = self.settings.warn;
        if warn == 0 || seen.times < warn {
            return;
        }
        let tool = outcome
            .tool
            .as_ref()
            .map_or("this", |key| key.tool.as_str());
        let what = repetition(tool, seen);
        let ask = self.settings.ask;
        let then = if ask > 0 && seen.times >= ask {
            "; a person is asked before it is made again"
        } else {
            ""
        };
        outcome.content.push(Content::Text(format!(
            "[loop guard: {what}{then}. Repeating it will not help: try something else]"
        )));
    }

    fn sessions(&self) -> MutexGuard<'_, RecentCalls> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call got as far as running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DidRun {
    /// It was started.
    Yes,
    /// A stage stopped it.
    Not,
}

/// A sentence about what repeats.
fn repetition(tool: &str, seen: SeenInTail) -> String {
    let times = seen.times;
    if seen.alternating {
        format!(
            "the same `{tool}` call has given the same result {times} times, alternating \
             with one other call that did not change either"
        )
    } else {
        format!("the same `{tool}` call has given the same result {times} times in a row")
    }
}
