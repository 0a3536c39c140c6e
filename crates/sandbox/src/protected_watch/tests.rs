//! Tests the watch on a real directory.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::Instant,
};

use super::*;
use crate::{jail::Mounts, linked_trees::MAX_TREES};

struct TestWorkspace {
    root: tempfile::TempDir,
    jail: Arc<Jail>,
    kept: tempfile::TempDir,
    quarantine: Arc<Quarantine>,
}

fn place() -> TestWorkspace {
    let root = tempfile::tempdir().expect("a directory");
    let kept = tempfile::tempdir().expect("a directory");
    let jail = Arc::new(Jail::open(root.path(), Mounts::Refuse).expect("opened"));
    let quarantine = Arc::new(Quarantine::open(&kept.path().join("q")).expect("opened"));
    TestWorkspace {
        root,
        jail,
        kept,
        quarantine,
    }
}

impl TestWorkspace {
    fn begin(&self) -> ProtectedWatch {
        ProtectedWatch::begin(&self.jail, &self.quarantine, None).expect("watching")
    }

    fn write(&self, path: &str) {
        self.put(path, "x");
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// A linked tree `trees/fix`, as git makes it.
    fn add_linked_tree(&self) {
        let root = self.jail.shown();
        let gitdir = format!("{root}/trees/fix/.git\n");
        self.put(".git/worktrees/fix/gitdir", &gitdir);
        self.put(".git/worktrees/fix/commondir", "../..\n");
        let link = format!("gitdir: {root}/.git/worktrees/fix\n");
        self.put("trees/fix/.git", &link);
    }

    /// Makes a file under another name first and then renames the top of its path, so that the
    /// watch cannot act before it is complete.
    fn appear(&self, path: &str, mode: u32) {
        let top = path.split('/').next().expect("a name");
        self.write(&path.replacen(top, "stage", 1));
        let staged = self.root.path().join("stage");
        fs::set_permissions(&staged, fs::Permissions::from_mode(mode)).expect("set");
        let at = self.root.path().join(top);
        // What is left of an earlier one after the watch took its file.
        let _ = fs::remove_dir_all(&at);
        fs::rename(staged, at).expect("renamed");
    }

    fn has(&self, path: &str) -> bool {
        self.root.path().join(path).symlink_metadata().is_ok()
    }

    fn entries(&self) -> Vec<String> {
        listed(self.root.path())
    }

    fn kept(&self) -> Vec<String> {
        listed(&self.kept.path().join("q"))
    }
}

fn listed(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .expect("listed")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

fn whats(refusals: &[Refusal]) -> Vec<&str> {
    let mut whats: Vec<&str> = refusals.iter().map(|refusal| &*refusal.what).collect();
    whats.sort_unstable();
    whats
}

/// Whatever appears is gone when the command has ended, and the refusal says so.
fn check(make: impl Fn(&TestWorkspace), gone: &[&str], expect: &[&str]) {
    let place = place();
    let watch = place.begin();
    make(&place);
    let refusals = watch.finish();
    for path in gone {
        assert!(!place.has(path), "{path} is still there");
    }
    assert_eq!(whats(&refusals), expect);
    assert!(
        refusals
            .iter()
            .all(|refusal| refusal.layer == Layer::Protected)
    );
    let renamed = |name: &String| name.starts_with("haft-quarantined-");
    let kept = place.kept().len() + place.entries().into_iter().filter(renamed).count();
    assert_eq!(kept, expect.len());
}

#[test]
fn every_protected_name_is_moved_away() {
    for guarded in GUARDED
        .iter()
        .filter(|guarded| !guarded.path.starts_with(".git/"))
    {
        let what = format!("create {}", guarded.path);
        check(
            |place| place.appear(&guarded.path, 0o700),
            &[&guarded.path],
            &[&what],
        );
        check(
            |place| place.appear(&format!("{}/inside", guarded.path), 0o700),
            &[&guarded.path],
            &[&what],
        );
    }
}

#[test]
fn ordinary_files_stay() {
    let make = |place: &TestWorkspace| {
        place.write("src/main.rs");
        place.write(".gitignore");
        place.write(".config/nextest.toml");
        place.write("sub/.envrc");
        place.write("HEAD");
        place.write("config");
    };
    check(make, &[], &[]);
}

#[test]
fn what_was_there_before_stays_and_can_be_changed_by_those_who_may() {
    let place = place();
    place.write(".envrc");
    place.write(".config/git/config");
    let watch = place.begin();
    fs::remove_file(place.root.path().join(".envrc")).expect("removed");
    place.write(".envrc");
    place.write(".config/git/attributes");
    assert_eq!(watch.finish(), []);
    assert!(place.has(".envrc") && place.has(".config/git/attributes"));
}

#[test]
fn a_link_is_moved_and_never_followed() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::create_dir(outside.path().join("git")).expect("made");
    let make = |place: &TestWorkspace| {
        symlink(outside.path(), place.root.path().join(".config")).expect("linked");
        symlink(outside.path(), place.root.path().join(".ssh")).expect("linked");
    };
    check(
        make,
        &[".config", ".ssh"],
        &["create .config", "create .ssh"],
    );
    assert!(outside.path().join("git").is_dir());
}

#[test]
fn a_closed_directory_hides_nothing() {
    let make = |place: &TestWorkspace| {
        place.appear(".config/git/config", 0o000);
    };
    check(make, &[".config"], &["create .config"]);
}

#[test]
fn in_a_git_directory_only_what_git_obeys_is_moved() {
    let place = place();
    for path in [".git/HEAD", ".git/config", ".git/objects/x", ".git/refs/x"] {
        place.write(path);
    }
    let watch = place.begin();
    for path in [
        ".git/config.worktree",
        ".git/commondir",
        ".git/hooks",
        ".git/index",
        ".git/COMMIT_EDITMSG",
        ".git/logs/HEAD",
        ".git/objects/ab/cd",
        ".git/remotes",
        ".git/refs/remotes/origin/main",
    ] {
        place.write(path);
    }
    let refusals = watch.finish();
    let expect = [
        "create .git/commondir",
        "create .git/config.worktree",
        "create .git/hooks",
        "create .git/remotes",
    ];
    assert_eq!(whats(&refusals), expect);
    assert!(place.has(".git/config") && place.has(".git/index") && place.has(".git/logs/HEAD"));
}

/// A rebase may be in progress; what it would run when it continues is moved away (SB-39).
#[test]
fn what_git_would_run_when_an_operation_goes_on_is_moved() {
    let place = place();
    for path in [".git/HEAD", ".git/config"] {
        place.write(path);
    }
    let list = |path: &str, text: &str| {
        let path = place.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let watch = place.begin();
    list(".git/rebase-merge/git-rebase-todo", "pick 1 a\n");
    list(".git/rebase-merge/strategy", "ort\n");
    assert_eq!(whats(&watch.finish()), [] as [&str; 0]);
    let watch = place.begin();
    list(
        ".git/rebase-merge/git-rebase-todo",
        "pick 1 a\nexec touch evil\n",
    );
    list(".git/sequencer/todo", "x touch evil\n");
    list(".git/rebase-merge/strategy", "evil\n");
    let expect = [
        "create .git/rebase-merge/git-rebase-todo",
        "create .git/rebase-merge/strategy",
        "create .git/sequencer/todo",
    ];
    let refusals = watch.finish();
    let mut told = whats(&refusals);
    told.sort_unstable();
    assert_eq!(told, expect);
    // What a person left there stays.
    list(".git/sequencer/todo", "x make\n");
    assert_eq!(whats(&place.begin().finish()), [] as [&str; 0]);
    assert!(place.has(".git/sequencer/todo"));
}

#[test]
fn a_flood_of_linked_trees_hides_none_and_is_moved_away() {
    let place = place();
    place.add_linked_tree();
    let watch = place.begin();
    let too_many = 100;
    for number in 0..MAX_TREES - 1 + too_many {
        // Not empty, so that none can simply be deleted, and with no room for a longer name.
        let name = format!("{number:0>250}");
        place.put(&format!(".git/worktrees/{name}/commondir"), "../..\n");
    }
    place.put(".git/worktrees/fix/commondir", "../../../evil\n");
    let refusals = watch.finish();
    let expect = "create .git/worktrees/fix/commondir";
    assert!(whats(&refusals).contains(&expect), "{refusals:?}");
    assert!(!place.has(".git/worktrees/fix/commondir"));
    assert!(place.has("trees/fix/.git"));
    let left = listed(&place.root.path().join(".git/worktrees"));
    assert_eq!(left.len(), MAX_TREES);
    assert!(left.iter().any(|name| name == "fix"));
    let in_git = listed(&place.root.path().join(".git"));
    let renamed = |name: &&String| name.starts_with("haft-quarantined-");
    let kept = place.kept().len() + in_git.iter().filter(renamed).count();
    assert_eq!(kept, too_many + 1);
    // What was moved away is in nobody's way.
    assert_eq!(place.begin().finish(), []);
}

#[test]
fn more_linked_trees_than_are_read_are_not_watched_at_all() {
    let place = place();
    for number in 0..=MAX_TREES {
        let tree = place.root.path().join(format!(".git/worktrees/{number}"));
        fs::create_dir_all(tree).expect("made");
    }
    let error = ProtectedWatch::begin(&place.jail, &place.quarantine, None).err();
    assert!(matches!(error, Some(WatchError::TooManyTrees)), "{error:?}");
}

#[test]
fn a_directory_in_place_of_the_link_of_a_tree_is_moved_away() {
    let place = place();
    place.add_linked_tree();
    let watch = place.begin();
    place.write("stage/config");
    let link = place.root.path().join("trees/fix/.git");
    fs::remove_file(&link).expect("removed");
    fs::rename(place.root.path().join("stage"), &link).expect("renamed");
    assert_eq!(whats(&watch.finish()), ["create trees/fix/.git"]);
    assert!(!place.has("trees/fix/.git"));
}

/// What somebody made in another way is left to them, but a command cannot change it.
#[test]
fn a_link_that_git_did_not_write_stays_as_it_was() {
    let place = place();
    place.add_linked_tree();
    let text = format!("gitdir: {}/.git/worktrees/fix/\n", place.jail.shown());
    place.put("trees/fix/.git", &text);
    assert_eq!(place.begin().finish(), []);
    assert!(place.has("trees/fix/.git"));
    let watch = place.begin();
    place.put("trees/fix/.git", "gitdir: ../../evil\n");
    assert_eq!(whats(&watch.finish()), ["create trees/fix/.git"]);
    assert!(!place.has("trees/fix/.git"));
}

#[test]
fn a_root_that_becomes_a_bare_repository_loses_its_head() {
    let make = |place: &TestWorkspace| {
        for path in ["config", "objects/x", "refs/x", "HEAD"] {
            place.write(path);
        }
    };
    check(make, &["HEAD"], &["create HEAD"]);
}

#[test]
fn it_is_away_long_before_the_command_ends() {
    let place = place();
    let watch = place.begin();
    for path in [
        ".envrc",
        ".config/fish/config.fish",
        ".git/hooks/pre-commit",
    ] {
        place.appear(path, 0o700);
        let began = Instant::now();
        while place.has(path) {
            assert!(
                began.elapsed() < haft_testkit::PATIENCE,
                "{path} is still there"
            );
            thread::yield_now();
        }
    }
    drop(watch);
}

#[test]
fn two_commands_side_by_side_share_what_was_there_before() {
    let place = place();
    let first = place.begin();
    place.write(".npmrc");
    // Whether it is moved before or after this one begins, this one does not treat it as old.
    let second = place.begin();
    place.write(".envrc");
    let (second, first) = (second.finish(), first.finish());
    assert!(whats(&second).contains(&"create .envrc"));
    assert_eq!(whats(&first).len(), 2);
    assert!(!place.has(".npmrc") && !place.has(".envrc"));
    // With no command running, a person may make anything, and the next command leaves it alone.
    place.write(".envrc");
    assert_eq!(place.begin().finish(), []);
    assert!(place.has(".envrc"));
}

#[test]
fn without_a_directory_of_its_own_it_is_renamed_where_it_was() {
    let place = place();
    let watch = ProtectedWatch::begin(&place.jail, &Arc::default(), None).expect("watching");
    place.write(".envrc");
    let refusals = watch.finish();
    let [name] = place.entries().try_into().expect("one entry");
    assert!(name.starts_with("haft-quarantined-envrc-"), "{name}");
    assert!(refusals[0].why.contains(&name));
}

#[test]
fn a_flood_is_bounded() {
    let place = place();
    let watch = place.begin();
    for _ in 0..200 {
        place.write(".envrc");
        watch.shared.sweep();
    }
    assert_eq!(watch.finish().len(), MAX_MOVED);
    assert_eq!(place.kept().len(), MAX_MOVED);
    assert_eq!(place.entries(), [""; 0]);
}

#[test]
fn a_quarantine_that_others_can_reach_is_not_used() {
    let base = tempfile::tempdir().expect("a directory");
    let open = base.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("opened");
    assert_eq!(Quarantine::open(&open).err(), Some(Errno::PERM));
    let link = base.path().join("link");
    symlink(base.path(), &link).expect("linked");
    assert_eq!(Quarantine::open(&link).err(), Some(Errno::NOTDIR));
}
