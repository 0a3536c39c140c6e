//! Splits a hostile server's output into lines.

use haft_testkit::{Fuzz, ParseOutcome};

use super::frame::Lines;

fn lines<'b>(chunks: impl Iterator<Item = &'b [u8]>) -> Vec<Vec<u8>> {
    let mut framer = Lines::default();
    let mut lines = Vec::new();
    for chunk in chunks {
        let pushed = framer.push(chunk, |line| lines.push(line.to_vec()));
        assert_eq!(pushed, Ok(()), "an input of a fuzz test is never too long");
    }
    lines
}

#[test]
fn lines_of_an_mcp_server_are_the_same_however_they_are_cut() {
    let seeds = ["{\"jsonrpc\":\"2.0\"}\n", "a\r\nb\n\n\nc", "\n", "no end"];
    Fuzz::seeds(seeds)
        .words(["\n", "\r\n", "\0", "\n\n"])
        .longest(512)
        .run(|bytes| {
            let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            // What follows the last line ending is not a line yet.
            expected.pop();
            for size in [1, 2, 7, bytes.len().max(1)] {
                assert_eq!(lines(bytes.chunks(size)), expected, "in pieces of {size}");
            }
            if expected.is_empty() {
                ParseOutcome::Refused
            } else {
                ParseOutcome::Taken
            }
        });
}
