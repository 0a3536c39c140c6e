//! What ignore files leave out of a comparison: only what git confirms, and never what is on record
//! already. An agent that writes ignore files hides nothing by it.

use crate::changes::{Watched, check, shell};

/// A workspace with a repository whose index has these files.
fn repository(watched: &Watched, tracked: &str) {
    shell(
        &watched.ws.root,
        &format!("git init -q && git add -f {tracked}"),
    );
}

/// Ignored files are neither read nor reported, at any depth; `.git` never is.
#[tokio::test]
async fn what_is_ignored_is_not_captured() {
    let watched = Watched::limited(|options| options.ignore = vec!["*.log".to_owned()]);
    let ws = &watched.ws;
    ws.put(".gitignore", "made/\n");
    ws.put("sub/.gitignore", "*.o\n!keep.o\n");
    repository(&watched, ".gitignore sub/.gitignore");
    for path in ["made/x", "sub/a.o", ".git/config", "sub/run.log"] {
        ws.put(path, "ignored");
    }
    ws.put("sub/keep.o", "kept");
    let changes = watched
        .command(
            "for f in made/x sub/a.o .git/config sub/run.log sub/keep.o a.o; do \
             printf changed > $f; done",
        )
        .await;
    assert_eq!(
        watched.lines(&changes).await,
        ["a.o: nothing -> changed", "sub/keep.o: kept -> changed"]
    );
    assert_eq!(changes.missed, None);
    assert_eq!(changes.looked_at, 4, "nothing ignored was looked at");
}

/// A command that rewrites ignore files neither hides what it changes nor makes ignored files look
/// as if it had made them, which would let undo remove them.
#[tokio::test]
async fn a_command_cannot_change_what_is_ignored_for_itself() {
    let watched = Watched::new();
    watched.ws.put(".gitignore", "made/\n");
    repository(&watched, ".gitignore");
    watched.ws.put("made/built", "ignored");
    watched.ws.put("f", "one");
    check(
        &watched,
        "printf '*' > .gitignore; printf two > f; printf new > n",
        &[
            ".gitignore: made/\n -> *",
            "f: one -> two",
            "n: nothing -> new",
        ],
    )
    .await;
    let watched = Watched::new();
    watched.ws.put(".gitignore", "made/\n");
    repository(&watched, ".gitignore");
    watched.ws.put("made/built", "ignored");
    check(
        &watched,
        "rm .gitignore",
        &[".gitignore: made/\n -> nothing"],
    )
    .await;
    // In a build directory that the command makes, its own ignore files count, and that is said.
    let changes = watched
        .command("mkdir venv; printf '*' > venv/.gitignore; printf x > venv/x")
        .await;
    assert_eq!(watched.lines(&changes).await, [""; 0]);
    let missed = changes.missed.unwrap();
    assert!(missed.contains("`venv/.gitignore`, `venv/x`"), "{missed}");
    // The control: elsewhere they do not.
    let changes = watched
        .command("mkdir own; printf '*' > own/.gitignore; printf x > own/x")
        .await;
    assert_eq!(
        watched.lines(&changes).await,
        ["own/.gitignore: nothing -> *", "own/x: nothing -> x"]
    );
}

/// One call writes an ignore file, the next one destroys the only copy of a file.
#[tokio::test]
async fn an_ignore_file_that_an_agent_writes_hides_nothing() {
    let hiders = [
        "printf '*\n' > .ignore",
        "printf '*\n' > .rgignore",
        "printf '*\n' > .gitignore",
        "printf 'notes.txt\n' >> kept/.gitignore",
        "printf '*\n' > .git/info/exclude",
        // Git has this one, but what was on record stays on record.
        "printf '*\n' > .gitignore; git add -f .gitignore",
        "printf '*\n' > .gitignore; git add -f .gitignore; \
         git -c user.name=a -c user.email=a@example.org commit -qm hide",
    ];
    for hider in hiders {
        let watched = Watched::new();
        watched.ws.put("kept/.gitignore", "*.log\n");
        watched.ws.put("tracked", "one");
        repository(&watched, "kept/.gitignore tracked");
        watched.ws.put("notes.txt", "only copy");
        watched.ws.put("kept/notes.txt", "another");
        watched.command(hider).await;
        check(
            &watched,
            "truncate -s 0 notes.txt; rm kept/notes.txt; printf two > tracked",
            &[
                "kept/notes.txt: another -> nothing",
                "notes.txt: only copy -> ",
                "tracked: one -> two",
            ],
        )
        .await;
    }
    // The control: an ignore file that git has and that was there first counts.
    let watched = Watched::new();
    watched.ws.put(".gitignore", "notes.txt\n");
    repository(&watched, ".gitignore");
    watched.ws.put("notes.txt", "ignored");
    check(&watched, "truncate -s 0 notes.txt", &[]).await;
}

