//! The registries that a server names for its packages instead of the public ones, or besides them. A
//! package of such a server is never looked for at a public registry, where its name may be somebody
//! else's; so a variable counts even if only the agent can fill in its value.

use std::collections::BTreeMap;

use haft_contract::egress::HostRule;
use haft_egress::never_granted;
use url::Url;

use crate::config::launcher;

/// Options that name a registry.
const OPTIONS: [&str; 5] = [
    "--registry",
    "--index",
    "--index-url",
    "--default-index",
    "--extra-index-url",
];

/// Variables that name one, in upper case, or several with spaces between them.
const VARIABLES: [&str; 7] = [
    "NPM_CONFIG_REGISTRY",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
];

/// What stands for an address that is not known here.
const UNKNOWN: &str = "";

/// The hosts of registries that a command or its variables name; `None` if they name none, and empty
/// if nobody knows the hosts or no rule may grant them. A variable without a value has one that is not
/// known here.
pub fn own_registries(
    argv: &[String],
    env: &BTreeMap<String, Option<String>>,
) -> Option<Vec<String>> {
    launcher::fetches_from(argv)?;
    let mut addresses = Vec::new();
    let mut words = argv.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((option, value)) if OPTIONS.contains(&option) => addresses.push(value),
            // `env NAME=VALUE uvx server` sets variables too.
            Some((name, value)) if is_registry_variable(name) => {
                addresses.extend(value.split_whitespace());
            }
            None if OPTIONS.contains(&word) => addresses.extend(words.next()),
            Some(_) | None => {}
        }
    }
    for (_, value) in env.iter().filter(|(name, _)| is_registry_variable(name)) {
        match value {
            Some(value) => addresses.extend(value.split_whitespace()),
            None => addresses.push(UNKNOWN),
        }
    }
    let hosts = || addresses.iter().filter_map(|address| host(address));
    (!addresses.is_empty()).then(|| hosts().collect())
}

fn is_registry_variable(name: &str) -> bool {
    VARIABLES.contains(&name.to_ascii_uppercase().as_str())
}

/// The host of an address, if a rule may grant it.
fn host(address: &str) -> Option<String> {
    let url = Url::parse(without_name(address)).ok()?;
    let host = url.host_str()?;
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let rule = HostRule::parse(&host).ok()?;
    never_granted(&rule).is_none().then_some(host)
}

/// The address without the name that uv lets an index have: `corp=https://pypi.corp.test/simple`.
fn without_name(index: &str) -> &str {
    match index.split_once('=') {
        Some((name, address)) if !name.contains([':', '/']) => address,
        Some(_) | None => index,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, env: &[(&str, Option<&str>)]) -> Option<Vec<String>> {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)))
            .collect();
        own_registries(&argv, &env)
    }

    #[test]
    fn a_registry_whose_address_is_not_known_is_still_not_the_public_one() {
        for name in [
            "UV_INDEX_URL",
            "UV_DEFAULT_INDEX",
            "UV_INDEX",
            "UV_EXTRA_INDEX_URL",
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
        ] {
            assert_eq!(of("uvx thing", &[(name, None)]), Some(vec![]), "{name}");
        }
        let npm = [("npm_config_registry", None)];
        assert_eq!(of("npx thing", &npm), Some(vec![]));
        assert_eq!(of("uvx thing", &[("TOKEN", None)]), None);
        assert_eq!(of("uvx thing", &[("UV_INDEX", Some(""))]), None);
        assert_eq!(of("/srv/thing", &[("UV_INDEX_URL", None)]), None);
    }

    #[test]
    fn an_index_may_have_a_name_and_may_be_added_to_the_public_one() {
        let corp = Some(vec!["corp.test".to_owned()]);
        let url = Some("https://corp.test/simple/?a=b");
        let named = Some("corp=https://corp.test/simple");
        for (name, value) in [
            ("UV_INDEX", named),
            ("UV_DEFAULT_INDEX", named),
            ("UV_INDEX_URL", url),
            ("UV_EXTRA_INDEX_URL", url),
            ("PIP_EXTRA_INDEX_URL", url),
        ] {
            assert_eq!(of("uvx thing", &[(name, value)]), corp, "{name}");
        }
        for command in [
            "uvx --index corp=https://corp.test/simple thing",
            "uvx --index=corp=https://corp.test/simple thing",
            "uvx --default-index corp=https://corp.test/simple thing",
            "uvx --extra-index-url=https://corp.test/simple thing",
            "env UV_INDEX_URL=https://corp.test/simple uvx thing",
            "env UV_INDEX=corp=https://corp.test/simple uvx thing",
        ] {
            assert_eq!(of(command, &[]), corp, "{command}");
        }
        let two = [("UV_INDEX", Some("a=https://a.test https://b.test"))];
        let hosts = ["a.test", "b.test"].map(str::to_owned).to_vec();
        assert_eq!(of("uvx thing", &two), Some(hosts));
    }

    #[test]
    fn a_registry_of_ones_own_is_named_by_its_host() {
        let of = |command: &str| of(command, &[]);
        assert_eq!(of("npx server"), None);
        assert_eq!(of("node --registry https://npm.test/"), None);
        let one = Some(vec!["npm.test:8443".to_owned()]);
        assert_eq!(of("npx --registry https://npm.test:8443/x server"), one);
        assert_eq!(of("npx --registry=https://npm.test:8443/x server"), one);
        assert_eq!(of("uvx --index-url nonsense server"), Some(vec![]));
        let metadata = "npx --registry http://169.254.169.254/ server";
        assert_eq!(of(metadata), Some(vec![]));
    }
}
