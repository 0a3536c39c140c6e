//! The repeating end of a session's calls: the longest run of last calls that consists of at most
//! two different calls, each with one result.
//!
//! Two slots are enough for any length, so nothing here grows.

use super::watched::Fingerprint;

/// How often a call has been seen in the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SeenInTail {
    /// How often.
    pub(super) times: u32,
    /// Whether another call came in between.
    pub(super) alternating: bool,
}

/// The repeating end of a session's calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// The last call that ended.
    last: Option<RepeatedCall>,
    /// How often it occurred at the end of the tail without the other in between.
    run: u32,
    /// The one other call in the tail.
    other: Option<RepeatedCall>,
}

/// A call that keeps returning the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RepeatedCall {
    call: Fingerprint,
    result: Fingerprint,
    times: u32,
}

impl RepeatedCall {
    fn is(&self, call: Fingerprint, result: Fingerprint) -> bool {
        self.call == call && self.result == result
    }
}

impl Tail {
    /// How often a call has been seen.
    pub(super) fn seen(&self, call: Fingerprint) -> SeenInTail {
        let found = [self.last, self.other]
            .into_iter()
            .flatten()
            .find(|repeated| repeated.call == call);
        match found {
            Some(repeated) => SeenInTail {
                times: repeated.times,
                alternating: self.other.is_some(),
            },
            None => SeenInTail::default(),
        }
    }

    /// Adds a call and its result, and returns how often it has now been seen.
    pub(super) fn note(&mut self, call: Fingerprint, result: Fingerprint) -> SeenInTail {
        if let Some(last) = self.last.as_mut().filter(|last| last.is(call, result)) {
            last.times = last.times.saturating_add(1);
            self.run = self.run.saturating_add(1);
            return self.seen(call);
        }
        let (times, other) = match self.other {
            // The other of the two again: both stay.
            Some(other) if other.is(call, result) => (other.times.saturating_add(1), self.last),
            // A third call, or one of the two with another result: whatever preceded the run of the
            // last call is no longer part of the tail.
            _ => {
                let run = self.run;
                let last = self.last.filter(|last| last.call != call);
                (1, last.map(|last| RepeatedCall { times: run, ..last }))
            }
        };
        self.other = other;
        self.last = Some(RepeatedCall {
            call,
            result,
            times,
        });
        self.run = 1;
        self.seen(call)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn print(of: u8) -> Fingerprint {
        Fingerprint([of; 16])
    }

    /// A reference implementation: walk back while there are at most two calls, with one result
    /// each.
    fn by_definition(steps: &[(u8, u8)]) -> SeenInTail {
        let &(call, _) = steps.last().expect("a step");
        let mut tail: Vec<(u8, u8)> = Vec::new();
        for &step in steps.iter().rev() {
            let mut distinct = tail.clone();
            distinct.push(step);
            distinct.sort_unstable();
            distinct.dedup();
            let mut calls: Vec<u8> = distinct.iter().map(|(call, _)| *call).collect();
            calls.dedup();
            if distinct.len() > 2 || calls.len() != distinct.len() {
                break;
            }
            tail.push(step);
        }
        let times = tail.iter().filter(|step| step.0 == call).count();
        SeenInTail {
            times: u32::try_from(times).expect("few"),
            alternating: times != tail.len(),
        }
    }

    /// Calls by letter; `a1` is call `a` with result `1`.
    fn check(steps: &str, times: u32) {
        let mut tail = Tail::default();
        let mut seen = SeenInTail::default();
        for step in steps.split(' ') {
            let [call, result] = step.as_bytes() else {
                panic!("two letters: {step}");
            };
            seen = tail.note(print(*call), print(*result));
        }
        assert_eq!(seen.times, times, "{steps}");
    }

    #[test]
    fn what_repeats_is_counted_and_what_changes_is_not() {
        check("a1", 1);
        check("a1 a1 a1", 3);
        check("a1 b1 a1 b1 a1", 3);
        check("a1 b1 b1 a1 a1", 3);
        // Another result of the same call starts over.
        check("a1 a1 a2", 1);
        check("a1 a2 a1 a2 a1", 1);
        check("a1 b1 a1 b2 a1", 2);
        // A third call breaks the repetition.
        check("a1 b1 c1 a1", 1);
        check("t1 e1 t1 e2 t1 e3 t1", 2);
        check("a1 a1 b1 c1 b1 b1", 3);
    }

    proptest! {
        #[test]
        fn two_slots_count_what_the_whole_history_would(
            steps in prop::collection::vec((0_u8..4, 0_u8..3), 1..60),
        ) {
            let mut tail = Tail::default();
            for (index, &(call, result)) in steps.iter().enumerate() {
                let seen = tail.note(print(call), print(result));
                prop_assert_eq!(seen, by_definition(&steps[..=index]));
            }
        }
    }
}
