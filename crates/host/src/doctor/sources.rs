//! The databases that tools reach: whether each answers, and whether its role may do too much.

use super::check::Check;
use crate::{
    config::Settings,
    databases::{CheckedSource, check_sources},
};

const NAME: &str = "database";

/// Checks each configured database.
pub async fn checks(settings: &Settings) -> Vec<Check> {
    if settings.databases.is_empty() {
        let hint = "`haft sources add` names one".to_owned();
        return vec![Check::absent(NAME, "no database is configured", Some(hint))];
    }
    match check_sources(settings).await {
        Ok(sources) => sources.iter().flat_map(checks_of).collect(),
        Err(error) => vec![Check::stopped(NAME, &error)],
    }
}

fn checks_of(source: &CheckedSource) -> Vec<Check> {
    let name = &source.name;
    let takes = if source.writable {
        "queries and changes"
    } else {
        "queries"
    };
    match &source.findings {
        Err(error) => vec![Check::fail(
            NAME,
            format!("`{name}`: {error}"),
            match error.hint() {
                Some(hint) => hint.to_owned(),
                None => format!("check [sources.{name}] in haft.toml, and that the server runs"),
            },
        )],
        Ok(findings) if findings.is_empty() => {
            vec![Check::ok(
                NAME,
                format!("`{name}` ({}) answers; it takes {takes}", source.engine),
            )]
        }
        Ok(findings) => {
            let checks = findings.iter().map(|finding| {
                let detail = format!("`{name}`: {}", finding.text);
                let hint = "docs/guide/sources.md says which role Haft should have";
                if finding.refused {
                    Check::fail(NAME, detail, hint)
                } else {
                    Check::warn(NAME, detail, hint)
                }
            });
            checks.collect()
        }
    }
}
