//! What a command changed in the workspace, found by looking before and after: what is captured,
//! what is named as not captured, and that nothing a command does makes it hang, leave the
//! workspace or lie.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_backends::{ChangeOptions, LocalOptions};
use haft_contract::{
    BoxFuture,
    host::{ArtifactId, ArtifactStore, LedgerError, ReadArtifact, WriteArtifact},
    ops::{ChangeScan, ChangedFile, Changes, KeptVersion, WorkspaceChanges},
};
use haft_testkit::ledger::MemoryArtifacts;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, at};

/// A workspace whose commands are watched.
pub(crate) struct Watched {
    pub(crate) ws: Workspace,
    place: PathBuf,
    store: MemoryArtifacts,
    _place: tempfile::TempDir,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self::limited(|_| {})
    }

    pub(crate) fn limited(limit: impl Fn(&mut ChangeOptions)) -> Self {
        Self::within(tempfile::tempdir().unwrap(), limit)
    }

    fn within(workspace: tempfile::TempDir, limit: impl Fn(&mut ChangeOptions)) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("data");
        let mut options = ChangeOptions::new(&place);
        // The machine may be busy; what is limited is said in the test.
        options.max_time = Duration::from_mins(1);
        limit(&mut options);
        let options = LocalOptions {
            changes: Some(options),
            ..LocalOptions::default()
        };
        Self {
            ws: Workspace::with(workspace, options),
            place,
            store: MemoryArtifacts::default(),
            _place: temp,
        }
    }

    /// The same workspace in another process: nothing is remembered but what is on the disk.
    fn reopened(&self) -> Arc<dyn WorkspaceChanges> {
        let mut options = ChangeOptions::new(&self.place);
        options.max_time = Duration::from_mins(1);
        let options = LocalOptions {
            changes: Some(options),
            ..LocalOptions::default()
        };
        let backend = haft_backends::LocalBackend::open(&self.ws.root, options).unwrap();
        backend.operations().changes.unwrap()
    }

    async fn begin(&self) -> Box<dyn ChangeScan> {
        let changes = self.ws.backend.operations().changes.unwrap();
        begin(&*changes, &self.store).await
    }

    /// What is found when this happens between the two looks.
    async fn during(&self, work: impl FnOnce(&Path)) -> Changes {
        let scan = self.begin().await;
        work(&self.ws.root);
        scan.finish().await.unwrap()
    }

    /// What a command is found to change.
    pub(crate) async fn command(&self, script: &str) -> Changes {
        self.during(|root| shell(root, script)).await
    }

    pub(crate) async fn text(&self, id: ArtifactId) -> String {
        let artifact = self.store.open(id).await.unwrap();
        let bytes = artifact.read_at(0, 1 << 20).await.unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The changes as lines: path, what it held, what it holds.
    pub(crate) async fn lines(&self, changes: &Changes) -> Vec<String> {
        let mut lines = Vec::new();
        for ChangedFile {
            path,
            before,
            after,
        } in &changes.files
        {
            let (before, after) = (
                self.held(before.as_ref()).await,
                self.held(after.as_ref()).await,
            );
            lines.push(format!("{path}: {before} -> {after}"));
        }
        lines
    }

    async fn held(&self, version: Option<&KeptVersion>) -> String {
        match version {
            None => "nothing".to_owned(),
            Some(KeptVersion { artifact: None, .. }) => "not kept".to_owned(),
            Some(KeptVersion {
                artifact: Some(id), ..
            }) => self.text(*id).await,
        }
    }
}

async fn begin(changes: &dyn WorkspaceChanges, store: &MemoryArtifacts) -> Box<dyn ChangeScan> {
    let store = Arc::new(store.clone());
    changes
        .begin(store, CancellationToken::new())
        .await
        .unwrap()
}

pub(crate) fn shell(root: &Path, script: &str) {
    let status = Command::new("/bin/bash")
        .args(["-ec", script])
        .current_dir(root)
        .status();
    assert!(status.unwrap().success(), "{script}");
}

/// Runs a script between the looks and holds what is found against what is expected.
pub(crate) async fn check(watched: &Watched, script: &str, expect: &[&str]) {
    let changes = watched.command(script).await;
    assert_eq!(
        watched.lines(&changes).await,
        expect,
        "{script}: {changes:?}"
    );
    assert_eq!(changes.missed, None, "{script}");
}

