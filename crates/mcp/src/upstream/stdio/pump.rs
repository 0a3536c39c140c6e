//! The task that reads a server's process and ends it.

use std::sync::Arc;

use haft_contract::ops::{ExitStatus, ProcessHandle, Stream};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    frame::{Lines, TooLong},
    mailbox::Pending,
    ring::Ring,
};
use crate::upstream::{
    connection::RequestError,
    limits::{CLOSING, MESSAGE_BYTES, TERMINATING},
    session::notices::Notices,
    wire::{
        self, DroppedMessages,
        message::{self, Incoming, MessageFault, Refusal},
    },
};

/// The most sandbox refusals reported when a server ends.
const REFUSALS_TOLD: usize = 3;

/// What the pump shares with the session.
pub(super) struct PumpState {
    pub(super) pending: Arc<Pending>,
    pub(super) notices: Arc<Notices>,
    pub(super) last_words: Arc<Ring>,
    /// Lines on stdout that are not messages.
    pub(super) stray: Arc<Ring>,
    pub(super) dropped: Arc<DroppedMessages>,
    /// Messages waiting to be written.
    pub(super) outbox: mpsc::Sender<Vec<u8>>,
    /// Fires when the process should end.
    pub(super) stop: CancellationToken,
    /// Fires when it has ended.
    pub(super) gone: CancellationToken,
    /// Why it ended; set before `gone` fires.
    pub(super) why: std::sync::OnceLock<String>,
}

impl PumpState {
    /// Ends the connection because of something the server did.
    pub(super) fn fail(&self, why: &RequestError) {
        self.pending.end(why);
        let _ = self.why.set(why.to_string());
        self.stop.cancel();
    }

    /// Queues a message, or drops it if too many wait.
    pub(super) fn tell(&self, message: &Value) {
        let _ = self.outbox.try_send(line(message.to_string()));
    }
}

/// Encodes a message as a line.
pub(super) fn line(message: String) -> Vec<u8> {
    let mut line = message.into_bytes();
    line.push(b'\n');
    line
}

/// Reads a process until it ends or should end, then shuts it down.
pub(super) async fn pump(mut process: Box<dyn ProcessHandle>, shared: Arc<PumpState>) {
    read(&mut *process, &shared).await;
    see_off(&mut *process, &shared).await;
    shared.stop.cancel();
    shared.gone.cancel();
}

async fn read(process: &mut dyn ProcessHandle, shared: &Arc<PumpState>) {
    let mut lines = Lines::default();
    loop {
        let chunk = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            chunk = process.next_chunk() => chunk,
            () = lines.overdue() => {
                let seconds = Lines::patience().as_secs();
                let why = format!("it began a message and did not finish it within {seconds} s");
                shared.fail(&RequestError::Protocol(why));
                return;
            }
        };
        let Some(chunk) = chunk else {
            return;
        };
        match chunk.stream {
            Stream::Stdout => {
                let taken = lines.push(&chunk.bytes, |line| route(line, shared));
                if taken == Err(TooLong) {
                    let why = format!("it sent a message of more than {MESSAGE_BYTES} bytes");
                    shared.fail(&RequestError::Protocol(why));
                    return;
                }
            }
            Stream::Stderr | Stream::Progress => shared.last_words.push(&chunk.bytes),
        }
    }
}

/// Closes the input, waits, terminates, then kills the whole tree.
async fn see_off(process: &mut dyn ProcessHandle, shared: &Arc<PumpState>) {
    let controls = process.controls();
    let _ = timeout(CLOSING, controls.close_input()).await;
    let ended = timeout(CLOSING, async {
        while let Some(chunk) = process.next_chunk().await {
            if chunk.stream == Stream::Stderr {
                shared.last_words.push(&chunk.bytes);
            }
        }
        process.wait().await
    });
    let how = match ended.await {
        Ok(Ok(exit)) => {
            let how = match exit.status {
                ExitStatus::Code(code) => format!("it exited with code {code}"),
                ExitStatus::Signal(signal) => format!("signal {signal} ended it"),
            };
            // Often the cause, and not something the server itself could know.
            let refused = exit.refusals.iter().take(REFUSALS_TOLD);
            refused.fold(how, |how, refusal| format!("{how}; {refusal}"))
        }
        Ok(Err(error)) => format!("it ended: {}", error.message()),
        Err(_) => "it was ended".to_owned(),
    };
    // Processes the server left behind end with it.
    let _ = process.stop(TERMINATING).await;
    shared.pending.end(&RequestError::Lost(how.clone()));
    let _ = shared.why.set(how);
}

/// Routes one line to its recipient.
fn route(line: &[u8], shared: &Arc<PumpState>) {
    let Ok(text) = std::str::from_utf8(line) else {
        return not_utf8(line, shared);
    };
    if text.trim().is_empty() {
        return;
    }
    match message::read(text) {
        Ok(Incoming::Answer { id, answer }) if shared.pending.knows(id) => {
            shared.pending.answer(id, answer.parse());
        }
        Ok(Incoming::Answer { .. }) | Err(MessageFault::ForeignId) => {
            shared.dropped.unknown_answer();
        }
        Ok(Incoming::Asked {
            id,
            method,
            parameters,
        }) => asked(id, method, parameters, shared),
        Ok(Incoming::Notice { method, parameters }) => noticed(&method, &parameters, shared),
        Err(MessageFault::NotAMessage) => {
            shared.stray.push(line);
            shared.stray.push(b"\n");
            shared.dropped.not_a_message();
        }
        Err(MessageFault::Broken(_)) => shared.dropped.broken(),
        Err(fault @ MessageFault::Batch) => shared.fail(&RequestError::Protocol(fault.to_string())),
    }
}

/// Text that is not UTF-8 fails the request it answers, if it answers one.
fn not_utf8(line: &[u8], shared: &Arc<PumpState>) {
    let text = String::from_utf8_lossy(line);
    if let Ok(Incoming::Answer { id, .. }) = message::read(&text) {
        let why = "its answer is not UTF-8".to_owned();
        shared.pending.answer(id, Err(RequestError::Protocol(why)));
    }
    shared.dropped.broken();
}

fn asked(id: Value, method: String, parameters: Value, shared: &Arc<PumpState>) {
    if method == "ping" {
        shared.tell(&message::answer(&id, Ok(serde_json::json!({}))));
        return;
    }
    if let Err((id, why)) = shared.pending.asked(id, method, parameters) {
        shared.dropped.broken();
        shared.tell(&message::answer(&id, Err(Refusal::unknown(why))));
    }
}

fn noticed(method: &str, parameters: &Value, shared: &Arc<PumpState>) {
    match method {
        "notifications/progress" => {
            let id = parameters.get("progressToken").and_then(Value::as_u64);
            match id.and_then(|id| Some((id, wire::progress(parameters, id)?))) {
                Some((id, progress)) => shared.pending.progress(id, progress, &shared.dropped),
                None => shared.dropped.broken(),
            }
        }
        "notifications/message" => shared.pending.log(parameters, &shared.dropped),
        _ => shared.notices.take(method, parameters),
    }
}
