//! What counts as configuration: the operator's own file, and a workspace's only once it is
//! trusted. Mistakes in it name their line.

use std::fs;

use crate::support::Stage;

const ALLOWS_WRITES: &str = "[policy]\nallow = [\"write\"]\n";

#[test]
fn repository_content_is_never_configuration() {
    let stage = Stage::bare();
    stage.write("haft.toml", ALLOWS_WRITES);
    let ran = stage.haft(&["call", "write", "path=made", "content=x"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(
        ran.stderr
            .contains("is not read, because you have not trusted it"),
        "{}",
        ran.stderr
    );
    assert!(!stage.exists("made"));
    stage.haft(&["trust"]).ok();
    stage
        .haft(&["call", "write", "path=made", "content=x"])
        .ok();
    assert!(stage.exists("made"));
}

#[test]
fn a_trusted_file_that_changed_stops_everything_until_it_is_trusted_again() {
    let stage = Stage::with_config("[policy]\ndeny = [\"list\"]\n");
    stage.write("haft.toml", ALLOWS_WRITES);
    let error = stage.haft(&["call", "list", "path=."]).fails(7);
    assert!(
        error.contains("has changed since it was trusted")
            && error.ends_with("hint: read it, then run `haft trust`\n"),
        "{error}"
    );
    fs::remove_file(stage.work.join("haft.toml")).unwrap();
    let error = stage.haft(&["call", "list", "path=."]).fails(7);
    assert!(error.contains("its rules are missing"), "{error}");
    stage.haft(&["trust", "--forget"]).ok();
    stage.haft(&["call", "list", "path=."]).ok();
}

#[test]
fn no_tool_can_change_the_configuration() {
    let stage = Stage::with_config("[policy]\npreset = \"workspace\"\n");
    stage
        .haft(&["call", "write", "path=made", "content=x"])
        .ok();
    let error = stage
        .haft(&["call", "write", "path=haft.toml", "content=x"])
        .fails(3);
    assert!(error.contains("haft.toml"), "{error}");
}

#[test]
fn a_workspace_that_holds_hafts_own_files_is_refused() {
    let stage = Stage::bare();
    let home = stage.home.to_str().unwrap();
    let error = stage.haft(&["call", "list", "path=.", "-C", home]).fails(7);
    assert!(error.contains("contains Haft's own files"), "{error}");
}

#[test]
fn a_workspace_is_found_from_below() {
    let stage = Stage::new();
    stage.write("deep/er/a.txt", "found\n");
    let ran = stage
        .command(&["call", "read", "deep/er/a.txt"])
        .current_dir(stage.work.join("deep/er"))
        .output()
        .unwrap();
    assert!(String::from_utf8(ran.stdout).unwrap().contains("found"));
}

#[test]
fn mistakes_name_their_line_and_what_was_meant() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\npreset = \"carefull\"\nalow = []\n\n[limitz]\n",
    );
    let error = stage.haft(&["trust"]).fails(7);
    insta::assert_snapshot!("mistakes", stage.normal(&error));
    let json = stage.haft(&["trust", "--json"]).fails(7);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["exit_code"], 7);
    stage.write("haft.toml", "[policy]\nask = []\n\n[policy]\nallow = []\n");
    let error = stage.haft(&["trust"]).fails(7);
    assert!(
        error.contains("put these lines into the one that is there"),
        "{error}"
    );
    stage.write("haft.toml", "[policy\n");
    let error = stage.haft(&["trust"]).fails(7);
    assert!(error.contains("haft.toml:1:"), "{error}");
    stage.write("haft.toml", "[policy]\ndeny = [\"bsh\"]\n");
    let error = stage.haft(&["trust"]).fails(7);
    assert!(
        error.contains("bsh") && error.contains("did you mean `bash`?"),
        "{error}"
    );
}

#[test]
fn the_users_own_file_needs_no_trust_and_adds_to_the_workspaces() {
    let stage = Stage::with_config("[policy]\nallow = [\"write(made)\"]\n");
    fs::create_dir_all(stage.home.join(".config/haft")).unwrap();
    fs::write(
        stage.home.join(".config/haft/haft.toml"),
        "[policy]\ndeny = [\"write(**/secret*)\"]\n",
    )
    .unwrap();
    stage
        .haft(&["call", "write", "path=made", "content=x"])
        .ok();
    let error = stage
        .haft(&["call", "write", "path=secret.txt", "content=x"])
        .fails(3);
    assert!(error.contains(".config/haft/haft.toml:2"), "{error}");
}

#[test]
fn a_named_file_is_the_whole_configuration() {
    let stage = Stage::with_config("[policy]\ndeny = [\"list\"]\n");
    fs::write(
        stage.home.join("other.toml"),
        "[policy]\npreset = \"locked\"\nallow = [\"list\"]\n",
    )
    .unwrap();
    let other = stage.home.join("other.toml");
    stage.haft(&["call", "list", "path=."]).fails(3);
    stage
        .haft(&[
            "call",
            "list",
            "path=.",
            "--config",
            other.to_str().unwrap(),
        ])
        .ok();
    let error = stage
        .haft(&["call", "list", "path=.", "--config", "../none.toml"])
        .fails(7);
    assert!(error.contains("there is no configuration file"), "{error}");
}

