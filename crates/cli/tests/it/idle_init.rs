//! The init of a sandbox sleeps until there is something to do, as `strace` sees it.

use std::{fs, process::Command};

use crate::support::{Stage, same_as};

/// A listener hangs up once. A poll or two may see it before it is closed; an init that takes it
/// for work sees it some hundred times.
const MAX_HANGUPS_SEEN: usize = 4;

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
        let hangups: Vec<&str> = trace
            .lines()
            .filter(|line| line.contains("revents=POLLHUP}"))
            .collect();
        println!("{sandbox}: {} polls saw a hang-up", hangups.len());
        assert!(!hangups.is_empty(), "nothing was traced:\n{trace}");
        assert!(hangups.len() <= MAX_HANGUPS_SEEN, "{}", hangups.join("\n"));
    }
}
