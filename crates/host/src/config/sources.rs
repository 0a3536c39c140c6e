//! `[sources.NAME]` of `haft.toml`: databases that tools reach by name. The address stays here, and
//! the password where the reference says; no model sees either.

use std::{collections::BTreeSet, path::PathBuf};

use haft_connect::settings::{
    DEFAULT_CONNECTIONS, EngineSettings, MariaDbSettings, PostgresSettings, SourceSettings,
    SqliteSettings,
};
use haft_policy::{CedarPolicy, Problem, rule::Rule};

use super::{
    file::{Reader, Table},
    secrets::SecretReference,
};
use crate::sources::has_password;

/// The keys of `[sources.NAME]`.
const KEYS: [&str; 14] = [
    "type",
    "address",
    "password",
    "schema",
    "ca_file",
    "encrypted",
    "path",
    "writable",
    "mask",
    "functions",
    "also_changes",
    "connections",
    "max_cost",
    "max_rows",
];

/// The most statements at a time that can be configured for a source.
const MAX_CONNECTIONS: u64 = 64;

/// What a source is, for the person who trusts a file that names it.
pub(super) fn line(source: &SourceSettings) -> String {
    let name = &source.name;
    let takes = if source.writable {
        "queries and changes"
    } else {
        "queries"
    };
    match &source.engine {
        EngineSettings::Postgres(_) | EngineSettings::MariaDb(_) => {
            format!("`{name}` at `{}`: {takes}", place(&source.engine))
        }
        EngineSettings::Sqlite(_) => {
            format!("`{name}` in `{}`: {takes}", place(&source.engine))
        }
    }
}

/// Where a database is, without a password.
pub(crate) fn place(engine: &EngineSettings) -> String {
    let address = match engine {
        EngineSettings::Postgres(postgres) => &postgres.address,
        EngineSettings::MariaDb(mariadb) => &mariadb.address,
        EngineSettings::Sqlite(sqlite) => return sqlite.path.display().to_string(),
    };
    if has_password(address) {
        return "(an address with a password in it)".to_owned();
    }
    address.clone()
}

/// Adds the sources of another file. Of two with one name the first applies, which is the operator's
/// own.
pub(super) fn join(known: &mut Vec<SourceSettings>, more: Vec<SourceSettings>) {
    for source in more {
        if !known.iter().any(|known| known.name == source.name) {
            known.push(source);
        }
    }
}

/// Rules that name no configured database, or the schema that a source's tables are named without. They
/// would match nothing, and a denial that matches nothing is worse than none.
pub(super) fn unmatched_rules(policy: &CedarPolicy, sources: &[SourceSettings]) -> Vec<Problem> {
    let unmatched = |(name, source): (&str, &SourceSettings)| {
        let usual = format!("{}.{}", source.name, usual_schema(source));
        let name = name.to_lowercase();
        let rest = name.strip_prefix(&usual.to_lowercase())?;
        (rest.is_empty() || rest.starts_with('.')).then_some(usual)
    };
    let mut problems = Vec::new();
    for rule in policy.rules() {
        let name = rule.database_prefix().unwrap_or_default();
        problems.extend(unknown_source(rule, sources));
        let mut found = sources.iter().map(|source| (name, source));
        if let Some(usual) = found.find_map(unmatched) {
            let origin = rule.origin();
            let source = usual.split('.').next().unwrap_or_default();
            problems.push(Problem {
                source: origin.source.clone(),
                line: origin.line,
                column: None,
                message: format!(
                    "`{}` matches nothing: `{source}` names the tables of this schema without it",
                    origin.text
                ),
                hint: Some(format!(
                    "write `{source}.users` for the table `users` in `{usual}`, and `{source}` for all of them"
                )),
            });
        }
    }
    problems
}

/// A rule about a database that is not configured. Misspelt in `deny`, it would deny nothing.
fn unknown_source(rule: &Rule, sources: &[SourceSettings]) -> Option<Problem> {
    let may_be = |source: &SourceSettings| rule.may_name_database(&source.name) != Some(false);
    // Where there is none, nothing is queried, and `haft sources add` may follow.
    if sources.is_empty() || sources.iter().any(may_be) {
        return None;
    }
    let origin = rule.origin();
    let prefix = rule.database_prefix()?;
    let missing = prefix.split('.').next().unwrap_or(prefix);
    let names: Vec<String> = sources
        .iter()
        .map(|source| format!("`{}`", source.name))
        .collect();
    Some(Problem {
        source: origin.source.clone(),
        line: origin.line,
        column: None,
        message: format!(
            "`{}` can never match: there is no database `{missing}`",
            origin.text
        ),
        hint: Some(format!("the databases are: {}", names.join(", "))),
    })
}

