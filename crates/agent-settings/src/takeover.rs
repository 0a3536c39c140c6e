//! Takes a server over from an agent: what it becomes under `[[mcp.servers]]` of `haft.toml`. Text
//! and values only; `commands/mcp/import.rs` reads and writes the files.
//!
//! Possible secrets do not get into `haft.toml`: a value from the environment becomes a reference
//! to it, any other becomes a reference to a separate file. A package without a version gets the one
//! that was found for it, and the server may reach the registry it comes from. A server that Haft
//! would not start, or cannot describe, is taken over switched off, with the reason next to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use haft_host::{
    config::launcher,
    package_versions::{PackageVersions, VersionSource, own_registries},
};
use haft_mcp::name::{MAX_SERVER_CHARS, ServerId};
use serde_json::{Map, Value};
use toml_edit::{ArrayOfTables, DocumentMut, Item, RawString, Table};

use super::{
    document::{EditRefusal, toml_value},
    server::{EntryValue, Server, ServerTransport},
};

/// How values that may be secrets are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Each in a separate file.
    Apart,
    /// Literally, in the configuration.
    Inline,
}

/// Where servers are taken over to.
#[derive(Debug, Clone, Copy)]
pub struct TakeoverTarget<'i> {
    /// The directory for secrets.
    pub secrets_in: &'i Path,
    /// How secrets are stored.
    pub secrets: Secrets,
    /// The base of the agent's relative directories.
    pub project: &'i Path,
    /// The versions of packages, as far as they are known.
    pub versions: &'i PackageVersions,
}

