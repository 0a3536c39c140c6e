//! Searching contents.

use std::sync::{Arc, Mutex};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{GrepFound, GrepMode, GrepQuery, GrepResults, OpsError},
    streamed::Tell,
};
use tokio_util::sync::CancellationToken;

use crate::suite::fixture::{BackendFixture, at, fails, fails_as, never, works};

/// Line numbers from 1, text without its line end, and how many files were searched.
pub async fn grep_tells_path_line_and_text(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"one\ntwo needle\r\nthree\n").await;
    fixture.put("b.txt", b"no newline at the end: needle").await;
    fixture.put("c.txt", b"").await;
    let found = works("grep", grep(&fixture, "needle", |_| {}).await);
    assert_eq!(
        lines(&found),
        [
            "a.txt:2:two needle",
            "b.txt:1:no newline at the end: needle"
        ]
    );
    assert!(found.lines.iter().all(|line| line.matched && line.cut == 0));
    assert!(!found.more);
    assert!(found.searched >= 2, "{}", found.searched);
}

/// The same search gives the same answer, path by path and line by line.
pub async fn grep_is_ordered_by_path_then_line(fixture: impl BackendFixture) {
    for path in ["z.txt", "b/x.txt", "a.txt", "b/a.txt"] {
        fixture.put(path, b"x\nx\n").await;
    }
    let found = works("grep", grep(&fixture, "x", |_| {}).await);
    let expected = [
        "a.txt:1:x",
        "a.txt:2:x",
        "b/a.txt:1:x",
        "b/a.txt:2:x",
        "b/x.txt:1:x",
        "b/x.txt:2:x",
        "z.txt:1:x",
        "z.txt:2:x",
    ];
    assert_eq!(lines(&found), expected);
}

/// Exactly the limit is not more; one past it is.
pub async fn grep_stops_at_its_limit_and_says_so(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x 1\nx 2\n").await;
    fixture.put("b.txt", b"x 3\n").await;
    for (limit, count, more) in [(1, 1, true), (2, 2, true), (3, 3, false), (9, 3, false)] {
        let found = works(
            "grep",
            grep(&fixture, "x", |query| query.limit = limit).await,
        );
        assert_eq!(
            (found.lines.len(), found.more),
            (count, more),
            "limit {limit}"
        );
    }
    let files = grep(&fixture, "x", |query| {
        query.mode = GrepMode::Files;
        query.limit = 1;
    });
    let files = works("grep", files.await);
    assert_eq!((files.files.len(), files.more), (1, true));
}

/// The second page begins where the first ended.
pub async fn grep_passes_over_its_offset(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x 1\nx 2\n").await;
    fixture.put("b.txt", b"x 3\nx 4\n").await;
    let page = |offset| {
        grep(&fixture, "x", move |query| {
            query.limit = 2;
            query.offset = offset;
        })
    };
    assert_eq!(
        lines(&works("grep", page(0).await)),
        ["a.txt:1:x 1", "a.txt:2:x 2"]
    );
    assert_eq!(
        lines(&works("grep", page(1).await)),
        ["a.txt:2:x 2", "b.txt:1:x 3"]
    );
    let last = works("grep", page(2).await);
    assert_eq!(
        (lines(&last), last.more),
        (vec!["b.txt:1:x 3".into(), "b.txt:2:x 4".into()], false)
    );
    assert_eq!(works("grep", page(4).await).lines, []);
    let files = grep(&fixture, "x", |query| {
        query.mode = GrepMode::Files;
        query.offset = 1;
    });
    assert_eq!(counts(&works("grep", files.await)), ["b.txt"]);
}

/// Lines around a match are marked as context, and a line between two matches comes once.
pub async fn grep_shows_context_once(fixture: impl BackendFixture) {
    fixture
        .put("a.txt", b"1\n2\nx 3\n4\nx 5\n6\n7\nx 8\n")
        .await;
    let found = grep(&fixture, "x", |query| {
        query.before = 1;
        query.after = 1;
    });
    let found = works("grep", found.await);
    let told: Vec<(u64, bool)> = found
        .lines
        .iter()
        .map(|line| (line.number, line.matched))
        .collect();
    assert_eq!(
        told,
        [
            (2, false),
            (3, true),
            (4, false),
            (5, true),
            (6, false),
            (7, false),
            (8, true)
        ]
    );
}

