//! Creating, removing and moving.

use haft_contract::{
    ErrorKind,
    ops::{FileKind, Overwrite, RemoveScope},
};

use crate::suite::fixture::{BackendFixture, at, fails, fails_as, works};

/// Parents are created too, and a directory that exists is fine.
pub async fn make_dir_makes_parents_and_repeats(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    for _ in 0..2 {
        works("make_dir", files.make_dir(&at("a/b/c")).await);
        works("make_dir", files.make_dir(&at(".")).await);
    }
    let stat = works("stat", files.stat(&at("a/b/c")).await);
    assert_eq!(stat.kind, FileKind::Directory);
}

/// A file in the way stays.
pub async fn make_dir_refuses_a_file(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"kept").await;
    let files = fixture.operations().files;
    let refused = [ErrorKind::AlreadyExists, ErrorKind::NotDirectory];
    fails_as("make_dir", files.make_dir(&at("file.txt")).await, &refused);
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
}

/// One file is removed, its neighbours stay.
pub async fn remove_takes_one_file(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"").await;
    fixture.put("b.txt", b"").await;
    let files = fixture.operations().files;
    works(
        "remove",
        files.remove(&at("a.txt"), RemoveScope::File).await,
    );
    assert_eq!(fixture.names(".").await, ["b.txt"]);
}

/// A directory is removed only if a tree was requested, and then with everything beneath it.
pub async fn remove_takes_a_tree_only_when_told(fixture: impl BackendFixture) {
    fixture.put("folder/deep/file.txt", b"").await;
    fixture.put("folder2/file.txt", b"").await;
    let files = fixture.operations().files;
    let folder = at("folder");
    fails(
        "as a file",
        files.remove(&folder, RemoveScope::File).await,
        ErrorKind::NotRegularFile,
    );
    assert_eq!(fixture.names("folder/deep").await, ["file.txt"]);
    works("as a tree", files.remove(&folder, RemoveScope::Tree).await);
    assert_eq!(fixture.names(".").await, ["folder2"]);
}

/// SL-15: a link is removed, its target stays; beneath a tree as well.
pub async fn remove_never_follows_a_link(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"secret").await;
    let folder = outside
        .strip_suffix("/secret.txt")
        .expect("its folder")
        .to_owned();
    fixture.put("data/file.txt", b"kept").await;
    fixture.put_symlink("link", "data").await;
    fixture.put_symlink("tree/inside", "../data").await;
    fixture.put_symlink("tree/outside", &folder).await;
    let files = fixture.operations().files;
    works("a link", files.remove(&at("link"), RemoveScope::File).await);
    works("a tree", files.remove(&at("tree"), RemoveScope::Tree).await);
    assert_eq!(fixture.names(".").await, ["data"]);
    assert_eq!(
        fixture.bytes("data/file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
    assert_eq!(
        fixture.outside_bytes("secret.txt").await.as_deref(),
        Some(&b"secret"[..])
    );
}

/// The workspace itself cannot be removed.
pub async fn remove_refuses_the_root(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"kept").await;
    let files = fixture.operations().files;
    for scope in [RemoveScope::File, RemoveScope::Tree] {
        let removed = files.remove(&at("."), scope).await;
        assert!(removed.is_err(), "the root was removed");
    }
    assert_eq!(fixture.names(".").await, ["file.txt"]);
}

/// Both move, and the destination's parents are created.
pub async fn rename_moves_files_and_directories(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"file").await;
    fixture.put("folder/deep/file.txt", b"deep").await;
    let files = fixture.operations().files;
    let (from, to) = (at("file.txt"), at("new/place/file.txt"));
    works("a file", files.rename(&from, &to, Overwrite::Never).await);
    let (from, to) = (at("folder"), at("new/folder"));
    works(
        "a directory",
        files.rename(&from, &to, Overwrite::Never).await,
    );
    assert_eq!(fixture.names(".").await, ["new"]);
    assert_eq!(
        fixture.bytes("new/place/file.txt").await.as_deref(),
        Some(&b"file"[..])
    );
    assert_eq!(
        fixture.bytes("new/folder/deep/file.txt").await.as_deref(),
        Some(&b"deep"[..])
    );
}

/// A file in the way stays unless replacing was requested.
pub async fn rename_obeys_overwrite(fixture: impl BackendFixture) {
    fixture.put("from.txt", b"from").await;
    fixture.put("to.txt", b"to").await;
    let files = fixture.operations().files;
    let (from, to) = (at("from.txt"), at("to.txt"));
    let never = files.rename(&from, &to, Overwrite::Never).await;
    fails("never", never, ErrorKind::AlreadyExists);
    assert_eq!(fixture.bytes("to.txt").await.as_deref(), Some(&b"to"[..]));
    assert_eq!(
        fixture.bytes("from.txt").await.as_deref(),
        Some(&b"from"[..])
    );
    works(
        "replace",
        files.rename(&from, &to, Overwrite::Replace).await,
    );
    assert_eq!(fixture.bytes("to.txt").await.as_deref(), Some(&b"from"[..]));
    assert_eq!(fixture.names(".").await, ["to.txt"]);
}

/// A directory cannot become its own child, and stays as it was.
pub async fn rename_refuses_a_place_beneath_itself(fixture: impl BackendFixture) {
    fixture.put("folder/file.txt", b"kept").await;
    let files = fixture.operations().files;
    let (from, to) = (at("folder"), at("folder/below"));
    let renamed = files.rename(&from, &to, Overwrite::Never).await;
    assert!(renamed.is_err(), "a directory was moved beneath itself");
    assert_eq!(
        fixture.bytes("folder/file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
}
