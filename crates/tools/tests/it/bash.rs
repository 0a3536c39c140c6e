//! `bash`: output, exit codes, deadlines, floods, trees and environments.

use haft_contract::{ErrorKind, Terminal};
use haft_testkit::eventually;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, first_text, long_enough, structured, without_duration};

#[tokio::test]
async fn output_and_exit_code_are_returned() {
    for workspace in Workspace::each() {
        let input = json!({"command": "echo one; echo two >&2", "description": "says it twice"});
        let outcome = workspace.succeed("bash", input).await;
        let text = first_text(&outcome);
        assert!(text.contains("one\n") && text.contains("two\n"), "{text}");
        assert_eq!(
            without_duration(&outcome),
            json!({
                "exit_code": 0, "signal": null, "stdout": "one\n", "stderr": "two\n",
                "stdout_bytes": 4, "stderr_bytes": 4,
            })
        );
        let outcome = workspace.succeed("exec", json!({"command": "true"})).await;
        assert_eq!(first_text(&outcome), "[no output, exit code 0]");
    }
}

/// Programs get both streams apart, cleaned and capped as the text is.
#[tokio::test]
async fn the_streams_are_apart_in_structured_output() {
    let workspace = Workspace::local();
    let command = "printf '\\033[31mred\\033[0m\\n'; seq 1 5000 >&2; kill -9 $$";
    let outcome = workspace
        .refuse(
            "bash",
            json!({"command": command}),
            ErrorKind::CommandFailed,
        )
        .await;
    let structured = structured(&outcome);
    assert_eq!(structured["stdout"], "red\n");
    assert_eq!(
        (&structured["exit_code"], &structured["signal"]),
        (&json!(null), &json!(9))
    );
    let stderr = structured["stderr"].as_str().unwrap();
    assert!(
        stderr.starts_with("1\n2\n") && stderr.ends_with("4999\n5000\n"),
        "{stderr}"
    );
    assert!(stderr.contains("bytes left out …]"), "{stderr}");
    assert!(stderr.len() < 8_200, "{}", stderr.len());
    assert_eq!(structured["stderr_bytes"], 23_893);
}

/// Mistake 12: the exit code dropped, output of a failure lost.
#[tokio::test]
async fn mistake_12_a_failure_keeps_its_output_and_exit_code() {
    for workspace in Workspace::each() {
        let input = json!({"command": "echo before; exit 3"});
        let outcome = workspace
            .refuse("bash", input, ErrorKind::CommandFailed)
            .await;
        assert_eq!(outcome.terminal, Terminal::Failed);
        assert_eq!(first_text(&outcome), "before\n");
        assert_eq!(outcome.facts.exit_code, Some(3));
        assert_eq!(structured(&outcome)["exit_code"], 3);
        assert!(outcome.model_text().contains("exited with code 3"));
    }
}

/// Mistake 12: a parameter that is accepted and ignored.
#[tokio::test]
async fn mistake_12_what_is_not_offered_is_not_accepted() {
    for workspace in Workspace::each() {
        for extra in ["detach", "stdin", "env"] {
            let mut input = json!({"command": "echo ran"});
            input[extra] = json!(1);
            let outcome = workspace
                .refuse("bash", input, ErrorKind::InvalidInput)
                .await;
            assert!(outcome.model_text().contains(extra));
        }
    }
}

#[tokio::test]
async fn the_directory_is_inside_the_workspace() {
    for workspace in Workspace::each() {
        workspace.put("sub/x", "");
        for name in ["cwd", "directory", "workdir"] {
            let mut input = json!({"command": "pwd"});
            input[name] = json!("sub");
            let outcome = workspace.succeed("bash", input).await;
            assert!(first_text(&outcome).ends_with("/sub\n"));
        }
        let input = json!({"command": "pwd", "cwd": "/etc"});
        workspace
            .refuse("bash", input, ErrorKind::OutsideWorkspace)
            .await;
    }
}