/// Count mode counts matching lines per file; files mode names each file once.
pub async fn grep_counts_and_names_files(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x x\nx\nnone\n").await;
    fixture.put("b.txt", b"x\n").await;
    fixture.put("c.txt", b"none\n").await;
    let counted = works(
        "grep",
        grep(&fixture, "x", |query| query.mode = GrepMode::Count).await,
    );
    let told: Vec<(&str, u64)> = counted
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.count))
        .collect();
    assert_eq!(told, [("a.txt", 2), ("b.txt", 1)]);
    assert_eq!(counted.lines, []);
    let named = works(
        "grep",
        grep(&fixture, "x", |query| query.mode = GrepMode::Files).await,
    );
    assert_eq!(counts(&named), ["a.txt", "b.txt"]);
    assert_eq!(named.lines, []);
}

/// Plain text is not a pattern.
pub async fn grep_takes_fixed_text_literally(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"a.c(\nabc\n").await;
    let found = works(
        "grep",
        grep(&fixture, "a.c(", |query| query.fixed = true).await,
    );
    assert_eq!(lines(&found), ["a.txt:1:a.c("]);
}

/// Case matters unless the query says otherwise.
pub async fn grep_ignores_case_when_asked(fixture: impl BackendFixture) {
    fixture.put("a.txt", "Needle\nÉté\n".as_bytes()).await;
    assert_eq!(
        works("grep", grep(&fixture, "needle", |_| {}).await).lines,
        []
    );
    for (pattern, expected) in [("needle", "a.txt:1:Needle"), ("été", "a.txt:2:Été")] {
        let found = works(
            "grep",
            grep(&fixture, pattern, |query| query.ignore_case = true).await,
        );
        assert_eq!(lines(&found), [expected]);
    }
}

/// A match across lines is found only if requested, and all its lines are reported.
pub async fn grep_spans_lines_when_asked(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"one\nfn x() {\n}\nfour\n").await;
    let pattern = r"\{\s*\n\}";
    if let Ok(found) = grep(&fixture, pattern, |_| {}).await {
        assert_eq!(found.lines, []);
    }
    let found = works(
        "grep",
        grep(&fixture, pattern, |query| query.multiline = true).await,
    );
    assert_eq!(lines(&found), ["a.txt:2:fn x() {", "a.txt:3:}"]);
}

/// A long line is cut at a character boundary, and the bytes left out are counted.
pub async fn grep_cuts_long_lines_and_counts_the_rest(fixture: impl BackendFixture) {
    fixture
        .put("a.txt", format!("x{}\n", "é".repeat(5000)).as_bytes())
        .await;
    let found = works(
        "grep",
        grep(&fixture, "x", |query| query.max_line_bytes = 100).await,
    );
    let line = found.lines.first().expect("a line");
    assert!(
        line.text.len() <= 100 && line.text.len() > 90,
        "{}",
        line.text.len()
    );
    assert!(line.text.starts_with("xé"));
    assert_eq!(line.text.len() as u64 + line.cut, 10_001);
}

/// Only the requested files; an unknown type is an error and not an empty answer.
pub async fn grep_keeps_to_its_glob_and_type(fixture: impl BackendFixture) {
    for path in ["top.rs", "src/lib.rs", "src/notes.txt"] {
        fixture.put(path, b"x\n").await;
    }
    let rust = ["src/lib.rs:1:x", "top.rs:1:x"];
    let globbed = works(
        "grep",
        grep(&fixture, "x", |query| query.glob = Some("*.rs")).await,
    );
    assert_eq!(lines(&globbed), rust);
    let deep = works(
        "grep",
        grep(&fixture, "x", |query| query.glob = Some("**/*.rs")).await,
    );
    assert_eq!(lines(&deep), rust);
    let typed = works(
        "grep",
        grep(&fixture, "x", |query| query.file_type = Some("rust")).await,
    );
    assert_eq!(lines(&typed), rust);
    let unknown = grep(&fixture, "x", |query| {
        query.file_type = Some("no-such-type");
    });
    fails("type", unknown.await, ErrorKind::InvalidInput);
    let bad = grep(&fixture, "x", |query| query.glob = Some("a[")).await;
    fails("glob", bad, ErrorKind::InvalidInput);
}

