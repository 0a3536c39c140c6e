//! The configured databases as a person sees them, and what is told of one before it is used. An
//! address may hold a password that an operator wrote there against all advice: none is shown.

use std::{fmt::Write as _, sync::Arc};

use haft_connect::{Databases, settings::SourceSettings};
use haft_contract::{
    BoxFuture,
    secret::{ReadSecret, Secret, SecretReference},
};
use haft_policy::PolicySource;
use serde_json::Value;

use crate::{
    config::{
        extended_config::{ExtendedConfig, with_lines},
        file,
        sources::place,
    },
    error::{HostError, HostErrorKind},
};

/// A configured database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceView {
    /// Its name.
    pub name: String,
    /// What kind of database it is.
    pub engine: &'static str,
    /// Whether it takes changes.
    pub writable: bool,
    /// Its address without a password, or its path.
    pub place: String,
}

impl SourceView {
    /// What is shown of a source.
    pub fn of(source: &SourceSettings) -> Self {
        Self {
            name: source.name.clone(),
            engine: source.engine.word(),
            writable: source.writable,
            place: place(&source.engine),
        }
    }
}

/// Whether an address holds a password, or may: `scheme://role:password@host`, or a key of this name.
pub fn has_password(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may have any of these signs itself, where it was not written as it must be.
    let user = [authority, rest]
        .into_iter()
        .filter_map(|text| text.rsplit_once('@'));
    let mut user = user.map(|(user, _)| user);
    user.any(|user| user.contains(':')) || address.to_lowercase().contains("password")
}

/// A database that is to be named in a configuration.
#[derive(Debug, Clone, Default)]
pub struct NewSource {
    /// What tools and rules call it.
    pub name: String,
    /// What kind of database it is.
    pub kind: String,
    /// Where the server is.
    pub address: Option<String>,
    /// Where the password is.
    pub password: Option<String>,
    /// The file.
    pub path: Option<String>,
    /// Whether it takes changes.
    pub writable: bool,
}

impl NewSource {
    /// Refuses a password among the settings: it does not get into a file. Neither text is repeated.
    pub fn refuse_passwords(&self) -> Result<(), HostError> {
        let hint =
            "write the address without it, and `--password env:NAME` or `--password file:/path`";
        if self.address.as_deref().is_some_and(has_password) {
            return Err(invalid("the address has a password", hint));
        }
        let is_reference = |text: &String| text.starts_with("env:") || text.starts_with("file:");
        if self
            .password
            .as_ref()
            .is_some_and(|text| !is_reference(text))
        {
            return Err(invalid(
                "`--password` takes no password, but says where it is",
                hint,
            ));
        }
        Ok(())
    }

    /// The configuration with its table at the end, where none of the known databases has its name.
    pub fn add_to(
        &self,
        config: &ExtendedConfig,
        known: &[SourceSettings],
    ) -> Result<AddedSource, HostError> {
        if known.iter().any(|known| known.name == self.name) {
            return Err(invalid(
                &format!("there is a database `{}` already", self.name),
                "choose another name, or change its table in haft.toml",
            ));
        }
        let added = self.added_to(config.text());
        // What the whole file says first: where it is wrong, it says which line.
        let whole = added.as_ref().map(|added| added.text.as_str());
        config.check(whole.unwrap_or(config.text()))?;
        added
    }

    /// A configuration with its table at the end, read by the code that will read it there. Nothing is
    /// connected to, and no secret is read.
    fn added_to(&self, before: &str) -> Result<AddedSource, HostError> {
        let table = self.table();
        let text = with_lines(before, &table);
        let parsed = file::parse(&PolicySource::new("haft.toml", text.as_str()));
        let sources = parsed.map(|file| file.databases).unwrap_or_default();
        let added = sources
            .into_iter()
            .filter(|source| source.name == self.name);
        let databases = Databases::new(added.collect(), Arc::new(UnreadSecrets));
        databases.map_err(|error| {
            let hint = "docs/guide/sources.md has an example of each kind";
            HostError::config(error.to_string(), hint)
        })?;
        Ok(AddedSource { table, text })
    }

    fn table(&self) -> String {
        // A JSON string is one of TOML.
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let key = if !self.name.is_empty() && self.name.chars().all(plain) {
            self.name.clone()
        } else {
            // It cannot be the name of one, and whoever reads it says so.
            quoted(&self.name)
        };
        let mut text = format!("[sources.{key}]\n");
        for (name, value) in [
            ("type", Some(&self.kind)),
            ("address", self.address.as_ref()),
            ("password", self.password.as_ref()),
            ("path", self.path.as_ref()),
        ] {
            if let Some(value) = value {
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "{name} = {}", quoted(value));
            }
        }
        if self.writable {
            text.push_str("writable = true\n");
        }
        text
    }
}

fn invalid(message: &str, hint: &str) -> HostError {
    HostError::new(HostErrorKind::Invalid, message, hint)
}

/// What naming a database adds to a configuration.
#[derive(Debug, Clone)]
pub struct AddedSource {
    /// Its table.
    pub table: String,
    /// The configuration with it.
    pub text: String,
}

/// Has no secret: none is needed before something is connected to.
struct UnreadSecrets;

impl ReadSecret for UnreadSecrets {
    fn read<'a>(&'a self, _: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        Box::pin(async { Err("nothing is read here".to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_not_shown() {
        let of = |address: &str| {
            let text = format!("[sources.crm]\ntype = \"postgres\"\naddress = \"{address}\"\n");
            let parsed = file::parse(&PolicySource::new("haft.toml", text.as_str()));
            SourceView::of(&parsed.unwrap().databases[0]).place
        };
        assert_eq!(of("postgres://haft@db/crm"), "postgres://haft@db/crm");
        assert_eq!(
            of("postgres://haft:x@db/crm"),
            "(an address with a password in it)"
        );
    }

    #[test]
    fn a_table_is_added_behind_what_is_there() {
        let source = NewSource {
            name: "shop".to_owned(),
            kind: "sqlite".to_owned(),
            path: Some("/srv/\"x\".db".to_owned()),
            ..NewSource::default()
        };
        let table = "[sources.shop]\ntype = \"sqlite\"\npath = \"/srv/\\\"x\\\".db\"\n";
        let added = source.added_to("# mine\n[policy]\n\n").unwrap();
        assert_eq!(added.table, table);
        assert_eq!(added.text, format!("# mine\n[policy]\n\n{table}"));
        assert_eq!(source.added_to("").unwrap().text, table);
        let far = NewSource {
            name: "crm".to_owned(),
            kind: "postgres".to_owned(),
            address: Some("postgres://db/crm".to_owned()),
            ..NewSource::default()
        };
        let error = far.added_to("").unwrap_err();
        assert!(error.to_string().contains("without a role"), "{error}");
    }

    #[test]
    fn a_password_in_an_address_is_seen() {
        for with in [
            "postgres://haft:x@db/crm",
            "postgres://haft:a/b@c@db/crm",
            "postgres://db/crm?user=haft&password=x",
            "host=db user=haft PASSWORD=x",
            "mysql://a:b@c",
            "haft:x@db",
        ] {
            assert!(has_password(with), "{with}");
        }
        for without in [
            "postgres://haft@db.example.org:5432/crm",
            "postgres://haft@[::1]:5432/crm?sslmode=require",
            "host=/run/postgresql user=haft dbname=crm",
        ] {
            assert!(!has_password(without), "{without}");
        }
    }
}
