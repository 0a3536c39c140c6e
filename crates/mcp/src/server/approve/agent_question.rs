//! An agent's question as a form at the client. It shares no field, no value and no sentence with the form
//! of an approval: what a client sends back for the one is no answer to the other.
//!
//! `accept` with words is an answer, `decline` that there is none; anything else leaves the question open
//! for others.

use haft_contract::{agent_question::AgentQuestion, host::GivenReply};
use serde_json::{Map, Value, json};

use super::question::{Window, elicit};
use crate::client::Question;

/// The field with one of the offered answers.
const CHOICE: &str = "choice";

/// The field with words of the person's own.
const WORDS: &str = "words";

/// Shown instead of a question that is too long for its client.
const NOT_HERE: &str = "The agent asks you a question that is too long to be shown here.\n\
                        Read and answer it in a terminal: `haft answer`.\n\
                        An answer is only text; it allows nothing.";

/// A question in the form sent to a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuestionForm<'a> {
    asked: &'a AgentQuestion,
    message: String,
    /// Whether the client shows all of it.
    fits: bool,
}

impl<'a> QuestionForm<'a> {
    /// The form for a question of an agent at a client with this window.
    pub(super) fn new(asked: &'a AgentQuestion, agent: &str, window: Window) -> Self {
        // What is offered is in the form's field.
        let message = asked.lines_without_options(agent).join("\n");
        let fits = window.holds(&message);
        Self {
            asked,
            message: if fits { message } else { NOT_HERE.to_owned() },
            fits,
        }
    }

    /// The request that shows it to a person.
    pub(super) fn question(&self) -> Question {
        let required: &[&str] = match (self.fits, self.asked.options(), self.asked.allows_other()) {
            (true, [], _) => &[WORDS],
            (true, _, false) => &[CHOICE],
            (true, _, true) | (false, _, _) => &[],
        };
        elicit(&self.message, self.fields(), required)
    }

    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if !self.fits {
            return fields;
        }
        if !self.asked.options().is_empty() {
            let choice = json!({"type": "string", "title": "Answer", "enum": self.asked.options()});
            fields.insert(CHOICE.to_owned(), choice);
        }
        if self.asked.allows_other() {
            let title = if fields.is_empty() {
                "Answer"
            } else {
                "Or in your own words"
            };
            fields.insert(WORDS.to_owned(), json!({"type": "string", "title": title}));
        }
        fields
    }

    /// Reads an answer. Content that was not asked for is no answer, whatever the action.
    pub(super) fn read(&self, answer: &Value) -> Option<GivenReply> {
        match answer.get("action").and_then(Value::as_str) {
            Some("decline") => Some(GivenReply::Decline),
            Some("accept") if self.fits => self.accepted(answer.get("content")?.as_object()?),
            Some(_) | None => None,
        }
    }

    fn accepted(&self, content: &Map<String, Value>) -> Option<GivenReply> {
        let fields = self.fields();
        let mut said = None;
        for (name, value) in content {
            let text = value.as_str()?;
            if !fields.contains_key(name) {
                return None;
            }
            // Some clients send every field. Words of one's own say more than a choice.
            if !text.trim().is_empty() && (name == WORDS || said.is_none()) {
                said = Some((name, text));
            }
        }
        let (name, text) = said?;
        if name == CHOICE && self.asked.chosen(text).is_none() {
            return None;
        }
        self.asked.meant(text).map(GivenReply::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, options: &[&str], other: Option<bool>) -> AgentQuestion {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        AgentQuestion::new(text, &options, other).unwrap()
    }

    fn words(text: &str) -> GivenReply {
        GivenReply::Text(text.to_owned())
    }

    #[test]
    fn an_answer_is_words_and_what_was_not_asked_for_is_none() {
        let asked = asked("Which?", &["Red", "Blue"], Some(true));
        let form = QuestionForm::new(&asked, "code", Window::default());
        let accept = |content: Value| json!({"action": "accept", "content": content});
        for (answer, expect) in [
            (accept(json!({"choice": "Blue"})), Some(words("Blue"))),
            (accept(json!({"words": "green"})), Some(words("green"))),
            (
                accept(json!({"choice": "Red", "words": "green"})),
                Some(words("green")),
            ),
            (
                accept(json!({"words": "", "choice": "Red"})),
                Some(words("Red")),
            ),
            (accept(json!({"choice": "green"})), None),
            (accept(json!({})), None),
            (accept(Value::Null), None),
            (json!({"action": "accept"}), None),
            (accept(json!({"remember": "once"})), None),
            (accept(json!({"choice": "Red", "remember": "once"})), None),
            (accept(json!({"choice": true})), None),
            (json!({"action": "decline"}), Some(GivenReply::Decline)),
            (json!({"action": "cancel"}), None),
            (json!({}), None),
        ] {
            assert_eq!(form.read(&answer), expect, "{answer}");
        }
    }

    #[test]
    fn a_form_says_that_it_allows_nothing_and_has_fields_of_its_own() {
        let plain = asked("Which?", &[], None);
        let parameters = QuestionForm::new(&plain, "code", Window::default())
            .question()
            .parameters;
        let message = parameters["message"].as_str().unwrap();
        assert!(message.contains("it allows nothing"), "{message}");
        assert!(message.contains("  │ Which?"), "{message}");
        assert_eq!(parameters["requestedSchema"]["required"], json!(["words"]));
        let strict = asked("Which?", &["a", "b"], None);
        let parameters = QuestionForm::new(&strict, "code", Window::default())
            .question()
            .parameters;
        let schema = &parameters["requestedSchema"];
        assert_eq!(schema["properties"]["choice"]["enum"], json!(["a", "b"]));
        assert!(schema["properties"].get("words").is_none());
        assert!(schema["properties"].get("remember").is_none());
    }

    #[test]
    fn what_a_client_would_cut_is_answered_elsewhere() {
        let claude = Window::of(Some("claude-code"), None);
        let long = asked("a\nb\nc\nd", &[], None);
        let form = QuestionForm::new(&long, "code", claude);
        let parameters = form.question().parameters;
        assert_eq!(parameters["requestedSchema"]["properties"], json!({}));
        assert!(
            parameters["message"]
                .as_str()
                .unwrap()
                .contains("`haft answer`")
        );
        let accept = json!({"action": "accept", "content": {"words": "x"}});
        assert_eq!(form.read(&accept), None);
    }
}
