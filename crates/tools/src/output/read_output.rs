//! `read_output`: pages and searches the output an earlier call spilled.
//!
//! Spilled output can be gigabytes in one line: everything here works in bounded buffers, and
//! patterns run on a linear-time engine with a size limit. What a stranger wrote is shown between the
//! same two lines as in the result it was cut from, whichever part of it is shown.

use std::sync::Arc;

use haft_contract::{
    CallContext, CallId, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool,
    ToolError, ToolSpec, host::ReadArtifact, spec::ParameterAlias,
};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    search::check_pattern,
    text::{
        heavy::{Stop, WorkStopped, off_thread},
        paging::{self, ByteSource, PAGE_BYTES, PAGE_LINES, PageRequest, Paged, SEEK_BYTES, Start},
        untrusted,
    },
};

/// The largest compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;
/// The most of one line that is matched against a pattern.
const MAX_MATCHED_LINE: usize = 64 * 1024;
/// How much is matched between two checks for the end of the call.
const BYTES_PER_LOOK: usize = 4 * 1024;
/// The most of one matching line that is shown.
const MAX_SHOWN_LINE: usize = 500;

const DESCRIPTION: &str = "\
Shows output of an earlier call that was too long to return: a page of it, or the lines that match \
a pattern.
Use it when a result says that part of its output was left out; the result names the `call`. It \
does not run anything again and does not read files (use `read`).
Without `pattern` it returns up to 2,000 lines or 48 KB from line `offset`. With `pattern` it \
returns up to `limit` matching lines from line `offset` on, with their numbers.";

/// The `read_output` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOutputTool;

/// What `read_output` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOutputInput {
    /// The id of the call whose output to show.
    pub call: String,
    /// The line to start at, counting from 1. Defaults to the first line.
    #[serde(default = "paging::first_line")]
    #[schemars(range(min = 1))]
    pub offset: u64,
    /// The most lines to return. Defaults to 2000, which is also the maximum.
    #[serde(default = "paging::page_lines")]
    #[schemars(range(min = 1, max = 2000))]
    pub limit: u64,
    /// The byte of the first line to start at. Only for a line longer than a page: use the value
    /// the previous page named.
    #[serde(default)]
    pub column: u64,
    /// Return only lines that match this regular expression (Rust syntax).
    #[serde(default)]
    pub pattern: Option<String>,
}

/// What `read_output` returns in addition to the text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadOutputOutput {
    /// Bytes of the whole output.
    pub size: u64,
    /// Lines returned.
    pub lines: u64,
    /// The `offset` to continue with, when there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The `column` to continue with, when a line is longer than a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<u64>,
    /// What the model reads. Not repeated in the structured output.
    #[serde(skip)]
    text: String,
    /// Where to go on, or that nothing was found: the last line, after the text.
    #[serde(skip)]
    note: Option<String>,
}

impl Tool for ReadOutputTool {
    type Input = ReadOutputInput;
    type Output = ReadOutputOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "read_output";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Read earlier output", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["output"])
            .parameter_aliases(&[
                ParameterAlias::new("call_id", "call"),
                ParameterAlias::new("id", "call"),
            ])
    }

    fn plan(&self, input: &ReadOutputInput, _: &PlanContext) -> Result<Plan, ToolError> {
        parse_call(&input.call)?;
        if let Some(pattern) = &input.pattern {
            compile(pattern)?;
        }
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: ReadOutputInput,
        cx: CallContext<NoProgress>,
    ) -> Result<ReadOutputOutput, ToolError> {
        let artifact = cx.spilled().open(parse_call(&input.call)?).await?;
        let source = Spilled(artifact);
        let first = source
            .read_at(0, untrusted::START_BYTES, Vec::new())
            .await?;
        let mut output = match &input.pattern {
            None => page(&input, &source, &cx).await,
            Some(pattern) => search(&input, compile(pattern)?, &source, &cx).await,
        }?;
        if untrusted::begins(&first) && !output.text.is_empty() {
            output.text = untrusted::wrap(&cx.call().to_string(), &output.text);
        }
        Ok(output)
    }

    fn render(&self, output: &ReadOutputOutput) -> Vec<Content> {
        let mut text = output.text.clone();
        if let Some(note) = &output.note {
            end_line(&mut text);
            text.push_str(note);
        }
        vec![Content::text(text)]
    }
}

/// Spilled output as a source of bytes.
struct Spilled(Arc<dyn ReadArtifact>);

impl Spilled {
    /// Bytes of all of it.
    fn size(&self) -> u64 {
        self.0.id().bytes
    }
}

impl ByteSource for Spilled {
    async fn read_at(&self, offset: u64, len: usize, _: Vec<u8>) -> Result<Vec<u8>, ToolError> {
        self.0.read_at(offset, len).await.map_err(|_| {
            ToolError::new(
                ErrorKind::Unavailable,
                "the stored output cannot be read right now",
            )
        })
    }
}

fn parse_call(call: &str) -> Result<CallId, ToolError> {
    CallId::parse(call.trim()).ok_or_else(|| {
        ToolError::invalid_input("that is not the id of a call")
            .at("/call")
            .hint("use the id that the result with the omitted output named")
    })
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    check_pattern(pattern, "/pattern")?;
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => ToolError::new(
                ErrorKind::LimitExceeded,
                "the pattern is too large once its repetitions are unrolled",
            )
            .at("/pattern"),
            other => ToolError::invalid_input(other.to_string()).at("/pattern"),
        })
}

