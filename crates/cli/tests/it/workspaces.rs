//! Several workspaces on one record: every command means the one it is run in, unless all are asked for, and
//! then each line says which.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{
    support::{Ran, Stage, eventually, wait},
    tmux::Tmux,
};

/// A home with two workspaces: `work`, where commands run, and `other`.
struct Two {
    stage: Stage,
    other: PathBuf,
}

impl Two {
    fn new() -> Self {
        let stage = Stage::new();
        let other = stage.home.join("other");
        std::fs::create_dir(&other).unwrap();
        let two = Self { stage, other };
        two.there(&["init"]).ok();
        two
    }

    /// Both with a file and a call that reads it.
    fn with_calls() -> Self {
        let two = Self::new();
        two.stage.write("mine.txt", "apples\n");
        std::fs::write(two.other.join("theirs.txt"), "bananas\n").unwrap();
        two.here(&["call", "read", "mine.txt"]).ok();
        two.there(&["call", "read", "theirs.txt", "--agent", "codex"])
            .ok();
        two
    }

    fn here(&self, args: &[&str]) -> Ran {
        self.stage.haft(args)
    }

    fn there(&self, args: &[&str]) -> Ran {
        let place = ["-C", self.other.to_str().unwrap()];
        self.stage.haft(&[&place, args].concat())
    }

    fn there_json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.there(args).ok()).unwrap()
    }

    /// A call that waits for an answer in the other workspace, or in this one.
    fn asks(&self, elsewhere: bool, path: &str) -> Child {
        let path = format!("path={path}");
        let call = ["call", "write", &path, "content=x", "--ask", "elsewhere"];
        let place = ["-C", self.other.to_str().unwrap()];
        let args = if elsewhere {
            [&place[..], &call].concat()
        } else {
            call.to_vec()
        };
        let mut command = self.stage.command(&args);
        let call = command.stdin(Stdio::null()).spawn().unwrap();
        eventually("the question is on record", || {
            let asked = self
                .stage
                .json(&["approvals", "--all-workspaces", "--json"]);
            summaries(&asked)
                .iter()
                .any(|summary| summary.contains(&path["path=".len()..]))
                .then_some(())
        });
        call
    }
}

