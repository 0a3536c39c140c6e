//! The fuzz target's function over known scripts and mutations of them, so that it runs on every
//! build; `cargo +nightly fuzz run shell` looks further.

use std::time::{Duration, Instant};

use toml::{Table, Value};

use crate::shell_bytes::hold;

/// How many mutations are tried.
const MUTATIONS: usize = 1500;
/// The longest one script may take in a build without optimisation.
const LONGEST: Duration = Duration::from_secs(3);

/// Every script of the attack groups that is not repeated.
fn seeds() -> Vec<String> {
    let texts = [
        include_str!("../../../../attacks/sh.toml"),
        include_str!("../../../../attacks/ai.toml"),
    ];
    let mut seeds = Vec::new();
    for text in texts {
        let table: Table = text.parse().unwrap();
        for case in table["case"].as_array().unwrap() {
            for key in ["asks", "denies", "twin"] {
                let scripts = case.get(key).and_then(Value::as_array);
                let scripts = scripts.into_iter().flatten().filter_map(Value::as_str);
                seeds.extend(scripts.map(str::to_owned));
            }
        }
    }
    seeds
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

fn mutated(seeds: &[String], numbers: &mut Numbers) -> Vec<u8> {
    const PIECES: [&str; 24] = [
        "if ", "while ", "until ", "case ", "! ", "[[ ", "time ", "else ", "$(", ")", "`", "'",
        "\"", "\\", "<<E\n", "\n", ";", "&&", "|", "{", "}", "${", "\0", "\u{202e}",
    ];
    let mut bytes = seeds[numbers.below(seeds.len())].clone().into_bytes();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => {
                let piece = PIECES[numbers.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            1 if at < bytes.len() => {
                bytes.remove(at);
            }
            2 => bytes.truncate(at),
            3 if at < bytes.len() => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
            _ => {
                let other = seeds[numbers.below(seeds.len())].as_bytes();
                bytes.splice(at..at, other.iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn known_scripts_and_their_mutations_are_read_in_time() {
    let seeds = seeds();
    let mut numbers = Numbers(4);
    let mutations = (0..MUTATIONS).map(|_| mutated(&seeds, &mut numbers));
    let known = seeds.iter().map(|seed| seed.clone().into_bytes());
    for bytes in known.chain(mutations.collect::<Vec<_>>()) {
        let quick = || {
            let begun = Instant::now();
            hold(&bytes);
            begun.elapsed() < LONGEST
        };
        // What takes long takes long each time; a machine that stops does not.
        let in_time = (0..5).any(|_| quick());
        assert!(in_time, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

/// Whatever is repeated, however often: no script makes a parser call itself until the stack of a
/// worker thread is full, which would end the process and not only the call.
#[test]
fn no_repetition_overflows_the_stack_of_a_worker() {
    const STACK: usize = 2 * 1024 * 1024;
    const PIECES: [&str; 16] = [
        "if ",
        "while ",
        "until ",
        "for x in a; do ",
        "case ",
        "case x in x) ",
        "select x in a; do ",
        "! ",
        "{ ",
        "( ",
        "(",
        "[[ ",
        "[[ ! ",
        "time ",
        "coproc ",
        "function f ",
    ];
    let scripts = PIECES.iter().flat_map(|piece| {
        [4, 8, 32, 64, 600, 64 * 1024 / piece.len()]
            .into_iter()
            .map(|count| piece.repeat(count.min(64 * 1024 / piece.len())))
    });
    let scripts: Vec<String> = scripts.collect();
    let mixed = "if ! { time ( while [[ ".repeat(6);
    let worker = std::thread::Builder::new().stack_size(STACK);
    let worker = worker.spawn(move || {
        for script in scripts.iter().chain([&mixed]) {
            hold(script.as_bytes());
        }
    });
    worker.unwrap().join().unwrap();
}
