//! `read`: a page of a text file, or an image or PDF as it is.
//!
//! Reads only what it returns. A small file costs one open and one read. Must not load a whole file
//! to return part of it; `text/paging.rs` says how a deep page is found.

use std::fmt::Write as _;

use haft_contract::{
    Access, CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool,
    ToolError, ToolSpec, WorkPath,
    ops::FileReader,
    spec::{ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    media::{Media, MediaClass},
    whole::OpenFile,
};
use crate::foreign::{leave_out, refuse_unless};
use crate::text::{
    display::one_line,
    encoding::{self, DecodedText},
    heavy::by_size,
    paging::{self, ByteSource as _, PAGE_BYTES, PAGE_LINES, PageRequest, Paged, Start, TextPage},
};

/// The smallest first read, for a file whose stated size is wrong (it grows, or is generated).
const MIN_FIRST_READ: usize = 4 * 1024;

/// UTF-16 text is decoded in full before it is cut into pages; larger files are refused.
const MAX_UTF16_BYTES: usize = 16 * 1024 * 1024;

/// With line numbers of seven or more digits, this many lines plus a page of bytes stay within what
/// the runtime returns whole (64 KB).
const DEEP_NUMBERED_LINES: u64 = 1_500;

/// From this line on, line numbers need a wider column.
const DEEP_LINE: u64 = 990_000;

const DESCRIPTION: &str = "\
Reads a file of the workspace and returns its text, an image (PNG, JPEG, GIF, WebP) or a PDF.
Use it to look into any file; use it instead of `cat`, `head`, `tail` or `sed -n` in `bash`.
Do not use it for a directory (use `list`) or to search (use `grep`).
A page holds at most 2,000 lines or 48 KB. When there is more, the result names the `offset` to \
continue with; ask for `offset` and `limit` to read only the part you need.
Set `numbered` to see line numbers; they are not part of the file.";

/// The `read` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadTool;

/// What `read` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadInput {
    /// The file to read: relative to the workspace, or absolute inside it.
    pub path: String,
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
    /// Whether to put its number before each line.
    #[serde(default)]
    pub numbered: bool,
}

/// What `read` returns in addition to the text, image or document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadOutput {
    /// The file, relative to the workspace.
    pub path: String,
    /// What it is: `text/plain`, or the media type of an image or PDF.
    pub media_type: &'static str,
    /// The size of the whole file in bytes.
    pub size: u64,
    /// The lines returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// The `offset` of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The `column` of the next page, when it continues a long line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<u64>,
    /// The encoding the text was decoded from, unless it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// What the model reads. Not repeated in the structured output: it may be 48 KB.
    #[serde(skip)]
    content: Vec<Content>,
}

/// A range of lines.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LineRange {
    /// The first line, from 1.
    pub first: u64,
    /// How many lines.
    pub count: u64,
}

/// What to do instead of reading several files in one call.
const SEVERAL: &str = "call `read` once for each file; the calls may be made in one message";

/// The lines that other systems' tools ask for in other ways.
fn other_readers(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    if input.get("offset").and_then(Value::as_f64) == Some(0.0) {
        input.remove("offset");
        notes.push("an offset of 0 is the first line".to_owned());
    }
    if let Some(range) = input.remove("view_range") {
        let (first, last) = line_range(&range)?;
        set_lines(input, first, last);
        notes.push("`view_range` read as `offset` and `limit`".to_owned());
    }
    if input.remove("should_read_entire_file") == Some(Value::Bool(true)) {
        input.remove("start_line_one_indexed");
        input.remove("end_line_one_indexed_inclusive");
        notes.push("the lines are left out, because the whole file is wanted".to_owned());
    }
    for (first, last) in FIRST_AND_LAST {
        if let (Some(start), end) = (input.remove(first), input.remove(last)) {
            let range = Value::Array(vec![start, end.unwrap_or_else(|| Value::from(-1))]);
            let (start, end) = line_range(&range).map_err(|error| error.at(format!("/{first}")))?;
            set_lines(input, start, end);
            notes.push(format!(
                "`{first}` and `{last}` read as `offset` and `limit`"
            ));
        }
    }
    refuse_unless(
        input,
        "mode",
        &["slice"],
        "read lines with `offset` and `limit`",
    )?;
    let unneeded = [(
        "explanation",
        "nobody is asked about a file of the workspace",
    )];
    leave_out(input, &unneeded, &mut notes);
    let tail = "read the file from an `offset`; the result says how many lines there are";
    refuse_unless(input, "tail", &[], tail)?;
    refuse_unless(input, "pages", &[], "a PDF is read as a whole")?;
    Ok(notes)
}

/// The names of a first and a last line.
const FIRST_AND_LAST: [(&str, &str); 2] = [
    ("start_line", "end_line"),
    ("start_line_one_indexed", "end_line_one_indexed_inclusive"),
];

fn set_lines(input: &mut Map<String, Value>, first: u64, last: Option<u64>) {
    input.insert("offset".to_owned(), Value::from(first));
    if let Some(last) = last {
        input.insert("limit".to_owned(), Value::from(last - first + 1));
    }
}

