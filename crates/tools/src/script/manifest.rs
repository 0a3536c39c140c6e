//! The manifest of a script tool: a small TOML file next to the program.
//!
//! ```toml
//! name = "deploy_status"
//! description = "Shows the state of a deployment. Use it before deploying again."
//! program = "deploy_status"
//! effects = "read_only"
//! timeout_ms = 10000
//! hosts = ["deploy.example.com:443"]
//! required_scopes = ["deploy"]
//! groups = ["deployment"]
//! aliases = ["status_of_deployment"]
//!
//! [input]
//! type = "object"
//! required = ["service"]
//! properties.service = { type = "string", description = "The service to look at" }
//!
//! [secrets]
//! DEPLOY_TOKEN = "env:DEPLOY_TOKEN"
//!
//! [actions]
//! current = { timeout_ms = 5000 }
//! history = { timeout_ms = 60000 }
//! ```

use std::{collections::BTreeMap, time::Duration};

use haft_contract::{
    Deadline, Effects, ToolName,
    egress::{Host, HostRule, HostRuleError, WEB_PORTS},
    identity::{IdentityError, Scope},
    name::NameError,
    secret::SecretReference,
    spec::DEFAULT_TIMEOUT,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::names::{self, NamesError};

/// The longest time limit a script may have.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The largest manifest read, in bytes.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// The most hosts, secrets, actions, groups, aliases or scopes a manifest may have, each.
const MAX_ENTRIES: usize = 32;

/// The parameter that names the action, of a script that has several.
pub(super) const ACTION: &str = "action";

/// The key of the input under which a script finds its secrets. No caller can set it.
pub(super) const SECRETS: &str = "secrets";

/// What a script declares about itself.
#[derive(Debug, Clone)]
pub struct ScriptManifest {
    /// The tool's name.
    pub name: ToolName,
    /// A short title for people.
    pub title: String,
    /// What it does, when to use it and when not, written for a model.
    pub description: String,
    /// The program, as a name relative to the manifest.
    pub program: String,
    /// JSON Schema of the input.
    pub input: Value,
    /// JSON Schema of the result, if it is JSON of a known shape.
    pub output: Option<Value>,
    /// What running it may change.
    pub effects: Effects,
    /// How long it may run.
    pub deadline: Deadline,
    /// The deadline of each action, by its name.
    pub actions: BTreeMap<String, Deadline>,
    /// The hosts that it may reach.
    pub hosts: ScriptHosts,
    /// Its secrets, by the name under which it finds them.
    pub secrets: BTreeMap<String, SecretReference>,
    /// Scopes the caller's credential must carry.
    pub required_scopes: Vec<Scope>,
    /// Groups that rules and listings can name.
    pub groups: Vec<&'static str>,
    /// Other names that lead to it.
    pub aliases: Vec<&'static str>,
    /// The programs it starts. Without one of them it is not offered.
    pub needs: Vec<String>,
}

/// The hosts that a script may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptHosts {
    /// Those that the operator lets every command reach: the manifest names none, and no secrets.
    Configured,
    /// These hosts and ports, and no others.
    Own(Vec<(Host, u16)>),
}

