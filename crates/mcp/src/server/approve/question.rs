//! Turns a plan into a form that the client's person answers with one key, and reads the client's
//! response as an answer or none.
//!
//! `accept` allows the call once, `decline` denies it, anything else is no answer. No field is
//! required. One optional field offers what may be allowed from now on; its default is *once*.
//!
//! Clients render the message as they like, and some cut it. A message long enough to be cut by its
//! client ([`Window`]) therefore cannot be allowed through it: the form has no fields and says so,
//! and accepting it leaves the question open.

use haft_contract::{displayed::most_columns, host::GrantRequest};
use serde_json::{Map, Value, json};

use crate::client::{Question, QuestionKind};

/// The longest message shown to a person through a client. Longer ones are answered where Haft
/// renders them itself.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// The most lines of such a message.
pub(super) const MAX_MESSAGE_LINES: usize = 200;

/// How much of a message a client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many lines.
    pub lines: usize,
    /// How many columns of each line; `None` if lines wrap.
    pub columns: Option<usize>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            lines: MAX_MESSAGE_LINES,
            columns: None,
        }
    }
}

impl Window {
    /// What a client of this name and version shows. An unknown client is assumed to show
    /// everything.
    pub fn of(client: Option<&str>, version: Option<&str>) -> Self {
        match client {
            Some("claude-code") if !shows_all(version) => Self {
                lines: CLAUDE_LINES,
                columns: Some(CLAUDE_COLUMNS),
            },
            Some(_) | None => Self::default(),
        }
    }

    pub(super) fn holds(self, text: &str) -> bool {
        let fits = |line: &str| {
            let columns: usize = line.chars().map(most_columns).sum();
            self.columns.is_none_or(|most| columns <= most)
        };
        text.len() <= MAX_MESSAGE_BYTES
            && text.lines().count() <= self.lines
            && text.lines().all(fits)
    }
}

/// What Claude Code shows of a message: if it has more than four lines, only the first three. Each
/// is cut at the width of the terminal, assumed to be 80 (seen in 2.1.325).
const CLAUDE_LINES: usize = 4;
const CLAUDE_COLUMNS: usize = 70;

/// The last version of Claude Code known to show every line.
const CLAUDE_SHOWS_ALL: [u32; 3] = [2, 1, 197];

fn shows_all(version: Option<&str>) -> bool {
    let parts = version.unwrap_or_default().split('.');
    let parts: Result<Vec<u32>, _> = parts.map(str::parse).collect();
    parts.is_ok_and(|parts| parts.as_slice() <= CLAUDE_SHOWS_ALL.as_slice())
}

/// The only field of the form.
const FIELD: &str = "remember";

/// The value of that field that remembers nothing.
const ONCE: &str = "once";

const DESCRIPTION: &str = "Whether calls like this one are allowed from now on without asking. \
                           `haft grants` lists what is allowed and takes it back.";

/// Shown instead of a message that is too long. It fits every client's window.
const NOT_HERE: &str = "This call CANNOT BE ALLOWED HERE: it is too long to be shown.\n\
                        Read and answer it in a terminal: `haft approvals --watch`.\n\
                        Accept allows nothing and leaves it open. Decline denies it.";

/// A question as shown to the person at a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionText {
    /// Everything a person needs to judge the call, escaped.
    pub text: String,
    /// What they may allow from now on in addition to this call, narrowest first.
    pub choices: Vec<GrantChoice>,
}

/// Something a person may allow from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantChoice {
    /// What it allows and where, escaped, on one line.
    pub words: String,
    /// The grant to keep if it is chosen.
    pub grant: GrantRequest,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PersonAnswer {
    /// Yes to what was shown, plus what they allow from now on, if anything.
    Allow(Option<GrantRequest>),
    /// No.
    Deny,
    /// No valid answer: dismissed, or not what was asked for.
    Nothing,
}

/// A question in the form sent to a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Form {
    question: Question,
    accept: Accept,
}

/// What accepting a form means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Accept {
    /// The call is allowed, together with the chosen one of these.
    Allows(Vec<GrantChoice>),
    /// Nothing: the question is answered elsewhere.
    Nothing,
}

impl Form {
    /// The form for a question at a client with this window.
    pub(super) fn new(question: QuestionText, window: Window) -> Self {
        let QuestionText { text, mut choices } = question;
        if !window.holds(&text) {
            return Self {
                question: elicit(NOT_HERE, Map::new(), &[]),
                accept: Accept::Nothing,
            };
        }
        // Two choices with the same words would be indistinguishable.
        let mut taken = vec![ONCE.to_owned()];
        choices.retain(|choice| {
            let is_new = !taken.contains(&choice.words);
            taken.push(choice.words.clone());
            is_new
        });
        Self {
            question: elicit(&text, fields(&choices), &[]),
            accept: Accept::Allows(choices),
        }
    }

