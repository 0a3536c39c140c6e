//! Search: what the suite does not ask, because it takes a real file system.

use std::{fs, io::Write as _, os::unix::fs::symlink, time::Duration};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FindQuery, FindResults, FindSort, GrepMode, GrepQuery, GrepResults, OpsError},
};
use tokio_util::sync::CancellationToken;

use crate::{
    races::Swapper,
    workspace::{SECRET, Workspace, refused},
};

async fn grep(
    ws: &Workspace,
    pattern: &str,
    change: impl FnOnce(&mut GrepQuery<'_>),
) -> Result<GrepResults, OpsError> {
    let (path, cancel) = (WorkPath::root(), CancellationToken::new());
    let mut query = GrepQuery {
        pattern,
        path: &path,
        glob: None,
        file_type: None,
        mode: GrepMode::Content,
        before: 0,
        after: 0,
        ignore_case: false,
        fixed: false,
        multiline: false,
        limit: 100,
        offset: 0,
        max_line_bytes: 500,
        withheld: &[],
        found: None,
        cancel: &cancel,
    };
    change(&mut query);
    ws.backend.operations().search.grep(query).await
}

async fn find(ws: &Workspace, pattern: &str) -> Result<FindResults, OpsError> {
    let (path, cancel) = (WorkPath::root(), CancellationToken::new());
    let query = FindQuery {
        pattern,
        path: &path,
        kind: None,
        sort: FindSort::Path,
        respect_ignores: true,
        limit: 100,
        offset: 0,
        withheld: &[],
        found: None,
        cancel: &cancel,
    };
    ws.backend.operations().search.find(query).await
}

fn lines(results: &GrepResults) -> Vec<String> {
    let lines = results.lines.iter();
    lines
        .map(|line| format!("{}:{}:{}", line.path, line.number, line.text))
        .collect()
}

/// RX-15: patterns that blow up a backtracking engine or a compiler.
#[tokio::test]
async fn rx_15_hostile_patterns_are_linear_or_refused() {
    let ws = Workspace::new();
    ws.put("a", &"a".repeat(1 << 20));
    let cpu = haft_testkit::CpuTime::start();
    let found = grep(&ws, "(a+)+$", |_| {}).await.unwrap();
    assert_eq!(found.lines.len(), 1);
    assert_eq!(found.lines[0].cut, (1 << 20) - 500);
    assert!(grep(&ws, "(a+)+b", |_| {}).await.unwrap().lines.is_empty());
    refused(
        grep(&ws, ".{1,1000}{1,1000}", |_| {}).await,
        ErrorKind::LimitExceeded,
    );
    let huge = "a".repeat(10 << 20);
    refused(grep(&ws, &huge, |_| {}).await, ErrorKind::LimitExceeded);
    assert!(cpu.used() < Duration::from_secs(5), "{:?}", cpu.used());
}

/// RX-04: a line longer than the searcher's memory is passed over; the next file is searched.
#[tokio::test]
async fn rx_04_a_line_without_end_is_bounded() {
    let ws = Workspace::new();
    let file = fs::File::create(ws.root.join("a-huge")).unwrap();
    // Not zero bytes, which would make it binary: written once, as one line of 80 MB.
    let mut writer = std::io::BufWriter::new(file);
    let block = vec![b'x'; 1 << 20];
    for _ in 0..80 {
        writer.write_all(&block).unwrap();
    }
    writer.write_all(b"needle\n").unwrap();
    drop(writer);
    ws.put("b", "needle\n");
    let found = grep(&ws, "needle", |_| {}).await.unwrap();
    assert_eq!(lines(&found), ["b:1:needle"]);
}

#[tokio::test]
async fn binary_files_hidden_files_and_git() {
    let ws = Workspace::new();
    ws.put("binary", "needle?\0 needle\n");
    ws.put(".hidden/config", "needle\n");
    ws.put(".git/config", "needle\n");
    ws.put("sub/.git/config", "needle\n");
    ws.put("sub/plain", "needle\n");
    let found = grep(&ws, "needle", |_| {}).await.unwrap();
    assert_eq!(
        lines(&found),
        [".hidden/config:1:needle", "sub/plain:1:needle"]
    );
    let found = find(&ws, "config").await.unwrap();
    assert_eq!(found.entries.len(), 1);
}

/// Ignore files of every kind, and where git stops looking for them.
#[tokio::test]
async fn ignore_files_of_every_kind() {
    let ws = Workspace::new();
    ws.put(".git/info/exclude", "excluded\n");
    ws.put(".gitignore", "*.log\nonly-git\n");
    ws.put(".ignore", "!only-git\nfrom-ignore\n");
    ws.put("nested/.git/HEAD", "x");
    for path in [
        "excluded",
        "a.log",
        "only-git",
        "from-ignore",
        "kept",
        "nested/b.log",
        "sub/excluded",
        "sub/c.log",
    ] {
        ws.put(path, "needle\n");
    }
    let found = grep(&ws, "needle", |query| query.mode = GrepMode::Files).await;
    let found = found.unwrap();
    let paths: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["kept", "nested/b.log", "only-git"]);
    // Rules above hold where the search starts below them.
    let sub = WorkPath::relative("sub").unwrap();
    let cancel = CancellationToken::new();
    let query = FindQuery {
        pattern: "*",
        path: &sub,
        kind: None,
        sort: FindSort::Path,
        respect_ignores: true,
        limit: 100,
        offset: 0,
        withheld: &[],
        found: None,
        cancel: &cancel,
    };
    let found = ws.backend.operations().search.find(query).await.unwrap();
    assert_eq!(found.total, 0, "{found:?}");
}