/// Why a manifest was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The manifest is larger than a genuine one would be.
    #[error("the manifest has {0} bytes, at most {MAX_MANIFEST_BYTES} are read")]
    TooLarge(usize),
    /// It is not TOML of the expected shape; the message names the line.
    #[error("the manifest cannot be read: {0}")]
    Syntax(String),
    /// The name is not a valid tool name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// People and rules would take the name for one of Haft's own, or a mounted server's.
    #[error("a script cannot be called `{0}`: it would be taken for a tool of Haft or of a server")]
    Reserved(String),
    /// The description is empty.
    #[error("the description is empty; say what the tool does and when to use it")]
    NoDescription,
    /// The program is not a plain name next to the manifest.
    #[error("`{0}` is not the name of a file next to the manifest")]
    Program(String),
    /// The input schema does not describe an object.
    #[error("the input schema must have `type = \"object\"`")]
    NotAnObject,
    /// The time limit is zero or too long.
    #[error("timeout_ms must be between 1 and {}", MAX_TIMEOUT.as_millis())]
    Timeout,
    /// A host cannot be read.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// A host names more than one.
    #[error("`{0}` covers more than one host; name each host that the script reaches")]
    ManyHosts(String),
    /// A secret is not a reference. What was written may be the secret itself, so it is not
    /// repeated.
    #[error(
        "`secrets.{0}` is not a reference; write \"env:NAME\" or \"file:/absolute/path\" and keep the secret itself out of the manifest"
    )]
    Secret(String),
    /// The secrets are not a table.
    #[error("`secrets` must be a table of references, such as KEY = \"env:KEY\"")]
    SecretsTable,
    /// A parameter has the name under which the script finds its secrets.
    #[error(
        "the parameter `{SECRETS}` has the name under which the script gets its secrets; rename it"
    )]
    SecretsParameter,
    /// The parameter that names the action allows other values than the actions.
    #[error(
        "the parameter `{ACTION}` must have an `enum` of exactly the names under `[actions]`; leave the parameter out, and it is added"
    )]
    Actions,
    /// A scope is not one.
    #[error(transparent)]
    Scope(#[from] IdentityError),
    /// A group cannot be declared.
    #[error("a script cannot put itself into the group `{0}`: the group follows from what it does")]
    Group(String),
    /// There is too much of something.
    #[error("`{0}` has more than {MAX_ENTRIES} entries")]
    TooMany(&'static str),
    /// Its groups and aliases cannot be kept.
    #[error(transparent)]
    Names(#[from] NamesError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    #[serde(default)]
    title: Option<String>,
    program: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    effects: Option<DeclaredEffects>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    actions: BTreeMap<String, Action>,
    #[serde(default)]
    hosts: Option<Vec<String>>,
    // Read as any value: an error of the parser would quote what may be the secret itself.
    #[serde(default)]
    secrets: Value,
    #[serde(default)]
    required_scopes: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DeclaredEffects {
    Word(EffectWord),
    Flags(EffectFlags),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EffectWord {
    ReadOnly,
    Changes,
    Replaces,
    Unknown,
}

/// Anything undeclared gets the pessimistic value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the four effect flags, as manifests spell them"
)]
struct EffectFlags {
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    idempotent: bool,
    #[serde(default = "assumed")]
    destructive: bool,
    #[serde(default = "assumed")]
    open_world: bool,
}

fn assumed() -> bool {
    true
}

/// Whether a name is taken for something other than a script or a configured request.
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(name, "undo" | "haft") || name.starts_with("mcp__") || name.starts_with("haft_")
}

impl ScriptManifest {
    /// Parses a manifest.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLarge(text.len()));
        }
        let file: File =
            toml::from_str(text).map_err(|error| ManifestError::Syntax(error.to_string()))?;
        let name = ToolName::parse(&file.name)?;
        if is_reserved(name.as_str()) {
            return Err(ManifestError::Reserved(file.name));
        }
        if file.description.trim().is_empty() {
            return Err(ManifestError::NoDescription);
        }
        if !is_plain_name(&file.program) {
            return Err(ManifestError::Program(file.program));
        }
        file.check_counts()?;
        let mut input = file
            .input
            .unwrap_or_else(|| json!({ "type": "object", "additionalProperties": false }));
        if input.get("type").and_then(Value::as_str) != Some("object") {
            return Err(ManifestError::NotAnObject);
        }
        let deadline = deadline(file.timeout_ms, DEFAULT_TIMEOUT)?;
        let mut actions = BTreeMap::new();
        for (action, said) in file.actions {
            actions.insert(action, self::deadline(said.timeout_ms, deadline.default)?);
        }
        add_action(&mut input, &actions)?;
        let secrets = secrets(file.secrets)?;
        if !secrets.is_empty() && parameter(&input, SECRETS).is_some() {
            return Err(ManifestError::SecretsParameter);
        }
        let hosts = match file.hosts {
            // Whoever has a secret may take it only where the manifest says.
            None if secrets.is_empty() => ScriptHosts::Configured,
            hosts => ScriptHosts::Own(own_hosts(&hosts.unwrap_or_default())?),
        };
        let mut effects = file.effects.map_or(Effects::UNKNOWN, Into::into);
        effects.open_world |= matches!(&hosts, ScriptHosts::Own(hosts) if !hosts.is_empty());
        let scopes = file.required_scopes.iter().map(|scope| Scope::parse(scope));
        Ok(Self {
            title: file.title.unwrap_or_else(|| file.name.clone()),
            name,
            description: file.description,
            program: file.program,
            input,
            output: file.output,
            effects,
            deadline,
            actions,
            hosts,
            secrets,
            required_scopes: scopes.collect::<Result<_, _>>()?,
            groups: groups(&file.groups)?,
            aliases: aliases(&file.aliases)?,
            needs: file.needs,
        })
    }
}

