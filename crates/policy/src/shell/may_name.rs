//! Every path in the workspace that the words of a command may name. An approval binds the files
//! among them, so an extra path costs nothing and a missing one is a hole.

use crate::protected::protecting_rule;

use super::{
    parsed::Redirection,
    touch::{Directories, PathTarget},
    word::Word,
};

/// The most paths that one command is considered to name.
const MAX_NAMED: usize = 1_024;

/// Signs after which a path may begin inside a word: `--file=x`, `if=x`, `@x`, `a:x`.
pub(super) const BEFORE_PATHS: [char; 5] = ['=', '@', ':', ',', '+'];

/// Every text in a word that a program may interpret as a path: all of it, what follows a sign, and
/// what is attached to an option after any letter of a cluster.
pub(super) fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.match_indices(BEFORE_PATHS).map(|(sign, _)| sign + 1);
    let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let cluster = letters.map_or(0, |letters| {
        letters
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(letters.len())
    });
    let starts = std::iter::once(0).chain(inside).chain(2..=cluster + 1);
    // After a sign, `//host/x` is the rest of a URL; `file:///x` is a path.
    let address =
        |start: usize, path: &str| start > 0 && path.starts_with("//") && !path.starts_with("///");
    starts
        .filter_map(move |start| text.get(start..).map(|path| (start, path)))
        .filter(move |(start, path)| !path.is_empty() && !address(*start, path))
        .map(|(_, path)| path)
}

/// The indexes of words that may name a protected path, or a file that becomes one when its last
/// extension is removed (`haft.toml.gz`).
pub(super) fn may_be_protected(at: &Directories<'_>, words: &[Word]) -> Vec<usize> {
    let is_protected = |text: &str| match at.place(text) {
        PathTarget::Inside(paths) | PathTarget::Lost(paths) => paths
            .iter()
            .any(|path| protecting_rule(path.as_str()).is_some()),
        PathTarget::Nowhere | PathTarget::Outside(_) | PathTarget::Host(..) => false,
    };
    let may_be = |word: &Word| {
        let mut paths = word.text().into_iter().flat_map(paths_in);
        paths.any(|path| {
            let shorter = path.rsplit_once('.').map(|(before, _)| before);
            is_protected(path) || shorter.is_some_and(is_protected)
        })
    };
    let places = 1..words.len();
    let found = places.filter(|place| words.get(*place).is_some_and(may_be));
    found.collect()
}

/// The value attached to an option (`--file=x`, `-fx`), or the word itself. In a cluster of letters
/// (`-rfx`) the value may begin after any of them.
pub(super) fn without_option(word: &Word) -> Vec<Word> {
    let Some(text) = word.text().filter(|text| text.len() > 1) else {
        return vec![word.clone()];
    };
    let after_sign = text.split_once('=').map(|(_, value)| value);
    let values: Vec<&str> = match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(_), _) => after_sign.into_iter().collect(),
        (None, Some(letters)) => {
            let first = letters.char_indices().skip(1).take(1);
            let cluster = letters
                .char_indices()
                .take_while(|(_, letter)| letter.is_ascii_alphanumeric())
                .map(|(at, letter)| at + letter.len_utf8());
            let mut starts: Vec<usize> = first.map(|(at, _)| at).chain(cluster).collect();
            starts.dedup();
            let values = starts.into_iter().filter_map(|start| letters.get(start..));
            values
                .chain(after_sign)
                .filter(|value| !value.is_empty())
                .collect()
        }
        (None, None) => Vec::new(),
    };
    if values.is_empty() {
        return vec![word.clone()];
    }
    values.into_iter().map(Word::literal).collect()
}

/// Every absolute workspace path that a word, the value of an option or a redirection may name, in
/// any position. The caller checks which of them exist.
pub(super) fn may_name(
    at: &Directories<'_>,
    words: &[Word],
    redirections: &[Redirection],
) -> Vec<String> {
    let texts: Vec<&str> = words
        .iter()
        .skip(1)
        .chain(redirections.iter().map(|redirection| &redirection.target))
        .filter_map(Word::text)
        .filter(|text| !text.is_empty() && !text.contains(char::is_control))
        .collect();
    let mut found = Vec::new();
    let mut add = |text: &str| {
        if text.is_empty() || found.len() > MAX_NAMED {
            return;
        }
        let paths = match at.place(text) {
            PathTarget::Inside(paths) | PathTarget::Lost(paths) => paths,
            PathTarget::Nowhere | PathTarget::Outside(_) | PathTarget::Host(..) => return,
        };
        for path in paths {
            let path = format!("{}/{path}", at.root.trim_end_matches('/'));
            if !found.contains(&path) {
                found.push(path);
            }
        }
    };
    // A program may change directory first: `env -C dir ./s`, `make -C dir`.
    let elsewhere: Vec<&str> = texts
        .iter()
        .enumerate()
        .filter_map(|(place, text)| match *text {
            "-C" | "--chdir" | "--directory" => texts.get(place + 1).copied(),
            text => ["--chdir=", "--directory=", "-C"]
                .iter()
                .find_map(|option| text.strip_prefix(option)),
        })
        .collect();
    for text in &texts {
        for path in paths_in(text) {
            add(path);
            for directory in &elsewhere {
                add(&format!("{directory}/{path}"));
            }
        }
    }
    let program = words.first().and_then(Word::text).unwrap_or_default();
    for directory in &elsewhere {
        if program.contains('/') {
            add(&format!("{directory}/{program}"));
        }
    }
    if program
        .rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("python") || name.starts_with("pypy"))
    {
        for text in &texts {
            add(&format!("{text}/__main__.py"));
        }
    }
    found
}
