//! What MariaDB understands differently than it looks.

use super::{
    tests::{accesses_by, refusal_by},
    *,
};

fn rules() -> ReadingRules {
    ReadingRules {
        source: "crm".to_owned(),
        dialect: SqlDialect::MariaDb,
        schema: "Crm".to_owned(),
        functions: BTreeSet::new(),
        writable: true,
        masks: ColumnMasks::default(),
    }
}

fn refusal(statement: &str) -> String {
    refusal_by(&rules(), statement)
}

fn accesses(statement: &str) -> Vec<String> {
    accesses_by(&rules(), statement)
}

#[test]
fn names_count_without_their_case() {
    assert_eq!(accesses("SELECT Email FROM Users"), ["users.email"]);
    assert_eq!(accesses("SELECT `U`.EMAIL FROM users u"), ["users.email"]);
    assert_eq!(
        accesses("SELECT Crm.users.email FROM Crm.users"),
        ["users.email"]
    );
    assert!(refusal("SELECT email FROM crm.users").contains("`Crm`"));
    assert_eq!(accesses("SELECT name FROM Other.t"), ["other.t.name"]);
    for name in ["ema\u{130}l", "u\u{17f}er", "\u{212a}ey", "\u{1f600}"] {
        let why = refusal(&format!("SELECT `{name}` FROM users"));
        assert!(why.contains("takes for another"), "{name}: {why}");
    }
    assert_eq!(accesses("SELECT `straße` FROM users"), ["users.straße"]);
    for schema in ["mysql", "MySQL", "information_schema", "sys"] {
        let why = refusal(&format!("SELECT 1 FROM {schema}.x"));
        assert!(why.contains("table of the system"), "{why}");
    }
}

#[test]
fn what_looks_like_a_literal_or_a_join_is_what_the_server_makes_of_it() {
    for (statement, why) in [
        ("SELECT json 'x' FROM users", "such a literal"),
        ("SELECT datetime '2026-01-01' FROM users", "such a literal"),
        ("SELECT id FROM orders FULL JOIN users ON 1", "FULL JOIN"),
        ("SELECT id FROM orders FOR UPDATE", "lock rows"),
        (
            "SELECT timestampdiff(email, a, b) FROM users",
            "unit of time",
        ),
        (
            "SELECT timestampdiff(`day`, a, b) FROM users",
            "unit of time",
        ),
        ("DELETE FROM users USING users", "several tables"),
        ("REPLACE INTO users (id) VALUES (1)", "removes rows"),
    ] {
        let refused = refusal(statement);
        assert!(refused.contains(why), "{statement}: {refused}");
    }
    assert_eq!(accesses("SELECT DATE '2026-01-01' FROM DUAL"), ["()"]);
    assert_eq!(
        accesses("SELECT TIMESTAMPDIFF(DAY, since, now()) FROM users"),
        ["users.since"]
    );
    assert_eq!(
        accesses("INSERT INTO users (id, name) VALUES (DEFAULT, 'x')"),
        ["users.id!", "users.name!"]
    );
}
