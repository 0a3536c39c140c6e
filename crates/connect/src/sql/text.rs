//! What is refused before a statement is parsed: texts that the database may split into words
//! differently than the parser here does. Each line is a known difference.

use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use super::{RefusedStatement, SqlDialect};

/// The words and signs of a statement.
pub(super) fn tokens(
    dialect: SqlDialect,
    statement: &str,
) -> Result<Vec<TokenWithSpan>, RefusedStatement> {
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if statement.chars().any(odd) {
        return Err(RefusedStatement::new(
            "the statement has a control character",
        ));
    }
    // MariaDB runs what is in such a comment. Refused within strings too: whether it is one there is
    // what the two might see differently.
    if dialect == SqlDialect::MariaDb
        && ["/*!", "/*M!", "/*m!"]
            .iter()
            .any(|hint| statement.contains(hint))
    {
        return Err(RefusedStatement::new("a comment that the server would run"));
    }
    let tokens = Tokenizer::new(dialect.parser(), statement)
        .tokenize_with_location()
        .map_err(|error| RefusedStatement::token(&error))?;
    for token in &tokens {
        check(dialect, &token.token)?;
    }
    // Only here are characters that are neither in a string, a quoted name nor a comment counted:
    // what the parser takes for white space may be part of a name for the database.
    let mut outside = Outside::default();
    for token in &tokens {
        outside.take(&token.token);
    }
    if outside.non_ascii {
        return Err(RefusedStatement::new(
            "a name with letters beyond a to z must be quoted",
        ));
    }
    if statement.chars().filter(|c| is_odd_space(*c)).count() > outside.spaces_inside {
        return Err(RefusedStatement::new(
            "the statement has white space that is not a space, a tab or a line's end",
        ));
    }
    Ok(tokens)
}

/// White space to the parser here; a letter to some databases.
fn is_odd_space(c: char) -> bool {
    c.is_whitespace() && !matches!(c, ' ' | '\n' | '\r' | '\t')
}

/// What stands outside strings, quoted names and comments.
#[derive(Default)]
struct Outside {
    non_ascii: bool,
    /// Odd white space within strings, quoted names and comments, where it means itself.
    spaces_inside: usize,
}

impl Outside {
    fn take(&mut self, token: &Token) {
        let inside = match token {
            Token::Word(word) if word.quote_style.is_none() => {
                self.non_ascii |= !word.value.is_ascii();
                return;
            }
            Token::Char(c) => {
                self.non_ascii |= !c.is_ascii();
                return;
            }
            Token::Placeholder(text) => {
                self.non_ascii |= !text.is_ascii();
                return;
            }
            Token::Word(word) => &word.value,
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::NationalStringLiteral(text)
            | Token::EscapedStringLiteral(text)
            | Token::Whitespace(
                Whitespace::MultiLineComment(text)
                | Whitespace::SingleLineComment { comment: text, .. },
            ) => text,
            Token::DollarQuotedString(text) => &text.value,
            _ => return,
        };
        self.spaces_inside += inside.chars().filter(|c| is_odd_space(*c)).count();
    }
}

fn check(dialect: SqlDialect, token: &Token) -> Result<(), RefusedStatement> {
    match token {
        Token::UnicodeStringLiteral(_) => Err(RefusedStatement::unlisted("`U&'…'`")),
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => {
            // Oracle's and MariaDB's hints, and comments of which one side nests and the other not.
            if comment.starts_with('+') || comment.starts_with('!') {
                return Err(RefusedStatement::new(
                    "a comment that the server may act on",
                ));
            }
            if dialect != SqlDialect::Postgres && comment.contains("/*") {
                return Err(RefusedStatement::new("a comment within a comment"));
            }
            Ok(())
        }
        Token::Whitespace(Whitespace::SingleLineComment { comment, prefix }) => {
            let spaced = comment.is_empty() || comment.starts_with([' ', '\t', '\n', '\r']);
            if dialect == SqlDialect::MariaDb && prefix == "--" && !spaced {
                return Err(RefusedStatement::new(
                    "`--` without a space after it, which the server does not take for a comment",
                ));
            }
            // One side may end the line here and the other not.
            if comment.trim_end_matches(['\r', '\n']).contains('\r') {
                return Err(RefusedStatement::new("a comment with a carriage return"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