    /// The request that shows it to a person.
    pub(super) fn question(&self) -> Question {
        self.question.clone()
    }

    /// Reads an answer. Content that was not offered is no answer, whatever the action.
    pub(super) fn read(&self, answer: &Value) -> PersonAnswer {
        match answer.get("action").and_then(Value::as_str) {
            Some("decline") => PersonAnswer::Deny,
            Some("accept") => match &self.accept {
                Accept::Allows(choices) => accepted(choices, answer.get("content")),
                Accept::Nothing => PersonAnswer::Nothing,
            },
            Some(_) | None => PersonAnswer::Nothing,
        }
    }
}

pub(super) fn elicit(message: &str, properties: Map<String, Value>, required: &[&str]) -> Question {
    let mut schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
    ]);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Question {
        key: String::new(),
        kind: QuestionKind::Elicit,
        parameters: json!({
            "mode": "form",
            "message": message,
            "requestedSchema": schema,
        }),
    }
}

/// The fields of a form: none if nothing can be remembered, so that there is nothing to skip.
fn fields(choices: &[GrantChoice]) -> Map<String, Value> {
    if choices.is_empty() {
        return Map::new();
    }
    let words = choices.iter().map(|choice| choice.words.as_str());
    let values: Vec<&str> = std::iter::once(ONCE).chain(words).collect();
    let field = json!({
        "type": "string",
        "title": "Remember",
        "description": DESCRIPTION,
        "enum": values,
        "default": ONCE,
    });
    Map::from_iter([(FIELD.to_owned(), field)])
}

