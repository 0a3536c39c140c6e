//! What is remembered about each session, for a limited number of sessions; the least recently
//! active one is dropped first.

use std::collections::{BTreeMap, HashMap};

use super::{
    tail::{SeenInTail, Tail},
    watched::Fingerprint,
};
use crate::session_key::SessionKey;

pub(super) struct RecentCalls {
    cap: usize,
    /// Counts notes; orders sessions by when they were last active.
    now: u64,
    tails: HashMap<SessionKey, (u64, Tail)>,
    by_age: BTreeMap<u64, SessionKey>,
}

impl RecentCalls {
    /// Remembers at most `cap` sessions.
    pub(super) fn new(cap: usize) -> Self {
        Self {
            cap,
            now: 0,
            tails: HashMap::new(),
            by_age: BTreeMap::new(),
        }
    }

    /// How often a session has just made this call.
    pub(super) fn seen(&self, whose: &SessionKey, call: Fingerprint) -> SeenInTail {
        self.tails
            .get(whose)
            .map_or_else(SeenInTail::default, |(_, tail)| tail.seen(call))
    }

    /// Adds a call of a session, and returns how often it has now been made.
    pub(super) fn note(
        &mut self,
        whose: &SessionKey,
        call: Fingerprint,
        result: Fingerprint,
    ) -> SeenInTail {
        self.now = self.now.saturating_add(1);
        let now = self.now;
        let (used, tail) = self.tails.entry(whose.clone()).or_default();
        self.by_age.remove(used);
        *used = now;
        let seen = tail.note(call, result);
        self.by_age.insert(now, whose.clone());
        while self.tails.len() > self.cap {
            match self.by_age.pop_first() {
                Some((_, oldest)) => self.tails.remove(&oldest),
                None => break,
            };
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{AgentId, Principal, SessionId, UserId, WorkspaceId};
    use proptest::prelude::*;

    use super::*;

    fn whose(session: u16) -> SessionKey {
        let principal = Principal::local(
            UserId::parse("ada").expect("an id"),
            AgentId::parse("coder").expect("an id"),
            SessionId::parse(&format!("s{session}")).expect("an id"),
        );
        SessionKey::of(&principal, &WorkspaceId::local())
    }

    proptest! {
        #[test]
        fn memory_stays_bounded_whatever_sessions_do(
            steps in prop::collection::vec((0_u16..200, 0_u8..3, 0_u8..2), 1..600),
            cap in 1_usize..20,
        ) {
            let mut sessions = RecentCalls::new(cap);
            for (session, call, result) in steps {
                let whose = whose(session);
                let (call, result) = (Fingerprint([call; 16]), Fingerprint([result; 16]));
                let noted = sessions.note(&whose, call, result);
                prop_assert!(sessions.tails.len() <= cap);
                prop_assert_eq!(sessions.by_age.len(), sessions.tails.len());
                // The most recently active session is never the one forgotten.
                prop_assert_eq!(sessions.seen(&whose, call), noted);
            }
        }
    }

    #[test]
    fn the_session_that_was_silent_longest_is_forgotten() {
        let mut sessions = RecentCalls::new(2);
        let print = Fingerprint([1; 16]);
        for session in [1, 2, 1, 3] {
            sessions.note(&whose(session), print, print);
        }
        assert_eq!(sessions.seen(&whose(1), print).times, 2);
        assert_eq!(sessions.seen(&whose(2), print).times, 0);
        assert_eq!(sessions.seen(&whose(3), print).times, 1);
    }
}
