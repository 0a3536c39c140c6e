//! What trusting a configuration means: everything that applies from now on because of it. The
//! person who trusts a file reads this, so anything not listed here must not loosen anything.

use haft_contract::{Tool as _, access::Command, host::Verdict, ops::SandboxMode};
use haft_ledger::{Retention, options::MAX_QUEUED_BYTES};
use haft_policy::PolicySource;
use haft_sandbox::cgroup::CgroupSetting;
use haft_tools::{
    script::ScriptHosts,
    web::{http::HttpOperation, web_fetch::WebFetchTool},
};

use crate::{
    config::{
        Settings,
        file::ConfiguredTool,
        mcp::{ServerSettings, Target},
        sandbox::Home,
        trusted_changes::ToolReach,
        web_tools::{http_operations, search_settings},
    },
    configured_scripts::{ConfiguredScript, configured_scripts},
};

/// The tables whose entries may have their own preset, and the word for an entry.
const WITH_PRESETS: [(&str, &str); 5] = [
    ("agents", "agent"),
    ("tenants", "tenant"),
    ("users", "user"),
    ("sessions", "sessions of kind"),
    ("channels", "channel"),
];

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// What applies from now on: a word and what it is about, line by line.
#[derive(Debug, Default)]
pub struct Consequences {
    lines: Vec<(&'static str, String)>,
}

impl Consequences {
    /// What applies once these settings do.
    pub fn of(settings: &Settings) -> Self {
        consequences(settings)
    }

