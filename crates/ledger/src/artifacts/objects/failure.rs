//! What errors of the storage mean for the ledger.

use std::time::Duration;

use haft_contract::host::{LedgerError, LedgerErrorKind};
use object_store::Error;

/// Why a request did not do what was asked.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// There is no such object.
    NoObject,
    /// There is one already, or somebody else is about to write it.
    Exists,
    /// It is not the version that was asked for.
    OtherVersion,
    /// The storage does not know this kind of request.
    Unsupported,
    /// Anything else: the storage cannot be used.
    Unavailable(LedgerError),
}

impl RequestFailure {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            // The bucket itself may be the one that is missing; only an answer with a body says so.
            Error::NotFound { .. } if says(error, "NoSuchBucket") => {
                Self::unavailable("there is no such bucket; check where artifacts are kept")
            }
            Error::NotFound { .. } => Self::NoObject,
            Error::AlreadyExists { .. } => Self::Exists,
            Error::Precondition { .. } => Self::OtherVersion,
            Error::NotImplemented { .. } => Self::Unsupported,
            Error::Generic { .. } if says(error, "NotImplemented") => Self::Unsupported,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                tracing::warn!(%error, "the artifact storage refuses a request");
                Self::unavailable(
                    "the artifact storage refuses these credentials; check them, and what they may \
                     do with the bucket",
                )
            }
            _ => {
                tracing::warn!(%error, "the artifact storage failed");
                Self::unavailable(
                    "the artifact storage cannot be used; check its endpoint and the credentials",
                )
            }
        }
    }

    pub(super) fn late(limit: Duration) -> Self {
        Self::Unavailable(LedgerError::new(
            LedgerErrorKind::Unavailable,
            format!(
                "the artifact storage did not answer within {} s",
                limit.as_secs()
            ),
        ))
    }

    fn unavailable(message: &str) -> Self {
        Self::Unavailable(LedgerError::new(LedgerErrorKind::Unavailable, message))
    }
}

impl From<RequestFailure> for LedgerError {
    /// For requests that nothing but trouble with the storage can refuse.
    fn from(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::Unavailable(error) => error,
            other => Self::new(
                LedgerErrorKind::Unavailable,
                match other {
                    RequestFailure::NoObject => {
                        "the artifact storage does not find what it was sent"
                    }
                    RequestFailure::Unsupported => {
                        "the artifact storage does not know a request that is needed"
                    }
                    _ => "somebody else is writing the same artifact; try again",
                },
            ),
        }
    }
}

/// Whether the storage's answer has this code in it.
fn says(error: &Error, code: &str) -> bool {
    error.to_string().contains(code)
}