/// What a person makes after an agent wrote an ignore file is on record as well.
#[tokio::test]
async fn an_unconfirmed_ignore_file_hides_no_new_file() {
    let watched = Watched::new();
    watched.ws.put("a", "a");
    repository(&watched, "a");
    watched.command("printf '*\n' > .gitignore").await;
    watched.ws.put("later.txt", "the person's");
    check(
        &watched,
        "rm later.txt",
        &["later.txt: the person's -> nothing"],
    )
    .await;
}

/// What git tracks is compared even where a confirmed rule leaves out everything around it.
#[tokio::test]
async fn what_git_tracks_is_always_compared() {
    let watched = Watched::new();
    watched
        .ws
        .put(".gitignore", "*.gen\nmade/\nnode_modules/\n");
    for path in [
        "a.gen",
        "made/deep/x",
        "node_modules/patched",
        "made/y",
        "b.gen",
    ] {
        watched.ws.put(path, "one");
    }
    repository(
        &watched,
        ".gitignore a.gen made/deep/x node_modules/patched",
    );
    for expect in [["one", "two"], ["two", "three"]] {
        let script = format!(
            "for f in a.gen b.gen made/deep/x made/y node_modules/patched; do printf {} > $f; done",
            expect[1]
        );
        let change = |path: &str| format!("{path}: {} -> {}", expect[0], expect[1]);
        let expect = ["a.gen", "made/deep/x", "node_modules/patched"].map(change);
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check(&watched, &script, &expect).await;
    }
    // New files beside them may have been there before, so they are none of the command's.
    check(&watched, "printf new > made/deep/z", &[]).await;
    check(&watched, "rm -r made", &["made/deep/x: three -> nothing"]).await;
}

/// An ignore file that nobody confirms still keeps a look out of what builds make.
#[tokio::test]
async fn build_directories_are_not_walked() {
    let watched = Watched::new();
    watched
        .ws
        .put(".gitignore", "node_modules\ntarget/\nsecret.txt\ndata/\n");
    for n in 0..50 {
        watched.ws.put(&format!("node_modules/p{n}/index.js"), "x");
        watched.ws.put(&format!("sub/target/{n}"), "x");
    }
    watched.ws.put("secret.txt", "one");
    watched.ws.put("data/x", "one");
    let changes = watched
        .command("printf two | tee secret.txt data/x node_modules/p1/index.js sub/target/1")
        .await;
    assert_eq!(
        watched.lines(&changes).await,
        ["data/x: one -> two", "secret.txt: one -> two"]
    );
    assert_eq!(changes.looked_at, 3);
    // The control: without the ignore file they are looked at, and no longer once it is back.
    let ignored = watched.command("rm .gitignore").await;
    assert_eq!(ignored.looked_at, 2);
    let all = watched.command("true").await;
    assert_eq!(all.looked_at, 102);
    watched
        .command("printf 'node_modules\ntarget\n' > .gitignore")
        .await;
    let again = watched.command("true").await;
    assert_eq!(again.looked_at, 3);
}

/// Settings leave out what ignore files cannot, also what git tracks or what was compared before.
#[tokio::test]
async fn settings_leave_out_what_git_tracks() {
    let watched = Watched::limited(|options| options.ignore = vec!["data".to_owned()]);
    watched.ws.put("data/x", "one");
    watched.ws.put("f", "one");
    repository(&watched, "data/x f");
    check(&watched, "printf two | tee data/x > f", &["f: one -> two"]).await;
}
