//! The user's own `ssh` program: where it is and its command line.
//!
//! The command line depends only on the operator's options.

use std::ffi::OsString;

use haft_sandbox::helper::FLAG;

use super::options::SshOptions;
use crate::{
    client_program::{Digest, Launch, find_program},
    remote::{ConnectError, supervise::SERVE},
};

/// The environment variables it needs: for the user, the agent, tickets, and programs that the
/// configuration names.
const VARIABLES: [&str; 8] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "SSH_AUTH_SOCK",
    "SSH_SK_PROVIDER",
    "KRB5CCNAME",
    "XDG_RUNTIME_DIR",
];

/// Set whatever the configuration says: never prompt, never accept an unknown host, never run or
/// forward anything else.
const FIXED: [&str; 14] = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "RequestTTY=no",
    "RemoteCommand=none",
    "EscapeChar=none",
    "ConnectionAttempts=1",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
];

/// Where helpers are on the other side, below the directory a login starts in.
pub(super) const DIRECTORY: [&str; 2] = [".cache", ".cache/haft"];

/// The path of a helper on the other side.
pub(super) fn helper_path(digest: &Digest) -> String {
    format!("{}/helper-{digest}", DIRECTORY[1])
}

/// What a connection is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionPurpose<'a> {
    /// To run the helper with this digest, which serves.
    Serve(&'a Digest),
    /// To transfer files.
    Sftp,
}

/// What starts it, for a purpose.
pub(super) fn launch(
    options: &SshOptions,
    purpose: ConnectionPurpose<'_>,
) -> Result<Launch<'static>, ConnectError> {
    let program = options.program.clone().or_else(|| find_program("ssh"));
    let program = program.ok_or_else(|| {
        ConnectError::new("there is no `ssh` program here")
            .hint("install it (`apt install openssh-client`), or name it in `ssh.program`")
    })?;
    Ok(Launch {
        program,
        arguments: words(options, purpose),
        variables: &VARIABLES,
    })
}

/// Its command line arguments.
fn words(options: &SshOptions, purpose: ConnectionPurpose<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut option = |text: String| words.extend(["-o".into(), text.into()]);
    for fixed in FIXED {
        option(fixed.to_owned());
    }
    let connect = options.connect_timeout.as_secs().max(1);
    option(format!("ConnectTimeout={connect}"));
    let keepalive = options.keepalive.as_secs().max(1);
    option(format!("ServerAliveInterval={keepalive}"));
    if let Some(port) = options.port {
        option(format!("Port={port}"));
    }
    if let Some(file) = &options.known_hosts_file {
        option(format!("UserKnownHostsFile=\"{}\"", file.display()));
        option("GlobalKnownHostsFile=/dev/null".to_owned());
    }
    if let Some(file) = &options.identity_file {
        option("IdentitiesOnly=yes".to_owned());
        option(format!("IdentityFile=\"{}\"", file.display()));
    }
    if let Some(file) = &options.config_file {
        words.extend(["-F".into(), file.into()]);
    }
    if let ConnectionPurpose::Sftp = purpose {
        words.push("-s".into());
    }
    words.push("--".into());
    words.push(options.destination.as_str().into());
    words.push(match purpose {
        // One word: the other side's shell sees a constant, a hexadecimal number and a constant.
        ConnectionPurpose::Serve(digest) => {
            format!("exec {} {FLAG} {SERVE}", helper_path(digest)).into()
        }
        ConnectionPurpose::Sftp => "sftp".into(),
    });
    words
}

#[cfg(test)]
mod tests {
    use super::{super::destination::Destination, *};

    fn shown(options: &SshOptions, purpose: ConnectionPurpose<'_>) -> String {
        let words = words(options, purpose);
        words
            .iter()
            .skip(2 * FIXED.len())
            .map(|word| word.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_command_line_holds_the_operators_options_and_a_number() {
        let mut options = SshOptions::new(Destination::parse("me@build").unwrap());
        let digest = Digest::of(b"helper");
        assert_eq!(
            shown(&options, ConnectionPurpose::Serve(&digest)),
            format!(
                "-o ConnectTimeout=15 -o ServerAliveInterval=15 -- me@build exec \
                 .cache/haft/helper-{digest} __haft-helper serve"
            )
        );
        assert!(digest.to_string().chars().all(|c| c.is_ascii_hexdigit()));
        options.port = Some(2222);
        options.identity_file = Some("/home/me/my key".into());
        options.known_hosts_file = Some("/home/me/hosts".into());
        options.config_file = Some("/home/me/config".into());
        assert_eq!(
            shown(&options, ConnectionPurpose::Sftp),
            "-o ConnectTimeout=15 -o ServerAliveInterval=15 -o Port=2222 \
             -o UserKnownHostsFile=\"/home/me/hosts\" -o GlobalKnownHostsFile=/dev/null \
             -o IdentitiesOnly=yes -o IdentityFile=\"/home/me/my key\" -F /home/me/config -s -- \
             me@build sftp"
        );
    }
}