/// A server ready for `haft.toml`.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenOverServer {
    /// The agent's name for it.
    pub name: String,
    /// What Haft calls it.
    pub id: ServerId,
    /// Its settings, in written order.
    settings: Vec<(&'static str, Value)>,
    /// Values stored in separate files.
    pub kept: Vec<(PathBuf, String)>,
    /// Variables of the agent's environment that it needs.
    pub needs: BTreeSet<String>,
    /// Why it is switched off, if it is.
    pub off: Option<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl TakenOverServer {
    /// Takes a server over; fails if Haft cannot express it.
    pub fn from(
        server: &Server,
        ids: &BTreeSet<String>,
        into: TakeoverTarget<'_>,
    ) -> Result<Self, String> {
        let mut taken = Self {
            name: server.name.clone(),
            id: free_id(&server.name, ids)?,
            settings: Vec::new(),
            kept: Vec::new(),
            needs: BTreeSet::new(),
            off: None,
            notes: Vec::new(),
        };
        if taken.id.as_str() != server.name {
            taken
                .notes
                .push(format!("it is called `{}` here", taken.id));
        }
        if !server.left_out.is_empty() {
            let settings = server.left_out.join("`, `");
            taken.notes.push(format!("left out: `{settings}`"));
        }
        match &server.reach {
            ServerTransport::Command { argv, env, cwd } => {
                taken.command(argv, env, cwd.as_deref(), into)?;
            }
            ServerTransport::Address {
                url,
                headers,
                events_only,
            } => taken.address(url, headers, *events_only, into)?,
        }
        if !server.enabled {
            taken.switch_off("the agent had it switched off".to_owned());
        }
        Ok(taken)
    }

    fn command(
        &mut self,
        argv: &[String],
        env: &BTreeMap<String, EntryValue>,
        cwd: Option<&str>,
        into: TakeoverTarget<'_>,
    ) -> Result<(), String> {
        if argv.first().is_none_or(String::is_empty) {
            return Err("it does not name a program".to_owned());
        }
        let argv = self.pin(argv, into.versions);
        self.settings
            .push(("command", Value::from(argv.as_slice())));
        if let Err(unpinned) = launcher::check(&argv) {
            let why = format!(
                "{}, and no version of it was found; {}, then remove `enabled = false`",
                unpinned.message, unpinned.hint
            );
            self.switch_off(why);
        }
        for word in argv.iter().map(String::as_str).chain(cwd) {
            if word.contains("${") {
                self.switch_off(format!("only the agent can fill in `{word}`"));
            }
        }
        let (mut plain, mut secrets) = (Map::new(), Map::new());
        for (name, given) in env {
            match given {
                EntryValue::Text(text) if into.secrets == Secrets::Inline || is_harmless(text) => {
                    plain.insert(name.clone(), Value::from(text.as_str()));
                }
                EntryValue::Text(text) => {
                    secrets.insert(name.clone(), self.keep(name, text, into));
                }
                EntryValue::Variable { before, name: from } if before.is_empty() => {
                    secrets.insert(name.clone(), self.need(from));
                }
                EntryValue::Variable { .. } | EntryValue::Foreign(_) => {
                    self.switch_off(format!("only the agent can fill in the variable `{name}`"));
                }
            }
        }
        self.put("env", plain);
        self.put("secrets", secrets);
        if let Some(cwd) = cwd {
            let cwd = into.project.join(cwd).display().to_string();
            self.settings.push(("cwd", Value::from(cwd)));
        }
        self.reach_registry(&argv, env);
        Ok(())
    }

    /// The command with the versions that are known, and a note about each.
    fn pin(&mut self, argv: &[String], versions: &PackageVersions) -> Vec<String> {
        for package in launcher::unpinned(argv) {
            let Some(found) = versions.of(&package) else {
                continue;
            };
            let source = match found.source {
                VersionSource::ThisMachine => "the version on this machine".to_owned(),
                VersionSource::Registry(host) => format!("what {host} calls `{}`", package.tag),
            };
            self.notes.push(format!(
                "`{}` is pinned to {}, {source}",
                package.name, found.version
            ));
        }
        launcher::pin(argv, |package| {
            versions.of(package).map(|found| found.version.clone())
        })
    }

    /// Lets a command that fetches its package reach where it comes from.
    fn reach_registry(&mut self, argv: &[String], env: &BTreeMap<String, EntryValue>) {
        let Some((program, public)) = launcher::fetches_from(argv) else {
            return;
        };
        let hosts = own_registries(argv, &variables(env))
            .unwrap_or_else(|| public.iter().map(|host| (*host).to_owned()).collect());
        if hosts.is_empty() {
            let why = "the registry it names has no host that is known here and may be granted; \
                       write it into `sandbox.network` of its entry";
            self.notes.push(why.to_owned());
            return;
        }
        self.notes.push(format!(
            "it may reach {}, from where `{program}` fetches its package; add further hosts it needs to `sandbox.network` of its entry",
            hosts.join(" and ")
        ));
        let network = Map::from_iter([("network".to_owned(), Value::from(hosts))]);
        self.put("sandbox", network);
    }

    fn address(
        &mut self,
        url: &str,
        headers: &BTreeMap<String, EntryValue>,
        events_only: bool,
        into: TakeoverTarget<'_>,
    ) -> Result<(), String> {
        let known = url.starts_with("https://") || url.starts_with("http://");
        if !known || url.contains('$') {
            return Err("its address is not a plain http or https address".to_owned());
        }
        self.settings.push(("url", Value::from(url)));
        if events_only || url.trim_end_matches('/').ends_with("/sse") {
            let why = "it speaks the transport of 2024 (SSE), which Haft does not; most servers \
                       have another address for Streamable HTTP";
            self.switch_off(why.to_owned());
        }
        let (mut written, mut secrets) = (Map::new(), Map::new());
        for (header, given) in headers {
            let value = match given {
                EntryValue::Text(text)
                    if into.secrets == Secrets::Inline && !text.contains("${") =>
                {
                    text.clone()
                }
                EntryValue::Text(text) => {
                    let name = as_variable(header);
                    let reference = self.keep(&name, text, into);
                    secrets.insert(name.clone(), reference);
                    format!("${{{name}}}")
                }
                EntryValue::Variable { before, name } if !before.contains("${") => {
                    secrets.insert(name.clone(), self.need(name));
                    format!("{before}${{{name}}}")
                }
                EntryValue::Variable { .. } | EntryValue::Foreign(_) => {
                    self.switch_off(format!("only the agent can fill in the header `{header}`"));
                    continue;
                }
            };
            written.insert(header.clone(), Value::from(value));
        }
        self.put("secrets", secrets);
        self.put("headers", written);
        Ok(())
    }

    fn put(&mut self, key: &'static str, values: Map<String, Value>) {
        if !values.is_empty() {
            self.settings.push((key, Value::Object(values)));
        }
    }

    /// Stores a value in a file and returns the reference to it.
    fn keep(&mut self, name: &str, text: &str, into: TakeoverTarget<'_>) -> Value {
        let file = format!("{}.{}", self.id, as_variable(name));
        let path = into.secrets_in.join(file);
        let reference = format!("file:{}", path.display());
        self.kept.push((path, text.to_owned()));
        Value::from(reference)
    }

    /// The reference to a variable.
    fn need(&mut self, variable: &str) -> Value {
        self.needs.insert(variable.to_owned());
        Value::from(format!("env:{variable}"))
    }

    /// Only the first reason is reported.
    fn switch_off(&mut self, why: String) {
        self.off.get_or_insert(why);
    }

    /// Its settings as a table.
    fn table(&self, from: &str) -> Table {
        let mut table = Table::new();
        table.insert("id", Item::Value(self.id.as_str().into()));
        for (key, value) in &self.settings {
            table.insert(key, Item::Value(toml_value(value)));
        }
        if let Some(why) = &self.off {
            table.insert("enabled", Item::Value(false.into()));
            if let Some(mut key) = table.key_mut("enabled") {
                let comment = format!("# Off: {}\n", on_one_line(why));
                key.leaf_decor_mut().set_prefix(comment);
            }
        }
        let heading = format!("\n# Taken over from {from}.\n");
        table.decor_mut().set_prefix(heading);
        table
    }
}

/// All variables, with the values that the agent's file has.
pub fn variables(env: &BTreeMap<String, EntryValue>) -> BTreeMap<String, Option<String>> {
    let known = |given: &EntryValue| match given {
        EntryValue::Text(text) => Some(text.clone()),
        EntryValue::Variable { .. } | EntryValue::Foreign(_) => None,
    };
    env.iter()
        .map(|(name, given)| (name.clone(), known(given)))
        .collect()
}

/// A configuration with servers added.
pub fn added(text: &str, taken: &[TakenOverServer], from: &str) -> Result<String, EditRefusal> {
    let mut document = text
        .parse::<DocumentMut>()
        .map_err(|error| EditRefusal::Broken(error.to_string().trim_end().to_owned()))?;
    let ending = document.trailing().as_str().unwrap_or_default().to_owned();
    let other_form = || {
        let why = "`mcp.servers` is not written as [[mcp.servers]]";
        EditRefusal::NotSimple(why.to_owned())
    };
    let mcp = document.entry("mcp").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = mcp
        .as_table_mut()
        .ok_or_else(other_form)?
        .entry("servers")
        .or_insert(Item::ArrayOfTables(ArrayOfTables::new()))
        .as_array_of_tables_mut()
        .ok_or_else(other_form)?;
    let first = servers.is_empty();
    for server in taken {
        servers.push(server.table(from));
    }
    if let Some(table) = servers.get_mut(0).filter(|_| first) {
        // What ends the file, such as settings that are commented out, stays before them.
        let heading = table.decor().prefix().and_then(RawString::as_str);
        let heading = format!("{ending}{}", heading.unwrap_or_default());
        table.decor_mut().set_prefix(heading);
        document.set_trailing("");
    }
    Ok(document.to_string())
}

/// A free id for a server, as close to its name as ids allow.
fn free_id(name: &str, ids: &BTreeSet<String>) -> Result<ServerId, String> {
    let mut plain = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        };
        // Two in a row would separate the parts of a tool's name.
        if !(matches!(c, '_' | '-') && plain.ends_with(['_', '-'])) {
            plain.push(c);
        }
    }
    let plain = match plain.trim_matches(['_', '-']) {
        "" => "server",
        plain => plain,
    };
    let candidates = (1..=ids.len() + 1).map(|number| {
        let end = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let start: String = plain.chars().take(MAX_SERVER_CHARS - end.len()).collect();
        format!("{}{end}", start.trim_end_matches(['_', '-']))
    });
    let free = candidates.into_iter().find(|id| !ids.contains(id));
    let free = free.ok_or("every name it could have is taken")?;
    ServerId::parse(&free).map_err(|error| error.to_string())
}

