//! Receives the lines of one file from the searcher.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use haft_contract::ops::{GrepFound, GrepLine, GrepMode};

use super::hits::{FileHits, HitLine, Hits};
use crate::local::walk::shown;

/// Collects the hits of one file; reused from file to file.
pub(super) struct LineSink<'a> {
    hits: &'a Hits,
    /// The file, if its lines are told as they are found.
    path: Option<String>,
    found: FileHits,
}

impl<'a> LineSink<'a> {
    pub(super) fn new(hits: &'a Hits) -> Self {
        Self {
            hits,
            path: None,
            found: FileHits::default(),
        }
    }

    /// Clears what was collected from the previous file, and begins this one.
    pub(super) fn begin(&mut self, path: &[u8]) {
        let tells = self.hits.asked.mode == GrepMode::Content && self.hits.tells();
        self.path = tells.then(|| shown(path).0);
        self.found.count = 0;
        self.found.lines.clear();
    }

    /// The hits of the file, if there are any.
    pub(super) fn take(&mut self) -> Option<FileHits> {
        (self.found.count > 0).then(|| std::mem::take(&mut self.found))
    }

    fn push(&mut self, bytes: &[u8], number: u64, matched: bool) {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let kept = cut(line, self.hits.asked.max_line_bytes);
        let text = String::from_utf8_lossy(kept).into_owned();
        let cut = (line.len() - kept.len()) as u64;
        if let (Some(path), true) = (&self.path, matched) {
            self.hits.tell(|| {
                GrepFound::Line(GrepLine {
                    path: path.clone(),
                    number,
                    text: text.clone(),
                    matched,
                    cut,
                })
            });
        }
        self.found.lines.push(HitLine {
            number,
            text,
            matched,
            cut,
        });
    }
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.hits.asked.mode {
            GrepMode::Files => {
                self.found.count = 1;
                Ok(false)
            }
            GrepMode::Count => {
                self.found.count += found.lines().count() as u64;
                Ok(true)
            }
            GrepMode::Content => {
                // A multi-line match arrives as one piece.
                let first = found.line_number().unwrap_or(1);
                for (number, line) in (first..).zip(found.lines()) {
                    self.push(line, number, true);
                    self.found.count += 1;
                }
                // One more than the page holds shows that there are more.
                Ok(self.found.count < self.hits.wanted())
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.hits.asked.mode == GrepMode::Content {
            self.push(context.bytes(), context.line_number().unwrap_or(1), false);
        }
        Ok(true)
    }
}

/// A line cut to a length, but not inside a character.
fn cut(line: &[u8], limit: usize) -> &[u8] {
    if line.len() <= limit {
        return line;
    }
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut end = limit;
    // A character has at most four bytes; a longer run of these is no text anyway.
    while end > 0 && limit - end < 4 && is_inside(end) {
        end -= 1;
    }
    line.get(..end).unwrap_or_default()
}
