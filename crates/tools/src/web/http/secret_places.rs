//! The secrets of an operation: where each is kept, and where in a request it may stand. No message
//! repeats what is written, because that may be the secret itself.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::secret::SecretReference;
use serde_json::Value;

use super::template::Template;

/// The most secrets of one operation.
const MAX_SECRETS: usize = 8;

/// Headers that hold nothing but credentials.
const CREDENTIAL_HEADERS: [&str; 5] = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
];

/// Parameters of a query that hold nothing but credentials.
const CREDENTIAL_PARAMETERS: [&str; 4] = ["access_token", "api_key", "apikey", "client_secret"];

/// The references of `secrets`.
pub(super) fn references(written: &Value) -> Result<BTreeMap<String, SecretReference>, String> {
    let table = match written {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(table) => table,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(
                "`secrets` must be a table of references, such as `KEY = \"env:KEY\"`".to_owned(),
            );
        }
    };
    if table.len() > MAX_SECRETS {
        return Err(format!("it has more than {MAX_SECRETS} secrets"));
    }
    let read = table.iter().map(|(name, reference)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err("the name of a secret has only letters, digits and `_`".to_owned());
        }
        match reference.as_str().and_then(SecretReference::parse) {
            Some(reference) => Ok((name.clone(), reference)),
            None => Err(format!(
                "`secrets.{name}` must say where the secret is: \"env:NAME\" or \"file:/absolute/path\""
            )),
        }
    });
    read.collect()
}

/// Checks that each secret that a request names is known, and that each that is known is sent.
pub(super) fn check_used(
    known: &BTreeMap<String, SecretReference>,
    used: &BTreeSet<&str>,
) -> Result<(), String> {
    if used.iter().any(|name| !known.contains_key(*name)) {
        return Err(
            "it uses a secret that `secrets` does not name; add `NAME = \"env:NAME\"` there"
                .to_owned(),
        );
    }
    match known.keys().find(|name| !used.contains(name.as_str())) {
        Some(name) => Err(format!(
            "the secret `{name}` is used nowhere; write `${{{name}}}` where it belongs, or take it out of \
             `secrets`"
        )),
        None => Ok(()),
    }
}

/// Checks that a header that is a credential is a secret, and nothing that a caller chooses.
pub(super) fn check_header(name: &str, value: &Template) -> Result<(), String> {
    check_credential(
        "the header",
        name,
        CREDENTIAL_HEADERS.contains(&name),
        value,
    )
}

/// The same for a parameter of a query.
pub(super) fn check_parameter(name: &str, value: &Template) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    let is_credential = CREDENTIAL_PARAMETERS.contains(&lower.as_str());
    check_credential("the parameter", name, is_credential, value)
}

fn check_credential(
    what: &str,
    name: &str,
    is_credential: bool,
    value: &Template,
) -> Result<(), String> {
    if !is_credential {
        return Ok(());
    }
    if value.arguments().next().is_some() {
        return Err(format!(
            "{what} `{name}` cannot be an argument: it is a credential"
        ));
    }
    if value.secrets().next().is_none() {
        return Err(format!(
            "{what} `{name}` is a credential: write `${{KEY}}` in it, and under `secrets` where `KEY` is kept"
        ));
    }
    Ok(())
}