/// The first and the last line of a range; no last line where it goes to the end.
fn line_range(range: &Value) -> Result<(u64, Option<u64>), ToolError> {
    let wrong = || {
        ToolError::invalid_input("that is not a first and a last line")
            .at("/view_range")
            .hint("give two numbers, such as [1, 50]; -1 as the last is the end of the file")
    };
    let numbers = range.as_array().ok_or_else(wrong)?;
    let [first, last] = numbers.as_slice() else {
        return Err(wrong());
    };
    let first = first
        .as_u64()
        .filter(|first| *first > 0)
        .ok_or_else(wrong)?;
    match last.as_i64() {
        Some(-1) => Ok((first, None)),
        Some(last) => match u64::try_from(last) {
            Ok(last) if last >= first => Ok((first, Some(last))),
            Ok(_) | Err(_) => Err(wrong()),
        },
        None => Err(wrong()),
    }
}

impl Tool for ReadTool {
    type Input = ReadInput;
    type Output = ReadOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "read";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Read a file", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["files"])
            .aliases(&["read_file", "Read"])
            .foreign_names(&["read_text_file", "read_media_file", "view_image"])
            .foreign_calls(&[
                ForeignCall::new("text_editor").when("command", "view"),
                ForeignCall::new("str_replace_editor").when("command", "view"),
                ForeignCall::new("str_replace_based_edit_tool").when("command", "view"),
                ForeignCall::new("read_many_files").instead(SEVERAL),
                ForeignCall::new("read_multiple_files").instead(SEVERAL),
            ])
            .parameter_aliases(&[
                ParameterAlias::new("file_path", "path"),
                ParameterAlias::new("absolute_path", "path"),
                ParameterAlias::new("target_file", "path"),
                ParameterAlias::new("head", "limit"),
            ])
            .reshape(other_readers)
    }

    fn plan(&self, input: &ReadInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::read_only().access(Access::read(path)))
    }

    async fn run(
        &self,
        input: ReadInput,
        cx: CallContext<NoProgress>,
    ) -> Result<ReadOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let reader = open(&cx, &path).await?;
        let start = read_start(&*reader).await?;
        if let Some(media) = Media::sniff(&start.bytes) {
            return whole_media(&*reader, &path, media).await;
        }
        if encoding::is_binary(&start.bytes) {
            return Err(binary(&path, reader.stat().size));
        }
        let most_lines = if input.numbered && input.offset > DEEP_LINE {
            DEEP_NUMBERED_LINES
        } else {
            PAGE_LINES
        };
        let request = PageRequest {
            line: input.offset.max(1),
            column: input.column,
            lines: input.limit.clamp(1, most_lines),
        };
        let (paged, decoded_from) = if let Some(utf16) = encoding::utf16(&start.bytes) {
            let paged = page_of_utf16(&*reader, &path, request, cx.cancel()).await?;
            (paged, Some(utf16.name()))
        } else {
            let source = OpenFile(&*reader);
            let paged = paging::read_page(&source, request, start, cx.cancel()).await?;
            (paged, None)
        };
        match paged {
            Paged::Page(page) => Ok(text_output(
                &input,
                &path,
                reader.stat().size,
                page,
                decoded_from,
            )),
            Paged::PastEnd { lines } => Err(past_end(&input, &path, lines)),
            Paged::PastLine { bytes } => {
                Err(paging::past_line(input.offset.max(1), bytes, input.column))
            }
        }
    }

    fn render(&self, output: &ReadOutput) -> Vec<Content> {
        output.content.clone()
    }
}

async fn open(
    cx: &CallContext<NoProgress>,
    path: &WorkPath,
) -> Result<Box<dyn FileReader>, ToolError> {
    cx.files().open(path).await.map_err(|error| {
        let kind = error.kind();
        let error = ToolError::from(error).at("/path");
        match kind {
            ErrorKind::NotRegularFile => error.hint("use `list` to see what is in a directory"),
            ErrorKind::NotFound => error.hint("use `find` or `list` to see the files"),
            _ => error,
        }
    })
}

/// Reads the first page's worth of bytes. Asks for one byte more than the file should have, so that
/// a small file is known to be complete after one read.
async fn read_start(reader: &dyn FileReader) -> Result<Start, ToolError> {
    let size = usize::try_from(reader.stat().size).unwrap_or(usize::MAX);
    let asked = size.saturating_add(1).clamp(MIN_FIRST_READ, PAGE_BYTES + 1);
    let bytes = reader.read_at(0, asked, Vec::new()).await?;
    Ok(Start {
        is_all: bytes.len() < asked,
        bytes,
    })
}

