//! Files: the attack groups PE and SL with their benign twins, and the rules of each verb.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    sync::Arc,
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    ErrorKind,
    ops::{CopyFile, Expected, FileKind, FileOps, ListQuery, Overwrite, RemoveScope},
};
use haft_sandbox::jail::Mounts;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, at, refused};

#[tokio::test]
async fn reads_what_was_written() {
    let ws = Workspace::new();
    let written = ws.write("a/b/c.txt", "hello").await.unwrap();
    assert!(written.created);
    assert_eq!(written.bytes, 5);
    assert_eq!(ws.read("a/b/c.txt").await.unwrap(), "hello");
    assert_eq!(ws.stat("a/b/c.txt").await.unwrap().version, written.version);
    let again = ws.write("a/b/c.txt", "bye").await.unwrap();
    assert!(!again.created);
    assert_ne!(again.version, written.version);
    ws.no_leftovers();
}

#[tokio::test]
async fn reads_ranges_without_reading_the_rest() {
    let ws = Workspace::new();
    ws.put("f", "0123456789");
    let file = ws.files.open(&at("f")).await.unwrap();
    let buffer = file.read_at(3, 4, Vec::new()).await.unwrap();
    assert_eq!(buffer, b"3456");
    assert_eq!(file.read_at(8, 100, buffer).await.unwrap(), b"89");
    assert_eq!(file.read_at(10, 100, Vec::new()).await.unwrap(), b"");
    assert_eq!(file.read_at(u64::MAX, 9, Vec::new()).await.unwrap(), b"");
}

/// RX-12: a sparse file of many terabytes and a huge length cost no memory.
#[tokio::test]
async fn rx_12_a_sparse_file_is_capped_by_bytes_read() {
    let ws = Workspace::new();
    let file = fs::File::create(ws.root.join("sparse")).unwrap();
    file.set_len(8 << 40).unwrap();
    let reader = ws.files.open(&at("sparse")).await.unwrap();
    assert_eq!(reader.stat().size, 8 << 40);
    let bytes = reader.read_at(7 << 40, 4096, Vec::new()).await.unwrap();
    assert_eq!(bytes.len(), 4096);
    ws.put("small", "x");
    let small = ws.files.open(&at("small")).await.unwrap();
    let bytes = small.read_at(0, usize::MAX / 4, Vec::new()).await.unwrap();
    assert_eq!(bytes, b"x");
    assert!(bytes.capacity() <= 4 << 20, "{}", bytes.capacity());
    // Copying it takes an instant too: holes stay holes.
    ws.copy("sparse", "copy", Overwrite::Never).await.unwrap();
    assert_eq!(ws.stat("copy").await.unwrap().size, 8 << 40);
}

/// RX-12: a file that grows while it is read.
#[tokio::test]
async fn rx_12_a_growing_file_is_read_on() {
    use std::io::Write as _;
    let ws = Workspace::new();
    ws.put("log", "one");
    let reader = ws.files.open(&at("log")).await.unwrap();
    let mut writer = fs::File::options()
        .append(true)
        .open(ws.root.join("log"))
        .unwrap();
    writer.write_all(b" two").unwrap();
    assert_eq!(reader.read_at(3, 100, Vec::new()).await.unwrap(), b" two");
}

/// SL-01: a symlink to a file outside.
#[tokio::test]
async fn sl_01_a_symlink_to_the_outside_is_refused() {
    let ws = Workspace::new();
    symlink("/etc/passwd", ws.root.join("l")).unwrap();
    symlink("../outside/secret", ws.root.join("r")).unwrap();
    for link in ["l", "r"] {
        refused(ws.resolve(link).await, ErrorKind::OutsideWorkspace);
        refused(ws.read(link).await, ErrorKind::Symlink);
    }
    // Benign twin: a link inside leads to its target.
    ws.put("dir/real", "inside");
    symlink("dir/real", ws.root.join("inside")).unwrap();
    symlink("dir", ws.root.join("d")).unwrap();
    symlink("../d/real", ws.root.join("dir/up")).unwrap();
    for link in ["inside", "d/real", "d/up"] {
        let resolved = ws.resolve(link).await.unwrap();
        assert_eq!(resolved.path.as_str(), "dir/real", "{link}");
        assert_eq!(resolved.stat.unwrap().kind, FileKind::File);
    }
    assert_eq!(ws.stat("inside").await.unwrap().kind, FileKind::Symlink);
}

