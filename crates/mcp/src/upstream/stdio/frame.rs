//! Splits a child's output into lines, bounded in length and in how long one may stay unfinished.

use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::limits::{MESSAGE_BYTES, UNFINISHED};

#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
    began: Option<Instant>,
}

/// A line exceeded the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// Takes bytes and passes every completed line to `take`, without its line ending.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(at);
            bytes = rest.get(1..).unwrap_or_default();
            if self.unfinished.is_empty() {
                if head.len() > MESSAGE_BYTES {
                    return Err(TooLong);
                }
                take(head);
                continue;
            }
            self.keep(head)?;
            take(&self.unfinished);
            self.unfinished = Vec::new();
            self.began = None;
        }
        if !bytes.is_empty() {
            self.keep(bytes)?;
            self.began.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.unfinished.len() + bytes.len() > MESSAGE_BYTES {
            return Err(TooLong);
        }
        self.unfinished.extend_from_slice(bytes);
        Ok(())
    }

    /// Waits until a line has been unfinished for too long; forever if there is none.
    pub(super) async fn overdue(&self) {
        match self.began {
            Some(began) => tokio::time::sleep_until(began + UNFINISHED).await,
            None => std::future::pending().await,
        }
    }

    /// How long a line may stay unfinished.
    pub(super) fn patience() -> Duration {
        UNFINISHED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut framer = Lines::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            let take = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
            framer.push(chunk, take).unwrap();
        }
        lines
    }

    #[test]
    fn a_line_is_whole_however_it_was_cut() {
        assert_eq!(lines(&[b"a\nb\n"]), ["a", "b"]);
        assert_eq!(lines(&[b"a", b"b", b"\nc\n", b"d"]), ["ab", "c"]);
        assert_eq!(lines(&[b"\n\n"]), ["", ""]);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut framer = Lines::default();
        let chunk = vec![b'x'; 1024 * 1024];
        let mut pushed = 0;
        while framer.push(&chunk, |_| ()).is_ok() {
            pushed += chunk.len();
            assert!(pushed <= MESSAGE_BYTES);
        }
        assert_eq!(pushed, MESSAGE_BYTES);
    }
}
