//! Reading without changing: stat, ranged reads, listing.

use haft_contract::{
    ErrorKind,
    ops::{FileKind, ListQuery, Listing, OpsError, Overwrite, RemoveScope},
};
use tokio_util::sync::CancellationToken;

use super::reach::{anything, list, quiet};
use crate::suite::fixture::{BackendFixture, at, fails, never, read_all, works};

/// Kind, size and permission bits; size zero for anything but a file.
pub async fn stat_tells_kind_size_and_mode(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"12345").await;
    fixture.set_mode("file.txt", 0o640).await;
    fixture.put_directory("folder").await;
    let files = fixture.operations().files;
    let file = works("stat", files.stat(&at("file.txt")).await);
    assert_eq!(
        (file.kind, file.size, file.mode & 0o7777),
        (FileKind::File, 5, 0o640)
    );
    assert!(file.modified_ms > 1_000_000_000_000, "{}", file.modified_ms);
    let folder = works("stat", files.stat(&at("folder")).await);
    assert_eq!((folder.kind, folder.size), (FileKind::Directory, 0));
    let root = works("stat", files.stat(&at(".")).await);
    assert_eq!(root.kind, FileKind::Directory);
    let reader = works("open", files.open(&at("file.txt")).await);
    assert_eq!(reader.stat(), &file, "a reader tells the same as stat");
}

/// A link is reported as a link.
pub async fn stat_does_not_follow_a_final_link(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"12345").await;
    fixture.put_symlink("link", "file.txt").await;
    fixture.put_symlink("dangling", "/nowhere/at/all").await;
    let files = fixture.operations().files;
    for path in ["link", "dangling"] {
        let stat = works(path, files.stat(&at(path)).await);
        assert_eq!((stat.kind, stat.size), (FileKind::Symlink, 0), "{path}");
    }
}

/// Mistake 11: reads start at any offset; fewer bytes than requested mean the end.
pub async fn reads_are_ranged(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"0123456789").await;
    let files = fixture.operations().files;
    let reader = works("open", files.open(&at("file.txt")).await);
    for (offset, len, expected) in [
        (0, 4, "0123"),
        (4, 3, "456"),
        (8, 100, "89"),
        (10, 5, ""),
        (u64::from(u32::MAX), 5, ""),
        (3, 0, ""),
    ] {
        let stale = b"stale bytes".to_vec();
        let read = works("read_at", reader.read_at(offset, len, stale).await);
        assert_eq!(read, expected.as_bytes(), "{len} at {offset}");
    }
}

/// A reader sees the file it opened, whatever its name leads to later.
pub async fn a_reader_keeps_the_file_it_opened(fixture: impl BackendFixture) {
    fixture.put("renamed.txt", b"first").await;
    fixture.put("replaced.txt", b"first").await;
    fixture.put("removed.txt", b"first").await;
    let files = fixture.operations().files;
    let renamed = works("open", files.open(&at("renamed.txt")).await);
    let replaced = works("open", files.open(&at("replaced.txt")).await);
    let removed = works("open", files.open(&at("removed.txt")).await);
    let (from, to) = (at("renamed.txt"), at("other.txt"));
    works("rename", files.rename(&from, &to, Overwrite::Never).await);
    works("write", files.write(&from, anything(b"second")).await);
    works(
        "write",
        files.write(&at("replaced.txt"), anything(b"second")).await,
    );
    works(
        "remove",
        files.remove(&at("removed.txt"), RemoveScope::File).await,
    );
    for reader in [renamed, replaced, removed] {
        assert_eq!(read_all(&*reader).await, b"first");
    }
}

/// Every operation that needs something missing returns `not_found`.
pub async fn missing_things_are_not_found(fixture: impl BackendFixture) {
    fixture.put_directory("folder").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    let missing = ErrorKind::NotFound;
    for path in ["nothing", "folder/nothing", "nothing/at/all"] {
        let gone = at(path);
        fails("stat", files.stat(&gone).await, missing);
        fails("open", files.open(&gone).await, missing);
        fails("list", list(&*files, path).await, missing);
        fails(
            "remove",
            files.remove(&gone, RemoveScope::File).await,
            missing,
        );
        fails(
            "remove",
            files.remove(&gone, RemoveScope::Tree).await,
            missing,
        );
        let to = at("to");
        fails(
            "rename",
            files.rename(&gone, &to, Overwrite::Replace).await,
            missing,
        );
        fails(
            "copy",
            files.copy(&gone, &to, quiet(&cancel)).await,
            missing,
        );
    }
    assert_eq!(
        fixture.names(".").await,
        ["folder"],
        "nothing was made on the way"
    );
}

