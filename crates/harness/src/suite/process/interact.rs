//! Interacting with a running child: input, terminal, keys, signals, waiting.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    ops::{
        ExitStatus, Input, OutputChunk, ProcessControls, ProcessHandle, ProcessSignal, Spawn,
        Stream, TerminalSize,
    },
};

use super::{
    LONG, WRITES_WHEN_TOLD, finish, nobody_writes_when_told, nothing_writes, script, start, until,
};
use crate::suite::fixture::{BackendFixture, fails, fails_as, works};

/// The initial terminal size here.
const SIZE: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A script with open input.
fn open(fixture: &impl BackendFixture, text: &str) -> Spawn {
    Spawn {
        input: Input::Open,
        ..script(fixture, text)
    }
}

/// A script on a terminal.
fn on_terminal(fixture: &impl BackendFixture, text: &str) -> Spawn {
    Spawn {
        terminal: Some(SIZE),
        ..open(fixture, text)
    }
}

async fn write(controls: &Arc<dyn ProcessControls>, text: &str) {
    works("write", controls.write(text.as_bytes()).await);
}

/// Waits until the child waits for input, and reads its output meanwhile: it must not block on
/// that.
async fn until_waiting(child: &mut dyn ProcessHandle) {
    let controls = child.controls();
    loop {
        let _ = tokio::time::timeout(LOOK_AGAIN, child.next_chunk()).await;
        if works("waits_for_input", controls.waits_for_input().await) {
            return;
        }
    }
}

/// Polls a future once and drops it.
fn poll_once(child: &mut dyn ProcessHandle) -> Poll<Option<OutputChunk>> {
    let mut next = pin!(child.next_chunk());
    next.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A caller that waits for output and for something else must be able to abandon either.
pub async fn a_chunk_that_was_not_waited_for_comes_with_the_next_call(
    fixture: impl BackendFixture,
) {
    let text = "echo 1; sleep 0.05; echo 2; sleep 0.05; echo 3; sleep 0.05; echo 4; sleep 0.05; \
                echo 5";
    let mut child = start(&fixture, script(&fixture, text)).await;
    let mut seen = Vec::new();
    loop {
        match poll_once(&mut *child) {
            Poll::Ready(Some(chunk)) => {
                assert_eq!(chunk.sequence, seen.len() as u64);
                seen.push(chunk);
            }
            Poll::Ready(None) => break,
            Poll::Pending => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    let bytes: Vec<u8> = seen.into_iter().flat_map(|chunk| chunk.bytes).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), "1\n2\n3\n4\n5\n");
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(0)
    );
}

/// Written text arrives at once, line by line.
pub async fn open_input_is_read_as_it_is_written(fixture: impl BackendFixture) {
    let text = "echo ready; read A; echo \"got $A\"; read B; echo \"and $B\"";
    let mut child = start(&fixture, open(&fixture, text)).await;
    let controls = child.controls();
    until(&mut *child, "ready").await;
    write(&controls, "one\n").await;
    until(&mut *child, "got one").await;
    write(&controls, "two").await;
    write(&controls, " words\n").await;
    until(&mut *child, "and two words").await;
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(0)
    );
}

/// The end of file comes when requested, and not before.
pub async fn open_input_ends_when_it_is_closed(fixture: impl BackendFixture) {
    let mut child = start(&fixture, open(&fixture, "cat; echo over")).await;
    let controls = child.controls();
    write(&controls, "some\n").await;
    until(&mut *child, "some\n").await;
    works("close_input", controls.close_input().await);
    until(&mut *child, "over").await;
    works("close_input again", controls.close_input().await);
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(0)
    );
    assert!(controls.write(b"more\n").await.is_err());
}

/// Input that was never open, or was given up front, cannot be written to.
pub async fn input_that_is_not_open_is_refused(fixture: impl BackendFixture) {
    for input in [Input::Closed, Input::Bytes(b"given".to_vec())] {
        let spawn = Spawn {
            input,
            ..script(&fixture, &format!("echo ready; sleep {LONG}"))
        };
        let mut child = start(&fixture, spawn).await;
        until(&mut *child, "ready").await;
        let refused = child.controls().write(b"more\n").await;
        fails("write", refused, ErrorKind::InvalidInput);
    }
}

