//! What every `ProcessOps` must do. The rules are in `docs/spec/backend.md`; the suite is
//! `process_suite!`.
//!
//! The scripts use only what the in-memory shell and bash share (see `memory/script.rs`), so that
//! one suite serves all back ends. No capability is optional: there are no skips.

mod confine;
mod interact;
mod output;
mod stop;

pub use confine::*;
pub use interact::*;
pub use output::*;
pub use stop::*;

super::suite! { $
    /// One test per case of the process suite, for a [`BackendFixture`](crate::suite::fixture::BackendFixture).
    process_suite, process:
    output_is_numbered_without_gaps,
    streams_keep_the_order_they_were_written_in,
    progress_lines_have_their_own_stream,
    the_exit_code_is_told,
    a_signal_is_told,
    a_missing_program_is_told,
    output_before_a_failure_is_kept,
    standard_input_is_given_then_ended,
    absent_standard_input_is_at_its_end,
    much_output_and_input_do_not_block,
    a_chunk_that_was_not_waited_for_comes_with_the_next_call,
    open_input_is_read_as_it_is_written,
    open_input_ends_when_it_is_closed,
    input_that_is_not_open_is_refused,
    a_write_that_nobody_reads_does_not_wait_for_ever,
    a_terminal_is_one_and_a_pipe_is_not,
    a_terminal_shows_everything_in_order_on_one_stream,
    a_terminal_takes_lines_and_the_end_of_file_key,
    a_terminal_without_input_is_at_its_end,
    a_terminal_has_the_size_it_is_given,
    only_a_terminal_has_a_size,
    the_interrupt_key_interrupts,
    signals_reach_the_child,
    a_stopped_child_goes_on_when_told,
    waiting_for_input_is_told,
    waiting_for_a_terminal_is_told,
    controls_of_an_ended_child_are_harmless,
    a_terminal_goes_with_its_tree,
    arguments_are_not_for_a_shell,
    the_environment_starts_empty,
    given_variables_arrive,
    variables_that_run_code_are_refused,
    the_directory_is_beneath_the_root,
    a_tier_that_is_not_there_is_refused,
    a_pinned_program_with_another_hash_is_refused,
    stop_ends_the_whole_tree,
    stop_kills_what_ignores_it_after_the_grace,
    stop_of_an_ended_child_is_fine,
    dropping_the_handle_ends_the_whole_tree,
    output_ends_although_a_grandchild_holds_it,
    a_child_that_is_not_waited_for_does_not_end_others,
}

use std::time::Duration;

use haft_contract::{
    access::Command,
    ops::{ExitStatus, OutputChunk, ProcessHandle, Spawn, Stream},
};

use super::fixture::{BackendFixture, at, works};

/// Long enough that waiting for it would exceed the case's limit.
const LONG: &str = "1000";

/// The output and exit of a child.
struct EndedChild {
    chunks: Vec<OutputChunk>,
    status: ExitStatus,
}

impl EndedChild {
    /// All bytes of a stream.
    fn stream(&self, stream: Stream) -> String {
        let of_stream = self.chunks.iter().filter(|chunk| chunk.stream == stream);
        let bytes: Vec<u8> = of_stream.flat_map(|chunk| chunk.bytes.clone()).collect();
        String::from_utf8(bytes).expect("UTF-8")
    }

    fn stdout(&self) -> String {
        self.stream(Stream::Stdout)
    }
}

/// A script in the workspace root.
fn script(fixture: &impl BackendFixture, text: &str) -> Spawn {
    Spawn::new(Command::Shell(text.to_owned()), at("."), fixture.tier())
}

/// Starts a child.
async fn start(fixture: &impl BackendFixture, spawn: Spawn) -> Box<dyn ProcessHandle> {
    works("spawn", fixture.operations().processes.spawn(spawn).await)
}

/// Runs a child to its end.
async fn finish(fixture: &impl BackendFixture, spawn: Spawn) -> EndedChild {
    let mut child = start(fixture, spawn).await;
    let mut chunks = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        chunks.push(chunk);
    }
    let status = works("wait", child.wait().await).status;
    EndedChild { chunks, status }
}

/// Reads until a text has arrived on standard output.
async fn until(child: &mut dyn ProcessHandle, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let chunk = child.next_chunk().await;
        let chunk = chunk.unwrap_or_else(|| panic!("output ended before `{text}`: {seen}"));
        seen.push_str(&String::from_utf8_lossy(&chunk.bytes));
    }
}

/// Asserts that a file does not appear within the time a living child would need to write it.
async fn nothing_writes(fixture: &impl BackendFixture, path: &str, within: Duration) {
    // Waiting is the only way to show that something does not happen.
    tokio::time::sleep(within).await;
    assert_eq!(
        fixture.bytes(path).await,
        None,
        "a child lived on and wrote `{path}`"
    );
}

/// Writes a file from the shell and one from its child, once the file `go` exists.
const WRITES_WHEN_TOLD: &str = "(until test -e go; do sleep 0.02; done; echo x > child.txt) & \
     echo ready; until test -e go; do sleep 0.02; done; echo x > shell.txt; wait";

/// Creates `go`, and returns which files the survivors wrote.
async fn written_when_told(fixture: &impl BackendFixture) -> Vec<String> {
    fixture.put("go", b"").await;
    // A witness that waits for the same file, and takes longer to act on it, has finished.
    let witness = "until test -e go; do sleep 0.02; done; sleep 0.3";
    finish(fixture, script(fixture, witness)).await;
    let mut names = fixture.names(".").await;
    names.retain(|name| name != "go");
    names
}

/// Asserts that no survivor writes.
async fn nobody_writes_when_told(fixture: &impl BackendFixture) {
    let written = written_when_told(fixture).await;
    assert!(written.is_empty(), "a child lived on: {written:?}");
}
