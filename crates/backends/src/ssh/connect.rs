//! Connections over SSH: the helper is started by its hash, and uploaded first if it is not there
//! yet.

use std::{io::Cursor, time::Duration};

use haft_contract::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout},
    sync::Mutex,
    time::timeout,
};

use super::{
    diagnose::{diagnose, helper_is_missing, is_silent},
    options::SshOptions,
    payload::{self, Digest},
    program::{ConnectionPurpose, SILENT_TRIES, Ssh},
    upload,
};
use crate::remote::{Carrier, Connect, ConnectError, Connection, MAGIC, MAX_PREAMBLE_BYTES};

/// How long logging in and starting the helper may take after the machine is reached.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// Connects to one machine.
pub(super) struct SshConnect {
    options: SshOptions,
    digest: Digest,
}

/// A connection whose helper answers.
struct HelperConnection {
    ssh: Ssh,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// What it has sent so far: the magic, and perhaps what a login shell printed before it.
    said: Vec<u8>,
}

/// How an attempt to start the helper went.
enum Attempt {
    Answers(Box<HelperConnection>),
    /// The other side has no such helper.
    Missing,
    /// The connection ended without a reason.
    Silent,
}

impl SshConnect {
    /// Reads the helper, to know its name on the other side.
    pub(super) async fn new(options: SshOptions) -> Result<Self, ConnectError> {
        let invalid = |error| ConnectError::new(format!("{error}"));
        options.check().map_err(invalid)?;
        let digest = Digest::of(&payload::read(&options.helper).await?);
        Ok(Self { options, digest })
    }

    async fn start(&self) -> Result<HelperConnection, ConnectError> {
        if let Attempt::Answers(answering) = self.attempt().await? {
            return Ok(*answering);
        }
        tracing::info!(destination = %self.options.destination, "uploading Haft's helper");
        let bytes = payload::read(&self.options.helper).await?;
        if Digest::of(&bytes) != self.digest {
            return Err(ConnectError::new("the helper was replaced while Haft ran")
                .hint("start Haft again"));
        }
        upload::upload(&self.options, &self.digest, &bytes).await?;
        match self.attempt().await? {
            Attempt::Answers(answering) => Ok(*answering),
            // It was there a moment ago, so it is not the helper that is missing.
            Attempt::Missing | Attempt::Silent => {
                Err(diagnose(&self.options.destination, Some(127), ""))
            }
        }
    }

    /// Starts the helper; retries a few times if there is no reason why it does not start.
    async fn attempt(&self) -> Result<Attempt, ConnectError> {
        for _ in 0..SILENT_TRIES {
            match self.attempt_once().await? {
                Attempt::Silent => {
                    tracing::info!(destination = %self.options.destination, "closed the connection without a message");
                }
                other => return Ok(other),
            }
        }
        Err(diagnose(&self.options.destination, None, ""))
    }

    /// Starts the helper and waits until it answers or the connection ends.
    async fn attempt_once(&self) -> Result<Attempt, ConnectError> {
        let purpose = ConnectionPurpose::Serve(&self.digest);
        let (mut ssh, stdin, mut stdout) = Ssh::start(&self.options, purpose)?;
        let limit = self.options.connect_timeout + LOGIN_LIMIT;
        let destination = &self.options.destination;
        let late = |_| {
            ConnectError::new(format!(
                "`{destination}` took longer than {} s to log in and start the helper",
                limit.as_secs()
            ))
            .hint("raise `ssh.connect_timeout`")
        };
        let mut said = Vec::new();
        if timeout(limit, speaks(&mut stdout, &mut said))
            .await
            .map_err(late)?
        {
            return Ok(Attempt::Answers(Box::new(HelperConnection {
                ssh,
                stdin,
                stdout,
                said,
            })));
        }
        // Its input must end, or a shell that waits for more would not exit.
        drop(stdin);
        let (code, words) = timeout(limit, ssh.ended()).await.map_err(late)?;
        if helper_is_missing(code) && !words.contains("required file not found") {
            return Ok(Attempt::Missing);
        }
        if is_silent(code, &words) && said.is_empty() {
            return Ok(Attempt::Silent);
        }
        Err(diagnose(destination, code, &words))
    }
}

impl Connect for SshConnect {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            let HelperConnection {
                ssh,
                stdin,
                stdout,
                said,
            } = self.start().await?;
            Ok(Connection {
                reader: Box::new(Cursor::new(said).chain(stdout)),
                writer: Box::new(stdin),
                carrier: Box::new(SshCarrier {
                    ssh: Mutex::new(ssh),
                    options: self.options.clone(),
                }),
            })
        })
    }
}

/// The `ssh` process that carries a connection; ends with it.
struct SshCarrier {
    ssh: Mutex<Ssh>,
    options: SshOptions,
}

impl Carrier for SshCarrier {
    fn last_words(&self) -> BoxFuture<'_, Option<ConnectError>> {
        Box::pin(async {
            let (code, said) = self.ssh.lock().await.ended().await;
            Some(diagnose(&self.options.destination, code, &said))
        })
    }
}

/// Reads until the magic has arrived; `false` if the stream ends first or too much else arrived.
async fn speaks(stdout: &mut (impl AsyncRead + Unpin), said: &mut Vec<u8>) -> bool {
    while said.len() < MAX_PREAMBLE_BYTES {
        match stdout.read_buf(said).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {
                if said.windows(MAGIC.len()).any(|window| window == MAGIC) {
                    return true;
                }
            }
        }
    }
    false
}