/// The schema of tables that are named without one.
fn usual_schema(source: &SourceSettings) -> &str {
    match &source.engine {
        EngineSettings::Postgres(postgres) => &postgres.schema,
        EngineSettings::Sqlite(_) => "main",
        EngineSettings::MariaDb(mariadb) => mariadb.database(),
    }
}

impl Reader<'_> {
    /// Reads `[sources]`.
    pub(super) fn sources(&mut self, table: &Table<'_>) -> Vec<SourceSettings> {
        let mut sources = Vec::new();
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref();
            if !SourceSettings::is_a_name(name) {
                self.problem(
                    at,
                    format!("`{name}` cannot be the name of a source"),
                    "write at most 64 of a-z, 0-9, `-` and `_`, beginning with a letter",
                );
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => sources.extend(self.source(table, name, at)),
                None => self.problem(
                    value.span().start,
                    format!("`sources.{name}` must be a table"),
                    "write [sources.NAME] and its settings below",
                ),
            }
        }
        sources
    }

    fn source(&mut self, table: &Table<'_>, name: &str, at: usize) -> Option<SourceSettings> {
        let title = format!("[sources.{name}]");
        self.known_keys(table, &title, &KEYS);
        let kind = table.get("type").and_then(|value| value.get_ref().as_str());
        let engine = match kind {
            Some("postgres") => self
                .postgres(table, &title, at)
                .map(EngineSettings::Postgres),
            Some("sqlite") => self.sqlite(table, &title, at).map(EngineSettings::Sqlite),
            Some("mariadb" | "mysql") => {
                self.mariadb(table, &title, at).map(EngineSettings::MariaDb)
            }
            Some(_) | None => {
                self.problem(
                    at,
                    format!("{title} does not say which database it is"),
                    "write `type = \"postgres\"`, `type = \"mariadb\"` or `type = \"sqlite\"`",
                );
                None
            }
        };
        let connections = self.number(table, "connections");
        let connections =
            connections.map_or(DEFAULT_CONNECTIONS as u64, |most| most.min(MAX_CONNECTIONS));
        let source = SourceSettings {
            name: name.to_owned(),
            writable: self.yes(table, "writable")?.unwrap_or(false),
            masks: self.names(
                table,
                "mask",
                "write [\"users.email\"]: queries return its values masked",
            ),
            functions: self
                .names(
                    table,
                    "functions",
                    "write [\"score\"]: statements may call them, whatever they do",
                )
                .iter()
                .map(|name| name.to_lowercase())
                .collect(),
            connections: usize::try_from(connections).unwrap_or(DEFAULT_CONNECTIONS),
            max_cost: self.number(table, "max_cost"),
            max_rows: self.number(table, "max_rows"),
            engine: engine?,
        };
        Some(source)
    }

    fn postgres(&mut self, table: &Table<'_>, title: &str, at: usize) -> Option<PostgresSettings> {
        let address = self.text(table, "address");
        if address.is_none() {
            self.problem(
                at,
                format!("{title} has no `address`"),
                "write `address = \"postgres://role@host/database\"`",
            );
        }
        let password = self.password(table, title);
        let ca_file = self
            .text(table, "ca_file")
            .map(|(_, path)| PathBuf::from(path));
        Some(PostgresSettings {
            address: address?.1,
            password,
            schema: self
                .text(table, "schema")
                .map_or_else(|| "public".to_owned(), |(_, schema)| schema),
            also_changes: self.names(
                table,
                "also_changes",
                "write [\"audit\"]: triggers and cascades may change these tables",
            ),
            ca_file,
            encrypted: self.yes(table, "encrypted")?.unwrap_or(true),
        })
    }

    fn mariadb(&mut self, table: &Table<'_>, title: &str, at: usize) -> Option<MariaDbSettings> {
        let address = self.text(table, "address");
        if address.is_none() {
            self.problem(
                at,
                format!("{title} has no `address`"),
                "write `address = \"mariadb://role@host/database\"`",
            );
        }
        let password = self.password(table, title);
        if let Some(value) = table.get("schema") {
            self.problem(
                value.span().start,
                format!("{title} has a `schema`, which is the database of the address here"),
                "leave it out",
            );
        }
        let ca_file = self
            .text(table, "ca_file")
            .map(|(_, path)| PathBuf::from(path));
        Some(MariaDbSettings {
            address: address?.1,
            password,
            ca_file,
            encrypted: self.yes(table, "encrypted")?.unwrap_or(true),
        })
    }

    /// Where the password of a role is kept.
    fn password(&mut self, table: &Table<'_>, title: &str) -> Option<SecretReference> {
        let value = table.get("password")?;
        let reference = value.get_ref().as_str().and_then(SecretReference::parse);
        if reference.is_none() {
            // The text is never repeated: it may be the password itself.
            self.problem(
                value.span().start,
                format!("`password` of {title} must say where the password is"),
                "write `password = \"env:NAME\"` or `password = \"file:/absolute/path\"`",
            );
        }
        reference
    }

    fn sqlite(&mut self, table: &Table<'_>, title: &str, at: usize) -> Option<SqliteSettings> {
        let path = self
            .text(table, "path")
            .map(|(_, path)| PathBuf::from(path));
        if !path.as_ref().is_some_and(|path| path.is_absolute()) {
            self.problem(
                at,
                format!("{title} has no absolute `path`"),
                "write `path = \"/srv/data/shop.db\"`",
            );
        }
        path.map(|path| SqliteSettings { path })
    }

    /// A key that is true or false; `None` if it is neither.
    #[expect(
        clippy::option_option,
        reason = "a key that is missing is not one that is wrong"
    )]
    fn yes(&mut self, table: &Table<'_>, key: &str) -> Option<Option<bool>> {
        let Some(value) = table.get(key) else {
            return Some(None);
        };
        let yes = value.get_ref().as_bool();
        if yes.is_none() {
            self.problem(
                value.span().start,
                format!("`{key}` must be true or false"),
                "write it without quotes",
            );
        }
        yes.map(Some)
    }

    /// A list of names.
    fn names(&mut self, table: &Table<'_>, key: &str, hint: &str) -> BTreeSet<String> {
        let Some(value) = table.get(key) else {
            return BTreeSet::new();
        };
        let entries = value.get_ref().as_array();
        let names = entries.map(|entries| {
            let names = entries.iter().map(|entry| entry.get_ref().as_str());
            names
                .map(|name| name.map(str::to_owned))
                .collect::<Option<BTreeSet<_>>>()
        });
        names.flatten().unwrap_or_else(|| {
            self.problem(
                value.span().start,
                format!("`{key}` must be a list of names"),
                hint,
            );
            BTreeSet::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::{PolicyFile, PolicySource};

    use super::*;
    use crate::config::file::parse;

    fn sources(text: &str) -> Result<Vec<SourceSettings>, String> {
        let parsed = parse(&PolicySource::new("haft.toml", text));
        parsed.map(|file| file.databases).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn a_source_has_a_kind_and_a_place() {
        let text = "[sources.crm]\ntype = \"postgres\"\naddress = \"postgres://haft@db/crm\"\n\
            password = \"env:CRM\"\nwritable = true\nfunctions = [\"Score\"]\nalso_changes = [\"Audit\"]\nconnections = 900\n\
            [sources.shop]\ntype = \"sqlite\"\npath = \"/srv/shop.db\"\n";
        let read = sources(text).unwrap();
        let [crm, shop] = read.as_slice() else {
            panic!("{read:?}");
        };
        assert!(crm.writable && crm.functions.contains("score") && crm.connections == 64);
        let EngineSettings::Postgres(postgres) = &crm.engine else {
            panic!("{crm:?}");
        };
        assert_eq!(postgres.also_changes, ["Audit".to_owned()].into());
        assert_eq!(
            line(crm),
            "`crm` at `postgres://haft@db/crm`: queries and changes"
        );
        assert_eq!(line(shop), "`shop` in `/srv/shop.db`: queries");
        assert_eq!(shop.connections, DEFAULT_CONNECTIONS);
    }

    #[test]
    fn what_is_missing_or_cannot_be_is_told_with_its_line() {
        let check = |text: &str, expect: &str| {
            let problems = sources(text).unwrap_err();
            assert!(problems.contains(expect), "{text}: {problems}");
            assert!(!problems.contains("hunter2"), "{problems}");
        };
        check(
            "[sources.crm]\n",
            "haft.toml:1:10: [sources.crm] does not say which database",
        );
        check("[sources.crm]\ntype = \"postgres\"\n", "has no `address`");
        check("[sources.crm]\ntype = \"mariadb\"\n", "has no `address`");
        check(
            "[sources.crm]\ntype = \"mysql\"\naddress = \"mariadb://a@b/c\"\nschema = \"c\"\n",
            "the database of the address",
        );
        check(
            "[sources.crm]\ntype = \"mariadb\"\naddress = \"mariadb://a@b/c\"\npassword = \"hunter2\"\n",
            "must say where the password is",
        );
        check(
            "[sources.crm]\ntype = \"sqlite\"\npath = \"x.db\"\n",
            "no absolute `path`",
        );
        check(
            "[sources.\"a.b\"]\ntype = \"sqlite\"\n",
            "cannot be the name",
        );
        check(
            "[sources.crm]\ntype = \"postgres\"\naddress = \"postgres://a@b/c\"\npassword = \"hunter2\"\n",
            "must say where the password is",
        );
        check(
            "[sources.crm]\ntype = \"sqlite\"\npath = \"/x\"\nwrite = true\n",
            "unknown key `write`",
        );
    }

    #[test]
    fn a_rule_about_a_database_that_is_not_configured_is_a_mistake() {
        let sources =
            sources("[sources.crm]\ntype = \"sqlite\"\npath = \"/srv/crm.db\"\n").unwrap();
        let problems = |rule: &str, list: &str, sources: &[SourceSettings]| {
            let text = format!("[policy]\n{list} = [\"{rule}\"]\n");
            let file = PolicyFile::parse(&PolicySource::new("haft.toml", text)).unwrap();
            let problems = unmatched_rules(&file.build().unwrap(), sources);
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for list in ["allow", "ask", "deny"] {
            for rule in [
                "db(nosuch)",
                "db(kunden.orders, reads)",
                "@all(db:crmx.*)",
                "db(x*)",
            ] {
                let found = problems(rule, list, &sources);
                let [one] = found.as_slice() else {
                    panic!("{list} {rule}: {found:?}");
                };
                assert!(one.starts_with("haft.toml:2"), "{one}");
                assert!(one.ends_with("the databases are: `crm`"), "{one}");
            }
            for rule in [
                "db(crm)",
                "db(crm.users.email, writes)",
                "db(*)",
                "db(*.users)",
                "db(c*, reads)",
                "database_query(db:crm.*)",
                "edit(docs/**)",
                "deploy(crmx)",
                "bash(db *)",
            ] {
                assert_eq!(problems(rule, list, &sources), [""; 0], "{list} {rule}");
            }
        }
        assert_eq!(problems("db(crm)", "deny", &[]).len(), 0);
        assert_eq!(problems("edit(docs/**)", "deny", &[]).len(), 0);
    }

    #[test]
    fn a_rule_with_the_schema_that_is_left_out_is_a_mistake() {
        let sources = sources(
            "[sources.crm]\ntype = \"postgres\"\naddress = \"postgres://a@b/c\"\nschema = \"sales\"\n\
             [sources.shop]\ntype = \"sqlite\"\npath = \"/srv/shop.db\"\n\
             [sources.web]\ntype = \"mysql\"\naddress = \"mysql://haft@db:3307/site\"\n",
        )
        .unwrap();
        assert_eq!(
            line(&sources[2]),
            "`web` at `mysql://haft@db:3307/site`: queries"
        );
        let problems = |rule: &str| {
            let text = format!("[policy]\ndeny = [\"{rule}\"]\n");
            let file = PolicyFile::parse(&PolicySource::new("haft.toml", text)).unwrap();
            let problems = unmatched_rules(&file.build().unwrap(), &sources);
            let lines = problems.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>().join("\n")
        };
        for rule in [
            "db(crm.sales.orders)",
            "db(crm.Sales.orders.total, writes)",
            "db(crm.sales.*)",
            "db(crm.sales)",
            "database_query(db:shop.main.users)",
            "db(web.site.users)",
        ] {
            let told = problems(rule);
            assert!(
                told.contains("haft.toml:2: ") && told.contains("matches nothing"),
                "{rule}: {told}"
            );
        }
        for rule in [
            "db(crm.public.users)",
            "db(crm.salesmen)",
            "db(crm)",
            "db(*)",
            "db(shop.users.main)",
            "write(crm.sales.orders)",
        ] {
            assert_eq!(problems(rule), "", "{rule}");
        }
    }

    #[test]
    fn the_first_files_source_applies() {
        let of = |path: &str| {
            let text = format!("[sources.shop]\ntype = \"sqlite\"\npath = \"{path}\"\n");
            sources(&text).unwrap()
        };
        let mut joined = of("/own");
        join(&mut joined, of("/project"));
        assert_eq!(line(&joined[0]), "`shop` in `/own`: queries");
        assert_eq!(joined.len(), 1);
    }
}