/// SL-02: a directory that is a symlink to the root of the machine.
#[tokio::test]
async fn sl_02_writing_through_a_directory_symlink_is_refused() {
    let ws = Workspace::new();
    symlink("/", ws.root.join("d")).unwrap();
    symlink("../outside", ws.root.join("o")).unwrap();
    refused(ws.resolve("d/var/x").await, ErrorKind::OutsideWorkspace);
    for path in ["o/x", "o/sub/x"] {
        refused(ws.resolve(path).await, ErrorKind::OutsideWorkspace);
        refused(ws.write(path, "x").await, ErrorKind::Symlink);
        refused(ws.files.append(&at(path), b"x").await, ErrorKind::Symlink);
        refused(ws.files.make_dir(&at(path)).await, ErrorKind::Symlink);
        refused(
            ws.copy("o/secret", "stolen", Overwrite::Never).await,
            ErrorKind::Symlink,
        );
    }
    ws.put("f", "mine");
    refused(
        ws.copy("f", "o/x", Overwrite::Never).await,
        ErrorKind::Symlink,
    );
    let renamed = ws
        .files
        .rename(&at("f"), &at("o/x"), Overwrite::Never)
        .await;
    refused(renamed, ErrorKind::Symlink);
    let renamed = ws
        .files
        .rename(&at("o/secret"), &at("x"), Overwrite::Never)
        .await;
    refused(renamed, ErrorKind::Symlink);
    let removed = ws.files.remove(&at("o/secret"), RemoveScope::File).await;
    refused(removed, ErrorKind::Symlink);
    ws.outside_is_untouched();
}

/// SL-03: a chain of 45 symlinks; its twin of 40 is followed.
#[tokio::test]
async fn sl_03_a_long_chain_of_symlinks_is_refused() {
    let ws = Workspace::new();
    ws.put("0", "end");
    for link in 1..=45 {
        symlink(format!("{}", link - 1), ws.root.join(link.to_string())).unwrap();
    }
    refused(ws.resolve("45").await, ErrorKind::Symlink);
    assert_eq!(ws.resolve("40").await.unwrap().path.as_str(), "0");
    symlink("loop", ws.root.join("loop")).unwrap();
    refused(ws.resolve("loop").await, ErrorKind::Symlink);
}

/// SL-04: writing through a dangling symlink must not create its target.
#[tokio::test]
async fn sl_04_a_dangling_symlink_to_the_outside_creates_nothing() {
    let ws = Workspace::new();
    symlink(ws.outside.join("new"), ws.root.join("absolute")).unwrap();
    symlink("../outside/new", ws.root.join("relative")).unwrap();
    for link in ["absolute", "relative"] {
        refused(ws.resolve(link).await, ErrorKind::OutsideWorkspace);
        refused(ws.write(link, "x").await, ErrorKind::Symlink);
        refused(ws.files.append(&at(link), b"x").await, ErrorKind::Symlink);
    }
    ws.outside_is_untouched();
    // Benign twin: one that dangles inside leads to where the file will be.
    symlink("later/file", ws.root.join("inside")).unwrap();
    let resolved = ws.resolve("inside").await.unwrap();
    assert_eq!(resolved.path.as_str(), "later/file");
    assert_eq!(resolved.stat, None);
}

/// SL-06: no operation makes a hard link, so nothing outside can be linked in or out.
#[tokio::test]
async fn sl_06_a_copy_is_a_new_file_and_not_a_link() {
    use std::os::unix::fs::MetadataExt;
    let ws = Workspace::new();
    ws.put("a", "x");
    ws.copy("a", "b", Overwrite::Never).await.unwrap();
    assert_eq!(fs::metadata(ws.root.join("b")).unwrap().nlink(), 1);
}

