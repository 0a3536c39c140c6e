//! Background `bash` and `process`: processes that outlive a call, on every back end through the
//! real pipeline.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use haft_contract::{
    Access, BoxFuture, CallEvent, CallId, ErrorKind, Outcome, Principal, SealedPlan, SessionId,
    SessionKind, Terminal,
    ops::{Operations, OpsError, ProcessHandle, ProcessOps, SharedLoopback, Spawn},
};
use haft_testkit::{EventLog, Harness, Limits, PATIENCE, ProcessLimits, eventually, memory};
use haft_tools::builtins;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, first_text, long_enough, structured, without_duration};

/// Waits until the test makes a file `go`.
const UNTIL_TOLD: &str = "until test -e go; do sleep 0.02; done";

/// Starts a command in the background; its id.
async fn start(workspace: &Workspace, input: Value) -> String {
    let outcome = workspace.succeed("bash", input).await;
    let id = structured(&outcome)["process"]["id"].as_str();
    id.unwrap_or_else(|| panic!("{}", outcome.model_text()))
        .to_owned()
}

fn background(command: &str) -> Value {
    json!({"command": command, "background": true})
}

fn on_terminal(command: &str) -> Value {
    json!({"command": command, "background": true, "pty": true})
}

async fn process(workspace: &Workspace, input: Value) -> Arc<Outcome> {
    workspace.succeed("process", input).await
}

/// Polls until all that was printed satisfies a condition; the last answer and all text.
async fn poll_until(
    workspace: &Workspace,
    id: &str,
    enough: impl Fn(&str, &Value) -> bool,
) -> (Value, String) {
    let begun = Instant::now();
    let mut all = String::new();
    loop {
        let input = json!({"action": "poll", "id": id, "wait_ms": 1000, "offset": all.len()});
        let outcome = process(workspace, input).await;
        all.push_str(page(&outcome));
        let view = structured(&outcome)["processes"][0].clone();
        if enough(&all, &view) {
            return (view, all);
        }
        assert!(begun.elapsed() < PATIENCE, "never came: {all} {view}");
    }
}

/// The part of a log that was returned, without the lines about it.
fn page(outcome: &Outcome) -> &str {
    let log = &structured(outcome)["log"];
    let length = log["next_offset"].as_u64().unwrap() - log["offset"].as_u64().unwrap();
    assert_eq!(log["dropped"], 0);
    &first_text(outcome)[..usize::try_from(length).unwrap()]
}

#[tokio::test]
async fn an_action_that_does_not_exist_is_told_those_that_do() {
    let workspace = Workspace::memory();
    let input = json!({"action": "foo"});
    let outcome = workspace
        .refuse("process", input, ErrorKind::InvalidInput)
        .await;
    assert_eq!(
        outcome.model_text(),
        "invalid_input: `foo` is not one of the choices (at /action)\n\
         hint: use one of: list, poll, log, write, keys, resize, signal, kill"
    );
}