/// A name that is valid as a variable and in a file name.
fn as_variable(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// Whether a value is a setting that nobody would keep secret.
fn is_harmless(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "debug",
        "info",
        "warn",
        "error",
        "production",
        "development",
        "stdio",
    ];
    let word = text.to_ascii_lowercase();
    WORDS.contains(&word.as_str()) || (text.len() <= 5 && text.chars().all(|c| c.is_ascii_digit()))
}

/// The text with spaces for control characters, so that it stays on one line.
fn on_one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use haft_host::config::{file, mcp::Target, secrets::SecretReference};
    use haft_policy::PolicySource;
    use serde_json::json;

    use super::*;
    use crate::Agent;

    fn take(
        agent: Agent,
        name: &str,
        entry: Value,
        secrets: Secrets,
    ) -> Result<TakenOverServer, String> {
        let server = agent.dialect().read(name, &entry)?.ok_or("not a server")?;
        let into = TakeoverTarget {
            secrets_in: Path::new("/data/secrets"),
            secrets,
            project: Path::new("/srv/project"),
            versions: &PackageVersions::default(),
        };
        TakenOverServer::from(&server, &BTreeSet::new(), into)
    }

    /// What is written for servers, parsed by the code that reads it later.
    fn read_back(
        taken: &[TakenOverServer],
    ) -> (String, Vec<haft_host::config::mcp::ServerSettings>) {
        let text = added("[policy]\nallow = [] # mine\n", taken, "codex").unwrap();
        assert!(text.starts_with("[policy]\nallow = [] # mine\n"), "{text}");
        let parsed = file::parse(&PolicySource::new("haft.toml", text.clone()));
        let parsed = parsed.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        (text, parsed.mcp.servers)
    }

    #[test]
    fn a_program_is_taken_over_without_its_secrets() {
        let entry = json!({"command": "/srv/github", "args": ["stdio"], "cwd": "sub",
            "env": {"TOKEN": "ghp_verysecret", "LEVEL": "info"}, "env_vars": ["PROXY"]});
        let taken = take(Agent::Codex, "github", entry.clone(), Secrets::Apart).unwrap();
        let path = PathBuf::from("/data/secrets/github.TOKEN");
        assert_eq!(taken.kept, [(path.clone(), "ghp_verysecret".to_owned())]);
        assert_eq!(taken.needs, BTreeSet::from(["PROXY".to_owned()]));
        let (text, servers) = read_back(&[taken]);
        assert!(!text.contains("verysecret"), "{text}");
        assert!(text.contains("# Taken over from codex.\n[[mcp.servers]]\nid = \"github\"\n"));
        let server = &servers[0];
        assert!(server.enabled);
        assert_eq!(server.secrets["TOKEN"], SecretReference::File(path));
        assert_eq!(
            server.secrets["PROXY"],
            SecretReference::Env("PROXY".to_owned())
        );
        let Target::Command(command) = &server.target else {
            panic!("a command");
        };
        assert_eq!(command.argv, ["/srv/github", "stdio"]);
        assert_eq!(
            command.env,
            [("LEVEL".to_owned(), "info".to_owned())].into()
        );
        assert_eq!(command.cwd, Some("/srv/project/sub".into()));
        let inline = take(Agent::Codex, "github", entry, Secrets::Inline).unwrap();
        assert_eq!(inline.kept, []);
        assert!(read_back(&[inline]).0.contains("ghp_verysecret"));
    }

    #[test]
    fn an_address_is_taken_over_with_its_headers() {
        let entry = json!({"type": "http", "url": "https://x.test/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}", "X-Key": "verysecret"}});
        let taken = take(Agent::ClaudeCode, "x", entry, Secrets::Apart).unwrap();
        let (text, servers) = read_back(&[taken]);
        assert!(!text.contains("verysecret"), "{text}");
        let Target::Url { url, headers, .. } = &servers[0].target else {
            panic!("an address");
        };
        assert_eq!(url, "https://x.test/mcp");
        assert_eq!(headers["Authorization"], "Bearer ${TOKEN}");
        assert_eq!(headers["X-Key"], "${X_KEY}");
        assert_eq!(servers[0].secrets.len(), 2);
    }

    #[test]
    fn what_cannot_be_started_yet_is_taken_over_switched_off_with_the_reason() {
        for (agent, entry, why) in [
            (
                Agent::Cursor,
                json!({"command": "npx", "args": ["-y", "some-server"]}),
                "some-server",
            ),
            (
                Agent::Cursor,
                json!({"command": "uvx", "args": ["thing@latest"]}),
                "thing",
            ),
            (
                Agent::Gemini,
                json!({"type": "sse", "url": "https://x.test/events"}),
                "SSE",
            ),
            (Agent::Cursor, json!({"url": "https://x.test/sse"}), "SSE"),
            (
                Agent::Vscode,
                json!({"command": "x", "env": {"K": "${input:k}"}}),
                "`K`",
            ),
            (
                Agent::Vscode,
                json!({"command": "x", "args": ["${workspaceFolder}"]}),
                "workspaceFolder",
            ),
            (
                Agent::Openclaw,
                json!({"command": "x", "enabled": false}),
                "had it switched off",
            ),
        ] {
            let taken = take(agent, "x", entry, Secrets::Apart).unwrap();
            assert!(taken.off.as_ref().unwrap().contains(why), "{taken:?}");
            let (text, servers) = read_back(&[taken]);
            assert!(!servers[0].enabled);
            assert!(text.contains("# Off: "), "{text}");
        }
        for entry in [
            json!({"url": "ftp://x"}),
            json!({"url": "${env:URL}"}),
            json!({"command": ""}),
        ] {
            assert!(take(Agent::Cursor, "x", entry, Secrets::Apart).is_err());
        }
    }

    #[test]
    fn a_command_that_fetches_its_package_may_reach_the_registry() {
        for (entry, hosts) in [
            (
                json!({"command": "npx", "args": ["-y", "server@1.2.3"]}),
                "[\"registry.npmjs.org\"]",
            ),
            (
                json!({"command": "uvx", "args": ["server==1.2.3"]}),
                "[\"pypi.org\", \"files.pythonhosted.org\"]",
            ),
            (
                json!({"command": "npx", "args": ["-y", "server@1.2.3"],
                    "env": {"npm_config_registry": "https://npm.test/"}}),
                "[\"npm.test\"]",
            ),
        ] {
            let taken = take(Agent::Cursor, "x", entry, Secrets::Inline).unwrap();
            assert_eq!(taken.off, None);
            let (text, servers) = read_back(&[taken]);
            assert!(text.contains(&format!("network = {hosts}")), "{text}");
            assert!(servers[0].enabled);
        }
        // The host of a registry that only the agent knows is not granted, nor is the public one.
        let unknown = json!({"command": "uvx", "args": ["server==1.2.3"],
            "env": {"UV_INDEX_URL": "${env:CORP_INDEX}"}});
        let taken = take(Agent::Cursor, "x", unknown, Secrets::Inline).unwrap();
        let notes = taken.notes.join("\n");
        assert!(notes.contains("has no host that is known here"), "{notes}");
        assert!(!read_back(&[taken]).0.contains("network"));
        let plain = json!({"command": "node", "args": ["server.js"]});
        let taken = take(Agent::Cursor, "x", plain, Secrets::Inline).unwrap();
        assert!(!read_back(&[taken]).0.contains("sandbox"));
    }

    #[test]
    fn a_name_that_cannot_be_an_id_becomes_one_that_can() {
        let ids = BTreeSet::from(["github".to_owned(), "github-2".to_owned()]);
        for (name, id) in [
            ("files", "files"),
            ("a__b", "a_b"),
            ("my server!", "my-server"),
            ("grüße", "gr-e"),
            ("日本", "server"),
            ("_x_", "x"),
            ("github", "github-3"),
            (
                "a-very-long-name-of-a-server-indeed",
                "a-very-long-name-of-a-se",
            ),
        ] {
            assert_eq!(free_id(name, &ids).unwrap().as_str(), id, "{name}");
        }
    }

    #[test]
    fn servers_are_added_after_those_that_are_there() {
        let one = take(Agent::Codex, "b", json!({"command": "b"}), Secrets::Apart).unwrap();
        let text = "[mcp] # mine\n\n[[mcp.servers]]\nid = \"a\"\ncommand = [\"a\"]\n\n[undo]\n";
        let added_to = added(text, std::slice::from_ref(&one), "codex").unwrap();
        let ids: Vec<&str> = added_to
            .lines()
            .filter(|line| line.starts_with("id ="))
            .collect();
        assert_eq!(ids, ["id = \"a\"", "id = \"b\""], "{added_to}");
        for text in ["mcp = 1\n", "[mcp]\nservers = [{ id = \"a\" }]\n", "a = \n"] {
            assert!(
                added(text, std::slice::from_ref(&one), "codex").is_err(),
                "{text}"
            );
        }
    }
}
