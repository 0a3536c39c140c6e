//! The last failure of each mounted server, so that `haft mcp status` can show it when no Haft is
//! running. A failure is forgotten when the server starts, and ignored once its entry names another
//! program or address.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_contract::host::Timestamp;
use haft_mcp::{name::ServerId, pin::Digest};
use serde::{Deserialize, Serialize};

use super::{pins, private};

/// The directory, below that of mounted servers.
const DIRECTORY: &str = "failed";

/// The largest file that is read.
const MAX_BYTES: u64 = 64 * 1024;

/// A failure as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The digest of the program or address that failed.
    origin: String,
    /// When, in microseconds since 1970.
    pub at_us: i64,
    /// Why, with the server's last output; escaped.
    pub why: String,
}

/// The stored failures of a data directory.
#[derive(Debug, Clone)]
pub struct Failures(PathBuf);

impl Failures {
    /// The store in a data directory.
    pub fn new(data_dir: &Path) -> Self {
        Self(data_dir.join(pins::DIRECTORY).join(DIRECTORY))
    }

    /// The last failure of a server, if it has not started since.
    pub fn last(&self, server: &ServerId, origin: Digest) -> Option<Failure> {
        let bytes = private::read_own(&self.path(server), MAX_BYTES).ok()??;
        let failure: Failure = serde_json::from_slice(&bytes).ok()?;
        (failure.origin == origin.to_string()).then_some(failure)
    }

    /// Stores a failure. If that does not work, `haft mcp status` just shows less.
    pub fn keep(&self, server: &ServerId, origin: Digest, at: Timestamp, why: &str) {
        let failure = Failure {
            origin: origin.to_string(),
            at_us: at.0,
            why: why.to_owned(),
        };
        let kept = serde_json::to_vec(&failure)
            .map_err(std::io::Error::other)
            .and_then(|bytes| {
                private::make_directory(&self.0)?;
                private::replace(&self.path(server), &bytes)
            });
        if let Err(error) = kept {
            tracing::debug!(%server, %error, "how it failed is not kept");
        }
    }

    /// Forgets a server's failure, because it has started.
    pub fn forget(&self, server: &ServerId) {
        // Usually there is nothing to forget.
        let _ = fs::remove_file(self.path(server));
    }

    fn path(&self, server: &ServerId) -> PathBuf {
        self.0.join(format!("{server}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_kept_until_the_server_starts_or_is_another() {
        let data = tempfile::tempdir().unwrap();
        let failures = Failures::new(data.path());
        let server = ServerId::parse("a").unwrap();
        let (one, other) = (Digest::of_bytes(b"1"), Digest::of_bytes(b"2"));
        assert_eq!(failures.last(&server, one), None);
        failures.keep(&server, one, Timestamp(7), "it exited");
        let kept = failures.last(&server, one).unwrap();
        assert_eq!((kept.at_us, kept.why.as_str()), (7, "it exited"));
        assert_eq!(failures.last(&server, other), None);
        failures.forget(&server);
        assert_eq!(failures.last(&server, one), None);
    }
}
