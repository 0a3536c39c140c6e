//! What a server says, as errors for a model. Its details and hints stay in the log: they may repeat
//! values.

use std::error::Error as _;

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::{Error, error::SqlState};

/// The longest message of a server that is repeated, in characters.
const MAX_SAID: usize = 300;

/// What the driver says if a server refuses to speak TLS. It says it in words only.
const NO_TLS: &str = "server does not support TLS";

/// No connection.
pub(super) fn unreachable(error: &Error) -> OpsError {
    tracing::warn!(%error, source = error.source(), "a database cannot be reached");
    if error.source().is_some_and(|why| why.to_string() == NO_TLS) {
        return OpsError::new(ErrorKind::Unavailable, "the database's server speaks no TLS")
            .with_hint(
                "turn TLS on in the server; one on this machine may do without: `encrypted = false` for the \
                 source in haft.toml",
            );
    }
    let why = match error.as_db_error() {
        Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => {
            "the database has no connection left"
        }
        Some(said) if said.code().code().starts_with("28") => "the database refuses the role",
        Some(_) => "the database refuses the connection",
        None => "the database cannot be reached",
    };
    OpsError::new(ErrorKind::Unavailable, why)
}

/// A statement that failed.
pub(super) fn failed(error: &Error) -> OpsError {
    let Some(said) = error.as_db_error() else {
        // A value that does not fit its parameter, or a connection that was lost.
        if error.is_closed() {
            return OpsError::new(
                ErrorKind::Unavailable,
                "the connection to the database was lost",
            );
        }
        tracing::warn!(%error, source = error.source(), "a statement failed");
        let why = error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string);
        return OpsError::new(ErrorKind::InvalidInput, cut(&why));
    };
    let code = said.code();
    let kind = match code.code() {
        "57014" | "55P03" => ErrorKind::TimedOut,
        "42501" => ErrorKind::AccessDenied,
        "25006" => ErrorKind::Denied,
        // Somebody changed the same rows.
        "40001" | "40P01" => ErrorKind::Conflict,
        code => match code.get(..2).unwrap_or_default() {
            "53" | "54" => ErrorKind::LimitExceeded,
            "08" | "57" | "58" | "XX" => ErrorKind::Unavailable,
            _ => ErrorKind::InvalidInput,
        },
    };
    OpsError::new(kind, format!("{} ({})", cut(said.message()), code.code()))
}

fn cut(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(MAX_SAID).collect()
}
