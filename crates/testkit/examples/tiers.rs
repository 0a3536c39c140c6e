//! Prints the filter expression of nextest that selects a tier, or how many tests each tier has.
//! The recipes of the justfile call it; see `haft_testkit::tier` for how a test says its tier.
//!
//! ```sh
//! cargo run -p haft-testkit --example tiers -- soak
//! ```
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program for maintainers that prints one line"
)]

use std::{env, process::ExitCode};

use haft_testkit::tier::{Tag, Tagged, filter, tagged};

fn main() -> ExitCode {
    let tests = match tagged() {
        Ok(tests) => tests,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let of = |tag: Tag| tests.iter().filter(move |test: &&Tagged| test.tag == tag);
    match env::args().nth(1).as_deref() {
        None => {
            for tag in Tag::ALL {
                println!("{tag}: {}", of(tag).count());
            }
        }
        // What is none of them is fast, and part of it.
        Some("ci") => {
            let others = of(Tag::Soak).chain(of(Tag::Vm)).chain(of(Tag::Child));
            println!("not ({})", filter(others));
        }
        Some("soak") => println!("{}", filter(of(Tag::Soak))),
        Some(_) => {
            eprintln!("usage: tiers [ci|soak]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
