//! Reads every sentence a user sees and fails on phrases that no native speaker would write: string
//! literals of production code, help texts, the README, SECURITY.md and the guide.
//!
//! `REFUSED` is the list, each with what to write instead. It must not judge grammar, and it leaves
//! comments alone: `vocabulary.rs` judges those. Read next: `CONTRIBUTING.md`, "Words".

use std::path::Path;

use crate::tidy::{SourceFile, report, strip_tests, tree};

/// A phrase in lower case, what to write instead, and longer phrases in which it is fine. A phrase
/// begins at the beginning of a word.
const REFUSED: &[(&str, &str, &[&str])] = &[
    (
        "is no ",
        "is not a",
        &["there is no ", "is no longer ", "is no more than "],
    ),
    ("are no ", "are not", &["there are no ", "are no longer "]),
    ("was no ", "was not a", &["there was no ", "was no longer "]),
    ("names no ", "does not name a", &[]),
    ("holds no ", "has no, or is empty", &[]),
    ("speaks of", "is about, or covers", &[]),
    ("speak of", "are about, or cover", &[]),
    ("be had", "available", &["be had to"]),
    ("is meant", "say what it is", &[]),
    ("are meant", "say what they are", &[]),
    ("anew", "again", &[]),
    ("any longer", "no longer", &[]),
    ("all the same", "anyway", &[]),
    ("which is told", "say who tells whom", &[]),
    ("is told in", "the outcome says", &[]),
    ("counts for nothing", "Haft ignores it", &[]),
    ("this very", "this, or exactly this", &[]),
    ("left out of account", "ignored", &[]),
    ("turn and turn about", "alternately", &[]),
    ("it stands in", "it is in", &[]),
    ("belong into", "belong in", &[]),
    ("belongs into", "belongs in", &[]),
    ("else than", "other than", &[]),
    ("got round", "bypassed", &[]),
    ("are to be ", "must be, or will be", &[]),
    ("is to be ", "must be, or will be", &[]),
    ("and its like", "and others", &[]),
    ("and their like", "and others", &[]),
    ("of which nothing", "about which nothing", &[]),
    ("nobody knows of", "nobody knows about", &[]),
    ("once you accepted", "once you have accepted", &[]),
    ("until you accepted", "until you accept", &[]),
    ("once you ran", "once you have run", &[]),
    ("as the record has them", "as recorded", &[]),
];

/// Made from the help texts, which are read where they are written.
const GENERATED: &[&str] = &["docs/guide/reference.md"];

#[test]
fn users_read_plain_english() {
    let mut problems = Vec::new();
    let mut sentences = 0;
    for file in tree() {
        for (line, text) in read_by_users(&file) {
            sentences += 1;
            for (phrase, instead) in refused_in(&text) {
                problems.push(format!("{}:{line}: `{phrase}`: {instead}", file.path));
            }
        }
    }
    assert!(sentences > 5_000, "only {sentences} texts were read");
    report(&problems, "Say who does what, in the reader's words.");
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}

/// The texts of a file that a user sees, each with its line.
fn read_by_users(file: &SourceFile) -> Vec<(usize, String)> {
    let path = file.path.as_str();
    if GENERATED.iter().any(|start| path.starts_with(start)) {
        return Vec::new();
    }
    let is_page = ["README.md", "SECURITY.md"].contains(&path)
        || (path.starts_with("docs/guide/") && has_extension(path, "md"));
    if is_page || path == "crates/host/src/config/keys.toml" {
        let lines = file.text.lines().enumerate();
        return lines
            .map(|(index, line)| (index + 1, line.to_owned()))
            .collect();
    }
    let is_production = path.starts_with("crates/")
        && path.contains("/src/")
        && has_extension(path, "rs")
        && !path.starts_with("crates/harness/")
        && !path.starts_with("crates/testkit/")
        && !path.ends_with("/tests.rs");
    if !is_production {
        return Vec::new();
    }
    let text = strip_tests(&file.text);
    let mut texts = literals(&text);
    if path.starts_with("crates/cli/src/commands/") || path == "crates/cli/src/args.rs" {
        texts.extend(help_texts(&text));
    }
    texts
}

