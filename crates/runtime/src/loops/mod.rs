//! The loop guard: notices a session that makes the same call over and over, or two calls turn and
//! turn about, and gets the same result every time. First the result says so, then a person is
//! asked before it happens again.
//!
//! It is no boundary: a call that differs in one letter is another call. It judges nothing that a
//! rule judges, and only ever makes a verdict stricter. What it remembers is in memory, of fixed
//! size per session, for a fixed number of sessions. `tail.rs` counts, `sessions.rs` forgets,
//! `watched.rs` is one call under its eyes.

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

/// How many sessions are remembered. Beyond that the one that has been silent longest is forgotten,
/// which costs it nothing but the count so far.
const MAX_SESSIONS: usize = 4096;

/// What the guard's own questions are recorded under, in place of a rule's file.
pub const LOOP_GUARD: &str = "loop guard";

/// After how many equal results in a row the loop guard speaks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopGuard {
    /// From this many on, the result says that it repeats. 0: never.
    pub warn: u32,
    /// After this many, a person is asked before the call is made again. 0: never.
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

    /// Begins to watch a call; `None` when the guard is off.
    pub(crate) fn watch(&self, request: &CallRequest) -> Option<Arc<WatchedCall>> {
        if self.settings == LoopGuard::OFF {
            return None;
        }
        Some(Arc::new(WatchedCall::new(request, asked(request))))
    }

    /// What policy decided about a watched call, made stricter if it has repeated too often.
    pub(crate) fn weigh(
        &self,
        watched: &WatchedCall,
        plan: &SealedPlan,
        decision: Decision,
    ) -> Decision {
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
        match decision.verdict {
            Verdict::Allow => Decision {
                verdict: Verdict::Ask,
                rule: Some(RuleRef {
                    text: format!("ask = {ask}"),
                    source: LOOP_GUARD.to_owned(),
                    line: None,
                }),
                reason: format!("{what}, so the loop guard asks before it is made again"),
                access: None,
                // Standing approvals that let it pass are not used up when a person answers.
                grants: Vec::new(),
                ..decision
            },
            Verdict::Ask => Decision {
                reason: format!("{}; {what}", decision.reason),
                ..decision
            },
            Verdict::Deny => decision,
        }
    }

    /// Takes note of how a watched call ended, and says so in the outcome when it has repeated.
    pub(crate) fn settle(&self, watched: &WatchedCall, ran: DidRun, outcome: &mut Outcome) {
        // A question of the guard's own that got no yes is no result of the call: counting it
        // would let the next one pass unasked.
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
            "[loop guard: {what}{then}. Nothing changes by repeating it: try something else]"
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

/// What repeats, in words.
fn repetition(tool: &str, seen: SeenInTail) -> String {
    let times = seen.times;
    if seen.alternating {
        format!(
            "the same `{tool}` call has given the same result {times} times, turn and turn about \
             with one other call that did not change either"
        )
    } else {
        format!("the same `{tool}` call has given the same result {times} times in a row")
    }
}
