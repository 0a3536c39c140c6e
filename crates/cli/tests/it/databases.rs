//! A configured database from the command line: rules name its parts, and `haft doctor` says how it is.

use std::{path::Path, process::Command};

use crate::support::Stage;

const TABLES: &str = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT);
    INSERT INTO users (name, email) VALUES ('ada', 'SECRET'), ('bob', 'SECRET');";

/// Makes an SQLite file with what every machine with Python has.
fn make(file: &Path) {
    let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let made = Command::new("python3")
        .args(["-c", script])
        .arg(file)
        .arg(TABLES)
        .status();
    assert!(made.unwrap().success());
}

#[test]
#[ignore = "ci: needs Python"]
fn rules_name_columns_and_a_statement_is_held_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crm.db");
    make(&file);
    let source = format!(
        "[sources.crm]\ntype = \"sqlite\"\npath = \"{}\"\n",
        file.display()
    );
    let stage = Stage::with_config(&format!(
        "[policy]\nallow = [\"db(crm, reads)\"]\ndeny = [\"db(crm.users.email)\"]\n{source}"
    ));
    let call = |query: &str| stage.haft(&["call", "database_query", &format!("query={query}")]);
    let said = call("SELECT name FROM users ORDER BY name").ok();
    assert!(said.contains("name\nada\nbob\n"), "{said}");
    call("SELECT count(*) FROM users").ok();
    for reads_it in [
        "SELECT email FROM users",
        "SELECT * FROM users",
        "SELECT name FROM users WHERE email > ''",
    ] {
        let said = call(reads_it).fails(3);
        assert!(said.contains("db(crm.users.email)"), "{reads_it}: {said}");
        assert!(!said.contains("SECRET"), "{said}");
    }
    let said = call("DELETE FROM users").fails(3);
    assert!(said.contains("takes no changes"), "{said}");
    let said = stage.haft(&["doctor"]).all();
    assert!(
        said.contains("`crm` (sqlite) answers; it takes queries"),
        "{said}"
    );
}
