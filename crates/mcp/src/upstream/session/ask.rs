//! Passes what a server asks during a call to that call's client. A question nobody can answer is
//! refused; so is one that leads somewhere no person should be sent.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    client::{AskError, Client, Question, QuestionKind},
    upstream::{
        connection::RequestError,
        limits::{LOGS_PER_SECOND, QUESTIONS},
        wire::message::Refusal,
    },
    web_page,
};

pub(super) struct CallQuestions<'a> {
    client: Option<&'a Arc<dyn Client>>,
    /// The keys used so far, so that each is used once.
    keys: BTreeSet<String>,
}

impl<'a> CallQuestions<'a> {
    pub(super) fn new(client: Option<&'a Arc<dyn Client>>) -> Self {
        Self {
            client,
            keys: BTreeSet::new(),
        }
    }

    /// Answers a request the server sent on its own.
    pub(super) async fn answer(
        &mut self,
        method: &str,
        parameters: Value,
        cancel: &CancellationToken,
    ) -> Result<Value, Refusal> {
        if method == "ping" {
            return Ok(json!({}));
        }
        let client = self.client;
        let question = self.question("question", method, parameters)?;
        let client = client.ok_or_else(nobody)?;
        let mut answers = client
            .ask(vec![question], cancel)
            .await
            .map_err(|error| Refusal {
                code: code_of(&error),
                message: error.to_string(),
            })?;
        answers.pop().ok_or_else(nobody)
    }

    /// Answers the questions of an `input_required` result: an object with an answer for each.
    pub(super) async fn round(
        &mut self,
        result: &Value,
        cancel: &CancellationToken,
    ) -> Result<Value, RequestError> {
        let Some(requests) = result.get("inputRequests") else {
            // The server asks nothing: it only wants the request again.
            return Ok(json!({}));
        };
        let broken = |why: &str| RequestError::Protocol(why.to_owned());
        let requests = requests
            .as_object()
            .filter(|requests| requests.len() <= QUESTIONS)
            .ok_or_else(|| broken("its questions are not an object, or there are too many"))?;
        let mut keys = Vec::with_capacity(requests.len());
        let mut questions = Vec::with_capacity(requests.len());
        for (key, request) in requests {
            let method = request.get("method").and_then(Value::as_str);
            let parameters = request.get("params").cloned().unwrap_or(json!({}));
            let question = self
                .question(key, method.unwrap_or_default(), parameters)
                .map_err(|refusal| RequestError::Protocol(refusal.message))?;
            keys.push(key.clone());
            questions.push(question);
        }
        if questions.is_empty() {
            return Ok(json!({}));
        }
        let client = self
            .client
            .ok_or_else(|| broken("it asks a question, but nobody can be asked"))?;
        let kinds: Vec<QuestionKind> = questions.iter().map(|question| question.kind).collect();
        let answers = match client.ask(questions, cancel).await {
            Ok(answers) if answers.len() == keys.len() => answers,
            Ok(_) | Err(AskError::Gone) => return Err(RequestError::Cancelled),
            // Declining a form is an answer; declining anything else ends the request.
            Err(AskError::Refused { .. })
                if kinds.iter().all(|kind| *kind == QuestionKind::Elicit) =>
            {
                vec![json!({ "action": "cancel" }); keys.len()]
            }
            Err(AskError::Refused { code, message }) => {
                return Err(RequestError::Answered {
                    code,
                    message,
                    data: None,
                });
            }
            Err(error @ AskError::NotAble(_)) => {
                return Err(RequestError::Protocol(error.to_string()));
            }
        };
        let answers: Map<String, Value> = keys.into_iter().zip(answers).collect();
        Ok(Value::Object(answers))
    }

    /// Tells the client which capabilities the server says it lacks.
    pub(super) fn note_lacking(&self, data: Option<&Value>) {
        let needed = data.and_then(|data| data.get("requiredCapabilities")?.as_object());
        let (Some(client), Some(needed)) = (self.client, needed) else {
            return;
        };
        let abilities = client.abilities();
        let kinds = needed
            .keys()
            .filter_map(|it| QuestionKind::of_capability(it));
        if let Some(kind) = kinds.into_iter().find(|kind| !abilities.has_any(*kind)) {
            client.lacks(kind);
        }
    }

    /// A question, if it may be asked.
    fn question(
        &mut self,
        key: &str,
        method: &str,
        parameters: Value,
    ) -> Result<Question, Refusal> {
        let Some(kind) = QuestionKind::of_method(method) else {
            return Err(Refusal::unknown("Haft does not have this method"));
        };
        let client = self.client.ok_or_else(nobody)?;
        let by_url = parameters.get("mode").and_then(Value::as_str) == Some("url");
        if !client.abilities().has(kind, &parameters) {
            client.lacks(kind);
            return Err(nobody());
        }
        let page = parameters.get("url").and_then(Value::as_str);
        if by_url && page.and_then(web_page::to_open).is_none() {
            let why = "Haft sends a person only to an https address, or to this machine";
            return Err(Refusal::invalid(why));
        }
        if self.keys.len() >= QUESTIONS {
            let why = format!("more than {QUESTIONS} questions in one call");
            return Err(Refusal::invalid(why));
        }
        Ok(Question {
            key: self.unused(key),
            kind,
            parameters,
        })
    }

    /// The server's own key if possible, otherwise one derived from it.
    fn unused(&mut self, key: &str) -> String {
        let mut unused = key.to_owned();
        let mut next = 2;
        while !self.keys.insert(unused.clone()) {
            unused = format!("{key}#{next}");
            next += 1;
        }
        unused
    }
}

fn nobody() -> Refusal {
    Refusal::unknown("nobody can be asked this in the call that is under way")
}

fn code_of(error: &AskError) -> i64 {
    match error {
        AskError::Refused { code, .. } => *code,
        AskError::NotAble(_) | AskError::Gone => nobody().code,
    }
}

/// Passes log messages on at a limited rate.
pub(super) struct LogTrickle<'a> {
    client: Option<&'a Arc<dyn Client>>,
    since: Instant,
    passed: u32,
}

impl<'a> LogTrickle<'a> {
    pub(super) fn new(client: Option<&'a Arc<dyn Client>>) -> Self {
        Self {
            client,
            since: Instant::now(),
            passed: 0,
        }
    }

    pub(super) fn pass(&mut self, message: Value) {
        let Some(client) = self.client else {
            return;
        };
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            self.passed = 0;
        }
        if self.passed < LOGS_PER_SECOND {
            self.passed += 1;
            client.log(message);
        }
    }
}
