//! The tools that call APIs: whether their secrets are there. No API is asked: a call may cost something.

use haft_host::{check_http, config::Settings};

use super::check::Check;

const NAME: &str = "http";

/// Checks each secret.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let checked = check_http(settings).into_iter();
    let check = checked.map(|secret| match secret.lacks {
        None => Check::ok(NAME, secret.line),
        Some(why) => Check::fail(
            NAME,
            format!("{}: {why}", secret.line),
            "put the secret there, or correct `secrets` of the tool in haft.toml",
        ),
    });
    check.collect()
}
