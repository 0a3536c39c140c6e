//! In-memory processes: a tiny shell over the tree, with the ordering, stopping, terminal and
//! environment rules of real ones. No program of the machine is ever run. Read next: `shell`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    BoxFuture, ErrorKind,
    access::Command,
    ops::{
        ChildExit, ExitStatus, OpsError, OutputChunk, ProcessControls, ProcessHandle, ProcessOps,
        ProcessSignal, Spawn, Stream, TerminalSize, Tier,
    },
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    ROOT,
    input::{Key, MemoryInput},
    script::{self, Action, Piece, Redirect, Script},
    shell::{ListEnd, Shell},
    tree::MemoryTree,
};

/// How long output is still read after the child itself has ended.
const DRAIN_LIMIT: Duration = Duration::from_millis(300);

/// Chunks queued for reading before a writer has to wait.
const CHUNK_QUEUE: usize = 16;

pub(super) const SIGKILL: i32 = 9;
pub(super) const SIGTERM: i32 = 15;

/// Processes of one tree.
pub(super) struct MemoryProcesses {
    tree: MemoryTree,
}

impl MemoryProcesses {
    pub(super) fn new(tree: MemoryTree) -> Self {
        Self { tree }
    }
}

impl ProcessOps for MemoryProcesses {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            check(&self.tree, &spawn)?;
            let script = script(&spawn.command)?;
            Ok(Box::new(start(self.tree.clone(), spawn, script)) as Box<dyn ProcessHandle>)
        })
    }
}

/// Refuses anything no child may be started with.
fn check(tree: &MemoryTree, spawn: &Spawn) -> Result<(), OpsError> {
    if spawn.tier != Tier::Host {
        return Err(OpsError::new(
            ErrorKind::TierUnavailable,
            format!("the in-memory back end has no tier `{}`", spawn.tier),
        ));
    }
    if spawn.pinned.is_some() {
        return Err(OpsError::new(
            ErrorKind::AccessDenied,
            "the in-memory back end has no program files whose hash could be checked",
        ));
    }
    if let Some(name) = spawn.environment.keys().find(|name| runs_code(name)) {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            format!("the variable `{name}` may not be set"),
        ));
    }
    tree.lock().directory(&spawn.cwd)
}

