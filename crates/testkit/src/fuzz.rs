//! Fuzzing on a stable compiler: known inputs are mutated and run against a property that must hold
//! for any bytes. For parsers of hostile input; one harness each, in a module called `fuzz`.
//!
//! A round is a fixed number of inputs made from one seed, so that a test does the same on a slow
//! machine and a failure can be repeated from the printed seed. A test runs two rounds from fixed
//! seeds, so that no change fails because of an older bug; `just fuzz` runs rounds from fresh seeds
//! for a minute. Coverage is not measured: inputs that the parser accepts are mutated further, and
//! nothing else leads deeper. Read next: [`mutate`](self) for how inputs are made, any `fuzz.rs`
//! for a harness.

mod mutate;
mod shrink;

use std::{
    any::Any,
    hash::{BuildHasher as _, RandomState},
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

use self::mutate::Mutator;

/// How many seconds each harness runs with fresh seeds; unset means not at all.
const SECONDS: &str = "HAFT_FUZZ_SECONDS";

/// The one seed to run, to repeat a failure.
const SEED: &str = "HAFT_FUZZ_SEED";

/// The seeds of the rounds in every run.
const FIXED_SEEDS: [u64; 2] = [11, 12];

/// The longest input, unless the harness sets another.
const LONGEST: usize = 4 * 1024;

/// How many inputs a round tries, unless the harness sets another number.
const INPUTS: usize = 2_000;

/// What a parser did with an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseOutcome {
    /// It was accepted, and everything the property says about the result was checked.
    Taken,
    /// It was refused.
    Refused,
}

impl ParseOutcome {
    /// `Taken` for `Ok`, `Refused` for `Err`.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() {
            Self::Taken
        } else {
            Self::Refused
        }
    }
}

/// One harness: what to mutate, and how much.
pub struct Fuzz {
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    longest: usize,
    inputs: usize,
}

impl Fuzz {
    /// A harness over known inputs, most of which the parser should accept.
    pub fn seeds(seeds: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        let seeds: Vec<Vec<u8>> = seeds.into_iter().map(Into::into).collect();
        assert!(!seeds.is_empty(), "there is nothing to mutate");
        Self {
            seeds,
            words: Vec::new(),
            longest: LONGEST,
            inputs: INPUTS,
        }
    }

    /// Pieces with a meaning to the parser, inserted anywhere.
    #[must_use]
    pub fn words(mut self, words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_vec());
        self.words.extend(words);
        self
    }

    /// The longest input, in bytes.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// How many inputs a round tries.
    #[must_use]
    pub fn inputs(mut self, inputs: usize) -> Self {
        self.inputs = inputs;
        self
    }

    /// Runs the harness. The property panics if it does not hold.
    ///
    /// # Panics
    ///
    /// With the seed and a shortened input if the property does not hold. Also if next to nothing
    /// was accepted or nothing was refused, because then the property proves nothing.
    pub fn run(&self, mut property: impl FnMut(&[u8]) -> ParseOutcome) {
        if let Some(seed) = number(SEED) {
            self.round(seed, &mut property);
            return;
        }
        let mut tally = Tally::default();
        for seed in &self.seeds {
            tally.count(attempt(seed, &mut property, "a known input"));
        }
        for seed in FIXED_SEEDS {
            tally.add(self.round(seed, &mut property));
        }
        if let Some(seconds) = number(SECONDS) {
            let (begun, time) = (Instant::now(), Duration::from_secs(seconds));
            while begun.elapsed() < time {
                tally.add(self.round(seed_of_the_moment(), &mut property));
            }
        }
        report(&tally.to_string());
        assert!(
            tally.taken * 100 > tally.inputs() && tally.refused > 0,
            "the harness tries too little: {tally}"
        );
    }

    /// Tries the inputs that one seed makes.
    fn round(&self, seed: u64, property: &mut impl FnMut(&[u8]) -> ParseOutcome) -> Tally {
        report(&format!("fuzzing with {SEED}={seed}"));
        let named = format!("{SEED}={seed}");
        let mut mutator = Mutator::new(seed, &self.seeds, &self.words, self.longest);
        let mut tally = Tally::default();
        for _ in 0..self.inputs {
            let input = mutator.next_input();
            let parsed = attempt(&input, property, &named);
            tally.count(parsed);
            if parsed == ParseOutcome::Taken {
                mutator.learn(input);
            }
        }
        tally
    }
}

