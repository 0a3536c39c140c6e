//! Connecting to another machine and opening a workspace there.

use std::sync::Arc;

use haft_contract::ops::{BackendId, Operations};

use super::{connect::SshPlace, options::SshOptions, ssh_id};
use crate::{
    client_program::ProgramConnect,
    remote::{ConnectError, RemoteBackend},
};

/// A workspace over SSH.
#[derive(Debug, Clone, Copy)]
pub struct SshBackend;

impl SshBackend {
    /// Connects and opens a workspace. A root that does not start with `/`, or starts with `~/`, is
    /// relative to the directory that a login starts in.
    pub async fn connect(options: SshOptions, root: &str) -> Result<Operations, ConnectError> {
        let backend = BackendId::new(&ssh_id(&options.destination));
        let remote = options.remote.clone();
        let invalid = |error| ConnectError::new(format!("{error}"));
        options.check().map_err(invalid)?;
        let connect = ProgramConnect::new(SshPlace(options)).await?;
        RemoteBackend::connect(backend, Arc::new(connect), below_login(root), remote).await
    }
}

/// The helper starts in the login directory, so paths below it need no prefix.
fn below_login(root: &str) -> &str {
    match root.strip_prefix("~/") {
        Some("") => ".",
        Some(rest) => rest,
        None if root == "~" || root.is_empty() => ".",
        None => root,
    }
}

#[cfg(test)]
mod tests {
    use super::below_login;

    #[test]
    fn the_home_directory_is_where_a_login_starts() {
        for (root, expect) in [
            ("/srv/app", "/srv/app"),
            ("~", "."),
            ("~/", "."),
            ("~/src/app", "src/app"),
            ("src/app", "src/app"),
            ("", "."),
            ("/srv/~/x", "/srv/~/x"),
        ] {
            assert_eq!(below_login(root), expect, "{root}");
        }
    }
}