#[tokio::test]
async fn a_process_outlives_its_call_and_is_found_by_the_next() {
    for workspace in Workspace::each() {
        let id = start(
            &workspace,
            background("echo first; read A; echo \"got $A\"; exit 3"),
        )
        .await;
        assert_eq!(id, "p1");
        let (view, _) = poll_until(&workspace, &id, |_, view| {
            view["waits_for_input"] == json!(true)
        })
        .await;
        assert_eq!(view["state"], "running");
        // Whoever looks in a moment when it does not even run sees it do nothing.
        let begun = Instant::now();
        loop {
            let list = process(&workspace, json!({"action": "list"})).await;
            let shown = first_text(&list);
            if shown.starts_with("p1 running, waits for input") {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{shown}");
        }

        let input = json!({"action": "write", "id": id, "text": "this\n"});
        process(&workspace, input).await;
        let (view, text) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
        assert!(text.contains("got this\n"), "{text}");
        assert_eq!(view["exit_code"], 3);

        // Its log is still there, from the start, and nothing can be written to it.
        let log = process(&workspace, json!({"action": "log", "id": id, "offset": 0})).await;
        assert!(
            first_text(&log).starts_with("first\ngot this\n["),
            "{}",
            first_text(&log)
        );
        assert_eq!(structured(&log)["log"]["next_offset"], 15);
        let input = json!({"action": "write", "id": id, "text": "more\n"});
        workspace
            .refuse("process", input, ErrorKind::Conflict)
            .await;
    }
}

/// Promise 6 for what a session keeps: `kill` means the tree.
#[tokio::test]
async fn kill_ends_the_tree_and_is_idempotent() {
    for workspace in Workspace::each() {
        let command = format!(
            "({UNTIL_TOLD}; echo x > late.txt) & echo up; {UNTIL_TOLD}; echo x > later.txt; wait"
        );
        let id = start(&workspace, background(&command)).await;
        poll_until(&workspace, &id, |text, _| text.contains("up")).await;
        for _ in 0..2 {
            let killed = process(&workspace, json!({"action": "kill", "id": id})).await;
            assert_eq!(structured(&killed)["processes"][0]["state"], "ended");
        }
        whoever_is_left_writes(&workspace).await;
        assert_eq!(workspace.bytes("late.txt"), None);
        assert_eq!(workspace.bytes("later.txt"), None);
        assert_eq!(workspace.harness.runtime.processes(), 0);
    }
}

#[tokio::test]
async fn a_command_that_ends_before_its_yield_is_like_any_other() {
    for workspace in Workspace::each() {
        let input = json!({"command": "echo early; sleep 0.2; echo late", "yield_ms": 20_000});
        let outcome = workspace.succeed("bash", input).await;
        assert_eq!(first_text(&outcome), "early\nlate\n");
        assert_eq!(
            without_duration(&outcome),
            json!({
                "exit_code": 0, "signal": null, "stdout": "early\nlate\n", "stderr": "",
                "stdout_bytes": 11, "stderr_bytes": 0,
            })
        );
        let input = json!({"command": "echo out; exit 4", "yield_ms": 20_000});
        let outcome = workspace
            .refuse("bash", input, ErrorKind::CommandFailed)
            .await;
        assert_eq!(first_text(&outcome), "out\n");
        assert_eq!(outcome.facts.exit_code, Some(4));
        // One that fails at once says so in the background, too.
        workspace
            .refuse("bash", background("exit 5"), ErrorKind::CommandFailed)
            .await;
        let list = process(&workspace, json!({"action": "list"})).await;
        assert_eq!(first_text(&list), "[this session has no processes]");
    }
}

#[tokio::test]
async fn a_passed_yield_returns_what_was_printed_and_where_to_go_on() {
    for workspace in Workspace::each() {
        let command = format!("echo early; {UNTIL_TOLD}; echo late; sleep 300");
        let outcome = long_enough(async |time| {
            let input = json!({"command": command, "yield_ms": time});
            workspace.succeed("bash", input).await
        })
        .await;
        assert_eq!(first_text(&outcome), "early\n");
        let id = structured(&outcome)["process"]["id"].clone();
        assert_eq!(structured(&outcome)["next_offset"], 6);
        let running = format!("{} running", id.as_str().unwrap());
        assert!(
            outcome.model_text().contains(&running),
            "{}",
            outcome.model_text()
        );
        // What was shown is not shown again.
        workspace.put("go", "");
        let input = json!({"action": "poll", "id": id, "wait_ms": 20_000});
        let outcome = process(&workspace, input).await;
        assert_eq!(page(&outcome), "late\n");
        let all = process(&workspace, json!({"action": "log", "id": id, "offset": 0})).await;
        assert!(first_text(&all).starts_with("early\nlate\n"));
        process(&workspace, json!({"action": "kill", "id": id})).await;
    }
}

/// Until it is left in the background, a command belongs to its call.
#[tokio::test]
async fn a_deadline_or_a_cancel_before_the_yield_ends_it() {
    for workspace in Workspace::each() {
        let command = "echo early; sleep 300";
        let outcome = long_enough(async |time| {
            let input = json!({"command": command, "timeout_ms": time, "yield_ms": 100_000});
            workspace.harness.call("bash", input).await
        })
        .await;
        assert_eq!(outcome.terminal, Terminal::TimedOut);
        assert_eq!(first_text(&outcome), "early\n");
        assert_eq!(workspace.harness.runtime.processes(), 0);

        let cancel = CancellationToken::new();
        let request = workspace
            .harness
            .request("bash", json!({"command": command, "yield_ms": 60_000}));
        let runtime = &workspace.harness.runtime;
        let events = &workspace.harness.events;
        let prints =
            async |call| eventually("output", || events.kinds(call).contains(&"output")).await;
        let call = request.id;
        let (outcome, ()) = tokio::join!(runtime.call_until(request, cancel.clone()), async {
            prints(call).await;
            cancel.cancel();
        });
        assert_eq!(outcome.terminal, Terminal::Cancelled);
        assert_eq!(runtime.processes(), 0);

        // A caller that goes away altogether.
        let request = workspace
            .harness
            .request("bash", json!({"command": command, "yield_ms": 60_000}));
        let call = request.id;
        tokio::select! {
            outcome = runtime.call(request) => panic!("it ended: {}", outcome.model_text()),
            () = prints(call) => {}
        }
        eventually("nothing runs", || runtime.processes() == 0).await;
    }
}

/// Tells whoever is left to write, and waits until they would have: somebody who looks for the same
/// file, and takes longer to act on it, has acted.
async fn whoever_is_left_writes(workspace: &Workspace) {
    workspace.put("go", "");
    let command = format!("{UNTIL_TOLD}; sleep 0.3");
    workspace.succeed("bash", json!({"command": command})).await;
}

#[tokio::test]
async fn a_process_ends_at_the_end_of_its_time() {
    for workspace in Workspace::each() {
        let input = json!({"command": "echo up; sleep 300", "background": true, "timeout_ms": 700});
        let id = start(&workspace, input).await;
        let (view, _) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
        assert!(matches!(view["signal"].as_i64(), Some(9 | 15)), "{view}");
    }
}

#[tokio::test]
async fn another_session_finds_nothing() {
    for workspace in Workspace::each() {
        let id = start(&workspace, background("echo secret; sleep 300")).await;
        let other = Principal {
            session: SessionId::parse("another").unwrap(),
            ..Principal::clone(&workspace.harness.principal)
        };
        let other = Arc::new(other);
        let call = async |input: Value| {
            let mut request = workspace.harness.request("process", input);
            request.principal = Arc::clone(&other);
            workspace.harness.runtime.call(request).await
        };
        for action in ["poll", "log", "kill"] {
            let outcome = call(json!({"action": action, "id": id})).await;
            assert_eq!(
                outcome.error.as_ref().map(|error| error.kind),
                Some(ErrorKind::NotFound)
            );
            assert!(!outcome.model_text().contains("secret"));
        }
        let outcome = call(json!({"action": "write", "id": id, "text": "x"})).await;
        assert_eq!(
            outcome.error.as_ref().map(|error| error.kind),
            Some(ErrorKind::NotFound)
        );
        let outcome = call(json!({"action": "list"})).await;
        assert_eq!(first_text(&outcome), "[this session has no processes]");
        // It is still there for its own session.
        let list = process(&workspace, json!({"action": "list"})).await;
        assert_eq!(structured(&list)["processes"][0]["state"], "running");
    }
}

/// Notes which loopback each command was given.
struct NotedLoopbacks {
    inner: Arc<dyn ProcessOps>,
    noted: Arc<Mutex<Vec<Option<SharedLoopback>>>>,
}

impl ProcessOps for NotedLoopbacks {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        self.noted.lock().unwrap().push(spawn.loopback.clone());
        self.inner.spawn(spawn)
    }
}

