//! What a kept process printed: the newest bytes of its cleaned output, at offsets that never
//! change.
//!
//! Offsets count bytes of clean text from the very first, so a reader that remembers one continues
//! exactly there, and learns how much it missed if those bytes are no longer kept.

use std::collections::VecDeque;

use haft_contract::{
    background::{LogPage, LogStart},
    ops::Stream,
};

use crate::capture::Cleaner;

pub(super) struct Log {
    stdout: Cleaner,
    stderr: Cleaner,
    clean: String,
    /// The newest text; begins and ends between characters.
    kept: VecDeque<u8>,
    /// The offset of its first byte.
    start: u64,
    /// The offset after the last byte shown.
    shown: u64,
    limit: usize,
}

impl Log {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            stdout: Cleaner::default(),
            stderr: Cleaner::default(),
            clean: String::new(),
            kept: VecDeque::new(),
            start: 0,
            shown: 0,
            limit,
        }
    }

    /// Appends output.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let mut clean = std::mem::take(&mut self.clean);
        clean.clear();
        match stream {
            Stream::Stdout => self.stdout.push(bytes, &mut clean),
            Stream::Stderr | Stream::Progress => self.stderr.push(bytes, &mut clean),
        }
        self.append(&clean);
        self.clean = clean;
    }

    /// Notes that there will be no more output.
    pub(super) fn finish(&mut self) {
        let mut clean = String::new();
        self.stdout.finish(&mut clean);
        self.stderr.finish(&mut clean);
        self.append(&clean);
    }

    /// The offset of the first kept byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The offset the next byte will get.
    pub(super) fn end(&self) -> u64 {
        self.start + self.kept.len() as u64
    }

    /// The offset after the last byte shown.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// Notes that everything before this offset has been shown.
    pub(super) fn note_shown(&mut self, next: u64) {
        self.shown = next;
    }

    /// At most `most` bytes, starting at `from`.
    pub(super) fn page(&self, from: LogStart, most: usize) -> LogPage {
        let asked = match from {
            LogStart::At(offset) => offset.min(self.end()),
            LogStart::Unread => self.shown.min(self.end()),
            LogStart::End => self.start + self.kept.len().saturating_sub(most) as u64,
        };
        let first = usize::try_from(asked.saturating_sub(self.start));
        let mut first = first.unwrap_or(usize::MAX).min(self.kept.len());
        while self.is_inside_character(first) {
            first += 1;
        }
        let mut last = first.saturating_add(most).min(self.kept.len());
        while last > first && self.is_inside_character(last) {
            last -= 1;
        }
        let bytes: Vec<u8> = self.kept.range(first..last).copied().collect();
        let start = self.start + first as u64;
        LogPage {
            start,
            // Both ends are between characters, so nothing is replaced.
            text: String::from_utf8_lossy(&bytes).into_owned(),
            dropped: self.start.saturating_sub(asked),
            more: (self.kept.len() - last) as u64,
        }
    }

    fn append(&mut self, text: &str) {
        self.kept.extend(text.as_bytes());
        let mut drop = self.kept.len().saturating_sub(self.limit);
        while self.is_inside_character(drop) {
            drop += 1;
        }
        self.kept.drain(..drop);
        self.start += drop as u64;
    }

    fn is_inside_character(&self, index: usize) -> bool {
        self.kept
            .get(index)
            .is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(limit: usize, chunks: &[&str]) -> Log {
        let mut log = Log::new(limit);
        for chunk in chunks {
            log.push(Stream::Stdout, chunk.as_bytes());
        }
        log
    }

    #[test]
    fn a_page_says_what_it_misses_and_what_follows() {
        let log = log(8, &["0123456789", "abcdef"]);
        assert_eq!((log.start(), log.end()), (8, 16));
        let page = log.page(LogStart::At(3), 4);
        assert_eq!((page.start, page.text.as_str()), (8, "89ab"));
        assert_eq!((page.dropped, page.more, page.next()), (5, 4, 12));
        let page = log.page(LogStart::End, 3);
        assert_eq!((page.start, page.text.as_str()), (13, "def"));
        assert_eq!((page.dropped, page.more), (0, 0));
        let page = log.page(LogStart::At(99), 4);
        assert_eq!((page.start, page.text.as_str()), (16, ""));
    }

    #[test]
    fn characters_are_never_cut() {
        let log = log(7, &["a€€€"]);
        assert_eq!(log.start(), 4);
        let page = log.page(LogStart::At(4), 5);
        assert_eq!((page.text.as_str(), page.more), ("€", 3));
        assert_eq!(log.page(LogStart::At(5), 9).start, 7);
    }

    proptest! {
        /// However the output is cut into pieces, a reader that follows the offsets reads exactly
        /// the kept text.
        #[test]
        fn following_the_offsets_reads_everything_once(
            chunks in prop::collection::vec("[aé€\n]{0,9}", 0..40),
            limit in 4_usize..64,
            most in 4_usize..32,
        ) {
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            let all = chunks.concat();
            let log = log(limit, &chunks);
            prop_assert_eq!(log.end(), all.len() as u64);
            let mut read = String::new();
            let mut at = log.start();
            loop {
                let page = log.page(LogStart::At(at), most);
                prop_assert_eq!(page.start, at);
                at = page.next();
                read.push_str(&page.text);
                if page.more == 0 {
                    break;
                }
                prop_assert!(!page.text.is_empty());
            }
            prop_assert_eq!(read.as_str(), &all[usize::try_from(log.start()).unwrap()..]);
        }
    }
}