/// A file or a folder narrows the search; paths are still relative to the workspace root.
pub async fn grep_searches_one_file_or_one_folder(fixture: impl BackendFixture) {
    for path in ["a.txt", "sub/a.txt", "sub/b.txt"] {
        fixture.put(path, b"x\n").await;
    }
    let folder = at("sub");
    let found = works(
        "grep",
        grep(&fixture, "x", |query| query.path = &folder).await,
    );
    assert_eq!(lines(&found), ["sub/a.txt:1:x", "sub/b.txt:1:x"]);
    let file = at("sub/b.txt");
    let found = works(
        "grep",
        grep(&fixture, "x", |query| query.path = &file).await,
    );
    assert_eq!(lines(&found), ["sub/b.txt:1:x"]);
    let missing = at("nothing");
    let found = grep(&fixture, "x", |query| query.path = &missing).await;
    fails("missing", found, ErrorKind::NotFound);
}

/// Files that `.gitignore` excludes are not searched.
pub async fn grep_respects_ignores(fixture: impl BackendFixture) {
    super::find::ignoring(&fixture).await;
    let found = works(
        "grep",
        grep(&fixture, "needle", |query| query.mode = GrepMode::Files).await,
    );
    assert_eq!(counts(&found), ["kept.txt", "src/kept.log"]);
}

/// Withheld files give no line, no name and no count, even when named directly.
pub async fn grep_withholds_what_may_not_be_read(fixture: impl BackendFixture) {
    for path in [".env", "deep/.env", "secrets/key.txt", "open.txt"] {
        fixture.put(path, b"x\n").await;
    }
    let withheld = ["**/.env".to_owned(), "secrets/**".to_owned()];
    for mode in [GrepMode::Content, GrepMode::Files, GrepMode::Count] {
        let found = grep(&fixture, "x", |query| {
            query.mode = mode;
            query.withheld = &withheld;
        });
        let found = works("grep", found.await);
        let named: Vec<&str> = found
            .lines
            .iter()
            .map(|line| line.path.as_str())
            .chain(counts(&found))
            .collect();
        assert_eq!(named, ["open.txt"], "{mode:?}");
    }
    let secret = at("secrets/key.txt");
    let direct = grep(&fixture, "x", |query| {
        query.path = &secret;
        query.withheld = &withheld;
    });
    if let Ok(found) = direct.await {
        assert_eq!(found.lines, [], "a withheld file was searched");
    }
}

/// PE-23: links that leave are not followed, and a path through one is refused.
pub async fn grep_never_leaves_the_workspace(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"needle\n").await;
    let folder = outside
        .strip_suffix("/secret.txt")
        .expect("its folder")
        .to_owned();
    fixture.put("kept.txt", b"needle\n").await;
    fixture.put_symlink("file", &outside).await;
    fixture.put_symlink("folder", &folder).await;
    fixture.put_symlink("up", "..").await;
    let found = works("grep", grep(&fixture, "needle", |_| {}).await);
    assert_eq!(lines(&found), ["kept.txt:1:needle"]);
    let refused = [ErrorKind::Symlink, ErrorKind::OutsideWorkspace];
    for path in ["file", "folder", "folder/secret.txt", "up"] {
        let path = at(path);
        let found = grep(&fixture, "needle", |query| query.path = &path).await;
        fails_as(path.as_str(), found, &refused);
    }
}

/// An invalid pattern is reported as the caller's mistake.
pub async fn grep_refuses_a_bad_pattern(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x\n").await;
    for pattern in ["(", "[z-a]", "a{2,1}", r"\p{Nope}", r"(?=look)", r"(a)\1"] {
        fails(
            pattern,
            grep(&fixture, pattern, |_| {}).await,
            ErrorKind::InvalidInput,
        );
    }
}

/// A pattern that would take too much memory is refused quickly.
pub async fn grep_refuses_a_pattern_that_is_too_large(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x\n").await;
    let refused = [ErrorKind::LimitExceeded, ErrorKind::InvalidInput];
    for pattern in [r"(\pL{500}){500}", r"((a{100}){100}){100}"] {
        fails_as(pattern, grep(&fixture, pattern, |_| {}).await, &refused);
    }
}

