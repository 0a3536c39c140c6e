//! What every tool must keep to: its plan, and what it says of itself. The rules are in
//! `docs/spec/tool.md`; the suite is `tool_suite!`. It is about correctness alone, and must not ask how
//! a tool is written. A tool's own tests check how it *behaves*, through the harness.

#![allow(
    clippy::unused_async,
    reason = "the cases of all suites have one shape"
)]

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::{
    ActionName, ErrorKind, PlanContext, ProviderId, Terminal, ToolName,
    erased::{ErasedTool, erase_as},
    host::Verdict,
};
use haft_runtime::registry::{Entry, Format};
use serde_json::{Value, json};

use crate::{FixedPolicy, Harness, harness::HarnessBuilder, memory::MemoryTree, sample};

mod shown_schema;

super::suite! { $
    /// One test per case of the tool suite, for a [`ToolFixture`](crate::suite::tool::ToolFixture).
    tool_suite, tool:
    the_deadlines_are_in_order,
    actions_are_those_that_plans_name,
    aliases_are_names_of_their_own,
    parameter_aliases_lead_to_parameters,
    schemas_are_the_same_each_time,
    shown_schemas_hold_only_what_providers_know,
    the_examples_parse,
    planning_is_pure,
    a_plan_is_never_looser_than_its_accesses,
    it_keeps_to_its_plan,
    the_payload_is_in_the_text,
}

/// A tool and at least one input it accepts.
pub struct ToolFixture {
    /// The tool.
    pub tool: Arc<dyn ErasedTool>,
    /// Inputs as a model would write them, after aliases are applied.
    pub examples: Vec<Value>,
    /// Calls with a known result for the model.
    pub results: Vec<KnownResult>,
}

/// A call, how it ends, and what a model must read in its result. The workspace has the files of
/// [`KNOWN_FILES`]. `{flood}` in the input is replaced by the id of a call whose output was too
/// long.
#[derive(Debug, Clone)]
pub struct KnownResult {
    /// The call's input.
    pub input: Value,
    /// How it ends.
    pub ends: Terminal,
    /// The text contains each of these.
    pub payload: Vec<&'static str>,
}

/// The name of the tool whose output is too long.
const FLOOD: &str = "known_flood";

/// The files in the workspace of the known results.
pub const KNOWN_FILES: [(&str, &str); 2] = [
    ("known.txt", "a line nobody could guess\nand another\n"),
    ("folder/deep.txt", "deep\n"),
];

