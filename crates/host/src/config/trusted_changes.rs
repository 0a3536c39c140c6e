//! What a configuration file says differently from when it was last trusted, as far as it is about
//! rules: policy, and the hosts that commands may never reach; and which tools and databases it offers that
//! it did not offer, or lets reach further. `loosened_outside.rs` has what is neither.

use std::{collections::BTreeSet, path::Path};

#[cfg(feature = "databases")]
use haft_connect::settings::SourceSettings;
use haft_contract::Tool as _;
use haft_policy::{PolicyChange, PolicyFile, PolicySource};
use haft_tools::web::{
    http::HttpOperation,
    web_fetch::{WebFetchConfig, WebFetchTool},
    web_search::{WebSearchConfig, WebSearchTool},
};

use super::{
    file::{self, ConfiguredTool},
    loosened_outside,
    trust::TrustStore,
    web_tools::HTTP,
};

/// How a file compares with what was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedChanges {
    /// What differs.
    Compared {
        /// In the rules.
        rules: Vec<PolicyChange>,
        /// What tools, servers and databases may do that they could not, and who else answers, one
        /// sentence each.
        loosened: Vec<String>,
    },
    /// What was trusted is not known, or this program no longer understands it.
    Unknown,
}

impl TrustedChanges {
    /// Compares the text of a file with the one that was trusted. Names in messages are `name`.
    pub fn of(store: &TrustStore, path: &Path, name: &str, text: &str) -> Self {
        let Some(before) = store.trusted_text(path) else {
            return Self::Unknown;
        };
        let (before, after) = (
            PolicySource::new(name, before),
            PolicySource::new(name, text),
        );
        let compared = compare(&before, &after).zip(loosened(&before, &after));
        compared.map_or(Self::Unknown, |(rules, loosened)| Self::Compared {
            rules,
            loosened,
        })
    }

    /// Whether something that was denied may no longer be.
    pub fn may_lose_denial(&self) -> bool {
        match self {
            Self::Compared { rules, .. } => rules.iter().any(|change| change.loses_denial),
            Self::Unknown => true,
        }
    }
}

/// The tools that a file makes and that are not what they were when it was last trusted, by name: what
/// somebody allowed of one is not what it would do now. Without the text that was trusted, all of them.
pub fn remade_tools(store: &TrustStore, path: &Path, name: &str, text: &str) -> BTreeSet<String> {
    let tools = |text: &str| {
        let file = file::parse(&PolicySource::new(name, text));
        file.map(|file| file.tools).unwrap_or_default()
    };
    let before = store.trusted_text(path);
    remade(
        &before.map(|text| tools(&text)).unwrap_or_default(),
        &tools(text),
    )
}

fn remade(before: &[ConfiguredTool], after: &[ConfiguredTool]) -> BTreeSet<String> {
    let is_remade = |tool: &&ConfiguredTool| {
        let known = before.iter().find(|known| known.name == tool.name);
        match known {
            // One that comes with Haft is what it was before it was named.
            None => tool.kind != tool.name,
            Some(known) => {
                known.kind != tool.kind
                    || known.arguments != tool.arguments
                    || (tool.kind == HTTP && known.config != tool.config)
            }
        }
    };
    let names = after.iter().filter(is_remade);
    names.map(|tool| tool.name.clone()).collect()
}

/// The differences; `None` if one of the texts cannot be read.
fn compare(before: &PolicySource, after: &PolicySource) -> Option<Vec<PolicyChange>> {
    let rules = |source: &PolicySource| PolicyFile::parse(source).ok();
    let mut changes = rules(before)?.changes_to(&rules(after)?);
    let (before, after) = (denied_hosts(before)?, denied_hosts(after)?);
    let word = |host: &String| format!("deny {host} for commands");
    changes.extend(before.difference(&after).map(|host| PolicyChange {
        before: Some(word(host)),
        after: None,
        loses_denial: true,
    }));
    changes.extend(after.difference(&before).map(|host| PolicyChange {
        before: None,
        after: Some(word(host)),
        loses_denial: false,
    }));
    Some(changes)
}

