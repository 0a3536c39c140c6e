//! What PostgreSQL's errors mean for the ledger.

use std::{error::Error as _, io};

use tokio_postgres::error::SqlState;
use tokio_rustls::rustls::{self, pki_types::InvalidDnsNameError};

use crate::store::StoreError;

/// An error in words that name no path, no statement and no password.
pub(super) fn failed(error: &tokio_postgres::Error) -> StoreError {
    let Some(refused) = error.as_db_error() else {
        tracing::debug!(%error, "PostgreSQL could not be used");
        let why = if error.is_closed() {
            "the database has closed the connection".to_owned()
        } else {
            not_encrypted(error).unwrap_or_else(|| "the database cannot be reached".to_owned())
        };
        return StoreError::Unreachable(why);
    };
    let code = refused.code();
    let another_was_first = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
    ];
    if another_was_first.contains(code) {
        return StoreError::Busy(refused.message().to_owned());
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        let why = "the database is read-only at the moment: it is a standby, or somebody made it read-only";
        return StoreError::Refused(why.to_owned());
    }
    match code.code().get(..2) {
        // Its own words name files.
        Some("53") => StoreError::Refused("the database has no space or memory left".to_owned()),
        Some("57") if *code != SqlState::QUERY_CANCELED => {
            StoreError::Unreachable(refused.message().to_owned())
        }
        _ => StoreError::Refused(refused.message().to_owned()),
    }
}

/// Why a connection could not be encrypted and its server verified, if that is what failed.
fn not_encrypted(error: &tokio_postgres::Error) -> Option<String> {
    let cause = error.source()?;
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        let refused = io.get_ref()?.downcast_ref::<rustls::Error>()?;
        return Some(match refused {
            rustls::Error::InvalidCertificate(reason) => format!(
                "the database's certificate is not accepted ({reason}); the host in the address must be \
                 a name in the certificate, and an authority of your own is named with \
                 `sslrootcert=/path/to/ca.pem`"
            ),
            other => format!("the connection to the database cannot be encrypted ({other})"),
        });
    }
    if cause.is::<InvalidDnsNameError>() {
        return Some("the database's host is not a name that a certificate can have".to_owned());
    }
    // The driver has no type for these.
    match cause.to_string().as_str() {
        "server does not support TLS" => Some(
            "the database does not encrypt connections, and it is on another machine or `sslmode` asks for \
             it; turn on `ssl` in its configuration"
                .to_owned(),
        ),
        "no hostname provided for TLS handshake" => Some(
            "the database's address has no host name to compare its certificate with; add `host=`".to_owned(),
        ),
        _ => None,
    }
}

pub(super) fn unreachable(why: &str) -> StoreError {
    StoreError::Unreachable(why.to_owned())
}
