//! Builds tools from configuration: `[[tools]] type, name, config, arguments`. An entry has the same
//! shape in a file and in a program.
//!
//! A configuration is checked when it is read; the tool itself is built on first use. Types that
//! need something this crate does not have (a database, a script folder) are added by the caller
//! that has it, with [`Factory::register`].

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use haft_contract::{
    Tool, ToolName, ToolSpec,
    egress::HostRule,
    erased::{ErasedTool, ToolWrapper, erase_as},
    name::NameError,
    secret::ReadSecret,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    catalog::{self, EachTool, each_optional_tool, each_tool},
    script::{ScriptTool, manifest::is_reserved},
    web::{
        http::{HttpOperation, HttpTool},
        web_fetch::{WebFetchConfig, WebFetchTool},
        web_search::{WebSearchConfig, WebSearchTool},
    },
};

/// One `[[tools]]` entry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// The type, which selects the builder.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name it is registered under.
    pub name: String,
    /// Settings specific to the type.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// Arguments that the tool always gets. A caller neither sees nor sets them.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl ToolEntry {
    /// The manifest that an entry of type `script` names, as it is written.
    pub fn script_manifest(&self) -> Result<String, FactoryError> {
        let name = ToolName::parse(&self.name)?;
        let ScriptConfig { manifest } = read_config(&name, &self.config)?;
        Ok(manifest)
    }
}

/// Why a tool could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// There is no such type; the error lists the known ones.
    #[error("`{kind}` is not a type of tool; known types are {known}")]
    UnknownType {
        /// The requested type.
        kind: String,
        /// The known types.
        known: String,
    },
    /// The name is not a valid tool name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The settings do not fit the type.
    #[error("the configuration of the tool `{name}` is invalid: {reason}")]
    Config {
        /// The tool.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// An argument is fixed that the tool does not have.
    #[error("the tool `{name}` has no argument `{argument}` that could be fixed")]
    Argument {
        /// The tool.
        name: String,
        /// The argument.
        argument: String,
    },
}

/// Builds a tool on first use.
pub type MakeTool = Box<dyn FnOnce() -> Arc<dyn ErasedTool> + Send>;

/// Checks a configuration and returns how to build the tool.
pub type PrepareTool =
    Box<dyn Fn(&ToolName, &Map<String, Value>) -> Result<MakeTool, FactoryError> + Send + Sync>;

/// Builds tools from configuration.
pub struct Factory {
    types: BTreeMap<String, PrepareTool>,
}

impl Factory {
    /// A factory for every built-in type.
    pub fn builtin() -> Self {
        let mut factory = Self {
            types: BTreeMap::new(),
        };
        each_tool(&mut factory);
        each_optional_tool(&mut factory);
        factory
    }

    /// Adds a type, or replaces one.
    pub fn register(&mut self, kind: impl Into<String>, prepare: PrepareTool) {
        self.types.insert(kind.into(), prepare);
    }

    /// Adds the type `script`, whose `config.manifest` names a manifest. `find` gets the path as it
    /// is written, and returns the script if it is trusted, or says why not.
    pub fn register_scripts(
        &mut self,
        find: impl Fn(&str) -> Result<ScriptTool, String> + Send + Sync + 'static,
    ) {
        let prepare: PrepareTool = Box::new(move |name, config| {
            let ScriptConfig { manifest } = read_config(name, config)?;
            let tool = find(&manifest).map_err(|reason| FactoryError::Config {
                name: name.to_string(),
                reason,
            })?;
            let name = name.clone();
            Ok(Box::new(move || tool.named(name).erased()))
        });
        self.register("script", prepare);
    }

    /// Adds the type `http`: one operation of an API as a tool, which reads its secrets from here.
    pub fn register_http(&mut self, secrets: Arc<dyn ReadSecret>) {
        let prepare: PrepareTool = Box::new(move |name, config| {
            let wrong = |reason: String| FactoryError::Config {
                name: name.to_string(),
                reason,
            };
            if is_taken(name.as_str()) {
                return Err(wrong(
                    "it would be taken for a tool of Haft or of a server; give it another name"
                        .to_owned(),
                ));
            }
            let operation = HttpOperation::parse(config).map_err(wrong)?;
            let (name, secrets) = (name.clone(), Arc::clone(&secrets));
            Ok(Box::new(move || {
                Arc::new(HttpTool::new(name, operation, secrets))
            }))
        });
        self.register("http", prepare);
    }