#[test]
fn mc_05_a_named_file_that_tools_could_change_is_refused() {
    let stage = Stage::bare();
    stage.write("mine.toml", ALLOWS_WRITES);
    let outside = stage.home.join("outside.toml");
    fs::write(&outside, ALLOWS_WRITES).unwrap();
    let link = |target: &std::path::Path, path: &std::path::Path| {
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    // A link can be changed where it lies, whatever it points at.
    link(&outside, &stage.work.join("link.toml"));
    link(&stage.home, &stage.work.join("folder"));
    link(
        &stage.work.join("mine.toml"),
        &stage.home.join("inward.toml"),
    );
    let inward = stage.home.join("inward.toml");
    for file in [
        "mine.toml",
        "./mine.toml",
        "../work/mine.toml",
        "link.toml",
        "folder/outside.toml",
        inward.to_str().unwrap(),
    ] {
        let write = ["call", "write", "path=made", "content=x"];
        let error = stage
            .haft(&[&write[..], &["--config", file]].concat())
            .fails(7);
        assert!(
            error.contains("where tools could change it"),
            "{file}: {error}"
        );
        let ran = stage
            .command(&write)
            .env("HAFT_CONFIG", file)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(7), "{file}");
        assert!(!stage.exists("made"));
    }
    let outside = outside.to_str().unwrap();
    stage
        .haft(&[
            "call",
            "write",
            "path=made",
            "content=x",
            "--config",
            outside,
        ])
        .ok();
}

