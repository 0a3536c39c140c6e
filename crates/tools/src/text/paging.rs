//! Cuts a long text into pages of whole lines, reading no more than it must.
//!
//! A page starts at a line, has a limited number of lines and bytes, and says where the next one
//! starts. A line longer than a page is continued by column, so every byte can be reached. Seeking
//! reuses one buffer however deep it goes.

use std::future::Future;

use haft_contract::{ErrorKind, ToolError};
use memchr::{memchr, memchr_iter, memrchr};
use tokio_util::sync::CancellationToken;

/// The most lines in a page.
pub(crate) const PAGE_LINES: u64 = 2_000;

/// The most bytes in a page.
pub(crate) const PAGE_BYTES: usize = 48_000;

/// How much is read at once while seeking.
pub(crate) const SEEK_BYTES: usize = 1024 * 1024;

/// The default `offset` of a tool's input.
pub(crate) fn first_line() -> u64 {
    1
}

/// The default `limit` of a tool's input.
pub(crate) fn page_lines() -> u64 {
    PAGE_LINES
}

/// Bytes that can be read from any position.
pub(crate) trait ByteSource: Sync {
    /// Reads up to `len` bytes at an offset into the given buffer; fewer mean the end.
    fn read_at(
        &self,
        offset: u64,
        len: usize,
        buffer: Vec<u8>,
    ) -> impl Future<Output = Result<Vec<u8>, ToolError>> + Send;
}

impl ByteSource for [u8] {
    async fn read_at(
        &self,
        offset: u64,
        len: usize,
        mut buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ToolError> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let rest = rest.unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(rest.get(..len).unwrap_or(rest));
        Ok(buffer)
    }
}

/// Which page to cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    /// The line it starts at, from 1.
    pub(crate) line: u64,
    /// The byte of that line it starts at, for a line longer than a page.
    pub(crate) column: u64,
    /// The most lines.
    pub(crate) lines: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextPage {
    /// The bytes. They end with a line ending unless the text ends or a very long line is cut.
    pub(crate) bytes: Vec<u8>,
    /// Lines that start or continue in it.
    pub(crate) lines: u64,
    /// Where the next page starts, unless this is the last.
    pub(crate) next: Option<NextPage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextPage {
    /// The line.
    pub(crate) line: u64,
    /// The byte of that line; zero unless a line is longer than a page.
    pub(crate) column: u64,
}

/// A page, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Paged {
    /// The page.
    Page(TextPage),
    /// The text ends before the requested line.
    PastEnd {
        /// Lines in total.
        lines: u64,
    },
    /// The line ends before the requested column.
    PastLine {
        /// Bytes in the line, without its line ending.
        bytes: u64,
    },
}

/// The error for a column past the end of its line.
pub(crate) fn past_line(line: u64, bytes: u64, column: u64) -> ToolError {
    ToolError::invalid_input(format!(
        "line {line} has {bytes} bytes and ends before column {column}"
    ))
    .at("/column")
    .hint("use the `column` the previous page named, or leave it out")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStart {
    At(u64),
    PastEnd { lines: u64 },
}

/// Reads one page. `start` holds the source's first bytes, which the caller has already read.
pub(crate) async fn read_page<S: ByteSource + ?Sized>(
    source: &S,
    request: PageRequest,
    start: Start,
    cancel: &CancellationToken,
) -> Result<Paged, ToolError> {
    if request.line <= 1 && request.column == 0 && (start.is_all || start.bytes.len() > PAGE_BYTES)
    {
        let page = cut(start.bytes, start.is_all, request);
        return Ok(Paged::Page(page));
    }
    let mut buffer = start.bytes;
    let sought = seek(source, request.line, &mut buffer, cancel).await?;
    let start = match sought {
        LineStart::At(at) => at,
        LineStart::PastEnd { lines } => return Ok(Paged::PastEnd { lines }),
    };
    if request.column > 0
        && let Some(bytes) =
            line_shorter_than(source, start, request.column, &mut buffer, cancel).await?
    {
        return Ok(Paged::PastLine { bytes });
    }
    let at = start.saturating_add(request.column);
    let bytes = source.read_at(at, PAGE_BYTES + 1, buffer).await?;
    if bytes.is_empty() && request.column > 0 {
        return Ok(Paged::PastLine {
            bytes: request.column,
        });
    }
    if bytes.is_empty() && request.line > 1 {
        return Ok(Paged::PastEnd {
            lines: request.line - 1,
        });
    }
    let is_all = bytes.len() <= PAGE_BYTES;
    Ok(Paged::Page(cut(bytes, is_all, request)))
}

/// The first bytes of a source, with whether they are all of it.
#[derive(Debug, Default)]
pub(crate) struct Start {
    pub(crate) bytes: Vec<u8>,
    /// Whether the source ends here.
    pub(crate) is_all: bool,
}

/// Finds where a line starts by counting line endings, chunk by chunk, in one buffer.
async fn seek<S: ByteSource + ?Sized>(
    source: &S,
    line: u64,
    buffer: &mut Vec<u8>,
    cancel: &CancellationToken,
) -> Result<LineStart, ToolError> {
    let wanted = line.saturating_sub(1);
    if wanted == 0 {
        return Ok(LineStart::At(0));
    }
    let mut offset = 0_u64;
    let mut passed = 0_u64;
    let mut last = None;
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::new(
                ErrorKind::Cancelled,
                "stopped while looking for the line",
            ));
        }
        *buffer = source
            .read_at(offset, SEEK_BYTES, std::mem::take(buffer))
            .await?;
        let ends = memchr_iter(b'\n', buffer).count() as u64;
        if passed + ends >= wanted {
            let nth = usize::try_from(wanted - passed - 1).unwrap_or(usize::MAX);
            let at = memchr_iter(b'\n', buffer).nth(nth).unwrap_or(0);
            return Ok(LineStart::At(offset + at as u64 + 1));
        }
        passed += ends;
        offset += buffer.len() as u64;
        last = buffer.last().copied().or(last);
        if buffer.len() < SEEK_BYTES {
            let unfinished = last.is_some_and(|byte| byte != b'\n');
            return Ok(LineStart::PastEnd {
                lines: passed + u64::from(unfinished),
            });
        }
    }
}