/// A child that does not read must not block the writer.
pub async fn a_write_that_nobody_reads_does_not_wait_for_ever(fixture: impl BackendFixture) {
    let text = format!("echo ready; sleep {LONG}");
    let mut child = start(&fixture, open(&fixture, &text)).await;
    until(&mut *child, "ready").await;
    let much = vec![b'x'; 4 << 20];
    let refused = child.controls().write(&much).await;
    fails_as("write", refused, &[ErrorKind::TimedOut]);
}

/// Programs ask whether they talk to a person.
pub async fn a_terminal_is_one_and_a_pipe_is_not(fixture: impl BackendFixture) {
    for descriptor in ["0", "1", "2"] {
        let text = format!("test -t {descriptor}; exit");
        let ended = finish(&fixture, on_terminal(&fixture, &text)).await;
        assert_eq!(ended.status, ExitStatus::Code(0), "terminal {descriptor}");
        let ended = finish(&fixture, open(&fixture, &text)).await;
        assert_eq!(ended.status, ExitStatus::Code(1), "pipe {descriptor}");
    }
}

/// A terminal has one stream, and a line end returns to the start of the line.
pub async fn a_terminal_shows_everything_in_order_on_one_stream(fixture: impl BackendFixture) {
    let text = "echo 1; echo 2 >&2; echo 3; echo 4 >&2";
    let ended = finish(&fixture, on_terminal(&fixture, text)).await;
    assert_eq!(ended.stdout(), "1\r\n2\r\n3\r\n4\r\n");
    assert_eq!(ended.stream(Stream::Stderr), "");
}

/// A line is delivered when it is complete; the end-of-file key ends one reader's input.
pub async fn a_terminal_takes_lines_and_the_end_of_file_key(fixture: impl BackendFixture) {
    let text = "read A; echo \"got $A\"; cat; echo over; cat; echo again";
    let mut child = start(&fixture, on_terminal(&fixture, text)).await;
    let controls = child.controls();
    write(&controls, "one\n").await;
    until(&mut *child, "got one").await;
    for word in ["over", "again"] {
        until_waiting(&mut *child).await;
        works("close_input", controls.close_input().await);
        until(&mut *child, word).await;
    }
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(0)
    );
}

/// Without input, reading ends at once, even on a terminal.
pub async fn a_terminal_without_input_is_at_its_end(fixture: impl BackendFixture) {
    let spawn = Spawn {
        input: Input::Closed,
        ..on_terminal(&fixture, "cat; cat; echo after; test -t 1; exit")
    };
    let ended = finish(&fixture, spawn).await;
    assert_eq!(ended.stdout(), "after\r\n");
    assert_eq!(ended.status, ExitStatus::Code(0));
}

/// At the start, and after a resize.
pub async fn a_terminal_has_the_size_it_is_given(fixture: impl BackendFixture) {
    let text = "stty size; read A; stty size";
    let mut child = start(&fixture, on_terminal(&fixture, text)).await;
    let controls = child.controls();
    until(&mut *child, "24 80").await;
    let size = TerminalSize {
        rows: 50,
        columns: 132,
    };
    works("resize", controls.resize(size).await);
    write(&controls, "\n").await;
    until(&mut *child, "50 132").await;
}

/// A child without a terminal has no size.
pub async fn only_a_terminal_has_a_size(fixture: impl BackendFixture) {
    let mut child = start(&fixture, open(&fixture, "echo ready; cat")).await;
    until(&mut *child, "ready").await;
    let refused = child.controls().resize(SIZE).await;
    fails("resize", refused, ErrorKind::InvalidInput);
}

/// A typed Ctrl-C.
pub async fn the_interrupt_key_interrupts(fixture: impl BackendFixture) {
    let text = format!("echo ready; sleep {LONG}; echo not reached");
    let mut child = start(&fixture, on_terminal(&fixture, &text)).await;
    until(&mut *child, "ready").await;
    write(&child.controls(), "\u{3}").await;
    while child.next_chunk().await.is_some() {}
    let status = works("wait", child.wait().await).status;
    assert_eq!(status, ExitStatus::Signal(2));
}

