//! The statements that the code has: every text in the source of the ledger that is SQL, whole or a part
//! that others are put together with.

use std::{fs, path::Path};

/// Words of SQL that no sentence for people has.
const WORDS: [&str; 7] = [
    "SELECT ",
    "INSERT INTO ",
    "UPDATE ",
    "DELETE FROM ",
    " WHERE ",
    " AND ",
    " ORDER BY ",
];

/// Every SQL text of the source, with where it is, as [`normal`] writes it. What only another engine runs
/// is left out, and what makes the schema, which no tenant has a part in.
pub(super) fn of_the_source() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    files(&source, &mut |path, text| {
        let name = path.strip_prefix(&source).unwrap().display().to_string();
        let is_left_out = ["sqlite/", "postgres/migrate.rs", "/tests.rs"];
        if is_left_out.iter().any(|part| name.contains(part)) {
            return;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for literal in literals(code) {
            if WORDS.iter().any(|word| literal.contains(word)) {
                found.push((name.clone(), normal(&literal)));
            }
        }
    });
    found
}

fn files(directory: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

/// The texts in quotes of some source code.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code.chars().peekable();
    let mut before = ' ';
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|c| *c == '\n');
            }
            // A quote as a character.
            '"' if before == '\'' && rest.peek() == Some(&'\'') => {}
            '"' => {
                let mut literal = String::new();
                while let Some(c) = rest.next() {
                    match c {
                        '"' => break,
                        '\\' => match rest.next() {
                            Some('\n') | None => {
                                while rest.peek().is_some_and(|c| c.is_whitespace()) {
                                    rest.next();
                                }
                            }
                            Some(escaped) => literal.push(escaped),
                        },
                        c => literal.push(c),
                    }
                }
                found.push(literal);
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// One line, with every value as `?`.
pub(super) fn normal(statement: &str) -> String {
    let line: Vec<&str> = statement.split_whitespace().collect();
    let mut normal = String::new();
    let line = line.join(" ");
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if matches!(c, '?' | '$') {
            normal.push('?');
            while rest.peek().is_some_and(char::is_ascii_digit) {
                rest.next();
            }
        } else {
            normal.push(c);
        }
    }
    normal
}

/// Whether a statement that ran has this text, with anything where the text has a name in braces. An
/// insert of one row may have been one of many.
pub(super) fn has(statement: &str, text: &str) -> bool {
    if has_parts(statement, text) {
        return true;
    }
    let Some((head, rest)) = text.split_once("VALUES (") else {
        return false;
    };
    let tail = rest.split_once(')').map_or("", |(_, tail)| tail).trim();
    let is_many = format!("{head}SELECT * FROM unnest(");
    has_parts(statement, &is_many) && statement.contains(tail)
}

/// Whether what stands around the braces of a text is in a statement, in this order.
fn has_parts(statement: &str, text: &str) -> bool {
    let mut rest = statement;
    text.split('{')
        .map(|part| part.split_once('}').map_or(part, |(_, after)| after))
        .all(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
}

#[test]
fn the_statements_of_the_source_are_found() {
    let code = r#"
        // "SELECT in a comment"
        let quote = '"';
        run("SELECT a
             FROM t WHERE b = ?12", 'x');
        say("nothing of this \"kind\"");
        text("DELETE FROM t \
              WHERE a = ?1");
    "#;
    let found: Vec<String> = literals(code)
        .iter()
        .map(|literal| normal(literal))
        .collect();
    assert_eq!(
        found,
        [
            "SELECT a FROM t WHERE b = ?",
            "nothing of this \"kind\"",
            "DELETE FROM t WHERE a = ?"
        ]
    );
    let insert = normal("INSERT INTO t (a) VALUES (?1) ON CONFLICT DO NOTHING");
    let many = normal("INSERT INTO t (a) SELECT * FROM unnest($1::int8[]) ON CONFLICT DO NOTHING");
    assert!(has(&many, &insert) && has(&insert, &insert));
    assert!(!has(&many, &normal("INSERT INTO u (a) VALUES (?1)")));
    assert!(has(
        &many,
        &normal("INSERT INTO {} ({columns}) VALUES ({})")
    ));
    assert!(!has(&many, "SELECT {} FROM {table} ORDER BY a"));
    assert!(of_the_source().len() > 90);
}