/// SL-09: the root itself is swapped for a symlink after it was opened.
#[tokio::test]
async fn sl_09_a_replaced_root_refuses_new_calls_and_keeps_the_held_one() {
    let ws = Workspace::new();
    ws.put("f", "inside");
    let moved = ws.root.with_file_name("moved");
    fs::rename(&ws.root, &moved).unwrap();
    refused(ws.resolve("f").await, ErrorKind::WorkspaceMoved);
    symlink(&ws.outside, &ws.root).unwrap();
    refused(ws.resolve("f").await, ErrorKind::WorkspaceMoved);
    refused(ws.resolve("secret").await, ErrorKind::WorkspaceMoved);
    // Operations already under way go on in the directory that was opened.
    assert_eq!(ws.read("f").await.unwrap(), "inside");
    ws.write("g", "still inside").await.unwrap();
    assert_eq!(fs::read_to_string(moved.join("g")).unwrap(), "still inside");
    ws.outside_is_untouched();
    // Benign twin: put back, it works again.
    fs::remove_file(&ws.root).unwrap();
    fs::rename(&moved, &ws.root).unwrap();
    ws.resolve("f").await.unwrap();
}

/// SL-12: a predictable temporary name prepared as a symlink.
#[tokio::test]
async fn sl_12_a_prepared_temporary_name_is_never_opened() {
    let ws = Workspace::new();
    let target = ws.outside.join("new");
    for name in ["x.tmp", ".x.tmp", "x~", ".x.swp", ".haft-0.tmp"] {
        symlink(&target, ws.root.join(name)).unwrap();
    }
    ws.write("x", "content").await.unwrap();
    assert_eq!(ws.text("x"), "content");
    ws.outside_is_untouched();
}

/// SL-15, without the race: a tree that holds links to the outside.
#[tokio::test]
async fn sl_15_removing_a_tree_removes_links_and_not_what_they_lead_to() {
    let ws = Workspace::new();
    ws.put("tree/a/b/file", "x");
    symlink(&ws.outside, ws.root.join("tree/a/out")).unwrap();
    symlink(ws.outside.join("secret"), ws.root.join("tree/file")).unwrap();
    ws.files
        .remove(&at("tree"), RemoveScope::Tree)
        .await
        .unwrap();
    assert!(!ws.root.join("tree").exists());
    ws.outside_is_untouched();
    symlink(&ws.outside, ws.root.join("link")).unwrap();
    ws.files
        .remove(&at("link"), RemoveScope::Tree)
        .await
        .unwrap();
    ws.outside_is_untouched();
    refused(
        ws.files.remove(&at("."), RemoveScope::Tree).await,
        ErrorKind::NotRegularFile,
    );
}

/// RX-11: a tree deeper than descriptors and path lengths allow.
#[tokio::test]
async fn rx_11_a_very_deep_tree_is_removed_with_few_descriptors() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let ws = Workspace::in_memory();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut here = openat(CWD, &ws.root, flags, Mode::empty()).unwrap();
    for _ in 0..5000 {
        mkdirat(&here, "deep", Mode::from_raw_mode(0o755)).unwrap();
        here = openat(&here, "deep", flags, Mode::empty()).unwrap();
    }
    drop(here);
    ws.files
        .remove(&at("deep"), RemoveScope::Tree)
        .await
        .unwrap();
    assert_eq!(fs::read_dir(&ws.root).unwrap().count(), 0);
}

/// SL-17, PE-16, PE-17: magic links of /proc, linked to from inside.
#[tokio::test]
async fn sl_17_magic_links_are_refused() {
    let ws = Workspace::new();
    for (name, target) in [
        ("cwd", "/proc/self/cwd"),
        ("root", "/proc/self/root/etc/shadow"),
        ("environ", "/proc/self/environ"),
        ("fd", "/proc/self/fd/3"),
        ("stdin", "/dev/stdin"),
    ] {
        symlink(target, ws.root.join(name)).unwrap();
        refused(ws.resolve(name).await, ErrorKind::OutsideWorkspace);
        refused(ws.read(name).await, ErrorKind::Symlink);
    }
    refused(ws.resolve("cwd/x").await, ErrorKind::OutsideWorkspace);
}