/// What tools, servers and databases may do that they could not, and who else answers; `None` if one of the texts cannot be read.
fn loosened(before: &PolicySource, after: &PolicySource) -> Option<Vec<String>> {
    let rules = |source: &PolicySource| PolicyFile::parse(source).ok();
    let (was, is) = (rules(before)?, rules(after)?);
    let (before, after) = (file::parse(before).ok()?, file::parse(after).ok()?);
    let found = [
        loosened_outside::sandboxes(was.tool_settings(), is.tool_settings()),
        loosened_tools(&before.tools, &after.tools),
        loosened_outside::servers(&before.mcp, &after.mcp),
        loosened_outside::answers(&before.asking.places, &after.asking.places),
    ]
    .concat();
    #[cfg(feature = "databases")]
    let found = [
        found,
        loosened_databases(&before.databases, &after.databases),
    ]
    .concat();
    Some(found)
}

#[cfg(feature = "databases")]
fn loosened_databases(before: &[SourceSettings], after: &[SourceSettings]) -> Vec<String> {
    let mut found = Vec::new();
    for source in after {
        let known = before.iter().find(|known| known.name == source.name);
        if known.is_none() {
            found.push(format!("the database `{}` is there", source.name));
        }
        found.extend(super::source_facts::loosened(known, source));
    }
    found
}

fn loosened_tools(before: &[ConfiguredTool], after: &[ConfiguredTool]) -> Vec<String> {
    let mut found = Vec::new();
    for tool in after {
        let known = before
            .iter()
            .find(|known| (&known.name, &known.kind) == (&tool.name, &tool.kind));
        let name = &tool.name;
        let said = found.len();
        if known.is_none() {
            found.push(match &tool.kind {
                kind if kind == name => format!("the tool `{name}` is on"),
                kind => format!("the tool `{name}`, which is `{kind}`, is on"),
            });
        }
        let (was, is) = (
            known.map_or_else(ToolReach::default, ToolReach::of),
            ToolReach::of(tool),
        );
        let hosts = is.hosts.difference(&was.hosts);
        found.extend(hosts.map(|host| format!("`{name}` may reach `{host}`, wherever it is")));
        let requests = is.requests.difference(&was.requests);
        found.extend(requests.map(|request| format!("`{name}` {request}")));
        if let Some(most) = is.max_bytes.filter(|_| is.max_bytes > was.max_bytes) {
            found.push(format!("`{name}` takes answers of up to {most} bytes"));
        }
        if let Some(known) = known {
            found.extend(other_arguments(known, tool));
            if tool.kind == HTTP && known.config.get("input") != tool.config.get("input") {
                found.push(format!("`{name}` takes other arguments than before"));
            }
            // A request may do something else by a word that nothing here knows of.
            if tool.kind == HTTP && known.config != tool.config && found.len() == said {
                found.push(format!("the request of `{name}` changed"));
            }
        }
    }
    found
}

/// The arguments that a tool always got and that calls may now choose, and those that it gets now.
fn other_arguments(known: &ConfiguredTool, tool: &ConfiguredTool) -> Vec<String> {
    let name = &tool.name;
    let fields = |tool: &ConfiguredTool| tool.arguments.as_object().cloned().unwrap_or_default();
    let (was, is) = (fields(known), fields(tool));
    let new = is
        .iter()
        .filter(|(key, value)| was.get(*key) != Some(*value));
    let new = new.map(|(key, value)| format!("`{name}` always gets {key} = {value}"));
    let gone = was.keys().filter(|key| !is.contains_key(*key));
    let gone = gone.map(|key| format!("`{name}` no longer always gets the same {key}"));
    new.chain(gone).collect()
}

/// How far a configured tool reaches.
#[derive(Default)]
pub(super) struct ToolReach {
    /// Hosts that need not be public.
    pub(super) hosts: BTreeSet<String>,
    /// What it asks for and which secrets it sends, each after the name of the tool.
    requests: BTreeSet<String>,
    /// The most bytes of an answer, if configuration says more than is usual.
    pub(super) max_bytes: Option<usize>,
}