async fn whole_media(
    reader: &dyn FileReader,
    path: &WorkPath,
    media: Media,
) -> Result<ReadOutput, ToolError> {
    let size = reader.stat().size;
    let too_large = || {
        ToolError::new(
            ErrorKind::LimitExceeded,
            format!(
                "`{}` ({}) is larger than {} MiB",
                one_line(path.as_str()),
                media.mime,
                media.max_bytes / 1024 / 1024
            ),
        )
        .at("/path")
        .hint("make a smaller copy of it first, for example with `bash`")
    };
    if size > media.max_bytes as u64 {
        return Err(too_large());
    }
    let data = OpenFile(reader)
        .read_at(0, media.max_bytes + 1, Vec::new())
        .await?;
    if data.len() > media.max_bytes {
        return Err(too_large());
    }
    let media_type = media.mime.to_owned();
    let content = match media.class {
        MediaClass::Image => Content::Image { data, media_type },
        MediaClass::Document => Content::Document {
            data,
            media_type,
            name: path.file_name().unwrap_or_default().to_owned(),
        },
    };
    Ok(ReadOutput {
        path: path.as_str().to_owned(),
        media_type: media.mime,
        size,
        lines: None,
        next_offset: None,
        next_column: None,
        encoding: None,
        content: vec![content],
    })
}

async fn page_of_utf16(
    reader: &dyn FileReader,
    path: &WorkPath,
    request: PageRequest,
    cancel: &tokio_util::sync::CancellationToken,
) -> Result<Paged, ToolError> {
    let bytes = OpenFile(reader)
        .read_at(0, MAX_UTF16_BYTES + 1, Vec::new())
        .await?;
    if bytes.len() > MAX_UTF16_BYTES {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!(
                "`{}` is UTF-16 text larger than {} MiB",
                one_line(path.as_str()),
                MAX_UTF16_BYTES / 1024 / 1024
            ),
        )
        .at("/path")
        .hint("convert it with `iconv` in `bash` first"));
    }
    let text = by_size(bytes.len(), cancel, move |_| {
        Ok(DecodedText::decode(&bytes).into_text().into_owned())
    })
    .await?;
    paging::read_page(text.as_bytes(), request, Start::default(), cancel).await
}

fn text_output(
    input: &ReadInput,
    path: &WorkPath,
    size: u64,
    page: TextPage,
    decoded_from: Option<&'static str>,
) -> ReadOutput {
    let (text, guessed) = decode_page(page.bytes);
    let encoding = decoded_from.or(guessed);
    let first = input.offset.max(1);
    let text = if input.numbered {
        number_lines(&text, first)
    } else {
        text
    };
    let mut notes = Vec::new();
    if text.is_empty() {
        notes.push("the file is empty".to_owned());
    }
    if let Some(encoding) = encoding {
        notes.push(format!("decoded from {encoding}"));
    }
    if let Some(next) = page.next {
        let last = first + page.lines.saturating_sub(1);
        notes.push(if next.column > 0 {
            format!(
                "line {last} goes on; continue with offset={} column={}",
                next.line, next.column
            )
        } else {
            format!("lines {first}-{last}; continue with offset={}", next.line)
        });
    }
    let mut content = Vec::with_capacity(2);
    if !text.is_empty() {
        content.push(Content::Text(text));
    }
    if !notes.is_empty() {
        content.push(Content::Text(format!("[{}]", notes.join("; "))));
    }
    ReadOutput {
        path: path.as_str().to_owned(),
        media_type: "text/plain",
        size,
        lines: Some(LineRange {
            first,
            count: page.lines,
        }),
        next_offset: page.next.map(|next| next.line),
        next_column: page
            .next
            .and_then(|next| (next.column > 0).then_some(next.column)),
        encoding,
        content,
    }
}

/// The page as text, not copied when it is UTF-8, and its encoding when it is not.
fn decode_page(bytes: Vec<u8>) -> (String, Option<&'static str>) {
    match String::from_utf8(bytes) {
        Ok(text) => match text.strip_prefix('\u{feff}') {
            Some(unmarked) => (unmarked.to_owned(), None),
            None => (text, None),
        },
        Err(error) => {
            let bytes = error.into_bytes();
            let decoded = DecodedText::decode(&bytes);
            let encoding = decoded.unusual_encoding();
            (decoded.into_text().into_owned(), encoding)
        }
    }
}

fn number_lines(text: &str, first: u64) -> String {
    let mut numbered = String::with_capacity(text.len() + text.len() / 4);
    for (number, line) in (first..).zip(text.split_inclusive('\n')) {
        // Writing to a `String` cannot fail.
        let _ = write!(numbered, "{number:>6}\t{line}");
    }
    numbered
}

fn binary(path: &WorkPath, size: u64) -> ToolError {
    ToolError::invalid_input(format!(
        "`{}` is a binary file of {size} bytes",
        one_line(path.as_str())
    ))
    .at("/path")
    .hint("look into it with a command in `bash`, such as `file` or `xxd`")
}

fn past_end(input: &ReadInput, path: &WorkPath, lines: u64) -> ToolError {
    let name = one_line(path.as_str());
    ToolError::invalid_input(format!(
        "`{name}` has {lines} lines and ends before offset {}",
        input.offset
    ))
    .at("/offset")
    .hint("ask for a smaller `offset`")
}
