//! `haft record migrate`: from the file to a real PostgreSQL server, and what the program says there.

use std::process::Stdio;

use haft_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::support::Stage;

/// Runs the program with its record in a database; returns what it printed.
#[track_caller]
fn on(database: &str, stage: &Stage, args: &[&str]) -> String {
    let mut command = stage.command(args);
    let ran = command.env("HAFT_DATABASE", database).stdin(Stdio::null());
    let ran = ran.output().unwrap();
    let errors = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{args:?}: {errors}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
#[ignore = "ci: needs PostgreSQL"]
fn a_record_moves_to_a_database_with_its_calls_and_grants() {
    let server = PostgresServer::start();
    let (owner, app) = (server.url("haft_owner"), server.url("app"));
    let stage = Stage::new();
    stage.write("alpha.txt", "apples\n");
    stage.haft(&["call", "read", "alpha.txt"]).ok();
    stage.haft(&["call", "read", "missing.txt"]).fails(1);
    let grant = ["grants", "add", "--yes", "bash(touch made)"];
    stage.haft(&grant).ok();
    let (log, grants) = (["log", "--jsonl"], ["grants", "list", "--json"]);
    let expect = (stage.haft(&log).ok(), stage.haft(&grants).ok());

    // The owner makes the schema; where it is comes from standard input, like a password would.
    let said = stage.haft_with(&["record", "migrate", "--to", "-"], &owner);
    let said = said.ok();
    assert!(said.starts_with("done: 2 calls in "), "{said}");
    assert!(said.contains("1 standing approval, "), "{said}");
    assert!(said.contains("export HAFT_DATABASE="), "{said}");
    assert!(!said.contains("postgres://"), "{said}");

    assert_eq!(on(&app, &stage, &log), expect.0);
    assert_eq!(on(&app, &stage, &grants), expect.1);
    assert!(on(&app, &stage, &["log", "verify"]).starts_with("intact: "));
    let checked = on(&app, &stage, &["policy", "check", "bash", "touch made"]);
    assert!(checked.contains("grant "), "{checked}");
    assert_eq!(
        on(&app, &stage, &["log", "--jsonl", "apples"])
            .lines()
            .count(),
        1
    );

    // Once more changes nothing, and says so.
    let again = stage.haft(&["record", "migrate", "--json", "--to", &app]);
    let again: Value = serde_json::from_str(&again.ok()).unwrap();
    assert_eq!(again["was_there"], true);
    assert_eq!(again["calls"], 2);
    on(&app, &stage, &["call", "read", "alpha.txt"]);
    let error = stage.haft(&["record", "migrate", "--to", &app]).fails(8);
    assert!(error.contains("it is another one"), "{error}");
}

#[test]
fn a_record_is_carried_only_to_another_place_that_is_understood() {
    let stage = Stage::new();
    let error = stage.haft(&["record", "migrate", "--to", "file"]);
    let error = error.fails(8);
    assert!(error.contains("in this database already"), "{error}");
    let error = stage.haft(&["record", "migrate", "--to", "mysql://db/haft"]);
    assert!(error.all().contains("is not valid"), "{}", error.all());
    stage.haft(&["record", "migrate"]).fails(2);
    let far = "postgres://app@db.example/haft?sslmode=disable";
    let error = stage.haft(&["record", "migrate", "--to", far]).fails(8);
    assert!(error.contains("sslmode=disable"), "{error}");
}
