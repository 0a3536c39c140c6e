//! Tools that lack something: not offered, explained by `--why` and `haft doctor`, and offered once
//! it is there.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::{
    mounted::Mounting,
    support::{Ran, Stage},
};

const MANIFEST: &str = "name = \"greet\"\ndescription = \"Greets somebody by name.\"\nprogram = \"greet\"\neffects = \"read_only\"\n";

/// A workspace with one script tool, whose confinement is not what this is about.
fn with_script(more: &str) -> Stage {
    with_script_in(Stage::bare(), more)
}

fn with_script_in(stage: Stage, more: &str) -> Stage {
    stage.write(
        "haft.toml",
        "[policy]\nallow = [\"greet\"]\n[tools.greet]\nsandbox = \"off\"\n[scripts]\nfolders = [\"tools\"]\n",
    );
    stage.write("tools/greet.toml", format!("{MANIFEST}{more}"));
    for (path, mode) in [("tools", 0o755), ("tools/greet.toml", 0o644)] {
        fs::set_permissions(stage.work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    stage
}

fn write_program(stage: &Stage, path: &str, text: &str) {
    stage.write(path, text);
    let path = stage.work.join(path);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The tool is not offered anywhere, and everything that explains says why.
fn check_missing(haft: &dyn Fn(&[&str]) -> Ran, tool: &str, reason: &str, hint: &str) {
    let listed = haft(&["tools", "--format", "mcp"]).ok();
    assert!(!listed.contains(tool), "{listed}");
    let why = haft(&["tools", "--why", tool]).ok();
    for part in ["hidden", "not ready", reason, hint] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let doctor = haft(&["doctor"]).all();
    let told = format!("`{tool}` is not offered: ");
    assert!(
        doctor.contains(&told) && doctor.contains(reason) && doctor.contains(hint),
        "{doctor}"
    );
    let refused = haft(&["call", tool]).all();
    assert!(
        refused.contains("not ready") && refused.contains(reason),
        "{refused}"
    );
}

fn check_there(haft: &dyn Fn(&[&str]) -> Ran, tool: &str) {
    let listed = haft(&["tools", "--format", "mcp"]).ok();
    assert!(listed.contains(tool), "{listed}");
    let doctor = haft(&["doctor"]).all();
    assert!(!doctor.contains("not offered"), "{doctor}");
}

#[test]
#[ignore = "ci: needs bubblewrap, which `haft doctor` tries"]
fn a_script_without_its_program_is_not_offered_until_it_is_there() {
    let stage = with_script("");
    stage.haft(&["trust"]).ok();
    let haft = |args: &[&str]| stage.haft(args);
    check_missing(&haft, "greet", "there is no program", "put it there");
    write_program(&stage, "tools/greet", "#!/bin/sh\necho hello\n");
    // Nobody has trusted the program yet.
    assert!(!stage.haft(&["tools"]).ok().contains("greet"));
    stage.haft(&["trust"]).ok();
    check_there(&haft, "greet");
    assert!(stage.haft(&["call", "greet"]).ok().contains("hello"));
}

#[test]
#[ignore = "ci: needs bubblewrap, which `haft doctor` tries"]
fn a_script_without_its_secret_is_not_offered_until_it_is_there() {
    let stage = Stage::bare();
    let key = stage.home.join("key");
    let stage = with_script_in(
        stage,
        &format!("secrets.KEY = \"file:{}\"\n", key.display()),
    );
    write_program(&stage, "tools/greet", "#!/bin/sh\necho hello\n");
    stage.haft(&["trust"]).ok();
    let haft = |args: &[&str]| stage.haft(args);
    let lacking = "the secret `KEY` of the script `greet` is missing";
    check_missing(&haft, "greet", lacking, "correct `secrets` in its manifest");
    fs::write(&key, "a secret of some length").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    check_there(&haft, "greet");
}

#[test]
#[ignore = "ci: needs bubblewrap, which `haft doctor` tries"]
fn a_script_without_its_interpreter_is_not_offered_until_it_is_there() {
    let stage = with_script("");
    let interpreter = stage.work.join("own-sh").display().to_string();
    write_program(
        &stage,
        "tools/greet",
        &format!("#!{interpreter}\necho hello\n"),
    );
    stage.haft(&["trust"]).ok();
    let haft = |args: &[&str]| stage.haft(args);
    check_missing(
        &haft,
        "greet",
        &format!("there is no program `{interpreter}`"),
        "put it there",
    );
    std::os::unix::fs::symlink("/bin/sh", &interpreter).unwrap();
    check_there(&haft, "greet");
    assert!(stage.haft(&["call", "greet"]).ok().contains("hello"));
}

#[test]
fn a_script_names_the_programs_it_needs() {
    let stage = with_script("needs = [\"sh\", \"no-such-program\"]\n");
    write_program(&stage, "tools/greet", "#!/usr/bin/env -S sh\necho hello\n");
    stage.haft(&["trust"]).ok();
    assert!(!stage.haft(&["tools"]).ok().contains("greet"));
    let why = stage.json(&["tools", "--why", "greet", "--json"]);
    assert_eq!(why["shown"], false);
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.contains("`no-such-program` is not installed"),
        "{reason}"
    );
    assert!(
        why["hint"]
            .as_str()
            .unwrap()
            .contains("install `no-such-program`")
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_mounted_server_without_its_token_is_not_offered_until_it_is_there() {
    let mounted = Mounting::new(&[(
        "a",
        "\"good\"",
        "secrets = { TOKEN = \"file:/TOKEN_FILE\" }",
    )]);
    let file = mounted.token_file();
    let text = mounted
        .config()
        .replace("/TOKEN_FILE", &file.display().to_string());
    mounted.configure(&text);
    let put = || {
        fs::write(&file, "secret").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    put();
    mounted.accept("a");
    let haft = |args: &[&str]| mounted.haft(args);
    check_there(&haft, "mcp__a__say");
    fs::remove_file(&file).unwrap();
    check_missing(
        &haft,
        "mcp__a__say",
        "the secret `TOKEN` of the server `a` is missing",
        "supply it",
    );
    put();
    check_there(&haft, "mcp__a__say");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_mounted_server_without_its_program_is_not_offered_until_it_is_there() {
    let mounted = Mounting::new(&[("a", "\"good\"", "")]);
    let program = mounted.servers.join("own-python");
    let path = program.display().to_string();
    let text = mounted
        .config()
        .replace("\"python3\"", &format!("\"{path}\""));
    assert!(text.contains(&path), "{text}");
    mounted.configure(&text);
    let put = || {
        let text = "#!/bin/sh\nexec python3 \"$@\"\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    put();
    mounted.accept("a");
    let haft = |args: &[&str]| mounted.haft(args);
    check_there(&haft, "mcp__a__say");
    fs::remove_file(&program).unwrap();
    let reason = format!("there is no program `{path}`, which the server `a` is started with");
    check_missing(&haft, "mcp__a__say", &reason, "correct `command`");
    put();
    check_there(&haft, "mcp__a__say");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_list_has_only_the_provider_that_is_asked_for() {
    let mounted = Mounting::new(&[("a", "\"good\"", "")]);
    mounted.accept("a");
    let names = |provider: &str| -> Vec<String> {
        let listed = mounted.haft(&["tools", "--json", "--provider", provider]);
        let listed: Value = serde_json::from_str(&listed.ok()).unwrap();
        let tools = listed.as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let of_server = names("mcp__a");
    assert!(
        of_server.contains(&"mcp__a__say".to_owned()),
        "{of_server:?}"
    );
    assert!(of_server.iter().all(|name| name.starts_with("mcp__a__")));
    let built_in = names("builtin");
    assert!(built_in.contains(&"read".to_owned()) && !built_in.contains(&of_server[0]));

    let stage = with_script("groups = [\"market\"]\n");
    write_program(&stage, "tools/greet", "#!/bin/sh\necho hello\n");
    stage.haft(&["trust"]).ok();
    let listed = stage.json(&["tools", "--json", "--provider", "script"]);
    let listed = listed.as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"greet".into()));
}

/// A group that a manifest names is one like the built-in ones: for lists and for rules.
#[test]
fn the_group_of_a_script_is_listed_and_ruled() {
    let stage = with_script("groups = [\"market\"]\n");
    write_program(&stage, "tools/greet", "#!/bin/sh\necho hello\n");
    let rules = |rule: &str| {
        let text = format!(
            "[policy]\npreset = \"careful\"\n{rule}\n[tools.greet]\nsandbox = \"off\"\n[scripts]\nfolders = [\"tools\"]\n"
        );
        stage.write("haft.toml", text);
        stage.haft(&["trust"]).ok();
    };
    rules("");
    let listed = stage.json(&["tools", "--json", "--group", "market"]);
    let listed = listed.as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"greet".into()));
    stage.haft(&["call", "greet", "--ask", "never"]).fails(3);
    rules("allow = [\"@market\"]");
    assert!(stage.haft(&["call", "greet"]).ok().contains("hello"));
    rules("allow = [\"greet\"]\ndeny = [\"@market\"]");
    let denied = stage.haft(&["call", "greet"]).fails(3);
    assert!(denied.contains("@market"), "{denied}");
    assert!(!stage.haft(&["tools"]).ok().contains("greet"));
}

#[test]
fn a_list_is_narrowed_by_provider_effects_and_scope() {
    let stage = Stage::with_config("[tools.read]\nscopes = [\"files\"]\n");
    let names = |args: &[&str]| -> Vec<String> {
        let list = stage.json(&[&["tools", "--json"], args].concat());
        let list = list.as_array().unwrap().clone();
        list.iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&["--provider", "script"]), [""; 0]);
    assert_eq!(
        names(&["--provider", "builtin", "--group", "search"]),
        ["find", "grep"]
    );
    assert_eq!(
        names(&["--effects", "read-only"]),
        ["find", "grep", "list", "read_output", "todo"]
    );
    assert!(names(&["--effects", "changes"]).contains(&"write".to_owned()));
    assert!(!names(&["--effects", "destructive"]).contains(&"edit".to_owned()));
    assert!(names(&["--effects", "read-only", "--scope", "files"]).contains(&"read".to_owned()));
}
