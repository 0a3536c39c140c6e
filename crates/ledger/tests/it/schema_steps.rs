//! A step of the schema never changes once it is there, and the text of each version in `schemas/` is what
//! its steps make. A new version adds a step, its checksum and its text: what SQLite's must be, the test
//! says; PostgreSQL's is what `pg_dump --schema-only --no-owner --schema=haft` writes, without comments.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::{postgres::PostgresFixture, support::database};

/// Each step, and the BLAKE3 checksum that it keeps for ever.
const SQLITE_STEPS: [(&str, &str); 5] = [
    (
        "0001_record.sql",
        "91558119681b01c701f3bab2f343dc2e03e6c05cf8225337d7b36e53098af59e",
    ),
    (
        "0002_facts.sql",
        "bcb267bcaf42e6438f0950cb7a1c997c01b3ceed67564707df1e8866ef2239a2",
    ),
    (
        "0003_memory.sql",
        "d12c479e23c4e1c1db1e13447b4c9cdd318aa1a7bb577398ab5d07ae75439d63",
    ),
    (
        "0004_question_kind.sql",
        "68af8376fd1cc5e892ca5031a0bff4091fb426f52fccaba6e6bbb8963c084e21",
    ),
    (
        "0005_gateway.sql",
        "40106851e565c233e6f9f2f0ce8d18c73a1cca33c959aaeeb52c465c1980d19d",
    ),
];

const POSTGRES_STEPS: [(&str, &str); 5] = [
    (
        "0001_record.sql",
        "43dccf69535e207a6f242437e0214cc1e29d13f495a6049cd7ef88f37c8a88ce",
    ),
    (
        "0002_facts.sql",
        "b6140b13778c7ee53e5f9be747c39f7a6221ea440e6214ab873e7dfe67b85408",
    ),
    (
        "0003_memory.sql",
        "058c5f0406ee6cedd47f83a935a926492d53d7cdd3929bd480d10a101c579f64",
    ),
    (
        "0004_question_kind.sql",
        "2a64702cbb49972194fcd4ff7fe8169dad6acb8047abcd097e27a337ffd05116",
    ),
    (
        "0005_gateway.sql",
        "b691b1b0f45c4646e80bd329dba1b0e6f73ea422a46c606fd3006656548cb855",
    ),
];

/// The tables, indexes and views of a file, without what full text makes for itself.
const SQLITE_OBJECTS: &str = r"SELECT sql FROM sqlite_master
    WHERE sql IS NOT NULL AND name NOT LIKE 'call\_text\_%' ESCAPE '\' ORDER BY type DESC, name";

/// Everything that the steps make in a database, but for the months, which are those of the day.
const POSTGRES_OBJECTS: &str = r"
    WITH relations AS (
        SELECT * FROM pg_class WHERE relnamespace = 'haft'::regnamespace AND relname !~ '^record_\d'
    ), lines AS (
        SELECT concat_ws(' ', 'relation', relname, relkind, relrowsecurity, relforcerowsecurity,
            pg_get_partkeydef(oid), pg_get_userbyid(relowner),
            (SELECT string_agg(acl::text, ' ' ORDER BY acl::text) FROM unnest(relacl) AS acl)) AS line
            FROM relations WHERE relkind IN ('r', 'p', 'S')
        UNION ALL SELECT concat_ws(' ', 'column', relname, attname, format_type(atttypid, atttypmod),
            attnotnull, attidentity, attstorage, pg_get_expr(adbin, adrelid))
            FROM pg_attribute JOIN relations ON relations.oid = attrelid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT pg_get_indexdef(oid) FROM relations WHERE relkind IN ('i', 'I')
        UNION ALL SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(pg_constraint.oid))
            FROM pg_constraint JOIN relations ON relations.oid = conrelid
        UNION ALL SELECT concat_ws(' ', 'policy', tablename, policyname, permissive, cmd, qual, with_check,
            (SELECT string_agg(role::text, ' ' ORDER BY role::text) FROM unnest(roles) AS role))
            FROM pg_policies WHERE schemaname = 'haft' AND tablename !~ '^record_\d'
        UNION ALL SELECT concat_ws(' ', pg_get_functiondef(oid), pg_get_userbyid(proowner),
            (SELECT string_agg(acl::text, ' ' ORDER BY acl::text) FROM unnest(proacl) AS acl))
            FROM pg_proc WHERE pronamespace = 'haft'::regnamespace
        UNION ALL SELECT concat_ws(' ', 'schema', pg_get_userbyid(nspowner),
            (SELECT string_agg(acl::text, ' ' ORDER BY acl::text) FROM unnest(nspacl) AS acl))
            FROM pg_namespace WHERE nspname = 'haft'
    ) SELECT string_agg(line, E'\n' ORDER BY line) FROM lines";

