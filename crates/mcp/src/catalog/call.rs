//! `call_tool_read`, `call_tool_write`, `call_tool_destructive`: how a model calls a tool that is
//! not listed.
//!
//! They never run. The endpoint rewrites a call to one of them into a call to the tool it names. A
//! call that cannot be rewritten keeps its name and takes the normal path of a call, where it is
//! refused with a reason and recorded.

use haft_contract::{
    BoxFuture, CallContext, ErrorKind, NoProgress, Plan, PlanContext, Tool as _, ToolError,
    ToolName, ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    name::NameError,
};
use haft_runtime::registry::{Entry, Snapshot};
use serde_json::{Map, Value, json};

use super::{EffectClass, FindTools, shown_tools::ShownTools};

const TOOL: &str = "tool";
const ARGUMENTS: &str = "arguments";

/// Unwraps a call into the tool it names and that tool's arguments, if the name is one of these
/// three, both it and the tool are shown, and the tool has its class. Anything else is returned
/// unchanged for the runtime to refuse. Unwraps one layer only.
pub fn unwrap(
    tools: &Snapshot,
    is_shown: impl Fn(&Entry) -> bool,
    tool: String,
    arguments: Value,
) -> (String, Value) {
    let inner = EffectClass::of_call_tool(&tool)
        .filter(|_| tools.get(&tool).is_some_and(|entry| is_shown(entry)))
        .zip(arguments.as_object())
        .and_then(|(class, wrapped)| inner_call(tools, is_shown, class, wrapped));
    inner.unwrap_or((tool, arguments))
}

fn inner_call(
    tools: &Snapshot,
    is_shown: impl Fn(&Entry) -> bool,
    class: EffectClass,
    wrapped: &Map<String, Value>,
) -> Option<(String, Value)> {
    if wrapped.keys().any(|key| key != TOOL && key != ARGUMENTS) {
        return None;
    }
    let name = wrapped.get(TOOL)?.as_str()?;
    find(tools, is_shown, class, name).ok()?;
    let arguments = wrapped.get(ARGUMENTS).cloned();
    Some((name.to_owned(), arguments.unwrap_or_else(|| json!({}))))
}

enum CannotCall {
    /// No tool has that name, as far as this principal may know.
    Unknown,
    /// It has another class.
    OtherClass(EffectClass),
}

fn find(
    tools: &Snapshot,
    is_shown: impl Fn(&Entry) -> bool,
    class: EffectClass,
    name: &str,
) -> Result<(), CannotCall> {
    let entry = tools.get(name).filter(|entry| is_shown(entry));
    let found = EffectClass::of(entry.ok_or(CannotCall::Unknown)?.spec().effects);
    if found == class {
        Ok(())
    } else {
        Err(CannotCall::OtherClass(found))
    }
}

/// One of the three tools that call tools which are not listed.
pub struct CallTool {
    name: ToolName,
    class: EffectClass,
    shown: ShownTools,
}

impl CallTool {
    pub(super) fn new(class: EffectClass, shown: ShownTools) -> Result<Self, NameError> {
        Ok(Self {
            name: ToolName::parse(class.call_tool())?,
            class,
            shown,
        })
    }

    /// Why a call arrived here instead of at the tool it names.
    fn refusal(&self, input: &Value, cx: &PlanContext) -> Result<ToolError, ToolError> {
        let name = input.get(TOOL).and_then(Value::as_str).unwrap_or_default();
        let tools = self.shown.snapshot()?;
        let is_shown = |entry: &Entry| self.shown.shows(&cx.principal, entry);
        let error = match find(&tools, is_shown, self.class, name) {
            Err(CannotCall::Unknown) => {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                let visible = |near: &&str| tools.get(near).is_some_and(|entry| is_shown(entry));
                let hint = match tools.nearest(name).into_iter().find(visible) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("look for it with `{}`", FindTools::NAME),
                };
                ToolError::new(
                    ErrorKind::UnknownTool,
                    format!("there is no tool `{shown}`"),
                )
                .hint(hint)
            }
            Err(CannotCall::OtherClass(found)) => {
                let message = format!(
                    "`{name}` is in the class `{}`, which `{}` does not call",
                    found.as_str(),
                    self.name
                );
                ToolError::invalid_input(message)
                    .hint(format!("call it with `{}`", found.call_tool()))
            }
            Ok(()) => ToolError::invalid_input(format!(
                "`{}` takes the name of one tool and its arguments, and only at an MCP endpoint",
                self.name
            ))
            .hint(format!("call `{name}` itself")),
        };
        Ok(error.at("/tool"))
    }
}

impl ErasedTool for CallTool {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        let (does, otherwise) = match self.class {
            EffectClass::Read => ("only reads", "changes something"),
            EffectClass::Write => (
                "changes something but destroys nothing",
                "only reads, or may destroy something",
            ),
            EffectClass::Destructive => (
                "may remove or overwrite something",
                "only reads, or destroys nothing",
            ),
        };
        let description = format!(
            "Calls a tool that is not listed here and {does}: `{}` finds it, and says which \
             arguments it takes and that it is called with `{}`.\n\
             Give the tool's name as `tool` and its input as `arguments`. Not for a tool that \
             {otherwise}, and not for tools that are listed: call those themselves.",
            FindTools::NAME,
            self.name,
        );
        ToolSpec::new(
            format!("Call a tool ({})", self.class.as_str()),
            description,
        )
        .effects(self.class.effects())
        .groups(&["catalog"])
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                TOOL: {
                    "type": "string",
                    "description": "The tool's name, as `find_tools` gave it.",
                },
                ARGUMENTS: {
                    "type": "object",
                    "description": "Its input, as its schema says.",
                },
            },
            "required": [TOOL],
            "additionalProperties": false,
        })
    }

    fn output_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, input: &ParsedInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let input = input.get::<Value>().unwrap_or(&Value::Null);
        Err(self.refusal(input, cx)?)
    }

    fn run(
        &self,
        _: ParsedInput,
        _: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        // Nothing is ever planned, so this is never reached.
        let error = ToolError::new(
            ErrorKind::Internal,
            "this tool only forwards calls to other tools",
        );
        Box::pin(std::future::ready(Err(error)))
    }
}

impl std::fmt::Debug for CallTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CallTool").field(&self.class).finish()
    }
}