/// The refused phrases of a text, each with what to write instead.
fn refused_in(text: &str) -> Vec<(&'static str, &'static str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = format!("{} ", words.join(" ").to_lowercase());
    let is_refused = |phrase: &str, fine: &[&str]| {
        text.match_indices(phrase).any(|(at, _)| {
            let begins_a_word = text
                .get(..at)
                .and_then(|before| before.chars().next_back())
                .is_none_or(|letter| !letter.is_alphanumeric());
            let is_fine = fine.iter().any(|longer| {
                let from = at.saturating_sub(longer.find(phrase).unwrap_or_default());
                text.get(from..)
                    .is_some_and(|rest| rest.starts_with(longer))
            });
            begins_a_word && !is_fine
        })
    };
    REFUSED
        .iter()
        .filter(|(phrase, _, fine)| is_refused(phrase, fine))
        .map(|(phrase, instead, _)| (*phrase, *instead))
        .collect()
}

/// The doc comments of arguments, which clap prints, each with its line. Those of functions and
/// types are comments like any other.
fn help_texts(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut texts = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.strip_prefix("/// ") else {
            continue;
        };
        let mut after = lines.iter().skip(index + 1);
        let item = after.find(|line| !line.starts_with("//"));
        if item.is_some_and(|item| !item.contains("fn ") && !item.contains("const ")) {
            texts.push((index + 1, comment.to_owned()));
        }
    }
    texts
}

/// The string literals of Rust code, each with its line. A `\` at the end of a line joins it to the
/// next.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (taken, literal) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if let Some(marks) = raw_marks(rest) {
            let end = format!("\"{marks}");
            let start = 2 + marks.len();
            let inside = rest.get(start..).unwrap_or_default();
            let length = inside.find(&end).unwrap_or(inside.len());
            let literal = inside.get(..length).unwrap_or_default();
            (start + length + end.len(), Some(literal))
        } else if letter == '"' {
            let inside = rest.get(1..).unwrap_or_default();
            let length = end_of_string(inside);
            (length + 2, inside.get(..length))
        } else if let Some(length) = ["'\"'", "'\\\"'", "'\\''"]
            .iter()
            .find(|literal| rest.starts_with(**literal))
        {
            (length.len(), None)
        } else {
            (letter.len_utf8(), None)
        };
        if let Some(literal) = literal {
            found.push((line, literal.replace("\\\n", " ").replace("\\n", " ")));
        }
        let taken = taken.min(rest.len());
        line += rest.get(..taken).unwrap_or_default().matches('\n').count();
        rest = rest.get(taken..).unwrap_or_default();
    }
    found
}

/// The `#` of a raw string that begins here.
fn raw_marks(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('r')?;
    let marks = rest.len() - rest.trim_start_matches('#').len();
    let (marks, after) = rest.split_at(marks);
    after.starts_with('"').then_some(marks)
}

/// Where a string ends whose opening quote is behind us.
fn end_of_string(inside: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    inside.len()
}

/// The check above is only worth what its readers are worth.
#[test]
fn the_readers_of_sentences_read_right() {
    let code =
        "// \"not this\"\nlet a = \"one \\\" \\\n    two\";\nlet b = ('\"', r#\"is \"no\"\"#);";
    let texts = literals(code);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts[0], (2, "one \\\"      two".to_owned()));
    assert_eq!(texts[1], (4, "is \"no\"".to_owned()));
    assert_eq!(refused_in("it is  no\n number").len(), 1);
    assert!(refused_in("there is no such file; this is no longer open").is_empty());
    assert_eq!(refused_in("There is no file, and it is no file").len(), 1);
    assert!(refused_in("a canewood chair").is_empty());
    let help = "/// Shown\n#[arg(long)]\nflag: bool,\n/// A comment\nfn run() {}";
    assert_eq!(help_texts(help), [(1, "Shown".to_owned())]);
}