async fn page(
    input: &ReadOutputInput,
    source: &Spilled,
    cx: &CallContext<NoProgress>,
) -> Result<ReadOutputOutput, ToolError> {
    let request = PageRequest {
        line: input.offset.max(1),
        column: input.column,
        lines: input.limit.clamp(1, PAGE_LINES),
    };
    match paging::read_page(source, request, Start::default(), cx.cancel()).await? {
        Paged::PastEnd { lines } => Err(ToolError::invalid_input(format!(
            "the output has {lines} lines; line {} is past its end",
            input.offset
        ))
        .at("/offset")
        .hint("ask for a smaller `offset`")),
        Paged::PastLine { bytes } => Err(paging::past_line(input.offset, bytes, input.column)),
        Paged::Page(page) => Ok(ReadOutputOutput {
            size: source.size(),
            lines: page.lines,
            next_offset: page.next.map(|next| next.line),
            next_column: page
                .next
                .and_then(|next| (next.column > 0).then_some(next.column)),
            text: String::from_utf8_lossy(&page.bytes).into_owned(),
            note: page.next.map(|next| match next.column {
                0 => format!("[continue with offset={}]", next.line),
                column => format!(
                    "[the line goes on; continue with offset={} column={column}]",
                    next.line
                ),
            }),
        }),
    }
}

async fn search(
    input: &ReadOutputInput,
    pattern: Regex,
    source: &Spilled,
    cx: &CallContext<NoProgress>,
) -> Result<ReadOutputOutput, ToolError> {
    let mut matches = Matches {
        pattern,
        from: input.offset.max(1),
        limit: input.limit.clamp(1, PAGE_LINES),
        number: 1,
        found: 0,
        text: String::new(),
        stopped_at: None,
        line: Vec::new(),
    };
    let mut offset = 0_u64;
    while matches.stopped_at.is_none() {
        let chunk = source.read_at(offset, SEEK_BYTES, Vec::new()).await?;
        offset += chunk.len() as u64;
        let is_last = chunk.len() < SEEK_BYTES;
        // Never on the async thread: a hostile pattern takes long even on a short text.
        matches = off_thread(cx.cancel(), move |stop| {
            matches.take_chunk(&chunk, stop)?;
            if is_last {
                matches.take_rest();
            }
            Ok(matches)
        })
        .await?;
        if is_last {
            break;
        }
    }
    Ok(matches.output(source.size()))
}

struct Matches {
    pattern: Regex,
    from: u64,
    limit: u64,
    number: u64,
    found: u64,
    text: String,
    stopped_at: Option<u64>,
    /// The start of a line whose end has not been read yet.
    line: Vec<u8>,
}

impl Matches {
    fn take_chunk(&mut self, chunk: &[u8], stop: &Stop) -> Result<(), WorkStopped> {
        let mut since_look = 0;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            since_look += piece.len();
            if since_look > BYTES_PER_LOOK {
                stop.check()?;
                since_look = 0;
            }
            let room = MAX_MATCHED_LINE.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.take_rest();
            }
        }
        Ok(())
    }

    /// Takes the unfinished line.
    fn take_rest(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line);
        }
        line.clear();
        self.line = line;
    }

    fn take(&mut self, line: &[u8]) {
        let number = self.number;
        self.number += 1;
        if number < self.from || self.stopped_at.is_some() {
            return;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.pattern.is_match(line) {
            return;
        }
        if self.found == self.limit || self.text.len() > PAGE_BYTES {
            self.stopped_at = Some(number);
            return;
        }
        self.found += 1;
        let shown = line.get(..MAX_SHOWN_LINE).unwrap_or(line);
        self.text.push_str(&number.to_string());
        self.text.push_str(": ");
        self.text.push_str(&String::from_utf8_lossy(shown));
        if shown.len() < line.len() {
            self.text.push_str(" [cut]");
        }
        self.text.push('\n');
    }

    fn output(self, size: u64) -> ReadOutputOutput {
        let none = || (self.found == 0).then(|| "[no line matches]".to_owned());
        let more = |next| format!("[there is more; continue with offset={next}]");
        ReadOutputOutput {
            size,
            lines: self.found,
            next_offset: self.stopped_at,
            next_column: None,
            note: self.stopped_at.map(more).or_else(none),
            text: self.text,
        }
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rx_15_patterns_are_linear_and_bounded() {
        assert!(compile("(a+)+$").is_ok());
        for huge in [".{1,1000}{1,1000}".to_owned(), "a".repeat(10 * 1024 * 1024)] {
            assert_eq!(
                compile(&huge).unwrap_err().kind(),
                ErrorKind::LimitExceeded,
                "{}",
                &huge[..10]
            );
        }
        assert_eq!(compile("(").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn matches_are_numbered_and_bounded() {
        let pattern = compile("b").unwrap();
        let mut matches = Matches {
            pattern,
            from: 2,
            limit: 1,
            number: 1,
            found: 0,
            text: String::new(),
            stopped_at: None,
            line: Vec::new(),
        };
        for line in ["b\n", "a\n", "bb\r\n", "b"] {
            matches.take(line.as_bytes());
        }
        let output = matches.output(9);
        assert_eq!(output.text, "3: bb\n");
        let note = output.note.as_deref();
        assert_eq!(note, Some("[there is more; continue with offset=4]"));
        assert_eq!(output.next_offset, Some(4));
    }
}
