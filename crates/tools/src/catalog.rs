//! The lists of built-in tools. A new tool is one file and one line here; the tools offered to
//! models and the types configuration can build both come from these lists.

use std::sync::Arc;

use haft_contract::{
    Tool,
    erased::{ErasedTool, erase},
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    files::{
        copy::CopyTool, edit::EditTool, list::ListTool, patch::PatchTool, read::ReadTool,
        write::WriteTool,
    },
    memory::{
        forget::MemoryForgetTool, get::MemoryGetTool, save::MemorySaveTool,
        search::MemorySearchTool,
    },
    output::read_output::ReadOutputTool,
    process::{
        bash::{BashConfig, BashTool},
        processes::ProcessTool,
    },
    search::{find::FindTool, grep::GrepTool},
    session::{clarify::ClarifyTool, todo::TodoTool},
    undo::UndoTool,
    web::{
        web_fetch::{WebFetchConfig, WebFetchTool},
        web_search::{WebSearchConfig, WebSearchTool},
    },
};

/// Visits every built-in tool.
pub(crate) trait EachTool {
    /// Visits one tool. `make` builds it from its settings.
    fn tool<T, C>(&mut self, make: fn(C) -> T)
    where
        T: Tool,
        C: Default + DeserializeOwned + Send + 'static;
}

/// Visits the built-in tools that are offered unless a rule denies them, sorted by name.
pub(crate) fn each_tool(with: &mut impl EachTool) {
    with.tool(|config: BashConfig| BashTool::configured(&config));
    with.tool(|_: NoConfig| CopyTool);
    with.tool(|_: NoConfig| EditTool);
    with.tool(|_: NoConfig| FindTool);
    with.tool(|_: NoConfig| GrepTool);
    with.tool(|_: NoConfig| ListTool);
    with.tool(|_: NoConfig| PatchTool);
    with.tool(|_: NoConfig| ProcessTool);
    with.tool(|_: NoConfig| ReadTool);
    with.tool(|_: NoConfig| ReadOutputTool);
    with.tool(|_: NoConfig| TodoTool);
    with.tool(|_: NoConfig| WriteTool);
}

/// Visits the built-in tools that are offered only where configuration names them, sorted by name.
pub(crate) fn each_optional_tool(with: &mut impl EachTool) {
    // `DatabaseQueryTool` is not among them: the host makes it, of the sources that it has.
    with.tool(|_: NoConfig| ClarifyTool);
    with.tool(|_: NoConfig| MemoryForgetTool);
    with.tool(|_: NoConfig| MemoryGetTool);
    with.tool(|_: NoConfig| MemorySaveTool);
    with.tool(|_: NoConfig| MemorySearchTool);
    with.tool(|config: WebFetchConfig| WebFetchTool::configured(&config));
    with.tool(|config: WebSearchConfig| WebSearchTool::configured(&config));
}

/// The settings of a tool that has none.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoConfig {}

/// Every built-in tool that is offered without being configured, with default settings, sorted by
/// name.
pub fn builtins() -> Vec<Arc<dyn ErasedTool>> {
    let mut tools = OfferedTools(Vec::new());
    each_tool(&mut tools);
    tools.0
}

/// Every built-in tool that is offered only where configuration names it, with default settings,
/// sorted by name.
pub fn optional() -> Vec<Arc<dyn ErasedTool>> {
    let mut tools = OfferedTools(Vec::new());
    each_optional_tool(&mut tools);
    tools.0
}

/// Collects the tools offered to models.
struct OfferedTools(Vec<Arc<dyn ErasedTool>>);

impl EachTool for OfferedTools {
    fn tool<T, C>(&mut self, make: fn(C) -> T)
    where
        T: Tool,
        C: Default + DeserializeOwned + Send + 'static,
    {
        // Names are constants; the snapshot test fails if one is refused and so left out.
        self.0.extend(erase(make(C::default())));
    }
}

/// The tool that undoes calls. It is for people and is not offered to models.
pub fn undo_tool() -> Option<Arc<dyn ErasedTool>> {
    erase(UndoTool).ok()
}
