//! A configured database from the command line: rules name its parts, and `haft doctor` says how it is.

use std::{path::Path, process::Command};

use haft_testkit::mariadb_server::MariaDbServer;

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

fn stage_with(file: &Path, more: &str) -> Stage {
    stage_of("sqlite", &format!("path = \"{}\"", file.display()), more)
}

fn stage_of(kind: &str, place: &str, more: &str) -> Stage {
    Stage::with_config(&format!(
        "[policy]\nallow = [\"db(crm)\", \"undo\"]\n{more}[sources.crm]\ntype = \"{kind}\"\nwritable = true\n\
         {place}\n"
    ))
}

fn change(stage: &Stage, query: &str, rows: u64) -> String {
    let (query, rows) = (format!("query={query}"), format!("expect_rows={rows}"));
    stage.haft(&["call", "database_query", &query, &rows]).ok()
}

fn emails(stage: &Stage) -> String {
    let query = "query=SELECT id, name, email FROM users ORDER BY id";
    let said = stage.haft(&["call", "database_query", query]).ok();
    said.lines()
        .take_while(|line| !line.starts_with('['))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
#[ignore = "ci: needs Python"]
fn changes_in_databases_are_undone_and_what_changed_since_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crm.db");
    make(&file);
    undo_and_redo(&stage_with(&file, ""));
}

#[test]
#[ignore = "ci: needs MariaDB"]
fn changes_in_mariadb_are_undone_and_what_changed_since_stays() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    server.sql_in(&database, &TABLES.replace("INTEGER", "int AUTO_INCREMENT"));
    server.sql(&format!(
        "CREATE USER haft@localhost; GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO haft@localhost"
    ));
    let address = server.url_of("haft", &database);
    let stage = stage_of("mariadb", &format!("address = \"{address}\""), "");
    undo_and_redo(&stage);
    // As many rows as were said, and no more.
    let (query, rows) = ("query=DELETE FROM users", "expect_rows=1");
    let said = stage.haft(&["call", "database_query", query, rows]).all();
    assert!(said.contains("2 rows instead of 1"), "{said}");
    assert_eq!(server.sql_in(&database, "SELECT count(*) FROM users"), "2");
}

/// Changes rows, takes that back, takes that back in turn, and takes back three calls at once.
fn undo_and_redo(stage: &Stage) {
    let before = emails(stage);
    let said = change(stage, "UPDATE users SET email = 'gone'", 2);
    assert!(said.contains("[2 rows changed]"), "{said}");
    let diff = stage.haft(&["diff"]).ok();
    assert!(diff.contains("rows: 2 rows of crm.users.email"), "{diff}");
    let dry = stage.haft(&["undo", "--dry-run"]).ok();
    assert!(dry.contains("2 rows would be put back"), "{dry}");
    assert_ne!(emails(stage), before);
    let undone = stage.haft(&["undo"]).all();
    assert!(undone.contains("2 rows put back"), "{undone}");
    assert!(undone.contains("former email (id 1; id 2)"), "{undone}");
    assert!(!undone.contains("SECRET"), "{undone}");
    assert_eq!(emails(stage), before);
    // The undo is a call, and is undone like one.
    let redone = stage.haft(&["undo", "last"]).all();
    assert!(redone.contains("changed no file"), "{redone}");
    let redone = stage.haft(&["undo"]).all();
    assert!(redone.contains("2 rows put back"), "{redone}");
    assert!(emails(stage).contains("gone"));
    // Somebody changes one of the rows.
    change(stage, "UPDATE users SET email = 'gone' WHERE id = 1", 1);
    change(stage, "DELETE FROM users WHERE id = 2", 1);
    change(stage, "INSERT INTO users (id, name) VALUES (2, 'mine')", 1);
    let undone = stage.haft(&["undo", "--since", "1h"]).all();
    assert!(undone.contains("put back"), "{undone}");
    assert_eq!(emails(stage), before, "{undone}");
}

#[test]
#[ignore = "ci: needs Python"]
fn a_row_that_changed_since_is_named_and_an_undo_asks_like_any_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crm.db");
    make(&file);
    let stage = stage_with(&file, "");
    change(&stage, "UPDATE users SET email = 'gone'", 2);
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        c.execute(\"UPDATE users SET email = 'mine' WHERE id = 2\"); c.commit()";
    let made = Command::new("python3")
        .args(["-c", script])
        .arg(&file)
        .status();
    assert!(made.unwrap().success());
    let ran = stage.haft(&["undo"]);
    let undone = ran.all();
    ran.fails(1);
    assert!(
        undone.contains("1 row put back, 1 row in conflict"),
        "{undone}"
    );
    assert!(
        undone.contains("conflict: `crm.users` (id 2): it has changed since"),
        "{undone}"
    );
    let left = emails(&stage);
    assert!(
        left.contains("ada,SECRET") && left.contains("bob,mine"),
        "{left}"
    );
    // What cannot be taken back says so, when it happens and later.
    let said = change(&stage, "UPDATE users SET id = 9 WHERE id = 1", 1);
    assert!(
        said.contains("this cannot be undone: the statement changes the primary key"),
        "{said}"
    );
    let undone = stage.haft(&["undo"]).all();
    assert!(
        undone.contains("not everything can be taken back: 1 row of"),
        "{undone}"
    );
    // A rule about the column holds for the undo too.
    change(&stage, "UPDATE users SET email = 'x' WHERE id = 9", 1);
    let text = stage.read("haft.toml");
    assert!(text.contains("[policy]\n"), "{text}");
    let denied = text.replace(
        "[policy]\n",
        "[policy]\ndeny = [\"db(crm.users.email, writes)\"]\n",
    );
    stage.write("haft.toml", denied);
    stage.haft(&["trust"]).ok();
    let undone = stage.haft(&["undo"]).fails(3);
    assert!(undone.contains("db(crm.users.email, writes)"), "{undone}");
    assert!(emails(&stage).contains("ada,x"));
}