/// SL-18: the mode is kept, setuid and setgid are not.
#[tokio::test]
async fn sl_18_a_write_keeps_the_mode_without_setuid() {
    let ws = Workspace::new();
    for (before, after) in [
        (0o755, 0o755),
        (0o600, 0o600),
        (0o4755, 0o755),
        (0o2775, 0o775),
        (0o6755, 0o755),
    ] {
        ws.put("f", "x");
        let path = ws.root.join("f");
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        ws.write("f", "y").await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, after, "{before:o}");

        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        ws.files.append(&at("f"), b"z").await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, after, "append {before:o}");

        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        ws.copy("f", "copy", Overwrite::Replace).await.unwrap();
        let mode = fs::metadata(ws.root.join("copy"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, after, "copy {before:o}");
    }
}

/// PE-14: names longer than the file system takes. `WorkPath` refuses most of them; a long path of
/// short components gets to the back end.
#[tokio::test]
async fn pe_14_names_that_are_too_long_are_typed_errors() {
    let ws = Workspace::new();
    let long = vec!["abcdefgh"; 455].join("/");
    assert!(long.len() < 4096);
    refused(ws.read(&long).await, ErrorKind::NotFound);
    let name = "x".repeat(255);
    ws.write(&name, "ok").await.unwrap();
    assert_eq!(ws.read(&name).await.unwrap(), "ok");
    assert!(haft_contract::WorkPath::relative(&"y".repeat(300)).is_err());
    assert!(haft_contract::WorkPath::relative(&"y/".repeat(2500)).is_err());
}

/// PE-18: what is not a regular file is refused at once, also a FIFO nobody writes to.
#[tokio::test]
async fn pe_18_fifos_and_sockets_are_refused_at_once() {
    let ws = Workspace::new();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        ws.root.join("fifo"),
        rustix::fs::Mode::from_raw_mode(0o666),
    )
    .unwrap();
    let _socket = UnixListener::bind(ws.root.join("socket")).unwrap();
    for name in ["fifo", "socket"] {
        refused(ws.read(name).await, ErrorKind::NotRegularFile);
        refused(ws.write(name, "x").await, ErrorKind::NotRegularFile);
        refused(
            ws.files.append(&at(name), b"x").await,
            ErrorKind::NotRegularFile,
        );
        refused(
            ws.copy(name, "copy", Overwrite::Replace).await,
            ErrorKind::NotRegularFile,
        );
        assert_eq!(ws.stat(name).await.unwrap().kind, FileKind::Other);
    }
    fs::create_dir(ws.root.join("dir")).unwrap();
    refused(ws.read("dir").await, ErrorKind::NotRegularFile);
}

/// PE-18: devices inside a workspace. Making one takes root, so the machine's own directory of
/// devices is the workspace.
#[tokio::test]
async fn pe_18_devices_are_refused_at_once() {
    let files = open_as_workspace("/dev", Mounts::Refuse);
    for name in ["zero", "null", "full", "random"] {
        assert_eq!(files.stat(&at(name)).await.unwrap().kind, FileKind::Other);
        refused(
            files.open(&at(name)).await.map(drop),
            ErrorKind::NotRegularFile,
        );
    }
}

/// PE-28: another file system inside the workspace. Mounting takes root, so the whole machine is
/// the workspace and `/proc` the mount.
#[tokio::test]
async fn pe_28_a_mount_point_inside_is_outside_unless_granted() {
    let path = at("proc/version");
    let files = open_as_workspace("/", Mounts::Refuse);
    let opened = files.open(&path).await.map(drop);
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::OutsideWorkspace);
    let resolved = files.resolve(&path).await;
    assert_eq!(resolved.unwrap_err().kind(), ErrorKind::OutsideWorkspace);
    // Benign twin: the operator vouches for what is mounted.
    let granted = open_as_workspace("/", Mounts::Cross);
    let file = granted.open(&path).await.unwrap();
    let bytes = file.read_at(0, 100, Vec::new()).await.unwrap();
    assert!(bytes.starts_with(b"Linux version"));
    // Magic links stay closed.
    let magic = granted.open(&at("proc/self/exe")).await.map(drop);
    assert_eq!(magic.unwrap_err().kind(), ErrorKind::Symlink);
}