/// A directory is never opened, replaced or copied as a file.
pub async fn a_directory_is_no_file(fixture: impl BackendFixture) {
    fixture.put("folder/kept.txt", b"kept").await;
    fixture.put("file.txt", b"x").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    let (folder, file) = (at("folder"), at("file.txt"));
    let refused = ErrorKind::NotRegularFile;
    fails("open", files.open(&folder).await, refused);
    fails("write", files.write(&folder, anything(b"x")).await, refused);
    fails("append", files.append(&folder, b"x").await, refused);
    fails(
        "copy from",
        files.copy(&folder, &at("to"), quiet(&cancel)).await,
        refused,
    );
    fails(
        "copy to",
        files.copy(&file, &folder, quiet(&cancel)).await,
        refused,
    );
    fails("open the root", files.open(&at(".")).await, refused);
    fails(
        "write the root",
        files.write(&at("."), anything(b"x")).await,
        refused,
    );
    assert_eq!(
        fixture.bytes("folder/kept.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
}

/// There is nothing beneath a file.
pub async fn a_file_is_no_directory(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"kept").await;
    let files = fixture.operations().files;
    let refused = ErrorKind::NotDirectory;
    let below = at("file.txt/below");
    fails("list", list(&*files, "file.txt").await, refused);
    fails("open", files.open(&below).await, refused);
    fails("stat", files.stat(&below).await, refused);
    fails("write", files.write(&below, anything(b"x")).await, refused);
    fails("make_dir", files.make_dir(&below).await, refused);
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
}

/// Names in order, including hidden ones, each with its kind and size.
pub async fn list_is_sorted_and_typed(fixture: impl BackendFixture) {
    fixture.put("b.txt", b"12").await;
    fixture.put("a.txt", b"1").await;
    fixture.put(".hidden", b"").await;
    fixture.put_directory("c").await;
    fixture.put_special("d").await;
    let files = fixture.operations().files;
    let listing = works("list", list(&*files, ".").await);
    assert_eq!(
        told(&listing),
        [
            (".hidden", FileKind::File, 0),
            ("a.txt", FileKind::File, 1),
            ("b.txt", FileKind::File, 2),
            ("c", FileKind::Directory, 0),
            ("d", FileKind::Other, 0),
        ]
    );
    assert_eq!(listing.omitted, 0);
}

/// Depth 1 is the directory alone; entries name their path from the workspace root.
pub async fn list_goes_to_its_depth(fixture: impl BackendFixture) {
    fixture.put("top/one/two/three.txt", b"").await;
    let files = fixture.operations().files;
    for (depth, expected) in [
        (1, &["top/one"][..]),
        (2, &["top/one", "top/one/two"]),
        (9, &["top/one", "top/one/two", "top/one/two/three.txt"]),
    ] {
        let listing = works(
            "list",
            query(&fixture, "top", |query| query.depth = depth).await,
        );
        assert_eq!(paths(&listing), expected, "depth {depth}");
    }
    let root = works("list", list(&*files, ".").await);
    assert_eq!(paths(&root), ["top"]);
}

/// The first entries in order, and how many more there are.
pub async fn list_stops_at_its_limit_and_counts_the_rest(fixture: impl BackendFixture) {
    for number in 0..12 {
        fixture.put(&format!("file{number:02}"), b"").await;
    }
    let listing = works("list", query(&fixture, ".", |query| query.limit = 5).await);
    assert_eq!(
        paths(&listing),
        ["file00", "file01", "file02", "file03", "file04"]
    );
    assert_eq!(listing.omitted, 7);
}

/// Withheld paths never show; ignored ones do not if ignores are respected.
pub async fn list_leaves_out_what_is_ignored_or_withheld(fixture: impl BackendFixture) {
    // Some implementations read `.gitignore` only in a repository.
    fixture.put(".git/HEAD", b"ref: refs/heads/main\n").await;
    fixture.put(".gitignore", b"target/\n*.log\n").await;
    fixture.put("kept.txt", b"").await;
    fixture.put("debug.log", b"").await;
    fixture.put("target/out", b"").await;
    fixture.put("secrets/.env", b"").await;
    fixture.put("secrets/note", b"").await;
    let withheld = ["**/.env".to_owned()];
    let listing = query(&fixture, ".", |query| {
        query.depth = 5;
        query.withheld = &withheld;
    });
    let all = works("list", listing.await);
    for (path, shown) in [
        ("debug.log", true),
        ("secrets/note", true),
        ("secrets/.env", false),
    ] {
        assert_eq!(paths(&all).contains(&path), shown, "{path}");
    }
    let listing = query(&fixture, ".", |query| {
        query.depth = 5;
        query.respect_ignores = true;
    });
    let respected = works("list", listing.await);
    for (path, shown) in [
        ("kept.txt", true),
        ("debug.log", false),
        ("target/out", false),
    ] {
        assert_eq!(paths(&respected).contains(&path), shown, "{path}");
    }
}

/// PE-24: links are listed as entries, even circular ones and those that leave; nothing is listed
/// twice.
pub async fn list_shows_links_without_following_them(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"").await;
    let folder = outside
        .strip_suffix("/secret.txt")
        .expect("its folder")
        .to_owned();
    fixture.put("data/file.txt", b"").await;
    fixture.put_symlink("data/loop", "..").await;
    fixture.put_symlink("data/out", &folder).await;
    let listing = works("list", query(&fixture, ".", |query| query.depth = 50).await);
    assert_eq!(
        told(&listing),
        [
            ("data", FileKind::Directory, 0),
            ("data/file.txt", FileKind::File, 0),
            ("data/loop", FileKind::Symlink, 0),
            ("data/out", FileKind::Symlink, 0),
        ]
    );
}

/// A listing stops when told.
pub async fn list_can_be_cancelled(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let query = ListQuery {
        depth: 5,
        limit: 10,
        respect_ignores: false,
        withheld: &[],
        cancel: &cancel,
    };
    fails(
        "list",
        files.list(&at("."), query).await,
        ErrorKind::Cancelled,
    );
}

async fn query<'q>(
    fixture: &impl BackendFixture,
    path: &str,
    change: impl FnOnce(&mut ListQuery<'q>),
) -> Result<Listing, OpsError> {
    let mut query = ListQuery {
        depth: 1,
        limit: 1000,
        respect_ignores: false,
        withheld: &[],
        cancel: never(),
    };
    change(&mut query);
    fixture.operations().files.list(&at(path), query).await
}

fn paths(listing: &Listing) -> Vec<&str> {
    let entries = listing.entries.iter();
    entries.map(|entry| entry.path.as_str()).collect()
}

fn told(listing: &Listing) -> Vec<(&str, FileKind, u64)> {
    let entries = listing.entries.iter();
    entries
        .map(|entry| (entry.path.as_str(), entry.kind, entry.size))
        .collect()
}
