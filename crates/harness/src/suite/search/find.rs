//! Finding files by name.

use haft_contract::{
    ErrorKind,
    ops::{FileKind, FindQuery, FindResults, FindSort, OpsError},
};
use tokio_util::sync::CancellationToken;

use super::grep::root_path;
use crate::suite::fixture::{BackendFixture, at, fails, fails_as, never, works};

/// Mistake 22: `**/*.rs` finds the file at the top too.
pub async fn find_matches_root_files_with_a_leading_star(fixture: impl BackendFixture) {
    sources(&fixture).await;
    let found = works("find", find(&fixture, "**/*.rs", |_| {}).await);
    assert_eq!(paths(&found), ["main.rs", "src/deep/b.rs", "src/lib.rs"]);
    assert_eq!(found.total, 3);
}

/// Mistake 22: `*.rs` finds more than the file at the top.
pub async fn find_matches_names_at_any_depth_without_a_slash(fixture: impl BackendFixture) {
    sources(&fixture).await;
    let found = works("find", find(&fixture, "*.rs", |_| {}).await);
    assert_eq!(paths(&found), ["main.rs", "src/deep/b.rs", "src/lib.rs"]);
    let found = works("find", find(&fixture, "lib.rs", |_| {}).await);
    assert_eq!(paths(&found), ["src/lib.rs"]);
}

/// A pattern with a slash is anchored at the path searched; a star does not cross a slash.
pub async fn find_matches_below_its_path(fixture: impl BackendFixture) {
    sources(&fixture).await;
    for (pattern, expected) in [
        ("src/*.rs", &["src/lib.rs"][..]),
        ("src/**/*.rs", &["src/deep/b.rs", "src/lib.rs"]),
        (
            "src/**",
            &["src/deep", "src/deep/b.rs", "src/lib.rs", "src/notes.txt"],
        ),
        ("{main,lib}.rs", &["main.rs", "src/lib.rs"]),
        ("**/[lb]*.rs", &["src/deep/b.rs", "src/lib.rs"]),
    ] {
        let found = works("find", find(&fixture, pattern, |_| {}).await);
        assert_eq!(paths(&found), expected, "{pattern}");
    }
    let below = at("src");
    let found = works(
        "find",
        find(&fixture, "*/*.rs", |query| query.path = &below).await,
    );
    assert_eq!(paths(&found), ["src/deep/b.rs"]);
    let found = works(
        "find",
        find(&fixture, "**/*.rs", |query| query.path = &below).await,
    );
    assert_eq!(paths(&found), ["src/deep/b.rs", "src/lib.rs"]);
}

/// Mistake 7: the filter filters.
pub async fn find_filters_by_kind(fixture: impl BackendFixture) {
    fixture.put("x-file", b"").await;
    fixture.put_directory("x-folder").await;
    fixture.put_symlink("x-link", "x-file").await;
    for (kind, expected) in [
        (Some(FileKind::File), &["x-file"][..]),
        (Some(FileKind::Directory), &["x-folder"]),
        (Some(FileKind::Symlink), &["x-link"]),
        (Some(FileKind::Other), &[]),
        (None, &["x-file", "x-folder", "x-link"]),
    ] {
        let found = works(
            "find",
            find(&fixture, "x-*", |query| query.kind = kind).await,
        );
        assert_eq!(paths(&found), expected, "{kind:?}");
        assert!(
            found
                .entries
                .iter()
                .all(|entry| kind.is_none_or(|kind| entry.kind == kind))
        );
    }
}

/// Mistake 7: by path, by age and by size; ties are in path order.
pub async fn find_sorts_as_asked(fixture: impl BackendFixture) {
    for (path, bytes) in [("b", "12"), ("a", "12"), ("c", "12345")] {
        fixture.put(path, bytes.as_bytes()).await;
        // Coarse clocks give files made in quick succession the same time.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for (sort, expected) in [
        (FindSort::Path, ["a", "b", "c"]),
        (FindSort::Modified, ["c", "a", "b"]),
        (FindSort::Size, ["c", "a", "b"]),
    ] {
        let found = works("find", find(&fixture, "*", |query| query.sort = sort).await);
        assert_eq!(paths(&found), expected, "{sort:?}");
    }
}

/// Pages join without gaps, and the total counts all results.
pub async fn find_pages_and_tells_the_total(fixture: impl BackendFixture) {
    for number in 0..7 {
        fixture.put(&format!("file{number}"), b"").await;
    }
    for (offset, expected) in [
        (0, &["file0", "file1", "file2"][..]),
        (3, &["file3", "file4", "file5"]),
        (6, &["file6"]),
        (9, &[]),
    ] {
        let found = find(&fixture, "file*", |query| {
            query.limit = 3;
            query.offset = offset;
        });
        let found = works("find", found.await);
        assert_eq!(
            (paths(&found).as_slice(), found.total),
            (expected, 7),
            "at {offset}"
        );
    }
}

/// `.gitignore` in the root and below, negation, folders; and none of it unless requested.
pub async fn find_respects_ignores(fixture: impl BackendFixture) {
    ignoring(&fixture).await;
    let found = find(&fixture, "*.{txt,log}", |query| {
        query.respect_ignores = true;
    });
    assert_eq!(
        paths(&works("find", found.await)),
        ["kept.txt", "src/kept.log"]
    );
    let found = works("find", find(&fixture, "*.{txt,log}", |_| {}).await);
    assert_eq!(found.total, 5, "{found:?}");
}

