//! Work that may wait for a disk, off the async threads.

use haft_contract::{ErrorKind, ops::OpsError};

/// Runs blocking work on tokio's blocking pool. If the caller stops waiting, the work still runs to
/// its end, so it must leave nothing half done.
pub async fn blocking<T, F>(work: F) -> Result<T, OpsError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, OpsError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "blocking file work did not finish");
            Err(OpsError::new(
                ErrorKind::Internal,
                "internal error; see the log for details",
            ))
        }
    }
}