/// The length of the line at `start`, if it ends before the column.
async fn line_shorter_than<S: ByteSource + ?Sized>(
    source: &S,
    start: u64,
    column: u64,
    buffer: &mut Vec<u8>,
    cancel: &CancellationToken,
) -> Result<Option<u64>, ToolError> {
    let mut passed = 0_u64;
    while passed < column {
        if cancel.is_cancelled() {
            return Err(ToolError::new(
                ErrorKind::Cancelled,
                "stopped while looking for the column",
            ));
        }
        let ask = usize::try_from(column - passed).map_or(SEEK_BYTES, |left| left.min(SEEK_BYTES));
        *buffer = source
            .read_at(start + passed, ask, std::mem::take(buffer))
            .await?;
        if let Some(end) = memchr(b'\n', buffer) {
            return Ok(Some(passed + end as u64));
        }
        passed += buffer.len() as u64;
        if buffer.len() < ask {
            return Ok(Some(passed));
        }
    }
    Ok(None)
}

/// Cuts a page off the front of `bytes`; `is_all` says that nothing follows.
fn cut(mut bytes: Vec<u8>, is_all: bool, request: PageRequest) -> TextPage {
    let room = bytes.get(..PAGE_BYTES).unwrap_or(&bytes);
    let last_line = usize::try_from(request.lines.max(1) - 1).unwrap_or(usize::MAX);
    if let Some(end) = memchr_iter(b'\n', room).nth(last_line) {
        let lines = request.lines.max(1);
        let more = end + 1 < bytes.len() || !is_all;
        bytes.truncate(end + 1);
        return TextPage {
            bytes,
            lines,
            next: more.then_some(NextPage {
                line: request.line + lines,
                column: 0,
            }),
        };
    }
    if is_all && bytes.len() <= PAGE_BYTES {
        let ends = memchr_iter(b'\n', &bytes).count() as u64;
        let unfinished = bytes.last().is_some_and(|byte| *byte != b'\n');
        return TextPage {
            bytes,
            lines: ends + u64::from(unfinished),
            next: None,
        };
    }
    if let Some(end) = memrchr(b'\n', room) {
        let lines = memchr_iter(b'\n', room).count() as u64;
        bytes.truncate(end + 1);
        return TextPage {
            bytes,
            lines,
            next: Some(NextPage {
                line: request.line + lines,
                column: 0,
            }),
        };
    }
    let end = character_end(&bytes, PAGE_BYTES);
    bytes.truncate(end);
    TextPage {
        bytes,
        lines: 1,
        next: Some(NextPage {
            line: request.line,
            column: request.column + end as u64,
        }),
    }
}

