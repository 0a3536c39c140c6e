//! What is sent to a MariaDB server: the words and signs that were read here, written once more.
//!
//! The server's grammar has hundreds of words that are names in one place and orders in another
//! (`SELECT SQL_CACHE email` reads the column `email`, and to the parser here `email` is what a column
//! `SQL_CACHE` is called). So a word is written bare only if it is one of those the reader knows, or the
//! name of a function that is called; every other word is written as a quoted name, which is all it can
//! be then. Strings are quoted in one way, and comments are gone.

use std::{collections::HashSet, sync::LazyLock};

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{
    RefusedStatement, SqlDialect,
    canonical::{number, sources, unreadable},
    functions::is_harmless,
};

/// Words of the grammar that the reader knows wherever they stand.
static GRAMMAR: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("mariadb_words.txt")
        .split_whitespace()
        .collect()
});

/// Makes `MOD` between two values the sign `%`, which the parser knows: it is no name unless quoted.
pub(super) fn with_signs(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut opens = false;
    for token in tokens.iter_mut().rev() {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word)
                if !opens
                    && word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("mod") =>
            {
                token.token = Token::Mod;
            }
            _ => {}
        }
        opens = token.token == Token::LParen;
    }
    tokens
}

/// Of an `UPDATE`, the words that find its rows. This server does not say which rows it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpdatedRows {
    /// The table, with its other name if it has one.
    pub(crate) table: String,
    /// What stands behind `WHERE`.
    pub(crate) condition: Option<String>,
    /// How many placeholders that has: the last ones of the statement.
    pub(crate) placeholders: usize,
}

/// Writes the statement of these words, and says which of them find the rows of an `UPDATE`.
pub(super) fn write(
    statement: &str,
    tokens: &[TokenWithSpan],
) -> Result<(String, Option<UpdatedRows>), RefusedStatement> {
    let sources = sources(statement, tokens);
    if sources.len() != tokens.len() {
        return Err(RefusedStatement::new("the statement could not be read"));
    }
    check_neighbours(tokens)?;
    let words = tokens.iter().zip(sources).filter(|(token, _)| {
        // There is one statement: what stands before and after it goes.
        !matches!(token.token, Token::Whitespace(_) | Token::SemiColon)
    });
    let words: Vec<(&Token, &str)> = words
        .map(|(token, source)| (&token.token, source))
        .collect();
    let mut writer = Writer {
        written: String::with_capacity(statement.len() + statement.len() / 4),
        place: 0,
        verb: String::new(),
        depth: 0,
        ends: UpdateEnds::default(),
    };
    let mut before = None;
    let mut rest = words.as_slice();
    while let Some(((token, source), after)) = rest.split_first() {
        let next = after.first().map(|(token, _)| *token);
        writer.add(before, token, source, next)?;
        (before, rest) = (Some(*token), after);
    }
    let updated = writer.updated();
    Ok((writer.written, updated))
}

/// Where parts of an `UPDATE` end in what is written.
#[derive(Debug, Default)]
struct UpdateEnds {
    /// What stands before `SET`.
    table: Option<usize>,
    /// `WHERE` itself, behind which the condition begins.
    where_word: Option<usize>,
    /// How many placeholders stand behind it.
    placeholders: usize,
}

/// The statement as far as it is written.
struct Writer {
    written: String,
    /// How many words and signs there are already.
    place: usize,
    /// What the statement begins with, in lower case.
    verb: String,
    /// How many parentheses are open.
    depth: usize,
    ends: UpdateEnds,
}

impl Writer {
    fn add(
        &mut self,
        before: Option<&Token>,
        token: &Token,
        source: &str,
        next: Option<&Token>,
    ) -> Result<(), RefusedStatement> {
        let word = match token {
            Token::Word(word) if word.quote_style.is_none() => {
                if !is_plain_word(&word.value) {
                    return Err(match word.value.chars().next() {
                        Some('@') => RefusedStatement::unlisted("a variable"),
                        Some('$') => placeholder(),
                        Some(_) | None => unreadable(source),
                    });
                }
                let lower = word.value.to_ascii_lowercase();
                if self.place == 0 {
                    self.verb.clone_from(&lower);
                }
                if self.is_bare(&lower, next)? {
                    word.value.clone()
                } else {
                    name(&word.value)
                }
            }
            Token::Word(word) if word.quote_style == Some('`') => name(&word.value),
            token => sign(token, source)?,
        };
        let ended = self.written.len();
        if !self.written.is_empty() && is_apart(before, token) {
            self.written.push(' ');
        }
        self.written.push_str(&word);
        self.place += 1;
        self.note(token, ended);
        Ok(())
    }

