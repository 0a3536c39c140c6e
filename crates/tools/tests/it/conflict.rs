//! Somebody else changes a file between the moment a tool read it and the moment it writes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    BoxFuture, ErrorKind, WorkPath,
    ops::{
        CopyFile, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing, Operations,
        OpsError, Overwrite, RemoveScope, ResolvedPath, WriteFile, WrittenFile,
    },
};
use haft_testkit::{
    Harness,
    memory::{self, MemoryTree},
};
use haft_tools::builtins;
use serde_json::json;

type Answer<'a, T> = BoxFuture<'a, Result<T, OpsError>>;

/// Files in memory that somebody changes just before the given write.
struct Interfered {
    files: Arc<dyn FileOps>,
    tree: MemoryTree,
    writes_left: AtomicUsize,
    changes: &'static str,
}

impl FileOps for Interfered {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> Answer<'a, ResolvedPath> {
        self.files.resolve(path)
    }
    fn stat<'a>(&'a self, path: &'a WorkPath) -> Answer<'a, FileStat> {
        self.files.stat(path)
    }
    fn open<'a>(&'a self, path: &'a WorkPath) -> Answer<'a, Box<dyn FileReader>> {
        self.files.open(path)
    }
    fn write<'a>(&'a self, path: &'a WorkPath, write: WriteFile<'a>) -> Answer<'a, WrittenFile> {
        if self.writes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.tree.put(self.changes, "somebody else's\n");
        }
        self.files.write(path, write)
    }
    fn append<'a>(&'a self, path: &'a WorkPath, bytes: &'a [u8]) -> Answer<'a, WrittenFile> {
        self.files.append(path, bytes)
    }
    fn list<'a>(&'a self, path: &'a WorkPath, query: ListQuery<'a>) -> Answer<'a, Listing> {
        self.files.list(path, query)
    }
    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> Answer<'a, ()> {
        self.files.make_dir(path)
    }
    fn remove<'a>(&'a self, path: &'a WorkPath, scope: RemoveScope) -> Answer<'a, ()> {
        self.files.remove(path, scope)
    }
    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        self.files.rename(from, to, overwrite)
    }
    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> Answer<'a, ()> {
        self.files.remove_version(path, version)
    }
    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> Answer<'a, ()> {
        self.files.rename_version(from, to, version)
    }
    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> Answer<'a, WrittenFile> {
        self.files.copy(from, to, copy)
    }
}

/// A workspace where `changes` is changed just before the `write`th write.
fn interfered(changes: &'static str, write: usize) -> (Harness, MemoryTree) {
    let (operations, tree) = memory::operations();
    let files = Interfered {
        files: Arc::clone(&operations.files),
        tree: tree.clone(),
        writes_left: AtomicUsize::new(write),
        changes,
    };
    let operations = Operations {
        files: Arc::new(files),
        ..operations
    };
    let harness = Harness::on(operations).tools(builtins()).build();
    (harness, tree)
}

async fn conflicts(harness: &Harness, tool: &str, input: serde_json::Value) {
    let outcome = harness.fail(tool, input).await;
    let failure = outcome.error.as_ref().expect("a failure");
    assert_eq!(failure.kind, ErrorKind::Conflict, "{failure}");
}

#[tokio::test]
async fn pe_25_an_edit_of_a_file_replaced_since_it_was_read_writes_nothing() {
    let (harness, tree) = interfered("a.txt", 1);
    tree.put("a.txt", "one\n");
    let input = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
    conflicts(&harness, "edit", input).await;
    assert_eq!(tree.text("a.txt"), "somebody else's\n");
}

#[tokio::test]
async fn pe_25_a_write_over_a_file_that_appears_or_changes_writes_nothing() {
    for before in [None, Some("one\n")] {
        let (harness, tree) = interfered("a.txt", 1);
        if let Some(before) = before {
            tree.put("a.txt", before);
        }
        let outcome = harness
            .fail("write", json!({"path": "a.txt", "content": "two"}))
            .await;
        assert!(outcome.error.is_some());
        assert_eq!(tree.text("a.txt"), "somebody else's\n");
    }
}

#[tokio::test]
async fn pe_25_a_patch_that_meets_a_change_takes_back_what_it_wrote() {
    let (harness, tree) = interfered("b.txt", 2);
    tree.put("a.txt", "a\n");
    tree.put("b.txt", "b\n");
    tree.put("c.txt", "c\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-a\n+A\n*** Update File: b.txt\n-b\n+B\n\
                 *** Delete File: c.txt\n*** End Patch";
    conflicts(&harness, "patch", json!({"patch": patch})).await;
    assert_eq!(tree.text("a.txt"), "a\n");
    assert_eq!(tree.text("b.txt"), "somebody else's\n");
    assert_eq!(tree.text("c.txt"), "c\n");
}
