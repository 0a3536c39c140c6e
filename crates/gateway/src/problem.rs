//! Every answer that is not a success: a problem as RFC 9457 has it, with a `type` that stays, the same
//! `denied_by` as everywhere in Haft, and a hint what to do next.
//!
//! What another tenant has does not exist: asking for it is [`Problem::not_found`], in the same words.

use axum::response::{IntoResponse, Response};
use haft_contract::host::{AnswerError, LedgerError, LedgerErrorKind};
use haft_host::{HostError, HostErrorKind};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// What sort of problem it is. Names are part of the API and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotOpen,
    InFlight,
    Gone,
    TooLarge,
    UnsupportedMediaType,
    OtherBody,
    Unprocessable,
    TooManyRequests,
    Internal,
    Unavailable,
}

impl ProblemKind {
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::BadRequest => (
                StatusCode::BAD_REQUEST,
                "bad-request",
                "The request cannot be read",
            ),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "Nobody knows this credential",
            ),
            Self::Forbidden => (
                StatusCode::FORBIDDEN,
                "forbidden",
                "The credential may not do this",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "There is no such thing"),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "This cannot be done here",
            ),
            Self::NotOpen => (
                StatusCode::CONFLICT,
                "not-open",
                "The question is not open any more",
            ),
            Self::InFlight => (
                StatusCode::CONFLICT,
                "in-flight",
                "The same request is still in flight",
            ),
            Self::Gone => (StatusCode::GONE, "gone", "It is not kept any more"),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-large",
                "The body is too large",
            ),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "The body is not JSON",
            ),
            Self::OtherBody => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "The key was used with another body",
            ),
            Self::Unprocessable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "unprocessable",
                "The request does not fit",
            ),
            Self::TooManyRequests => (
                StatusCode::TOO_MANY_REQUESTS,
                "too-many-requests",
                "Too much at once",
            ),
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "A fault in Haft",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "Something it needs does not answer",
            ),
        }
    }
}

/// A problem on the wire (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// What sort of problem it is; the same for every problem of its kind, in every version.
    #[schema(example = "urn:haft:problem:not-found")]
    r#type: String,
    /// The kind in words.
    title: &'static str,
    /// The status code of the answer.
    status: u16,
    /// What happened, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// What refused it, in the words that calls use: `policy`, `person`, `ledger` and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_by: Option<String>,
}

/// Where the names of problems live. No page has to be there: a name is compared, not fetched.
const TYPES: &str = "urn:haft:problem:";

/// Why a request has no better answer. Boxed, because handlers return it in every result.
#[derive(Debug)]
pub(crate) struct Problem(Box<ProblemParts>);

#[derive(Debug)]
struct ProblemParts {
    kind: ProblemKind,
    detail: Option<String>,
    hint: Option<String>,
    denied_by: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A problem in words, for a page.
pub(crate) struct ProblemWords<'a> {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) detail: Option<&'a str>,
    pub(crate) hint: Option<&'a str>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemParts {
            kind,
            detail: Some(detail.into()),
            hint: None,
            denied_by: None,
            headers: Vec::new(),
        }))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into()).filter(|hint: &String| !hint.is_empty());
        self
    }

    pub(crate) fn denied_by(mut self, what: impl Into<String>) -> Self {
        self.0.denied_by = Some(what.into());
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// There is none, or it is another tenant's; nobody learns which.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ProblemKind::NotFound, format!("there is no such {what}"))
    }

    /// The credential lacks a scope.
    pub(crate) fn missing_scope(scope: &str) -> Self {
        Self::new(
            ProblemKind::Forbidden,
            format!("this needs a credential with the scope `{scope}`"),
        )
        .hint("`haft keys create --scope` makes one")
        .denied_by("scope")
    }

    /// What people read of it at the console.
    pub(crate) fn words(&self) -> ProblemWords<'_> {
        let (status, _, title) = self.0.kind.parts();
        ProblemWords {
            status,
            title,
            detail: self.0.detail.as_deref(),
            hint: self.0.hint.as_deref(),
        }
    }

    pub(crate) fn kind(&self) -> ProblemKind {
        self.0.kind
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let parts = *self.0;
        let (status, name, title) = parts.kind.parts();
        let body = ProblemBody {
            r#type: format!("{TYPES}{name}"),
            title,
            status: status.as_u16(),
            detail: parts.detail,
            hint: parts.hint,
            denied_by: parts.denied_by,
        };
        let text = serde_json::to_string(&body).unwrap_or_default();
        let json = HeaderValue::from_static("application/problem+json");
        let mut response = (status, text).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        for (name, value) in parts.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The record could not do it. What is wrong with it is for the log, not for strangers.
impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match error.kind() {
            LedgerErrorKind::NotFound => {
                Self::new(ProblemKind::NotFound, "the record does not have it")
            }
            LedgerErrorKind::LimitExceeded => {
                Self::new(ProblemKind::TooManyRequests, error.to_string())
                    .hint("try again when less is in flight")
            }
            LedgerErrorKind::Unavailable
            | LedgerErrorKind::Conflict
            | LedgerErrorKind::ReadMore
            | LedgerErrorKind::Superseded
            | LedgerErrorKind::Over
            | LedgerErrorKind::Corrupt => {
                tracing::error!(%error, "the record did not answer a request");
                Self::new(ProblemKind::Unavailable, "the record does not answer")
                    .hint("try again; the log of the server says what is wrong")
                    .denied_by("ledger")
            }
        }
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Unknown => Self::not_found("question"),
            AnswerError::NotOpen { .. } => Self::new(ProblemKind::NotOpen, error.to_string())
                .hint("only the first answer counts"),
            AnswerError::NotYours => Self::new(ProblemKind::Forbidden, error.to_string())
                .hint("have somebody else answer"),
            AnswerError::OtherPlan => Self::new(ProblemKind::Unprocessable, error.to_string())
                .hint("read the question again and send the digest that it has now"),
            AnswerError::NotShown => Self::new(ProblemKind::Unprocessable, error.to_string())
                .hint("it can be refused from here"),
            AnswerError::Store(error) => error.into(),
        }
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        let kind = match error.kind() {
            HostErrorKind::NotFound => ProblemKind::NotFound,
            HostErrorKind::Refused => ProblemKind::Unprocessable,
            _ => {
                tracing::error!(%error, "a request could not be answered");
                return Self::new(ProblemKind::Unavailable, "the server could not do this")
                    .hint("the log of the server says why");
            }
        };
        Self::new(kind, error.message()).hint(error.hint())
    }
}
