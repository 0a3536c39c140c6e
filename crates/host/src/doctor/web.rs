//! The tools that reach the web: the providers that `web_search` asks and the APIs of `http` tools, and
//! whether their secrets are there. Nobody is asked: a search or a call may cost something.

use super::check::Check;
use crate::config::{
    Settings,
    web_tools::{CheckedSecret, check_http, check_search},
};

/// Checks each configured provider, and each secret of an API.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let providers = check_search(settings).into_iter().map(|provider| {
        let hint = "put the key there, or correct `key` of `web_search` in haft.toml";
        check("search", provider, hint)
    });
    let secrets = check_http(settings).into_iter().map(|secret| {
        let hint = "put the secret there, or correct `secrets` of the tool in haft.toml";
        check("http", secret, hint)
    });
    providers.chain(secrets).collect()
}

fn check(name: &'static str, checked: CheckedSecret, hint: &str) -> Check {
    match checked.lacks {
        None => Check::ok(name, checked.line),
        Some(why) => Check::fail(name, format!("{}: {why}", checked.line), hint),
    }
}
