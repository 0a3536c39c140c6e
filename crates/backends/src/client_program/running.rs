//! A running client program: starting it, and what it says when it ends.
//!
//! It starts in `/` with a few variables of its user, in its own process group, and is killed on
//! drop. Its command line is the caller's; nothing of a call is ever on it.

use std::{
    ffi::OsString,
    fmt::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::remote::ConnectError;

/// The most bytes kept of its standard error: the last ones.
const MAX_SAID_BYTES: usize = 8 * 1024;

/// What to start.
pub(crate) struct Launch<'a> {
    /// The program, absolute.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The variables of this process that it gets; all others are cleared.
    pub(crate) variables: &'a [&'a str],
}

/// A client program that runs, killed on drop.
pub(crate) struct RunningClient {
    child: Child,
    /// The name of the program, for messages.
    name: String,
    said: Arc<Mutex<Vec<u8>>>,
    listening: Option<JoinHandle<()>>,
}

impl RunningClient {
    /// Starts it.
    pub(crate) fn start(
        launch: Launch<'_>,
    ) -> Result<(Self, ChildStdin, ChildStdout), ConnectError> {
        let program = launch.program;
        let mut child = Command::new(&program)
            .args(launch.arguments)
            .env_clear()
            .envs(launch.variables.iter().filter_map(|name| {
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
        let name = program
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let piped = || ConnectError::new(format!("`{name}` was started without its streams"));
        let stdin = child.stdin.take().ok_or_else(piped)?;
        let stdout = child.stdout.take().ok_or_else(piped)?;
        let stderr = child.stderr.take().ok_or_else(piped)?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let listening = tokio::spawn(listen(stderr, Arc::clone(&said)));
        let client = Self {
            child,
            name,
            said,
            listening: Some(listening),
        };
        Ok((client, stdin, stdout))
    }

    /// Waits for its end; returns the exit code, and the end of its error output.
    pub(crate) async fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().await.ok();
        if let Some(listening) = self.listening.take() {
            // Everything it wrote is in the pipe by now.
            let _ = listening.await;
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = String::from_utf8_lossy(&said).into_owned();
        if let Some(signal) = status.and_then(|status| status.signal()) {
            // Writing to a `String` cannot fail.
            let _ = write!(said, "\n`{}` was ended by signal {signal}", self.name);
        }
        (status.and_then(|status| status.code()), said)
    }
}

impl Drop for RunningClient {
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

/// A system-wide program of this name, at an absolute path and never through `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/local/bin", "/bin"]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|place| place.is_file())
}

/// 128 random bits in hexadecimal.
pub(crate) fn random_name() -> Result<String, rustix::io::Errno> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut name = String::with_capacity(32);
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