impl ToolReach {
    /// What is wrong with the settings of a tool is said where it is built.
    pub(super) fn of(tool: &ConfiguredTool) -> Self {
        let config = || tool.config.clone();
        if tool.kind == WebFetchTool::NAME {
            let config: WebFetchConfig = serde_json::from_value(config()).unwrap_or_default();
            return Self {
                max_bytes: config.raised_bytes(),
                hosts: config.private_hosts.into_iter().collect(),
                ..Self::default()
            };
        }
        if tool.kind == WebSearchTool::NAME {
            let config: WebSearchConfig = serde_json::from_value(config()).unwrap_or_default();
            let hosts = config.named_hosts();
            return Self {
                hosts: hosts.iter().map(ToString::to_string).collect(),
                ..Self::default()
            };
        }
        if tool.kind == HTTP {
            let fields = tool.config.as_object();
            let operation = fields.and_then(|fields| HttpOperation::parse(fields).ok());
            return operation
                .map_or_else(Self::default, |operation| Self::of_operation(&operation));
        }
        Self::default()
    }

    fn of_operation(operation: &HttpOperation) -> Self {
        let host = operation.private_host().map(|host| host.to_string());
        let secrets = operation.sent_secrets().into_iter();
        let parts = operation.sent_parts().into_iter();
        let sent = secrets.chain(parts).map(|sent| format!("sends {sent}"));
        Self {
            hosts: host.into_iter().collect(),
            requests: sent
                .chain([format!("asks for {}", operation.line())])
                .collect(),
            ..Self::default()
        }
    }
}