    /// The lines, each with its word.
    pub fn lines(&self) -> &[(&'static str, String)] {
        &self.lines
    }

    fn line(mut self, word: &'static str, text: impl Into<String>) -> Self {
        self.lines.push((word, text.into()));
        self
    }

    fn and(mut self, more: Self) -> Self {
        self.lines.extend(more.lines);
        self
    }
}

fn consequences(settings: &Settings) -> Consequences {
    let mut found = Consequences::default();
    for source in &settings.sources {
        for preset in presets(source) {
            found = found.line("preset", preset);
        }
    }
    for rule in settings
        .policy
        .rules()
        .filter(|rule| rule.verdict() == Verdict::Allow)
    {
        let whom = rule.holds_for();
        let whom = whom.map_or_else(String::new, |section| format!(" for {section}"));
        found = found.line("allows", format!("{}{whom}", rule.origin()));
    }
    let unconfined = settings
        .policy
        .tool_settings()
        .sandboxes()
        .filter(|(_, mode)| *mode == SandboxMode::Off);
    for (tool, _) in unconfined {
        found = found.line("unconfined", format!("`{tool}` runs without a sandbox"));
    }
    for (word, line) in settings.backends.lines() {
        found = found.line(word, line);
    }
    found = found.and(shown_to_commands(settings));
    if settings.cross_mounts {
        found = found.line(
            "mounts",
            "paths may lead onto file systems mounted in the workspace",
        );
    }
    for (key, value) in settings.limits_set.iter() {
        found = found.line("limit", format!("{key} = {value}"));
    }
    for (name, seconds) in settings.timeouts.iter() {
        found = found.line("timeout", format!("{name} = {seconds} s"));
    }
    for (key, value) in settings.loop_guard.iter() {
        found = found.line("loop guard", format!("{key} = {value}"));
    }
    for line in settings.asking.places.lines() {
        found = found.line("answers", line);
    }
    #[cfg(feature = "databases")]
    for source in &settings.databases {
        for (word, text) in super::source_facts::facts(source) {
            found = found.line(word, text);
        }
    }
    for (_, tool) in &settings.tools {
        let (reach, name) = (ToolReach::of(tool), &tool.name);
        if tool.kind == WebFetchTool::NAME {
            for host in reach.hosts {
                found = found.line(
                    "fetches",
                    format!("`{name}` may reach `{host}`, wherever it is"),
                );
            }
        }
        if let Some(most) = reach.max_bytes {
            found = found.line(
                "fetches",
                format!("`{name}` takes answers of up to {most} bytes"),
            );
        }
    }
    for (_, search) in search_settings(settings) {
        for provider in search.configured() {
            found = found.line("searches", provider.to_string());
        }
    }
    for (tool, operation) in http_operations(settings) {
        found = found.and(request(tool, &operation));
    }
    for line in settings.undo.lines() {
        found = found.line("undo", line);
    }
    let kept = settings.retention;
    if kept != Retention::default() {
        let days = kept.kept_for.as_secs() / SECONDS_A_DAY;
        let bytes = kept.max_total_bytes;
        found = found.line(
            "record",
            format!("artifact_days = {days}, artifact_bytes = {bytes}, for every workspace"),
        );
    }
    if settings.queue_bytes != MAX_QUEUED_BYTES {
        found = found.line("record", format!("queue_bytes = {}", settings.queue_bytes));
    }
    // An unreadable script has already stopped the command.
    for configured in configured_scripts(settings).into_iter().flatten() {
        found = found.and(script(&configured));
    }
    for server in settings.mcp.mounted() {
        found = found.and(mounted(server));
    }
    found
}

/// What a script is called, what it always gets, and what it reaches.
fn script(configured: &ConfiguredScript) -> Consequences {
    let manifest = configured.script.manifest();
    let path = configured.script.manifest_path().display();
    let mut name = &manifest.name;
    let mut found = match &configured.entry {
        Some(entry) => {
            name = &entry.name;
            let found = Consequences::default().line("script", format!("{path} as `{name}`"));
            entry
                .arguments
                .iter()
                .fold(found, |found, (argument, value)| {
                    found.line("fixed", format!("{argument} = {value} for `{name}`"))
                })
        }
        None => Consequences::default().line("script", path.to_string()),
    };
    if let ScriptHosts::Own(hosts) = &manifest.hosts {
        for (host, port) in hosts {
            found = found.line("reachable", format!("{host}:{port} for `{name}`"));
        }
    }
    for (secret, reference) in &manifest.secrets {
        found = found.line("secret", format!("`{name}` gets {reference} as {secret}"));
    }
    found
}

/// What a tool that calls an API asks for, what it takes there, and whether that is nearby.
fn request(tool: &ConfiguredTool, operation: &HttpOperation) -> Consequences {
    let name = &tool.name;
    let line = format!("`{name}`: {}", operation.line());
    let mut found = Consequences::default().line("requests", line);
    for (argument, value) in tool.arguments.as_object().into_iter().flatten() {
        found = found.line("fixed", format!("{argument} = {value} for `{name}`"));
    }
    if let Some(host) = operation.private_host() {
        found = found.line("reachable", format!("{host} for `{name}`"));
    }
    for part in operation.sent_parts() {
        found = found.line("sends", format!("{part} for `{name}`"));
    }
    for secret in operation.sent_secrets() {
        found = found.line("secret", format!("`{name}` sends {secret}"));
    }
    found
}

/// What a mounted server starts or reaches, and what it gets.
pub(super) fn mounted(server: &ServerSettings) -> Consequences {
    let id = &server.id;
    let mut found = match &server.target {
        Target::Url { url, oauth, .. } => {
            let mut found = Consequences::default().line("mounts", format!("`{id}` at {url}"));
            for host in &oauth.private_hosts {
                found = found.line("reachable", format!("{host}, to log in to `{id}`"));
            }
            found
        }
        Target::Command(command) => {
            let argv = Command::Argv(command.argv.clone()).text();
            let mut found =
                Consequences::default().line("mounts", format!("`{id}`, which runs: {argv}"));
            if command.mode != SandboxMode::Full {
                let mode = command.mode.as_str();
                found = found.line("unconfined", format!("`{id}` has the sandbox `{mode}`"));
            }
            for place in command.cwd.iter().chain(&command.writable) {
                found = found.line("writable", format!("`{}` for `{id}`", place.display()));
            }
            for place in &command.read_only {
                found = found.line("readable", format!("`{}` for `{id}`", place.display()));
            }
            for host in command.network.iter().flat_map(|rules| &rules.allow) {
                found = found.line("reachable", format!("{host} for `{id}`"));
            }
            found
        }
    };
    for (name, reference) in &server.secrets {
        found = found.line("secret", format!("`{id}` gets {reference} as {name}"));
    }
    if server.trust_annotations {
        found = found.line(
            "trusts",
            format!("what `{id}` says about its tools' effects"),
        );
    }
    found
}

/// What confined commands see in addition to the workspace.
fn shown_to_commands(settings: &Settings) -> Consequences {
    let sandbox = &settings.sandbox;
    let mut found = Consequences::default();
    for place in &sandbox.writable {
        found = found.line("writable", format!("`{}` for commands", place.display()));
    }
    for place in &sandbox.read_only {
        found = found.line("readable", format!("`{}` for commands", place.display()));
    }
    for place in &sandbox.path {
        found = found.line("runs", format!("programs in `{}` first", place.display()));
    }
    for (name, value) in &sandbox.env {
        found = found.line("variable", format!("{name}={value} for commands"));
    }
    if let Some(Home::At(home)) = &sandbox.home {
        found = found.line("readable", format!("toolchains in `{}`", home.display()));
    }
    let network = sandbox.network.iter();
    for host in network.clone().flat_map(|rules| &rules.allow) {
        found = found.line("reachable", format!("{host} for commands"));
    }
    for host in network.flat_map(|rules| &rules.deny) {
        found = found.line("denied", format!("{host} for commands"));
    }
    match &sandbox.cgroup {
        Some(CgroupSetting::Off) => {
            found = found.line(
                "limit",
                "each process has its own; no control group enforces them",
            );
        }
        Some(CgroupSetting::Below(name)) => {
            found = found.line("cgroup", name.to_string());
        }
        Some(CgroupSetting::Auto) | None => {}
    }
    for (key, value) in sandbox.limits() {
        found = found.line("limit", format!("{key} = {value} for commands"));
    }
    for (key, value) in sandbox.masks.written() {
        found = found.line("masks", format!("{key} = {value} for commands"));
    }
    found
}

/// The presets in a file, with whom and what they apply to.
fn presets(source: &PolicySource) -> Vec<String> {
    let Ok(file) = source.text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let word = |table: &toml::Value| Some(table.get("preset")?.as_str()?.to_owned());
    let place = &source.name;
    let mut found = Vec::new();
    if let Some(preset) = file.get("policy").and_then(word) {
        found.push(format!("{preset} for everyone ({place})"));
    }
    for (table, kind) in WITH_PRESETS {
        let entries = file.get(table).and_then(toml::Value::as_table);
        for (name, entry) in entries.into_iter().flatten() {
            if let Some(preset) = word(entry) {
                found.push(format!("{preset} for {kind} `{name}` ({place})"));
            }
        }
    }
    found
}