/// AI-01: nothing a model writes is a flag.
pub async fn grep_takes_no_text_for_a_flag(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"--pre=touch x\n-e\n").await;
    for (pattern, expected) in [
        ("--pre=touch", "a.txt:1:--pre=touch x"),
        ("-e", "a.txt:2:-e"),
    ] {
        let found = works("grep", grep(&fixture, pattern, |_| {}).await);
        assert_eq!(lines(&found), [expected]);
    }
}

/// Mistake 11: invalid UTF-8 neither stops nor breaks a search.
pub async fn grep_survives_bytes_that_are_no_text(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"\xff\xfe needle\n").await;
    fixture.put("b.txt", b"needle\n").await;
    let found = works(
        "grep",
        grep(&fixture, "needle", |query| query.mode = GrepMode::Files).await,
    );
    assert!(counts(&found).contains(&"b.txt"), "{found:?}");
    works("grep", grep(&fixture, "needle", |_| {}).await);
}

/// Results are told as they are found, each once, and never more than were asked for.
pub async fn grep_tells_what_it_finds(fixture: impl BackendFixture) {
    for path in ["a.txt", "b/c.txt"] {
        fixture.put(path, b"needle\nhay\nneedle\n").await;
    }
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tell = || {
        let told = Arc::clone(&told);
        Tell::new(move |found| {
            told.lock().unwrap().push(match found {
                GrepFound::Line(line) => format!("{}:{}:{}", line.path, line.number, line.text),
                GrepFound::File(file) => format!("{}: {}", file.path, file.count),
            });
        })
    };
    let mut all = ["a.txt", "b/c.txt"]
        .map(|path| [format!("{path}:1:needle"), format!("{path}:3:needle")])
        .concat();
    let checks: [(GrepMode, usize, usize, &[&str]); 3] = [
        (
            GrepMode::Content,
            0,
            1_000,
            &[
                "a.txt:1:needle",
                "a.txt:3:needle",
                "b/c.txt:1:needle",
                "b/c.txt:3:needle",
            ],
        ),
        (GrepMode::Content, 3, 1_000, &["b/c.txt:3:needle"]),
        (GrepMode::Count, 0, 1_000, &["a.txt: 2", "b/c.txt: 2"]),
    ];
    for (mode, offset, limit, expected) in checks {
        let found = grep(&fixture, "needle", |query| {
            (query.mode, query.offset, query.limit) = (mode, offset, limit);
            query.found = Some(tell());
        });
        works("grep", found.await);
        let mut seen = std::mem::take(&mut *told.lock().unwrap());
        seen.sort();
        assert_eq!(seen, expected);
    }
    let found = grep(&fixture, "needle", |query| {
        query.limit = 2;
        query.found = Some(tell());
    });
    works("grep", found.await);
    let seen = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(seen.len(), 2);
    all.retain(|line| !seen.contains(line));
    assert_eq!(all.len(), 2, "{seen:?}");
}

/// A search stops when told.
pub async fn grep_can_be_cancelled(fixture: impl BackendFixture) {
    fixture.put("a.txt", b"x\n").await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let found = grep(&fixture, "x", |query| query.cancel = &cancel).await;
    fails("grep", found, ErrorKind::Cancelled);
}

async fn grep<'q>(
    fixture: &impl BackendFixture,
    pattern: &'q str,
    change: impl FnOnce(&mut GrepQuery<'q>),
) -> Result<GrepResults, OpsError> {
    let mut query = GrepQuery {
        pattern,
        path: root_path(),
        glob: None,
        file_type: None,
        mode: GrepMode::Content,
        before: 0,
        after: 0,
        ignore_case: false,
        fixed: false,
        multiline: false,
        limit: 1000,
        offset: 0,
        max_line_bytes: 10_000,
        withheld: &[],
        found: None,
        cancel: never(),
    };
    change(&mut query);
    fixture.operations().search.grep(query).await
}

/// The lines as `path:number:text`.
fn lines(found: &GrepResults) -> Vec<String> {
    let lines = found.lines.iter();
    lines
        .map(|line| format!("{}:{}:{}", line.path, line.number, line.text))
        .collect()
}

fn counts(found: &GrepResults) -> Vec<&str> {
    found.files.iter().map(|file| file.path.as_str()).collect()
}

pub(super) fn root_path() -> &'static WorkPath {
    static ROOT: std::sync::OnceLock<WorkPath> = std::sync::OnceLock::new();
    ROOT.get_or_init(WorkPath::root)
}
