//! The unanswered questions of a call. Each key is used once per call, so that an answer finds its
//! question whichever request brings it, and a mounted server's key never collides with one of
//! Haft's.

use std::{
    collections::BTreeSet,
    task::{Context, Poll},
};

use haft_contract::host::Timestamp;
use serde_json::Value;

use super::for_person::ForPerson;
use crate::{
    client::{AskError, Question, QuestionKind},
    server::line::LineQuestion,
    web_page,
};

/// The most questions a mounted server asks at once.
const MAX_QUESTIONS: usize = 16;

/// How often a mounted server may ask within one call. Clients give up after ten rounds; one is
/// left for an approval.
pub(super) const MAX_ROUNDS: usize = 8;

/// The prefix of keys of Haft's own questions.
const OURS: &str = "haft:";

/// The prefix for a mounted server's key that cannot be used unchanged.
const THEIRS: &str = "mounted:";

/// The protocol's error code for questions that must not be asked.
const INVALID_PARAMS: i64 = -32602;

/// The questions a call asks together, and the answers so far.
pub(super) struct OpenQuestion {
    asks: LineQuestion,
    for_person: Option<(ForPerson, Timestamp)>,
    asked: Vec<AskedQuestion>,
}

struct AskedQuestion {
    key: String,
    answer: Option<Value>,
}

/// A question that is still unanswered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnansweredQuestion {
    pub(crate) key: String,
    pub(crate) kind: QuestionKind,
    pub(crate) parameters: Value,
}

impl OpenQuestion {
    /// Opens what a call asks in its nth round. A question that must not be asked is answered with
    /// an error, and nothing is left open.
    pub(super) fn new(
        asks: LineQuestion,
        round: usize,
        used: &mut BTreeSet<String>,
    ) -> Option<Self> {
        if asks.is_unwanted() {
            return None;
        }
        if let Some((about, _)) = asks.for_person {
            let keys =
                (0..asks.questions.len()).map(|n| format!("{OURS}{}:{about}:{n}", about.word()));
            return Some(Self {
                for_person: asks.for_person,
                asked: keys.map(AskedQuestion::new).collect(),
                asks,
            });
        }
        if let Err(error) = check(&asks.questions, round) {
            asks.answer(Err(error));
            return None;
        }
        let questions = asks.questions.iter();
        let keys = questions.map(|question| unused(&question.key, round, used));
        Some(Self {
            for_person: None,
            asked: keys.map(AskedQuestion::new).collect(),
            asks,
        })
    }

    /// What a person is asked, and when the question lapses.
    pub(super) fn for_person(&self) -> Option<(ForPerson, Timestamp)> {
        self.for_person
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_stale(&self) -> bool {
        self.asks.is_unwanted()
    }

    /// Ready once nobody waits for the answer any more.
    pub(super) fn poll_stale(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.asks.poll_unwanted(cx)
    }

    /// What is still to be asked of the client.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = UnansweredQuestion> {
        let waits = |(asked, question): (&AskedQuestion, &Question)| {
            asked.answer.is_none().then(|| UnansweredQuestion {
                key: asked.key.clone(),
                kind: question.kind,
                parameters: question.parameters.clone(),
            })
        };
        self.asked
            .iter()
            .zip(&self.asks.questions)
            .filter_map(waits)
    }

    /// Takes an answer to one of its questions. Returns what is still open: nothing once all are
    /// answered, or once one fails.
    pub(super) fn answer(mut self, key: &str, answer: Result<Value, AskError>) -> Option<Self> {
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.key == key) else {
            return Some(self);
        };
        match answer {
            Ok(answer) => asked.answer = Some(answer),
            Err(error) => {
                self.asks.answer(Err(error));
                return None;
            }
        }
        if self.asked.iter().any(|asked| asked.answer.is_none()) {
            return Some(self);
        }
        let answers = self.asked.into_iter().filter_map(|asked| asked.answer);
        self.asks.answer(Ok(answers.collect()));
        None
    }
}

impl AskedQuestion {
    fn new(key: String) -> Self {
        Self { key, answer: None }
    }
}

/// The key for a mounted server's question: the server's own, unless it was used in this call
/// before or could be mistaken for one of Haft's.
fn unused(own: &str, round: usize, used: &mut BTreeSet<String>) -> String {
    let ambiguous = own.starts_with(OURS) || own.starts_with(THEIRS);
    if !ambiguous && used.insert(own.to_owned()) {
        return own.to_owned();
    }
    format!("{THEIRS}{round}:{own}")
}

/// Whether a mounted server may ask this.
fn check(questions: &[Question], round: usize) -> Result<(), AskError> {
    let refuse = |message: String| {
        Err(AskError::Refused {
            code: INVALID_PARAMS,
            message,
        })
    };
    if round >= MAX_ROUNDS {
        return refuse(format!(
            "a server may ask {MAX_ROUNDS} times within one call; this one has"
        ));
    }
    if questions.len() > MAX_QUESTIONS {
        return refuse(format!(
            "a server may ask {MAX_QUESTIONS} questions at once; these are {}",
            questions.len()
        ));
    }
    let to_open = questions
        .iter()
        .filter(|question| question.kind == QuestionKind::Elicit)
        .filter_map(|question| question.parameters.get("url"));
    for url in to_open {
        if url.as_str().and_then(web_page::to_open).is_none() {
            return refuse("an address to open must be https, or http on this machine".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn elicit(parameters: Value) -> Question {
        Question {
            key: "k".to_owned(),
            kind: QuestionKind::Elicit,
            parameters,
        }
    }

    #[test]
    fn mc_13_a_person_is_sent_to_safe_addresses_alone() {
        for (url, opened) in [
            ("https://example.com/login", true),
            ("http://example.com/login", false),
        ] {
            let question = elicit(json!({"mode": "url", "url": url}));
            assert_eq!(check(&[question], 0).is_ok(), opened, "{url}");
        }
        // The address is checked, whatever the mode says.
        let hidden = elicit(json!({"mode": "form", "url": "javascript:alert(1)"}));
        assert!(check(&[hidden], 0).is_err());
        assert!(check(&[elicit(json!({"mode": "url", "url": 7}))], 0).is_err());
    }

    #[test]
    fn mc_14_a_servers_key_is_its_own_unless_it_could_be_mistaken() {
        let mut used = BTreeSet::new();
        for (round, own, key) in [
            (0, "name", "name"),
            (1, "name", "mounted:1:name"),
            (1, "haft:approval:1:0", "mounted:1:haft:approval:1:0"),
            (2, "mounted:1:name", "mounted:2:mounted:1:name"),
            (3, "", ""),
        ] {
            assert_eq!(unused(own, round, &mut used), key);
        }
    }

    #[test]
    fn mc_14_a_server_that_asks_for_ever_is_stopped() {
        let question = [elicit(json!({"message": "?"}))];
        assert!(check(&question, MAX_ROUNDS - 1).is_ok());
        assert!(check(&question, MAX_ROUNDS).is_err());
        let many = vec![elicit(json!({})); MAX_QUESTIONS + 1];
        assert!(check(&many, 0).is_err());
    }
}