/// The last position at or before `limit` that does not split a UTF-8 character.
fn character_end(bytes: &[u8], limit: usize) -> usize {
    const LONGEST_TAIL: usize = 3;
    let starts_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (limit.saturating_sub(LONGEST_TAIL)..=limit)
        .rev()
        .find(|&at| !starts_inside(at))
        .unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], line: u64, column: u64, lines: u64) -> Paged {
        let request = PageRequest {
            line,
            column,
            lines,
        };
        let start = Start {
            bytes: bytes.get(..PAGE_BYTES + 1).unwrap_or(bytes).to_vec(),
            is_all: bytes.len() <= PAGE_BYTES,
        };
        let cancel = CancellationToken::new();
        let mut reading = std::pin::pin!(read_page(bytes, request, start, &cancel));
        // An in-memory source is always ready.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match reading.as_mut().poll(&mut context) {
            std::task::Poll::Ready(paged) => paged.unwrap(),
            std::task::Poll::Pending => panic!("a source in memory waited"),
        }
    }

    fn check(bytes: &[u8], line: u64, lines: u64, expect: (&[u8], u64, Option<u64>)) {
        let Paged::Page(page) = page(bytes, line, 0, lines) else {
            panic!("past the end");
        };
        assert_eq!(
            (
                page.bytes.as_slice(),
                page.lines,
                page.next.map(|next| next.line)
            ),
            expect
        );
    }

    #[test]
    fn pages_hold_whole_lines_and_name_the_next() {
        check(b"a\nb\nc\n", 1, 2, (b"a\nb\n", 2, Some(3)));
        check(b"a\nb\nc\n", 3, 2, (b"c\n", 1, None));
        check(b"a\nb\nc", 2, 5, (b"b\nc", 2, None));
        check(b"a\nb\n", 1, 2, (b"a\nb\n", 2, None));
        check(b"", 1, 2, (b"", 0, None));
    }

    #[test]
    fn past_the_end_says_how_many_lines_there_are() {
        assert_eq!(page(b"a\nb\n", 3, 0, 1), Paged::PastEnd { lines: 2 });
        assert_eq!(page(b"a\nb", 9, 0, 1), Paged::PastEnd { lines: 2 });
        assert_eq!(page(b"", 2, 0, 1), Paged::PastEnd { lines: 0 });
    }

    #[test]
    fn a_column_past_the_end_of_its_line_says_how_long_the_line_is() {
        assert_eq!(page(b"a\nb", 2, 7, 1), Paged::PastLine { bytes: 1 });
        assert_eq!(page(b"a\nb", 2, 1, 1), Paged::PastLine { bytes: 1 });
        assert_eq!(page(b"ab\ncd\n", 1, 3, 1), Paged::PastLine { bytes: 2 });
        assert_eq!(page(b"ab\n", 1, u64::MAX, 1), Paged::PastLine { bytes: 2 });
        assert_eq!(page(b"", 1, u64::MAX, 1), Paged::PastLine { bytes: 0 });
        assert!(matches!(page(b"ab\n", 1, 2, 1), Paged::Page(_)));
    }

    /// RX-04: a line longer than any page is cut, and the rest of it can be read.
    #[test]
    fn rx_04_a_line_longer_than_a_page_is_continued_by_column() {
        let mut long = "é".repeat(40_000).into_bytes();
        long.extend_from_slice(b"\nend\n");
        let mut read = Vec::new();
        let mut next = NextPage { line: 1, column: 0 };
        loop {
            let Paged::Page(page) = page(&long, next.line, next.column, PAGE_LINES) else {
                panic!("past the end");
            };
            assert!(page.bytes.len() <= PAGE_BYTES);
            assert!(std::str::from_utf8(&page.bytes).is_ok());
            read.extend(page.bytes);
            match page.next {
                Some(following) => next = following,
                None => break,
            }
        }
        assert_eq!(read, long);
    }

    proptest::proptest! {
        #[test]
        fn reading_page_after_page_gives_back_every_byte(
            lengths in proptest::collection::vec(0_usize..900, 0..150),
            per_page in 1_u64..80,
        ) {
            let lines: Vec<String> = lengths.into_iter().map(|length| "é".repeat(length)).collect();
            let bytes = lines.join("\n").into_bytes();
            let mut read = Vec::new();
            let mut next = Some(NextPage { line: 1, column: 0 });
            while let Some(at) = next {
                let Paged::Page(page) = page(&bytes, at.line, at.column, per_page) else {
                    panic!("past the end");
                };
                read.extend(page.bytes);
                next = page.next;
            }
            proptest::prop_assert_eq!(read, bytes);
        }
    }
}
