//! The init of a sandbox sleeps until there is something to do, as `strace` sees it.

use std::{fs, process::Command};

use crate::support::{Stage, same_as};

/// How often everybody together waits for events while a command runs that does nothing: some dozen
/// times. An init that takes a listener that hung up for work waits some hundred times more. It cannot
/// be looked into, so its waits are counted and not read.
const MAX_WAITS: usize = 100;

#[test]
#[ignore = "ci: needs strace and the sandbox"]
fn an_init_whose_command_has_exited_does_not_spin() {
    for sandbox in ["full", "basic"] {
        let stage = Stage::with_config(&format!(
            "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"{sandbox}\"\n"
        ));
        let trace = stage.home.join("trace");
        let line = ["call", "bash", r#"{"command": "true"}"#];
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-qq", "-e", "trace=poll,ppoll", "-o"])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_haft"));
        let ran = same_as(&stage.command(&line), traced).output();
        let ran = ran.expect("`strace` is installed");
        assert!(ran.status.success(), "{ran:?}");

        let trace = fs::read_to_string(trace).unwrap();
        let waits = trace.lines().filter(|line| line.contains("ppoll(")).count();
        println!("{sandbox}: {waits} waits for events");
        assert!(waits > 0, "nothing was traced:\n{trace}");
        assert!(waits <= MAX_WAITS, "{waits} waits:\n{trace}");
    }
}
