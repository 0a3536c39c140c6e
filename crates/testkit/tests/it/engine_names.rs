//! No file of the ledger outside `sqlite/` and `postgres/` names an engine, nor does what is built on it: a
//! third engine is a folder and a line in `open_store.rs`. What must name one is listed here, with why.

use crate::tidy::{report, rust_files, strip_tests};

/// Who knows no engine.
const CRATES: &[&str] = &[
    "crates/contract/src/",
    "crates/haft/src/",
    "crates/host/src/",
    "crates/ledger/src/",
    "crates/runtime/src/",
];

/// Who is one.
const ENGINES: &[&str] = &["crates/ledger/src/postgres/", "crates/ledger/src/sqlite/"];

const NAMES: &[&str] = &["sqlite", "postgres"];

/// A file, what a line in it has that names an engine, and why it may. An empty text is the whole file.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/contract/src/ops/database.rs",
        "What kind of database it is",
        "a source of a tool, not the record",
    ),
    (
        "crates/haft/src/builder/record.rs",
        "postgres://agent@db.internal/haft",
        "how an address is written",
    ),
    (
        "crates/host/src/config/source_facts.rs",
        "",
        "says of databases that tools ask what a person trusts, and they are not the record",
    ),
    (
        "crates/host/src/config/sources.rs",
        "",
        "reads which databases tools may ask, which are not the record",
    ),
    (
        "crates/host/src/config/template.rs",
        "postgres",
        "the sample of a database that tools ask",
    ),
    (
        "crates/ledger/src/open_store.rs",
        "",
        "chooses the engine by the address: the one place that knows them all",
    ),
    (
        "crates/ledger/src/lib.rs",
        "mod sqlite;",
        "a module has to be named",
    ),
    (
        "crates/ledger/src/lib.rs",
        "mod postgres;",
        "a module has to be named",
    ),
    (
        "crates/ledger/src/lib.rs",
        "#[cfg(feature = \"postgres\")]",
        "the engine is a feature",
    ),
    (
        "crates/ledger/src/lib.rs",
        "pub use sqlite::migrate::{SCHEMA, SCHEMA_VERSION};",
        "both engines have the same versions, and whoever brings a database starts from these tables",
    ),
    (
        "crates/ledger/src/connection_pool.rs",
        "#[cfg(feature = \"postgres\")]",
        "without that engine nobody needs the function",
    ),
    (
        "crates/ledger/src/options.rs",
        "as `postgres://user@host/database`",
        "how an address is written",
    ),
    (
        "crates/host/src/config/env.rs",
        "as `postgres://user@host/database`",
        "how an address is written",
    ),
    (
        "crates/haft/src/builder/record.rs",
        "as `postgres://user@host/database`",
        "how an address is written",
    ),
    (
        "crates/haft/src/builder/record.rs",
        "Needs the feature `postgres`",
        "the engine is a feature",
    ),
    (
        "crates/ledger/src/open_error.rs",
        "write it as `postgres://user@host/database`",
        "tells people how an address is written",
    ),
    (
        "crates/ledger/src/open_error.rs",
        "was built without PostgreSQL",
        "tells people which feature their build lacks",
    ),
];

#[test]
fn no_file_outside_its_folder_names_an_engine() {
    let mut problems = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    let mut engines = 0;
    for file in rust_files() {
        let path = file.path.as_str();
        let names = |line: &str| {
            let line = line.to_lowercase();
            NAMES.iter().any(|name| line.contains(name))
        };
        if ENGINES.iter().any(|engine| path.starts_with(engine)) {
            engines += 1;
            continue;
        }
        let is_meant = CRATES.iter().any(|of| path.starts_with(of));
        if !is_meant || path.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in strip_tests(&file.text).lines().enumerate() {
            if !names(line) {
                continue;
            }
            let allowed = ALLOWED
                .iter()
                .position(|(of, text, _)| *of == path && line.contains(text));
            match allowed {
                Some(allowed) => used[allowed] = true,
                None => problems.push(format!("{path}:{}: {}", number + 1, line.trim())),
            }
        }
    }
    assert!(engines > 2, "the engines are where this looks for them");
    for ((path, text, why), used) in ALLOWED.iter().zip(used) {
        if !used {
            problems.push(format!("{path} no longer has `{text}` ({why})"));
        }
    }
    report(
        &problems,
        "move it into the engine's folder, behind `Store` or `Connection`",
    );
}
