//! From a name a model wrote to a registered tool.

use std::sync::Arc;

use haft_contract::{Arguments, CallEvent, ErrorKind, ToolError, erased::WithheldUntil};

use super::{
    CallState, HaltedCall,
    foreign::{self, Translation},
};
use crate::registry::{Entry, Snapshot};

/// The longest tool name repeated in an error.
const MAX_SHOWN_CHARS: usize = 64;

/// A call that was accepted.
pub struct OpenedCall {
    pub(crate) call: Box<CallState>,
    /// The registry at the time the call arrived.
    pub(crate) tools: Arc<Snapshot>,
    /// The name as the model wrote it.
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
}

/// A call whose tool is known.
pub struct ResolvedCall {
    pub(super) call: Box<CallState>,
    pub(super) entry: Arc<Entry>,
    pub(super) arguments: Arguments,
    /// How often hooks have rewritten the input.
    pub(super) rewrites: u8,
}

/// Finds the tool, by name, by alias, or as a call of another system's tool.
pub fn resolve(opened: OpenedCall) -> Result<ResolvedCall, HaltedCall> {
    let OpenedCall {
        mut call,
        tools,
        name,
        mut arguments,
    } = opened;
    let known = match tools.get(&name) {
        Some(entry) => Some(Translation { entry, set: None }),
        None => match foreign::translate(tools.foreign(&name), &name, &mut arguments) {
            Ok(translation) => translation,
            Err(error) => return Err(call.halt(error)),
        },
    };
    let Some(Translation { entry, set }) = known else {
        return Err(unknown_tool(call, &tools, &name));
    };
    call.tool = Some(entry.key().clone());
    call.recording.note(CallEvent::Resolved {
        tool: entry.key().clone(),
    });
    if entry.key().tool.as_str() != name {
        call.facts
            .coercions
            .push(format!("`{name}` is an alias of `{}`", entry.key().tool));
    }
    if let Some((parameter, value)) = set {
        let change = format!("`{name}` means the {parameter} `{value}`");
        call.facts.coercions.push(change);
    }
    if !entry.is_of_tenant_of(&call.principal) {
        let message = format!("the tool `{}` is another tenant's", entry.key().tool);
        let error = ToolError::new(ErrorKind::Denied, message);
        return Err(call.halt(error.hint("list the tools to see those of your own")));
    }
    if let Some(withheld) = entry.withheld() {
        let state = match withheld.until {
            WithheldUntil::Accepted => "withheld",
            WithheldUntil::Ready | WithheldUntil::TierAvailable => "not ready",
        };
        let message = format!(
            "the tool `{}` is {state}: {}",
            entry.key().tool,
            withheld.reason
        );
        let error = ToolError::new(withheld.until.refusal(), message).hint(&withheld.hint);
        return Err(call.halt(error));
    }
    if let Some(reason) = entry.quarantine() {
        let message = format!("the tool `{}` is quarantined: {reason}", entry.key().tool);
        return Err(call.halt(ToolError::new(ErrorKind::Unavailable, message)));
    }
    let entry = Arc::clone(entry);
    Ok(ResolvedCall {
        call,
        entry,
        arguments,
        rewrites: 0,
    })
}

fn unknown_tool(call: Box<CallState>, tools: &Snapshot, name: &str) -> HaltedCall {
    let shown: String = name
        .chars()
        .take(MAX_SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect();
    // A tool this principal may not see is not suggested either.
    let visible = |name: &&str| {
        let entry = tools.get(name);
        entry.is_some_and(|entry| call.rules.shows(&call.principal, entry))
    };
    let near: Vec<String> = tools
        .nearest(name)
        .into_iter()
        .filter(visible)
        .map(|near| format!("`{near}`"))
        .collect();
    let hint = if near.is_empty() {
        "list the tools to see their names".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    let error = ToolError::new(
        ErrorKind::UnknownTool,
        format!("there is no tool `{shown}`"),
    );
    call.halt(error.hint(hint))
}