/// Every sort of change, with what the file held before, in one workspace after the other: what
/// one command left is what the next one finds.
#[tokio::test]
async fn changes_of_commands_are_captured_with_what_was_there() {
    let watched = Watched::new();
    watched.ws.put("a.txt", "one");
    watched.ws.put("src/b.txt", "two");
    check(&watched, "true", &[]).await;
    check(&watched, "sed -i s/one/ONE/ a.txt", &["a.txt: one -> ONE"]).await;
    check(
        &watched,
        "printf three > a.txt; mkdir -p gen/deep; printf new > gen/deep/c",
        &["a.txt: ONE -> three", "gen/deep/c: nothing -> new"],
    )
    .await;
    check(&watched, "rm -r src", &["src/b.txt: two -> nothing"]).await;
    check(
        &watched,
        "mv gen/deep/c moved",
        &["gen/deep/c: new -> nothing", "moved: nothing -> new"],
    )
    .await;
    check(&watched, "touch a.txt; cp moved x; mv x moved", &[]).await;
    check(
        &watched,
        "rm a.txt; mkdir a.txt; printf in > a.txt/in",
        &["a.txt: three -> nothing", "a.txt/in: nothing -> in"],
    )
    .await;
    check(&watched, "printf made > x; rm x", &[]).await;
}

/// The versions are those that file operations give, so that undo can tell later changes.
#[tokio::test]
async fn versions_are_those_of_file_operations() {
    let watched = Watched::new();
    watched.ws.put("f", "one");
    let before = watched.ws.stat("f").await.unwrap().version;
    let changes = watched.command("printf two > f").await;
    let [change] = changes.files.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(change.path, at("f"));
    assert_eq!(change.before.as_ref().unwrap().version, before);
    let after = watched.ws.stat("f").await.unwrap().version;
    assert_eq!(change.after.as_ref().unwrap().version, after);
    assert_eq!(changes.looked_at, 1);
}

/// Times a program can set do not hide a change, nor does one of the same size.
#[tokio::test]
async fn a_change_with_its_times_put_back_is_captured() {
    let watched = Watched::new();
    watched.ws.put("f", "one");
    check(
        &watched,
        "touch -r f ref; printf two > f; touch -r ref f; rm ref",
        &["f: one -> two"],
    )
    .await;
    // Right after it was kept, within one tick of a clock.
    for n in 0..50 {
        let text = format!("{n:03}");
        let changes = watched
            .during(|root| fs::write(root.join("f"), &text).unwrap())
            .await;
        let lines = watched.lines(&changes).await;
        assert!(lines[0].ends_with(&format!("-> {text}")), "{lines:?}");
    }
}

/// Permissions and symlinks are not captured, and that is said; nothing is claimed to be a file.
#[tokio::test]
async fn what_is_not_captured_is_named() {
    let watched = Watched::new();
    for name in ["mode", "linked", "target"] {
        watched.ws.put(name, name);
    }
    shell(&watched.ws.root, "ln -s target old; ln -s target kept");
    let changes = watched
        .command(
            "chmod +x mode; ln -sfn mode old; mkfifo pipe; rm linked; ln -s /etc/passwd linked; \
             ln -sfn target kept",
        )
        .await;
    assert_eq!(watched.lines(&changes).await, ["linked: linked -> nothing"]);
    assert_eq!(
        changes.missed.unwrap(),
        "symlinks changed, which are not captured (2: `linked`, `old`); FIFOs, sockets or devices \
         changed, which are not captured (1: `pipe`); permissions changed, which are not captured \
         (1: `mode`)"
    );
    // Benign twin: what is there and does not change is not mentioned.
    check(&watched, "cat target", &[]).await;
    let changes = watched.command("rm pipe old; printf file > old").await;
    assert_eq!(watched.lines(&changes).await, ["old: nothing -> file"]);
    assert!(changes.missed.unwrap().contains("`old`"));
}