fn open_as_workspace(root: &str, cross_mounts: Mounts) -> Arc<dyn FileOps> {
    let options = LocalOptions {
        cross_mounts,
        ..LocalOptions::default()
    };
    LocalBackend::open(root.as_ref(), options)
        .unwrap()
        .operations()
        .files
}

/// PE-22 and AI-11: a git directory under another name is recognised by what is in it.
#[tokio::test]
async fn pe_22_the_hooks_of_any_git_directory_are_protected() {
    let ws = Workspace::new();
    for directory in ["other/objects", "other/refs", "other/hooks"] {
        fs::create_dir_all(ws.root.join(directory)).unwrap();
    }
    ws.put("other/HEAD", "ref: refs/heads/main\n");
    ws.put(".git", "gitdir: other\n");
    symlink("other/hooks", ws.root.join("innocent")).unwrap();
    for path in [
        "other/hooks/pre-commit",
        "other/hooks",
        "other/config",
        "other/config.worktree",
        "innocent/pre-commit",
    ] {
        let protected = ws.resolve(path).await.unwrap().protected;
        assert!(protected.is_some(), "{path}");
    }
    ws.put("worktree/HEAD", "x");
    ws.put("worktree/commondir", "../other");
    assert!(
        ws.resolve("worktree/config")
            .await
            .unwrap()
            .protected
            .is_some()
    );
    for path in [
        "other/HEAD",
        "other/objects/info/alternates",
        "other/refs/heads/main",
        "other/rebase-merge/git-rebase-todo",
        "other/sequencer/todo",
        "other/modules/lib/config",
    ] {
        assert!(
            ws.resolve(path).await.unwrap().protected.is_some(),
            "{path}"
        );
    }
    // Benign twins: the same names elsewhere, other files of the git directory.
    ws.put("src/hooks/use.ts", "x");
    for path in [
        "src/hooks/use.ts",
        "src/config",
        "config",
        "other/description",
    ] {
        assert_eq!(ws.resolve(path).await.unwrap().protected, None, "{path}");
    }
}

/// What git needs for a repository that runs code, in any order: no write may be the one that
/// completes it, and none does.
#[tokio::test]
async fn pe_22_no_order_of_writes_completes_a_git_directory() {
    let parts = [
        "HEAD",
        "objects/.keep",
        "refs/heads/.keep",
        "config",
        "hooks/post-checkout",
        "commondir",
    ];
    for first in 0..parts.len() {
        for reversed in [false, true] {
            let ws = Workspace::new();
            let mut order = parts.to_vec();
            order.rotate_left(first);
            if reversed {
                order.reverse();
            }
            for part in &order {
                let path = format!("x/{part}");
                let planned = ws.resolve(&path).await.unwrap().protected;
                let written = ws.write(&path, "x").await;
                assert_eq!(planned.is_some(), written.is_err(), "{order:?}: {path}");
                if planned.is_some() {
                    refused(written, ErrorKind::Protected);
                }
            }
            let there = fs::read_dir(ws.root.join("x")).unwrap();
            let there: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
            let has_head = there.iter().any(|name| name == "HEAD");
            assert!(!has_head || there.len() == 1, "{order:?}: {there:?}");
        }
    }
}

