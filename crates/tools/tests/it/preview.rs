//! What a preview shows is what running the call does: the diff, applied to the old content by a
//! reader that forgives nothing, gives the bytes the call wrote.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, ErrorKind, ToolError, WorkPath,
    context::{PastChanges, PreviewContext},
    event::RecordedEvent,
    host::{ArtifactId, ReadArtifact},
    ops::{FileVersion, Operations, OpsError, PartChange, RepositoryOps, RepositoryPart},
    preview::{FileChangeKind, FileDiff, MAX_PREVIEW_BYTES, Preview, PreviewPart},
};
use haft_testkit::{
    Harness,
    memory::{self, MemoryTree},
};
use haft_tools::builtins;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A file tool asks nobody about the past.
struct NoPast;

impl PastChanges for NoPast {
    fn of<'a>(&'a self, _: &'a [CallId]) -> BoxFuture<'a, Result<Vec<RecordedEvent>, ToolError>> {
        unreachable!("asked about the past")
    }

    fn open(&self, _: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>> {
        unreachable!("asked about the past")
    }
}

/// Nor about a repository.
struct NoRepository;

impl RepositoryOps for NoRepository {
    fn read<'a>(
        &'a self,
        _: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<RepositoryPart>, OpsError>> {
        unreachable!("asked about git")
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Option<String>, OpsError>> {
        unreachable!("asked about git")
    }

    fn missing_objects<'a>(
        &'a self,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, OpsError>> {
        unreachable!("asked about git")
    }

    fn indexed<'a>(
        &'a self,
        _: Option<&'a [u8]>,
        _: &'a [WorkPath],
    ) -> BoxFuture<'a, Result<Option<Vec<WorkPath>>, OpsError>> {
        unreachable!("asked about git")
    }

    fn replace<'a>(
        &'a self,
        _: &'a [PartChange],
    ) -> BoxFuture<'a, Result<Vec<Option<FileVersion>>, OpsError>> {
        unreachable!("asked about git")
    }
}

struct Stage {
    operations: Operations,
    tree: MemoryTree,
    harness: Harness,
}

impl Stage {
    fn with(files: &[(&str, &[u8])]) -> Self {
        let (operations, tree) = memory::operations();
        for (path, bytes) in files {
            tree.put(path, bytes);
        }
        let harness = Harness::on(operations.clone()).tools(builtins()).build();
        Self {
            operations,
            tree,
            harness,
        }
    }

    async fn preview(&self, tool: &str, input: &Value) -> Result<Preview, ToolError> {
        let tools = builtins();
        let tool = tools.iter().find(|found| found.name().as_str() == tool);
        let tool = tool.expect("a tool");
        let parsed = tool.parse(input)?;
        let cx = PreviewContext {
            principal: Arc::clone(&self.harness.principal),
            root: Arc::clone(&self.operations.root),
            files: Arc::clone(&self.operations.files),
            repository: Arc::new(NoRepository),
            past: Arc::new(NoPast),
            databases: Arc::clone(&self.operations.world.databases),
            cancel: CancellationToken::new(),
        };
        tool.preview(&parsed, cx).await
    }

    async fn diffs(&self, tool: &str, input: &Value) -> Vec<FileDiff> {
        let preview = self.preview(tool, input).await.unwrap();
        let parts = preview.parts.into_iter();
        parts
            .map(|part| match part {
                PreviewPart::Diff(diff) => diff,
                other => panic!("{other:?} instead of a diff"),
            })
            .collect()
    }

    /// Previews, looks that nothing changed, runs, and compares.
    async fn check(&self, tool: &str, input: Value) {
        let diffs = self.diffs(tool, &input).await;
        let named = |diff: &FileDiff| (diff.path.clone(), self.tree.bytes(diff.path.as_str()));
        let before: Vec<_> = diffs.iter().map(named).collect();
        assert_eq!(before, diffs.iter().map(named).collect::<Vec<_>>());
        self.harness.succeed(tool, input).await;
        for (diff, (path, old)) in diffs.iter().zip(before) {
            let old = String::from_utf8(old.unwrap_or_default()).unwrap();
            let (at, gone) = match &diff.change {
                FileChangeKind::Create | FileChangeKind::Change => (&path, None),
                FileChangeKind::Remove => (&path, Some(&path)),
                FileChangeKind::Move { to } => (to, Some(&path)),
            };
            if let Some(gone) = gone {
                assert_eq!(self.tree.bytes(gone.as_str()), None);
            }
            let new = self.tree.bytes(at.as_str()).unwrap_or_default();
            assert_eq!(apply(&old, &diff.text), String::from_utf8(new).unwrap());
        }
    }
}