/// How many inputs were accepted and refused.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    taken: usize,
    refused: usize,
}

impl Tally {
    fn count(&mut self, parsed: ParseOutcome) {
        match parsed {
            ParseOutcome::Taken => self.taken += 1,
            ParseOutcome::Refused => self.refused += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.refused += other.refused;
    }

    fn inputs(self) -> usize {
        self.taken + self.refused
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inputs = self.inputs();
        write!(
            f,
            "{inputs} inputs, {} taken, {} refused",
            self.taken, self.refused
        )
    }
}

/// Tries one input. If the property fails, shortens the input and reports it.
fn attempt(
    input: &[u8],
    property: &mut impl FnMut(&[u8]) -> ParseOutcome,
    named: &str,
) -> ParseOutcome {
    match caught(input, property) {
        Ok(parsed) => parsed,
        Err(why) => {
            let (short, short_why) =
                shrink::shrink(input.to_vec(), why, |bytes| caught(bytes, property).err());
            panic!(
                "{named}: {short_why}\n  input ({} of {} bytes): b\"{}\"",
                short.len(),
                input.len(),
                short.escape_ascii()
            );
        }
    }
}

/// The property's result for an input, or why it failed.
fn caught(
    input: &[u8],
    property: &mut impl FnMut(&[u8]) -> ParseOutcome,
) -> Result<ParseOutcome, String> {
    let tried = shrink::quietly(|| panic::catch_unwind(AssertUnwindSafe(|| property(input))));
    tried.map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// A fresh seed.
fn seed_of_the_moment() -> u64 {
    RandomState::new().hash_one(0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the knobs of fuzzing are read"
)]
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("`{variable}` is a whole number, not `{text}`")))
}

/// Printed before a round, so that a process that dies in it has named its seed.
#[expect(clippy::print_stderr, reason = "the report of a test")]
fn report(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure message of a property.
    fn failure(inputs: usize, property: impl FnMut(&[u8]) -> ParseOutcome) -> String {
        let fuzz = Fuzz::seeds(["abcdefgh", "12345678"])
            .words(["needle"])
            .inputs(inputs);
        let run = panic::catch_unwind(AssertUnwindSafe(|| fuzz.run(property)));
        message(run.expect_err("it holds").as_ref())
    }

    #[test]
    fn what_breaks_a_property_is_found_and_cut_to_what_matters() {
        let parse = |bytes: &[u8]| {
            let found = bytes.windows(6).any(|window| window == b"needle");
            assert!(!found, "found it");
            if bytes.len() > 4 {
                ParseOutcome::Taken
            } else {
                ParseOutcome::Refused
            }
        };
        let message = failure(2_000, parse);
        assert!(
            message.starts_with("HAFT_FUZZ_SEED=11: found it"),
            "{message}"
        );
        assert!(message.ends_with("b\"needle\""), "{message}");
    }

    #[test]
    fn a_harness_that_tries_nothing_fails() {
        let message = failure(100, |_| ParseOutcome::Refused);
        assert!(message.contains("tries too little"), "{message}");
        let message = failure(100, |_| ParseOutcome::Taken);
        assert!(message.contains("tries too little"), "{message}");
    }

    #[test]
    fn a_seed_makes_the_same_inputs_again() {
        let inputs = |seed| {
            let mut seen = Vec::new();
            Fuzz::seeds(["abc", "def"])
                .inputs(200)
                .round(seed, &mut |bytes: &[u8]| {
                    seen.push(bytes.to_vec());
                    ParseOutcome::Taken
                });
            seen
        };
        assert_eq!(inputs(5), inputs(5));
        assert_ne!(inputs(5), inputs(6));
    }
}
