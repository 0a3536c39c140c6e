//! Removes terminal control from output: escape sequences, carriage returns, other control
//! characters, bytes that are not UTF-8. Stateful, so that a sequence or a character split across
//! two chunks is still recognised.

use vte::{Params, Perform};

/// Cleans one stream.
#[derive(Default)]
pub(crate) struct Cleaner {
    /// Set while inside an escape sequence; the parser holds a fixed amount of memory.
    sequence: Option<Box<vte::Parser<256>>>,
    /// The start of a UTF-8 character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    /// Whether the last character was a carriage return that may belong to a line end.
    carriage_return: bool,
}

const ESCAPE: u8 = 0x1b;

impl Cleaner {
    /// Appends the clean text of a chunk to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        loop {
            if self.sequence.is_some() {
                rest = self.skip_sequence(rest, out);
            }
            if rest.is_empty() {
                return;
            }
            match memchr::memchr(ESCAPE, rest) {
                None => {
                    self.text(rest, out);
                    return;
                }
                Some(at) => {
                    let (text, sequence) = rest.split_at(at);
                    self.text(text, out);
                    self.flush_partial(out);
                    self.sequence = Some(Box::default());
                    rest = sequence;
                }
            }
        }
    }

    /// Ends the stream: an incomplete character is replaced.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.sequence = None;
        self.flush_partial(out);
        self.line_end(out);
    }

    /// Feeds an escape sequence to the parser, byte by byte, until it ends; returns what follows.
    fn skip_sequence<'a>(&mut self, bytes: &'a [u8], out: &mut String) -> &'a [u8] {
        let Some(parser) = &mut self.sequence else {
            return bytes;
        };
        for (index, byte) in bytes.iter().enumerate() {
            let mut ending = SequenceEnd::default();
            parser.advance(&mut ending, &[*byte]);
            if ending.ended {
                self.sequence = None;
                if let Some(character) = ending.printed {
                    self.character(character, out);
                }
                return bytes.get(index + 1..).unwrap_or_default();
            }
        }
        &[]
    }

    fn text(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            joined = whole;
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.characters(text, out);
                    return;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.characters(std::str::from_utf8(valid).unwrap_or_default(), out);
                    match error.error_len() {
                        None => {
                            self.partial = after.to_vec();
                            return;
                        }
                        Some(bad) => {
                            self.character(char::REPLACEMENT_CHARACTER, out);
                            rest = after.get(bad..).unwrap_or_default();
                        }
                    }
                }
            }
        }
    }

    fn characters(&mut self, text: &str, out: &mut String) {
        let plain = |byte: u8| byte >= 0x20 && byte != 0x7f && byte != 0xc2;
        if !self.carriage_return && text.bytes().all(|byte| plain(byte) || byte == b'\n') {
            out.push_str(text);
            return;
        }
        for character in text.chars() {
            self.character(character, out);
        }
    }

    fn character(&mut self, character: char, out: &mut String) {
        if character == '\r' {
            self.carriage_return = true;
            return;
        }
        if character == '\n' {
            self.carriage_return = false;
        }
        self.line_end(out);
        if character == '\n' || character == '\t' || !character.is_control() {
            out.push(character);
        }
    }

    /// A carriage return that was not part of a line end starts a new line: each state of a
    /// progress bar gets its own line.
    fn line_end(&mut self, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) {
            out.push('\n');
        }
    }

    fn flush_partial(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.character(char::REPLACEMENT_CHARACTER, out);
        }
    }
}

/// Records when the parser sees the end of a sequence.
#[derive(Default)]
struct SequenceEnd {
    ended: bool,
    printed: Option<char>,
}

impl Perform for SequenceEnd {
    fn print(&mut self, character: char) {
        self.ended = true;
        self.printed = Some(character);
    }

    fn execute(&mut self, byte: u8) {
        // CAN and SUB end a sequence. Terminals execute other controls inside one without ending
        // it; here a line end does end it, so that a torn sequence cannot swallow lines.
        if matches!(byte, 0x18 | 0x1a) {
            self.ended = true;
        } else if byte == b'\n' {
            self.ended = true;
            self.printed = Some('\n');
        }
    }

    fn csi_dispatch(&mut self, _: &Params, _: &[u8], _: bool, _: char) {
        self.ended = true;
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.ended = true;
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], bell_terminated: bool) {
        // Otherwise it ends with ESC \, whose backslash is still to come.
        self.ended = bell_terminated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(chunks: &[&[u8]]) -> String {
        let (mut cleaner, mut out) = (Cleaner::default(), String::new());
        for chunk in chunks {
            cleaner.push(chunk, &mut out);
        }
        cleaner.finish(&mut out);
        out
    }

    /// Mistake 20 of requirements.md: stripping per chunk lets a split sequence through. Every
    /// input is cut at every place, and the result must not depend on where.
    fn check(input: &[u8], expect: &str) {
        assert_eq!(clean(&[input]), expect);
        for cut in 0..=input.len() {
            let (head, tail) = input.split_at(cut);
            assert_eq!(clean(&[head, tail]), expect, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(clean(&bytes), expect, "byte by byte");
    }

    #[test]
    fn mistake_20_sequences_split_over_chunks_are_removed() {
        check(
            b"\x1b[31mred\x1b[0m and \x1b[1;4mmore\x1b[m",
            "red and more",
        );
        check(b"\x1b]0;title\x07shown", "shown");
        check(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\.", "link.");
        check(b"\x1bPq#0\x1b\\after", "after");
        check(b"\x1b(Bplain", "plain");
    }

    #[test]
    fn carriage_returns_and_controls_become_lines_or_nothing() {
        check(b"a\r\nb\r\n", "a\nb\n");
        check(b"10%\r20%\rdone\n", "10%\n20%\ndone\n");
        check(b"bell\x07 back\x08space\ttab", "bell backspace\ttab");
        check("c1 \u{9b}31m".as_bytes(), "c1 31m");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_one_by_one() {
        check("grüße €".as_bytes(), "grüße €");
        check(b"a\xffb", "a\u{fffd}b");
        check(b"cut \xe2\x82", "cut \u{fffd}");
        check(b"\xe2\x82\x1b[0mx", "\u{fffd}x");
    }

    #[test]
    fn an_endless_sequence_holds_no_memory() {
        let (mut cleaner, mut out) = (Cleaner::default(), String::new());
        cleaner.push(b"\x1b]0;", &mut out);
        let junk = vec![b'x'; 1 << 16];
        for _ in 0..64 {
            cleaner.push(&junk, &mut out);
        }
        cleaner.push(b"\x07end", &mut out);
        assert_eq!(out, "end");
    }
}