/// The hosts under `deny` of `[sandbox.network]`.
fn denied_hosts(source: &PolicySource) -> Option<BTreeSet<String>> {
    let file = file::parse(source).ok()?;
    let network = file.sandbox.network.iter();
    Some(
        network
            .flat_map(|rules| &rules.deny)
            .map(ToString::to_string)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_no_longer_denied_are_a_lost_denial() {
        let network = |hosts: &str| {
            let text = format!("[sandbox.network]\nallow = [\"*.test\"]\ndeny = [{hosts}]\n");
            PolicySource::new("haft.toml", text)
        };
        let (two, one) = (network("\"a.test\", \"b.test\""), network("\"b.test\""));
        let lost = compare(&two, &one).unwrap();
        assert_eq!(lost.len(), 1);
        assert!(lost[0].loses_denial && lost[0].after.is_none());
        let gained = compare(&one, &two).unwrap();
        assert!(gained.iter().all(|change| !change.loses_denial));
        assert_eq!(compare(&one, &one), Some(Vec::new()));
        assert_eq!(compare(&PolicySource::new("haft.toml", "a ="), &one), None);
    }

    #[test]
    fn tools_that_are_not_what_they_were_are_known() {
        let tools = |text: &str| {
            let file = file::parse(&PolicySource::new("haft.toml", text));
            file.unwrap().tools
        };
        let post = "[tools.x]\ntype = \"http\"\n[tools.x.config]\nmethod = \"POST\"\n";
        let check = |before: &str, after: &str, expect: &[&str]| {
            let found = remade(&tools(before), &tools(after));
            assert!(found.iter().eq(expect), "{before} {after}: {found:?}");
        };
        check(post, post, &[]);
        check(post, &post.replace("POST", "DELETE"), &["x"]);
        check("", post, &["x"]);
        check(post, "", &[]);
        check(post, "[tools.x]\ntype = \"bash\"\n", &["x"]);
        let bash = "[tools.bash]\ntype = \"bash\"\n";
        check("", bash, &[]);
        check(bash, &format!("{bash}arguments = {{ a = 1 }}\n"), &["bash"]);
    }

    #[test]
    fn what_tools_may_do_in_addition_is_named() {
        let file = |text: &str| PolicySource::new("haft.toml", text);
        let fetch = |config: &str| {
            file(&format!(
                "[tools.web_fetch]\ntype = \"web_fetch\"\nconfig = {{ {config} }}\n"
            ))
        };
        let check = |before: &PolicySource, after: &PolicySource, expect: &[&str]| {
            assert_eq!(loosened(before, after).unwrap(), expect);
        };
        let (none, plain) = (file(""), fetch(""));
        let wide = fetch("private_hosts = [\"a.internal:80\"], max_bytes = 20971520");
        check(&none, &plain, &["the tool `web_fetch` is on"]);
        let more = [
            "`web_fetch` may reach `a.internal:80`, wherever it is",
            "`web_fetch` takes answers of up to 20971520 bytes",
        ];
        check(&plain, &wide, &more);
        check(
            &none,
            &wide,
            &["the tool `web_fetch` is on", more[0], more[1]],
        );
        check(&wide, &wide, &[]);
        check(&wide, &plain, &[]);
        check(&plain, &fetch("max_bytes = 1024"), &[]);
        let renamed = file("[tools.pages]\ntype = \"web_fetch\"\n");
        check(
            &plain,
            &renamed,
            &["the tool `pages`, which is `web_fetch`, is on"],
        );
        let search = file(
            "[tools.web_search]\ntype = \"web_search\"\n\
             config = { providers = [{ type = \"searxng\", url = \"http://10.0.0.1:8080\" }] }\n",
        );
        check(
            &none,
            &search,
            &[
                "the tool `web_search` is on",
                "`web_search` may reach `10.0.0.1:8080`, wherever it is",
            ],
        );
        let request = |more: &str| {
            file(&format!(
                "[tools.x]\ntype = \"http\"\n[tools.x.config]\ndescription = \"x\"\n{more}"
            ))
        };
        let one = request("method = \"GET\"\nurl = \"https://a.example/x\"\n");
        let on = "the tool `x`, which is `http`, is on";
        check(&none, &one, &[on, "`x` asks for GET https://a.example/x"]);
        let other = request(
            "method = \"POST\"\nurl = \"https://a.example/x\"\nheaders = { k = \"${K}\" }\n\
             secrets = { K = \"env:K\" }\n",
        );
        let more = [
            "`x` asks for POST https://a.example/x",
            "`x` sends env:K in the header `k`",
            "`x` sends the header `k: ${K}`",
        ];
        check(&one, &other, &more);
        check(&other, &other, &[]);
        let base = "method = \"POST\"\nurl = \"https://a.example/x\"\nheaders = { k = \"${K}\" }\n\
            secrets = { K = \"env:K\" }\n";
        let dry = request(&format!("{base}query = {{ dry_run = \"true\" }}\n"));
        let transfer = request(&format!(
            "{base}query = {{ action = \"transfer\" }}\nbody = {{ token_copy = \"${{K}}\" }}\n"
        ));
        let more = [
            "`x` sends env:K in the body at `/token_copy`",
            "`x` sends the body `{\"token_copy\":\"${K}\"}`",
            "`x` sends the query `action=transfer`",
        ];
        check(&dry, &transfer, &more);
        let input = |input: &str| request(&format!("{base}query = {{ a = \"{{a}}\" }}\n{input}"));
        let narrow = input(
            "input = { type = \"object\", required = [\"a\"], properties = { a = { enum = [\"x\"] } } }\n",
        );
        let wide = input(
            "input = { type = \"object\", required = [\"a\"], properties = { a = { type = \"string\" } } }\n",
        );
        check(&narrow, &wide, &["`x` takes other arguments than before"]);
        // Nothing of the query goes with it any more, which no line says.
        let plain = request(base);
        check(&dry, &plain, &["the request of `x` changed"]);
        let fixed = |arguments: &str| file(&format!("[tools.x]\ntype = \"bash\"\n{arguments}"));
        let (free, bound) = (fixed(""), fixed("arguments = { a = 1 }\n"));
        check(&free, &bound, &["`x` always gets a = 1"]);
        check(&bound, &free, &["`x` no longer always gets the same a"]);
        assert_eq!(loosened(&file("a ="), &plain), None);
    }
}
