//! The providers that `web_search` asks: which they are, and whether their keys are there. None is
//! asked: a search costs something.

use haft_host::{check_search, config::Settings};

use super::check::Check;

const NAME: &str = "search";

/// Checks each configured provider.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let checked = check_search(settings).into_iter();
    let check = checked.map(|provider| match provider.lacks {
        None => Check::ok(NAME, provider.line),
        Some(why) => Check::fail(
            NAME,
            format!("{}: {why}", provider.line),
            "put the key there, or correct `key` of `web_search` in haft.toml",
        ),
    });
    check.collect()
}
