//! The in-memory shell: runs a script over the tree.
//!
//! Commands: `echo`, `printf`, `cat`, `pwd`, `read NAME`, `sleep`, `test -t N`, `stty size`,
//! `true`, `false`, `exit`, `kill … $$`, `trap '' TERM`, `wait`.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_contract::{BoxFuture, WorkPath, ops::Stream};
use tokio::sync::mpsc;

use super::{
    ROOT,
    input::{MemoryInput, shown},
    process::{Control, SIGKILL, SIGTERM},
    script::{self, Action, Piece, Redirect, Script, Word},
    tree::{MemoryTree, NodeKind},
};

/// The largest chunk.
const CHUNK_BYTES: usize = 8 << 10;

/// How a command list ended.
pub(super) enum ListEnd {
    /// At its last command, with that command's code.
    Fell(i32),
    /// By `exit`.
    Exited(i32),
    /// By a signal to itself.
    Signalled(i32),
}

/// One shell of a child: the first, or a subshell.
#[derive(Clone)]
pub(super) struct Shell {
    pub(super) tree: MemoryTree,
    pub(super) cwd: WorkPath,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) input: Arc<MemoryInput>,
    pub(super) progress: bool,
    pub(super) chunks: mpsc::Sender<(Stream, Vec<u8>)>,
    pub(super) control: Arc<Control>,
    /// Never sent on; when its last clone is dropped, the whole tree is gone.
    pub(super) _alive: mpsc::Sender<()>,
}

impl Shell {
    pub(super) fn run(mut self, script: Script) -> BoxFuture<'static, ListEnd> {
        Box::pin(async move {
            let mut code = 0;
            let mut jobs = Vec::new();
            for step in script {
                self.control.unless_held().await;
                if step.background {
                    jobs.push(self.clone().in_background(step.action));
                    continue;
                }
                match step.action {
                    Action::Group(inner) => match self.clone().run(inner).await {
                        ListEnd::Fell(inner) | ListEnd::Exited(inner) => code = inner,
                        ListEnd::Signalled(signal) => return ListEnd::Signalled(signal),
                    },
                    Action::Simple { words, to } => {
                        let words: Vec<String> =
                            words.iter().map(|word| self.expand(word)).collect();
                        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                            ["exit"] => return ListEnd::Exited(code),
                            ["exit", number] => {
                                return ListEnd::Exited(number.parse().unwrap_or(2));
                            }
                            ["kill", signal, "$$"] => {
                                return ListEnd::Signalled(match signal {
                                    "-TERM" | "-15" => SIGTERM,
                                    _ => SIGKILL,
                                });
                            }
                            ["read", name] => {
                                let (line, whole) = self.input.line().await;
                                code = i32::from(!whole);
                                self.variables.insert(name.to_owned(), line);
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
            ListEnd::Fell(code)
        })
    }

    fn in_background(self, action: Action) -> tokio::task::JoinHandle<()> {
        let control = Arc::clone(&self.control);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = control.killed().cancelled() => {}
                _ = self.run(vec![script::Step { action, background: false }]) => {}
            }
        })
    }

    async fn command(&self, words: &[String], to: &Redirect) -> i32 {
        let (name, rest) = words
            .split_first()
            .expect("the parser leaves no empty command");
        let text = match (name.as_str(), rest) {
            ("true", _) | ("done", []) => return 0,
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
            // A loop whose body only sleeps: do the wait, then skip the rest of its words.
            ("until", [test, flag, file]) if test == "test" && flag == "-e" => {
                while self.read(file).is_none() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                return 0;
            }
            ("do", [sleep, _]) if sleep == "sleep" => return 0,
            ("echo", words) => format!("{}\n", words.join(" ")).into_bytes(),
            ("printf", [format, words @ ..]) => printf(format, words).into_bytes(),
            ("pwd", []) if self.cwd.is_root() => format!("{ROOT}\n").into_bytes(),
            ("pwd", []) => format!("{ROOT}/{}\n", self.cwd).into_bytes(),
            ("cat", []) => {
                while let Some(bytes) = self.input.some().await {
                    self.send(Stream::Stdout, bytes).await;
                }
                return 0;
            }
            ("test", [flag, descriptor]) if flag == "-t" => {
                let terminal = match descriptor.as_str() {
                    "0" => self.input.is_terminal(),
                    _ => self.input.size().is_some(),
                };
                return i32::from(!terminal);
            }
            ("stty", [what]) if what == "size" => match self.input.size() {
                Some(size) => format!("{} {}\n", size.rows, size.columns).into_bytes(),
                None => return 1,
            },
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
        let (stream, bytes) = match (self.input.size(), stream) {
            (Some(_), Stream::Stdout | Stream::Stderr) => (Stream::Stdout, shown(&bytes)),
            (_, stream) => (stream, bytes),
        };
        for chunk in bytes.chunks(CHUNK_BYTES) {
            // A dropped handle has already killed this shell.
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
            Ok(Some(node)) if !matches!(node.what, NodeKind::File(_)) => 1,
            Ok(_) => {
                tree.insert(&path, NodeKind::File(Arc::new(bytes)), None);
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