/// Withheld paths are neither named nor counted.
pub async fn find_withholds_what_may_not_be_read(fixture: impl BackendFixture) {
    for path in [".env", "deep/.env", "secrets/key.txt", "open.txt"] {
        fixture.put(path, b"").await;
    }
    let withheld = ["**/.env".to_owned(), "secrets/**".to_owned()];
    let found = find(&fixture, "**/*", |query| {
        query.kind = Some(FileKind::File);
        query.withheld = &withheld;
    });
    let found = works("find", found.await);
    assert_eq!(
        (paths(&found).as_slice(), found.total),
        (&["open.txt"][..], 1)
    );
}

/// PE-24: circular links end, and nothing is found twice.
pub async fn find_ends_in_a_circle_of_links(fixture: impl BackendFixture) {
    fixture.put("a/file.txt", b"").await;
    for number in 0..40 {
        fixture.put_symlink(&format!("a/loop{number}"), ".").await;
    }
    fixture.put_symlink("a/up", "..").await;
    let found = works("find", find(&fixture, "file.txt", |_| {}).await);
    assert_eq!(
        (paths(&found).as_slice(), found.total),
        (&["a/file.txt"][..], 1)
    );
}

/// PE-23: neither a link nor a pattern leads out.
pub async fn find_never_leaves_the_workspace(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"").await;
    let folder = outside
        .strip_suffix("/secret.txt")
        .expect("its folder")
        .to_owned();
    fixture.put("kept.txt", b"").await;
    fixture.put_symlink("out", &folder).await;
    fixture.put_symlink("up", "..").await;
    let found = works("find", find(&fixture, "**/*.txt", |_| {}).await);
    assert_eq!(paths(&found), ["kept.txt"]);
    for pattern in [
        "/**/secret.txt",
        "../**/secret.txt",
        "{../../etc/*}",
        "out/*",
        "up/**",
    ] {
        if let Ok(found) = find(&fixture, pattern, |_| {}).await {
            assert_eq!(found.entries, [], "{pattern}");
        }
    }
    let refused = [ErrorKind::Symlink, ErrorKind::OutsideWorkspace];
    for path in ["out", "up"] {
        let path = at(path);
        let found = find(&fixture, "*", |query| query.path = &path).await;
        fails_as(path.as_str(), found, &refused);
    }
}

/// An invalid pattern is reported as the caller's mistake.
pub async fn find_refuses_a_bad_pattern(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"").await;
    for pattern in ["a[", "{a,b", "[z-a]"] {
        fails(
            pattern,
            find(&fixture, pattern, |_| {}).await,
            ErrorKind::InvalidInput,
        );
    }
}

/// Searching a missing directory is an error and not an empty answer.
pub async fn find_needs_a_directory_that_is_there(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"").await;
    let missing = at("nothing");
    let found = find(&fixture, "*", |query| query.path = &missing).await;
    fails("missing", found, ErrorKind::NotFound);
    let file = at("a.txt");
    let found = find(&fixture, "*", |query| query.path = &file).await;
    fails("a file", found, ErrorKind::NotDirectory);
}

/// A search stops when told.
pub async fn find_can_be_cancelled(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"").await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let found = find(&fixture, "*", |query| query.cancel = &cancel).await;
    fails("find", found, ErrorKind::Cancelled);
}

/// Five files named `.txt` or `.log`, of which `kept.txt` and `src/kept.log` are not ignored.
pub(super) async fn ignoring(fixture: &impl BackendFixture) {
    // Some implementations read `.gitignore` only in a repository.
    fixture.put(".git/HEAD", b"ref: refs/heads/main\n").await;
    fixture
        .put(".gitignore", b"# comment\n*.log\ntarget/\n")
        .await;
    fixture
        .put("src/.gitignore", b"!kept.log\n/only-here.txt\n")
        .await;
    for path in [
        "kept.txt",
        "drop.log",
        "target/out.txt",
        "src/kept.log",
        "src/only-here.txt",
    ] {
        fixture.put(path, b"needle\n").await;
    }
}

async fn sources(fixture: &impl BackendFixture) {
    for path in ["main.rs", "src/lib.rs", "src/deep/b.rs", "src/notes.txt"] {
        fixture.put(path, b"").await;
    }
}

async fn find<'q>(
    fixture: &impl BackendFixture,
    pattern: &'q str,
    change: impl FnOnce(&mut FindQuery<'q>),
) -> Result<FindResults, OpsError> {
    let mut query = FindQuery {
        pattern,
        path: root_path(),
        kind: None,
        sort: FindSort::Path,
        respect_ignores: false,
        limit: 1000,
        offset: 0,
        withheld: &[],
        found: None,
        cancel: never(),
    };
    change(&mut query);
    fixture.operations().search.find(query).await
}

fn paths(found: &FindResults) -> Vec<&str> {
    let entries = found.entries.iter();
    entries.map(|entry| entry.path.as_str()).collect()
}
