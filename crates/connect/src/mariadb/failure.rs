//! What a server or the driver says, as errors for a model.

use std::error::Error as _;

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{DriverError, Error, IoError};

use crate::batch::too_large;

/// The longest message of a server that is repeated, in characters.
const MAX_SAID: usize = 300;

/// What a server is told from that is not the one of the address.
const NOT_VERIFIED: &str = "the database's certificate is not to be trusted";

/// No connection.
pub(super) fn unreachable(error: &Error) -> OpsError {
    tracing::warn!(%error, source = error.source(), "a database cannot be reached");
    let why = match error {
        Error::Server(said) if matches!(said.code, 1040 | 1203 | 1226) => {
            "the database has no connection left"
        }
        Error::Server(said) if matches!(said.code, 1044 | 1045 | 1698) => {
            "the database refuses the role"
        }
        Error::Server(_) => "the database refuses the connection",
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            "the database does not encrypt connections"
        }
        Error::Io(IoError::Tls(_)) => NOT_VERIFIED,
        Error::Io(IoError::Io(error)) if is_of_encryption(error) => NOT_VERIFIED,
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            "the database cannot be reached"
        }
    };
    OpsError::new(ErrorKind::Unavailable, why)
}

/// A statement that failed.
pub(super) fn failed(error: &Error) -> OpsError {
    match error {
        Error::Server(said) => {
            let kind = kind_of(said.code);
            OpsError::new(kind, format!("{} ({})", cut(&said.message), said.code))
        }
        // The size of a message is looked at before the message is read.
        error if is_too_large(error) => too_large("a row is too large to be returned"),
        error => {
            tracing::warn!(%error, source = error.source(), "a statement failed");
            OpsError::new(
                ErrorKind::Unavailable,
                "the connection to the database was lost",
            )
        }
    }
}

fn is_of_encryption(error: &std::io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<tokio_rustls::rustls::Error>)
}

fn kind_of(code: u16) -> ErrorKind {
    match code {
        // Its time is over; no lock was available in time.
        1205 | 1907 | 1969 | 3024 => ErrorKind::TimedOut,
        1044 | 1142 | 1143 | 1227 | 1345 | 1370 => ErrorKind::AccessDenied,
        1290 | 1792 => ErrorKind::Denied,
        // Somebody changed the same rows.
        1020 | 1213 => ErrorKind::Conflict,
        1021 | 1037 | 1038 | 1041 | 1114 | 1153 | 1301 => ErrorKind::LimitExceeded,
        1053 | 1152 | 1158..=1161 | 1317 | 1927 => ErrorKind::Unavailable,
        _ => ErrorKind::InvalidInput,
    }
}

fn is_too_large(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if matches!(
            error.downcast_ref::<DriverError>(),
            Some(DriverError::PacketTooLarge)
        ) || error
            .to_string()
            .ends_with("Packet is larger than max_allowed_packet")
        {
            return true;
        }
        next = error.source();
    }
    false
}

fn cut(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(MAX_SAID).collect()
}
