//! Which names a statement gives to queries of its own by `WITH`. SQLite tells its authorizer such a
//! name exactly as it tells the name of a view, so whoever answers has to know them apart.
//!
//! Words are split as SQLite's own tokenizer splits them, apart from the parser of the first fence:
//! what that one misunderstood must not be misunderstood here too. Anything of the form `name AS (`
//! counts, so a named window does as well: too many names refuse a statement, too few let one through.

use std::collections::BTreeSet;

/// A word or a sign of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// A bare word: a name or a keyword.
    Word(String),
    /// A name or a text in quotes; SQLite takes each for the other.
    Quoted(String),
    Open,
    Close,
    Sign,
}

/// The names, in lower case. None if the statement cannot be split into words surely.
pub(super) fn with_names(statement: &str) -> Option<BTreeSet<String>> {
    let pieces = pieces(statement)?;
    let mut names = BTreeSet::new();
    for (index, piece) in pieces.iter().enumerate() {
        if is_word(Some(piece), "as")
            && is_query(&pieces, index + 1)
            && let Some(name) = name_before(&pieces, index)
        {
            names.insert(name.to_lowercase());
        }
    }
    Some(names)
}

/// Whether `(`, `MATERIALIZED (` or `NOT MATERIALIZED (` stands here.
fn is_query(pieces: &[Piece], mut at: usize) -> bool {
    if is_word(pieces.get(at), "not") {
        at += 1;
    }
    if is_word(pieces.get(at), "materialized") {
        at += 1;
    }
    pieces.get(at) == Some(&Piece::Open)
}

/// The name before `AS`, with or without a list of columns between.
fn name_before(pieces: &[Piece], at: usize) -> Option<&str> {
    let mut before = pieces.get(..at)?.iter().rev();
    let mut open = 0_usize;
    loop {
        match before.next()? {
            Piece::Close => open += 1,
            Piece::Open => open = open.checked_sub(1)?,
            Piece::Word(name) | Piece::Quoted(name) if open == 0 => return Some(name),
            Piece::Sign if open == 0 => return None,
            Piece::Word(_) | Piece::Quoted(_) | Piece::Sign => {}
        }
    }
}

fn is_word(piece: Option<&Piece>, word: &str) -> bool {
    matches!(piece, Some(Piece::Word(text)) if text.eq_ignore_ascii_case(word))
}

fn pieces(statement: &str) -> Option<Vec<Piece>> {
    let mut rest = statement;
    let mut pieces = Vec::new();
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..)?;
        rest = match first {
            ' ' | '\t' | '\n' | '\r' | '\u{c}' => after,
            '-' if after.starts_with('-') => after.split_once('\n').map_or("", |(_, next)| next),
            '/' if after.starts_with('*') => {
                let comment = after.get(1..)?;
                comment.split_once("*/").map_or("", |(_, next)| next)
            }
            '(' => {
                pieces.push(Piece::Open);
                after
            }
            ')' => {
                pieces.push(Piece::Close);
                after
            }
            '\'' | '"' | '`' => {
                let (text, next) = quoted(after, first)?;
                pieces.push(Piece::Quoted(text));
                next
            }
            '[' => {
                let (text, next) = after.split_once(']')?;
                pieces.push(Piece::Quoted(text.to_owned()));
                next
            }
            // A placeholder may go on with `::` and `(…)`, which SQLite reads as a part of its name.
            '$' | '@' | ':' | '#' | '?' => {
                let next = after.trim_start_matches(is_of_a_name);
                if next.starts_with('(') || next.starts_with("::") {
                    return None;
                }
                pieces.push(Piece::Sign);
                next
            }
            // White space to SQLite, unless within a name.
            '\u{feff}' => return None,
            _ if is_of_a_name(first) => {
                let next = rest.trim_start_matches(is_of_a_name);
                let word = rest.strip_suffix(next).unwrap_or(rest);
                pieces.push(Piece::Word(word.to_owned()));
                next
            }
            _ => {
                pieces.push(Piece::Sign);
                after
            }
        };
    }
    Some(pieces)
}

/// What stands within quotes of which two in a row stand for one, and what follows.
fn quoted(mut rest: &str, quote: char) -> Option<(String, &str)> {
    let mut text = String::new();
    loop {
        let (part, next) = rest.split_once(quote)?;
        text.push_str(part);
        match next.strip_prefix(quote) {
            Some(more) => {
                text.push(quote);
                rest = more;
            }
            None => return Some((text, next)),
        }
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(statement: &str, expect: &[&str]) {
        let names = with_names(statement).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expect, "{statement}");
    }

    #[test]
    fn every_way_to_write_a_name_of_with_is_found() {
        check("SELECT a AS b FROM t", &[]);
        check("SELECT CAST(a AS TEXT), (SELECT 1) AS x FROM t AS u", &[]);
        check("WITH Users AS (SELECT 1) SELECT * FROM users", &["users"]);
        check("with users as materialized(select 1) select 1", &["users"]);
        check("WITH u AS NOT MATERIALIZED (SELECT 1) SELECT 1", &["u"]);
        check("WITH\"us\"\"ers\"AS(SELECT 1) SELECT 1", &["us\"ers"]);
        check("WITH 'users' AS (SELECT 1) SELECT 1", &["users"]);
        check("WITH [a b](c, d) AS (SELECT 1, 2) SELECT 1", &["a b"]);
        check("WITH `u`/**/AS/* ( */(SELECT 1) SELECT 1", &["u"]);
        check(
            "WITH a AS (SELECT 1), b(x) AS (SELECT 2) SELECT 1",
            &["a", "b"],
        );
        check("SELECT (WITH c AS (SELECT 1) SELECT 1)", &["c"]);
        check("WITH u -- AS\nAS (SELECT 1) SELECT 1", &["u"]);
        check("SELECT 'WITH x AS (SELECT 1)', \"y AS (\"", &[]);
        check(
            "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a)",
            &["w"],
        );
        check("SELECT ?1, $2, :a AS x", &[]);
    }

    #[test]
    fn what_cannot_be_split_surely_is_told() {
        for statement in [
            "SELECT $a(') x",
            "SELECT $a::b('",
            "SELECT 'open",
            "SELECT [open",
            "WITH a \u{feff}AS (SELECT 1) SELECT 1",
        ] {
            assert_eq!(with_names(statement), None, "{statement}");
        }
    }
}
