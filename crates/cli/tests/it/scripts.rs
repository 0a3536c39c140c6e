//! R8: script tools, from folders the operator trusts, pinned by hash.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::support::{Stage, eventually, wait};

const CONFIG: &str = "[policy]\nallow = [\"greet\"]\n[tools.greet]\nsandbox = \"off\"\n[scripts]\nfolders = [\"tools\"]\n";
const MANIFEST: &str = "name = \"greet\"\ndescription = \"Greets somebody by name.\"\nprogram = \"greet\"\neffects = \"read_only\"\n\n[input]\ntype = \"object\"\nrequired = [\"name\"]\nproperties.name = { type = \"string\" }\n";

fn write_program(stage: &Stage, text: &str) {
    stage.write("tools/greet", text);
    let path = stage.work.join("tools/greet");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_script(program: &str) -> Stage {
    let stage = Stage::bare();
    stage.write("haft.toml", CONFIG);
    stage.write("tools/greet.toml", MANIFEST);
    write_program(&stage, program);
    for (path, mode) in [("tools", 0o755), ("tools/greet.toml", 0o644)] {
        fs::set_permissions(stage.work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    stage
}

#[test]
fn r8_a_script_runs_only_as_it_was_trusted() {
    let stage = with_script("#!/bin/sh\nread -r input\necho \"got $input\"\n");
    let trusted = stage.haft(&["trust"]);
    assert!(trusted.stderr.contains("greet.toml"), "{}", trusted.all());
    let ran = stage.haft(&["call", "greet", "name=Ada"]).ok();
    assert!(ran.contains("got {\"name\":\"Ada\"}"), "{ran}");

    write_program(&stage, "#!/bin/sh\ntouch owned\n");
    let ran = stage.haft(&["call", "greet", "name=Ada"]);
    assert_ne!(ran.code, 0);
    assert!(
        ran.stderr.contains("changed since it was trusted"),
        "{}",
        ran.all()
    );
    assert!(!stage.exists("owned"));
    stage.haft(&["trust"]).ok();
    stage.haft(&["call", "greet", "name=Ada"]).ok();
    assert!(stage.exists("owned"));
}

#[test]
fn an_interrupted_call_that_only_reads_is_run_again_when_asked() {
    let stage = with_script(
        "#!/bin/sh\n[ -e again ] && { echo second; exit; }\necho $$ > pid\nexec sleep 300\n",
    );
    stage.haft(&["trust"]).ok();
    let mut child = stage
        .command(&["call", "greet", "name=Ada"])
        .spawn()
        .unwrap();
    let script: u32 = eventually("the script runs", || {
        fs::read_to_string(stage.work.join("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    });
    child.kill().unwrap();
    wait(&mut child);
    let _ = std::process::Command::new("kill")
        .args(["-9", &script.to_string()])
        .status();
    stage.write("again", "");
    let ran = stage.haft(&["recover", "--rerun-read-only", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["unknown"], lines[0]["can_run_again"]);
    assert_eq!(lines[1]["outcome"], "succeeded");
    assert!(
        lines[1]["content"].to_string().contains("second"),
        "{}",
        ran.stdout
    );
    assert_ne!(lines[1]["call"], lines[0]["unknown"][0], "a new call");
    let text = stage.haft(&["recover"]).ok();
    assert_eq!(text, "nothing was left open\n", "once");
}