impl File {
    fn check_counts(&self) -> Result<(), ManifestError> {
        let counts = [
            ("hosts", self.hosts.as_ref().map_or(0, Vec::len)),
            ("secrets", self.secrets.as_object().map_or(0, Map::len)),
            ("actions", self.actions.len()),
            ("groups", self.groups.len()),
            ("aliases", self.aliases.len()),
            ("required_scopes", self.required_scopes.len()),
        ];
        match counts.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
            Some((which, _)) => Err(ManifestError::TooMany(which)),
            None => Ok(()),
        }
    }
}

fn deadline(timeout_ms: Option<u64>, usual: Duration) -> Result<Deadline, ManifestError> {
    let timeout = timeout_ms.map_or(usual, Duration::from_millis);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(ManifestError::Timeout);
    }
    Ok(Deadline::new(timeout, timeout))
}

/// A parameter of an input schema.
fn parameter<'s>(input: &'s Value, name: &str) -> Option<&'s Value> {
    input.get("properties")?.get(name)
}

/// Adds the parameter that names the action, or checks the one that is there.
fn add_action(
    input: &mut Value,
    actions: &BTreeMap<String, Deadline>,
) -> Result<(), ManifestError> {
    if actions.is_empty() {
        return Ok(());
    }
    if let Some(written) = parameter(input, ACTION) {
        let listed = written.get("enum").and_then(Value::as_array);
        let listed = listed.ok_or(ManifestError::Actions)?;
        let same = listed.len() == actions.len()
            && listed
                .iter()
                .all(|name| name.as_str().is_some_and(|name| actions.contains_key(name)));
        return if same {
            Ok(())
        } else {
            Err(ManifestError::Actions)
        };
    }
    let Value::Object(schema) = input else {
        return Err(ManifestError::NotAnObject);
    };
    let names: Vec<&String> = actions.keys().collect();
    let said = json!({ "type": "string", "enum": names, "description": "What to do" });
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(properties) = properties else {
        return Err(ManifestError::Actions);
    };
    properties.insert(ACTION.to_owned(), said);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    let Value::Array(required) = required else {
        return Err(ManifestError::Actions);
    };
    required.push(Value::from(ACTION));
    Ok(())
}

fn secrets(written: Value) -> Result<BTreeMap<String, SecretReference>, ManifestError> {
    let written = match written {
        Value::Null => Map::new(),
        Value::Object(written) => written,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(ManifestError::SecretsTable);
        }
    };
    let read = written.into_iter().map(|(name, reference)| {
        match reference.as_str().and_then(SecretReference::parse) {
            Some(reference) => Ok((name, reference)),
            None => Err(ManifestError::Secret(name)),
        }
    });
    read.collect()
}

