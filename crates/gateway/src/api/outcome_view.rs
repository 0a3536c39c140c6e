//! How a call ended, the same whether it just did or is read from the record. The record keeps the
//! description of an image and not the image, so bytes are there only in the answer to the call itself.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_contract::{
    Content, Outcome,
    content::ResourceBody,
    host::{Decision, RuleRef},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// How a call ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Outcome)]
pub(crate) struct OutcomeView {
    /// `succeeded`, `failed`, `denied`, `timed_out`, `cancelled` or `unknown`.
    #[serde(alias = "terminal")]
    #[schema(example = "succeeded")]
    pub(crate) outcome: String,
    /// What a model reads.
    #[serde(default)]
    pub(crate) content: Vec<ContentView>,
    /// What a program reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<Value>,
    /// What went wrong, unless it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<FailureView>,
    /// What is known about the run.
    #[serde(default)]
    pub(crate) facts: FactsView,
}

/// A piece of a result.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = Content)]
pub(crate) enum ContentView {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, a sound, a document.
    Bytes {
        /// What they are.
        media_type: String,
        /// How many.
        bytes: usize,
        /// The bytes in base64; only where the call is answered, not where it is looked up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// Something kept elsewhere.
    Link {
        /// Where.
        uri: String,
        /// What to call it.
        name: String,
    },
}

/// What went wrong.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Failure)]
pub(crate) struct FailureView {
    /// What sort of failure it was.
    pub(crate) kind: String,
    /// What happened.
    pub(crate) message: String,
    /// Where in the input, as a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// What is known about a run.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Facts)]
pub(crate) struct FactsView {
    /// The exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// Bytes of output that the content leaves out; `/output` has them.
    #[serde(default)]
    pub(crate) bytes_omitted: u64,
    /// The decision that allowed or denied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<DecisionView>,
    /// What refused it, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) denied_by: Option<String>,
    /// How strongly it was confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<String>,
    /// Where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backend: Option<String>,
    /// What was rewritten in the input on the way in.
    #[serde(default)]
    pub(crate) coercions: Vec<String>,
    /// How long a person was asked, in microseconds.
    #[serde(default)]
    pub(crate) asked_us: u64,
    /// How long it waited for its turn, in microseconds.
    #[serde(default)]
    pub(crate) queued_us: u64,
    /// How long it ran, in microseconds.
    #[serde(default)]
    pub(crate) ran_us: u64,
}

/// A decision of the rules.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Decision)]
pub(crate) struct DecisionView {
    /// `allow`, `ask` or `deny`.
    pub(crate) verdict: String,
    /// The rule that decided; without one, the preset did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<RuleView>,
    /// Why, in words.
    pub(crate) reason: String,
    /// What was decisive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<String>,
    /// What is left out of the result.
    #[serde(default)]
    pub(crate) withheld: Vec<String>,
    /// The version of the rules.
    pub(crate) policy: String,
}

/// A rule and where it is written.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Rule)]
pub(crate) struct RuleView {
    /// The rule.
    pub(crate) text: String,
    /// The file.
    pub(crate) source: String,
    /// The line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}

impl OutcomeView {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let facts = &outcome.facts;
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            outcome: outcome.terminal.as_str().to_owned(),
            content: outcome.content.iter().map(ContentView::of).collect(),
            structured: outcome.structured.clone(),
            error: outcome.error.as_ref().map(|error| FailureView {
                kind: error.kind.as_str().to_owned(),
                message: error.message.clone(),
                at: error.at.clone(),
                hint: error.hint.clone(),
            }),
            facts: FactsView {
                exit_code: facts.exit_code,
                signal: facts.signal,
                bytes_omitted: facts.bytes_omitted,
                decision: facts.decision.as_deref().map(DecisionView::of),
                denied_by: facts.denied_by.map(|by| by.as_str().to_owned()),
                tier: facts.tier.map(|tier| tier.as_str().to_owned()),
                backend: facts
                    .backend
                    .as_ref()
                    .map(|backend| backend.as_str().to_owned()),
                coercions: facts.coercions.clone(),
                asked_us: micros(facts.timings.asked),
                queued_us: micros(facts.timings.queued),
                ran_us: micros(facts.timings.ran),
            },
        }
    }

    /// As the record has it, in the event `settled`.
    pub(crate) fn from_record(settled: &Value) -> Option<Self> {
        Self::deserialize(settled).ok()
    }
}

impl ContentView {
    fn of(content: &Content) -> Self {
        let bytes = |media_type: &str, data: &[u8]| Self::Bytes {
            media_type: media_type.to_owned(),
            bytes: data.len(),
            data: Some(STANDARD.encode(data)),
        };
        match content {
            Content::Text(text)
            | Content::Resource {
                body: ResourceBody::Text(text),
                ..
            } => Self::Text { text: text.clone() },
            Content::Image { data, media_type }
            | Content::Audio { data, media_type }
            | Content::Document {
                data, media_type, ..
            } => bytes(media_type, data),
            Content::Resource {
                body: ResourceBody::Bytes(data),
                media_type,
                ..
            } => bytes(
                media_type.as_deref().unwrap_or("application/octet-stream"),
                data,
            ),
            Content::Link { uri, name, .. } => Self::Link {
                uri: uri.clone(),
                name: name.clone(),
            },
        }
    }
}

impl DecisionView {
    pub(crate) fn of(decision: &Decision) -> Self {
        Self {
            verdict: decision.verdict.as_str().to_owned(),
            rule: decision.rule.as_ref().map(RuleView::of),
            reason: decision.reason.clone(),
            access: decision.access.clone(),
            withheld: decision.withheld.clone(),
            policy: decision.policy.0.clone(),
        }
    }
}

impl RuleView {
    pub(crate) fn of(rule: &RuleRef) -> Self {
        Self {
            text: rule.text.clone(),
            source: rule.source.clone(),
            line: rule.line,
        }
    }
}
