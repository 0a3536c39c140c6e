//! The pages in `docs/spec` and the suites say the same: every case a page names exists, and
//! every case is named by a page.

use std::collections::BTreeSet;

use haft_testkit::{suite::all_cases, tool_style};

const PAGES: [(&str, &str); 3] = [
    (
        "backend.md",
        include_str!("../../../../docs/spec/backend.md"),
    ),
    ("ledger.md", include_str!("../../../../docs/spec/ledger.md")),
    ("tool.md", include_str!("../../../../docs/spec/tool.md")),
];

#[test]
fn every_named_case_exists_and_every_case_is_named() {
    let style = tool_style::CASES.iter();
    let style = style.map(|case| format!("tool_style::{case}"));
    let cases: BTreeSet<String> = all_cases().into_iter().chain(style).collect();
    let named: BTreeSet<String> = PAGES.iter().flat_map(|(_, text)| names(text)).collect();
    let missing: Vec<_> = named.difference(&cases).collect();
    assert!(missing.is_empty(), "named and not there: {missing:?}");
    let silent: Vec<_> = cases.difference(&named).collect();
    assert!(silent.is_empty(), "there and not named: {silent:?}");
}

#[test]
fn every_must_names_its_case() {
    for (page, text) in PAGES {
        for line in text.lines().filter(|line| line.starts_with("- MUST")) {
            assert!(!names(line).is_empty(), "{page}: {line}");
        }
    }
}

/// The `suite::case` names in a text.
fn names(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| word.contains("::"))
        .map(str::to_owned)
        .collect()
}
