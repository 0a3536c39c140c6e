//! What trusting a configuration means: everything that applies from now on because of it. The
//! person who trusts a file reads this, so anything not listed here must not loosen anything.

use haft_contract::{access::Command, host::Verdict, ops::SandboxMode};
use haft_host::{
    ConfiguredScript,
    config::{
        Settings,
        mcp::{ServerSettings, Target},
        sandbox::Home,
    },
    configured_scripts,
};
use haft_ledger::{Retention, options::MAX_QUEUED_BYTES};
use haft_policy::PolicySource;
use haft_sandbox::cgroup::CgroupSetting;
use haft_tools::script::ScriptHosts;

use crate::terminal::Page;

/// The tables whose entries may have their own preset, and the word for an entry.
const WITH_PRESETS: [(&str, &str); 5] = [
    ("agents", "agent"),
    ("tenants", "tenant"),
    ("users", "user"),
    ("sessions", "sessions of kind"),
    ("channels", "channel"),
];

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// What applies from now on, line by line.
pub(crate) fn consequences(settings: &Settings) -> Page {
    let mut page = Page::new();
    for source in &settings.sources {
        for preset in presets(source) {
            page = page.field("preset", preset);
        }
    }
    for rule in settings
        .policy
        .rules()
        .filter(|rule| rule.verdict() == Verdict::Allow)
    {
        let whom = rule.holds_for();
        let whom = whom.map_or_else(String::new, |section| format!(" for {section}"));
        page = page.field("allows", format!("{}{whom}", rule.origin()));
    }
    let unconfined = settings
        .policy
        .tool_settings()
        .sandboxes()
        .filter(|(_, mode)| *mode == SandboxMode::Off);
    for (tool, _) in unconfined {
        page = page.field("unconfined", format!("`{tool}` runs without a sandbox"));
    }
    for (word, line) in settings.backends.lines() {
        page = page.field(word, line);
    }
    page = page.page(shown_to_commands(settings));
    if settings.cross_mounts {
        page = page.field(
            "mounts",
            "paths may lead onto file systems mounted in the workspace",
        );
    }
    for (key, value) in settings.limits_set.iter() {
        page = page.field("limit", format!("{key} = {value}"));
    }
    for (name, seconds) in settings.timeouts.iter() {
        page = page.field("timeout", format!("{name} = {seconds} s"));
    }
    for (key, value) in settings.loop_guard.iter() {
        page = page.field("loop guard", format!("{key} = {value}"));
    }
    for line in settings.asking.places.lines() {
        page = page.field("answers", line);
    }
    for line in settings.undo.lines() {
        page = page.field("undo", line);
    }
    let kept = settings.retention;
    if kept != Retention::default() {
        let days = kept.kept_for.as_secs() / SECONDS_A_DAY;
        let bytes = kept.max_total_bytes;
        page = page.field(
            "record",
            format!("artifact_days = {days}, artifact_bytes = {bytes}, for every workspace"),
        );
    }
    if settings.queue_bytes != MAX_QUEUED_BYTES {
        page = page.field("record", format!("queue_bytes = {}", settings.queue_bytes));
    }
    // An unreadable script has already stopped the command.
    for configured in configured_scripts(settings).into_iter().flatten() {
        page = page.page(script(&configured));
    }
    for server in settings.mcp.mounted() {
        page = page.page(mounted(server));
    }
    page
}

/// What a script is called, what it always gets, and what it reaches.
fn script(configured: &ConfiguredScript) -> Page {
    let manifest = configured.script.manifest();
    let path = configured.script.manifest_path().display();
    let mut name = &manifest.name;
    let mut page = match &configured.entry {
        Some(entry) => {
            name = &entry.name;
            let page = Page::new().field("script", format!("{path} as `{name}`"));
            entry
                .arguments
                .iter()
                .fold(page, |page, (argument, value)| {
                    page.field("fixed", format!("{argument} = {value} for `{name}`"))
                })
        }
        None => Page::new().field("script", path.to_string()),
    };
    if let ScriptHosts::Own(hosts) = &manifest.hosts {
        for (host, port) in hosts {
            page = page.field("reachable", format!("{host}:{port} for `{name}`"));
        }
    }
    for (secret, reference) in &manifest.secrets {
        page = page.field("secret", format!("`{name}` gets {reference} as {secret}"));
    }
    page
}

/// What a mounted server starts or reaches, and what it gets.
fn mounted(server: &ServerSettings) -> Page {
    let id = &server.id;
    let mut page = match &server.target {
        Target::Url { url, oauth, .. } => {
            let mut page = Page::new().field("mounts", format!("`{id}` at {url}"));
            for host in &oauth.private_hosts {
                page = page.field("reachable", format!("{host}, to log in to `{id}`"));
            }
            page
        }
        Target::Command(command) => {
            let argv = Command::Argv(command.argv.clone()).text();
            let mut page = Page::new().field("mounts", format!("`{id}`, which runs: {argv}"));
            if command.mode != SandboxMode::Full {
                let mode = command.mode.as_str();
                page = page.field("unconfined", format!("`{id}` has the sandbox `{mode}`"));
            }
            for place in command.cwd.iter().chain(&command.writable) {
                page = page.field("writable", format!("`{}` for `{id}`", place.display()));
            }
            for place in &command.read_only {
                page = page.field("readable", format!("`{}` for `{id}`", place.display()));
            }
            for host in command.network.iter().flat_map(|rules| &rules.allow) {
                page = page.field("reachable", format!("{host} for `{id}`"));
            }
            page
        }
    };
    for (name, reference) in &server.secrets {
        page = page.field("secret", format!("`{id}` gets {reference} as {name}"));
    }
    if server.trust_annotations {
        page = page.field(
            "trusts",
            format!("what `{id}` says about its tools' effects"),
        );
    }
    page
}

/// What confined commands see in addition to the workspace.
fn shown_to_commands(settings: &Settings) -> Page {
    let sandbox = &settings.sandbox;
    let mut page = Page::new();
    for place in &sandbox.writable {
        page = page.field("writable", format!("`{}` for commands", place.display()));
    }
    for place in &sandbox.read_only {
        page = page.field("readable", format!("`{}` for commands", place.display()));
    }
    for place in &sandbox.path {
        page = page.field("runs", format!("programs in `{}` first", place.display()));
    }
    for (name, value) in &sandbox.env {
        page = page.field("variable", format!("{name}={value} for commands"));
    }
    if let Some(Home::At(home)) = &sandbox.home {
        page = page.field("readable", format!("toolchains in `{}`", home.display()));
    }
    let network = sandbox.network.iter();
    for host in network.clone().flat_map(|rules| &rules.allow) {
        page = page.field("reachable", format!("{host} for commands"));
    }
    for host in network.flat_map(|rules| &rules.deny) {
        page = page.field("denied", format!("{host} for commands"));
    }
    match &sandbox.cgroup {
        Some(CgroupSetting::Off) => {
            page = page.field(
                "limit",
                "each process has its own; no control group enforces them",
            );
        }
        Some(CgroupSetting::Below(name)) => {
            page = page.field("cgroup", name.to_string());
        }
        Some(CgroupSetting::Auto) | None => {}
    }
    for (key, value) in sandbox.limits() {
        page = page.field("limit", format!("{key} = {value} for commands"));
    }
    for (key, value) in sandbox.masks.written() {
        page = page.field("masks", format!("{key} = {value} for commands"));
    }
    page
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
