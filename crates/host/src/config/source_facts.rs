//! What a source of `haft.toml` lets happen, one sentence each, for the person who trusts the file. Each
//! setting that loosens anything is in one of them, so a change of any is a change of what is said.

use std::{collections::BTreeSet, path::Path};

use haft_connect::settings::{EngineSettings, SourceSettings};
use haft_contract::secret::SecretReference;

use super::sources::line;

/// The schema that nobody needs to be told of.
const USUAL_SCHEMA: &str = "public";

/// How a server is reached.
struct Login<'s> {
    password: Option<&'s SecretReference>,
    ca_file: Option<&'s Path>,
    encrypted: bool,
}

impl<'s> Login<'s> {
    /// None for a file.
    fn of(engine: &'s EngineSettings) -> Option<Self> {
        match engine {
            EngineSettings::Postgres(postgres) => Some(Self {
                password: postgres.password.as_ref(),
                ca_file: postgres.ca_file.as_deref(),
                encrypted: postgres.encrypted,
            }),
            EngineSettings::MariaDb(mariadb) => Some(Self {
                password: mariadb.password.as_ref(),
                ca_file: mariadb.ca_file.as_deref(),
                encrypted: mariadb.encrypted,
            }),
            EngineSettings::Sqlite(_) => None,
        }
    }
}

/// The sentences, each with the word for what it is about.
pub(super) fn facts(source: &SourceSettings) -> Vec<(&'static str, String)> {
    let name = &source.name;
    let mut facts = vec![("database", line(source))];
    let mut add = |word, text: String| facts.push((word, format!("`{name}` {text}")));
    if let Some(login) = Login::of(&source.engine) {
        if let Some(reference) = login.password {
            add("secret", format!("logs in with {reference}"));
        }
        if let Some(file) = login.ca_file {
            let file = file.display();
            add(
                "database",
                format!("believes the certificates that `{file}` vouches for"),
            );
        }
        if !login.encrypted {
            add(
                "database",
                "is asked over a connection that is not encrypted".to_owned(),
            );
        }
    }
    if let EngineSettings::Postgres(postgres) = &source.engine {
        if postgres.schema != USUAL_SCHEMA {
            let schema = &postgres.schema;
            add(
                "database",
                format!("names the tables of `{schema}` without it"),
            );
        }
        for table in &postgres.also_changes {
            add(
                "database",
                format!("lets triggers and cascades change `{table}`, which is not kept"),
            );
        }
    }
    for function in &source.functions {
        add(
            "database",
            format!("runs the function `{function}`, whatever it does"),
        );
    }
    for (key, most) in limits(source) {
        if let Some(most) = most {
            add("limit", format!("has {key} = {most}"));
        }
    }
    facts
}

/// What a source lets happen that it did not, if there was one of this name.
pub(super) fn loosened(before: Option<&SourceSettings>, after: &SourceSettings) -> Vec<String> {
    let known: BTreeSet<String> = before.map(facts).into_iter().flatten().map(text).collect();
    let facts = facts(after).into_iter();
    // Limits are compared by what they are: a lower one loosens nothing.
    let mut found: Vec<String> = facts
        .filter(|(word, _)| *word != "limit")
        .map(text)
        .filter(|text| !known.contains(text))
        .collect();
    let name = &after.name;
    let Some(before) = before else {
        return found;
    };
    let shown = before.masks.difference(&after.masks);
    found.extend(shown.map(|column| format!("`{name}` no longer masks `{column}`")));
    for ((key, was), (_, is)) in limits(before).into_iter().zip(limits(after)) {
        match (was, is) {
            (Some(was), None) => found.push(format!("`{name}` no longer has {key} = {was}")),
            (Some(was), Some(is)) if is > was => {
                found.push(format!("`{name}` has {key} = {is} instead of {was}"));
            }
            (Some(_) | None, _) => {}
        }
    }
    if let (Some(was), Some(is)) = (Login::of(&before.engine), Login::of(&after.engine)) {
        if was.password.is_some() && is.password.is_none() {
            found.push(format!("`{name}` logs in without a password"));
        }
        if was.ca_file.is_some() && is.ca_file.is_none() {
            found.push(format!(
                "`{name}` believes the certificates that this machine does"
            ));
        }
    }
    if let (EngineSettings::Postgres(was), EngineSettings::Postgres(is)) =
        (&before.engine, &after.engine)
        && was.schema != is.schema
        && is.schema == USUAL_SCHEMA
    {
        found.push(format!(
            "`{name}` names the tables of `{USUAL_SCHEMA}` without it, not those of `{}`",
            was.schema
        ));
    }
    found
}