/// Applies a unified diff to the text it was made from. Every line must be where the diff says.
fn apply(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut lines = diff.split_inclusive('\n').peekable();
    let (mut new, mut at) = (String::new(), 0);
    if lines.peek().is_some() {
        assert!(lines.next().unwrap().starts_with("--- "));
        assert!(lines.next().unwrap().starts_with("+++ "));
    }
    while let Some(line) = lines.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let range = header.split(' ').next().unwrap();
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            let start: usize = start.parse().unwrap();
            // A range of no lines names the line before it.
            let start = if count == "0" { start } else { start - 1 };
            assert!(at <= start, "hunks in order");
            new.extend(old[at..start].iter().copied());
            at = start;
            continue;
        }
        let mut text = &line[1..];
        if lines.peek().is_some_and(|next| next.starts_with('\\')) {
            lines.next();
            text = text.strip_suffix('\n').unwrap();
        }
        match line.as_bytes()[0] {
            b' ' => {
                assert_eq!(old[at], text);
                new.push_str(text);
                at += 1;
            }
            b'-' => {
                assert_eq!(old[at], text);
                at += 1;
            }
            b'+' => new.push_str(text),
            _ => panic!("not a line of a diff: {line:?}"),
        }
    }
    new.extend(old[at..].iter().copied());
    new
}

fn on_a_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_write_does_what_its_preview_shows(
        old in proptest::option::of("([a-c]{0,2}(\n|\r\n|\r)){0,12}[a-c]{0,2}"),
        new in "([a-c]{0,2}(\n|\r\n|\r)){0,12}[a-c]{0,2}",
    ) {
        on_a_runtime(async {
            let stage = match &old {
                Some(old) => Stage::with(&[("x", old.as_bytes())]),
                None => Stage::with(&[]),
            };
            stage.check("write", json!({"path": "x", "content": new})).await;
        });
    }

    #[test]
    fn an_edit_does_what_its_preview_shows(
        old in "([a-c]{0,2}\n){0,12}x([a-c]{0,2}\n){0,12}[a-c]{0,2}",
        new in "[a-c\n\r]{0,6}",
        every in proptest::sample::select(vec!["a", "b\n", "\n"]),
    ) {
        on_a_runtime(async {
            let stage = Stage::with(&[("x", old.as_bytes())]);
            let one = json!({"path": "x", "edits": [{"old": "x", "new": new}]});
            stage.check("edit", one).await;
            let all = json!({"path": "x", "edits": [{"old": every, "new": "y", "all": true}]});
            if stage.preview("edit", &all).await.is_ok() {
                stage.check("edit", all).await;
            }
        });
    }
}

#[tokio::test]
async fn a_patch_does_what_its_preview_shows() {
    let files: [(&str, &[u8]); 3] = [
        ("a", b"one\ntwo\nthree\n"),
        ("b", b"gone\n"),
        ("c", b"moved\r\nsecond\r\n"),
    ];
    let envelope = "*** Begin Patch\n*** Update File: a\n@@\n one\n-two\n+TWO\n three\n\
                    *** Delete File: b\n*** Update File: c\n*** Move to: d\n@@\n-second\n+third\n\
                    *** Add File: e\n+new\n*** End Patch\n";
    let unified = "--- a/a\n+++ b/a\n@@ -1,3 +1,2 @@\n one\n-two\n three\n\
                   --- /dev/null\n+++ b/e\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n";
    for patch in [envelope, unified] {
        let stage = Stage::with(&files);
        stage.check("patch", json!({ "patch": patch })).await;
    }
    let stage = Stage::with(&files);
    let diffs = stage.diffs("patch", &json!({ "patch": envelope })).await;
    let words: Vec<&str> = diffs.iter().map(|diff| diff.change.as_str()).collect();
    assert_eq!(words, ["change", "remove", "move", "create"]);
}

#[tokio::test]
async fn a_copy_shows_what_will_be_there() {
    let stage = Stage::with(&[("a", b"one\n"), ("b", b"two\n"), ("bin", b"\0\x01")]);
    let onto = json!({"source": "a", "destination": "b", "overwrite": true});
    stage.check("copy", onto).await;
    stage
        .check("copy", json!({"source": "a", "destination": "new"}))
        .await;
    let binary = json!({"source": "bin", "destination": "c"});
    let [diff] = &stage.diffs("copy", &binary).await[..] else {
        panic!("one diff");
    };
    assert_eq!(diff.text, "");
    assert_eq!(diff.note.as_deref(), Some("binary content, 2 bytes"));
    let there = json!({"source": "a", "destination": "b"});
    let refused = stage.preview("copy", &there).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
}

/// A large copy is said in words and can be approved; a large text is shown whole, or not at all.
#[tokio::test]
async fn nothing_is_cut_out_of_a_preview() {
    let long = "a line\n".repeat(100_000);
    let stage = Stage::with(&[("long", long.as_bytes())]);
    let copy = json!({"source": "long", "destination": "copy"});
    let [diff] = &stage.diffs("copy", &copy).await[..] else {
        panic!("one diff");
    };
    assert_eq!(diff.note.as_deref(), Some("a copy of `long`, 700000 bytes"));
    let write = json!({"path": "new", "content": long});
    let preview = stage.preview("write", &write).await.unwrap();
    assert!(preview.bytes() > MAX_PREVIEW_BYTES);
}

#[tokio::test]
async fn a_call_that_would_fail_has_no_preview() {
    let stage = Stage::with(&[("a", b"one\n")]);
    for (tool, input) in [
        (
            "edit",
            json!({"path": "a", "edits": [{"old": "two", "new": "x"}]}),
        ),
        ("write", json!({"path": ".", "content": ""})),
        (
            "patch",
            json!({"patch": "*** Begin Patch\n*** Delete File: b\n*** End Patch\n"}),
        ),
    ] {
        assert!(stage.preview(tool, &input).await.is_err(), "{tool}");
    }
}
