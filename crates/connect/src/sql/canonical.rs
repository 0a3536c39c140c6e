//! What is sent to a PostgreSQL server: the words and signs that were read here, written once more. The
//! server then splits the text into the same words, whatever it would have made of the original.
//!
//! Comments are gone, strings and quoted names are quoted in one way, and a space stands between any
//! two words. What the server would still split differently is refused, and so is what it would have
//! split differently before, because the statement that runs would not be the one that was sent.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{RefusedStatement, refusal::shown};

/// What PostgreSQL makes operators of.
const OPERATOR_SIGNS: &str = "+-*/<>=~!@#%^&|`?";

/// An operator that ends in `+` or `-` has one of these, or the server splits that sign off.
const ALLOW_A_SIGN_AT_THE_END: &str = "~!@#%^&|`?";

/// Writes the statement of these words.
pub(super) fn write(statement: &str, tokens: &[TokenWithSpan]) -> Result<String, RefusedStatement> {
    let sources = sources(statement, tokens);
    if sources.len() != tokens.len() {
        return Err(RefusedStatement::new("the statement could not be read"));
    }
    check_operators(tokens, &sources)?;
    check_escapes(tokens)?;
    let mut written = String::with_capacity(statement.len());
    for (token, source) in tokens.iter().zip(sources) {
        let word = match &token.token {
            // There is one statement: what stands before and after it goes.
            Token::Whitespace(_) | Token::SemiColon => continue,
            token => word(token, source)?,
        };
        if !written.is_empty() {
            written.push(' ');
        }
        written.push_str(&word);
    }
    Ok(written)
}

/// One word or sign.
fn word(token: &Token, source: &str) -> Result<String, RefusedStatement> {
    match token {
        Token::Word(word) => match word.quote_style {
            None if is_plain_word(&word.value) => Ok(word.value.clone()),
            Some('"') => Ok(format!("\"{}\"", word.value.replace('"', "\"\""))),
            None | Some(_) => Err(unreadable(source)),
        },
        Token::Number(digits, false) => number(digits).ok_or_else(|| unreadable(source)),
        // What its escapes stand for was read, and stands for itself here.
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(string(text)),
        Token::NationalStringLiteral(text) => Ok(format!("N{}", string(text))),
        Token::DollarQuotedString(quoted) => {
            let tag = quoted.tag.as_deref().unwrap_or_default();
            let whole = format!("${tag}${}${tag}$", quoted.value);
            if (tag.is_empty() || is_plain_word(tag)) && source == whole {
                Ok(string(&quoted.value))
            } else {
                Err(unreadable(source))
            }
        }
        // Without the letter it is a number to some versions, and a name to others.
        Token::HexStringLiteral(digits)
            if source.starts_with(['x', 'X']) && digits.chars().all(|c| c.is_ascii_hexdigit()) =>
        {
            Ok(format!("X'{digits}'"))
        }
        Token::SingleQuotedByteStringLiteral(bits)
            if bits.chars().all(|c| matches!(c, '0' | '1')) =>
        {
            Ok(format!("B'{bits}'"))
        }
        Token::Placeholder(text) if is_parameter(text) => Ok(text.clone()),
        Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::Period
        | Token::Colon
        | Token::DoubleColon
        | Token::Assignment
        | Token::LBracket
        | Token::RBracket => Ok(token.to_string()),
        Token::Char(_) => Err(unreadable(source)),
        token => {
            let text = token.to_string();
            if is_operator(&text) {
                Ok(operator(text))
            } else {
                Err(unreadable(source))
            }
        }
    }
}

pub(super) fn unreadable(source: &str) -> RefusedStatement {
    RefusedStatement::new(format!(
        "`{}` may mean something else to the server than to Haft; write it differently",
        shown(source)
    ))
}

/// A standard string: `standard_conforming_strings` is set for every connection.
fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A number without the separators that only newer servers know.
pub(super) fn number(text: &str) -> Option<String> {
    let digits = text.replace('_', "");
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits.as_str(), None),
    };
    let numeric = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let mantissa = mantissa.split_once('.').map_or_else(
        || numeric(mantissa),
        |(whole, part)| numeric(&format!("{whole}{part}")),
    );
    let exponent = exponent
        .is_none_or(|exponent| numeric(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    (mantissa && exponent).then_some(digits)
}

fn is_plain_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
}

fn is_parameter(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit() && c != '0')
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

fn is_operator(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| OPERATOR_SIGNS.contains(c))
}

/// An operator, with the signs set apart that the server takes for operators of their own, as in
/// `total>=-1`.
fn operator(mut text: String) -> String {
    let mut apart = String::new();
    while text.len() > 1
        && text.ends_with(['+', '-'])
        && !text.contains(|c| ALLOW_A_SIGN_AT_THE_END.contains(c))
    {
        let Some(sign) = text.pop() else { break };
        apart.insert(0, sign);
        apart.insert(0, ' ');
    }
    text + &apart
}

/// Refuses operators in which the server would see the beginning of a comment.
fn check_operators(tokens: &[TokenWithSpan], sources: &[&str]) -> Result<(), RefusedStatement> {
    let mut run = String::new();
    for (token, source) in tokens.iter().zip(sources) {
        let signs = !matches!(token.token, Token::Whitespace(_)) && is_operator(source);
        if !signs {
            run.clear();
            continue;
        }
        run.push_str(source);
        if run.contains("--") || run.contains("/*") {
            return Err(RefusedStatement::new(format!(
                "`{}` may be an operator or begin a comment; put a space before `--` and `/*`",
                shown(&run)
            )));
        }
    }
    Ok(())
}