    /// Keeps the type `web_fetch` away from hosts that configuration names for other tools.
    pub fn register_web_fetch(&mut self, others: Vec<HostRule>) {
        let prepare: PrepareTool = Box::new(move |name, config| {
            let config: WebFetchConfig = read_config(name, config)?;
            let (name, others) = (name.clone(), others.clone());
            Ok(Box::new(move || {
                erase_as(WebFetchTool::configured(&config).without(others), name)
            }))
        });
        self.register(<WebFetchTool as Tool>::NAME, prepare);
    }

    /// Lets the type `web_search` read keys from here, and refuses settings that nobody can be asked
    /// with.
    pub fn register_web_search(&mut self, secrets: Arc<dyn ReadSecret>) {
        let prepare: PrepareTool = Box::new(move |name, config| {
            let config: WebSearchConfig = read_config(name, config)?;
            config.check().map_err(|reason| FactoryError::Config {
                name: name.to_string(),
                reason,
            })?;
            let (name, secrets) = (name.clone(), Arc::clone(&secrets));
            Ok(Box::new(move || {
                erase_as(WebSearchTool::configured(&config).secrets(secrets), name)
            }))
        });
        self.register(<WebSearchTool as Tool>::NAME, prepare);
    }

    /// The known types, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// Checks an entry and returns its tool, which is built on first use.
    pub fn build(&self, entry: &ToolEntry) -> Result<Arc<dyn ErasedTool>, FactoryError> {
        let name = ToolName::parse(&entry.name)?;
        let prepare = self
            .types
            .get(&entry.kind)
            .ok_or_else(|| FactoryError::UnknownType {
                kind: entry.kind.clone(),
                known: self.types().collect::<Vec<_>>().join(", "),
            })?;
        let make = prepare(&name, &entry.config)?;
        let tool = Arc::new(LazyTool {
            keeps_aliases: entry.name == entry.kind,
            tool: LazyLock::new(make),
            name,
        });
        fix_arguments(tool, entry.arguments.clone())
    }
}

impl EachTool for Factory {
    fn tool<T, C>(&mut self, make: fn(C) -> T)
    where
        T: Tool,
        C: Default + DeserializeOwned + Send + 'static,
    {
        let prepare: PrepareTool = Box::new(move |name, config| {
            let config: C = read_config(name, config)?;
            let name = name.clone();
            Ok(Box::new(move || erase_as(make(config), name)))
        });
        self.register(T::NAME, prepare);
    }
}

/// Whether people and rules know a name as that of something else.
fn is_taken(name: &str) -> bool {
    let known = catalog::builtins().into_iter().chain(catalog::optional());
    let mut known = known.map(|tool| (tool.name().to_string(), tool.spec().aliases));
    is_reserved(name) || known.any(|(tool, aliases)| tool == name || aliases.contains(&name))
}

/// Reads a type's settings, naming the tool in the error.
pub fn read_config<C: DeserializeOwned>(
    name: &ToolName,
    config: &Map<String, Value>,
) -> Result<C, FactoryError> {
    serde_json::from_value(Value::Object(config.clone())).map_err(|error| FactoryError::Config {
        name: name.to_string(),
        reason: error.to_string(),
    })
}

/// The settings of the type `script`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptConfig {
    manifest: String,
}

/// The same tool, which always gets these arguments. Each must be one that it has.
pub fn fix_arguments(
    tool: Arc<dyn ErasedTool>,
    arguments: Map<String, Value>,
) -> Result<Arc<dyn ErasedTool>, FactoryError> {
    if arguments.is_empty() {
        return Ok(tool);
    }
    let schema = tool.input_schema();
    let has = |argument: &&String| {
        let properties = schema.get("properties");
        properties.is_some_and(|properties| properties.get(argument.as_str()).is_some())
    };
    if let Some(argument) = arguments.keys().find(|argument| !has(argument)) {
        return Err(FactoryError::Argument {
            name: tool.name().to_string(),
            argument: argument.clone(),
        });
    }
    Ok(Arc::new(WithArguments { tool, arguments }))
}

/// A tool with arguments that the operator has fixed. The runtime adds them to every call.
struct WithArguments {
    tool: Arc<dyn ErasedTool>,
    arguments: Map<String, Value>,
}

impl ToolWrapper for WithArguments {
    fn wrapped(&self) -> &dyn ErasedTool {
        &*self.tool
    }

    fn spec(&self) -> ToolSpec {
        self.tool.spec().fixed_arguments(self.arguments.clone())
    }
}

/// A tool that is built on first use.
struct LazyTool {
    name: ToolName,
    /// A tool registered under a name other than its type's must not also claim the type's aliases.
    keeps_aliases: bool,
    tool: LazyLock<Arc<dyn ErasedTool>, MakeTool>,
}

