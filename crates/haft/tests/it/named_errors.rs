//! Whoever calls a function of this crate can name the error that it returns.

use std::collections::BTreeSet;

/// What `haft` offers, as CI compares it with the code.
const OFFERED: &str = include_str!("../../../../docs/public-api/haft.txt");

/// What it offers as a whole: everything public in them has a name.
const WHOLE: [&str; 3] = ["haft", "haft_contract", "haft_runtime"];

/// The second argument of each `Result` in a signature.
fn errors(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("Result<") {
        let (mut depth, mut begun) = (0, None);
        let start = at + "Result<".len();
        for (offset, letter) in line[start..].char_indices() {
            let here = start + offset;
            match letter {
                '<' | '(' => depth += 1,
                ',' if depth == 0 => begun = Some(here + 1),
                '>' | ')' if depth > 0 => depth -= 1,
                '>' => {
                    found.extend(begun.map(|begun| line[begun..here].trim()));
                    break;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn every_error_of_a_signature_has_a_name_here() {
    let names: BTreeSet<&str> = OFFERED
        .lines()
        .filter_map(|line| line.strip_prefix("pub use haft::error::"))
        .collect();
    let signatures = OFFERED.lines().filter(|line| line.contains(" fn "));
    let errors: BTreeSet<&str> = signatures.flat_map(errors).collect();
    assert!(errors.len() > 3, "{errors:?}");
    let unnamed: Vec<_> = errors
        .iter()
        .filter(|error| error.contains("::"))
        // How a call ended is no error type; it is an outcome wherever it is given.
        .filter(|error| !error.ends_with("outcome::Outcome>"))
        .filter(|error| {
            let name = error.rsplit("::").next().unwrap_or_default();
            let of = error.split("::").next().unwrap_or_default();
            !names.contains(name) && !WHOLE.contains(&of)
        })
        .collect();
    assert!(unnamed.is_empty(), "not in `haft::error`: {unnamed:?}");
}

#[test]
fn an_error_is_found_wherever_it_stands() {
    let line =
        "pub async fn f(&self) -> core::result::Result<Vec<(A, B)>, haft_host::error::HostError>";
    assert_eq!(errors(line), ["haft_host::error::HostError"]);
    let nested = "fn g() -> Result<Result<(), a::First>, b::Second>";
    assert_eq!(errors(nested), ["b::Second", "a::First"]);
    assert!(errors("fn h() -> core::fmt::Result").is_empty());
}
