//! The list of built-in tools. A new tool is one file and one line here.

use std::sync::Arc;

use haft_contract::erased::{ErasedTool, erase};

use crate::{
    files::{
        copy::CopyTool, edit::EditTool, list::ListTool, patch::PatchTool, read::ReadTool,
        write::WriteTool,
    },
    output::read_output::ReadOutputTool,
    process::{bash::BashTool, processes::ProcessTool},
    search::{find::FindTool, grep::GrepTool},
    undo::UndoTool,
};

/// Every built-in tool, sorted by name.
pub fn builtins() -> Vec<Arc<dyn ErasedTool>> {
    [
        erase(BashTool::default()),
        erase(CopyTool),
        erase(EditTool),
        erase(FindTool),
        erase(GrepTool),
        erase(ListTool),
        erase(PatchTool),
        erase(ProcessTool),
        erase(ReadTool),
        erase(ReadOutputTool),
        erase(WriteTool),
    ]
    .into_iter()
    // Names are constants; the snapshot test fails if one were refused and so left out.
    .flatten()
    .collect()
}

/// The tool that takes calls back. For people: it is not among what models are offered.
pub fn undo_tool() -> Option<Arc<dyn ErasedTool>> {
    erase(UndoTool).ok()
}
