//! Why a provider gave no results, typed, in words of Haft's own: what a server says in an error is
//! written by strangers and may repeat the key.

use std::fmt;

use haft_contract::ErrorKind;

/// Why there are no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::web) struct SearchFailure {
    kind: FailureKind,
    why: String,
    status: Option<u16>,
    wait_seconds: Option<u64>,
}

/// What sort of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::web) enum FailureKind {
    /// Too many requests in a short time.
    RateLimited,
    /// What a plan includes is used up.
    QuotaUsedUp,
    /// There is no connection.
    Unreachable,
    /// It takes too long.
    TimedOut,
    /// It says that it failed.
    ServerError,
    /// What it sent are no results.
    BadAnswer,
    /// It wants a person.
    Challenged,
    /// Its key is not there.
    NoKey,
    /// Its key is not accepted.
    KeyRefused,
    /// It does not take the query.
    BadRequest,
    /// It is not set up for programs, or its address is wrong.
    NotSetUp,
}

impl FailureKind {
    /// The name in structured output.
    pub(in crate::web) fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::QuotaUsedUp => "quota_used_up",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::ServerError => "server_error",
            Self::BadAnswer => "bad_answer",
            Self::Challenged => "challenged",
            Self::NoKey => "no_key",
            Self::KeyRefused => "key_refused",
            Self::BadRequest => "bad_request",
            Self::NotSetUp => "not_set_up",
        }
    }

    /// Whether the next provider is asked. What somebody has to set right would never be, if every
    /// search went on as though nothing were wrong.
    pub(in crate::web) fn asks_the_next(self) -> bool {
        match self {
            Self::RateLimited
            | Self::QuotaUsedUp
            | Self::Unreachable
            | Self::TimedOut
            | Self::ServerError
            | Self::BadAnswer
            | Self::Challenged => true,
            Self::NoKey | Self::KeyRefused | Self::BadRequest | Self::NotSetUp => false,
        }
    }

    /// The kind of error that a call ends with.
    pub(in crate::web) fn error_kind(self) -> ErrorKind {
        match self {
            Self::KeyRefused => ErrorKind::AccessDenied,
            Self::BadRequest => ErrorKind::InvalidInput,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::RateLimited
            | Self::QuotaUsedUp
            | Self::Unreachable
            | Self::ServerError
            | Self::BadAnswer
            | Self::Challenged
            | Self::NoKey
            | Self::NotSetUp => ErrorKind::Unavailable,
        }
    }
}

impl SearchFailure {
    pub(in crate::web) fn new(kind: FailureKind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
            status: None,
            wait_seconds: None,
        }
    }

    #[must_use]
    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// How long it asks to wait.
    #[must_use]
    pub(super) fn wait(mut self, seconds: u64) -> Self {
        self.wait_seconds = Some(seconds);
        self
    }

    pub(in crate::web) fn kind(&self) -> FailureKind {
        self.kind
    }

    pub(in crate::web) fn wait_seconds(&self) -> Option<u64> {
        self.wait_seconds
    }
}

impl fmt::Display for SearchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if let Some(status) = self.status {
            write!(f, " (status {status})")?;
        }
        if let Some(seconds) = self.wait_seconds {
            write!(f, " and asks to wait {seconds} s")?;
        }
        Ok(())
    }
}
