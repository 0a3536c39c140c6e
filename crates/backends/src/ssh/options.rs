//! An operator's settings for a connection. Everything else comes from the user's own SSH
//! configuration; nothing that would weaken the connection can be set.

#[cfg(feature = "ssh")]
use std::path::Path;
use std::{path::PathBuf, time::Duration};

use haft_sandbox::helper::Helper;

use super::destination::Destination;
use crate::remote::RemoteOptions;

/// How to reach a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshOptions {
    /// Where to connect to.
    pub destination: Destination,
    /// The port, if it is not the default or the configuration's.
    pub port: Option<u16>,
    /// The only key to offer, instead of the agent's and the default ones.
    pub identity_file: Option<PathBuf>,
    /// Where host keys are looked up, instead of the default files.
    pub known_hosts_file: Option<PathBuf>,
    /// The configuration to read, instead of the default files.
    pub config_file: Option<PathBuf>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// After how much silence the connection is probed; three unanswered probes end it.
    pub keepalive: Duration,
    /// The `ssh` program, if it is not at one of the usual places. Absolute.
    pub program: Option<PathBuf>,
    /// The program to upload, which then serves. It must run on the other machine.
    pub helper: Helper,
    /// How the workspace behaves.
    pub remote: RemoteOptions,
}

/// An option has an unusable value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{option}` cannot be `{}`: {why}", .value.escape_debug())]
pub struct SshOptionsError {
    option: &'static str,
    value: String,
    why: &'static str,
}

impl SshOptions {
    /// The default options for a destination.
    pub fn new(destination: Destination) -> Self {
        Self {
            destination,
            port: None,
            identity_file: None,
            known_hosts_file: None,
            config_file: None,
            connect_timeout: Duration::from_secs(15),
            keepalive: Duration::from_secs(15),
            program: None,
            helper: Helper::default(),
            remote: RemoteOptions::default(),
        }
    }

    /// Refuses paths that the `ssh` program would not take literally.
    #[cfg(feature = "ssh")]
    pub(super) fn check(&self) -> Result<(), SshOptionsError> {
        for (option, path) in [
            ("identity_file", &self.identity_file),
            ("known_hosts_file", &self.known_hosts_file),
            ("config_file", &self.config_file),
            ("program", &self.program),
        ] {
            if let Some(path) = path {
                check_path(option, path)?;
            }
        }
        Ok(())
    }
}

/// `ssh` expands `%` and `${}` in file names and splits them at quotes.
#[cfg(feature = "ssh")]
fn check_path(option: &'static str, path: &Path) -> Result<(), SshOptionsError> {
    let fail = |why| SshOptionsError {
        option,
        value: path.display().to_string(),
        why,
    };
    let text = path.to_str().ok_or_else(|| fail("it is not valid UTF-8"))?;
    if !path.is_absolute() {
        return Err(fail("an absolute path is needed"));
    }
    if text.contains(['"', '\\', '%', '$']) || text.chars().any(char::is_control) {
        return Err(fail("`ssh` would read more into it than a path"));
    }
    Ok(())
}

#[cfg(all(test, feature = "ssh"))]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_mean_themselves() {
        let check = |path: &str| check_path("identity_file", Path::new(path)).is_ok();
        assert!(check("/home/me/.ssh/id with space"));
        for path in ["id", "~/.ssh/id", "/a/%h", "/a/${X}", "/a\"b", "/a\nb"] {
            assert!(!check(path), "{path}");
        }
    }
}
