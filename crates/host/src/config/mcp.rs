//! `[mcp]` of `haft.toml`: the MCP servers that are mounted behind Haft.
//!
//! A server is a command or an address. It gets only what its own entry grants, and inherits
//! nothing: not the environment, not the workspace, not another server's secrets. Secrets are
//! references, read when the server starts and never repeated in messages.

mod in_code;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_contract::{egress::EgressRules, ops::SandboxMode};
use haft_mcp::{
    name::{ServerId, ToolNaming},
    pin::Filter,
};

use super::{
    file::{Reader, Table, Value, whole_number},
    launcher,
    oauth::OauthSettings,
    secrets::{SecretReference, placeholders},
};

/// The keys of `[mcp]` that are read here.
pub(super) const KEYS: [&str; 1] = ["servers"];

/// The keys of a server.
const SERVER_KEYS: [&str; 18] = [
    "id",
    "command",
    "url",
    "env",
    "secrets",
    "headers",
    "oauth",
    "cwd",
    "sandbox",
    "sha256",
    "prefix",
    "trust_annotations",
    "start_timeout",
    "call_timeout",
    "concurrency",
    "idle",
    "enabled",
    "tools",
];

const SANDBOX_KEYS: [&str; 4] = ["mode", "network", "writable", "read_only"];

/// The longest duration, in seconds.
const MOST_SECONDS: u64 = 24 * 60 * 60;

/// The highest number of concurrent requests to a server.
const MOST_CONCURRENT: u64 = 1024;

/// The servers of `[mcp]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpSettings {
    /// The servers, in the order in which they are written.
    pub servers: Vec<ServerSettings>,
}

/// One `[[mcp.servers]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// The id that the operator gave it.
    pub id: ServerId,
    /// What to start or connect to.
    pub target: Target,
    /// Its secrets, by the name they are used under.
    pub secrets: BTreeMap<String, SecretReference>,
    /// Whether the names of its tools include its id.
    pub naming: ToolNaming,
    /// Whether to believe what it says about its tools' effects.
    pub trust_annotations: bool,
    /// How long it may take to start.
    pub start_timeout: Option<Duration>,
    /// How long a request may take.
    pub call_timeout: Option<Duration>,
    /// How many requests it gets at a time.
    pub concurrency: Option<usize>,
    /// How long it is kept running unused.
    pub idle: Option<Idle>,
    /// Whether it is mounted.
    pub enabled: bool,
    /// Which of its tools are wanted.
    pub tools: Filter,
    /// Where it was written, for messages.
    pub place: String,
}

/// How long an unused server is kept running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// For this long.
    For(Duration),
    /// Forever.
    Never,
}

/// What to start or connect to.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A program to start.
    Command(CommandTarget),
    /// An address to connect to.
    Url {
        /// The address.
        url: String,
        /// Sent with every request; `${NAME}` stands for a secret.
        headers: BTreeMap<String, String>,
        /// How to log in to it.
        oauth: OauthSettings,
    },
}

/// A program and what it may use of this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandTarget {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its environment variables.
    pub env: BTreeMap<String, String>,
    /// Its working directory, as written; without one, it gets an empty directory of its own.
    pub cwd: Option<PathBuf>,
    /// How strongly it is confined.
    pub mode: SandboxMode,
    /// The hosts it may reach.
    pub network: Option<EgressRules>,
    /// Paths it can read and write.
    pub writable: Vec<PathBuf>,
    /// Paths it can only read.
    pub read_only: Vec<PathBuf>,
    /// The hash its program file must have.
    pub sha256: Option<[u8; 32]>,
}

