//! `todo`: the list of things to do that an agent keeps for its session.
//!
//! Setting the list stores nothing but the call itself: the record is the list. So it changes
//! nothing, asks nobody, and cannot disagree with what happened.

use haft_contract::{
    CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    spec::ParameterAlias,
    todo::{MAX_TODO_ITEMS, MAX_TODO_TEXT_BYTES, TodoItem, TodoStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{foreign, text::display::one_line};

const DESCRIPTION: &str = "\
Keeps this session's list of things to do, which people see too.
Use it for work of several steps, not for a single one: give all `items` again when one changes. \
Without `items` it shows the list.";

/// The `todo` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct TodoTool;

/// What `todo` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoInput {
    /// The whole list, in order. It replaces the one before; an empty list clears it.
    #[serde(default)]
    pub items: Option<Vec<TodoEntry>>,
}

/// One thing to do.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct TodoEntry {
    /// The step, in a line.
    pub text: String,
    /// How far it is.
    #[serde(default)]
    pub status: EntryStatus,
}

/// How far a thing to do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[expect(
    missing_docs,
    reason = "the words say it, and models read every description"
)]
pub enum EntryStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

/// What `todo` returns in addition to the text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TodoOutput {
    /// The list as it is now.
    pub items: Vec<TodoEntry>,
    /// How many of them are left to do.
    pub open: usize,
    /// What the model reads. Not repeated in the structured output.
    #[serde(skip)]
    text: String,
}

impl Tool for TodoTool {
    type Input = TodoInput;
    type Output = TodoOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "todo";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Keep a list of things to do", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["session"])
            .aliases(&[
                "TodoWrite",
                "TodoRead",
                "todo_write",
                "write_todos",
                "update_plan",
            ])
            .parameter_aliases(&[
                ParameterAlias::new("todos", "items"),
                ParameterAlias::new("plan", "items"),
                ParameterAlias::new("tasks", "items"),
                ParameterAlias::new("content", "text").within("items"),
                ParameterAlias::new("step", "text").within("items"),
                ParameterAlias::new("task", "text").within("items"),
                ParameterAlias::new("title", "text").within("items"),
                ParameterAlias::new("description", "text").within("items"),
            ])
            .reshape(other_agents_items)
    }

    fn plan(&self, input: &TodoInput, _: &PlanContext) -> Result<Plan, ToolError> {
        check(input.items.as_deref().unwrap_or_default())?;
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: TodoInput,
        cx: CallContext<NoProgress>,
    ) -> Result<TodoOutput, ToolError> {
        let (items, text) = if let Some(items) = input.items {
            cx.todo().keep().await?;
            let text = match left(&items) {
                0 => "[the list is kept; nothing is left to do]".to_owned(),
                open => format!("[the list is kept; {open} of {} left to do]", items.len()),
            };
            (items, text)
        } else {
            let list = cx.todo().list().await?;
            let items: Vec<TodoEntry> = list.into_iter().map(TodoEntry::from).collect();
            let text = shown(&items);
            (items, text)
        };
        Ok(TodoOutput {
            open: left(&items),
            items,
            text,
        })
    }

    fn render(&self, output: &TodoOutput) -> Vec<Content> {
        vec![Content::text(output.text.clone())]
    }
}

fn check(items: &[TodoEntry]) -> Result<(), ToolError> {
    if items.len() > MAX_TODO_ITEMS {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!(
                "the list has {} items; at most {MAX_TODO_ITEMS} are kept",
                items.len()
            ),
        )
        .at("/items")
        .hint("leave out what is done, or put several steps into one"));
    }
    for (index, item) in items.iter().enumerate() {
        let at = format!("/items/{index}/text");
        if item.text.trim().is_empty() {
            return Err(ToolError::invalid_input("the item says nothing")
                .at(at)
                .hint("name the step, or leave the item out"));
        }
        if item.text.len() > MAX_TODO_TEXT_BYTES {
            return Err(ToolError::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the item has {} bytes; at most {MAX_TODO_TEXT_BYTES} are kept",
                    item.text.len()
                ),
            )
            .at(at)
            .hint("say it in a line"));
        }
    }
    Ok(())
}

fn left(items: &[TodoEntry]) -> usize {
    let open = items
        .iter()
        .filter(|item| TodoStatus::from(item.status).is_open());
    open.count()
}

fn shown(items: &[TodoEntry]) -> String {
    if items.is_empty() {
        return "[the list is empty]".to_owned();
    }
    let lines: Vec<String> = items
        .iter()
        .map(|item| {
            let mark = TodoStatus::from(item.status).mark();
            format!("{mark} {}", one_line(&item.text))
        })
        .collect();
    lines.join("\n")
}

/// Accepts the items of other agents' tools: a bare string, other words for a status, and details that
/// no list here has.
fn other_agents_items(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    const DETAILS: [&str; 4] = ["activeForm", "active_form", "id", "priority"];
    const STATUSES: [(&str, &str); 6] = [
        ("done", "completed"),
        ("complete", "completed"),
        ("todo", "pending"),
        ("not_started", "pending"),
        ("in-progress", "in_progress"),
        ("canceled", "cancelled"),
    ];
    let mut notes = Vec::new();
    foreign::refuse_unless(
        input,
        "merge",
        &[],
        "give the whole list again; it replaces the one before",
    )?;
    foreign::leave_out(
        input,
        &[("explanation", "a list has no text beside its items")],
        &mut notes,
    );
    let items = input.get_mut("items").and_then(Value::as_array_mut);
    for (index, item) in items.into_iter().flatten().enumerate() {
        if let Value::String(text) = item {
            let text = std::mem::take(text);
            *item = Value::Object(Map::from_iter([("text".to_owned(), Value::String(text))]));
            notes.push(format!("`/items/{index}` was only a text"));
        }
        let Value::Object(item) = item else { continue };
        for detail in DETAILS {
            if item.remove(detail).is_some() {
                notes.push(format!(
                    "`/items/{index}/{detail}` is left out: an item is its text and its status"
                ));
            }
        }
        let status = item.get_mut("status");
        if let Some(Value::String(word)) = status
            && let Some((theirs, ours)) = STATUSES.into_iter().find(|(theirs, _)| word == theirs)
        {
            ours.clone_into(word);
            notes.push(format!("`{theirs}` became `{ours}`"));
        }
    }
    Ok(notes)
}

impl From<EntryStatus> for TodoStatus {
    fn from(status: EntryStatus) -> Self {
        match status {
            EntryStatus::Pending => Self::Pending,
            EntryStatus::InProgress => Self::InProgress,
            EntryStatus::Completed => Self::Completed,
            EntryStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<TodoItem> for TodoEntry {
    fn from(item: TodoItem) -> Self {
        Self {
            text: item.text,
            status: match item.status {
                TodoStatus::Pending => EntryStatus::Pending,
                TodoStatus::InProgress => EntryStatus::InProgress,
                TodoStatus::Completed => EntryStatus::Completed,
                TodoStatus::Cancelled => EntryStatus::Cancelled,
            },
        }
    }
}