    /// Notes where a part of an `UPDATE` ended before this word.
    fn note(&mut self, token: &Token, ended: usize) {
        match token {
            Token::LParen => self.depth += 1,
            Token::RParen => self.depth = self.depth.saturating_sub(1),
            Token::Placeholder(_) if self.ends.where_word.is_some() => {
                self.ends.placeholders += 1;
            }
            Token::Word(word) if self.depth == 0 && word.quote_style.is_none() => {
                if self.ends.table.is_none() && word.value.eq_ignore_ascii_case("set") {
                    self.ends.table = Some(ended);
                }
                if self.ends.where_word.is_none() && word.value.eq_ignore_ascii_case("where") {
                    self.ends.where_word = Some(self.written.len());
                }
            }
            _ => {}
        }
    }

    fn updated(&self) -> Option<UpdatedRows> {
        if self.verb != "update" {
            return None;
        }
        let table = self.written.get("update ".len()..self.ends.table?)?;
        let condition = self.ends.where_word;
        let condition = condition.and_then(|at| self.written.get(at..));
        Some(UpdatedRows {
            table: table.to_owned(),
            condition: condition.map(|condition| condition.trim_start().to_owned()),
            placeholders: self.ends.placeholders,
        })
    }

    /// Whether a word is the grammar's, or a function's that is called.
    fn is_bare(&self, word: &str, next: Option<&Token>) -> Result<bool, RefusedStatement> {
        let verb = self.verb.as_str();
        Ok(match word {
            "insert" | "update" | "delete" if self.place == 0 => true,
            "replace" if self.place == 0 => {
                return Err(RefusedStatement::new(
                    "`REPLACE` removes rows that it does not name; write an `INSERT` or an `UPDATE`",
                ));
            }
            "into" if self.place == 1 && verb == "insert" => true,
            "into" => {
                return Err(RefusedStatement::new(
                    "`SELECT … INTO` makes a file or sets a variable; to name a column `into`, quote it",
                ));
            }
            "default" => verb == "insert" || verb == "update",
            word => {
                GRAMMAR.contains(word)
                    || next == Some(&Token::LParen) && is_harmless(SqlDialect::MariaDb, word)
            }
        })
    }
}

/// One word or sign that is neither a word of the grammar nor a name.
fn sign(token: &Token, source: &str) -> Result<String, RefusedStatement> {
    match token {
        Token::Number(digits, false) if !digits.contains('_') => {
            number(digits).ok_or_else(|| unreadable(source))
        }
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => string(text, source),
        Token::HexStringLiteral(digits) if digits.chars().all(|c| c.is_ascii_hexdigit()) => {
            if source.starts_with(['x', 'X']) {
                Ok(format!("X'{digits}'"))
            } else if source.starts_with("0x") && !digits.is_empty() {
                Ok(format!("0x{digits}"))
            } else {
                Err(unreadable(source))
            }
        }
        Token::SingleQuotedByteStringLiteral(bits)
            if bits.chars().all(|c| matches!(c, '0' | '1')) =>
        {
            Ok(format!("b'{bits}'"))
        }
        Token::Placeholder(text) if text == "?" => Ok(text.clone()),
        Token::Placeholder(text) if text.starts_with('@') => {
            Err(RefusedStatement::unlisted("a variable"))
        }
        Token::Placeholder(_) | Token::Colon => Err(placeholder()),
        Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::Period
        | Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::LtEq
        | Token::Gt
        | Token::GtEq
        | Token::Spaceship
        | Token::Ampersand
        | Token::Pipe
        | Token::Caret
        | Token::Tilde
        | Token::ShiftLeft
        | Token::ShiftRight
        | Token::ExclamationMark
        | Token::Overlap
        | Token::StringConcat => Ok(token.to_string()),
        Token::NationalStringLiteral(_) => Err(RefusedStatement::new(
            "strings of another character set (`N'…'`) are not read; leave the letter out",
        )),
        Token::AtSign | Token::Assignment => Err(RefusedStatement::unlisted("a variable")),
        _ => Err(unreadable(source)),
    }
}

