//! The registries that a server names for its packages instead of the public ones, or besides them. A
//! package of such a server is never looked for at a public registry, where its name may be somebody
//! else's; so a variable counts even if only the agent can fill in its value.
//!
//! Read next: `config/launcher.rs`, which knows the options and variables that replace a registry.

use std::collections::BTreeMap;

use crate::config::launcher;

/// Variables that add registries to the public one: addresses with spaces between them.
const ADDING_VARIABLES: [&str; 3] = ["UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"];

/// Options whose address may have a name, or that only add a registry.
const INDEX_OPTIONS: [&str; 3] = ["--index", "--default-index", "--extra-index-url"];

/// The option that the others are written as, because the launcher knows it.
const INDEX_OPTION: &str = "--index";

/// The hosts of registries that a command or its variables name; `None` if they name none, and empty
/// if nobody knows the hosts or no rule may grant them. A variable without a value has one that is not
/// known here.
pub fn own_registries(
    argv: &[String],
    env: &BTreeMap<String, Option<String>>,
) -> Option<Vec<String>> {
    let mut words = with_plain_indexes(argv);
    let mut replacing = BTreeMap::new();
    let given = env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()));
    // `env NAME=VALUE uvx server` sets variables too.
    let assigned = argv.iter().filter_map(|word| word.split_once('='));
    let assigned = assigned.map(|(name, value)| (name, Some(value)));
    for (name, value) in given.chain(assigned) {
        if ADDING_VARIABLES.contains(&name.to_ascii_uppercase().as_str()) {
            let addresses =
                value.map_or_else(|| vec![""], |list| list.split_whitespace().collect());
            for address in addresses {
                words.extend([INDEX_OPTION, without_name(address)].map(str::to_owned));
            }
        } else {
            let address = without_name(value.unwrap_or_default());
            replacing.insert(name.to_owned(), address.to_owned());
        }
    }
    launcher::own_registries(&words, &replacing)
}

/// The command's words, with every index as an address after the one option.
fn with_plain_indexes(argv: &[String]) -> Vec<String> {
    let mut words = Vec::with_capacity(argv.len());
    let mut is_value = false;
    for word in argv {
        if is_value {
            words.push(without_name(word).to_owned());
            is_value = false;
            continue;
        }
        match word.split_once('=') {
            Some((option, value)) if INDEX_OPTIONS.contains(&option) => {
                words.push(format!("{INDEX_OPTION}={}", without_name(value)));
            }
            None if INDEX_OPTIONS.contains(&word.as_str()) => {
                words.push(INDEX_OPTION.to_owned());
                is_value = true;
            }
            Some(_) | None => words.push(word.clone()),
        }
    }
    words
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
}
