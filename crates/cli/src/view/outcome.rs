//! How a call ended, as `haft call` and `haft batch` print it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_contract::{
    Content, Outcome, Terminal,
    content::ResourceBody,
    ops::{Limit, Refusal, Tier},
    outcome::DeniedBy,
};
use serde::Serialize;
use serde_json::Value;

use super::{decision::DecisionView, time};
use crate::terminal::{Page, Style};

/// An outcome for programs.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeView {
    call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    outcome: &'static str,
    content: Vec<ContentView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
    facts: FactsView,
}

/// One piece of content.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentView {
    Text {
        text: String,
    },
    Image {
        data: String,
        media_type: String,
    },
    Audio {
        data: String,
        media_type: String,
    },
    Document {
        data: String,
        media_type: String,
        name: String,
    },
    Resource {
        uri: String,
        media_type: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    Link {
        uri: String,
        name: String,
        media_type: Option<String>,
    },
}

/// What went wrong.
#[derive(Debug, Serialize)]
struct FailureView {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// What is known about the run.
#[derive(Debug, Serialize)]
struct FactsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    bytes_omitted: u64,
    lines_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceeded: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<RefusalView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    coercions: Vec<String>,
    asked_us: u64,
    queued_us: u64,
    ran_us: u64,
}

/// What the sandbox refused.
#[derive(Debug, Serialize)]
struct RefusalView {
    layer: &'static str,
    what: String,
    why: String,
}

impl RefusalView {
    fn of(refusal: &Refusal) -> Self {
        Self {
            layer: refusal.layer.as_str(),
            what: refusal.what.clone(),
            why: refusal.why.clone(),
        }
    }
}

impl OutcomeView {
    /// The view of an outcome.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let facts = &outcome.facts;
        let micros =
            |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self {
            call: outcome.call.to_string(),
            tool: outcome.tool.as_ref().map(ToString::to_string),
            outcome: outcome.terminal.as_str(),
            content: outcome.content.iter().map(content).collect(),
            structured: outcome.structured.clone(),
            error: outcome.error.as_ref().map(|failure| FailureView {
                kind: failure.kind.as_str(),
                message: failure.message.clone(),
                at: failure.at.clone(),
                hint: failure.hint.clone(),
            }),
            facts: FactsView {
                exit_code: facts.exit_code,
                signal: facts.signal,
                bytes_omitted: facts.bytes_omitted,
                lines_omitted: facts.lines_omitted,
                artifact: facts.artifact.map(|id| id.hex()),
                decision: facts.decision.as_deref().map(DecisionView::of),
                denied_by: facts.denied_by.map(DeniedBy::as_str),
                exceeded: facts.exceeded.map(Limit::as_str),
                refusals: facts.refusals.iter().map(RefusalView::of).collect(),
                backend: facts.backend.as_ref().map(ToString::to_string),
                tier: facts.tier.map(Tier::as_str),
                coercions: facts.coercions.clone(),
                asked_us: micros(facts.timings.asked),
                queued_us: micros(facts.timings.queued),
                ran_us: micros(facts.timings.ran),
            },
        }
    }

    /// The same with a different hint, for a call that did not succeed.
    pub(crate) fn hinting(mut self, hint: Option<String>) -> Self {
        if let (Some(failure), Some(hint)) = (&mut self.error, hint) {
            failure.hint = Some(hint);
        }
        self
    }

    /// What a person is told after the content: what went wrong, and where to read more. A success
    /// that nobody watches needs no message.
    pub(crate) fn epilogue(&self, watched: bool) -> Page {
        let mut page = Page::new();
        for piece in &self.content {
            page = match piece {
                ContentView::Text { .. } => page,
                ContentView::Image { media_type, .. }
                | ContentView::Audio { media_type, .. }
                | ContentView::Document { media_type, .. } => page
                    .styled(
                        Style::Dim,
                        format!("({media_type}; `--json` has its bytes)"),
                    )
                    .end(),
                ContentView::Resource { uri, text, .. } => match text {
                    Some(text) => page.text(format!("{uri}:\n{text}")).end(),
                    None => page.text(format!("a resource: {uri}")).end(),
                },
                ContentView::Link { uri, name, .. } => page.text(format!("{name}: {uri}")).end(),
            };
        }
        page = page.page(self.refusal());
        if self.outcome != Terminal::Succeeded.as_str() || watched {
            page = page.styled(Style::Dim, self.summary()).end();
        }
        page
    }

    /// What went wrong, and what to do next.
    pub(crate) fn refusal(&self) -> Page {
        let Some(failure) = &self.error else {
            return Page::new();
        };
        let mut page = Page::new()
            .styled(Style::Bad, format!("{}: ", self.outcome))
            .block(&failure.message);
        if let Some(at) = &failure.at {
            page = page.text(format!(" (at {at})"));
        }
        page = page.end();
        match &failure.hint {
            Some(hint) => page.styled(Style::Warn, "hint: ").block(hint).end(),
            None => page,
        }
    }

    fn summary(&self) -> String {
        let mut parts = vec![self.outcome.to_owned()];
        if self.facts.ran_us > 0 {
            parts.push(time::duration(self.facts.ran_us));
        }
        if let Some(code) = self.facts.exit_code {
            parts.push(format!("exit code {code}"));
        }
        if self.facts.bytes_omitted > 0 {
            parts.push(format!(
                "{} bytes left out, `haft call read_output call={}` has them",
                self.facts.bytes_omitted, self.call
            ));
        }
        parts.push(format!("why: haft explain {}", self.call));
        parts.join(" · ")
    }
}

fn content(content: &Content) -> ContentView {
    match content {
        Content::Text(text) => ContentView::Text { text: text.clone() },
        Content::Image { data, media_type } => ContentView::Image {
            data: STANDARD.encode(data),
            media_type: media_type.clone(),
        },
        Content::Audio { data, media_type } => ContentView::Audio {
            data: STANDARD.encode(data),
            media_type: media_type.clone(),
        },
        Content::Document {
            data,
            media_type,
            name,
        } => ContentView::Document {
            data: STANDARD.encode(data),
            media_type: media_type.clone(),
            name: name.clone(),
        },
        Content::Resource {
            uri,
            media_type,
            body,
        } => {
            let (text, data) = match body {
                ResourceBody::Text(text) => (Some(text.clone()), None),
                ResourceBody::Bytes(data) => (None, Some(STANDARD.encode(data))),
            };
            ContentView::Resource {
                uri: uri.clone(),
                media_type: media_type.clone(),
                text,
                data,
            }
        }
        Content::Link {
            uri,
            name,
            media_type,
        } => ContentView::Link {
            uri: uri.clone(),
            name: name.clone(),
            media_type: media_type.clone(),
        },
    }
}
