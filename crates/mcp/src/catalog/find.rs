//! `find_tools`: searches the tools that this principal is shown by what they do.

use std::sync::Arc;

use haft_contract::{
    CallContext, Effects, ErrorKind, NoProgress, Plan, PlanContext, Principal, Tool, ToolError,
    ToolSpec,
};
use haft_runtime::registry::{Entry, Format};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EffectClass, is_catalog_tool, shown_tools::ShownTools, tokens::json_bytes};

/// How many tools are returned by default.
const DEFAULT_LIMIT: usize = 5;

/// The most tools returned.
const MAX_LIMIT: usize = 50;

/// The longest query, in bytes. Plenty for anything a person would write.
const MAX_QUERY_BYTES: usize = 1_024;

/// The most bytes of input schemas returned. Tools past this have only a name and a description,
/// and say so.
const MAX_SCHEMA_BYTES: usize = 32 * 1024;

/// The most characters of one description.
const MAX_DESCRIPTION_CHARS: usize = 2_048;

const DESCRIPTION: &str = "\
Finds tools that are not listed, by what they are for, and returns the best: name, description, \
input schema, and the tool to call them with.
Use it before saying that something cannot be done: most tools here are found only this way. \
Describe the task in a few words (`create github issue`), or give a name to see that tool.
Call what it finds with the tool in `call_with`, giving the name as `tool` and its input as \
`arguments`.";

/// The `find_tools` tool.
#[derive(Clone)]
pub struct FindTools {
    shown: ShownTools,
}

/// What `find_tools` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindToolsInput {
    /// What the tool should do, in a few words; or a tool's name.
    #[schemars(length(min = 1, max = 1024))]
    pub query: String,
    /// The most tools to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 50))]
    pub limit: usize,
}

/// What `find_tools` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FindToolsOutput {
    /// The tools that fit best, best first.
    pub tools: Vec<FoundTool>,
    /// What to do when nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

/// A tool that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it may do at worst: `read`, `write` or `destructive`.
    pub effects: &'static str,
    /// The tool to call it with.
    pub call_with: &'static str,
    /// What it takes. Absent where the schemas of better tools left no room: look for it by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl FindTools {
    pub(super) fn new(shown: ShownTools) -> Self {
        Self { shown }
    }

    fn find(
        &self,
        input: &FindToolsInput,
        principal: &Principal,
    ) -> Result<FindToolsOutput, ToolError> {
        let tools = self.shown.snapshot()?;
        let named = tools.get(input.query.trim());
        let others = tools
            .search(&input.query)
            .filter(|entry| named.is_none_or(|named| !Arc::ptr_eq(named, entry)));
        let found = named
            .into_iter()
            .chain(others)
            .filter(|entry| !is_catalog_tool(entry))
            .filter(|entry| self.shown.shows(principal, entry))
            .take(input.limit.clamp(1, MAX_LIMIT));
        let mut room = MAX_SCHEMA_BYTES;
        let tools: Vec<FoundTool> = found.map(|entry| describe(entry, &mut room)).collect();
        let hint = tools
            .is_empty()
            .then_some("nothing fits; try other words for the same thing, or fewer");
        Ok(FindToolsOutput { tools, hint })
    }
}

fn describe(entry: &Entry, room: &mut usize) -> FoundTool {
    let class = EffectClass::of(entry.spec().effects);
    let rendering = entry.rendering(Format::Anthropic);
    let schema = rendering.get("input_schema").cloned().unwrap_or_default();
    let left = room.checked_sub(json_bytes(&schema));
    *room = left.unwrap_or(*room);
    let description = &entry.spec().description;
    let description = match description.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        Some((end, _)) => format!("{}…", description.get(..end).unwrap_or_default()),
        None => description.clone(),
    };
    FoundTool {
        name: entry.key().tool.as_str().to_owned(),
        description,
        effects: class.as_str(),
        call_with: class.call_tool(),
        input_schema: left.map(|_| schema),
    }
}

impl Tool for FindTools {
    type Input = FindToolsInput;
    type Output = FindToolsOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "find_tools";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Find tools", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["catalog"])
    }

    fn plan(&self, input: &FindToolsInput, _: &PlanContext) -> Result<Plan, ToolError> {
        if input.query.len() > MAX_QUERY_BYTES {
            let message = format!("the query is longer than {MAX_QUERY_BYTES} bytes");
            return Err(ToolError::new(ErrorKind::LimitExceeded, message)
                .at("/query")
                .hint("a few words are enough"));
        }
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: FindToolsInput,
        cx: CallContext<NoProgress>,
    ) -> Result<FindToolsOutput, ToolError> {
        let (looking, principal) = (self.clone(), cx.principal().clone());
        // The first search after a change builds the index, which takes a while with many tools.
        tokio::task::spawn_blocking(move || looking.find(&input, &principal))
            .await
            .map_err(|_| ToolError::new(ErrorKind::Internal, "the search failed"))?
    }
}

impl std::fmt::Debug for FindTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FindTools").finish_non_exhaustive()
    }
}