/// How many versions of the schema there have been.
pub(crate) const VERSIONS: usize = SQLITE_STEPS.len();

/// The committed text of a version's schema.
pub(crate) fn committed(engine: &str, version: usize) -> String {
    fs::read_to_string(texts().join(format!("{engine}_{version}.sql"))).unwrap()
}

/// Where the texts are.
pub(crate) fn texts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schemas")
}

/// The text of a file's schema.
pub(crate) async fn sqlite_schema(directory: &Path) -> String {
    let mut connection = database(directory).await;
    sqlite_objects(&mut connection).await
}

async fn sqlite_objects(connection: &mut SqliteConnection) -> String {
    let objects: Vec<String> = sqlx::query_scalar(SQLITE_OBJECTS)
        .fetch_all(connection)
        .await
        .unwrap();
    objects.join(";\n\n") + ";\n"
}

/// What a database has, as its catalog says it.
pub(crate) fn postgres_catalog(fixture: &PostgresFixture) -> String {
    fixture.sql(POSTGRES_OBJECTS)
}

/// The steps of an engine up to each, as they are in the source.
fn steps(engine: &str, known: &[(&str, &str)]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(engine)
        .join("schema");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        files, names,
        "a step is never removed, and a new one is listed"
    );
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    names.into_iter().map(read).collect()
}

#[test]
fn a_step_never_changes() {
    for (engine, known) in [("sqlite", &SQLITE_STEPS), ("postgres", &POSTGRES_STEPS)] {
        for (text, (name, checksum)) in steps(engine, known).iter().zip(known) {
            assert_eq!(
                blake3::hash(text.as_bytes()).to_hex().as_str(),
                *checksum,
                "{engine}/schema/{name} has made records: leave it, and add a step"
            );
        }
    }
}

#[tokio::test]
async fn each_schema_of_sqlite_is_what_its_steps_make() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    for (version, step) in (1..).zip(steps("sqlite", &SQLITE_STEPS)) {
        connection.execute(&*step.leak()).await.unwrap();
        let made = sqlite_objects(&mut connection).await;
        assert_eq!(
            made,
            committed("sqlite", version),
            "version {version}:\n{made}"
        );
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn each_schema_of_postgresql_is_what_its_steps_make() {
    let server = PostgresFixture::new().await;
    let mut made = String::new();
    for (version, step) in (1..).zip(steps("postgres", &POSTGRES_STEPS)) {
        made.push_str(&step);
        let by_steps = server.without_schema_on_a_new_database();
        let begin = "SET ROLE haft_owner; CREATE SCHEMA haft; SET search_path = haft, pg_temp;";
        by_steps.sql(&format!("{begin} {made}"));
        let by_text = server.without_schema_on_a_new_database();
        let text = committed("postgres", version);
        by_text.sql(&format!("SET ROLE haft_owner; {text}"));
        let (made, kept) = (postgres_catalog(&by_steps), postgres_catalog(&by_text));
        assert_eq!(made, kept, "version {version}");
    }
}
