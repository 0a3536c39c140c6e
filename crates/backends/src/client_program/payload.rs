//! The program to upload: this one, or one the operator names.

use std::{fmt, fs::File, io::Read as _};

use haft_contract::{ErrorKind, ops::OpsError};
use haft_sandbox::{helper::Helper, pool::blocking};
use sha2::{Digest as _, Sha256};

use crate::remote::ConnectError;

/// The largest helper.
const MAX_HELPER_BYTES: u64 = 512 * 1024 * 1024;

/// The SHA-256 of a helper; its name on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl From<Sha256> for Digest {
    fn from(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Reads a helper's bytes.
pub(super) async fn read(helper: &Helper) -> Result<Vec<u8>, ConnectError> {
    let path = match helper {
        // The program that is running, even if its file was replaced since.
        Helper::CurrentExecutable if helper.is_this_program() => Some("/proc/self/exe".into()),
        Helper::CurrentExecutable | Helper::Path(_) => helper.locate(),
    }
    .ok_or_else(|| {
        ConnectError::new("this program cannot serve as Haft's helper on another machine").hint(
            "add the line `haft::helper::exit_if_asked();` as the first of a `main` that is not \
                 `async`, or name a helper",
        )
    })?;
    let shown = path.display().to_string();
    let read = blocking(move || {
        let fail = |error: std::io::Error| OpsError::new(ErrorKind::Io, error.to_string());
        let file = File::open(path).map_err(fail)?;
        let mut bytes = Vec::new();
        let read = file
            .take(MAX_HELPER_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(fail)?;
        if read as u64 > MAX_HELPER_BYTES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("it has more than {MAX_HELPER_BYTES} bytes"),
            ));
        }
        Ok(bytes)
    });
    read.await
        .map_err(|error| ConnectError::new(format!("the helper `{shown}` cannot be read: {error}")))
}