impl McpSettings {
    /// Adds the servers of another file, whose relative paths are relative to `beside`.
    pub fn join(&mut self, other: Self, beside: &Path) -> Result<(), String> {
        for mut server in other.servers {
            if let Some(known) = self.servers.iter().find(|known| known.id == server.id) {
                return Err(format!(
                    "the server id `{}` is given twice: in {} and in {}",
                    server.id, known.place, server.place
                ));
            }
            if let Target::Command(command) = &mut server.target {
                command.cwd = command.cwd.take().map(|cwd| beside.join(cwd));
            }
            self.servers.push(server);
        }
        let mut plain = self
            .mounted()
            .filter(|server| server.naming == ToolNaming::Plain);
        match (plain.next(), plain.next()) {
            (Some(one), Some(other)) => Err(format!(
                "`{}` and `{}` both have `prefix = false`, and only one server may: nobody could tell their tools apart",
                one.id, other.id
            )),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// The servers that are enabled.
    pub fn mounted(&self) -> impl Iterator<Item = &ServerSettings> {
        self.servers.iter().filter(|server| server.enabled)
    }
}

impl Reader<'_> {
    /// Reads the servers of `[mcp]`.
    pub(super) fn mcp(&mut self, table: &Table<'_>) -> McpSettings {
        let mut settings = McpSettings::default();
        let Some(value) = table.get("servers") else {
            return settings;
        };
        let Some(entries) = value.get_ref().as_array() else {
            self.problem(
                value.span().start,
                "`servers` must be a list of tables",
                "write [[mcp.servers]] and its settings below",
            );
            return settings;
        };
        for entry in entries {
            let Some(table) = entry.get_ref().as_table() else {
                self.problem(
                    entry.span().start,
                    "a server must be a table",
                    "write [[mcp.servers]] and its settings below",
                );
                continue;
            };
            let Some(server) = self.server(table, entry.span().start) else {
                continue;
            };
            if settings.servers.iter().any(|known| known.id == server.id) {
                let message = format!("the server id `{}` is given twice", server.id);
                self.problem(entry.span().start, message, "give every server its own id");
                continue;
            }
            settings.servers.push(server);
        }
        settings
    }

    fn server(&mut self, table: &Table<'_>, at: usize) -> Option<ServerSettings> {
        self.known_keys(table, "[[mcp.servers]]", &SERVER_KEYS);
        let id = self.server_id(table, at);
        let secrets = self.secrets(table);
        let target = self.target(table, at, &secrets);
        let naming = match self.flag(table, "prefix") {
            Some(false) => ToolNaming::Plain,
            Some(true) | None => ToolNaming::Prefixed,
        };
        Some(ServerSettings {
            naming,
            trust_annotations: self.flag(table, "trust_annotations").unwrap_or(false),
            start_timeout: self.seconds(table, "start_timeout"),
            call_timeout: self.seconds(table, "call_timeout"),
            concurrency: self.concurrency(table),
            idle: self.idle(table),
            enabled: self.flag(table, "enabled").unwrap_or(true),
            tools: self.tool_filter(table),
            place: self.place(at),
            secrets,
            id: id?,
            target: target?,
        })
    }

    fn server_id(&mut self, table: &Table<'_>, at: usize) -> Option<ServerId> {
        let Some((at, text)) = self.text(table, "id") else {
            if table.get("id").is_none() {
                self.problem(at, "a server without `id`", "write `id = \"github\"`");
            }
            return None;
        };
        match ServerId::parse(&text) {
            Ok(id) => Some(id),
            Err(error) => {
                self.problem(
                    at,
                    error.to_string(),
                    "write a short name of letters, digits, `-` and single `_`",
                );
                None
            }
        }
    }

    fn target(
        &mut self,
        table: &Table<'_>,
        at: usize,
        secrets: &BTreeMap<String, SecretReference>,
    ) -> Option<Target> {
        match (table.get("command"), table.get("url")) {
            (Some(command), None) => {
                self.not_with(
                    table,
                    "oauth",
                    "`command`: only a server with `url` has a login",
                );
                self.not_with(
                    table,
                    "headers",
                    "`command`: a program gets `env` and `secrets`",
                );
                self.command(table, command)
            }
            (None, Some(_)) => {
                for key in ["env", "cwd", "sandbox", "sha256"] {
                    self.not_with(table, key, "`url`: nothing is started here");
                }
                let (at, url) = self.text(table, "url")?;
                if !(url.starts_with("https://") || url.starts_with("http://")) {
                    self.problem(
                        at,
                        "`url` is not an http or https address",
                        "write \"https://HOST/mcp\"",
                    );
                    return None;
                }
                let headers = self.headers(table, secrets);
                if !headers.is_empty() && !stays_private(&url) {
                    self.problem(
                        at,
                        "`headers` would be sent unencrypted",
                        "write an https address; plain http is for 127.0.0.1, [::1] and localhost",
                    );
                    return None;
                }
                let oauth = self.oauth(table, secrets);
                Some(Target::Url {
                    url,
                    headers,
                    oauth,
                })
            }
            (Some(_), Some(url)) => {
                self.problem(
                    url.span().start,
                    "a server has `command` or `url`, not both",
                    "remove one",
                );
                None
            }
            (None, None) => {
                self.problem(
                    at,
                    "a server without `command` or `url`",
                    "write `command = [\"program\", \"argument\"]` or `url = \"https://…\"`",
                );
                None
            }
        }
    }

    fn command(&mut self, table: &Table<'_>, value: &Value<'_>) -> Option<Target> {
        let example = "[\"node\", \"server.js\"]";
        let argv: Vec<String> = self
            .texts(table, "command", example)
            .into_iter()
            .map(|(_, word)| word)
            .collect();
        if argv.first().is_none_or(String::is_empty) {
            if value.get_ref().as_array().is_some() {
                let message = "`command` does not name a program";
                self.problem(value.span().start, message, &format!("write {example}"));
            }
            return None;
        }
        let enabled = table.get("enabled").map(|value| value.get_ref().as_bool());
        // A disabled server starts nothing, so its version may be missing.
        if let Err(unpinned) = launcher::check(&argv)
            && enabled != Some(Some(false))
        {
            self.problem(value.span().start, unpinned.message, &unpinned.hint);
        }
        let mut target = CommandTarget {
            argv,
            env: self.variables(table, "env"),
            cwd: self.text(table, "cwd").map(|(_, cwd)| PathBuf::from(cwd)),
            mode: SandboxMode::Full,
            network: None,
            writable: Vec::new(),
            read_only: Vec::new(),
            sha256: self.sha256(table),
        };
        if let Some(sandbox) = self.table(table, "sandbox") {
            self.known_keys(sandbox, "a server's `sandbox`", &SANDBOX_KEYS);
            target.writable = self.places(sandbox, "writable");
            target.read_only = self.places(sandbox, "read_only");
            target.network = self.server_network(sandbox);
            target.mode = self.mode(sandbox);
        }
        Some(Target::Command(target))
    }

    fn server_network(&mut self, sandbox: &Table<'_>) -> Option<EgressRules> {
        sandbox.get("network")?;
        let allow = self.granted_hosts(sandbox, "network");
        Some(EgressRules {
            allow,
            deny: Vec::new(),
        })
    }

    fn mode(&mut self, sandbox: &Table<'_>) -> SandboxMode {
        let Some((at, word)) = self.text(sandbox, "mode") else {
            return SandboxMode::Full;
        };
        let modes = [SandboxMode::Off, SandboxMode::Basic, SandboxMode::Full];
        let found = modes.into_iter().find(|mode| mode.as_str() == word);
        found.unwrap_or_else(|| {
            self.problem(
                at,
                "`mode` must be \"full\", \"basic\" or \"off\"",
                "leave it out for \"full\"",
            );
            SandboxMode::Full
        })
    }

    fn sha256(&mut self, table: &Table<'_>) -> Option<[u8; 32]> {
        let (at, text) = self.text(table, "sha256")?;
        let digest = haft_mcp::pin::Digest::parse(&text);
        if digest.is_none() {
            self.problem(
                at,
                "`sha256` must have 64 hexadecimal digits",
                "`sha256sum` of the program file prints it",
            );
        }
        digest.map(haft_mcp::pin::Digest::bytes)
    }

    /// Reads a table whose values are text.
    /// The variables of a table, by name.
    pub(super) fn variables(&mut self, table: &Table<'_>, key: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (name, value) in self.table(table, key).into_iter().flatten() {
            match value.get_ref().as_str() {
                Some(text) => {
                    found.insert(name.get_ref().to_string(), text.to_owned());
                }
                None => self.problem(
                    value.span().start,
                    format!("`{key}.{}` must be a string", name.get_ref()),
                    "write it in quotes",
                ),
            }
        }
        found
    }

