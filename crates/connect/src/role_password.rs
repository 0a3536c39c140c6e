//! The password of a server's role, read anew for each connection: whoever changes it restarts nothing.

use haft_contract::{
    ErrorKind,
    ops::OpsError,
    secret::{ReadSecret, Secret, SecretReference},
};

/// Reads the password, if the role has one.
pub(crate) async fn role_password(
    reference: Option<&SecretReference>,
    secrets: &dyn ReadSecret,
) -> Result<Option<Secret>, OpsError> {
    let Some(reference) = reference else {
        return Ok(None);
    };
    let secret = secrets.read(reference).await;
    secret.map(Some).map_err(|why| {
        tracing::warn!(%reference, %why, "the password of a database cannot be read");
        let not_there = "the database's password is not available to Haft";
        // Where a file lies on this machine stays in the log.
        let told = match reference {
            SecretReference::Env(_) => format!("{not_there}: {why}"),
            SecretReference::File(_) => format!("{not_there}; its operator can see why in the log"),
        };
        OpsError::new(ErrorKind::Unavailable, told)
    })
}
