//! `action:rollout` in a rule: the calls of a tool that plan this action. Not a pattern of an access
//! but a condition on the call, so it holds for the tool and for everything the call touches.

use haft_contract::ActionName;

use crate::{pattern::PatternError, text_pattern::TextPattern};

/// What is before the name of an action.
const ACTION: &str = "action:";

/// The actions that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActionPattern {
    /// As written, with `action:`.
    pub(crate) text: String,
    name: TextPattern,
}

impl ActionPattern {
    /// The pattern, if a rule's parentheses hold one of this kind.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, PatternError>> {
        let name = text.strip_prefix(ACTION)?;
        Some(match name {
            "" => Err(PatternError::Empty),
            _ if name.contains(char::is_whitespace) => Err(PatternError::Whitespace),
            _ => Ok(Self {
                text: text.to_owned(),
                name: TextPattern::parse(name),
            }),
        })
    }

    /// Whether it is about this action.
    pub(crate) fn matches(&self, action: &ActionName) -> bool {
        self.name.matches(action.as_str())
    }

    /// Whether it is about an action of this name.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        self.name.matches(name)
    }

    /// The name, without `action:`.
    pub(crate) fn name(&self) -> &str {
        self.text.strip_prefix(ACTION).unwrap_or(&self.text)
    }

    /// The Cedar condition. A call without an action meets none.
    pub(crate) fn condition(&self, literal: impl Fn(&str) -> String) -> String {
        let test = match &self.name {
            TextPattern::Literal(name) => format!("context.tool_action == {}", literal(name)),
            TextPattern::Wild(pieces) => {
                // A star in a piece is one that was written as `\*`, which is Cedar's escape too.
                let pieces: Vec<String> = pieces
                    .iter()
                    .map(|piece| piece.escape_debug().to_string().replace('*', "\\*"))
                    .collect();
                format!("context.tool_action like \"{}\"", pieces.join("*"))
            }
        };
        format!("context has tool_action && {test}")
    }
}