    fn secrets(&mut self, table: &Table<'_>) -> BTreeMap<String, SecretReference> {
        let mut found = BTreeMap::new();
        for (name, value) in self.table(table, "secrets").into_iter().flatten() {
            let reference = value.get_ref().as_str().and_then(SecretReference::parse);
            match reference {
                Some(reference) => {
                    found.insert(name.get_ref().to_string(), reference);
                }
                // What was written may be the secret itself, so it is not repeated.
                None => self.problem(
                    value.span().start,
                    format!("`secrets.{}` is not a reference", name.get_ref()),
                    "write \"env:NAME\" or \"file:/absolute/path\"; keep the secret itself out of this file",
                ),
            }
        }
        found
    }

    fn headers(
        &mut self,
        table: &Table<'_>,
        secrets: &BTreeMap<String, SecretReference>,
    ) -> BTreeMap<String, String> {
        let headers = self.variables(table, "headers");
        let at = table.get("headers").map_or(0, |value| value.span().start);
        for (name, value) in &headers {
            for used in placeholders(value) {
                if !secrets.contains_key(used) {
                    self.problem(
                        at,
                        format!(
                            "the header `{name}` uses `${{{used}}}`, but there is no secret `{used}`"
                        ),
                        "add it to `secrets`, such as secrets = { TOKEN = \"env:TOKEN\" }",
                    );
                }
            }
        }
        headers
    }