/// Every verb that puts something somewhere looks again, so what was planned together does not
/// complete a git directory either.
#[tokio::test]
async fn pe_22_every_verb_looks_at_what_is_there_by_then() {
    let ws = Workspace::new();
    ws.put("x/config", "[core]\n");
    ws.put("source", "ref: refs/heads/main\n");
    let head = at("x/HEAD");
    refused(ws.write("x/HEAD", "x").await, ErrorKind::Protected);
    refused(ws.files.append(&head, b"x").await, ErrorKind::Protected);
    refused(
        ws.copy("source", "x/HEAD", Overwrite::Never).await,
        ErrorKind::Protected,
    );
    refused(
        ws.files
            .rename(&at("source"), &head, Overwrite::Never)
            .await,
        ErrorKind::Protected,
    );
    assert!(!ws.root.join("x/HEAD").exists());
    ws.put("y/HEAD", "x");
    for directory in ["y/objects", "y/refs/heads"] {
        refused(
            ws.files.make_dir(&at(directory)).await,
            ErrorKind::Protected,
        );
    }
    refused(ws.write("y/objects/.keep", "").await, ErrorKind::Protected);
    assert_eq!(fs::read_dir(ws.root.join("y")).unwrap().count(), 1);
    ws.no_leftovers();
}

/// Two writes that complete a git directory only together: one of them comes second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pe_22_two_writes_at_once_do_not_complete_it() {
    for round in 0..50 {
        let ws = Workspace::new();
        let (head, config) = tokio::join!(ws.write("x/HEAD", "x"), ws.write("x/config", "x"));
        assert!(head.is_err() != config.is_err(), "round {round}");
    }
}

/// Benign twins: these are what projects call their directories, and a git directory needs a
/// `HEAD`.
#[tokio::test]
async fn pe_22_ordinary_projects_use_the_same_names() {
    let ws = Workspace::new();
    for path in [
        "config",
        "src/config/index.ts",
        "src/hooks/use_thing.ts",
        "src/objects/player.rs",
        "src/refs/mod.rs",
        "src/info/modules/a.rs",
        "notes/HEAD",
        "routes/HEAD/handler.rs",
        "routes/config",
        "routes/HEAD/hooks/x",
    ] {
        assert_eq!(ws.resolve(path).await.unwrap().protected, None, "{path}");
        ws.write(path, "x").await.unwrap();
    }
}

#[tokio::test]
async fn a_write_happens_only_to_the_version_expected() {
    let ws = Workspace::new();
    ws.put("f", "one");
    let seen = ws.stat("f").await.unwrap().version;
    refused(
        ws.write_expecting("f", "x", Expected::Absent).await,
        ErrorKind::AlreadyExists,
    );
    ws.write_expecting("f", "two", Expected::Version(&seen))
        .await
        .unwrap();
    refused(
        ws.write_expecting("f", "three", Expected::Version(&seen))
            .await,
        ErrorKind::Conflict,
    );
    assert_eq!(ws.text("f"), "two");
    fs::remove_file(ws.root.join("f")).unwrap();
    refused(
        ws.write_expecting("f", "x", Expected::Version(&seen)).await,
        ErrorKind::Conflict,
    );
    let new = ws.write_expecting("f", "new", Expected::Absent).await;
    assert!(new.unwrap().created);
    ws.no_leftovers();
}

/// Mistake 3: a copy onto itself must not empty the file, by whatever name.
#[tokio::test]
async fn mistake_03_a_copy_onto_itself_is_an_error() {
    let ws = Workspace::new();
    ws.put("f", "content");
    fs::hard_link(ws.root.join("f"), ws.root.join("same")).unwrap();
    for overwrite in [Overwrite::Never, Overwrite::Replace] {
        for to in ["f", "same"] {
            refused(ws.copy("f", to, overwrite).await, ErrorKind::InvalidInput);
            assert_eq!(ws.text("f"), "content");
        }
    }
    symlink("f", ws.root.join("link")).unwrap();
    refused(
        ws.copy("link", "new", Overwrite::Never).await,
        ErrorKind::Symlink,
    );
    refused(
        ws.copy("f", "link", Overwrite::Replace).await,
        ErrorKind::Symlink,
    );
    ws.put("taken", "old");
    refused(
        ws.copy("f", "taken", Overwrite::Never).await,
        ErrorKind::AlreadyExists,
    );
    ws.copy("f", "taken", Overwrite::Replace).await.unwrap();
    assert_eq!(ws.text("taken"), "content");
    ws.no_leftovers();
}