impl KnownResult {
    /// A call that succeeds.
    pub fn succeeds(input: Value, payload: &[&'static str]) -> Self {
        Self {
            input,
            ends: Terminal::Succeeded,
            payload: payload.to_vec(),
        }
    }

    /// A call that is denied.
    pub fn denied(input: Value, payload: &[&'static str]) -> Self {
        Self {
            ends: Terminal::Denied,
            ..Self::succeeds(input, payload)
        }
    }

    /// A call that fails.
    pub fn fails(input: Value, payload: &[&'static str]) -> Self {
        Self {
            ends: Terminal::Failed,
            ..Self::succeeds(input, payload)
        }
    }
}

impl ToolFixture {
    /// A tool and its example inputs.
    pub fn new(tool: Arc<dyn ErasedTool>, examples: impl IntoIterator<Item = Value>) -> Self {
        Self {
            tool,
            examples: examples.into_iter().collect(),
            results: Vec::new(),
        }
    }

    /// Adds calls with a known result for the model.
    #[must_use]
    pub fn known(mut self, results: impl IntoIterator<Item = KnownResult>) -> Self {
        self.results.extend(results);
        self
    }

    /// The parameters of the input and their schemas.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        let schema = self.tool.input_schema();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        properties
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect()
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        self.tool.name().as_str()
    }
}

/// No default exceeds its maximum, and no idle limit its maximum.
pub async fn the_deadlines_are_in_order(fixture: ToolFixture) {
    let spec = fixture.tool.spec();
    let actions = spec.actions.iter().map(|action| action.deadline);
    for deadline in actions.chain([spec.deadline]) {
        assert!(!deadline.default.is_zero());
        assert!(deadline.default <= deadline.maximum, "{deadline:?}");
        assert!(
            deadline.idle.is_none_or(|idle| idle <= deadline.maximum),
            "{deadline:?}"
        );
    }
}

/// Mistake 6: a table of deadlines whose keys can never match. Every action has an example whose
/// plan names it, and no plan names another.
pub async fn actions_are_those_that_plans_name(fixture: ToolFixture) {
    let spec = fixture.tool.spec();
    let planned: BTreeSet<ActionName> = fixture
        .examples
        .iter()
        .filter_map(|example| plan(&fixture, example).action)
        .collect();
    let declared = spec.actions.into_iter().map(|action| action.name);
    let declared: BTreeSet<ActionName> = declared.collect();
    assert_eq!(declared, planned, "actions of `{}`", fixture.name());
}

/// R5, R6: an alias is a valid name and differs from the tool's own.
pub async fn aliases_are_names_of_their_own(fixture: ToolFixture) {
    let aliases = fixture.tool.spec().aliases;
    for (index, alias) in aliases.iter().enumerate() {
        assert!(ToolName::parse(alias).is_ok(), "`{alias}` is not a name");
        assert_ne!(*alias, fixture.name());
        assert!(!aliases[..index].contains(alias), "`{alias}` comes twice");
    }
}

/// An alias leads to an existing parameter, and hides none.
pub async fn parameter_aliases_lead_to_parameters(fixture: ToolFixture) {
    let parameters = fixture.parameters();
    let schema = fixture.tool.input_schema();
    // The alias of an item's parameter leads to the list, which the derived schema describes.
    let lists = |name: &str| {
        let kind = &schema["properties"][name]["type"];
        kind == "array"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&"array".into()))
    };
    let is_parameter = |name: &str| parameters.iter().any(|(parameter, _)| parameter == name);
    for alias in fixture.tool.spec().parameter_aliases {
        assert!(
            alias.within.map_or(is_parameter(alias.parameter), lists),
            "`{}` leads nowhere",
            alias.alias
        );
        assert!(
            !is_parameter(alias.alias),
            "`{}` is a parameter itself",
            alias.alias
        );
    }
}

/// Mistake 19: prompt caches hit only if nothing moves.
pub async fn schemas_are_the_same_each_time(fixture: ToolFixture) {
    let text = || {
        let tool = &fixture.tool;
        format!("{} {}", tool.input_schema(), tool.output_schema())
    };
    assert_eq!(text(), text());
}

/// A client that meets an unknown keyword or format warns or refuses the tool, and every word of a
/// schema is paid for in each conversation.
pub async fn shown_schemas_hold_only_what_providers_know(fixture: ToolFixture) {
    let entry = registered(fixture.tool);
    for format in [Format::Mcp, Format::OpenAi, Format::Anthropic] {
        let rendering = entry.rendering(format);
        let schemas = [
            "/inputSchema",
            "/outputSchema",
            "/function/parameters",
            "/input_schema",
        ];
        for pointer in schemas {
            if let Some(schema) = rendering.pointer(pointer) {
                shown_schema::check(schema, &format!("{}{pointer}", entry.key()));
            }
        }
    }
}

/// The examples are valid inputs of this tool.
pub async fn the_examples_parse(fixture: ToolFixture) {
    assert!(
        !fixture.examples.is_empty(),
        "`{}` has no example input",
        fixture.name()
    );
    for example in &fixture.examples {
        if let Err(error) = fixture.tool.parse(example) {
            panic!("`{}` refuses {example}: {error}", fixture.name());
        }
    }
}

/// The same input gives the same plan; by its type, planning gets no operations.
pub async fn planning_is_pure(fixture: ToolFixture) {
    for example in &fixture.examples {
        assert_eq!(
            plan(&fixture, example),
            plan(&fixture, example),
            "{example}"
        );
    }
}

/// A plan that writes does not call itself read-only.
pub async fn a_plan_is_never_looser_than_its_accesses(fixture: ToolFixture) {
    for example in &fixture.examples {
        let plan = plan(&fixture, example);
        let writes = plan.accesses.iter().any(|access| access.kind() == "write");
        assert!(
            !(writes && plan.effects.read_only),
            "{example} writes and says it only looks"
        );
        assert!(
            !(plan.effects.read_only && plan.effects.destructive),
            "{example} only looks and destroys"
        );
    }
}