    fn flag(&mut self, table: &Table<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.problem(
                value.span().start,
                format!("`{key}` must be true or false"),
                &format!("write `{key} = true`"),
            );
        }
        flag
    }

    fn seconds(&mut self, table: &Table<'_>, key: &str) -> Option<Duration> {
        let number = self.number(table, key)?;
        if number > MOST_SECONDS {
            let at = table.get(key).map_or(0, |value| value.span().start);
            let message = format!("`{key}` must be a number of seconds up to {MOST_SECONDS}");
            self.problem(at, message, "leave it out for the default");
            return None;
        }
        Some(Duration::from_secs(number))
    }

    fn idle(&mut self, table: &Table<'_>) -> Option<Idle> {
        if table.get("idle").and_then(whole_number) == Some(0) {
            return Some(Idle::Never);
        }
        self.seconds(table, "idle").map(Idle::For)
    }

    fn concurrency(&mut self, table: &Table<'_>) -> Option<usize> {
        let number = self.number(table, "concurrency")?;
        if number > MOST_CONCURRENT {
            let at = table
                .get("concurrency")
                .map_or(0, |value| value.span().start);
            let message = format!("`concurrency` must be at most {MOST_CONCURRENT}");
            self.problem(at, message, "leave it out for the default");
            return None;
        }
        usize::try_from(number).ok()
    }

    fn tool_filter(&mut self, table: &Table<'_>) -> Filter {
        let Some(tools) = self.table(table, "tools") else {
            return Filter::default();
        };
        self.known_keys(tools, "a server's `tools`", &["allow", "deny"]);
        let names = |reader: &mut Self, key: &str| {
            let names = reader.texts(tools, key, "[\"search\"]").into_iter();
            names.map(|(_, name)| name).collect()
        };
        Filter {
            allow: names(self, "allow"),
            deny: names(self, "deny"),
        }
    }

    fn not_with(&mut self, table: &Table<'_>, key: &str, with: &str) {
        if let Some((written, _)) = table.get_key_value(key) {
            self.problem(
                written.span().start,
                format!("`{key}` has no meaning with {with}"),
                "remove it",
            );
        }
    }
}

/// Whether requests to an address are encrypted or never leave this machine.
fn stays_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return true;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The part before an `@` is not the host, however much it looks like one.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let without_port = |host: &str| host.split(':').next().map(str::to_owned);
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().map(str::to_owned),
        None => without_port(host),
    };
    let host = host.unwrap_or_default();
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