/// The page is the same however many threads look, and a search that has its page ends early.
#[tokio::test]
async fn pages_over_many_files_fit_together() {
    let ws = Workspace::new();
    for directory in 0..60 {
        for file in 0..20 {
            ws.put(
                &format!("d{directory:02}/f{file:02}"),
                "needle one\nneedle two\n",
            );
        }
    }
    let whole = grep(&ws, "needle", |query| query.limit = 10_000)
        .await
        .unwrap();
    assert_eq!(whole.lines.len(), 2400);
    assert_eq!(whole.searched, 1200);
    let mut pages = Vec::new();
    for offset in (0..2400).step_by(700) {
        let page = grep(&ws, "needle", |query| {
            query.limit = 700;
            query.offset = offset;
        });
        let page = page.await.unwrap();
        assert_eq!(page.more, offset + 700 < 2400);
        pages.extend(page.lines);
    }
    assert_eq!(pages, whole.lines);
    let first = grep(&ws, "needle", |query| query.limit = 3).await.unwrap();
    assert!(first.more);
    assert!(first.searched < 1200, "it did not end early");
}

/// One directory with more files than a worker takes at once.
#[tokio::test]
async fn a_very_large_directory_is_searched_whole() {
    let ws = Workspace::new();
    for file in 0..3000 {
        fs::write(ws.root.join(format!("f{file:04}")), "needle\n").unwrap();
    }
    let found = grep(&ws, "needle", |query| {
        query.mode = GrepMode::Files;
        query.limit = 10_000;
    });
    let found = found.await.unwrap();
    assert_eq!(found.files.len(), 3000);
    assert!(found.files.is_sorted_by(|a, b| a.path < b.path));
    assert_eq!(find(&ws, "f*").await.unwrap().total, 3000);
}

/// SL-07 for searches: a directory is swapped for a symlink to the outside while it is walked.
#[tokio::test]
async fn sl_07_searches_never_escape() {
    let ws = Workspace::in_memory();
    ws.put("d/harmless", "nothing");
    symlink(&ws.outside, ws.root.join("link")).unwrap();
    let swapper = Swapper::start(&ws.root);
    let (mut seen, mut rounds) = (0, 0);
    // Until it was a race, where one of the two threads gets no turn.
    while rounds < 1000 || ((swapper.swaps() <= 100 || seen == 0) && rounds < 100_000) {
        rounds += 1;
        let found = grep(&ws, SECRET, |query| query.fixed = true).await.unwrap();
        assert_eq!(found.lines, [], "a search read the secret");
        let found = find(&ws, "{secret,harmless}").await.unwrap();
        for entry in &found.entries {
            assert!(entry.path.ends_with("harmless"), "{}", entry.path);
            seen += 1;
        }
    }
    assert!(seen > 0, "nothing was ever found, so nothing was shown");
    assert!(swapper.swaps() > 100, "the race did not take place");
}

/// PE-10: names with line ends and escapes are data.
#[tokio::test]
async fn pe_10_names_with_control_characters_are_found_as_they_are() {
    let ws = Workspace::new();
    let name = "a\nb\u{1b}[31m";
    ws.put(name, "needle\n");
    let found = grep(&ws, "needle", |_| {}).await.unwrap();
    assert_eq!(found.lines[0].path, name);
}

/// An ignore file of very many patterns costs neither much time nor much memory: those past the cap
/// are as if they were not there.
#[tokio::test]
async fn rx_ignore_files_are_bounded() {
    let ws = Workspace::new();
    let hostile: Vec<String> = (0..16_000)
        .map(|number| format!("a*b?{number}[c-d]*e/**/f*g"))
        .collect();
    let hostile = hostile.join("\n");
    fs::write(
        ws.root.join(".gitignore"),
        format!("early\n{hostile}\nlate\n"),
    )
    .unwrap();
    fs::create_dir(ws.root.join("below")).unwrap();
    fs::write(ws.root.join("below/.gitignore"), "own\n").unwrap();
    for name in ["early", "late", "below/own", "below/other"] {
        fs::write(ws.root.join(name), "needle").unwrap();
    }
    let found = find(&ws, "**/{early,late,own,other}").await.unwrap();
    let paths: Vec<&str> = found
        .entries
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["below/other", "late"]);
}