fn accepted(choices: &[GrantChoice], content: Option<&Value>) -> PersonAnswer {
    let content = match content {
        None | Some(Value::Null) => return PersonAnswer::Allow(None),
        Some(Value::Object(content)) => content,
        Some(_) => return PersonAnswer::Nothing,
    };
    // A field that was not asked for may belong to another form, such as a `deny`.
    if content.keys().any(|name| name != FIELD) {
        return PersonAnswer::Nothing;
    }
    match content.get(FIELD).map(Value::as_str) {
        None | Some(Some(ONCE)) => PersonAnswer::Allow(None),
        Some(Some(words)) => choices
            .iter()
            .find(|choice| choice.words == words)
            .map_or(PersonAnswer::Nothing, |choice| {
                PersonAnswer::Allow(Some(choice.grant.clone()))
            }),
        Some(None) => PersonAnswer::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{SessionId, host::GrantScope};

    use super::*;

    fn choice(words: &str) -> GrantChoice {
        GrantChoice {
            words: words.to_owned(),
            grant: GrantRequest {
                rules: vec![words.to_owned()],
                scope: GrantScope::Session(SessionId::parse("s").unwrap()),
                until: None,
                uses: None,
            },
        }
    }

    fn form(words: &[&str]) -> Form {
        let question = QuestionText {
            text: "run ls\n".to_owned(),
            choices: words.iter().map(|words| choice(words)).collect(),
        };
        Form::new(question, Window::default())
    }

    fn schema(form: &Form) -> Value {
        form.question().parameters["requestedSchema"].clone()
    }

    #[test]
    fn nothing_is_required_and_the_default_remembers_nothing() {
        let schema = schema(&form(&["bash(ls)"]));
        assert!(schema.get("required").is_none(), "{schema}");
        let field = &schema["properties"]["remember"];
        assert_eq!(field["enum"], json!(["once", "bash(ls)"]));
        assert_eq!(field["default"], "once");
    }

    #[test]
    fn a_form_that_can_remember_nothing_has_no_field() {
        let schema = schema(&form(&[]));
        assert_eq!(schema["properties"], json!({}));
    }

    #[test]
    fn accept_allows_once_and_what_was_not_offered_is_no_answer() {
        let form = form(&["bash(ls)", "bash(ls *)"]);
        let accept = |content: Value| json!({"action": "accept", "content": content});
        for (answer, said) in [
            (json!({"action": "accept"}), PersonAnswer::Allow(None)),
            (accept(Value::Null), PersonAnswer::Allow(None)),
            (accept(json!({})), PersonAnswer::Allow(None)),
            (
                accept(json!({"remember": "once"})),
                PersonAnswer::Allow(None),
            ),
            (
                accept(json!({"remember": "bash(ls)"})),
                PersonAnswer::Allow(Some(choice("bash(ls)").grant)),
            ),
            (json!({"action": "decline"}), PersonAnswer::Deny),
            (
                json!({"action": "decline", "content": {"remember": "bash(ls)"}}),
                PersonAnswer::Deny,
            ),
            (json!({"action": "cancel"}), PersonAnswer::Nothing),
            (json!({"action": "ACCEPT"}), PersonAnswer::Nothing),
            (json!({"action": true}), PersonAnswer::Nothing),
            (json!({}), PersonAnswer::Nothing),
            (json!("accept"), PersonAnswer::Nothing),
            (
                accept(json!({"remember": "bash(*)"})),
                PersonAnswer::Nothing,
            ),
            (accept(json!({"remember": "ONCE"})), PersonAnswer::Nothing),
            (accept(json!({"remember": null})), PersonAnswer::Nothing),
            (accept(json!({"remember": ["once"]})), PersonAnswer::Nothing),
            (accept(json!({"remember": true})), PersonAnswer::Nothing),
            (accept(json!({"answer": "deny"})), PersonAnswer::Nothing),
            (
                accept(json!({"remember": "once", "answer": "deny"})),
                PersonAnswer::Nothing,
            ),
            (accept(json!("once")), PersonAnswer::Nothing),
            (accept(json!([])), PersonAnswer::Nothing),
        ] {
            assert_eq!(form.read(&answer), said, "{answer}");
        }
    }

    #[test]
    fn a_choice_cannot_pass_for_once_or_for_another() {
        let form = form(&["once", "bash(ls)", "bash(ls)"]);
        let values = &schema(&form)["properties"]["remember"]["enum"];
        assert_eq!(*values, json!(["once", "bash(ls)"]));
        let once = json!({"action": "accept", "content": {"remember": "once"}});
        assert_eq!(form.read(&once), PersonAnswer::Allow(None));
    }

    #[test]
    fn ap_08_what_is_too_long_to_show_is_allowed_by_no_answer() {
        let claude = Window::of(Some("claude-code"), Some("2.1.325"));
        for (text, window) in [
            ("x".repeat(MAX_MESSAGE_BYTES + 1), Window::default()),
            ("x\n".repeat(MAX_MESSAGE_LINES + 1), Window::default()),
            ("x\n".repeat(CLAUDE_LINES + 1), claude),
            ("x".repeat(CLAUDE_COLUMNS + 1), claude),
            ("漢".repeat(CLAUDE_COLUMNS / 2 + 1), claude),
        ] {
            let question = QuestionText {
                text,
                choices: vec![choice("bash(ls)")],
            };
            let form = Form::new(question, window);
            assert_eq!(schema(&form)["properties"], json!({}));
            let message = form.question().parameters["message"].clone();
            assert!(message.as_str().unwrap().contains("CANNOT BE ALLOWED HERE"));
            for content in [json!({}), json!({"remember": "once"}), Value::Null] {
                let accept = json!({"action": "accept", "content": content});
                assert_eq!(form.read(&accept), PersonAnswer::Nothing, "{accept}");
            }
            assert_eq!(form.read(&json!({"action": "decline"})), PersonAnswer::Deny);
        }
    }

    #[test]
    fn ap_08_a_client_that_cuts_messages_is_known_by_name_and_version() {
        for (client, version, lines) in [
            (Some("claude-code"), Some("2.1.325"), CLAUDE_LINES),
            (Some("claude-code"), Some("2.1.198"), CLAUDE_LINES),
            (Some("claude-code"), Some("2.1.198-beta"), CLAUDE_LINES),
            (Some("claude-code"), None, CLAUDE_LINES),
            (Some("claude-code"), Some("2.1.197"), MAX_MESSAGE_LINES),
            (Some("claude-code"), Some("2.0.300"), MAX_MESSAGE_LINES),
            (Some("codex"), Some("0.166.0"), MAX_MESSAGE_LINES),
            (None, None, MAX_MESSAGE_LINES),
        ] {
            assert_eq!(Window::of(client, version).lines, lines, "{version:?}");
        }
        let claude = Window::of(Some("claude-code"), None);
        assert!(claude.holds(NOT_HERE));
        assert!(claude.holds(&format!("{}\n", "x".repeat(CLAUDE_COLUMNS)).repeat(CLAUDE_LINES)));
    }
}