/// Each host with each of its ports.
fn own_hosts(written: &[String]) -> Result<Vec<(Host, u16)>, ManifestError> {
    let mut hosts = Vec::new();
    for text in written {
        let rule = HostRule::parse(text)?;
        let host = rule
            .host()
            .ok_or_else(|| ManifestError::ManyHosts(text.clone()))?;
        let ports = rule.port().map_or(WEB_PORTS.to_vec(), |port| vec![port]);
        hosts.extend(ports.into_iter().map(|port| (host.clone(), port)));
    }
    Ok(hosts)
}

fn groups(written: &[String]) -> Result<Vec<&'static str>, ManifestError> {
    /// Which tools are in them follows from their effects.
    const DERIVED: [&str; 5] = ["all", "read-only", "changes", "destructive", "open-world"];
    /// Which tools are in them decides how rules are read.
    const KINDS: [&str; 2] = ["process", "script"];
    let mut groups = Vec::new();
    for group in written {
        ToolName::parse(group)?;
        let taken = DERIVED.iter().chain(&KINDS).any(|taken| taken == group);
        if taken || group.starts_with("mcp") {
            return Err(ManifestError::Group(group.clone()));
        }
        groups.push(names::keep(group)?);
    }
    Ok(groups)
}

fn aliases(written: &[String]) -> Result<Vec<&'static str>, ManifestError> {
    let mut aliases = Vec::new();
    for alias in written {
        ToolName::parse(alias)?;
        if is_reserved(alias) {
            return Err(ManifestError::Reserved(alias.clone()));
        }
        aliases.push(names::keep(alias)?);
    }
    Ok(aliases)
}

impl From<DeclaredEffects> for Effects {
    fn from(declared: DeclaredEffects) -> Self {
        match declared {
            DeclaredEffects::Word(EffectWord::ReadOnly) => Self::READ_ONLY,
            DeclaredEffects::Word(EffectWord::Changes) => Self::CHANGES,
            DeclaredEffects::Word(EffectWord::Replaces) => Self::REPLACES,
            DeclaredEffects::Word(EffectWord::Unknown) => Self::UNKNOWN,
            DeclaredEffects::Flags(flags) => Self {
                read_only: flags.read_only,
                idempotent: flags.idempotent,
                destructive: flags.destructive,
                open_world: flags.open_world,
            },
        }
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let found = match ScriptManifest::parse(text) {
            Ok(manifest) => format!("{} {}", manifest.name, manifest.effects),
            Err(error) => error.to_string(),
        };
        assert_eq!(found.lines().next().unwrap_or_default(), expect);
    }

    #[test]
    fn un_04_a_script_does_not_take_a_name_that_means_something_else() {
        let manifest = |name: &str| {
            ScriptManifest::parse(&format!(
                "name = '{name}'\ndescription = 'does x'\nprogram = 'x.sh'"
            ))
        };
        for name in ["undo", "haft", "mcp__x__y", "haft_undo"] {
            let refused = manifest(name).unwrap_err().to_string();
            assert!(refused.contains("taken for"), "{refused}");
        }
        assert!(manifest("undo_migration").is_ok());
    }

    #[test]
    fn r8_a_manifest_declares_a_tool() {
        let base = "name = \"x\"\ndescription = \"does x\"\nprogram = \"x.sh\"\n";
        check(base, "x destructive, open_world");
        check(
            &format!("{base}effects = \"read_only\""),
            "x read_only, idempotent",
        );
        check(
            &format!("{base}effects = {{ open_world = false }}"),
            "x destructive",
        );
        check(
            &format!("{base}timeout_ms = 0"),
            "timeout_ms must be between 1 and 600000",
        );
        check(
            &format!("{base}[input]\ntype = \"string\""),
            "the input schema must have `type = \"object\"`",
        );
        check(
            "name = \"x\"\ndescription = \"d\"\nprogram = \"../x.sh\"",
            "`../x.sh` is not the name of a file next to the manifest",
        );
        check(
            &format!("{base}colour = 1"),
            "the manifest cannot be read: TOML parse error at line 4, column 1",
        );
    }

