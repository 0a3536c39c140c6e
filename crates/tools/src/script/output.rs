//! What a script puts out on its way to the caller: output as it arrives, its result if that is
//! JSON, and progress lines as progress.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallContext, Content, NoProgress, Progress,
    erased::ToolReply,
    ops::{OutputChunk, Stream},
};
use serde::Deserialize;
use serde_json::Value;

use super::redact::{SecretFilter, SecretForms};
use crate::{process::follow::TakeChunk, text::display::start_of};

/// The most standard output kept for parsing as JSON. Longer output is text.
const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// The longest progress line; longer ones are dropped.
const MAX_PROGRESS_LINE: usize = 4 * 1024;
/// The longest progress status passed on.
const MAX_STATUS_BYTES: usize = 200;

/// Passes output on as it arrives, and progress lines as progress, both without the script's
/// secrets.
pub(super) struct ScriptOutput<'c> {
    cx: &'c CallContext<NoProgress>,
    stdout: SecretFilter,
    stderr: SecretFilter,
    forms: Arc<SecretForms>,
    printed: PrintedResult,
    progress: ProgressLines,
}

impl<'c> ScriptOutput<'c> {
    /// The output of a script that has these secrets.
    pub(super) fn new(cx: &'c CallContext<NoProgress>, forms: SecretForms) -> Self {
        let forms = Arc::new(forms);
        Self {
            cx,
            stdout: SecretFilter::new(Arc::clone(&forms)),
            stderr: SecretFilter::new(Arc::clone(&forms)),
            printed: PrintedResult::of(Arc::clone(&forms)),
            progress: ProgressLines::default(),
            forms,
        }
    }

    /// Passes on what was held back, and returns what the script printed.
    pub(super) async fn finish(mut self) -> PrintedResult {
        let rest = self.stdout.finish();
        self.pass_on(Stream::Stdout, &rest).await;
        let rest = self.stderr.finish();
        self.pass_on(Stream::Stderr, &rest).await;
        self.printed
    }

    async fn pass_on(&mut self, stream: Stream, clean: &[u8]) {
        if clean.is_empty() {
            return;
        }
        if stream == Stream::Stdout {
            self.printed.take(clean);
        }
        self.cx.output().push(stream, clean).await;
    }
}

impl TakeChunk for ScriptOutput<'_> {
    async fn take(&mut self, chunk: OutputChunk) {
        let clean = match chunk.stream {
            Stream::Progress => {
                let report = |mut progress: Progress| {
                    progress.status = self.forms.text(&progress.status);
                    let start = start_of(&progress.status, MAX_STATUS_BYTES).len();
                    progress.status.truncate(start);
                    self.cx.report(progress);
                };
                return self.progress.take(&chunk.bytes, report);
            }
            Stream::Stdout => self.stdout.take(chunk.bytes),
            Stream::Stderr => self.stderr.take(chunk.bytes),
        };
        self.pass_on(chunk.stream, &clean).await;
    }
}

/// What the script printed, while it can still be a JSON result.
pub(super) struct PrintedResult {
    bytes: Vec<u8>,
    total: u64,
    forms: Arc<SecretForms>,
}

impl PrintedResult {
    fn of(forms: Arc<SecretForms>) -> Self {
        Self {
            bytes: Vec::new(),
            total: 0,
            forms,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.total <= MAX_RESULT_BYTES as u64 {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.clear();
        }
    }

    /// JSON becomes the structured result; the text itself is already in the outcome.
    pub(super) fn reply(self) -> ToolReply {
        let content = if self.total == 0 {
            vec![Content::text("[no output]")]
        } else {
            Vec::new()
        };
        let mut structured = serde_json::from_slice(&self.bytes).unwrap_or(Value::Null);
        // Escapes can hide a secret from whoever looks at the text alone.
        self.forms.value(&mut structured);
        ToolReply {
            content,
            structured,
        }
    }
}

/// Progress lines, assembled from chunks that may end anywhere.
#[derive(Default)]
struct ProgressLines {
    line: Vec<u8>,
    too_long: bool,
}

#[derive(Deserialize)]
struct ProgressLine {
    #[serde(default)]
    step: u64,
    #[serde(default)]
    total: Option<u64>,
    #[serde(default)]
    status: String,
    /// The estimated time left, in seconds.
    #[serde(default)]
    remaining: Option<f64>,
}

impl ProgressLines {
    fn take(&mut self, bytes: &[u8], report: impl Fn(Progress)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n");
            self.line.extend_from_slice(text.unwrap_or(piece));
            if self.line.len() > MAX_PROGRESS_LINE {
                self.line.clear();
                self.too_long = true;
            }
            if text.is_some() {
                if !std::mem::take(&mut self.too_long) && !self.line.is_empty() {
                    report(progress(&self.line));
                }
                self.line.clear();
            }
        }
    }
}

/// `{"step": 1, "total": 3, "status": "…", "remaining": 2.5}`, or any other line as a status.
fn progress(line: &[u8]) -> Progress {
    if let Ok(line) = serde_json::from_slice::<ProgressLine>(line) {
        let mut progress = Progress::of(line.step, line.total, line.status);
        let remaining = line.remaining.map(Duration::try_from_secs_f64);
        progress.remaining = remaining.and_then(Result::ok);
        progress
    } else {
        let text = String::from_utf8_lossy(line);
        Progress::of(0, None, text.trim())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use haft_contract::secret::Secret;
    use serde_json::json;

    use super::*;

    #[test]
    fn r8_progress_lines_are_json_or_text_however_they_are_cut() {
        let seen = RefCell::new(Vec::new());
        let mut lines = ProgressLines::default();
        let long = [b'x'; MAX_PROGRESS_LINE + 1];
        for chunk in [
            b"{\"step\":1,\"to".as_slice(),
            b"tal\":4,\"status\":\"a\"}\nplain ",
            b"text\n\n",
            &long,
            b"y\n{\"step\":2,\"remaining\":2.5}\n{\"step\":3,\"remaining\":-1}\n",
        ] {
            lines.take(chunk, |progress| seen.borrow_mut().push(progress));
        }
        let mut second = Progress::of(2, None, "");
        second.remaining = Some(Duration::from_millis(2500));
        assert_eq!(
            seen.into_inner(),
            [
                Progress::of(1, Some(4), "a"),
                Progress::of(0, None, "plain text"),
                second,
                Progress::of(3, None, ""),
            ]
        );
    }

    #[test]
    fn r8_a_result_is_json_or_text() {
        let secret = Secret::new("open sesame").unwrap();
        let forms = Arc::new(SecretForms::of([&secret]));
        let reply = |text: &[u8]| {
            let mut printed = PrintedResult::of(Arc::clone(&forms));
            printed.take(text);
            printed.reply().structured
        };
        assert_eq!(reply(b"{\"a\":1}\n"), json!({"a": 1}));
        assert_eq!(
            reply(br#"{"a":["open\u0020sesame"]}"#),
            json!({"a": ["[redacted]"]})
        );
        assert_eq!(reply(b"done"), Value::Null);
        assert_eq!(reply(&vec![b'1'; MAX_RESULT_BYTES + 1]), Value::Null);
    }
}