/// No example ends because the tool reached for what its plan does not name, and one whose plan only
/// looks leaves the workspace as it was.
pub async fn it_keeps_to_its_plan(fixture: ToolFixture) {
    let name = fixture.name();
    for example in &fixture.examples {
        let tools = vec![Arc::clone(&fixture.tool)];
        let harness = workspace().tools(tools).build();
        for (path, text) in KNOWN_FILES {
            harness.tree.put(path, text);
        }
        let before = contents(&harness.tree);
        let outcome = harness.call(name, example.clone()).await;
        let kind = outcome.error.as_ref().map(|failure| failure.kind);
        assert_ne!(
            kind,
            Some(ErrorKind::NotInPlan),
            "`{name}` {example} leaves its plan: {}",
            outcome.model_text()
        );
        if plan(&fixture, example).effects.read_only {
            let after = contents(&harness.tree);
            assert_eq!(after, before, "`{name}` {example} says it only looks");
        }
    }
}

/// Every path of a workspace, with what is in its files.
fn contents(tree: &MemoryTree) -> Vec<(String, Option<Vec<u8>>)> {
    let paths = tree.paths().into_iter();
    paths
        .map(|path| (path.clone(), tree.bytes(&path)))
        .collect()
}

/// The text contains what was requested and what went wrong: a model reads the text, and structured
/// output accompanies it only where it says the same. A refusal says who refused and why.
pub async fn the_payload_is_in_the_text(fixture: ToolFixture) {
    let name = fixture.name().to_owned();
    let tools = vec![Arc::clone(&fixture.tool)];
    let harness = workspace().tools(tools).build();
    for (path, text) in KNOWN_FILES {
        harness.tree.put(path, text);
    }
    let flood = harness.call(FLOOD, flood()).await;
    for known in &fixture.results {
        let input = known.input.to_string();
        let input = input.replace("{flood}", &flood.call.to_string());
        let input = serde_json::from_str(&input).expect("JSON");
        let outcome = harness.call(&name, input).await;
        let text = outcome.model_text();
        assert_eq!(outcome.terminal, known.ends, "{}: {text}", known.input);
        for payload in &known.payload {
            assert!(
                text.contains(payload),
                "`{name}` {} does not say `{payload}`: {text}",
                known.input
            );
        }
    }
    let denies = FixedPolicy::by(|_| Verdict::Deny);
    let harness = workspace().policy(denies).tools(vec![fixture.tool]).build();
    let first = fixture.examples.into_iter().next();
    let outcome = harness.call(&name, first.expect("an example")).await;
    assert_eq!(outcome.terminal, Terminal::Denied);
    let reason = outcome.facts.decision.as_ref().map(|it| it.reason.clone());
    let (text, reason) = (outcome.model_text(), reason.expect("a decision"));
    assert!(text.contains(&reason), "{text} does not say {reason}");
}

fn workspace() -> HarnessBuilder {
    let flood = ToolName::parse(FLOOD).expect("a good name");
    let provider = ProviderId::parse("sample").expect("a good name");
    let tools = vec![erase_as(sample::Emit, flood)];
    Harness::memory().configure(|builder| builder.provider(provider, tools))
}

/// More output than is shown, all in short lines.
fn flood() -> Value {
    let line = b"one line of many\n".as_slice();
    json!({"chunks": [{"bytes": line}], "repeat": 10_000})
}

/// A built-in tool as shown to MCP clients.
pub fn mcp_definition(tool: Arc<dyn ErasedTool>) -> Value {
    registered(tool).rendering(Format::Mcp).clone()
}

fn registered(tool: Arc<dyn ErasedTool>) -> Entry {
    Entry::new(&ProviderId::builtin(), tool)
}

fn plan(fixture: &ToolFixture, example: &Value) -> haft_contract::Plan {
    let cx = PlanContext {
        principal: crate::principal(),
        root: Arc::from(crate::memory::ROOT),
    };
    let input = fixture.tool.parse(example);
    let input = input.unwrap_or_else(|error| panic!("{example}: {error}"));
    let plan = fixture.tool.plan(&input, &cx);
    plan.unwrap_or_else(|error| panic!("{example}: {error}"))
}