/// RX-07: the deadline ends it, and what it printed is kept.
#[tokio::test]
async fn rx_07_a_deadline_stops_the_command_and_keeps_its_output() {
    for workspace in Workspace::each() {
        let outcome = long_enough(async |time| {
            let input = json!({"command": "echo early; sleep 100000", "timeout_ms": time});
            workspace.harness.call("bash", input).await
        })
        .await;
        assert_eq!(outcome.terminal, Terminal::TimedOut);
        assert_eq!(first_text(&outcome), "early\n");
        assert_eq!(structured(&outcome)["stdout_bytes"], 6);
    }
}

#[tokio::test]
async fn seconds_are_scaled_and_the_maximum_holds() {
    for workspace in Workspace::each() {
        let outcome = workspace
            .harness
            .call("bash", json!({"command": "sleep 100000", "timeout": 1}))
            .await;
        assert_eq!(outcome.terminal, Terminal::TimedOut);
        assert!(!outcome.facts.coercions.is_empty());
        let input = json!({"command": "true", "timeout_ms": 600_001});
        workspace
            .refuse("bash", input, ErrorKind::InvalidInput)
            .await;
    }
}

/// RX-07: a cancel ends it, and what it printed is kept.
#[tokio::test]
async fn rx_07_a_cancel_stops_the_command_and_keeps_its_output() {
    for workspace in Workspace::each() {
        let cancel = CancellationToken::new();
        let input = json!({"command": "echo early; sleep 100000"});
        let request = workspace.harness.request("bash", input);
        let call = request.id;
        let running = workspace
            .harness
            .runtime
            .call_until(request, cancel.clone());
        let events = &workspace.harness.events;
        let stop = async {
            eventually("output", || events.kinds(call).contains(&"output")).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(running, stop);
        assert_eq!(outcome.terminal, Terminal::Cancelled);
        assert_eq!(first_text(&outcome), "early\n");
    }
}

/// Mistake 13: a reader that stops at its cap. RX-02: a flood is capped, counted exactly, and the
/// command still ends by itself.
#[tokio::test]
async fn mistake_13_rx_02_a_flood_is_drained_counted_and_capped() {
    let workspace = Workspace::local();
    let command = "head -c 60000000 /dev/zero | tr '\\0' 'y'; echo; echo finished";
    let outcome = workspace.succeed("bash", json!({"command": command})).await;
    let text = first_text(&outcome);
    assert_eq!(structured(&outcome)["stdout_bytes"], 60_000_010);
    assert!(text.contains("read_output with call"));
    assert!(text.contains("]\nyyyy"));
    assert!(text.ends_with("finished\n"));
    assert!(text.len() < 50_000);
    let notice_free = 60_000_010 - outcome.facts.bytes_omitted;
    assert!(notice_free <= 48_000);
    assert!(outcome.facts.artifact.is_some());
}

/// RX-03: both streams at once, more than any pipe holds.
#[tokio::test]
async fn rx_03_both_streams_flood_without_a_deadlock() {
    let workspace = Workspace::local();
    let command = "for i in $(seq 20000); do echo out$i; echo err$i >&2; done";
    let outcome = workspace
        .succeed("bash", json!({"command": command, "timeout_ms": 60_000}))
        .await;
    let facts = structured(&outcome);
    assert_eq!(facts["stdout_bytes"], facts["stderr_bytes"]);
    assert_eq!(facts["stdout_bytes"], 168_894);
}

/// RX-05: a grandchild that holds the output open does not hold the call.
#[tokio::test]
async fn rx_05_a_grandchild_holding_the_output_does_not_hold_the_call() {
    let workspace = Workspace::local();
    let outcome = workspace
        .succeed("bash", json!({"command": "sleep 100000 & echo done"}))
        .await;
    assert_eq!(first_text(&outcome), "done\n");
}

/// Mistake 20: an escape sequence split over two chunks survives.
#[tokio::test]
async fn mistake_20_escape_sequences_split_over_chunks_are_removed() {
    let workspace = Workspace::local();
    let command = "printf 'a\\033[3'; sleep 0.2; printf '1mred\\033[0m\\n'";
    let outcome = workspace.succeed("bash", json!({"command": command})).await;
    assert_eq!(first_text(&outcome), "ared\n");
}

#[tokio::test]
async fn a_signal_is_reported_as_a_signal() {
    for workspace in Workspace::each() {
        let outcome = workspace
            .refuse(
                "bash",
                json!({"command": "kill -9 $$"}),
                ErrorKind::CommandFailed,
            )
            .await;
        assert_eq!(outcome.facts.signal, Some(9));
        assert_eq!(outcome.facts.exit_code, None);
    }
}

/// Mistake 4: a blocking process call inside async code. On one thread, everything else goes on
/// while a command runs.
#[tokio::test(flavor = "current_thread")]
async fn mistake_04_a_running_command_blocks_nothing_else() {
    let workspace = Workspace::local();
    workspace.put("a.txt", "x");
    let command = json!({"command": "while [ ! -e go ]; do sleep 0.01; done; echo released"});
    let waiting = workspace.succeed("bash", command);
    let meanwhile = async {
        workspace.succeed("read", json!({"path": "a.txt"})).await;
        // The command ends only once this thread could do something else.
        workspace.put("go", "");
    };
    let (outcome, ()) = tokio::join!(waiting, meanwhile);
    assert_eq!(first_text(&outcome), "released\n");
}

/// Mistake 4: a timeout that kills only the direct child, loses output, leaves zombies.
#[tokio::test]
async fn mistake_04_a_deadline_ends_the_whole_tree() {
    let workspace = Workspace::local();
    let command = "bash -c 'echo $$ > below; echo from below; sleep 100000' & echo $$ > top; wait";
    let outcome = long_enough(async |time| {
        let input = json!({"command": command, "timeout_ms": time});
        workspace.harness.call("bash", input).await
    })
    .await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    assert_eq!(first_text(&outcome), "from below\n");
    for name in ["top", "below"] {
        let pid = workspace.text(name);
        let process = format!("/proc/{}", pid.trim());
        // A grandchild is reaped by whoever adopted it; being a zombie there is being gone.
        let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        assert!(
            stat.is_empty() || (name == "below" && state.starts_with('Z')),
            "{name} is still there: {stat}"
        );
    }
}

/// Mistake 14: the parent's whole environment handed to children.
#[tokio::test]
async fn mistake_14_a_command_does_not_get_the_parents_environment() {
    let workspace = Workspace::local();
    let ours: Vec<String> = std::env::vars()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST"))
        .collect();
    assert!(!ours.is_empty(), "the control: the parent has some");
    let outcome = workspace.succeed("bash", json!({"command": "env"})).await;
    for name in ours {
        assert!(
            !outcome.text().contains(&format!("{name}=")),
            "`{name}` reached the command"
        );
    }
}

/// Output of both streams is one text in the order it was written, and counted apart.
#[tokio::test]
async fn both_streams_are_one_text_in_order_and_counted_apart() {
    let workspace = Workspace::local();
    // Each line is read before the next is written.
    let command = "echo 1; until test -e a; do sleep 0.01; done; echo two >&2; \
                   until test -e b; do sleep 0.01; done; echo 3";
    let request = workspace
        .harness
        .request("bash", json!({"command": command}));
    let call = request.id;
    let events = &workspace.harness.events;
    let seen = |count| {
        let kinds = events.kinds(call);
        kinds.iter().filter(|kind| **kind == "output").count() >= count
    };
    let (outcome, ()) = tokio::join!(workspace.harness.runtime.call(request), async {
        for (count, name) in [(1, "a"), (2, "b")] {
            eventually("a line", || seen(count)).await;
            workspace.put(name, "");
        }
    });
    assert_eq!(first_text(&outcome), "1\ntwo\n3\n");
    let facts = structured(&outcome);
    assert_eq!(
        (&facts["stdout_bytes"], &facts["stderr_bytes"]),
        (&json!(4), &json!(4))
    );
}