/// Every bound that is hit is said, and never makes something look new that may be old.
#[tokio::test]
async fn a_bound_that_is_hit_is_said() {
    // A large file: its change is told, without what it held.
    let watched = Watched::limited(|options| options.max_file_bytes = 10);
    watched.ws.put("large", "0123456789abcdef");
    check(&watched, "true", &[]).await;
    let changes = watched.command("printf x >> large").await;
    assert_eq!(
        watched.lines(&changes).await,
        ["large: not kept -> not kept"]
    );
    let missed = changes.missed.unwrap();
    assert!(missed.contains(
        "the earlier content of changed files is not kept: they are too large (1: `large`)"
    ));

    let watched = Watched::limited(|options| options.max_bytes = 25);
    for name in ["a", "b", "c"] {
        watched.ws.put(name, "0123456789");
    }
    let changes = watched.command("rm a b c").await;
    let missed = changes.missed.unwrap();
    let unkept = changes.files.iter().filter(|file| {
        let before = file.before.as_ref().unwrap();
        before.artifact.is_none()
    });
    assert_eq!((changes.files.len(), unkept.count()), (3, 1));
    assert!(
        missed.contains("all files together are too large (1: "),
        "{missed}"
    );

    let watched = Watched::limited(|options| options.max_files = 100);
    for n in 0..300 {
        watched.ws.put(&format!("d{}/f{n}", n % 30), "x");
    }
    // Without the first directories, the same number of files reaches others.
    let changes = watched
        .command("rm -r d0 d1; for f in */*; do printf y > $f; done")
        .await;
    let missed = changes.missed.unwrap();
    assert!(missed.contains("more than 100 files"), "{missed}");
    assert!(missed.contains("not looked at before"), "{missed}");
    assert!(changes.files.len() <= 100);
    assert!(changes.files.iter().all(|file| file.before.is_some()));

    let watched = Watched::limited(|options| options.max_time = Duration::ZERO);
    watched.ws.put("f", "one");
    let changes = watched.command("printf two > f").await;
    assert_eq!(watched.lines(&changes).await, ["f: not kept -> not kept"]);
    let missed = changes.missed.unwrap();
    assert!(missed.contains("takes too long"), "{missed}");
}

/// Names that are not text, control characters, and files nobody may read.
#[tokio::test]
async fn odd_names_and_unreadable_files_are_told() {
    let watched = Watched::new();
    watched.ws.put("secret", "secret");
    watched.ws.put("closed/f", "f");
    let mode = |path: &str, mode: u32| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(watched.ws.root.join(path), permissions).unwrap();
    };
    mode("secret", 0o000);
    let odd = OsStr::from_bytes(b"odd\xff\n");
    let changes = watched
        .during(|root| {
            fs::write(root.join(odd), "x").unwrap();
            fs::write(root.join("new\nline"), "x").unwrap();
            fs::remove_file(root.join("secret")).unwrap();
            mode("closed", 0o000);
        })
        .await;
    mode("closed", 0o755);
    assert_eq!(
        watched.lines(&changes).await,
        ["new\nline: nothing -> x", "secret: not kept -> nothing"]
    );
    let missed = changes.missed.unwrap();
    for part in [
        "names are not text, or too long (1: `odd\\xff\\n`)",
        "they cannot be read (1: `secret`)",
        "directories cannot be read",
        "`closed`",
    ] {
        assert!(missed.contains(part), "{part} in {missed}");
    }
}

/// A hard link within the workspace changes under both names.
#[tokio::test]
async fn hard_links_change_under_every_name() {
    let watched = Watched::new();
    watched.ws.put("a", "one");
    shell(&watched.ws.root, "ln a b");
    check(
        &watched,
        "printf two > b",
        &["a: one -> two", "b: one -> two"],
    )
    .await;
    check(&watched, "ln a c", &["c: nothing -> two"]).await;
}

/// Another process finds what this one kept, and one whose index is damaged, cut short or of
/// another form starts over: nothing is wrong, only slower.
#[tokio::test]
async fn the_index_is_remembered_and_never_trusted() {
    let watched = Watched::new();
    watched.ws.put("a", "one");
    watched.ws.put("b", "other");
    // Once more, so that nothing is left that changed a moment ago.
    for _ in 0..2 {
        check(&watched, "sleep 0.05", &[]).await;
    }
    let index = || {
        let mut found = fs::read_dir(watched.place.join("changes")).unwrap();
        let path = found.next().unwrap().unwrap().path();
        assert!(found.next().is_none(), "nothing is left aside");
        path
    };
    let whole = fs::read(index()).unwrap();
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    let mut other_form = whole.clone();
    other_form[11] = 99;
    let cases = [
        whole.clone(),
        damaged,
        whole[..40].to_vec(),
        Vec::new(),
        other_form,
    ];
    for (number, bytes) in cases.into_iter().enumerate() {
        fs::write(index(), &bytes).unwrap();
        let changes = watched.reopened();
        let text = format!("{number}");
        let scan = begin(&*changes, &watched.store).await;
        fs::write(watched.ws.root.join("a"), &text).unwrap();
        let found = scan.finish().await.unwrap();
        let lines = watched.lines(&found).await;
        assert_eq!(lines.len(), 1, "{number}: {lines:?}");
        assert!(lines[0].ends_with(&format!("-> {text}")), "{lines:?}");
        assert!(!lines[0].contains("not kept"), "{lines:?}");
    }
}

