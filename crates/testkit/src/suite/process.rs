//! What every `ProcessOps` must do. The rules are in `docs/spec/backend.md`; the suite is
//! `process_suite!`.
//!
//! The scripts use only what the in-memory shell and bash share (see `memory/script.rs`), so that
//! one suite serves all back ends. No capability is optional: there are no skips.

mod confine;
mod output;
mod stop;

pub use confine::*;
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

/// What a child left behind.
struct Ended {
    chunks: Vec<OutputChunk>,
    status: ExitStatus,
}

impl Ended {
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

/// A script in the root of the workspace.
fn script(fixture: &impl BackendFixture, text: &str) -> Spawn {
    Spawn::new(Command::Shell(text.to_owned()), at("."), fixture.tier())
}

/// Starts a child.
async fn start(fixture: &impl BackendFixture, spawn: Spawn) -> Box<dyn ProcessHandle> {
    works("spawn", fixture.operations().processes.spawn(spawn).await)
}

/// Runs a child to its end.
async fn finish(fixture: &impl BackendFixture, spawn: Spawn) -> Ended {
    let mut child = start(fixture, spawn).await;
    let mut chunks = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        chunks.push(chunk);
    }
    let status = works("wait", child.wait().await).status;
    Ended { chunks, status }
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
