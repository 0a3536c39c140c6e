//! Where a path may lead: links, escapes, and things that are not files.

use haft_contract::{
    ErrorKind,
    ops::{
        CopyFile, Expected, FileKind, FileOps, ListQuery, Listing, OpsError, Overwrite,
        RemoveScope, WriteFile, WriteMode,
    },
};
use tokio_util::sync::CancellationToken;

use crate::suite::fixture::{BackendFixture, at, fails, fails_as, never, read_all, works};

/// A link inside the workspace is followed: to a file, to a directory and over `..`.
pub async fn resolve_follows_links_beneath_the_root(fixture: impl BackendFixture) {
    fixture.put("data/real.txt", b"x").await;
    fixture.put_symlink("link.txt", "data/real.txt").await;
    fixture.put_symlink("folder", "data").await;
    fixture.put_symlink("data/up", "../link.txt").await;
    let files = fixture.operations().files;
    for path in ["data/real.txt", "link.txt", "folder/real.txt", "data/up"] {
        let resolved = works(path, files.resolve(&at(path)).await);
        assert_eq!(resolved.path, at("data/real.txt"), "{path}");
        let stat = resolved.stat.expect("a file");
        assert_eq!((stat.kind, stat.size), (FileKind::File, 1), "{path}");
    }
}

/// The root is a directory.
pub async fn resolve_knows_the_root(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let resolved = works("resolve", files.resolve(&at(".")).await);
    assert!(resolved.path.is_root());
    assert_eq!(
        resolved.stat.expect("a directory").kind,
        FileKind::Directory
    );
}

/// A missing path keeps its name below the nearest existing parent.
pub async fn resolve_keeps_the_rest_of_a_missing_path(fixture: impl BackendFixture) {
    fixture.put_directory("data").await;
    fixture.put_symlink("folder", "data").await;
    let files = fixture.operations().files;
    let resolved = works("resolve", files.resolve(&at("folder/new/file.txt")).await);
    assert_eq!(resolved.path, at("data/new/file.txt"));
    assert_eq!(resolved.stat, None);
    let resolved = works("resolve", files.resolve(&at("nothing")).await);
    assert_eq!((resolved.path, resolved.stat), (at("nothing"), None));
}

/// SL-01, SL-02: a link that leaves the workspace is refused.
pub async fn resolve_refuses_a_link_that_leaves(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"secret").await;
    fixture.put_symlink("file", &outside).await;
    fixture.put_symlink("top", "/").await;
    fixture.put_symlink("up", "..").await;
    fixture.put_symlink("deep/up", "../../x").await;
    fixture.put_symlink("via", "up").await;
    let files = fixture.operations().files;
    for path in [
        "file",
        "top",
        "top/etc/passwd",
        "up",
        "up/x",
        "deep/up",
        "via/x",
    ] {
        fails(
            path,
            files.resolve(&at(path)).await,
            ErrorKind::OutsideWorkspace,
        );
    }
}

/// SL-04: even if its target does not exist yet.
pub async fn resolve_refuses_a_dangling_link_that_leaves(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("there.txt", b"").await;
    fixture.put_symlink("link", &format!("{outside}.not")).await;
    fixture.put_symlink("relative", "../not-there").await;
    let files = fixture.operations().files;
    for path in ["link", "relative"] {
        fails(
            path,
            files.resolve(&at(path)).await,
            ErrorKind::OutsideWorkspace,
        );
    }
}

/// A dangling link inside is followed or refused. Its own name is never the answer, because opening
/// that would follow it.
pub async fn resolve_never_answers_with_a_link(fixture: impl BackendFixture) {
    fixture.put_symlink("link", "nothing").await;
    let files = fixture.operations().files;
    match files.resolve(&at("link")).await {
        Ok(resolved) => assert_eq!((resolved.path, resolved.stat), (at("nothing"), None)),
        Err(error) => {
            let expected = [ErrorKind::Symlink, ErrorKind::NotFound];
            assert!(expected.contains(&error.kind()), "{error}");
        }
    }
}

