//! Paths that the code of an interpreter quotes: `python3 -c "open('.env')"`, or a here-document.
//!
//! The sandbox hides what a deny rule names from such code, whatever it says. Where the code says it
//! plainly, a person is asked all the same: somebody wanted that nobody reads it.

use haft_contract::WorkPath;

use super::{
    options::has,
    segment::family,
    touch::{Directories, PathTarget, RUN_A_FILE},
    word::Word,
};

/// The most paths that are looked at in the code of one command.
const MAX_QUOTED: usize = 256;

/// The longest text that is taken for a path.
const MAX_BYTES: usize = 512;

/// The workspace paths that code among the words or beside them quotes; empty if the command is not
/// an interpreter.
pub(super) fn quoted_paths(
    at: &Directories<'_>,
    name: &str,
    words: &[Word],
    beside: &[String],
) -> Vec<WorkPath> {
    if !has(RUN_A_FILE, family(name)) {
        return Vec::new();
    }
    let words = words.iter().skip(1).map(Word::shown);
    let texts = words.chain(beside.iter().map(String::as_str));
    let quoted = texts.filter(|text| text.contains(QUOTES)).flat_map(|text| {
        let pieces = text.split(QUOTES);
        pieces.filter(|piece| may_be_path(piece))
    });
    let mut found = Vec::new();
    for text in quoted.take(MAX_QUOTED) {
        if let PathTarget::Inside(paths) | PathTarget::Lost(paths) = at.place(text) {
            found.extend(paths);
        }
    }
    found
}

const QUOTES: [char; 3] = ['\'', '"', '`'];

fn may_be_path(text: &str) -> bool {
    let between = |c: char| c.is_whitespace() || c.is_control() || "(){};".contains(c);
    !text.is_empty() && text.len() <= MAX_BYTES && !text.contains(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(name: &str, words: &[&str], beside: &str) -> Vec<String> {
        let root = WorkPath::root();
        let at = Directories::new("/ws", &root);
        let words: Vec<Word> = words.iter().map(|word| Word::literal(*word)).collect();
        let found = quoted_paths(&at, name, &words, &[beside.to_owned()]);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn code_names_what_it_quotes() {
        let words = ["python3", "-c", "print(open('.env').read())"];
        assert!(quoted("python3", &words, "").contains(&".env".to_owned()));
        let body = "<<'EOF'\nimport x\nx.read(\"config/.env\")\nEOF";
        assert!(quoted("node", &["node"], body).contains(&"config/.env".to_owned()));
    }

    #[test]
    fn a_message_is_not_code() {
        let words = ["git", "commit", "-m", "Ignore '.env'"];
        assert!(quoted("git", &words, "").is_empty());
    }
}