#[tokio::test]
async fn commands_share_the_loopback_of_their_session_while_a_process_is_kept() {
    let (operations, _) = memory::operations();
    let noted = Arc::new(Mutex::new(Vec::new()));
    let operations = Operations {
        processes: Arc::new(NotedLoopbacks {
            inner: Arc::clone(&operations.processes),
            noted: Arc::clone(&noted),
        }),
        ..operations
    };
    let workspace = Workspace {
        harness: Harness::on(operations).tools(builtins()).build(),
        folder: None,
    };
    let other = Arc::new(Principal {
        session: SessionId::parse("another").unwrap(),
        ..Principal::clone(&workspace.harness.principal)
    });
    let elsewhere = async |input: Value| {
        let mut request = workspace.harness.request("bash", input);
        request.principal = Arc::clone(&other);
        let outcome = workspace.harness.runtime.call(request).await;
        assert!(outcome.succeeded(), "{}", outcome.model_text());
    };
    let plain = json!({"command": "echo x"});
    workspace.succeed("bash", plain.clone()).await;
    let id = start(&workspace, background("sleep 300")).await;
    workspace.succeed("bash", plain.clone()).await;
    elsewhere(plain.clone()).await;
    elsewhere(background("sleep 300")).await;
    process(&workspace, json!({"action": "kill", "id": id})).await;
    workspace.succeed("bash", plain).await;

    let noted = noted.lock().unwrap().clone();
    let [before, server, beside, of_other, others_server, after] = &noted[..] else {
        panic!("{noted:?}");
    };
    assert!(server.is_some());
    assert_eq!(server, beside);
    assert!(others_server.is_some());
    assert_ne!(server, others_server);
    assert_eq!([before, of_other, after], [&None, &None, &None]);
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_trees_and_no_others() {
    for workspace in Workspace::each() {
        let command =
            format!("trap '' TERM; ({UNTIL_TOLD}; echo x > late.txt) & echo up; sleep 300");
        for _ in 0..3 {
            let id = start(&workspace, background(&command)).await;
            poll_until(&workspace, &id, |text, _| text.contains("up")).await;
        }
        let harness = &workspace.harness;
        // One that its client narrowed itself to belongs to the session too.
        let mut narrowed = Principal::clone(&harness.principal);
        let parent = std::mem::replace(&mut narrowed.agent, "child".parse().unwrap());
        narrowed.ancestors.insert(0, parent);
        narrowed.narrow_session(SessionKind::Subagent);
        let mut request = harness.request("bash", background("sleep 300"));
        request.principal = Arc::new(narrowed);
        assert!(harness.runtime.call(request).await.succeeded());
        let other = Arc::new(Principal {
            session: SessionId::parse("another").unwrap(),
            ..Principal::clone(&harness.principal)
        });
        let mut request = harness.request("bash", background("sleep 300"));
        request.principal = Arc::clone(&other);
        assert!(harness.runtime.call(request).await.succeeded());
        assert_eq!(harness.runtime.processes(), 5);

        harness.runtime.end_session(&harness.principal).await;
        assert_eq!(harness.runtime.processes(), 1);
        let input = json!({"action": "poll", "id": "p1"});
        workspace
            .refuse("process", input, ErrorKind::NotFound)
            .await;
        harness.runtime.end_processes().await;
        assert_eq!(harness.runtime.processes(), 0);
        workspace
            .refuse("bash", background("sleep 300"), ErrorKind::Unavailable)
            .await;
        whoever_is_left_writes(&workspace).await;
        assert_eq!(workspace.bytes("late.txt"), None);
    }
}

/// The 201st is refused, says why, and leaves nothing running; the log of an ended one makes room.
#[tokio::test]
async fn two_hundred_processes_are_kept_and_no_more() {
    let limits = Limits {
        processes: ProcessLimits {
            per_session: 150,
            ..ProcessLimits::default()
        },
        ..Limits::default()
    };
    let harness = Harness::memory().tools(builtins()).limits(limits).build();
    let other = Arc::new(Principal {
        session: SessionId::parse("another").unwrap(),
        ..Principal::clone(&harness.principal)
    });
    let input = || json!({"command": "sleep 300", "background": true, "yield_ms": 0});
    let start = async |principal: &Arc<Principal>, count: usize| {
        let requests = (0..count).map(|_| {
            let mut request = harness.request("bash", input());
            request.principal = Arc::clone(principal);
            request
        });
        harness.runtime.batch(requests.collect()).await
    };
    let refused = |outcomes: &[Arc<Outcome>]| {
        let failed = outcomes.iter().filter(|outcome| !outcome.succeeded());
        let kinds = failed.map(|outcome| outcome.error.as_ref().map(|error| error.kind));
        kinds.collect::<Vec<_>>()
    };
    let outcomes = start(&harness.principal, 151).await;
    assert_eq!(refused(&outcomes), [Some(ErrorKind::LimitExceeded)]);
    let outcomes = start(&other, 51).await;
    assert_eq!(refused(&outcomes), [Some(ErrorKind::LimitExceeded)]);
    assert_eq!(harness.runtime.processes(), 200);

    harness
        .succeed("process", json!({"action": "kill", "id": "p1"}))
        .await;
    harness.succeed("bash", input()).await;
    assert_eq!(harness.runtime.processes(), 200);
    harness.runtime.end_processes().await;
    assert_eq!(harness.runtime.processes(), 0);
}

/// What is kept of a flood is exact: every page is the very text at its offset.
#[tokio::test]
async fn offsets_are_exact_under_a_flood() {
    let workspace = Workspace::local();
    let command = "seq 1 300000; sleep 300";
    let id = start(&workspace, background(command)).await;
    let whole: String = (1..=300_000)
        .map(|number: u32| number.to_string() + "\n")
        .collect();
    let mut offset = 0;
    let mut dropped = 0;
    let begun = Instant::now();
    while offset < whole.len() {
        let input = json!({
            "action": "poll", "id": id, "offset": offset, "limit": 47_000, "wait_ms": 1000
        });
        let outcome = process(&workspace, input).await;
        let log = &structured(&outcome)["log"];
        let number = |key: &str| usize::try_from(log[key].as_u64().unwrap()).unwrap();
        let (start, next) = (number("offset"), number("next_offset"));
        assert_eq!(start, offset + number("dropped"), "{log}");
        dropped += number("dropped");
        let text = first_text(&outcome);
        let shown = &whole[start..next];
        let begins = if number("dropped") > 0 {
            format!(
                "[{} bytes before this are not kept]\n{shown}",
                number("dropped")
            )
        } else {
            shown.to_owned()
        };
        assert!(text.starts_with(&begins), "at {offset}");
        offset = next;
        assert!(begun.elapsed() < PATIENCE, "at {offset}");
    }
    assert_eq!(offset, whole.len());
    assert!(dropped < whole.len());
    let list = process(&workspace, json!({"action": "list"})).await;
    let view = &structured(&list)["processes"][0];
    assert_eq!(view["log_end"], whole.len());
    let kept = whole.len() as u64 - view["log_start"].as_u64().unwrap();
    assert!((1024 * 1024 - 8..=1024 * 1024).contains(&kept), "{kept}");
}

/// A development server in the background, and a client beside it.
#[tokio::test]
async fn a_server_serves_while_other_calls_run() {
    let workspace = Workspace::local();
    workspace.put("page.txt", "served\n");
    let server = "exec python3 -u -c '\
import functools, http.server\n\
server = http.server.ThreadingHTTPServer((\"127.0.0.1\", 0), http.server.SimpleHTTPRequestHandler)\n\
print(\"port\", server.server_address[1])\n\
server.serve_forever()'";
    let id = start(&workspace, background(server)).await;
    let (_, text) = poll_until(&workspace, &id, |text, _| text.contains("port ")).await;
    let port: u16 = text
        .lines()
        .find_map(|line| line.strip_prefix("port "))
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let command = format!("curl -sS --max-time 10 http://127.0.0.1:{port}/page.txt");
    let outcome = workspace.succeed("bash", json!({"command": command})).await;
    assert_eq!(first_text(&outcome), "served\n");
    let (_, text) = poll_until(&workspace, &id, |text, _| text.contains("GET")).await;
    assert!(text.contains("GET /page.txt"), "{text}");
    process(
        &workspace,
        json!({"action": "signal", "id": id, "signal": "int"}),
    )
    .await;
    let (view, _) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
    assert!(view["exit_code"] == 1 || view["signal"] == 2, "{view}");
}

/// A real interactive program on a real terminal.
#[tokio::test]
async fn a_python_prompt_is_talked_to() {
    let workspace = Workspace::local();
    let id = start(&workspace, on_terminal("python3 -q")).await;
    let at_prompt =
        |text: &str, view: &Value| text.contains(">>>") && view["waits_for_input"] == json!(true);
    poll_until(&workspace, &id, at_prompt).await;
    process(
        &workspace,
        json!({"action": "write", "id": id, "text": "print(6 * 7)\n"}),
    )
    .await;
    let (_, text) = poll_until(&workspace, &id, |text, view| {
        text.contains("\n42\n") && at_prompt(text, view)
    })
    .await;
    assert!(!text.contains('\u{1b}'), "{text:?}");
    // A loop that only Ctrl-C ends.
    let endless = "for n in __import__('itertools').count(): _ = n or print('turning', n)\n\n";
    process(
        &workspace,
        json!({"action": "write", "id": id, "text": endless}),
    )
    .await;
    poll_until(&workspace, &id, |text, _| text.contains("\nturning 0\n")).await;
    process(
        &workspace,
        json!({"action": "keys", "id": id, "keys": ["ctrl-c"]}),
    )
    .await;
    poll_until(&workspace, &id, |text, view| {
        text.contains("KeyboardInterrupt") && at_prompt(text, view)
    })
    .await;
    let input = json!({"action": "write", "id": id, "text": "print('still', 'here')\n"});
    process(&workspace, input).await;
    poll_until(&workspace, &id, |text, view| {
        text.contains("\nstill here\n") && at_prompt(text, view)
    })
    .await;
    process(
        &workspace,
        json!({"action": "keys", "id": id, "keys": ["ctrl-d"]}),
    )
    .await;
    let (view, _) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
    assert_eq!(view["exit_code"], 0, "{view}");
}

/// A prompt that reads the terminal itself and shows nothing of what is typed.
#[tokio::test]
async fn a_password_prompt_is_answered_and_not_shown() {
    let workspace = Workspace::local();
    let program = "python3 -c 'import getpass; print(len(getpass.getpass()), \"characters\")'";
    let id = start(&workspace, on_terminal(program)).await;
    poll_until(&workspace, &id, |text, view| {
        text.contains("Password") && view["waits_for_input"] == json!(true)
    })
    .await;
    process(
        &workspace,
        json!({"action": "write", "id": id, "text": "hunter2\n"}),
    )
    .await;
    let (view, text) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
    assert!(text.contains("7 characters"), "{text}");
    assert_eq!(view["exit_code"], 0);
    let log = process(&workspace, json!({"action": "log", "id": id, "offset": 0})).await;
    assert!(
        !first_text(&log).contains("hunter2"),
        "{}",
        first_text(&log)
    );
}

#[tokio::test]
async fn a_terminal_is_resized_and_the_program_told() {
    let workspace = Workspace::local();
    let program = "python3 -u -c '\
import os, signal, time\n\
def told(*_): print(os.get_terminal_size().columns, \"columns\")\n\
signal.signal(signal.SIGWINCH, told)\n\
print(\"ready\")\n\
while True: time.sleep(1)'";
    let id = start(&workspace, on_terminal(program)).await;
    poll_until(&workspace, &id, |text, _| text.contains("ready")).await;
    let input = json!({"action": "resize", "id": id, "rows": 30, "columns": 99});
    process(&workspace, input).await;
    poll_until(&workspace, &id, |text, _| text.contains("99 columns")).await;
    process(&workspace, json!({"action": "kill", "id": id})).await;
}

#[tokio::test]
async fn input_is_ended() {
    for workspace in Workspace::each() {
        let id = start(&workspace, background("cat; echo over")).await;
        let input = json!({"action": "write", "id": id, "text": "last words", "end_input": true});
        process(&workspace, input).await;
        let (view, text) = poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
        assert!(text.contains("last wordsover"), "{text}");
        assert_eq!(view["exit_code"], 0);
    }
}

#[tokio::test]
async fn what_an_action_needs_is_named() {
    let workspace = Workspace::memory();
    for (input, at) in [
        (json!({"action": "poll"}), "/id"),
        (json!({"action": "poll", "id": "1"}), "/id"),
        (json!({"action": "write", "id": "p1"}), "/text"),
        (json!({"action": "keys", "id": "p1"}), "/keys"),
        (
            json!({"action": "keys", "id": "p1", "keys": ["enter", "ctr-c"]}),
            "/keys/1",
        ),
        (
            json!({"action": "resize", "id": "p1", "rows": 3}),
            "/columns",
        ),
        (json!({"action": "signal", "id": "p1"}), "/signal"),
    ] {
        let outcome = workspace
            .refuse("process", input.clone(), ErrorKind::InvalidInput)
            .await;
        let error = outcome.error.as_ref().unwrap();
        assert_eq!(error.at.as_deref(), Some(at), "{input}");
    }
}

fn plan_of(events: &EventLog, call: CallId) -> Arc<SealedPlan> {
    let planned = events.of(call).into_iter().find_map(|event| match event {
        CallEvent::Planned { plan } => Some(plan),
        _ => None,
    });
    planned.expect("a plan")
}

/// A person sees what is typed into what.
#[tokio::test]
async fn the_plan_names_the_process_and_its_command() {
    let workspace = Workspace::memory();
    let id = start(&workspace, background("cat; echo over")).await;
    let request = workspace.harness.request(
        "process",
        json!({"action": "write", "id": id, "text": "rm -rf x\n"}),
    );
    let call = request.id;
    workspace.harness.runtime.call(request).await;
    let plan = plan_of(&workspace.harness.events, call);
    let texts: Vec<String> = plan
        .accesses()
        .iter()
        .map(|access| match access {
            Access::Process(process) => process.text(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        ["type \"rm -rf x\\n\" into p1, which runs: cat; echo over"]
    );
    assert!(!plan.effects().read_only);
    let request = workspace
        .harness
        .request("process", json!({"action": "poll", "id": id, "wait_ms": 0}));
    let call = request.id;
    workspace.harness.runtime.call(request).await;
    let plan = plan_of(&workspace.harness.events, call);
    assert!(plan.effects().read_only && plan.accesses().is_empty());
}

/// Polling is not a loop as long as there is something new to read, and is one when there is not.
#[tokio::test]
async fn polling_warns_of_a_loop_only_when_nothing_comes_any_more() {
    let warned = |outcome: &Outcome| outcome.model_text().contains("[loop guard: ");
    for workspace in Workspace::each() {
        let rounds: Vec<String> = (1..=9).map(|n| format!("echo {n}; read A")).collect();
        let id = start(&workspace, background(&rounds.join("; "))).await;
        let log = json!({"action": "log", "id": id, "offset": 0});
        for round in 1..=9 {
            poll_until(&workspace, &id, |_, view| {
                view["log_end"] == json!(2 * round)
            })
            .await;
            let outcome = process(&workspace, log.clone()).await;
            assert!(!warned(&outcome), "{}", outcome.model_text());
            let input = json!({"action": "write", "id": id, "text": "\n"});
            process(&workspace, input).await;
        }
        poll_until(&workspace, &id, |_, view| view["state"] == "ended").await;
        for round in 1..=4 {
            let outcome = process(&workspace, log.clone()).await;
            assert_eq!(warned(&outcome), round >= 3, "{}", outcome.model_text());
        }
    }
}