/// SL-03: a chain of 45 links, and a circle of two, end with an error.
pub async fn resolve_refuses_too_many_links(fixture: impl BackendFixture) {
    fixture.put("link0", b"").await;
    for number in 1..=45 {
        let target = format!("link{}", number - 1);
        fixture.put_symlink(&format!("link{number}"), &target).await;
    }
    fixture.put_symlink("ping", "pong").await;
    fixture.put_symlink("pong", "ping").await;
    let files = fixture.operations().files;
    works("a short chain", files.resolve(&at("link20")).await);
    fails(
        "a long chain",
        files.resolve(&at("link45")).await,
        ErrorKind::Symlink,
    );
    fails(
        "a circle",
        files.resolve(&at("ping")).await,
        ErrorKind::Symlink,
    );
}

/// Only `resolve` follows links: every other operation refuses a path with one in the middle, and
/// the link's target does not change.
pub async fn no_operation_crosses_a_link(fixture: impl BackendFixture) {
    fixture.put("data/file.txt", b"kept").await;
    fixture.put("source.txt", b"source").await;
    fixture.put_symlink("link", "data").await;
    let before = fixture.names("data").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    let inside = at("link/file.txt");
    let refused = ErrorKind::Symlink;
    fails("stat", files.stat(&inside).await, refused);
    fails("open", files.open(&inside).await, refused);
    fails("write", files.write(&inside, anything(b"x")).await, refused);
    fails(
        "write new",
        files.write(&at("link/new"), anything(b"x")).await,
        refused,
    );
    fails("append", files.append(&inside, b"x").await, refused);
    fails(
        "make_dir",
        files.make_dir(&at("link/new/deep")).await,
        refused,
    );
    fails(
        "remove",
        files.remove(&inside, RemoveScope::File).await,
        refused,
    );
    let away = at("away");
    fails(
        "rename from",
        files.rename(&inside, &away, Overwrite::Replace).await,
        refused,
    );
    let source = at("source.txt");
    fails(
        "rename to",
        files
            .rename(&source, &at("link/new"), Overwrite::Never)
            .await,
        refused,
    );
    fails(
        "copy from",
        files.copy(&inside, &away, quiet(&cancel)).await,
        refused,
    );
    fails(
        "copy to",
        files.copy(&source, &inside, quiet(&cancel)).await,
        refused,
    );
    fixture.put_directory("data/sub").await;
    fails("list", list(&*files, "link/sub").await, refused);
    assert_eq!(
        fixture.bytes("data/file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
    assert_eq!(
        fixture.bytes("source.txt").await.as_deref(),
        Some(&b"source"[..])
    );
    assert_eq!(
        [before, vec!["sub".to_owned()]].concat(),
        fixture.names("data").await
    );
}

/// A path that ends in a link is refused by everything that would have to follow it.
pub async fn no_operation_opens_a_final_link(fixture: impl BackendFixture) {
    fixture.put("data/file.txt", b"kept").await;
    fixture.put("source.txt", b"source").await;
    fixture.put_symlink("link.txt", "data/file.txt").await;
    fixture.put_symlink("folder", "data").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    let link = at("link.txt");
    let source = at("source.txt");
    let refused = ErrorKind::Symlink;
    fails("open", files.open(&link).await, refused);
    fails("write", files.write(&link, anything(b"x")).await, refused);
    fails("append", files.append(&link, b"x").await, refused);
    fails("list", list(&*files, "folder").await, refused);
    fails("make_dir", files.make_dir(&at("folder")).await, refused);
    fails(
        "copy from",
        files.copy(&link, &at("new"), quiet(&cancel)).await,
        refused,
    );
    fails(
        "copy to",
        files.copy(&source, &link, quiet(&cancel)).await,
        refused,
    );
    fails(
        "rename from",
        files.rename(&link, &at("new"), Overwrite::Never).await,
        refused,
    );
    fails(
        "rename to",
        files.rename(&source, &link, Overwrite::Replace).await,
        refused,
    );
    assert_eq!(
        fixture.bytes("data/file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
    assert_eq!(
        fixture.bytes("source.txt").await.as_deref(),
        Some(&b"source"[..])
    );
}

/// SL-01, SL-02, SL-04: links that leave are refused, and nothing outside changes or appears.
pub async fn nothing_outside_is_touched(fixture: impl BackendFixture) {
    let secret = fixture.put_outside("secret.txt", b"secret").await;
    let absent = format!(
        "{}absent.txt",
        secret.strip_suffix("secret.txt").expect("its name")
    );
    let folder = secret.strip_suffix("/secret.txt").expect("its folder");
    fixture.put_symlink("file", &secret).await;
    fixture.put_symlink("new", &absent).await;
    fixture.put_symlink("folder", folder).await;
    let files = fixture.operations().files;
    let refused = [ErrorKind::Symlink, ErrorKind::OutsideWorkspace];
    for path in ["file", "folder/secret.txt"] {
        fails_as(path, files.open(&at(path)).await, &refused);
    }
    for path in ["file", "new", "folder/secret.txt", "folder/absent.txt"] {
        fails_as(path, files.write(&at(path), anything(b"x")).await, &refused);
        fails_as(path, files.append(&at(path), b"x").await, &refused);
    }
    let inside = at("folder/secret.txt");
    fails_as(
        "remove",
        files.remove(&inside, RemoveScope::File).await,
        &refused,
    );
    assert_eq!(
        fixture.outside_bytes("secret.txt").await.as_deref(),
        Some(&b"secret"[..])
    );
    assert_eq!(fixture.outside_bytes("absent.txt").await, None);
}

/// PE-18: a FIFO is refused; opening it must not wait for a writer that never comes.
pub async fn special_files_are_refused_at_once(fixture: impl BackendFixture) {
    fixture.put_special("pipe").await;
    fixture.put("file.txt", b"x").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    let pipe = at("pipe");
    let file = at("file.txt");
    let refused = ErrorKind::NotRegularFile;
    fails("open", files.open(&pipe).await, refused);
    fails("write", files.write(&pipe, anything(b"x")).await, refused);
    fails("append", files.append(&pipe, b"x").await, refused);
    fails(
        "copy from",
        files.copy(&pipe, &at("new"), quiet(&cancel)).await,
        refused,
    );
    fails(
        "copy to",
        files.copy(&file, &pipe, quiet(&cancel)).await,
        refused,
    );
    assert_eq!(works("stat", files.stat(&pipe).await).kind, FileKind::Other);
}

/// PE-07, PE-08, PE-10, PE-12, PE-15: no decoding, no folding, no expansion.
pub async fn odd_names_are_plain_names(fixture: impl BackendFixture) {
    let names = [
        "two\nlines",
        "esc\u{1b}[31m",
        "-rf",
        "%2e%2e",
        "~",
        "$HOME",
        "e\u{301}",
        "\u{e9}",
        "\u{ff0e}\u{ff0e}",
        "back\\slash",
        " space ",
    ];
    let files = fixture.operations().files;
    for name in names {
        works(
            name,
            files.write(&at(name), anything(name.as_bytes())).await,
        );
    }
    for name in names {
        let reader = works(name, files.open(&at(name)).await);
        assert_eq!(read_all(&*reader).await, name.as_bytes(), "{name:?}");
    }
    assert_eq!(fixture.names(".").await.len(), names.len());
}

/// A write without an expected version.
pub(super) fn anything(bytes: &[u8]) -> WriteFile<'_> {
    WriteFile {
        bytes,
        expected: Expected::Anything,
        mode: WriteMode::AsItIs,
    }
}

/// A copy that may replace and reports no progress.
pub(super) fn quiet(cancel: &CancellationToken) -> CopyFile<'_> {
    CopyFile {
        overwrite: Overwrite::Replace,
        copied: &|_| {},
        cancel,
    }
}

/// Lists one level, including everything.
pub(super) async fn list(files: &dyn FileOps, path: &str) -> Result<Listing, OpsError> {
    let query = ListQuery {
        depth: 1,
        limit: 1000,
        respect_ignores: false,
        withheld: &[],
        cancel: never(),
    };
    files.list(&at(path), query).await
}