impl ToolWrapper for LazyTool {
    fn wrapped(&self) -> &dyn ErasedTool {
        &**self.tool
    }

    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        let mut spec = self.tool.spec();
        if !self.keeps_aliases {
            spec.aliases.clear();
        }
        spec
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    fn entry(value: Value) -> ToolEntry {
        serde_json::from_value(value).unwrap()
    }

    fn refusal(value: Value) -> String {
        match Factory::builtin().build(&entry(value)) {
            Ok(tool) => panic!("built {}", tool.name()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn r7_the_configured_name_is_the_registered_name() {
        let tool = Factory::builtin()
            .build(&entry(
                json!({"type": "bash", "name": "long_bash", "config": {"timeout_ms": 300_000}}),
            ))
            .unwrap();
        assert_eq!(tool.name().as_str(), "long_bash");
        assert_eq!(tool.spec().deadline.default.as_secs(), 300);
        assert!(tool.spec().aliases.is_empty());
    }

    #[test]
    fn r7_an_unknown_type_lists_the_known_ones() {
        assert_eq!(
            refusal(json!({"type": "shell", "name": "x"})),
            "`shell` is not a type of tool; known types are bash, clarify, copy, edit, find, grep, \
             list, memory_forget, memory_get, memory_save, memory_search, patch, process, read, \
             read_output, todo, web_fetch, web_search, write"
        );
    }

    #[test]
    fn r7_every_built_in_tool_is_a_type() {
        let factory = Factory::builtin();
        let tools = crate::builtins();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
        let types: Vec<&str> = factory.types().collect();
        // These are offered only where configuration names them.
        let optional = |name: &str| {
            name.starts_with("memory_") || name.starts_with("web_") || name == "clarify"
        };
        let by_default = types.iter().filter(|name| !optional(name));
        assert_eq!(by_default.copied().collect::<Vec<_>>(), names);
        for name in types {
            let built = factory.build(&entry(json!({"type": name, "name": "mine"})));
            assert_eq!(built.unwrap().name().as_str(), "mine");
        }
    }

    #[test]
    fn r7_a_trusted_script_can_have_a_configured_name() {
        let manifest_text = "name = 'x'\ndescription = 'does x'\nprogram = 'x'\n[input]\n\
                             type = 'object'\nproperties.city = { type = 'string' }";
        let mut factory = Factory::builtin();
        factory.register_scripts(move |manifest| {
            if manifest != "tools/x.toml" {
                return Err(format!("there is no manifest `{manifest}`"));
            }
            let script = ScriptTool::new(crate::script::ScriptSource {
                manifest_text: manifest_text.to_owned(),
                program_path: "/scripts/x".to_owned(),
                sha256: [7; 32],
            });
            script.map_err(|error| error.to_string())
        });
        let build = |manifest: &str, arguments: Value| {
            factory.build(&entry(json!({
                "type": "script", "name": "mine",
                "config": {"manifest": manifest}, "arguments": arguments,
            })))
        };
        let tool = build("tools/x.toml", json!({"city": "Berlin"})).unwrap();
        assert_eq!(tool.name().as_str(), "mine");
        assert!(tool.program_digest().is_some());
        assert_eq!(tool.spec().fixed_arguments["city"], "Berlin");
        let refused = |manifest: &str, arguments: Value| match build(manifest, arguments) {
            Ok(tool) => panic!("built {}", tool.name()),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            refused("tools/y.toml", json!({})),
            "the configuration of the tool `mine` is invalid: there is no manifest `tools/y.toml`"
        );
        assert_eq!(
            refused("tools/x.toml", json!({"town": "Berlin"})),
            "the tool `mine` has no argument `town` that could be fixed"
        );
    }

    #[test]
    fn r7_wrong_settings_are_found_when_the_entry_is_read() {
        assert!(
            refusal(json!({"type": "read", "name": "x", "config": {"colour": 1}})).starts_with(
                "the configuration of the tool `x` is invalid: unknown field `colour`"
            )
        );
        assert!(refusal(json!({"type": "read", "name": "a b"})).contains("a b"));
    }

    #[test]
    fn r7_a_tool_is_made_when_it_is_first_needed_and_only_once() {
        let made = Arc::new(AtomicUsize::new(0));
        let mut factory = Factory::builtin();
        let counter = Arc::clone(&made);
        factory.register(
            "counted",
            Box::new(move |name, _| {
                let (name, counter) = (name.clone(), Arc::clone(&counter));
                Ok(Box::new(move || {
                    counter.fetch_add(1, Ordering::SeqCst);
                    erase_as(crate::files::read::ReadTool, name)
                }))
            }),
        );
        let tool = factory
            .build(&entry(json!({"type": "counted", "name": "x"})))
            .unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 0);
        tool.spec();
        tool.input_schema();
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }
}