fn text((_, text): (&'static str, String)) -> String {
    text
}

/// What keeps a statement from asking too much, and how many run at a time.
fn limits(source: &SourceSettings) -> [(&'static str, Option<u64>); 3] {
    [
        ("max_cost", source.max_cost),
        ("max_rows", source.max_rows),
        ("connections", u64::try_from(source.connections).ok()),
    ]
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file::parse;

    const PLAIN: &str = "[sources.crm]\ntype = \"postgres\"\npassword = \"env:CRM\"\n\
        address = \"postgres://haft@127.0.0.1/crm\"\nmax_cost = 500\nmax_rows = 10\n";

    fn source(text: &str) -> SourceSettings {
        let file = parse(&PolicySource::new("haft.toml", text)).unwrap();
        file.databases.into_iter().next().unwrap()
    }

    #[test]
    fn each_setting_that_loosens_is_said_and_shows_as_a_change() {
        let plain = source(PLAIN);
        assert_eq!(loosened(Some(&plain), &plain), Vec::<String>::new());
        let check = |from: &str, to: &str, expect: &str| {
            let changed = PLAIN.replace(from, to);
            assert_ne!(changed, PLAIN);
            let changed = source(&changed);
            let found = loosened(Some(&plain), &changed);
            assert_eq!(found, [expect], "{to}");
        };
        let more = |line: &str| format!("max_rows = 10\n{line}\n");
        check("env:CRM", "env:MYTOKEN", "`crm` logs in with env:MYTOKEN");
        check(
            "password = \"env:CRM\"\n",
            "",
            "`crm` logs in without a password",
        );
        check(
            "127.0.0.1/crm",
            "db.example.net/crm",
            "`crm` at `postgres://haft@db.example.net/crm`: queries",
        );
        for (line, expect) in [
            (
                "encrypted = false",
                "`crm` is asked over a connection that is not encrypted",
            ),
            (
                "ca_file = \"/tmp/x.pem\"",
                "`crm` believes the certificates that `/tmp/x.pem` vouches for",
            ),
            (
                "functions = [\"dblink_exec\"]",
                "`crm` runs the function `dblink_exec`, whatever it does",
            ),
            (
                "also_changes = [\"payroll\"]",
                "`crm` lets triggers and cascades change `payroll`, which is not kept",
            ),
            (
                "schema = \"sales\"",
                "`crm` names the tables of `sales` without it",
            ),
            (
                "writable = true",
                "`crm` at `postgres://haft@127.0.0.1/crm`: queries and changes",
            ),
            (
                "connections = 60",
                "`crm` has connections = 60 instead of 4",
            ),
        ] {
            check("max_rows = 10\n", &more(line), expect);
        }
        check("max_rows = 10\n", "", "`crm` no longer has max_rows = 10");
        check(
            "max_cost = 500",
            "max_cost = 5000",
            "`crm` has max_cost = 5000 instead of 500",
        );
        let maria = PLAIN.replace("postgres", "mariadb");
        let plain_maria = source(&maria);
        let open = source(&maria.replace("max_rows = 10", "max_rows = 10\nencrypted = false"));
        assert_eq!(
            loosened(Some(&plain_maria), &open),
            ["`crm` is asked over a connection that is not encrypted"]
        );
        let lower = source(&PLAIN.replace("max_cost = 500", "max_cost = 5"));
        assert_eq!(loosened(Some(&plain), &lower), Vec::<String>::new());
        let masked =
            source(&PLAIN.replace("max_rows = 10", "max_rows = 10\nmask = [\"users.email\"]"));
        assert_eq!(
            loosened(Some(&masked), &plain),
            ["`crm` no longer masks `users.email`"]
        );
        assert_eq!(loosened(Some(&plain), &masked), Vec::<String>::new());
        // What is taken away again loosens only where it held somebody back.
        let pinned = source(&PLAIN.replace(
            "max_rows = 10\n",
            "max_rows = 10\nca_file = \"/x.pem\"\nschema = \"sales\"\nfunctions = [\"f\"]\n",
        ));
        assert_eq!(
            loosened(Some(&pinned), &plain),
            [
                "`crm` believes the certificates that this machine does",
                "`crm` names the tables of `public` without it, not those of `sales`",
            ]
        );
        assert_eq!(
            loosened(None, &plain),
            [
                "`crm` at `postgres://haft@127.0.0.1/crm`: queries",
                "`crm` logs in with env:CRM",
            ]
        );
        assert!(facts(&plain).contains(&("limit", "`crm` has max_cost = 500".to_owned())));
    }
}
