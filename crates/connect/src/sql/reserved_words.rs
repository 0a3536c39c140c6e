//! Words that PostgreSQL never takes for the name of a table, an alias or a column unless they are
//! quoted. Where the parser here takes one for a name, the two understand the statement differently:
//! to the server `FROM ONLY users` reads the table `users`, and to the parser a table `only`.

/// What `pg_get_keywords()` gives as reserved in any supported version, wholly or but for the names of
/// functions and types.
const RESERVED: &str = include_str!("reserved_words.txt");

/// Those of them that are values by themselves, and read no table.
const VALUES: [&str; 4] = ["current_role", "current_schema", "default", "system_user"];

/// Whether a folded name is such a word.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.split_ascii_whitespace().any(|word| word == name)
}

/// Whether a folded name is such a word that stands for a value. The parser knows the others itself.
pub(super) fn is_value(name: &str) -> bool {
    VALUES.contains(&name)
}