#[tokio::test]
async fn a_copy_tells_its_progress_and_can_be_stopped() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let ws = Workspace::new();
    let size = 64 << 20;
    let content = vec![7_u8; size];
    fs::write(ws.root.join("big"), &content).unwrap();
    let last = AtomicU64::new(0);
    let cancel = CancellationToken::new();
    let copy = CopyFile {
        overwrite: Overwrite::Never,
        copied: &|bytes| {
            assert!(last.swap(bytes, Ordering::Relaxed) <= bytes);
        },
        cancel: &cancel,
    };
    ws.files.copy(&at("big"), &at("copy"), copy).await.unwrap();
    assert_eq!(last.load(Ordering::Relaxed), size as u64);
    assert_eq!(fs::read(ws.root.join("copy")).unwrap(), content);

    cancel.cancel();
    let stopped = ws.files.copy(&at("big"), &at("second"), copy).await;
    refused(stopped, ErrorKind::Cancelled);
    assert!(!ws.root.join("second").exists());
    ws.no_leftovers();
}

#[tokio::test]
async fn lists_sorted_to_a_depth_and_a_limit() {
    let ws = Workspace::new();
    for path in ["b/c/d", "b/x", "a.txt", "b.txt", ".hidden"] {
        ws.put(path, "12");
    }
    symlink("a.txt", ws.root.join("link")).unwrap();
    let paths = |listing: &haft_contract::ops::Listing| -> Vec<String> {
        listing.entries.iter().map(|e| e.path.clone()).collect()
    };
    let top = ws.list(".", 1).await.unwrap();
    assert_eq!(paths(&top), [".hidden", "a.txt", "b", "b.txt", "link"]);
    assert_eq!(top.entries[1].size, 2);
    assert_eq!(top.entries[4].kind, FileKind::Symlink);
    let deep = ws.list("b", 9).await.unwrap();
    assert_eq!(paths(&deep), ["b/c", "b/c/d", "b/x"]);
    let limited = ws
        .files
        .list(
            &at("."),
            ListQuery {
                depth: 9,
                limit: 3,
                respect_ignores: false,
                withheld: &["**/c/**".to_owned()],
                cancel: &CancellationToken::new(),
            },
        )
        .await
        .unwrap();
    assert_eq!(paths(&limited), [".hidden", "a.txt", "b"]);
    assert_eq!(limited.omitted, 4);
    refused(ws.list("a.txt", 1).await, ErrorKind::NotDirectory);
    refused(ws.list("link", 1).await, ErrorKind::Symlink);
}

/// PE-11: a name that is not UTF-8 is shown escaped and never taken for another file.
#[tokio::test]
async fn pe_11_a_name_that_is_not_utf8_is_listed_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let ws = Workspace::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    fs::write(ws.root.join(name), "x").unwrap();
    let listing = ws.list(".", 1).await.unwrap();
    assert_eq!(listing.entries[0].path, "bad\\xff");
    assert!(listing.entries[0].escaped);
    refused(ws.read("bad\u{fffd}").await, ErrorKind::NotFound);
    refused(ws.read("bad\\xff").await, ErrorKind::NotFound);
}

#[tokio::test]
async fn renames_within_the_workspace() {
    let ws = Workspace::new();
    ws.put("a", "1");
    ws.put("b", "2");
    let (a, b, c) = (at("a"), at("b"), at("new/c"));
    let taken = ws.files.rename(&a, &b, Overwrite::Never).await;
    refused(taken, ErrorKind::AlreadyExists);
    ws.files.rename(&a, &b, Overwrite::Replace).await.unwrap();
    ws.files.rename(&b, &c, Overwrite::Never).await.unwrap();
    assert_eq!(ws.text("new/c"), "1");
    let missing = ws.files.rename(&a, &at("x/y"), Overwrite::Never).await;
    refused(missing, ErrorKind::NotFound);
    assert!(!ws.root.join("x").exists());
    let into_itself = ws
        .files
        .rename(&at("new"), &at("new/sub/new"), Overwrite::Never)
        .await;
    refused(into_itself, ErrorKind::InvalidInput);
}
