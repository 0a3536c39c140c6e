//! Starting the helper through a client program: it is started by its hash, and brought there first
//! if it is missing.

use std::{fmt::Display, io::Cursor, sync::Arc, time::Duration};

use haft_contract::future::BoxFuture;
use haft_sandbox::helper::Helper;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout},
    sync::Mutex,
    time::timeout,
};

use super::{
    payload::{self, Digest},
    running::{Launch, RunningClient},
};
use crate::remote::{Carrier, Connect, ConnectError, Connection, MAGIC, MAX_PREAMBLE_BYTES};

/// How often to try a connection if the other side hangs up without a message, before anything was
/// started there. An SSH server with too many logins at once does that, and so does OpenSSH's
/// pre-login process when the machine stalls for a moment: its sandbox does not know
/// `restart_syscall`.
pub(crate) const SILENT_TRIES: usize = 3;

/// What it means that a client program ended before the helper answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// The other side has no such helper.
    Missing,
    /// The connection ended without a reason, so that it is worth another try.
    #[cfg_attr(not(feature = "ssh"), expect(dead_code, reason = "only `ssh` does"))]
    Silent,
    /// It failed; its words say why.
    Failed,
}

/// Where a helper is started and what gets there.
pub(crate) trait HelperPlace: Send + Sync + 'static {
    /// What people know the place by.
    fn name(&self) -> &dyn Display;

    /// The program that serves there.
    fn helper(&self) -> &Helper;

    /// How long it may take until the helper answers, and the setting that extends it.
    fn limit(&self) -> (Duration, &'static str);

    /// The client program that starts the helper.
    fn serve(&self, digest: &Digest) -> Result<Launch<'_>, ConnectError>;

    /// Brings the helper there, under the name of its hash.
    fn upload<'a>(
        &'a self,
        digest: &'a Digest,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<(), ConnectError>>;

    /// What it means that the client program ended with this.
    fn judge(&self, code: Option<i32>, said: &str) -> ClientEnd;

    /// The error for a connection that ended.
    fn diagnose(&self, code: Option<i32>, said: &str) -> ConnectError;
}

/// Connects to one place.
pub(crate) struct ProgramConnect<P> {
    place: Arc<P>,
    digest: Digest,
}

/// A connection whose helper answers.
struct HelperConnection {
    client: RunningClient,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// What it has sent so far: the magic, and perhaps what a login shell printed before it.
    said: Vec<u8>,
}

/// How an attempt to start the helper went.
enum Attempt {
    Answers(Box<HelperConnection>),
    /// The other side has no such helper; how the client program ended.
    Missing(Option<i32>, String),
    /// The connection ended without a reason.
    Silent,
}

impl<P: HelperPlace> ProgramConnect<P> {
    /// Reads the helper, to know its name on the other side.
    pub(crate) async fn new(place: P) -> Result<Self, ConnectError> {
        let digest = Digest::of(&payload::read(place.helper()).await?);
        Ok(Self {
            place: Arc::new(place),
            digest,
        })
    }

    async fn start(&self) -> Result<HelperConnection, ConnectError> {
        if let Attempt::Answers(answering) = self.attempt().await? {
            return Ok(*answering);
        }
        tracing::info!(place = %self.place.name(), "uploading Haft's helper");
        let bytes = payload::read(self.place.helper()).await?;
        if Digest::of(&bytes) != self.digest {
            return Err(ConnectError::new("the helper was replaced while Haft ran")
                .hint("start Haft again"));
        }
        self.place.upload(&self.digest, &bytes).await?;
        match self.attempt().await? {
            Attempt::Answers(answering) => Ok(*answering),
            // It was there a moment ago, so it is not the helper that is missing.
            Attempt::Missing(code, said) => Err(self.place.diagnose(code, &said)),
            Attempt::Silent => Err(self.place.diagnose(None, "")),
        }
    }

    /// Starts the helper; retries a few times if there is no reason why it does not start.
    async fn attempt(&self) -> Result<Attempt, ConnectError> {
        for _ in 0..SILENT_TRIES {
            match self.attempt_once().await? {
                Attempt::Silent => {
                    tracing::info!(place = %self.place.name(), "closed the connection without a message");
                }
                other => return Ok(other),
            }
        }
        Err(self.place.diagnose(None, ""))
    }

    /// Starts the helper and waits until it answers or the connection ends.
    async fn attempt_once(&self) -> Result<Attempt, ConnectError> {
        let place = &self.place;
        let launch = place.serve(&self.digest)?;
        let (mut client, stdin, mut stdout) = RunningClient::start(launch)?;
        let (limit, setting) = place.limit();
        let late = |_| {
            ConnectError::new(format!(
                "`{}` took longer than {} s to start Haft's helper",
                place.name(),
                limit.as_secs()
            ))
            .hint(format!("raise `{setting}`"))
        };
        let mut said = Vec::new();
        if timeout(limit, speaks(&mut stdout, &mut said))
            .await
            .map_err(late)?
        {
            return Ok(Attempt::Answers(Box::new(HelperConnection {
                client,
                stdin,
                stdout,
                said,
            })));
        }
        // Its input must end, or a shell that waits for more would not exit.
        drop(stdin);
        let (code, words) = timeout(limit, client.ended()).await.map_err(late)?;
        match place.judge(code, &words) {
            ClientEnd::Missing => Ok(Attempt::Missing(code, words)),
            ClientEnd::Silent if said.is_empty() => Ok(Attempt::Silent),
            ClientEnd::Silent | ClientEnd::Failed => Err(place.diagnose(code, &words)),
        }
    }
}

impl<P: HelperPlace> Connect for ProgramConnect<P> {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            let HelperConnection {
                client,
                stdin,
                stdout,
                said,
            } = self.start().await?;
            Ok(Connection {
                reader: Box::new(Cursor::new(said).chain(stdout)),
                writer: Box::new(stdin),
                carrier: Box::new(ProgramCarrier {
                    client: Mutex::new(client),
                    place: Arc::clone(&self.place),
                }),
            })
        })
    }
}

/// The client program that carries a connection; ends with it.
struct ProgramCarrier<P> {
    client: Mutex<RunningClient>,
    place: Arc<P>,
}

impl<P: HelperPlace> Carrier for ProgramCarrier<P> {
    fn last_words(&self) -> BoxFuture<'_, Option<ConnectError>> {
        Box::pin(async {
            let (code, said) = self.client.lock().await.ended().await;
            Some(self.place.diagnose(code, &said))
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