/// A store that counts what it is given.
#[derive(Default)]
struct Counting {
    store: MemoryArtifacts,
    given: AtomicUsize,
}

impl ArtifactStore for Counting {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        self.given.fetch_add(1, Ordering::SeqCst);
        self.store.create()
    }

    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        self.store.open(id)
    }
}

/// A file is read once, by whichever process, and then only when its state is another.
#[tokio::test]
async fn what_is_known_is_not_read_again() {
    let watched = Watched::new();
    for n in 0..20 {
        watched.ws.put(&format!("d/f{n}"), &format!("{n}"));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let store = Arc::new(Counting::default());
    let given = || store.given.swap(0, Ordering::SeqCst);
    for expect in [20, 0, 0] {
        let changes = watched.reopened();
        let keep = Arc::clone(&store) as Arc<dyn ArtifactStore>;
        let scan = changes.begin(keep, CancellationToken::new()).await.unwrap();
        assert_eq!(given(), expect, "before");
        let found = scan.finish().await.unwrap();
        assert_eq!((found.files.len(), given()), (0, 0), "after");
    }
    let changes = watched.reopened();
    let keep = Arc::clone(&store) as Arc<dyn ArtifactStore>;
    let scan = changes.begin(keep, CancellationToken::new()).await.unwrap();
    shell(&watched.ws.root, "printf x > d/f3");
    let found = scan.finish().await.unwrap();
    assert_eq!((found.files.len(), given()), (1, 1));
}

/// The store lost what it had: it is kept again before the next command, and where that is too
/// late it is said.
#[tokio::test]
async fn content_that_expired_is_kept_again() {
    let watched = Watched::new();
    watched.ws.put("a", "one");
    check(&watched, "sleep 0.05", &[]).await;
    check(&watched, "true", &[]).await;
    let empty = MemoryArtifacts::default();
    let changes = watched.ws.backend.operations().changes.unwrap();
    let scan = begin(&*changes, &empty).await;
    assert_eq!(empty.count(), 1, "it was asked for, missed and kept again");
    shell(&watched.ws.root, "printf two > a");
    let found = scan.finish().await.unwrap();
    assert_eq!(found.missed, None);
    assert!(found.files[0].before.as_ref().unwrap().artifact.is_some());
}

/// Two commands at once each see what happened while they ran, and that there were two.
#[tokio::test]
async fn two_commands_at_once_are_told() {
    let watched = Watched::new();
    watched.ws.put("a", "one");
    let first = watched.begin().await;
    let second = watched.begin().await;
    shell(&watched.ws.root, "printf two > a");
    let second = second.finish().await.unwrap();
    shell(&watched.ws.root, "printf new > b");
    let first = first.finish().await.unwrap();
    assert_eq!(watched.lines(&second).await, ["a: one -> two"]);
    assert_eq!(
        watched.lines(&first).await,
        ["a: one -> two", "b: nothing -> new"]
    );
    for changes in [first, second] {
        assert!(changes.missed.unwrap().contains("at the same time"));
    }
    check(&watched, "printf three > a", &["a: two -> three"]).await;
}

/// Several processes share one index: each is right, and the index stays whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_share_an_index_do_not_harm_each_other() {
    let watched = Watched::new();
    for n in 0..100 {
        watched.ws.put(&format!("f{n}"), &format!("{n}"));
    }
    let mut running = Vec::new();
    for worker in 0..4 {
        let (changes, store) = (watched.reopened(), watched.store.clone());
        let root = watched.ws.root.clone();
        running.push(tokio::spawn(async move {
            for round in 0..10 {
                let scan = begin(&*changes, &store).await;
                let text = format!("{worker} {round}");
                fs::write(root.join(format!("w{worker}")), &text).unwrap();
                let found = scan.finish().await.unwrap();
                let own = at(&format!("w{worker}"));
                let own = found.files.iter().find(|file| file.path == own).unwrap();
                let id = own.after.as_ref().unwrap().artifact.unwrap();
                let bytes = store.open(id).await.unwrap().read_at(0, 100).await.unwrap();
                assert_eq!(bytes, text.as_bytes());
            }
        }));
    }
    for worker in running {
        worker.await.unwrap();
    }
    let changes = watched.reopened();
    let found = begin(&*changes, &watched.store)
        .await
        .finish()
        .await
        .unwrap();
    assert_eq!(found.files, []);
}