fn placeholder() -> RefusedStatement {
    RefusedStatement::new("placeholders are written `?` in this database")
}

/// A string, with what `NO_BACKSLASH_ESCAPES` would change about it verified on every connection.
fn string(text: &str, source: &str) -> Result<String, RefusedStatement> {
    // `\a` and `\f` are the letters to the server; a raw character of this kind was refused before.
    if text.contains(['\u{7}', '\u{c}']) {
        return Err(unreadable(source));
    }
    let mut written = String::with_capacity(text.len() + 2);
    written.push('\'');
    for c in text.chars() {
        match c {
            '\'' => written.push_str("''"),
            '\\' => written.push_str("\\\\"),
            '\0' => written.push_str("\\0"),
            '\u{1a}' => written.push_str("\\Z"),
            c => written.push(c),
        }
    }
    written.push('\'');
    Ok(written)
}

fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

fn is_plain_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
}

/// Whether a space stands before a word. A result's column is called what stands here, so the text
/// looks as people write it; a function's name must touch its parenthesis.
fn is_apart(before: Option<&Token>, token: &Token) -> bool {
    let opens = match before {
        Some(Token::LParen | Token::Period) => true,
        Some(Token::Word(_)) => *token == Token::LParen,
        _ => false,
    };
    !opens && !matches!(token, Token::RParen | Token::Comma | Token::Period)
}

