//! Secrets of scripts, mounted servers and the webhook that are there and are kept badly: where every
//! command can read them, or too short to be kept out of the record. What is missing is reported with
//! what needs it, and so are the secrets of tools and databases.

use haft_contract::secret::SecretReference;

use super::check::Check;
use crate::{
    config::{Settings, secrets::read_secret},
    configured_scripts::configured_scripts,
    script_secrets::ScriptSecrets,
};

/// One line for each secret that is kept badly.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let secrets = ScriptSecrets::without_record(settings);
    let mut checks = Vec::new();
    // An unreadable script is reported with the tools.
    for configured in configured_scripts(settings).into_iter().flatten() {
        let manifest = configured.script.manifest();
        let whose = format!("the script `{}`", manifest.name);
        for (name, reference) in &manifest.secrets {
            checks.extend(check(&secrets, reference, &format!("`{name}` of {whose}")));
        }
    }
    for server in settings.mcp.mounted() {
        for (name, reference) in &server.secrets {
            let what = format!("`{name}` of the server `{}`", server.id);
            checks.extend(check(&secrets, reference, &what));
        }
    }
    if let Some(webhook) = settings.asking.places.webhook() {
        checks.extend(check(&secrets, &webhook.key, "the key of the webhook"));
    }
    checks
}

/// What is wrong with where and how a secret is kept, if it is there.
fn check(secrets: &ScriptSecrets, reference: &SecretReference, what: &str) -> Option<Check> {
    read_secret(reference).ok()?;
    let why = secrets.lacks(reference)?;
    let hint = "keep it in a variable or in a file elsewhere; make one that is too short longer";
    Some(Check::warn("secret", format!("{what}: {why}"), hint))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "writes secrets and settings to a directory of its own"
)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;
    use crate::config::{
        ConfigPlaces, Env,
        resolve::Overrides,
        web_tools::{check_http, check_search},
    };

    fn secret(path: &Path, value: &str) -> String {
        fs::write(path, value).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        format!("file:{}", path.display())
    }

    /// What is said of one secret, wherever it is used.
    fn said(work: &Path, other: &Path, reference: &str) -> (Vec<String>, Vec<Option<String>>) {
        let config = other.join("haft.toml");
        let text = format!(
            "[[mcp.servers]]\nid = \"x\"\ncommand = [\"/bin/x\"]\nsecrets = {{ K = \"{reference}\" }}\n\
             [approvals.webhook]\nurl = \"https://a.example/hook\"\nkey = \"{reference}\"\n\
             [tools.web_search]\ntype = \"web_search\"\n\
             config = {{ providers = [{{ type = \"brave\", key = \"{reference}\" }}] }}\n\
             [tools.y]\ntype = \"http\"\n[tools.y.config]\ndescription = \"y\"\nmethod = \"GET\"\n\
             url = \"https://a.example/y\"\nheaders = {{ k = \"${{K}}\" }}\nsecrets = {{ K = \"{reference}\" }}\n"
        );
        fs::write(&config, text).unwrap();
        let overrides = Overrides {
            workspace: Some(work.to_owned()),
            config: Some(config),
            data_dir: Some(other.join("data")),
        };
        let places = ConfigPlaces::find(&Env::default(), &overrides).unwrap();
        let settings = places.settings().unwrap();
        let checks = checks(&settings).into_iter().map(|check| check.detail);
        let asked = check_search(&settings)
            .into_iter()
            .chain(check_http(&settings));
        (checks.collect(), asked.map(|asked| asked.lacks).collect())
    }

    #[test]
    fn a_secret_that_commands_read_or_that_is_too_short_is_named() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (work, other) = (work.path(), other.path());
        let good = secret(&other.join("good"), "long enough\n");
        assert_eq!(said(work, other, &good), (Vec::new(), vec![None, None]));
        let inside = secret(&work.join("inside"), "long enough");
        let short = secret(&other.join("short"), "12345");
        for (reference, why) in [
            (inside, "where every command can read it"),
            (short, "has fewer than 6 bytes"),
        ] {
            let (checks, asked) = said(work, other, &reference);
            assert_eq!(checks.len(), 2, "{checks:?}");
            assert!(
                checks[0].starts_with("`K` of the server `x`: "),
                "{checks:?}"
            );
            assert!(
                checks[1].starts_with("the key of the webhook: "),
                "{checks:?}"
            );
            let of_tools = asked.into_iter().map(Option::unwrap_or_default);
            let all: Vec<String> = checks.into_iter().chain(of_tools).collect();
            assert_eq!(all.len(), 4);
            assert!(all.iter().all(|text| text.contains(why)), "{all:?}");
            assert!(!all.iter().any(|text| text.contains("12345")), "{all:?}");
        }
        // What is missing is reported with what needs it.
        let (checks, asked) = said(work, other, "env:HAFT_TEST_NO_SUCH_VARIABLE");
        assert!(checks.is_empty(), "{checks:?}");
        assert!(asked.iter().all(Option::is_some), "{asked:?}");
    }
}
