//! The language of the in-memory shell: the small part of bash that the process suite uses.
//! Everything it accepts means the same in bash; everything else is a parse error.
//!
//! Words with single and double quotes and `$NAME`; `;`, newline and `&` between commands; `( … )`;
//! the redirections `>&1`, `>&2`, `>&3` and `> file`; and one loop,
//! `until test -e FILE; do sleep N; done`, to wait for the test.

/// A command list.
pub(super) type Script = Vec<Step>;

/// One command and whether the shell waits for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) action: Action,
    pub(super) background: bool,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Simple { words: Vec<Word>, to: Redirect },
    Group(Script),
}

/// Where standard output goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Redirect {
    Stdout,
    Stderr,
    Progress,
    File(Word),
}

/// A word before expansion.
pub(super) type Word = Vec<Piece>;

/// A piece of a word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Variable(String),
}

/// Parses a script; the error says what it does not understand.
pub(super) fn parse(text: &str) -> Result<Script, String> {
    let mut tokens = tokens(text)?;
    tokens.reverse();
    let script = list(&mut tokens)?;
    match tokens.pop() {
        None => Ok(script),
        Some(token) => Err(format!("unexpected {token:?}")),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(Word),
    To(Redirect),
    ToFile,
    End,
    Background,
    Open,
    Close,
}

/// Parses until the tokens end or a group closes. The tokens are in reverse order.
fn list(tokens: &mut Vec<Token>) -> Result<Script, String> {
    let mut script = Script::new();
    loop {
        let action = match tokens.last() {
            None | Some(Token::Close) => return Ok(script),
            Some(Token::End) => {
                tokens.pop();
                continue;
            }
            Some(Token::Open) => {
                tokens.pop();
                let inner = list(tokens)?;
                if tokens.pop() != Some(Token::Close) {
                    return Err("a `(` is not closed".to_owned());
                }
                Action::Group(inner)
            }
            Some(Token::Word(_) | Token::To(_) | Token::ToFile | Token::Background) => {
                simple(tokens)?
            }
        };
        let background = tokens.last() == Some(&Token::Background);
        if background {
            tokens.pop();
        }
        script.push(Step { action, background });
    }
}

fn simple(tokens: &mut Vec<Token>) -> Result<Action, String> {
    let mut words = Vec::new();
    let mut to = Redirect::Stdout;
    loop {
        match tokens.pop() {
            Some(Token::Word(word)) => words.push(word),
            Some(Token::To(redirect)) => to = redirect,
            Some(Token::ToFile) => match tokens.pop() {
                Some(Token::Word(word)) => to = Redirect::File(word),
                Some(_) | None => return Err("`>` names no file".to_owned()),
            },
            Some(token) => {
                tokens.push(token);
                break;
            }
            None => break,
        }
    }
    if words.is_empty() {
        return Err("a command is missing".to_owned());
    }
    Ok(Action::Simple { words, to })
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            ' ' | '\t' => drop(rest.next()),
            ';' | '\n' => {
                rest.next();
                tokens.push(Token::End);
            }
            '&' => {
                rest.next();
                tokens.push(Token::Background);
            }
            '(' => {
                rest.next();
                tokens.push(Token::Open);
            }
            ')' => {
                rest.next();
                tokens.push(Token::Close);
            }
            '>' => {
                rest.next();
                if rest.next_if_eq(&'&').is_none() {
                    tokens.push(Token::ToFile);
                    continue;
                }
                tokens.push(Token::To(match rest.next() {
                    Some('1') => Redirect::Stdout,
                    Some('2') => Redirect::Stderr,
                    Some('3') => Redirect::Progress,
                    other => return Err(format!("unknown redirection to {other:?}")),
                }));
            }
            '|' | '<' | '`' | '{' | '}' | '#' | '*' | '?' | '[' | '~' | '!' => {
                return Err(format!("{next:?} is not part of the in-memory shell"));
            }
            _ => tokens.push(Token::Word(word(&mut rest)?)),
        }
    }
    Ok(tokens)
}

fn word(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Word, String> {
    let mut word = vec![Piece::Text(String::new())];
    let mut quoted = false;
    while let Some(&next) = rest.peek() {
        match next {
            '"' => {
                rest.next();
                quoted = !quoted;
            }
            '\'' if !quoted => {
                rest.next();
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(c) => push(&mut word, c),
                        None => return Err("a `'` is not closed".to_owned()),
                    }
                }
            }
            '$' => {
                rest.next();
                let mut name = String::new();
                if rest.next_if_eq(&'$').is_some() {
                    name.push('$');
                } else {
                    while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                        name.push(c);
                    }
                }
                if name.is_empty() {
                    return Err("a `$` names no variable".to_owned());
                }
                word.push(Piece::Variable(name));
            }
            ' ' | '\t' | ';' | '\n' | '&' | '(' | ')' | '>' | '|' | '<' if !quoted => break,
            c => {
                rest.next();
                push(&mut word, c);
            }
        }
    }
    if quoted {
        return Err("a `\"` is not closed".to_owned());
    }
    Ok(word)
}

fn push(word: &mut Word, c: char) {
    match word.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        Some(Piece::Variable(_)) | None => word.push(Piece::Text(c.to_string())),
    }
}
