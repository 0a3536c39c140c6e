//! `haft undo` and `haft diff`, with the real program, a real record and real files. Every run of
//! the program is a restart.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::Stage;

const FREE: &str = "[policy]\npreset = \"workspace\"\n";

fn lines(printed: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    printed.lines().map(parse).collect()
}

fn write(stage: &Stage, path: &str, content: &str) {
    let input = json!({"path": path, "content": content}).to_string();
    stage
        .haft(&["call", "write", "--session", "work", &input])
        .ok();
}

#[test]
fn a_session_of_500_files_goes_back_but_for_the_one_that_changed() {
    let stage = Stage::with_config(FREE);
    let name = |index: usize| format!("src/{index:03}.txt");
    let mut batch = String::new();
    for index in 0..500 {
        if index % 2 == 0 {
            stage.write(&name(index), format!("before {index}\n"));
        }
        let call = json!({"tool": "write", "arguments":
            {"path": name(index), "content": format!("after {index}\n")}});
        writeln!(batch, "{call}").unwrap();
    }
    stage
        .haft_with(&["batch", "--session", "work"], &batch)
        .ok();
    stage.write(&name(42), "after 42\nand mine\n");

    let ran = stage.haft(&["undo", "--session", "work"]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(
        ran.stdout
            .contains("499 files put back, 1 in conflict and left alone"),
        "{}",
        ran.stdout
    );
    for part in [
        "conflict: src/042.txt: it has changed since",
        "-before 42\n+after 42\n",
        " after 42\n+and mine\n",
    ] {
        assert!(ran.stdout.contains(part), "{part:?}: {}", ran.stdout);
    }
    for index in (0..500).filter(|index| *index != 42) {
        let expected = (index % 2 == 0).then(|| format!("before {index}\n"));
        let found = stage.exists(&name(index)).then(|| stage.read(&name(index)));
        assert_eq!(found, expected, "{index}");
    }
    assert_eq!(stage.read(&name(42)), "after 42\nand mine\n");

    // Taking the undo back is doing it again.
    let redone = stage.haft(&["undo", "last", "--json"]);
    assert_eq!(redone.code, 0, "{}", redone.all());
    let restored = &lines(&redone.stdout)[0]["structured"]["restored"];
    assert_eq!(restored.as_array().unwrap().len(), 499);
    assert_eq!(stage.read(&name(41)), "after 41\n");
    assert_eq!(stage.read(&name(42)), "after 42\nand mine\n");
}

#[test]
fn an_undo_is_asked_about_with_the_diff_and_denied_where_nobody_is() {
    let stage = Stage::new();
    stage.write("a", "one\n");
    let mut terminal = stage.terminal(&["call", "write", "path=a", "content=two"]);
    terminal.until("[y/N]");
    terminal.types("y\n");
    assert_eq!(terminal.end().0, 0);

    let ran = stage.haft(&["undo", "last"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.stderr.contains("undo"), "{}", ran.stderr);
    assert!(ran.stderr.contains("allow"), "{}", ran.stderr);
    assert_eq!(stage.read("a"), "two");

    let dry = stage.haft(&["undo", "--session", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.all());
    assert!(dry.stdout.contains("+one\n"), "{}", dry.stdout);
    assert_eq!(stage.read("a"), "two");

    let mut terminal = stage.terminal(&["undo", "--session"]);
    let question = terminal.until("[y/N");
    for part in ["undo  ", "-two", "+one"] {
        assert!(question.contains(part), "{part:?} is missing in {question}");
    }
    terminal.types("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(stage.read("a"), "one\n");
}

/// Groups are calls of their own: one that fails for what is in it stops none that comes later.
#[test]
fn un_02_a_path_that_cannot_be_put_back_stops_neither_its_group_nor_later_ones() {
    let stage = Stage::with_config(FREE);
    let large = "x".repeat(68 * 1024);
    let name = |index: usize| format!("{index}.txt");
    for index in 0..4 {
        stage.write(&name(index), format!("before {index}\n{large}"));
        write(&stage, &name(index), &format!("after {index}\n{large}"));
    }
    for small in ["denied", "small"] {
        stage.write(small, "before\n");
        write(&stage, small, "after\n");
    }
    let outside = stage.home.join("outside-the-workspace");
    std::fs::write(&outside, "not theirs\n").unwrap();
    for index in [0, 2] {
        let path = stage.work.join(name(index));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&outside, path).unwrap();
    }
    stage.write("haft.toml", format!("{FREE}deny = [\"write(denied)\"]\n"));
    stage.haft(&["trust"]).ok();

    let ran = stage.haft(&["undo", "--session", "work", "--json"]);
    assert_ne!(ran.code, 0, "{}", ran.all());
    let calls = lines(&ran.stdout);
    assert!(calls.len() > 3, "{} groups", calls.len());
    for index in [1, 3] {
        assert!(stage.read(&name(index)).starts_with("before"), "{index}");
    }
    assert_eq!(stage.read("small"), "before\n");
    assert_eq!(stage.read("denied"), "after\n");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "not theirs\n");
    let said = ran.all();
    for part in ["out of the workspace", "write(denied)"] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
}

#[test]
fn diff_shows_what_a_session_changed_from_first_to_last() {
    let stage = Stage::with_config(FREE);
    stage.write("a", "one\ntwo\n");
    write(&stage, "a", "one\n2\n");
    write(&stage, "a", "1\n2\n");
    write(&stage, "new", "x\n");
    let ran = stage.haft(&["diff", "--session", "work"]);
    assert_eq!(
        ran.ok(),
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n\
         --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
    );
    let stat = stage.haft(&["diff", "--since", "1h", "--stat"]).ok();
    assert!(
        stat.ends_with("2 files, 3 lines added, 2 removed\n"),
        "{stat}"
    );
    let stat = stage.haft(&["diff", "last", "--stat"]).ok();
    assert!(
        stat.ends_with("1 file, 1 line added, 0 removed\n"),
        "{stat}"
    );
    let json = lines(&stage.haft(&["diff", "last", "--json"]).ok());
    assert_eq!(json[0]["path"], "new");
    assert_eq!(json[0]["change"], "create");
}

#[test]
fn the_same_path_in_another_workspace_is_another_file() {
    let stage = Stage::with_config(FREE);
    write(&stage, "a", "mine\n");
    let other = stage.home.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a"), "theirs\n").unwrap();
    let other = other.display().to_string();
    // The last call there is none of these; one that is named is another workspace's.
    let last = stage.haft(&["undo", "last", "-C", &other]).fails(10);
    assert!(last.contains("in this workspace yet"), "{last}");
    let id = stage.json(&["show", "--json"])["call"].clone();
    let ran = stage.haft(&["undo", id.as_str().unwrap(), "-C", &other]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.stderr.contains("another workspace"), "{}", ran.stderr);
    let theirs = std::fs::read_to_string(stage.home.join("other/a")).unwrap();
    assert_eq!(theirs, "theirs\n");
}

#[test]
fn a_dry_run_is_not_the_last_call() {
    let stage = Stage::with_config(FREE);
    stage.write("a", "one\n");
    write(&stage, "a", "two\n");
    for _ in 0..2 {
        let dry = stage.haft(&["undo", "last", "--dry-run"]).ok();
        assert!(dry.contains("-two\n+one\n"), "{dry}");
    }
    let diff = stage.haft(&["diff", "last"]).ok();
    assert!(diff.contains("-one\n+two\n"), "{diff}");
    stage.haft(&["undo", "last"]).ok();
    assert_eq!(stage.read("a"), "one\n");
    // The undo itself is.
    stage.haft(&["undo", "last"]).ok();
    assert_eq!(stage.read("a"), "two\n");
}

/// Whoever says nothing means the last call that changed something; whoever says `last` means the
/// last call, and is told which one changed something.
#[test]
fn without_a_word_the_last_call_that_changed_something_is_meant() {
    let stage = Stage::with_config(&format!("{FREE}deny = [\"write(secret)\"]\n"));
    // The control: where nothing was changed, nothing is meant.
    let none = stage.haft(&["undo"]).fails(10);
    assert!(none.contains("no call that changed something"), "{none}");
    stage.write("a", "one\n");
    write(&stage, "a", "two\n");
    let id = stage.json(&["show", "--json"])["call"].clone();
    let id = id.as_str().unwrap();
    let denied = stage.haft(&[
        "call",
        "write",
        "{\"path\": \"secret\", \"content\": \"x\"}",
    ]);
    assert_eq!(denied.code, 3, "{}", denied.all());
    let last = stage.haft(&["undo", "last"]);
    assert_eq!(last.code, 0, "{}", last.all());
    assert!(
        last.stderr.contains("changed no file on record"),
        "{}",
        last.stderr
    );
    assert!(last.stderr.contains(id), "{}", last.stderr);
    assert_eq!(stage.read("a"), "two\n");
    let diff = stage.haft(&["diff"]);
    assert!(diff.stdout.contains("-one\n+two\n"), "{}", diff.all());
    assert!(diff.stderr.contains(id), "{}", diff.stderr);
    let ran = stage.haft(&["undo"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.stderr.contains(id), "{}", ran.stderr);
    assert_eq!(stage.read("a"), "one\n");
}

/// A dry run names what the undo will refuse, and an undo that did nothing is not to be taken back.
#[test]
fn a_dry_run_says_what_the_undo_will_refuse() {
    let stage = Stage::with_config(FREE);
    for path in ["a", "denied"] {
        stage.write(path, "before\n");
        write(&stage, path, "after\n");
    }
    let session = ["undo", "--session", "work"];
    // The control: nothing is refused yet.
    let dry = stage.haft(&["undo", "--session", "work", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.all());
    assert!(
        dry.stdout.contains("2 files would be put back"),
        "{}",
        dry.stdout
    );
    stage.write("haft.toml", format!("{FREE}deny = [\"write(denied)\"]\n"));
    stage.haft(&["trust"]).ok();
    let dry = stage.haft(&["undo", "--session", "work", "--dry-run"]);
    assert_eq!(dry.code, 1, "{}", dry.all());
    assert!(
        dry.stdout.contains("1 file would be put back"),
        "{}",
        dry.stdout
    );
    assert!(
        dry.stderr.contains("`denied` would not be put back"),
        "{}",
        dry.stderr
    );
    let ran = stage.haft(&session);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(
        ran.stdout
            .contains("1 file put back, 1 could not be put back"),
        "{}",
        ran.stdout
    );
    assert!(ran.all().contains("takes this back"), "{}", ran.all());
    stage.write("a", "mine\n");
    let ran = stage.haft(&session);
    assert!(ran.stdout.contains("0 files put back"), "{}", ran.stdout);
    assert!(!ran.all().contains("takes this back"), "{}", ran.all());
}

/// The ignore files that an agent writes do not decide what is on record.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_an_ignore_file_of_the_agent_hides_nothing() {
    for hider in [".ignore", ".gitignore"] {
        let stage = Stage::with_config("[policy]\nallow = [\"bash\", \"undo\"]\n");
        stage.write("notes.txt", "the only copy\n");
        let hide = format!("printf '*\\n' > {hider}");
        for script in [hide.as_str(), "truncate -s 0 notes.txt"] {
            stage.haft(&["call", "bash", script]).ok();
        }
        let ran = stage.haft(&["undo", "last"]);
        assert_eq!(ran.code, 0, "{hider}: {}", ran.all());
        assert_eq!(stage.read("notes.txt"), "the only copy\n", "{hider}");
        // The control: a command that changes nothing says so, and what is never on record.
        stage.haft(&["call", "bash", "true"]).ok();
        let ran = stage.haft(&["undo", "last"]);
        assert!(
            ran.stderr
                .contains("files that git ignores are not on record"),
            "{}",
            ran.stderr
        );
    }
}

/// What is at a path here is not what is at the same path on another machine.
#[test]
#[ignore = "ci: needs OpenSSH"]
fn a_call_made_here_is_not_found_by_the_same_path_on_another_machine() {
    let stage = Stage::with_config(FREE);
    write(&stage, "a", "mine\n");
    let ssh = format!(
        "[ssh]\ndestination = \"nobody@127.0.0.1\"\nroot = \"{}\"\nport = 1\n",
        stage.work.display()
    );
    stage.write("haft.toml", format!("{FREE}{ssh}"));
    stage.haft(&["trust"]).ok();
    let error = stage.haft(&["diff", "last"]).fails(1);
    assert!(error.contains("refuses the connection"), "{error}");
}

/// What a command in the sandbox changes goes back like what a tool changes.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_sed_and_a_generator_did_goes_back() {
    let stage = Stage::with_config("[policy]\nallow = [\"bash\", \"undo\"]\n");
    stage.write("a", "one\ntwo\n");
    stage.write("gone", "away\n");
    let script = "sed -i s/two/2/ a && rm gone && mkdir gen && echo made > gen/x";
    stage
        .haft(&["call", "bash", "--session", "work", script])
        .ok();
    assert_eq!(stage.read("a"), "one\n2\n");
    let diff = stage.haft(&["diff", "--session", "work"]).ok();
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    stage.haft(&["undo", "--session", "work"]).ok();
    assert_eq!(stage.read("a"), "one\ntwo\n");
    assert_eq!(stage.read("gone"), "away\n");
    assert!(!stage.exists("gen/x"));
}

#[test]
fn a_rule_may_speak_of_undo() {
    let stage = Stage::with_config("[policy]\nallow = [\"undo\", \"write\"]\n");
    write(&stage, "a", "mine\n");
    stage.haft(&["undo", "last"]).ok();
    assert!(!stage.exists("a"));
    // Agents are not offered it.
    let ran = stage.haft(&["call", "undo", "{\"calls\": [], \"paths\": []}"]);
    assert_eq!(ran.code, 10, "{}", ran.all());
}