/// Names that make other programs load or run code, or that are not valid names.
fn runs_code(name: &str) -> bool {
    const REFUSED: [&str; 16] = [
        "BASH_ENV",
        "ENV",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "IFS",
        "CDPATH",
        "PATH",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "RUBYOPT",
    ];
    const PREFIXES: [&str; 4] = ["LD_", "GIT_", "BASH_FUNC_", "DYLD_"];
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    !is_name || REFUSED.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn script(command: &Command) -> Result<Script, OpsError> {
    match command {
        Command::Shell(text) => script::parse(text).map_err(|message| {
            OpsError::new(
                ErrorKind::InvalidInput,
                format!("in-memory shell: {message}"),
            )
        }),
        Command::Argv(argv) if argv.is_empty() => Err(OpsError::new(
            ErrorKind::InvalidInput,
            "the command is empty",
        )),
        Command::Argv(argv) => Ok(vec![script::Step {
            action: Action::Simple {
                words: argv
                    .iter()
                    .map(|word| vec![Piece::Text(word.clone())])
                    .collect(),
                to: Redirect::Stdout,
            },
            background: false,
        }]),
    }
}

fn start(tree: MemoryTree, spawn: Spawn, script: Script) -> MemoryProcess {
    let (chunks, output) = mpsc::channel(CHUNK_QUEUE);
    let (exited, status) = watch::channel(None);
    let (alive, gone) = mpsc::channel(1);
    let input = Arc::new(MemoryInput::new(
        spawn.input,
        spawn.terminal,
        chunks.downgrade(),
    ));
    let control = Arc::new(Control {
        input: Arc::clone(&input),
        held: watch::Sender::new(false),
        kill: CancellationToken::new(),
        signal: AtomicI32::new(SIGKILL),
        ignores_term: AtomicBool::new(false),
    });
    let mut variables: BTreeMap<String, String> = [("PATH", "/bin"), ("HOME", ROOT)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    variables.extend(spawn.environment);
    let shell = Shell {
        tree,
        cwd: spawn.cwd,
        variables,
        input,
        progress: spawn.progress_channel,
        chunks,
        control: Arc::clone(&control),
        _alive: alive,
    };
    let killed = Arc::clone(&control);
    tokio::spawn(async move {
        let status = tokio::select! {
            biased;
            () = killed.kill.cancelled() => {
                ExitStatus::Signal(killed.signal.load(Ordering::Relaxed))
            }
            end = shell.run(script) => match end {
                ListEnd::Fell(code) | ListEnd::Exited(code) => ExitStatus::Code(code),
                ListEnd::Signalled(signal) => ExitStatus::Signal(signal),
            },
        };
        exited.send_replace(Some(status));
    });
    MemoryProcess {
        output,
        status,
        gone,
        control,
        sequence: 0,
        drain_until: None,
    }
}

/// How a child is controlled from outside.
pub(super) struct Control {
    input: Arc<MemoryInput>,
    /// Whether it is stopped and not yet continued.
    held: watch::Sender<bool>,
    kill: CancellationToken,
    signal: AtomicI32,
    pub(super) ignores_term: AtomicBool,
}

impl Control {
    /// Fires when the whole tree must end.
    pub(super) fn killed(&self) -> &CancellationToken {
        &self.kill
    }

    /// Waits while the child is stopped.
    pub(super) async fn unless_held(&self) {
        let _ = self.held.subscribe().wait_for(|held| !*held).await;
    }

    fn take(&self, signal: ProcessSignal) {
        let number = match signal {
            ProcessSignal::Stop | ProcessSignal::Continue => {
                self.held.send_replace(signal == ProcessSignal::Stop);
                return;
            }
            ProcessSignal::Terminate if self.ignores_term.load(Ordering::Relaxed) => return,
            ProcessSignal::Terminate => SIGTERM,
            ProcessSignal::HangUp => 1,
            ProcessSignal::Interrupt => 2,
            ProcessSignal::Quit => 3,
            ProcessSignal::Kill => SIGKILL,
            ProcessSignal::User1 => 10,
            ProcessSignal::User2 => 12,
        };
        self.signal.store(number, Ordering::Relaxed);
        self.kill.cancel();
    }
}

/// A running child.
struct MemoryProcess {
    output: mpsc::Receiver<(Stream, Vec<u8>)>,
    status: watch::Receiver<Option<ExitStatus>>,
    gone: mpsc::Receiver<()>,
    control: Arc<Control>,
    sequence: u64,
    drain_until: Option<Instant>,
}

impl ProcessHandle for MemoryProcess {
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>> {
        Box::pin(async move {
            let drained = async {
                let _ = self.status.wait_for(Option::is_some).await;
                let until = *self
                    .drain_until
                    .get_or_insert_with(|| Instant::now() + DRAIN_LIMIT);
                tokio::time::sleep_until(until).await;
            };
            let (stream, bytes) = tokio::select! {
                biased;
                chunk = self.output.recv() => chunk?,
                () = drained => return None,
            };
            let sequence = self.sequence;
            self.sequence += 1;
            Some(OutputChunk {
                sequence,
                stream,
                bytes,
            })
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>> {
        Box::pin(async move {
            let status = self.status.wait_for(Option::is_some).await;
            status
                .ok()
                .and_then(|status| *status)
                .map(ChildExit::plain)
                .ok_or_else(|| OpsError::new(ErrorKind::Internal, "the child's task is gone"))
        })
    }

    fn controls(&self) -> Arc<dyn ProcessControls> {
        Arc::<Control>::clone(&self.control)
    }

    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            if self.control.ignores_term.load(Ordering::Relaxed) {
                let _ = tokio::time::timeout(grace, self.gone.recv()).await;
                self.control.signal.store(SIGKILL, Ordering::Relaxed);
            } else {
                self.control.signal.store(SIGTERM, Ordering::Relaxed);
            }
            self.control.kill.cancel();
            // Every task of the tree holds a sender; `None` means that all are gone.
            while self.gone.recv().await.is_some() {}
            Ok(())
        })
    }
}

impl ProcessControls for Control {
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            for key in self.input.write(bytes).await? {
                self.take(match key {
                    Key::Interrupt => ProcessSignal::Interrupt,
                    Key::Quit => ProcessSignal::Quit,
                });
            }
            Ok(())
        })
    }

    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async { self.input.close() })
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move { self.input.resize(size) })
    }

    fn signal(&self, signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            self.take(signal);
            Ok(())
        })
    }

    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>> {
        Box::pin(async { Ok(!self.kill.is_cancelled() && self.input.is_awaited()) })
    }
}

impl Drop for MemoryProcess {
    fn drop(&mut self) {
        self.control.kill.cancel();
    }
}