fn summaries(listed: &Value) -> Vec<String> {
    let listed = listed.as_array().unwrap().iter();
    listed
        .map(|one| one["summary"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_log_is_of_this_workspace_unless_all_are_asked_for() {
    let two = Two::with_calls();
    assert_eq!(summaries(&two.stage.json(&["log", "--json"])), ["mine.txt"]);
    assert_eq!(
        summaries(&two.there_json(&["log", "--json"])),
        ["theirs.txt"]
    );
    let all = two.stage.json(&["log", "--all-workspaces", "--json"]);
    assert_eq!(summaries(&all), ["mine.txt", "theirs.txt"]);
    assert_eq!(all[1]["workspace"], two.other.to_str().unwrap());
    let lines = two.here(&["log", "--all-workspaces", "--jsonl"]).ok();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    // A person is told which; where there is only one, it is not repeated on each line.
    let all = two.here(&["log", "--all-workspaces"]).ok();
    assert!(all.contains("~/other"), "{all}");
    let here = two.here(&["log"]).ok();
    assert!(
        !here.contains("~/other") && here.contains("mine.txt"),
        "{here}"
    );
    // Words are looked for here too.
    let nothing = two.here(&["log", "bananas"]);
    assert!(
        nothing.stderr.contains("no calls match `bananas` in"),
        "{}",
        nothing.all()
    );
    let found = two
        .stage
        .json(&["log", "bananas", "--all-workspaces", "--json"]);
    assert_eq!(summaries(&found), ["theirs.txt"]);
}

#[test]
fn the_log_is_filtered_by_time_agent_tool_and_outcome() {
    let two = Two::with_calls();
    two.here(&["call", "list", "path=."]).ok();
    two.here(&["call", "read", "missing.txt"]).fails(1);
    let found = |args: &[&str]| {
        let all = [&["log", "--all-workspaces", "--json"], args].concat();
        two.stage.json(&all).as_array().unwrap().len()
    };
    for (args, expect) in [
        (&["--agent", "codex"][..], 1),
        (&["--agent", "cli"], 3),
        (&["--tool", "read"], 3),
        (&["--tool", "builtin/list"], 1),
        (&["--since", "1h"], 4),
        (&["--since", "today"], 4),
        (&["--since", "2020-01-01"], 4),
        (&["--until", "2020-01-01"], 0),
        (&["--until", "yesterday"], 0),
        (&["--since", "2099-01-01T00:00:00Z"], 0),
        (&["--outcome", "failed"], 1),
        (&["--outcome", "succeeded", "--tool", "read"], 2),
        (&["--outcome", "open"], 0),
    ] {
        assert_eq!(found(args), expect, "{args:?}");
    }
    let wrong = two.here(&["log", "--since", "soon"]).fails(2);
    assert!(wrong.contains("yesterday, 2026-11-18"), "{wrong}");
    let wrong = two.here(&["log", "--outcome", "lost"]).fails(2);
    assert!(wrong.contains("known: open, succeeded"), "{wrong}");
}

#[test]
fn the_last_call_is_the_last_of_this_workspace() {
    let two = Two::with_calls();
    for command in ["show", "explain"] {
        let here = two.stage.json(&[command, "last", "--json"]);
        assert_eq!(here["summary"], "mine.txt", "{command}");
        let anywhere = two
            .stage
            .json(&[command, "last", "--all-workspaces", "--json"]);
        assert_eq!(anywhere["summary"], "theirs.txt", "{command}");
        let told = two.here(&[command, "last", "--all-workspaces"]).ok();
        assert!(told.contains("~/other"), "{told}");
        // An id is an id, wherever its call was made.
        let id = anywhere["call"].as_str().unwrap();
        assert_eq!(two.stage.json(&[command, id, "--json"])["call"], id);
    }
    let empty = Two::new();
    empty.there(&["call", "list", "path=."]).ok();
    let nothing = empty.here(&["explain"]).fails(10);
    assert!(nothing.contains("in this workspace yet"), "{nothing}");
}

#[test]
fn undo_takes_back_the_last_change_of_this_workspace() {
    let two = Two::new();
    let config = "[policy]\npreset = \"careful\"\nallow = [\"write\", \"undo\"]\n";
    for folder in [&two.stage.work, &two.other] {
        std::fs::write(folder.join("haft.toml"), config).unwrap();
    }
    two.here(&["trust", "--yes"]).ok();
    two.there(&["trust", "--yes"]).ok();
    two.here(&["call", "write", "path=a.txt", "content=mine"])
        .ok();
    two.there(&["call", "write", "path=a.txt", "content=theirs"])
        .ok();
    two.here(&["undo", "last"]).ok();
    assert!(!two.stage.exists("a.txt"));
    assert_eq!(
        std::fs::read_to_string(two.other.join("a.txt")).unwrap(),
        "theirs"
    );
}

#[test]
fn questions_are_of_this_workspace_and_name_it() {
    let two = Two::new();
    let calls = [two.asks(false, "mine.txt"), two.asks(true, "theirs.txt")];
    let here = two.stage.json(&["approvals", "--json"]);
    assert_eq!(here.as_array().unwrap().len(), 1, "{here}");
    assert!(summaries(&here)[0].contains("mine.txt"), "{here}");
    let listed = two.here(&["approvals"]);
    assert!(
        listed.stderr.contains("1 more in other workspaces"),
        "{}",
        listed.all()
    );
    let all = two.here(&["approvals", "--all-workspaces"]).ok();
    assert!(all.contains("~/other") && all.contains("mine.txt"), "{all}");
    let status = two.stage.json(&["status", "--json"]);
    assert_eq!(status["waits"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["runs"].as_array().unwrap().len(), 0, "{status}");
    let status = two.here(&["status", "--all-workspaces"]).ok();
    assert!(status.starts_with("2 questions are waiting\n"), "{status}");
    let open = two.stage.json(&["log", "--outcome", "open", "--json"]);
    assert!(summaries(&open)[0].contains("mine.txt"), "{open}");
    for mut call in calls {
        call.kill().unwrap();
        call.wait().unwrap();
    }
}

/// The process that asked is killed, so that it can withdraw nothing. Whoever looks next withdraws its
/// question; nobody can answer it, and the same call asks anew.
#[test]
fn a_question_whose_process_was_killed_is_withdrawn_and_cannot_be_answered() {
    let two = Two::new();
    let mut call = two.asks(false, "mine.txt");
    let question = two.stage.json(&["approvals", "--json"])[0].clone();
    let text = |name: &str| question[name].as_str().unwrap().to_owned();
    let pid = call.id().to_string();
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success());
    assert!(!wait(&mut call).success());
    // The first to look may be whoever answers.
    let answer = [
        "approve",
        &text("question"),
        "--yes",
        "--digest",
        &text("digest"),
    ];
    let refused = two.here(&answer).fails(11);
    assert!(refused.contains("withdrawn"), "{refused}");
    assert_eq!(
        two.stage.json(&["approvals", "--json"]),
        Value::Array(Vec::new())
    );
    assert!(!two.stage.exists("mine.txt"));
    let call = two.stage.json(&["show", &text("call"), "--json"]);
    assert_eq!(call["outcome"], "cancelled");
    let mut again = two.asks(false, "mine.txt");
    let fresh = two.stage.json(&["approvals", "--json"]);
    assert_ne!(fresh[0]["question"], question["question"]);
    again.kill().unwrap();
    again.wait().unwrap();
}

#[test]
#[ignore = "ci: needs tmux"]
fn the_watch_screen_drops_the_question_of_a_killed_process_and_names_workspaces() {
    let two = Two::new();
    let mut call = two.asks(true, "theirs.txt");
    let mut tmux = Tmux::new(&two.stage);
    let here = tmux.haft(&["approvals", "--watch"]);
    tmux.until(here, "no questions are waiting");
    let all = tmux.haft(&["approvals", "--watch", "--all-workspaces"]);
    tmux.until(all, "theirs.txt");
    let screen = tmux.screen(all);
    assert!(screen.contains("/other"), "{screen}");
    call.kill().unwrap();
    call.wait().unwrap();
    tmux.until(all, "no questions are waiting");
}

#[test]
fn sessions_are_listed_by_workspace() {
    let two = Two::with_calls();
    let here = two.stage.json(&["sessions", "--json"]);
    assert_eq!(here.as_array().unwrap().len(), 1, "{here}");
    assert_eq!(
        (&here[0]["session"], &here[0]["calls"]),
        (&"main".into(), &1.into())
    );
    let all = two.stage.json(&["sessions", "--all-workspaces", "--json"]);
    assert_eq!(
        all.as_array().unwrap().len(),
        2,
        "one name, two sessions: {all}"
    );
    let printed = two.here(&["sessions", "--all-workspaces"]).ok();
    assert!(
        printed.contains("~/other") && printed.contains("1 call"),
        "{printed}"
    );
}

#[test]
fn status_says_what_was_denied_today() {
    let two = Two::new();
    let quiet = two.here(&["status"]).ok();
    assert_eq!(
        quiet,
        "no questions are waiting\nno call runs\nno call was denied today\n"
    );
    two.there(&["call", "write", "path=a", "content=x"])
        .fails(3);
    let here = two.here(&["status"]).ok();
    assert!(here.contains("no call was denied today"), "{here}");
    let there = two.there(&["status"]).ok();
    assert!(there.contains("1 call was denied today"), "{there}");
    let json = two.stage.json(&["status", "--all-workspaces", "--json"]);
    assert_eq!(
        json["denied_today"][0]["workspace"],
        two.other.to_str().unwrap()
    );
}

#[test]
fn stats_count_calls_by_day_tool_and_agent() {
    let two = Two::with_calls();
    two.here(&["call", "write", "path=a", "content=x"]).fails(3);
    let here = two.stage.json(&["stats", "--json"]);
    assert_eq!(here["total"]["calls"], 2);
    assert_eq!(here["total"]["denied"], 1);
    assert_eq!(here["days"].as_array().unwrap().len(), 1);
    let tools: Vec<&Value> = here["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(tools, ["read", "write"]);
    assert_eq!(here["workspaces"], Value::Null);
    let all = two.stage.json(&["stats", "--all-workspaces", "--json"]);
    assert_eq!(all["total"]["calls"], 3);
    let workspaces = all["workspaces"].as_array().unwrap();
    assert_eq!(
        (&workspaces[1]["name"], &workspaces[1]["calls"]),
        (&two.other.to_str().unwrap().into(), &1.into())
    );
    let codex = two
        .stage
        .json(&["stats", "--all-workspaces", "--agent", "codex", "--json"]);
    assert_eq!(codex["total"]["calls"], 1);
    assert!(all["total"]["bytes"].as_u64().unwrap() > 10, "{all}");
    let printed = two.here(&["stats"]).ok();
    for part in [
        "2 calls · ",
        "1 denied",
        "by tool",
        "  read",
        "██",
        "by agent",
    ] {
        assert!(printed.contains(part), "{part} is missing in {printed}");
    }
    let none = two.here(&["stats", "--until", "2020-01-01", "--since", "2019-01-01"]);
    assert!(none.stderr.contains("no calls"), "{}", none.all());
    let nothing = [
        "stats",
        "--until",
        "2020-01-01",
        "--since",
        "2019-01-01",
        "--json",
    ];
    assert_eq!(two.stage.json(&nothing)["total"]["calls"], 0);
}

#[test]
fn an_agent_that_is_named_like_a_workspace_is_counted_by_its_own_name() {
    let two = Two::with_calls();
    let sessions = two.stage.json(&["sessions", "--json"]);
    let id = sessions[0]["workspace_id"].as_str().unwrap().to_owned();
    two.here(&["call", "read", "mine.txt", "--agent", &id]).ok();
    let stats = two.stage.json(&["stats", "--json"]);
    let agents = stats["agents"].as_array().unwrap();
    assert!(agents.iter().any(|one| one["name"] == id), "{stats}");
}

#[test]
fn the_record_is_measured_and_made_smaller() {
    let two = Two::new();
    let long = "line\n".repeat(200_000);
    two.stage.write("long.txt", long);
    two.here(&["call", "grep", "pattern=line", "path=long.txt"])
        .ok();
    // Looking removes nothing, not even what a process that is gone was writing.
    let record = two.stage.home.join(".local/share/haft/record");
    let abandoned = record.join("artifacts/writing/half");
    let file = std::fs::File::create(&abandoned).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let size = two.stage.json(&["record", "size", "--json"]);
    assert!(abandoned.exists());
    assert_eq!(
        (&size["calls"], &size["workspaces"]),
        (&1.into(), &1.into())
    );
    assert!(size["record_bytes"].as_u64().unwrap() > 1_000, "{size}");
    let told = two.here(&["record", "size"]).ok();
    assert!(told.contains("1 in 1 workspace, the last at"), "{told}");
    let kept = size["artifact_bytes"].as_u64().unwrap();
    // Nothing is as old as what the configuration removes.
    let pruned = two.stage.json(&["record", "prune", "--json"]);
    assert_eq!(pruned["kept_bytes"].as_u64().unwrap(), kept, "{pruned}");
    let asked = two.here(&["record", "prune", "--older-than", "0s"]);
    assert_eq!(asked.code, 2, "{}", asked.all());
    assert!(asked.stderr.contains("add `--yes`"), "{}", asked.all());
    let everything = ["record", "prune", "--older-than", "0s", "--yes", "--json"];
    let pruned = two.stage.json(&everything);
    assert_eq!(pruned["bytes"].as_u64().unwrap(), kept, "{pruned}");
    assert_eq!(pruned["kept_bytes"], 0, "{pruned}");
    // The calls are all there, and unaltered.
    assert_eq!(two.stage.json(&["log", "verify", "--json"])["intact"], true);
    assert_eq!(
        two.stage.json(&["log", "--json"]).as_array().unwrap().len(),
        1
    );
}

#[test]
fn revoking_all_ends_the_grants_of_this_workspace() {
    let two = Two::new();
    two.here(&["grants", "add", "bash(touch *)", "--project", "--yes"])
        .ok();
    two.there(&["grants", "add", "bash(touch *)", "--project", "--yes"])
        .ok();
    let listed = |ran: Ran| {
        let listed: Value = serde_json::from_str(&ran.ok()).unwrap();
        listed.as_array().unwrap().len()
    };
    assert_eq!(listed(two.here(&["grants", "list", "--json"])), 1);
    let all = ["grants", "list", "--all-workspaces", "--json"];
    assert_eq!(listed(two.here(&all)), 2);
    let revoked = two.here(&["grants", "revoke", "--all"]);
    assert!(
        revoked.stderr.contains("`--all-workspaces` ends them"),
        "{}",
        revoked.all()
    );
    assert_eq!(listed(two.here(&all)), 1);
    assert_eq!(listed(two.there(&["grants", "list", "--json"])), 1);
    two.here(&["grants", "revoke", "--all", "--all-workspaces"])
        .ok();
    assert_eq!(listed(two.here(&all)), 0);
}

#[test]
fn replay_decides_the_calls_of_this_workspace() {
    let two = Two::with_calls();
    two.stage.write("new.toml", "[policy]\ndeny = [\"read\"]\n");
    let replay = |args: &[&str]| {
        let args = [&["policy", "replay", "new.toml", "--json"], args].concat();
        two.stage.json(&args)["calls"].as_u64().unwrap()
    };
    assert_eq!(replay(&[]), 1);
    assert_eq!(replay(&["--all-workspaces"]), 2);
}

#[test]
fn a_call_is_told_as_a_story() {
    let stage = Stage::with_config(
        "[policy]\nallow = [\"edit\", \"bash\"]\n[tools.bash]\nsandbox = \"off\"\n",
    );
    stage.write("notes.txt", "one\ntwo\nthree\n");
    let edit = r#"{"path": "notes.txt", "edits": [{"old": "two", "new": "zwei"}]}"#;
    stage.haft(&["call", "edit", edit]).ok();
    let told = stage.haft(&["show"]).ok();
    for part in [
        "edit  notes.txt",
        "succeeded in ",
        "cli for ada · session main (main) · [WORK]",
        "asked for edit",
        "edits.0.new  zwei",
        "planned, ",
        "writes notes.txt",
        "decided: allow, because ",
        "started, ",
        "wrote notes.txt",
        "-two",
        "+zwei",
        "succeeded after ",
    ] {
        let told = stage.normal(&told);
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    assert!(!told.contains("{\"") && !told.contains("_us"), "{told}");
    stage
        .haft(&["call", "bash", "command=echo out; exit 3"])
        .fails(1);
    let told = stage.haft(&["show"]).ok();
    for part in ["runs echo out; exit 3", ", exit code 3", "            out"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
}

/// A line is never wider than the screen, and what is left out is marked.
#[test]
#[ignore = "ci: needs tmux"]
fn the_log_fits_the_terminal() {
    let two = Two::new();
    let long = format!("path={}.txt", "a-long-name-".repeat(14));
    // The note that a pane is dead pushes the first line off the screen.
    two.here(&["call", "list", "path=."]).ok();
    two.here(&["call", "read", &long]).fails(1);
    let mut tmux = Tmux::new(&two.stage);
    let window = tmux.haft(&["log", "--all-workspaces"]);
    assert_eq!(tmux.ended(window), 0);
    let screen = tmux.screen(window);
    let long: Vec<&str> = screen
        .lines()
        .filter(|line| line.contains("a-long-name"))
        .collect();
    let [line] = long.as_slice() else {
        panic!("one line, and no second one: {screen}");
    };
    assert!(line.contains("failed") && line.contains('…'), "{screen}");
    assert!(
        line.contains("cli") && line.trim_end().ends_with("work"),
        "{screen}"
    );
}
