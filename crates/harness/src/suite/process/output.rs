//! Output, input and how a child ends.

use std::fmt::Write as _;

use haft_contract::{
    access::Command,
    ops::{ExitStatus, Input, Spawn, Stream},
};

use super::{EndedChild, finish, script, start};
use crate::suite::fixture::{BackendFixture, at, works};

/// Runs commands that print one line each; the next one runs when that line was read.
async fn line_by_line(fixture: &impl BackendFixture, commands: &[&str]) -> EndedChild {
    let mut text = String::new();
    for (number, command) in commands.iter().enumerate() {
        if number > 0 {
            let _ = write!(text, "until test -e read{number}; do sleep 0.02; done; ");
        }
        let _ = write!(text, "{command}; ");
    }
    let mut child = start(fixture, script(fixture, &text)).await;
    let mut chunks = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        chunks.push(chunk);
        fixture.put(&format!("read{}", chunks.len()), b"").await;
    }
    let status = works("wait", child.wait().await).status;
    EndedChild { chunks, status }
}

/// Sequence numbers count up from 0 over all streams.
pub async fn output_is_numbered_without_gaps(fixture: impl BackendFixture) {
    let commands = ["echo a", "echo b >&2", "echo c", "echo d >&2", "echo e"];
    let ended = line_by_line(&fixture, &commands).await;
    let numbers: Vec<u64> = ended.chunks.iter().map(|chunk| chunk.sequence).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert!(ended.chunks.iter().all(|chunk| !chunk.bytes.is_empty()));
    assert_eq!(ended.stdout(), "a\nc\ne\n");
    assert_eq!(ended.stream(Stream::Stderr), "b\nd\n");
}

/// Output written first comes first, whichever stream it went to.
pub async fn streams_keep_the_order_they_were_written_in(fixture: impl BackendFixture) {
    let commands = ["echo 1", "echo 2 >&2", "echo 3", "echo 4 >&2"];
    let ended = line_by_line(&fixture, &commands).await;
    let merged: Vec<u8> = ended
        .chunks
        .iter()
        .flat_map(|chunk| chunk.bytes.clone())
        .collect();
    assert_eq!(String::from_utf8(merged).expect("UTF-8"), "1\n2\n3\n4\n");
}

/// File descriptor 3 of a script tool arrives separately from its output.
pub async fn progress_lines_have_their_own_stream(fixture: impl BackendFixture) {
    let spawn = Spawn {
        progress_channel: true,
        ..script(&fixture, "echo half >&3; echo result")
    };
    let ended = finish(&fixture, spawn).await;
    assert_eq!(ended.stream(Stream::Progress), "half\n");
    assert_eq!(ended.stdout(), "result\n");
}

/// Mistake 12: the exit code is not dropped.
pub async fn the_exit_code_is_told(fixture: impl BackendFixture) {
    for (text, code) in [
        ("true", 0),
        ("exit 3", 3),
        ("false", 1),
        ("echo x; exit 77", 77),
    ] {
        let ended = finish(&fixture, script(&fixture, text)).await;
        assert_eq!(ended.status, ExitStatus::Code(code), "{text}");
    }
}

/// A child ended by a signal has no exit code.
pub async fn a_signal_is_told(fixture: impl BackendFixture) {
    for (text, signal) in [("kill -9 $$", 9), ("echo x; kill -TERM $$", 15)] {
        let ended = finish(&fixture, script(&fixture, text)).await;
        assert_eq!(ended.status, ExitStatus::Signal(signal), "{text}");
    }
}

/// A shell reports it with 127; a missing program fails to start, or ends with 127.
pub async fn a_missing_program_is_told(fixture: impl BackendFixture) {
    let ended = finish(&fixture, script(&fixture, "haft-no-such-program")).await;
    assert_eq!(ended.status, ExitStatus::Code(127));
    assert!(
        ended
            .stream(Stream::Stderr)
            .contains("haft-no-such-program")
    );
    let argv = Command::Argv(vec!["haft-no-such-program".to_owned()]);
    let spawn = Spawn::new(argv, at("."), fixture.tier());
    if let Ok(mut child) = fixture.operations().processes.spawn(spawn).await {
        assert_eq!(
            child.wait().await.expect("a status").status,
            ExitStatus::Code(127)
        );
    }
}

/// Mistake 4: what a failing command printed is not lost.
pub async fn output_before_a_failure_is_kept(fixture: impl BackendFixture) {
    let text = "printf 'no newline at the end'; exit 1";
    let ended = finish(&fixture, script(&fixture, text)).await;
    assert_eq!(ended.stdout(), "no newline at the end");
    assert_eq!(ended.status, ExitStatus::Code(1));
}

/// The given bytes arrive, and then the end of file.
pub async fn standard_input_is_given_then_ended(fixture: impl BackendFixture) {
    let spawn = Spawn {
        input: Input::Bytes(b"line one\nline two".to_vec()),
        ..script(&fixture, "cat; echo; echo after")
    };
    let ended = finish(&fixture, spawn).await;
    assert_eq!(ended.stdout(), "line one\nline two\nafter\n");
}

/// Without input, reading ends at once; a child never waits for a terminal.
pub async fn absent_standard_input_is_at_its_end(fixture: impl BackendFixture) {
    let ended = finish(&fixture, script(&fixture, "cat; echo after")).await;
    assert_eq!(ended.stdout(), "after\n");
}

/// Mistake 13: more than any pipe holds, in both directions at once.
pub async fn much_output_and_input_do_not_block(fixture: impl BackendFixture) {
    let input: Vec<u8> = b"0123456789abcdef".repeat(256 << 10);
    let spawn = Spawn {
        input: Input::Bytes(input.clone()),
        ..script(&fixture, "cat")
    };
    let ended = finish(&fixture, spawn).await;
    let output: Vec<u8> = ended
        .chunks
        .into_iter()
        .flat_map(|chunk| chunk.bytes)
        .collect();
    assert_eq!(output.len(), input.len());
    assert!(output == input, "the output is not what went in");
}