    const BASE: &str = "name = \"x\"\ndescription = \"does x\"\nprogram = \"x\"\n";

    fn parsed(more: &str) -> ScriptManifest {
        ScriptManifest::parse(&format!("{BASE}{more}")).unwrap()
    }

    #[test]
    fn r8_a_script_with_secrets_or_hosts_reaches_only_the_hosts_it_names() {
        assert_eq!(parsed("").hosts, ScriptHosts::Configured);
        let secret = "secrets.KEY = \"env:KEY\"";
        assert_eq!(parsed(secret).hosts, ScriptHosts::Own(Vec::new()));
        let own = parsed("effects = \"read_only\"\nhosts = [\"docs.rs\", \"127.0.0.1:81\"]");
        let host = |text| Host::parse(text).unwrap();
        let hosts = vec![
            (host("docs.rs"), 80),
            (host("docs.rs"), 443),
            (host("127.0.0.1"), 81),
        ];
        assert_eq!(own.hosts, ScriptHosts::Own(hosts));
        assert!(own.effects.open_world);
        check(
            &format!("{BASE}hosts = [\"*.docs.rs\"]"),
            "`*.docs.rs` covers more than one host; name each host that the script reaches",
        );
    }

    #[test]
    fn r8_a_secret_in_a_manifest_is_refused_and_not_repeated() {
        for written in ["\"hunter2hunter2\"", "{ env = \"hunter2hunter2\" }", "[1]"] {
            let refused = ScriptManifest::parse(&format!("{BASE}secrets.KEY = {written}"));
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.starts_with("`secrets.KEY` is not a reference"),
                "{refused}"
            );
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        let refused = ScriptManifest::parse(&format!("{BASE}secrets = \"hunter2hunter2\""));
        assert!(matches!(refused, Err(ManifestError::SecretsTable)));
        check(
            &format!(
                "{BASE}secrets.KEY = \"env:KEY\"\n[input]\ntype = \"object\"\n\
                 properties.secrets = {{ type = \"object\" }}"
            ),
            "the parameter `secrets` has the name under which the script gets its secrets; rename it",
        );
    }

    #[test]
    fn r8_actions_are_a_parameter_with_a_deadline_for_each() {
        let actions = "[actions]\nquote = { timeout_ms = 5000 }\nhistory = {}\n";
        let manifest = parsed(actions);
        let property = &manifest.input["properties"]["action"];
        assert_eq!(property["enum"], json!(["history", "quote"]));
        assert_eq!(manifest.input["required"], json!(["action"]));
        assert_eq!(manifest.actions["quote"].default, Duration::from_secs(5));
        assert_eq!(manifest.actions["history"].default, DEFAULT_TIMEOUT);
        let input = "[input]\ntype = \"object\"\nproperties.action = { enum = [\"quote\"] }";
        assert!(matches!(
            ScriptManifest::parse(&format!("{BASE}{actions}{input}")),
            Err(ManifestError::Actions)
        ));
    }

    #[test]
    fn r8_groups_aliases_and_scopes_are_declared_but_none_that_mean_something_else() {
        let manifest = parsed(
            "groups = [\"market\"]\naliases = [\"price\"]\nrequired_scopes = [\"market.read\"]",
        );
        assert_eq!(
            (manifest.groups, manifest.aliases),
            (vec!["market"], vec!["price"])
        );
        assert_eq!(manifest.required_scopes[0].as_str(), "market.read");
        for group in ["read-only", "process", "mcp"] {
            let refused = ScriptManifest::parse(&format!("{BASE}groups = [\"{group}\"]"));
            assert!(matches!(refused, Err(ManifestError::Group(_))), "{group}");
        }
        for alias in ["undo", "mcp__a__b"] {
            let refused = ScriptManifest::parse(&format!("{BASE}aliases = [\"{alias}\"]"));
            assert!(
                matches!(refused, Err(ManifestError::Reserved(_))),
                "{alias}"
            );
        }
    }
}
