//! Questions answered from the desktop, on a session bus and with a notification server of the
//! test's own: the server presses a button, and the call goes on, is denied, or stays open.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::support::{Stage, eventually, wait};

/// What a configuration needs for short waits: two seconds for an answer.
const IMPATIENT: &str =
    "[policy]\n[approvals]\ndesktop = true\n[limits]\napproval_wait_ms = 2000\n";
const PATIENT: &str = "[policy]\n[approvals]\ndesktop = true\n";

/// A session bus with a notification server. Both end with the test.
struct Desktop {
    bus: Child,
    server: Child,
    address: String,
    log: PathBuf,
}

impl Desktop {
    /// One where this button is pressed on everything; `none` for nobody there.
    fn new(stage: &Stage, button: &str) -> Self {
        let socket = stage.home.join("bus");
        let address = format!("unix:path={}", socket.display());
        let bus = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile"])
            .arg(format!("--address={address}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the bus listens", || socket.exists().then_some(()));
        let log = stage.home.join("notifications.jsonl");
        let fixture = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/notification-server.py"
        );
        // The system's own Python has the bindings.
        let server = Command::new("/usr/bin/python3")
            .arg(fixture)
            .arg(&log)
            .arg(button)
            .env("DBUS_SESSION_BUS_ADDRESS", &address)
            .spawn()
            .unwrap();
        let desktop = Self {
            bus,
            server,
            address,
            log,
        };
        desktop.until("ready");
        desktop
    }

    fn happened(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be half written.
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The first event of this kind.
    fn until(&self, kind: &str) -> Value {
        eventually(kind, || {
            self.happened()
                .into_iter()
                .find(|event| event.get(kind).is_some())
        })
    }

    fn call(&self, stage: &Stage, args: &[&str]) -> Child {
        let args = [&["call"], args, &["--ask", "elsewhere"]].concat();
        stage
            .command(&args)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .spawn()
            .unwrap()
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.bus] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn ended(mut call: Child) -> (i32, String) {
    let code = wait(&mut call).code().unwrap();
    let output = call.wait_with_output().unwrap();
    (code, String::from_utf8(output.stderr).unwrap())
}

const WRITE: [&str; 3] = ["write", "path=made.txt", "content=hello"];

#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn a_yes_on_the_desktop_allows_the_call() {
    let stage = Stage::with_config(PATIENT);
    let desktop = Desktop::new(&stage, "allow");
    let (code, said) = ended(desktop.call(&stage, &WRITE));
    assert_eq!(code, 0, "{said}");
    assert_eq!(stage.read("made.txt"), "hello");
    let shown = desktop.until("shown");
    assert_eq!(shown["app"], "Haft");
    assert_eq!(shown["summary"], "write made.txt (new file)");
    let body = shown["body"].as_str().unwrap();
    assert!(body.contains("\n  +hello\n"), "{body}");
    assert!(body.contains("asked because no rule allows"), "{body}");
    let buttons: Vec<&str> = shown["buttons"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(buttons, ["allow", "Allow once", "deny", "Deny"]);
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["approval"]["answer"], "approved");
    assert_eq!(explained["approval"]["by"], "ada (desktop)");
}

#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn a_no_on_the_desktop_denies_the_call() {
    let stage = Stage::with_config(PATIENT);
    let desktop = Desktop::new(&stage, "deny");
    let (code, said) = ended(desktop.call(&stage, &WRITE));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("ada (desktop) refused"), "{said}");
    assert!(!stage.exists("made.txt"));
}

#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn nobody_at_the_desktop_lets_the_question_lapse() {
    let stage = Stage::with_config(IMPATIENT);
    let desktop = Desktop::new(&stage, "none");
    let (code, said) = ended(desktop.call(&stage, &WRITE));
    assert_eq!(code, 3, "{said}");
    assert!(!stage.exists("made.txt"));
    assert_eq!(
        stage.json(&["explain", "--json"])["approval"]["answer"],
        "expired"
    );
    desktop.until("shown");
}

#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn an_answer_from_elsewhere_takes_the_notification_back() {
    let stage = Stage::with_config(PATIENT);
    let desktop = Desktop::new(&stage, "none");
    let call = desktop.call(&stage, &WRITE);
    desktop.until("shown");
    let questions = stage.json(&["approvals", "--json"]);
    let text = |name: &str| questions[0][name].as_str().unwrap();
    stage
        .haft(&[
            "approve",
            text("question"),
            "--yes",
            "--digest",
            text("digest"),
        ])
        .ok();
    assert_eq!(ended(call).0, 0);
    desktop.until("closed");
}

/// A yes counts only where all of it was shown, whoever says that a button was pressed.
#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn ap_08_what_does_not_fit_cannot_be_allowed_on_the_desktop() {
    let stage = Stage::with_config(IMPATIENT);
    let desktop = Desktop::new(&stage, "allow");
    let content = format!("content={}", "line\n".repeat(40));
    let (code, said) = ended(desktop.call(&stage, &["write", "path=made.txt", &content]));
    assert_eq!(code, 3, "{said}");
    assert!(!stage.exists("made.txt"));
    let shown = desktop.until("shown");
    assert_eq!(shown["buttons"], serde_json::json!([]));
    let body = shown["body"].as_str().unwrap();
    assert!(body.contains("haft approvals --watch"), "{body}");
    assert!(!body.contains("line\n"), "{body}");
}

#[test]
#[ignore = "ci: needs a session bus and notify-send"]
fn the_desktop_is_not_asked_unless_somebody_says_so() {
    let stage = Stage::with_config("[policy]\n[limits]\napproval_wait_ms = 1500\n");
    let desktop = Desktop::new(&stage, "allow");
    let (code, said) = ended(desktop.call(&stage, &WRITE));
    assert_eq!(code, 3, "{said}");
    assert!(
        desktop
            .happened()
            .iter()
            .all(|event| event.get("shown").is_none())
    );
}

/// An agent must not press its own button: what runs in a sandbox does not reach the bus, though it
/// is in the same home and its address is known. The same command without a sandbox does.
#[test]
#[ignore = "ci: needs bubblewrap, a session bus and notify-send"]
fn ap_07_a_sandboxed_command_cannot_reach_the_session_bus() {
    const SENDS: &str = "notify-send --expire-time=1 self approved; echo code $?";
    let off = "[tools.bash]\nsandbox = \"off\"\n";
    for (sandbox, reaches) in [("", false), (off, true)] {
        let stage = Stage::with_config(&format!("[policy]\nallow = [\"bash\"]\n{sandbox}"));
        let desktop = Desktop::new(&stage, "none");
        let script = format!(
            "export DBUS_SESSION_BUS_ADDRESS={}; {SENDS}",
            desktop.address
        );
        let mut call = stage.command(&["call", "bash", &script]);
        call.env("DBUS_SESSION_BUS_ADDRESS", &desktop.address);
        let ran = call.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert_eq!(said.contains("code 0"), reaches, "{sandbox}: {said}");
        let shown = desktop
            .happened()
            .iter()
            .any(|event| event.get("shown").is_some());
        assert_eq!(shown, reaches, "{sandbox}: {said}");
    }
}
