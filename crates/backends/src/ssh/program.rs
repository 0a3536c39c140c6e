//! The user's own `ssh` program: where it is, its command line, and starting it.
//!
//! The command line depends only on the operator's options. It starts in `/` with the few variables
//! a login gives it, in its own process group, and is killed on drop.

use std::{
    ffi::OsString,
    fmt::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use haft_sandbox::helper::FLAG;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use super::{options::SshOptions, payload::Digest};
use crate::remote::{ConnectError, supervise::SERVE};

/// Where a system-wide `ssh` is installed.
const PLACES: [&str; 3] = ["/usr/bin/ssh", "/usr/local/bin/ssh", "/bin/ssh"];

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

/// The most bytes kept of its standard error: the last ones.
const MAX_SAID_BYTES: usize = 8 * 1024;

/// How often to try a connection if the other side hangs up without a message, before anything was
/// started there. A server with too many logins at once does that, and so does OpenSSH's pre-login
/// process when the machine stalls for a moment: its sandbox does not know `restart_syscall`.
pub(super) const SILENT_TRIES: usize = 3;

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

/// A running `ssh`, killed on drop.
pub(super) struct Ssh {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    listening: Option<JoinHandle<()>>,
}

impl Ssh {
    /// Starts it.
    pub(super) fn start(
        options: &SshOptions,
        purpose: ConnectionPurpose<'_>,
    ) -> Result<(Self, ChildStdin, ChildStdout), ConnectError> {
        let program = find(options)?;
        let mut child = Command::new(&program)
            .args(words(options, purpose))
            .env_clear()
            .envs(VARIABLES.iter().filter_map(|name| {
                let value = std::env::var_os(name)?;
                Some((*name, value))
            }))
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                ConnectError::new(format!(
                    "`{}` cannot be started: {error}",
                    program.display()
                ))
            })?;
        let piped = || ConnectError::new("`ssh` was started without its streams");
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        let stderr = child.stderr.take().ok_or_else(piped)?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let listening = tokio::spawn(listen(stderr, Arc::clone(&said)));
        let ssh = Self {
            child,
            said,
            listening: Some(listening),
        };
        Ok((ssh, stdin, stdout))
    }

    /// Waits for its end; returns the exit code, and the end of its error output.
    pub(super) async fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().await.ok();
        if let Some(listening) = self.listening.take() {
            // Everything it wrote is in the pipe by now.
            let _ = listening.await;
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = String::from_utf8_lossy(&said).into_owned();
        if let Some(signal) = status.and_then(|status| status.signal()) {
            // Writing to a `String` cannot fail.
            let _ = write!(said, "\n`ssh` was ended by signal {signal}");
        }
        (status.and_then(|status| status.code()), said)
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
    }
}

/// Keeps the last bytes of its error output.
async fn listen(mut stderr: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 1024];
    while let Ok(got) = stderr.read(&mut buffer).await {
        if got == 0 {
            return;
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(buffer.get(..got).unwrap_or_default());
        let over = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..over);
    }
}

/// The program, at an absolute path and never through `PATH`.
fn find(options: &SshOptions) -> Result<PathBuf, ConnectError> {
    match &options.program {
        Some(program) => Ok(program.clone()),
        None => PLACES
            .iter()
            .map(Path::new)
            .find(|place| place.is_file())
            .map(Path::to_path_buf)
            .ok_or_else(|| {
                ConnectError::new("there is no `ssh` program here")
                    .hint("install it (`apt install openssh-client`), or name it in `ssh.program`")
            }),
    }
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

    #[tokio::test]
    async fn only_the_last_words_are_kept() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let long = [vec![b'x'; 3 * MAX_SAID_BYTES], b"the end".to_vec()].concat();
        listen(long.as_slice(), Arc::clone(&said)).await;
        let said = said.lock().unwrap();
        assert_eq!(said.len(), MAX_SAID_BYTES);
        assert!(said.ends_with(b"the end"));
    }
}
