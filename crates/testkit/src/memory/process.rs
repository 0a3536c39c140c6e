//! Processes in memory: a tiny shell over the tree, with the ordering, stopping and environment
//! rules of the real ones. No program of the machine is ever run.
//!
//! Commands: `echo`, `printf`, `cat`, `pwd`, `sleep`, `true`, `false`, `exit`, `kill … $$`,
//! `trap '' TERM`, `wait`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    BoxFuture, ErrorKind, WorkPath,
    access::Command,
    ops::{
        Exit, ExitStatus, Input, OpsError, OutputChunk, ProcessControls, ProcessHandle, ProcessOps,
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
    script::{self, Action, Piece, Redirect, Script, Word},
    tree::{MemoryTree, What},
};

/// How long output is still read after the child itself has ended.
const DRAIN_LIMIT: Duration = Duration::from_millis(300);

/// Chunks that wait to be read before a writer waits.
const CHUNK_QUEUE: usize = 16;

/// The largest chunk.
const CHUNK_BYTES: usize = 8 << 10;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

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

/// Refuses what no child may be started with.
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

/// Names that make other programs load or run code, or that are no names.
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
            "the command has no words",
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
    let control = Arc::new(Control {
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
        variables: Arc::new(variables),
        stdin: Arc::new(Mutex::new(match spawn.input {
            Input::Bytes(bytes) => bytes,
            Input::Closed | Input::Open => Vec::new(),
        })),
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
                End::Fell(code) | End::Exited(code) => ExitStatus::Code(code),
                End::Signalled(signal) => ExitStatus::Signal(signal),
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

/// What ends a child from outside.
struct Control {
    kill: CancellationToken,
    signal: AtomicI32,
    ignores_term: AtomicBool,
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

    fn wait(&mut self) -> BoxFuture<'_, Result<Exit, OpsError>> {
        Box::pin(async move {
            let status = self.status.wait_for(Option::is_some).await;
            status
                .ok()
                .and_then(|status| *status)
                .map(Exit::plain)
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
            // Every task of the tree holds a sender; `None` means that all of them are gone.
            while self.gone.recv().await.is_some() {}
            Ok(())
        })
    }
}

impl ProcessControls for Control {
    fn write<'a>(&'a self, _bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async { Err(without("open input")) })
    }

    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async { Ok(()) })
    }

    fn resize(&self, _size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async { Err(without("a terminal")) })
    }

    fn signal(&self, _signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async { Err(without("signals")) })
    }

    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>> {
        Box::pin(async { Ok(false) })
    }
}

fn without(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("a process in memory has no {what}"),
    )
}

impl Drop for MemoryProcess {
    fn drop(&mut self) {
        self.control.kill.cancel();
    }
}

/// How a command list ended.
enum End {
    /// At its last command, with that command's code.
    Fell(i32),
    /// By `exit`.
    Exited(i32),
    /// By a signal to itself.
    Signalled(i32),
}

/// One shell of a child: the first, or a subshell.
#[derive(Clone)]
struct Shell {
    tree: MemoryTree,
    cwd: WorkPath,
    variables: Arc<BTreeMap<String, String>>,
    stdin: Arc<Mutex<Vec<u8>>>,
    progress: bool,
    chunks: mpsc::Sender<(Stream, Vec<u8>)>,
    control: Arc<Control>,
    /// Never sent on; its last clone going away tells that the whole tree is gone.
    _alive: mpsc::Sender<()>,
}