/// Haft's own files, should they lie in the workspace, are not captured.
#[tokio::test]
async fn hafts_own_files_are_not_captured() {
    let temp = tempfile::tempdir().unwrap();
    let own = temp.path().canonicalize().unwrap().join("ws/.haft");
    let options = LocalOptions {
        changes: Some(ChangeOptions {
            max_time: Duration::from_mins(1),
            ..ChangeOptions::new(&own)
        }),
        ..LocalOptions::default()
    };
    let ws = Workspace::with(temp, options);
    ws.put(".haft/ledger.db", "rows");
    ws.put("f", "one");
    let store = MemoryArtifacts::default();
    let scan = begin(&*ws.backend.operations().changes.unwrap(), &store).await;
    shell(&ws.root, "printf more > .haft/ledger.db; printf two > f");
    let changes = scan.finish().await.unwrap();
    let paths: Vec<_> = changes
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["f"]);
    assert_eq!(changes.missed, None);
}

/// Something else takes the place of files and directories all the while: no hang, nothing from
/// outside is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_swapped_during_a_look_neither_hang_nor_escape() {
    let watched = Watched::new();
    for n in 0..200 {
        watched
            .ws
            .put(&format!("d{}/f{n}", n % 10), &format!("text {n}"));
    }
    let outside = watched.ws.outside.display().to_string();
    let script = format!(
        "end=$((SECONDS+3)); while [ $SECONDS -lt $end ]; do \
         for n in 1 2 3; do f=d$n/f$n; rm -rf $f; ln -s {outside}/secret $f; rm $f; mkfifo $f; \
         rm $f; printf x > $f; mv d9 d8x; ln -s {outside} d9; rm d9; mv d8x d9; done; done"
    );
    let mut child = Command::new("/bin/bash")
        .args(["-c", &script])
        .current_dir(&watched.ws.root)
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        let scan = watched.begin().await;
        let changes = scan.finish().await.unwrap();
        for line in watched.lines(&changes).await {
            assert!(!line.contains(crate::workspace::SECRET), "{line}");
        }
    }
    watched.ws.outside_is_untouched();
    let secret = ArtifactId {
        hash: *blake3::hash(crate::workspace::SECRET.as_bytes()).as_bytes(),
        bytes: crate::workspace::SECRET.len() as u64,
    };
    assert!(watched.store.open(secret).await.is_err(), "it was kept");
}

/// A look that has no time left ends, and says so.
#[tokio::test]
async fn a_look_that_takes_too_long_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let watched = Watched::within(directory, |options| options.max_time = Duration::ZERO);
    watched.ws.put("f", "one");
    let scan = watched.begin().await;
    watched.ws.put("f", "another");
    let missed = scan.finish().await.unwrap().missed.unwrap();
    assert!(missed.contains("takes too long"), "{missed}");
}

/// A command that makes a hundred thousand files: bounded, and what was left out is said.
#[tokio::test]
async fn a_flood_of_files_is_bounded() {
    // In memory, where making them takes a second.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let watched = Watched::within(memory, |options| {
        options.max_files = 20_000;
        options.max_time = haft_testkit::PATIENCE;
    });
    watched.ws.put("f", "one");
    let scan = watched.begin().await;
    for n in 0..100_000 {
        fs::File::create(watched.ws.root.join(format!("{n}"))).unwrap();
    }
    let changes = scan.finish().await.unwrap();
    assert!(changes.files.len() <= 20_000 && changes.files.len() > 1_000);
    let missed = changes.missed.unwrap();
    assert!(missed.contains("more than 20000 files"), "{missed}");
}
