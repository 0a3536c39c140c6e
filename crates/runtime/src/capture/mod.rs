//! Output on its way from a command to the model: cleaned, capped, and spilled when it is long.
//!
//! The capture belongs to the call, not to the tool, so that a command's output is in the outcome
//! even when the tool is stopped before it returns. Memory is bounded by the caps, whatever a
//! command writes; reading never stops at a cap, so a command never blocks on one.

mod cap;
mod clean;
mod latest;
mod spill;

use std::{fmt::Write as _, sync::Arc};

use haft_contract::{
    BoxFuture, CallEvent, CallId,
    context::StreamText,
    host::{ArtifactId, ArtifactStore},
    ops::Stream,
};
use tokio::sync::Mutex;

use self::{cap::CappedText, spill::Spill};
pub(crate) use self::{clean::Cleaner, latest::LatestReport};
use crate::{limits::OutputLimits, record::Recording};

/// Room for the lines that say how much was left out and how to get it.
pub(crate) const NOTICE_BYTES: usize = 256;

/// The cleaned and capped output of a call.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    /// The head, a line that says what is missing, and the tail; or everything.
    pub(crate) text: String,
    /// Bytes left out.
    pub(crate) bytes_omitted: u64,
    /// Lines left out.
    pub(crate) lines_omitted: u64,
    /// Where the whole output is kept, if some was left out.
    pub(crate) artifact: Option<ArtifactId>,
}

/// Takes the output of one call.
pub(crate) struct Capture {
    recording: Arc<Recording>,
    artifacts: Arc<dyn ArtifactStore>,
    limits: OutputLimits,
    latest: LatestReport,
    output: Mutex<Output>,
}

/// What a call has put out. Most calls put out nothing.
enum Output {
    Nothing,
    Some(Box<State>),
    /// It was taken; the rest is dropped.
    Finished,
}

struct State {
    stdout: Cleaner,
    stderr: Cleaner,
    capped: CappedText,
    /// The same text by stream, for structured output.
    apart: [CappedText; 2],
    spill: Spill,
    clean: String,
}

impl Capture {
    pub(crate) fn new(
        recording: Arc<Recording>,
        artifacts: Arc<dyn ArtifactStore>,
        limits: OutputLimits,
    ) -> Self {
        Self {
            recording,
            artifacts,
            limits,
            latest: LatestReport::default(),
            output: Mutex::new(Output::Nothing),
        }
    }

    /// Where output is announced as it arrives.
    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What a person would want to see of the call by now.
    pub(crate) fn latest(&self) -> &LatestReport {
        &self.latest
    }

    /// What has arrived on one stream.
    pub(crate) fn apart(&self, stream: Stream) -> BoxFuture<'_, StreamText> {
        Box::pin(async move {
            let Output::Some(state) = &mut *self.output.lock().await else {
                return StreamText::default();
            };
            let (text, bytes_omitted) = state.of(stream).so_far();
            StreamText {
                text,
                bytes_omitted,
            }
        })
    }

    /// Returns what was captured. Later output is dropped.
    pub(crate) async fn finish(&self) -> CapturedOutput {
        let output = std::mem::replace(&mut *self.output.lock().await, Output::Finished);
        match output {
            Output::Nothing | Output::Finished => CapturedOutput::default(),
            // Boxed, so that a call without output does not carry its size.
            Output::Some(state) => Box::pin(state.finish(self.recording.call())).await,
        }
    }

    /// Takes one chunk.
    pub(crate) fn push<'a>(&'a self, stream: Stream, bytes: &'a [u8]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut output = self.output.lock().await;
            if matches!(*output, Output::Nothing) {
                let state = State::new(Arc::clone(&self.artifacts), self.limits);
                *output = Output::Some(Box::new(state));
            }
            let Output::Some(state) = &mut *output else {
                return;
            };
            let mut clean = std::mem::take(&mut state.clean);
            clean.clear();
            match stream {
                Stream::Stdout => state.stdout.push(bytes, &mut clean),
                // The tool reads a script's progress lines itself; those it pushes here are meant
                // to be seen.
                Stream::Stderr | Stream::Progress => state.stderr.push(bytes, &mut clean),
            }
            if !clean.is_empty() {
                state.take(&clean).await;
                state.of(stream).push(&clean);
                self.latest.output(&clean);
                if self.recording.is_watched() {
                    self.recording.note(CallEvent::Output {
                        stream,
                        text: clean.clone(),
                    });
                }
            }
            state.clean = clean;
        })
    }
}

/// Caps a finished text in the same way, for tools that return their output whole.
pub(crate) async fn cap_text(
    call: CallId,
    text: String,
    artifacts: Arc<dyn ArtifactStore>,
    limits: OutputLimits,
) -> CapturedOutput {
    if text.len() <= limits.total() {
        return CapturedOutput {
            text,
            ..CapturedOutput::default()
        };
    }
    let mut state = State::new(artifacts, limits);
    state.take(&text).await;
    state.captured(call).await
}

impl State {
    fn new(artifacts: Arc<dyn ArtifactStore>, limits: OutputLimits) -> Self {
        Self {
            stdout: Cleaner::default(),
            stderr: Cleaner::default(),
            capped: CappedText::new(limits),
            apart: [limits.of_stream(), limits.of_stream()].map(CappedText::new),
            spill: Spill::new(artifacts, limits.artifact_bytes),
            clean: String::new(),
        }
    }

    fn of(&mut self, stream: Stream) -> &mut CappedText {
        let [stdout, stderr] = &mut self.apart;
        match stream {
            Stream::Stdout => stdout,
            Stream::Stderr | Stream::Progress => stderr,
        }
    }

    async fn finish(mut self: Box<Self>, call: CallId) -> CapturedOutput {
        let mut rest = std::mem::take(&mut self.clean);
        rest.clear();
        self.stdout.finish(&mut rest);
        self.stderr.finish(&mut rest);
        self.take(&rest).await;
        self.captured(call).await
    }

    /// Adds clean text to the caps, and to the spill as soon as the caps cannot hold it.
    async fn take(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.spill.is_open() && self.capped.would_overflow(text) {
            let (head, tail) = self.capped.halves();
            self.spill.start(&[head.as_bytes(), tail.as_bytes()]).await;
        }
        self.spill.write(text.as_bytes()).await;
        self.capped.push(text);
    }

    /// The notice names the call, because a model has no other way to learn its id.
    async fn captured(&mut self, call: CallId) -> CapturedOutput {
        let artifact = self.spill.finish().await;
        let (bytes_omitted, lines_omitted) = self.capped.omitted();
        let text = self.capped.text(|f| match artifact {
            Some(_) => {
                // Writing to a `String` cannot fail.
                let _ = write!(
                    f,
                    "read_output with call `{call}` pages and searches all of it"
                );
            }
            None => f.push_str("the whole output could not be kept"),
        });
        CapturedOutput {
            text,
            bytes_omitted,
            lines_omitted,
            artifact,
        }
    }
}
