//! The input of an in-memory process: fixed, a pipe, or a terminal with lines, echo and keys.
//!
//! A terminal delivers whole lines, echoes what is typed, and handles Ctrl-C, Ctrl-D and Ctrl-\
//! like a real one in its default mode.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    ops::{Input, OpsError, Stream, TerminalSize},
};
use tokio::sync::{Notify, mpsc};

/// What a pipe holds before a writer has to wait.
const PIPE_BYTES: usize = 64 << 10;

/// How long a writer waits for a reader.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// The input of one process.
pub(super) struct MemoryInput {
    state: Mutex<State>,
    changed: Notify,
    /// Where a terminal echoes what is typed; weak, so that it does not keep the output open.
    echo: mpsc::WeakSender<(Stream, Vec<u8>)>,
}

struct State {
    terminal: Option<TerminalSize>,
    /// Who may write, and what happens at the end of what is there.
    kind: Kind,
    /// Delivered and not read yet. An empty piece is one end of file on a terminal.
    pieces: VecDeque<Vec<u8>>,
    /// Typed on a terminal, not yet a whole line.
    typed: Vec<u8>,
    readers: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nobody may write; the end follows what is there.
    Given,
    /// Open for writing.
    Open,
    /// Was open, and is closed.
    Ended,
}

/// A key that sends a signal.
pub(super) enum Key {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-\.
    Quit,
}

impl MemoryInput {
    pub(super) fn new(
        input: Input,
        terminal: Option<TerminalSize>,
        echo: mpsc::WeakSender<(Stream, Vec<u8>)>,
    ) -> Self {
        let (kind, pieces) = match input {
            Input::Closed => (Kind::Given, VecDeque::new()),
            Input::Bytes(bytes) => (Kind::Given, VecDeque::from([bytes])),
            Input::Open => (Kind::Open, VecDeque::new()),
        };
        Self {
            state: Mutex::new(State {
                terminal,
                kind,
                pieces,
                typed: Vec::new(),
                readers: 0,
            }),
            changed: Notify::new(),
            echo,
        }
    }

    /// The size of the terminal, if there is one.
    pub(super) fn size(&self) -> Option<TerminalSize> {
        self.state().terminal
    }

    /// Whether the input itself is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        let state = self.state();
        state.terminal.is_some() && state.kind != Kind::Given
    }

    /// Whether a reader waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        let state = self.state();
        state.kind == Kind::Open && state.readers > 0
    }

    pub(super) fn resize(&self, size: TerminalSize) -> Result<(), OpsError> {
        let mut state = self.state();
        if state.terminal.is_none() {
            let message = "the process was started without a terminal";
            return Err(OpsError::new(ErrorKind::InvalidInput, message));
        }
        state.terminal = Some(size);
        Ok(())
    }

    /// Takes bytes from outside and returns the signal keys among them.
    pub(super) async fn write(&self, bytes: &[u8]) -> Result<Vec<Key>, OpsError> {
        self.open_for_writing()?;
        if !self.is_terminal() {
            self.fill_pipe(bytes).await?;
            return Ok(Vec::new());
        }
        if let Some(echo) = self.echo.upgrade() {
            let _ = echo.send((Stream::Stdout, echoed(bytes))).await;
        }
        let mut keys = Vec::new();
        let mut state = self.state();
        for byte in bytes {
            match byte {
                0x03 => keys.push(Key::Interrupt),
                0x1c => keys.push(Key::Quit),
                0x04 => state.hand_over(),
                b'\n' | b'\r' => {
                    state.typed.push(b'\n');
                    state.hand_over();
                }
                byte => state.typed.push(*byte),
            }
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(keys)
    }

    /// Ends the input: for good, or on a terminal with one end-of-file key.
    pub(super) fn close(&self) -> Result<(), OpsError> {
        let terminal = self.is_terminal();
        let mut state = self.state();
        match state.kind {
            Kind::Ended => {}
            Kind::Given => {
                drop(state);
                return self.open_for_writing();
            }
            Kind::Open if terminal => state.hand_over(),
            Kind::Open => state.kind = Kind::Ended,
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// What there is to read; `None` at the end.
    pub(super) async fn some(&self) -> Option<Vec<u8>> {
        self.next_piece().await.filter(|piece| !piece.is_empty())
    }

    /// The next line, and whether its end was found.
    pub(super) async fn line(&self) -> (String, bool) {
        let mut line = Vec::new();
        while let Some(piece) = self.some().await {
            match piece.iter().position(|byte| *byte == b'\n') {
                None => line.extend(piece),
                Some(end) => {
                    line.extend(&piece[..end]);
                    let rest = piece[end + 1..].to_vec();
                    if !rest.is_empty() {
                        self.state().pieces.push_front(rest);
                    }
                    return (String::from_utf8_lossy(&line).into_owned(), true);
                }
            }
        }
        (String::from_utf8_lossy(&line).into_owned(), false)
    }

    async fn next_piece(&self) -> Option<Vec<u8>> {
        loop {
            // Register before checking, so that no change is missed.
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                if let Some(piece) = state.pieces.pop_front() {
                    self.changed.notify_waiters();
                    return Some(piece);
                }
                if state.kind != Kind::Open {
                    return None;
                }
                state.readers += 1;
            }
            let _reading = PendingRead(self);
            changed.await;
        }
    }

    async fn fill_pipe(&self, bytes: &[u8]) -> Result<(), OpsError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                let held: usize = state.pieces.iter().map(Vec::len).sum();
                let room = PIPE_BYTES.saturating_sub(held).min(rest.len());
                if room > 0 {
                    state.pieces.push_back(rest[..room].to_vec());
                    rest = &rest[room..];
                    self.changed.notify_waiters();
                    continue;
                }
            }
            if tokio::time::timeout(WRITE_LIMIT, changed).await.is_err() {
                let message = "the process reads nothing";
                return Err(OpsError::new(ErrorKind::TimedOut, message));
            }
        }
        Ok(())
    }

    fn open_for_writing(&self) -> Result<(), OpsError> {
        let why = match self.state().kind {
            Kind::Open => return Ok(()),
            Kind::Given => "the process was started without an open input",
            Kind::Ended => "the input of the process was ended",
        };
        Err(OpsError::new(ErrorKind::InvalidInput, why))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes what has been typed readable; nothing typed means end of file.
    fn hand_over(&mut self) {
        let typed = std::mem::take(&mut self.typed);
        self.pieces.push_back(typed);
    }
}

/// A reader that waits.
struct PendingRead<'i>(&'i MemoryInput);

impl Drop for PendingRead<'_> {
    fn drop(&mut self) {
        self.0.state().readers -= 1;
    }
}

/// How a terminal shows a program's output: a line end also returns to the start of the line.
pub(super) fn shown(bytes: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\n' => shown.extend(b"\r\n"),
            byte => shown.push(*byte),
        }
    }
    shown
}

/// How a terminal echoes what is typed: control keys as `^C`.
fn echoed(bytes: &[u8]) -> Vec<u8> {
    let mut echoed = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\n' | b'\r' => echoed.extend(b"\r\n"),
            b'\t' | 0x20.. => echoed.push(*byte),
            // The end-of-file key leaves no trace.
            0x04 => {}
            byte => echoed.extend([b'^', byte + 0x40]),
        }
    }
    echoed
}
