//! The databases that tools reach: whether each answers, and whether its role may do too much.

use haft_host::{CheckedSource, check_sources, config::Settings};

use super::check::Check;

const NAME: &str = "database";

/// Checks each configured database.
pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    match check_sources(settings).await {
        Ok(sources) => sources.iter().flat_map(checks_of).collect(),
        Err(error) => vec![Check::stopped(NAME, error)],
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
            format!("check [sources.{name}] in haft.toml"),
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
