//! Secrets of mounted servers and of scripts: references in the configuration, read when a server or
//! a script starts and never repeated in messages.

use std::collections::BTreeMap;

pub use haft_contract::secret::SecretReference;

use crate::state::private;

/// The largest file a secret is read from.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The secret, or why it is not available. Its value never gets into a message.
pub fn read_secret(reference: &SecretReference) -> Result<String, String> {
    match reference {
        SecretReference::Env(variable) => match std::env::var(variable) {
            Ok(secret) if !secret.is_empty() => Ok(secret),
            Ok(_) | Err(_) => Err(format!("the variable `{variable}` is not set")),
        },
        SecretReference::File(path) => {
            let shown = path.display();
            // What the kernel writes there is nobody's secret to send: `/proc/self/environ` is all of them.
            if ["/proc", "/sys", "/dev"]
                .iter()
                .any(|kernel| path.starts_with(kernel))
            {
                return Err(format!("`{shown}` is not a file that a secret is kept in"));
            }
            let bytes = private::read_own(path, MAX_SECRET_BYTES)
                .map_err(|error| format!("`{shown}` cannot be used: {error}"))?
                .ok_or_else(|| format!("there is no file `{shown}`"))?;
            let text =
                String::from_utf8(bytes).map_err(|_| format!("`{shown}` does not hold text"))?;
            let secret = text.trim_end_matches(['\r', '\n']);
            if secret.is_empty() {
                return Err(format!("`{shown}` is empty"));
            }
            Ok(secret.to_owned())
        }
    }
}

/// The names in a text's `${…}` placeholders.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// A text with its placeholders filled in.
pub fn filled(text: &str, secrets: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    // In one pass, so that a secret's value is never searched for placeholders.
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        match after.split_once('}') {
            Some((name, more)) if secrets.contains_key(name) => {
                filled.extend(secrets.get(name).map(String::as_str));
                rest = more;
            }
            Some(_) | None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_looked_at_for_other_secrets() {
        let secrets = [("A", "${B}"), ("B", "hidden")];
        let secrets = secrets.map(|(name, secret)| (name.to_owned(), secret.to_owned()));
        let filled = |text| filled(text, &secrets.clone().into());
        assert_eq!(filled("x ${A} ${B} ${C} ${"), "x ${B} hidden ${C} ${");
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_and_nothing_else() {
        let kernel = SecretReference::parse("file:/proc/self/environ").unwrap();
        assert_eq!(
            read_secret(&kernel),
            Err("`/proc/self/environ` is not a file that a secret is kept in".to_owned())
        );
        let missing = SecretReference::parse("env:HAFT_TEST_NO_SUCH_VARIABLE").unwrap();
        assert_eq!(
            read_secret(&missing),
            Err("the variable `HAFT_TEST_NO_SUCH_VARIABLE` is not set".to_owned())
        );
    }
}
