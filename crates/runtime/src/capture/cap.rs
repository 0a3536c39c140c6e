//! Keeps the head and the tail of a text and counts exactly what is left out in between.

use std::{collections::VecDeque, fmt::Write as _};

use super::NOTICE_BYTES;
use crate::limits::OutputLimits;

pub(super) struct CappedText {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    tail: VecDeque<u8>,
    bytes: u64,
    lines: u64,
    tail_newlines: u64,
}

impl CappedText {
    pub(super) fn new(limits: OutputLimits) -> Self {
        Self {
            head_limit: limits.head_bytes,
            tail_limit: limits.tail_bytes,
            head: String::new(),
            tail: VecDeque::new(),
            bytes: 0,
            lines: 0,
            tail_newlines: 0,
        }
    }

    /// Whether adding this text would push something out of the middle.
    pub(super) fn would_overflow(&self, text: &str) -> bool {
        self.head.len() + self.tail.len() + text.len() > self.head_limit + self.tail_limit
    }

    /// The head and the tail so far, and how many bytes are left out between them.
    pub(super) fn so_far(&mut self) -> (String, u64) {
        let (bytes, _) = self.omitted();
        let (head, tail) = self.halves();
        let mut text = String::with_capacity(head.len() + tail.len() + NOTICE_BYTES);
        text.push_str(head);
        if bytes > 0 {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n[… {bytes} bytes left out …]\n");
        }
        text.push_str(tail);
        (text, bytes)
    }

    /// Everything so far, while nothing has been left out.
    pub(super) fn halves(&mut self) -> (&str, &str) {
        let tail = std::str::from_utf8(self.tail.make_contiguous()).unwrap_or_default();
        (&self.head, tail)
    }

    pub(super) fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += newlines(text.as_bytes());
        let mut rest = text;
        if self.tail.is_empty() && self.head.len() < self.head_limit {
            let (into_head, after) = split_before(rest, self.head_limit - self.head.len());
            self.head.push_str(into_head);
            rest = after;
        }
        if rest.is_empty() {
            return;
        }
        // Once the head is closed it stays closed, even if a character did not quite fit.
        let bytes = rest.as_bytes();
        let keep = bytes
            .get(bytes.len().saturating_sub(self.tail_limit)..)
            .unwrap_or_default();
        if keep.len() == self.tail_limit {
            self.tail.clear();
            self.tail_newlines = 0;
        }
        self.tail.extend(keep);
        self.tail_newlines += newlines(keep);
        while self.tail.len() > self.tail_limit
            || self.tail.front().is_some_and(|byte| byte & 0xc0 == 0x80)
        {
            if self.tail.pop_front() == Some(b'\n') {
                self.tail_newlines -= 1;
            }
        }
    }

    /// Bytes and lines left out between head and tail.
    pub(super) fn omitted(&self) -> (u64, u64) {
        let bytes = self.bytes - (self.head.len() + self.tail.len()) as u64;
        let lines = self.lines - newlines(self.head.as_bytes()) - self.tail_newlines;
        (bytes, lines)
    }

    /// The head, a line that says what is missing, and the tail. The notice on how to get the rest
    /// comes first: agents cut long results again, in the middle or at the end, and every model is
    /// sure to see the first lines.
    pub(super) fn text(&mut self, how_to_get_it: impl FnOnce(&mut String)) -> String {
        let (bytes, lines) = self.omitted();
        let mut text = std::mem::take(&mut self.head);
        if bytes > 0 {
            let mut whole = String::with_capacity(text.len() + self.tail.len() + NOTICE_BYTES);
            // Writing to a `String` cannot fail.
            let _ = write!(
                whole,
                "[{bytes} bytes in {lines} lines are left out below; "
            );
            how_to_get_it(&mut whole);
            whole.push_str("]\n");
            whole.push_str(&text);
            text = whole;
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let _ = writeln!(text, "[… {bytes} bytes in {lines} lines left out …]");
        }
        let tail = self.tail.make_contiguous();
        text.push_str(std::str::from_utf8(tail).unwrap_or_default());
        text
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Splits before `limit` bytes, at a character boundary.
fn split_before(text: &str, limit: usize) -> (&str, &str) {
    if text.len() <= limit {
        return (text, "");
    }
    let mut at = limit;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.split_at(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capped(head: usize, tail: usize, chunks: &[&str]) -> CappedText {
        let mut capped = CappedText::new(OutputLimits {
            head_bytes: head,
            tail_bytes: tail,
            artifact_bytes: 0,
            stream_bytes: 0,
        });
        for chunk in chunks {
            capped.push(chunk);
        }
        capped
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let mut all = capped(4, 4, &["ab", "cd", "ef"]);
        assert_eq!(all.omitted(), (0, 0));
        assert_eq!(all.text(|_| ()), "abcdef");
    }

    #[test]
    fn what_does_not_fit_is_counted_exactly() {
        let mut some = capped(4, 4, &["a\nb\n", "c\nd\n", "e\nf\n"]);
        assert_eq!(some.omitted(), (4, 2));
        assert_eq!(
            some.text(|text| text.push_str("ask for it")),
            "[4 bytes in 2 lines are left out below; ask for it]\na\nb\n[… 4 bytes in 2 lines left out \
             …]\ne\nf\n"
        );
    }

    proptest! {
        #[test]
        fn head_tail_and_omitted_add_up(chunks in prop::collection::vec("[aé€\n]{0,9}", 0..30)) {
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            let all = chunks.concat();
            let mut kept = capped(8, 8, &chunks);
            let (bytes, lines) = kept.omitted();
            let tail = kept.halves().1.to_owned();
            let head = kept.halves().0.to_owned();
            prop_assert!(all.starts_with(&head) && all.ends_with(&tail));
            prop_assert_eq!(head.len() as u64 + tail.len() as u64 + bytes, all.len() as u64);
            let count = |text: &str| text.matches('\n').count() as u64;
            prop_assert_eq!(count(&head) + count(&tail) + lines, count(&all));
            prop_assert!(head.len() <= 8 && tail.len() <= 8);
        }
    }
}