fn user_config(stage: &Stage, text: &str) {
    fs::create_dir_all(stage.home.join(".config/haft")).unwrap();
    fs::write(stage.home.join(".config/haft/haft.toml"), text).unwrap();
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn mc_11_a_workspaces_file_cannot_raise_the_users_limits() {
    let project = "[policy]\nallow = [\"bash(sleep 30)\"]\n[limits]\nhard_deadline_ms = 60000\n";
    let stage = Stage::with_config(project);
    user_config(&stage, "[limits]\nhard_deadline_ms = 200\n");
    stage.haft(&["call", "bash", "sleep 30"]).fails(4);
}

#[test]
fn mc_11_mounts_are_crossed_only_if_every_file_says_so() {
    let crosses = "[workspace]\ncross_mounts = true\n";
    for (user, crossed) in [
        (None, true),
        (Some(crosses), true),
        (Some("[workspace]\ncross_mounts = false\n"), false),
        (Some("[policy]\n"), false),
    ] {
        let stage = Stage::bare();
        if let Some(user) = user {
            user_config(&stage, user);
        }
        stage.write("haft.toml", crosses);
        let trusted = stage.haft(&["trust"]).ok();
        assert_eq!(
            trusted.contains("\nmounts "),
            crossed,
            "{user:?}: {trusted}"
        );
    }
}

#[test]
fn mc_11_trust_lists_everything_a_file_loosens() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\npreset = \"workspace\"\nallow = [\"write(made)\"]\n[agents.cli]\n[agents.bot]\npreset = \"locked\"\n[sessions.dm]\npreset = \"careful\"\n[tools.bash]\nsandbox = \"off\"\n[workspace]\ncross_mounts = true\n[limits]\nhard_deadline_ms = 60000\n[record]\nartifact_days = 1\n[scripts]\nfolders = [\"tools\"]\n",
    );
    stage.write(
        "tools/greet.toml",
        "name = \"greet\"\ndescription = \"Greets.\"\nprogram = \"greet\"\neffects = \"read_only\"\n[input]\ntype = \"object\"\n",
    );
    stage.write("tools/greet", "#!/bin/sh\n");
    for (path, mode) in [
        ("tools", 0o755),
        ("tools/greet.toml", 0o644),
        ("tools/greet", 0o755),
    ] {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(stage.work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let trusted = stage.haft(&["trust"]).ok();
    insta::assert_snapshot!("trust", stage.normal(&trusted));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn limits_hold() {
    let stage = Stage::with_config(
        "[policy]\nallow = [\"bash(sleep 30)\"]\n[limits]\nhard_deadline_ms = 200\n",
    );
    stage.haft(&["call", "bash", "sleep 30"]).fails(4);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn r22_commands_run_in_the_tier_the_operator_chose_and_in_t2_by_default() {
    for (chosen, tier) in [
        ("", "t2"),
        ("[tools.bash]\nsandbox = \"full\"\n", "t2"),
        ("[tools.bash]\nsandbox = \"basic\"\n", "t1"),
        ("[tools.bash]\nsandbox = \"off\"\n", "host"),
    ] {
        let stage = Stage::with_config(&format!("[policy]\nallow = [\"bash(true)\"]\n{chosen}"));
        let ran = stage.json(&["call", "bash", "true", "--json"]);
        assert_eq!(ran["outcome"], "succeeded", "{ran}");
        assert_eq!(ran["facts"]["tier"], tier, "{chosen}");
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn sb_34_where_the_sandbox_cannot_be_had_commands_are_refused_and_the_next_step_is_named() {
    let stage = Stage::with_config("[policy]\nallow = [\"bash(touch made)\"]\n");
    let command = stage.command(&["call", "bash", "touch made"]);
    // A machine on which neither bubblewrap nor gVisor is installed.
    let mut without = std::process::Command::new("/usr/bin/bwrap");
    without.args(["--dev-bind", "/", "/"]);
    for program in ["/usr/bin/bwrap", "/usr/bin/runsc"] {
        without.args(["--ro-bind", "/dev/null", program]);
    }
    without.arg("--").arg(command.get_program());
    let ran = crate::support::same_as(&command, without).output().unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{error}");
    assert!(
        error.contains("a sandbox of tier t2 or stronger"),
        "{error}"
    );
    assert!(error.contains("hint: `haft doctor` says"), "{error}");
    assert!(!stage.exists("made"));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn limits_of_commands_hold_and_what_they_are_shown_is_shown() {
    let stage = Stage::bare();
    let data = stage.home.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "shown").unwrap();
    let data = data.display().to_string();
    let script = format!("ulimit -n; cat {data}/file; touch {data}/made || echo not writable");
    stage.write(
        "haft.toml",
        format!(
            "[policy]\nallow = [\"bash\"]\n[sandbox]\nread_only = [\"{data}\"]\n[sandbox.limits]\nopen_files = 123\n"
        ),
    );
    stage.haft(&["trust"]).ok();
    let printed = stage.haft(&["call", "bash", &script]).ok();
    for part in ["123\n", "shown", "not writable"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!std::path::Path::new(&data).join("made").exists());
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn r7_a_configured_tool_has_its_own_name() {
    let stage = Stage::with_config(
        "[policy]\nallow = [\"shell\"]\n[[tools]]\ntype = \"bash\"\nname = \"shell\"\nconfig = { timeout_ms = 5000 }\n",
    );
    stage.haft(&["call", "shell", "echo hi"]).ok();
    let tools = stage.json(&["tools", "--json", "--search", "bash"]);
    let shell = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "shell")
        .unwrap()
        .clone();
    assert_eq!(shell["timeout_ms"], 5000);
    let stage = Stage::bare();
    stage.write("haft.toml", "[[tools]]\ntype = \"bsh\"\nname = \"x\"\n");
    let error = stage.haft(&["trust"]).fails(7);
    assert!(
        error.contains("haft.toml:1") && error.contains("bash, clarify, copy"),
        "{error}"
    );
}

#[test]
fn what_commands_are_shown_is_listed_before_it_counts() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\n[sandbox]\nread_only = [\"/opt/data\"]\nwritable = [\"/var/cache/haft-test\"]\nhome = \"/home/tools\"\n[sandbox.limits]\nmemory_mib = 512\n[sandbox.network]\nallow = [\"docs.rs\"]\ndeny = [\"evil.example:8443\"]\n",
    );
    let ran = stage.haft(&["trust"]).ok();
    insta::assert_snapshot!("trust_sandbox", stage.normal(&ran));
}

#[test]
fn sb_36_commands_are_never_shown_what_haft_obeys_and_records() {
    for key in ["read_only", "writable"] {
        let stage = Stage::bare();
        let link = stage.home.join("link");
        std::os::unix::fs::symlink(".local", &link).unwrap();
        let data = stage.home.join(".local/share/haft");
        fs::create_dir_all(data.join("record")).unwrap();
        for place in [stage.home.clone(), data.clone(), data.join("record"), link] {
            let place = place.display();
            stage.write(
                "haft.toml",
                format!("[policy]\n[sandbox]\n{key} = [\"{place}\"]\n"),
            );
            let error = stage.haft(&["trust"]).fails(7);
            assert!(error.contains("which contains Haft's own files"), "{error}");
        }
        for place in ["/proc", "/sys/kernel", "/dev/shm"] {
            stage.write(
                "haft.toml",
                format!("[policy]\n[sandbox]\n{key} = [\"{place}\"]\n"),
            );
            let error = stage.haft(&["trust"]).fails(7);
            assert!(error.contains("cannot be shown"), "{error}");
        }
    }
}

#[test]
#[ignore = "ci: needs OpenSSH"]
fn a_machine_that_cannot_be_reached_is_told_with_what_to_do() {
    let stage = Stage::with_config(
        "[ssh]\ndestination = \"nobody@127.0.0.1\"\nroot = \"/srv/app\"\nport = 1\n",
    );
    let error = stage.haft(&["call", "list", "path=."]).fails(1);
    assert!(
        error.contains("`127.0.0.1` refuses the connection") && error.contains("`ssh.port`"),
        "{error}"
    );
    // Rules and tools are looked at without a connection.
    stage.haft(&["tools"]).ok();
    let trusted = stage.haft(&["trust"]).ok();
    assert!(
        trusted.contains("`/srv/app` on `nobody@127.0.0.1`, over SSH"),
        "{trusted}"
    );
}
