//! What holds here, key by key, and where each value comes from: for `haft config show`.

use haft_policy::PolicySource;
use toml::de::{DeTable, DeValue};

use super::keys::{ANY_NAME, ConfigKey, KeyTable, names, tables};

/// A value of a key, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The table, with the names as written: `limits`, `agents.claude-code`.
    pub table: String,
    /// The key.
    pub key: String,
    /// The value, as written in the file, or the default.
    pub value: String,
    /// Where it comes from.
    pub origin: ValueOrigin,
    /// What holds if another file sets it too; empty if none does.
    pub both: String,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// Nobody set it.
    Default,
    /// A file and its line.
    File {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
    },
}

/// A file and what it says.
struct ParsedSource<'s> {
    source: &'s PolicySource,
    document: DeTable<'s>,
}

/// Every value that these files set, and the defaults of the other keys.
pub fn effective_values(sources: &[PolicySource]) -> Vec<EffectiveValue> {
    // A file with a mistake has been refused before.
    let documents: Vec<ParsedSource<'_>> = sources
        .iter()
        .filter_map(|source| {
            let document = DeTable::parse(&source.text).ok()?.into_inner();
            Some(ParsedSource { source, document })
        })
        .collect();
    let mut found = Vec::new();
    for table in tables() {
        for key in table.keys.iter().filter(|key| key.kind != "table") {
            let mut set: Vec<EffectiveValue> = documents
                .iter()
                .flat_map(|parsed| written(parsed, table, key))
                .collect();
            let twice = |one: &EffectiveValue, all: &[EffectiveValue]| {
                let same =
                    |other: &&EffectiveValue| (&other.table, &other.key) == (&one.table, &one.key);
                all.iter().filter(same).count() > 1
            };
            let all = set.clone();
            for value in &mut set {
                if twice(value, &all) {
                    value.both.clone_from(&key.both);
                }
            }
            let has_default =
                !table.name.contains(['.', '[']) || table.name.starts_with("sandbox.");
            if let Some(default) = key
                .default
                .as_ref()
                .filter(|_| set.is_empty() && has_default && key.key != ANY_NAME)
            {
                set.push(EffectiveValue {
                    table: table.name.clone(),
                    key: key.key.clone(),
                    value: default.clone(),
                    origin: ValueOrigin::Default,
                    both: String::new(),
                });
            }
            found.extend(set);
        }
    }
    found
}

/// The values of a key in one file, in every table that has it.
fn written(parsed: &ParsedSource<'_>, table: &KeyTable, key: &ConfigKey) -> Vec<EffectiveValue> {
    let source = parsed.source;
    let mut found = Vec::new();
    let all = names(&table.name).into_iter();
    for (name, place) in all.flat_map(|name| places(&parsed.document, name)) {
        let others = |written: &str| table.keys.iter().all(|other| other.key != written);
        let written = place.iter().filter(|(written, _)| match key.key.as_str() {
            ANY_NAME => others(written.get_ref()),
            key => written.get_ref() == key,
        });
        for (written, value) in written {
            let before = source.text.get(..written.span().start).unwrap_or_default();
            let text = source.text.get(value.span()).unwrap_or_default();
            found.push(EffectiveValue {
                table: name.clone(),
                key: written.get_ref().to_string(),
                value: text.split_whitespace().collect::<Vec<_>>().join(" "),
                origin: ValueOrigin::File {
                    name: source.name.clone(),
                    line: before.matches('\n').count() + 1,
                },
                both: String::new(),
            });
        }
    }
    found
}

/// The tables with this name, in which `NAME` and `KIND` are any name and `[]` any number.
fn places<'d, 't>(document: &'d DeTable<'t>, name: &str) -> Vec<(String, &'d DeTable<'t>)> {
    let mut found = vec![(String::new(), document)];
    for part in name.split('.') {
        let (part, list) = part
            .strip_suffix("[]")
            .map_or((part, false), |part| (part, true));
        let mut next = Vec::new();
        for (path, table) in found {
            let any = matches!(part, "NAME" | "KIND");
            let wanted = table.iter().filter(|(key, _)| any || key.get_ref() == part);
            for (key, value) in wanted {
                let path = match path.as_str() {
                    "" => key.get_ref().to_string(),
                    path => format!("{path}.{}", key.get_ref()),
                };
                match value.get_ref() {
                    DeValue::Table(inner) => next.push((path, inner)),
                    DeValue::Array(items) if list => {
                        for (number, item) in items.iter().enumerate() {
                            if let Some(inner) = item.get_ref().as_table() {
                                next.push((format!("{path}[{number}]"), inner));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        found = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(sources: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<PolicySource> = sources
            .iter()
            .map(|(name, text)| PolicySource::new(*name, *text))
            .collect();
        let line = |value: &EffectiveValue| {
            let origin = match &value.origin {
                ValueOrigin::Default => "default".to_owned(),
                ValueOrigin::File { name, line } => format!("{name}:{line}"),
            };
            format!(
                "{} {} = {} ({origin}) {}",
                value.table, value.key, value.value, value.both
            )
        };
        effective_values(&sources).iter().map(line).collect()
    }

    #[test]
    fn a_value_names_its_file_and_line_and_what_holds_if_both_set_it() {
        let own = "[policy]\npreset = \"careful\"\n\n[limits]\nprocesses = 5\n";
        let project = "[limits]\nprocesses = 9\n[agents.main]\ndeny = [\"bash\"]\n\
                       [[mcp.servers]]\nid = \"x\"\ncommand = [\"true\"]\n\
                       [ssh.build]\nroot = \"/srv\"\n[tenants.acme]\npreset = \"locked\"\n";
        let lines = lines(&[("own.toml", own), ("haft.toml", project)]);
        for expected in [
            "policy preset = \"careful\" (own.toml:2) ",
            "limits processes = 5 (own.toml:5) the smaller",
            "limits processes = 9 (haft.toml:2) the smaller",
            "agents.main deny = [\"bash\"] (haft.toml:4) ",
            "mcp.servers[0] id = \"x\" (haft.toml:6) ",
            "loop_guard warn = 3 (default) ",
            "ssh.build root = \"/srv\" (haft.toml:9) ",
            "tenants.acme preset = \"locked\" (haft.toml:11) ",
        ] {
            assert!(
                lines.iter().any(|line| line == expected),
                "{expected}\n{lines:#?}"
            );
        }
        let unset = |line: &&String| line.starts_with("mcp.servers") && line.contains("default");
        assert!(!lines.iter().any(|line| unset(&line)));
    }
}
