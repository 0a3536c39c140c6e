//! Programs that start another one named among their words: `npx jest`, `python -m pip`, `uv run pytest`.

use super::{options::has, segment::family, word::Word};

/// A program that a launcher starts.
pub(super) struct LaunchedCommand {
    /// Its words.
    pub(super) words: Vec<Word>,
    /// How many words of the launcher precede it.
    pub(super) place: usize,
    /// Whether all of them are known to change nothing about it.
    pub(super) plain: bool,
}

/// Letters of Python that take no value.
const PYTHON_FLAGS: &str = "bBdEhiIOPqsSuvVx";

/// What a launcher starts.
pub(super) fn launched(name: &str, words: &[Word]) -> Option<LaunchedCommand> {
    match (family(name), words.get(1).and_then(Word::text)) {
        ("python" | "pypy", _) => module(words, 1, "-u -B -I -s -E -q -W -X"),
        ("coverage", Some("run")) => module(words, 2, "--branch"),
        ("npx" | "bunx" | "pnpx", _) => operand(words, 1, "--no-install --no"),
        ("uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye", Some("run")) => {
            operand(words, 2, "--offline --frozen --locked --no-sync -q --quiet")
        }
        ("bundle", Some("exec")) => operand(words, 2, ""),
        _ => None,
    }
}

/// The first word that is no option.
fn operand(words: &[Word], from: usize, harmless: &str) -> Option<LaunchedCommand> {
    let places = from..words.len();
    let mut places = places.filter(|place| {
        let word = words.get(*place);
        word.is_some_and(|word| !word.may_be_option())
    });
    let place = places.next()?;
    Some(LaunchedCommand {
        words: words.get(place..)?.to_vec(),
        place,
        plain: options_are(words.get(from..place)?, harmless),
    })
}

/// What follows `-m`, in every spelling: `-m pip`, `-mpip`, `-Im pip`.
fn module(words: &[Word], from: usize, harmless: &str) -> Option<LaunchedCommand> {
    let mut place = from;
    while let Some(word) = words.get(place) {
        let text = word
            .text()
            .filter(|text| text.starts_with('-') && *text != "-")?;
        if matches!(text, "-W" | "-X" | "--check-hash-based-pycs" | "--source") {
            place += 2;
            continue;
        }
        let letters = text.trim_start_matches('-');
        let flags = letters.trim_start_matches(|c| PYTHON_FLAGS.contains(c));
        if !text.starts_with("--")
            && let Some(name) = flags.strip_prefix('m')
        {
            let plain =
                letters.len() == flags.len() && options_are(words.get(from..place)?, harmless);
            let (inner, place) = if name.is_empty() {
                (words.get(place + 1..)?.to_vec(), place + 1)
            } else {
                let rest = words.get(place + 1..)?.iter().cloned();
                let inner = std::iter::once(Word::literal(name)).chain(rest);
                (inner.collect(), place)
            };
            return (!inner.is_empty()).then_some(LaunchedCommand {
                words: inner,
                place,
                plain,
            });
        }
        // `-c` takes the rest of the words.
        if text.starts_with('-') && !text.starts_with("--") && flags.starts_with('c') {
            return None;
        }
        place += 1;
    }
    None
}

fn options_are(words: &[Word], harmless: &str) -> bool {
    words.iter().all(|word| {
        let text = word.text();
        text.is_some_and(|text| !text.starts_with('-') || has(harmless, text))
    })
}