/// Refuses what the server would join or split: strings side by side are one string to it, and a number
/// may be the beginning of a name.
fn check_neighbours(tokens: &[TokenWithSpan]) -> Result<(), RefusedStatement> {
    let is_string = |token: &Token| {
        matches!(
            token,
            Token::SingleQuotedString(_)
                | Token::DoubleQuotedString(_)
                | Token::HexStringLiteral(_)
                | Token::SingleQuotedByteStringLiteral(_)
        )
    };
    let is_number = |token: &Token| matches!(token, Token::Number(..) | Token::HexStringLiteral(_));
    for pair in tokens.windows(2) {
        let [one, other] = pair else { continue };
        let (one, other) = (&one.token, &other.token);
        let touches = match other {
            Token::Word(_) | Token::Period | Token::Number(..) => is_number(one),
            _ => false,
        };
        if touches || *one == Token::Period && is_number(other) {
            return Err(RefusedStatement::new(
                "a number runs into a name; put a space between, or quote the name",
            ));
        }
    }
    let words = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let words: Vec<&Token> = words.collect();
    let joined = words
        .windows(2)
        .any(|pair| matches!(pair, [one, other] if is_string(one) && is_string(other)));
    if joined {
        return Err(RefusedStatement::new(
            "two strings side by side, which are one string to the server; write one, or `AS` before \
             a name",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::text;

    fn written(statement: &str) -> Result<String, RefusedStatement> {
        all(statement).map(|(written, _)| written)
    }

    fn all(statement: &str) -> Result<(String, Option<UpdatedRows>), RefusedStatement> {
        let tokens = with_signs(text::tokens(SqlDialect::MariaDb, statement)?);
        write(statement, &tokens)
    }

    #[test]
    fn the_words_that_find_the_rows_of_an_update() {
        for (statement, table, condition, placeholders) in [
            ("UPDATE t SET a = 1", "`t`", None, 0),
            (
                "update `where` AS o set `set` = ?, b = (SELECT c FROM u WHERE d = ?) where e IN (?, ?) AND f = ?;",
                "`where` AS `o`",
                Some("`e` IN(?, ?) AND `f` = ?"),
                3,
            ),
            (
                "UPDATE t SET a = 'where' WHERE b = (SELECT 1 FROM u WHERE c = 'set')",
                "`t`",
                Some("`b` = (SELECT 1 FROM `u` WHERE `c` = 'set')"),
                0,
            ),
        ] {
            let expected = UpdatedRows {
                table: table.to_owned(),
                condition: condition.map(str::to_owned),
                placeholders,
            };
            assert_eq!(all(statement).unwrap().1, Some(expected), "{statement}");
        }
        for statement in ["SELECT a FROM t WHERE b", "DELETE FROM t WHERE a = 1"] {
            assert_eq!(all(statement).unwrap().1, None, "{statement}");
        }
    }

    #[test]
    fn a_statement_is_written_in_one_way() {
        for (statement, expected) in [
            ("SELECT a,b FROM t;", "SELECT `a`, `b` FROM `t`"),
            ("SELECT/* all */1 # x\n+3 -- y", "SELECT 1 + 3"),
            ("SELECT 'it''s', \"a\\\"b\\n\"", "SELECT 'it''s', 'a\"b\n'"),
            ("SELECT 'a\\\\', '50\\%'", "SELECT 'a\\\\', '50\\\\%'"),
            ("SELECT '\\0\\Z'", "SELECT '\\0\\Z'"),
            ("SELECT `a``b`.`C`", "SELECT `a``b`.`C`"),
            ("SELECT x'fF', b'01', 0xfF", "SELECT X'fF', b'01', 0xfF"),
            ("SELECT count (*), t.*", "SELECT count(*), `t`.*"),
            ("SELECT SQL_CACHE email", "SELECT `SQL_CACHE` `email`"),
            (
                "SELECT a MOD 3, mod(b, 2), `mod`",
                "SELECT `a` % 3, mod(`b`, 2), `mod`",
            ),
            ("SELECT a<=>b AND !c", "SELECT `a` <=> `b` AND ! `c`"),
            ("SELECT 5--1", "SELECT 5 - - 1"),
            ("SELECT _latin1'x'", "SELECT `_latin1` 'x'"),
            ("SELECT score(1)", "SELECT `score`(1)"),
            ("SELECT 'é', '日本' AS `名`", "SELECT 'é', '日本' AS `名`"),
            (
                "SELECT date FROM t FOR UPDATE",
                "SELECT date FROM `t` FOR `UPDATE`",
            ),
            (
                "INSERT INTO t VALUES (DEFAULT)",
                "INSERT INTO `t` VALUES(DEFAULT)",
            ),
            ("SELECT a FROM t LIMIT ?", "SELECT `a` FROM `t` LIMIT ?"),
        ] {
            assert_eq!(written(statement).as_deref(), Ok(expected), "{statement}");
        }
    }

    #[test]
    fn what_may_be_split_in_two_ways_is_refused() {
        for (statement, why) in [
            ("SELECT 1 /*! , email */", "server would run"),
            ("SELECT 1 /*M!100000 , email */", "server would run"),
            ("SELECT '/*!'", "server would run"),
            ("SELECT 1 /*+ x */", "may act on"),
            ("SELECT /* /* */ 1", "comment within"),
            ("SELECT 'a' 'b'", "side by side"),
            ("SELECT 'a' -- x\n\"b\"", "side by side"),
            ("SELECT 'a\\f'", "something else"),
            ("SELECT N'a'", "character set"),
            ("SELECT @a", "a variable"),
            ("SELECT @@version", "a variable"),
            ("SELECT @a := 1", "a variable"),
            ("REPLACE INTO t VALUES (1)", "removes rows"),
            ("SELECT a INTO @x", "makes a file"),
            ("SELECT a FROM t INTO OUTFILE '/x'", "makes a file"),
            ("SELECT $1", "written `?`"),
            ("SELECT :x", "written `?`"),
            ("SELECT \\N", "something else"),
            ("SELECT a->'$.b'", "something else"),
            ("SELECT {d '2020-01-01'}", "something else"),
            ("SELECT a::int", "something else"),
            ("SELECT 1a FROM t", "something else"),
            ("SELECT t.1 FROM t", ""),
            ("SELECT 0x1G", "runs into"),
            ("SELECT 0b01", ""),
            ("SELECT 1.e", ""),
            ("SELECT émail", "must be quoted"),
        ] {
            let refused = written(statement);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(why), "{statement}: {refused}");
        }
    }
}