#[test]
#[ignore = "ci: needs Python"]
fn databases_are_named_listed_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crm.db");
    make(&file);
    let before = "# mine\n[policy]\nallow = [\"db(crm, reads)\"]  # and this\n";
    let stage = Stage::with_config(before);
    let said = stage.haft(&["sources", "list"]).ok();
    assert!(said.contains("no database is configured"), "{said}");
    let said = stage.haft(&["sources", "check"]).ok();
    assert!(said.contains("no database is configured"), "{said}");
    let path = file.display().to_string();
    let add = ["sources", "add", "crm", "--type", "sqlite", "--path", &path];
    let with = |more: &[&'static str]| stage.haft(&[&add[..], more].concat());
    let shown = with(&["--dry-run"]).ok();
    assert!(
        shown.contains("[sources.crm]\ntype = \"sqlite\""),
        "{shown}"
    );
    let said = with(&[]).fails(2);
    assert!(said.contains("nobody is there"), "{said}");
    assert_eq!(stage.read("haft.toml"), before);
    let said = with(&["--writable", "--yes"]).ok();
    assert!(said.contains("`haft trust` turns it on"), "{said}");
    let table = format!("[sources.crm]\ntype = \"sqlite\"\npath = \"{path}\"\nwritable = true\n");
    assert_eq!(stage.read("haft.toml"), format!("{before}\n{table}"));
    stage.haft(&["trust"]).ok();
    let said = stage.haft(&["sources", "list"]).ok();
    assert!(
        said.contains(&format!("crm  sqlite  queries and changes  {path}")),
        "{said}"
    );
    let said = stage.haft(&["sources", "check", "crm"]).ok();
    assert!(said.contains("`crm` (sqlite) answers"), "{said}");
    let query = "query=SELECT name FROM users ORDER BY name";
    stage.haft(&["call", "database_query", query]).ok();
    // The same name twice, and a database that is not there.
    assert!(with(&["--yes"]).fails(2).contains("already"));
    let said = stage.haft(&["sources", "check", "shop"]).fails(2);
    assert!(said.contains("there are: crm"), "{said}");
    std::fs::remove_file(&file).unwrap();
    let ran = stage.haft(&["sources", "check"]);
    assert!(ran.all().contains("`crm`: "), "{}", ran.all());
    ran.fails(1);
}

#[test]
fn passwords_are_neither_written_nor_repeated() {
    let stage = Stage::with_config("[policy]\n");
    let add = |name: &str, more: &[&str]| {
        let first = ["sources", "add", name, "--type", "postgres", "--yes"];
        stage.haft(&[&first[..], more].concat())
    };
    let address = "postgres://haft@db.example.org/crm";
    for more in [
        &["--address", "postgres://haft:hunter2@db.example.org/crm"][..],
        &["--address", "postgres://haft@db/crm?password=hunter2"],
        &["--address", address, "--password", "hunter2"],
    ] {
        let ran = add("crm", more);
        let said = ran.all();
        assert!(said.contains("--password env:NAME"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        ran.fails(2);
    }
    for (name, more) in [
        ("a.b", &["--address", address][..]),
        ("crm", &["--address", "postgres://db.example.org/crm"]),
        ("crm", &["--path", "/x.db"]),
        ("crm", &[]),
    ] {
        let said = add(name, more).all();
        assert!(said.contains("error:"), "{more:?}: {said}");
        assert_eq!(stage.read("haft.toml"), "[policy]\n", "{more:?}");
    }
    add(
        "crm",
        &["--address", address, "--password", "env:CRM_PASSWORD"],
    )
    .ok();
    let text = stage.read("haft.toml");
    assert!(
        text.ends_with("password = \"env:CRM_PASSWORD\"\n"),
        "{text}"
    );
    // One that an operator wrote into the file is not shown either.
    let with = text.replace("haft@db", "haft:hunter2@db");
    stage.write("haft.toml", with);
    let said = stage.haft(&["trust"]).all() + &stage.haft(&["sources", "list"]).all();
    assert!(said.contains("has a password in its address"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