impl Shell {
    fn run(self, script: Script) -> BoxFuture<'static, End> {
        Box::pin(async move {
            let mut code = 0;
            let mut jobs = Vec::new();
            for step in script {
                if step.background {
                    jobs.push(self.clone().in_background(step.action));
                    continue;
                }
                match step.action {
                    Action::Group(inner) => match self.clone().run(inner).await {
                        End::Fell(inner) | End::Exited(inner) => code = inner,
                        End::Signalled(signal) => return End::Signalled(signal),
                    },
                    Action::Simple { words, to } => {
                        let words: Vec<String> =
                            words.iter().map(|word| self.expand(word)).collect();
                        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                            ["exit"] => return End::Exited(code),
                            ["exit", number] => return End::Exited(number.parse().unwrap_or(2)),
                            ["kill", signal, "$$"] => {
                                return End::Signalled(match signal {
                                    "-TERM" | "-15" => SIGTERM,
                                    _ => SIGKILL,
                                });
                            }
                            ["wait"] => {
                                for job in jobs.drain(..) {
                                    let _ = job.await;
                                }
                                code = 0;
                            }
                            _ => code = self.command(&words, &to).await,
                        }
                    }
                }
            }
            End::Fell(code)
        })
    }

    fn in_background(self, action: Action) -> tokio::task::JoinHandle<()> {
        let control = Arc::clone(&self.control);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = control.kill.cancelled() => {}
                _ = self.run(vec![script::Step { action, background: false }]) => {}
            }
        })
    }

    async fn command(&self, words: &[String], to: &Redirect) -> i32 {
        let (name, rest) = words
            .split_first()
            .expect("the parser leaves no empty command");
        let text = match (name.as_str(), rest) {
            ("true", _) => return 0,
            ("false", _) => return 1,
            ("trap", [action, signal]) if action.is_empty() && signal == "TERM" => {
                self.control.ignores_term.store(true, Ordering::Relaxed);
                return 0;
            }
            ("sleep", [seconds]) => {
                let seconds = seconds.parse().unwrap_or(0.0);
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                return 0;
            }
            ("echo", words) => format!("{}\n", words.join(" ")).into_bytes(),
            ("printf", [format, words @ ..]) => printf(format, words).into_bytes(),
            ("pwd", []) if self.cwd.is_root() => format!("{ROOT}\n").into_bytes(),
            ("pwd", []) => format!("{ROOT}/{}\n", self.cwd).into_bytes(),
            ("cat", []) => {
                std::mem::take(&mut *self.stdin.lock().unwrap_or_else(PoisonError::into_inner))
            }
            ("cat", [file]) => {
                if let Some(bytes) = self.read(file) {
                    bytes
                } else {
                    let message = format!("cat: {file}: No such file or directory\n");
                    self.send(Stream::Stderr, message.into_bytes()).await;
                    return 1;
                }
            }
            (name, _) => {
                let message = format!("{name}: command not found\n");
                self.send(Stream::Stderr, message.into_bytes()).await;
                return 127;
            }
        };
        match to {
            Redirect::Stdout => self.send(Stream::Stdout, text).await,
            Redirect::Stderr => self.send(Stream::Stderr, text).await,
            Redirect::Progress if self.progress => self.send(Stream::Progress, text).await,
            Redirect::Progress => return 1,
            Redirect::File(word) => return self.write(&self.expand(word), text),
        }
        0
    }

    async fn send(&self, stream: Stream, bytes: Vec<u8>) {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            // A handle that is gone has killed this shell already.
            let _ = self.chunks.send((stream, chunk.to_vec())).await;
        }
    }

    fn read(&self, file: &str) -> Option<Vec<u8>> {
        let path = self.cwd.join(file).ok()?;
        let tree = self.tree.lock();
        tree.file(&path).ok().map(|(_, bytes)| bytes.to_vec())
    }

    fn write(&self, file: &str, bytes: Vec<u8>) -> i32 {
        let Ok(path) = self.cwd.join(file) else {
            return 1;
        };
        let mut tree = self.tree.lock();
        match tree.locate(&path) {
            Ok(Some(node)) if !matches!(node.what, What::File(_)) => 1,
            Ok(_) => {
                tree.insert(&path, What::File(Arc::new(bytes)), None);
                0
            }
            Err(_) => 1,
        }
    }

    fn expand(&self, word: &Word) -> String {
        word.iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Variable(name) if name == "$" => "$$",
                Piece::Variable(name) => self.variables.get(name).map_or("", String::as_str),
            })
            .collect()
    }
}

/// `%s`, `%%`, `\n` and `\\`; the format once, as the suite uses it.
fn printf(format: &str, words: &[String]) -> String {
    let mut words = words.iter();
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => match rest.next() {
                Some('s') => text.push_str(words.next().map_or("", String::as_str)),
                Some(c) => text.push(c),
                None => text.push('%'),
            },
            '\\' => match rest.next() {
                Some('n') => text.push('\n'),
                Some(c) => text.push(c),
                None => text.push('\\'),
            },
            c => text.push(c),
        }
    }
    text
}