/// Each signal arrives as itself, and a child that ignores one keeps running.
pub async fn signals_reach_the_child(fixture: impl BackendFixture) {
    for (signal, number) in [
        (ProcessSignal::Interrupt, 2),
        (ProcessSignal::Terminate, 15),
        (ProcessSignal::Kill, 9),
        (ProcessSignal::HangUp, 1),
        (ProcessSignal::User1, 10),
    ] {
        let text = format!("echo ready; sleep {LONG}");
        let mut child = start(&fixture, script(&fixture, &text)).await;
        until(&mut *child, "ready").await;
        works("signal", child.controls().signal(signal).await);
        while child.next_chunk().await.is_some() {}
        let status = works("wait", child.wait().await).status;
        assert_eq!(status, ExitStatus::Signal(number), "{signal:?}");
    }
    let text = "trap '' TERM; echo ready; read A; echo \"still here, $A\"";
    let mut child = start(&fixture, open(&fixture, text)).await;
    let controls = child.controls();
    until(&mut *child, "ready").await;
    works("signal", controls.signal(ProcessSignal::Terminate).await);
    write(&controls, "you\n").await;
    until(&mut *child, "still here, you").await;
}

/// SIGSTOP stops it, SIGCONT continues it.
pub async fn a_stopped_child_goes_on_when_told(fixture: impl BackendFixture) {
    let text = "echo ready; read A; echo went on > went.txt; echo done";
    let mut child = start(&fixture, open(&fixture, text)).await;
    let controls = child.controls();
    until(&mut *child, "ready").await;
    works("stop", controls.signal(ProcessSignal::Stop).await);
    write(&controls, "\n").await;
    nothing_writes(&fixture, "went.txt", Duration::from_millis(300)).await;
    works("continue", controls.signal(ProcessSignal::Continue).await);
    until(&mut *child, "done").await;
    assert_eq!(
        fixture.bytes("went.txt").await.as_deref(),
        Some(b"went on\n".as_slice())
    );
}

/// Reported while it waits, and not before or after.
pub async fn waiting_for_input_is_told(fixture: impl BackendFixture) {
    waits_only_in_read(&fixture, open(&fixture, READS_WHEN_TOLD)).await;
    // A child that waits for something else, or for input that has ended, does not wait for us.
    let text = format!("echo ready; read A; sleep {LONG}");
    let mut child = start(&fixture, script(&fixture, &text)).await;
    until(&mut *child, "ready").await;
    tokio::time::sleep(LOOK_AGAIN).await;
    let controls = child.controls();
    assert!(!works("waits", controls.waits_for_input().await));
}

/// The same on a terminal.
pub async fn waiting_for_a_terminal_is_told(fixture: impl BackendFixture) {
    waits_only_in_read(&fixture, on_terminal(&fixture, READS_WHEN_TOLD)).await;
}

/// Reads once the file `go` exists.
const READS_WHEN_TOLD: &str = "echo ready; until test -e go; do sleep 0.02; done; read A; \
     echo \"got $A\"; sleep 1000";

async fn waits_only_in_read(fixture: &impl BackendFixture, spawn: Spawn) {
    let mut child = start(fixture, spawn).await;
    let controls = child.controls();
    until(&mut *child, "ready").await;
    assert!(
        !works("waits", controls.waits_for_input().await),
        "it sleeps"
    );
    fixture.put("go", b"").await;
    until_waiting(&mut *child).await;
    write(&controls, "this\n").await;
    until(&mut *child, "got this").await;
    tokio::time::sleep(LOOK_AGAIN).await;
    assert!(
        !works("waits", controls.waits_for_input().await),
        "it sleeps again"
    );
}

/// Controls that are kept after the end do no harm.
pub async fn controls_of_an_ended_child_are_harmless(fixture: impl BackendFixture) {
    for spawn in [open(&fixture, "echo x"), on_terminal(&fixture, "echo x")] {
        let mut child = start(&fixture, spawn).await;
        let controls = child.controls();
        while child.next_chunk().await.is_some() {}
        works("wait", child.wait().await);
        drop(child);
        works("signal", controls.signal(ProcessSignal::Kill).await);
        assert!(!works("waits", controls.waits_for_input().await));
        // These may fail, but must end.
        let _ = controls.write(b"x").await;
        let _ = controls.close_input().await;
        let _ = controls.resize(SIZE).await;
    }
}

/// Promise 6 applies to children on a terminal too.
pub async fn a_terminal_goes_with_its_tree(fixture: impl BackendFixture) {
    let mut child = start(&fixture, on_terminal(&fixture, WRITES_WHEN_TOLD)).await;
    until(&mut *child, "ready").await;
    works("stop", child.stop(Duration::from_secs(10)).await);
    // The line end may arrive separately from the line.
    while child.next_chunk().await.is_some() {}
    nobody_writes_when_told(&fixture).await;
}