/// Refuses `U&"…"`, which three words are here and one is to the server.
fn check_escapes(tokens: &[TokenWithSpan]) -> Result<(), RefusedStatement> {
    let escaped = tokens.windows(3).any(|window| {
        let [letter, sign, quoted] = window else {
            return false;
        };
        let letter = match &letter.token {
            Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("u"),
            _ => false,
        };
        let quoted = match &quoted.token {
            Token::Word(word) => word.quote_style.is_some(),
            Token::SingleQuotedString(_) => true,
            _ => false,
        };
        letter && sign.token == Token::Ampersand && quoted
    });
    if escaped {
        return Err(RefusedStatement::new(
            "names and strings with Unicode escapes (`U&`) are not read; write the characters themselves",
        ));
    }
    Ok(())
}

/// A statement up to its last word: without the semicolons and comments behind it.
pub(super) fn without_end<'s>(statement: &'s str, tokens: &[TokenWithSpan]) -> &'s str {
    let sources = sources(statement, tokens);
    if sources.len() != tokens.len() {
        return statement;
    }
    let behind = tokens.iter().zip(sources).rev();
    let behind = behind
        .take_while(|(token, _)| matches!(token.token, Token::Whitespace(_) | Token::SemiColon));
    let behind: usize = behind.map(|(_, source)| source.len()).sum();
    let end = statement.len().saturating_sub(behind);
    statement.get(..end).unwrap_or(statement)
}

/// What stands in the statement for each token. The places of tokens are counted in characters.
pub(super) fn sources<'s>(statement: &'s str, tokens: &[TokenWithSpan]) -> Vec<&'s str> {
    let mut starts = Vec::with_capacity(tokens.len() + 1);
    let (mut line, mut column) = (1, 1);
    for (at, c) in statement.char_indices() {
        let wanted = tokens.get(starts.len()).map(|token| token.span.start);
        if wanted.is_some_and(|start| (start.line, start.column) == (line, column)) {
            starts.push(at);
        }
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    starts.push(statement.len());
    starts
        .windows(2)
        .filter_map(|window| match window {
            [start, end] => statement.get(*start..*end),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{SqlDialect, text};

    fn written(statement: &str) -> Result<String, RefusedStatement> {
        let tokens = text::tokens(SqlDialect::Postgres, statement)?;
        write(statement, &tokens)
    }

    #[test]
    fn a_statement_is_written_in_one_way() {
        for (statement, expected) in [
            ("SELECT a,b FROM t;", "SELECT a , b FROM t"),
            ("SELECT/* all */1--2\n+3", "SELECT 1 + 3"),
            ("SELECT 'it''s', E'a\\'b\\n'", "SELECT 'it''s' , 'a''b\n'"),
            ("SELECT 'a\\'", "SELECT 'a\\'"),
            ("SELECT $$it's$$, $x$a$b$x$", "SELECT 'it''s' , 'a$b'"),
            ("SELECT \"a\"\"b\".\"C\"", "SELECT \"a\"\"b\" . \"C\""),
            ("SELECT N'a', x'fF', B'01'", "SELECT N'a' , X'fF' , B'01'"),
            ("SELECT 1_000, .5, 1., 1e-3", "SELECT 1000 , .5 , 1. , 1e-3"),
            ("SELECT a>=-1 AND b<>+1", "SELECT a >= - 1 AND b <> + 1"),
            ("SELECT a->>'b' #- c", "SELECT a ->> 'b' #- c"),
            ("SELECT a::int[1:2], $1", "SELECT a :: int [ 1 : 2 ] , $1"),
            ("SELECT a != 1", "SELECT a <> 1"),
            (
                "SELECT u & \"a\", count(*)--x",
                "SELECT u & \"a\" , count ( * )",
            ),
            ("SELECT 'é', 'x'\n\r\n, 'y'", "SELECT 'é' , 'x' , 'y'"),
        ] {
            assert_eq!(written(statement).as_deref(), Ok(expected), "{statement}");
        }
    }

    #[test]
    fn nothing_is_behind_the_last_word() {
        for (statement, expected) in [
            ("UPDATE t SET a = 1", "UPDATE t SET a = 1"),
            ("SELECT 'é;' ; -- x\n;/* y */ ", "SELECT 'é;'"),
            (" ; ", ""),
        ] {
            let tokens = text::tokens(SqlDialect::Sqlite, statement).unwrap();
            assert_eq!(without_end(statement, &tokens), expected);
        }
    }

    #[test]
    fn what_may_be_split_in_two_ways_is_refused() {
        for (statement, why) in [
            ("SELECT id #--$x$\n, email $x$ FROM t", "begin a comment"),
            ("SELECT id ?--x\n, email", "begin a comment"),
            ("SELECT id @--x\n, email", ""),
            ("SELECT id ||/* x */ email", "begin a comment"),
            ("SELECT id </*x*/email", "begin a comment"),
            ("SELECT id->--x\n'a'", "begin a comment"),
            ("SELECT U&\"\\0065mail\"", "Unicode escapes"),
            ("SELECT u&\"!0065mail\" UESCAPE '!'", "Unicode escapes"),
            ("SELECT U&'\\0065'", "`U&'…'`"),
            ("SELECT $1$x$1$", "something else"),
            ("SELECT 0x1F", "something else"),
            ("SELECT 1L", "something else"),
            ("SELECT $x", "something else"),
            ("SELECT $0", "something else"),
            ("SELECT b\"x\"", "something else"),
            ("SELECT `a`", "something else"),
            ("SELECT {a}", "something else"),
            ("SELECT x'\\''", "something else"),
        ] {
            let refused = written(statement).unwrap_err().to_string();
            assert!(refused.contains(why), "{statement}: {refused}");
        }
    }
}
