//! The parameters of a call that were read under other names than the caller wrote. An error about
//! one speaks of what the caller wrote: a model finds no `timeout_ms` in a call with a `timeout`.

use haft_contract::{ErrorKind, ToolError};
use serde_json::Value;

/// What was renamed in one input.
#[derive(Debug, Default)]
pub(crate) struct RenamedParameters(Vec<RenamedParameter>);

/// One renamed parameter.
#[derive(Debug)]
pub(crate) struct RenamedParameter {
    /// The JSON pointer under which the tool has it.
    pub(super) read_as: String,
    /// The JSON pointer under which the caller wrote it.
    pub(super) written: String,
    /// The number the caller wrote, if it was in another unit.
    pub(super) scaled: Option<ScaledNumber>,
}

/// A number that was read in another unit than it was written in.
#[derive(Debug)]
pub(super) struct ScaledNumber {
    pub(super) written: Value,
    pub(super) scale: u32,
}

impl RenamedParameters {
    pub(super) fn push(&mut self, renamed: RenamedParameter) {
        self.0.push(renamed);
    }

    /// The renamed parameter that a pointer leads to or into.
    pub(super) fn at(&self, pointer: &str) -> Option<&RenamedParameter> {
        let mut exact = self.0.iter();
        exact.find(|renamed| rest(pointer, &renamed.read_as).is_some())
    }

    /// An error about the input in the names that the caller wrote.
    pub(crate) fn as_written(&self, mut error: ToolError) -> ToolError {
        let Some(pointer) = error.pointer() else {
            return error;
        };
        let Some(renamed) = self.at(pointer) else {
            return self.named(error, None);
        };
        let inside = rest(pointer, &renamed.read_as).unwrap_or_default();
        let written = format!("{}{inside}", renamed.written);
        let pointer = pointer.to_owned();
        error = self.named(error, Some(&pointer));
        error.at(written)
    }

    /// Replaces parameter names in the sentences of an error about the input. Other errors may
    /// quote files that are called like a parameter.
    fn named(&self, mut error: ToolError, pointer: Option<&str>) -> ToolError {
        if error.kind() != ErrorKind::InvalidInput || self.0.is_empty() {
            return error;
        }
        let pointer = pointer.or(error.pointer()).unwrap_or_default();
        let (mut message, mut hint) = (
            error.message().to_owned(),
            error.hint_text().map(str::to_owned),
        );
        let beside = self.0.iter().filter(|renamed| {
            let parent = renamed.read_as.rsplit_once('/');
            parent.is_some_and(|(parent, _)| pointer.starts_with(parent))
        });
        for renamed in beside {
            let (from, to) = (quoted(&renamed.read_as), quoted(&renamed.written));
            message = message.replace(&from, &to);
            hint = hint.map(|hint| hint.replace(&from, &to));
        }
        let (content, structured) = error.take_output();
        let mut named = ToolError::new(error.kind(), message);
        if let Some(pointer) = error.pointer() {
            named = named.at(pointer);
        }
        if let Some(hint) = hint {
            named = named.hint(hint);
        }
        if let Some(structured) = structured {
            named = named.with_structured(structured);
        }
        content.into_iter().fold(named, ToolError::with_content)
    }
}

impl RenamedParameter {
    /// The caller's name of the parameter.
    pub(super) fn name(&self) -> &str {
        last(&self.written)
    }
}

/// What of a pointer is beneath another.
fn rest<'p>(pointer: &'p str, above: &str) -> Option<&'p str> {
    let rest = pointer.strip_prefix(above)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn last(pointer: &str) -> &str {
    pointer.rsplit_once('/').map_or(pointer, |(_, last)| last)
}

fn quoted(pointer: &str) -> String {
    format!("`{}`", last(pointer))
}
