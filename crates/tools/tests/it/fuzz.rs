//! Hostile patches through the real pipeline: all of it or nothing, and only what it names.

use std::collections::BTreeMap;

use haft_testkit::{Fuzz, ParseOutcome, memory::MemoryTree};
use serde_json::{Value, json};

use crate::workspace::{Workspace, structured};

const FILES: [(&str, &str); 4] = [
    (
        "src/a.rs",
        "fn one() {\n    old();\n}\nfn two() {\n    old();\n}\n",
    ),
    ("run.sh", "echo one\n"),
    ("gone.txt", "x\n"),
    ("unnamed.txt", "nobody speaks of this\n"),
];

const PATCHES: [&str; 7] = [
    // The second of these fails when the first is done, which then has to be taken back.
    "*** Begin Patch\n*** Add File: n\n+n\n*** Add File: n/m\n+m\n*** End Patch",
    "*** Begin Patch\n*** Update File: src/a.rs\n@@ fn two() {\n-    old();\n+    new();\n*** Update File: run.sh\n\
     *** Move to: bin/run.sh\n-echo one\n+echo two\n*** Add File: docs/new.md\n+# New\n*** Delete File: gone.txt\n*** End Patch",
    "*** Begin Patch\n*** Add File: src/b.rs\n+b\n*** Update File: src/a.rs\n-fn one() {\n+fn three() {\n*** End Patch",
    "*** Begin Patch\n*** Delete File: gone.txt\n*** Add File: gone.txt/x\n+x\n*** End Patch",
    "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n fn one() {\n-    old();\n+    new();\n }\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    "diff --git a/run.sh b/go.sh\nrename from run.sh\nrename to go.sh\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n",
    "*** Begin Patch\n*** Update File: run.sh\n*** Move to: src/a.rs/x\n*** End Patch",
];

const WORDS: [&str; 24] = [
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
    "*** End Patch",
    "src/a.rs\n",
    "run.sh\n",
    "gone.txt\n",
    "docs/new.md\n",
    "src\n",
    "src/a.rs/x\n",
    "../out\n",
    "/etc/x\n",
    "./run.sh\n",
    "-echo one\n",
    "+echo two\n",
    " fn one() {\n",
    "-x\n",
    "+y\n",
    "@@\n",
    "\n",
    "*** Add File: run.sh/x\n+x\n",
    "*** Add File: docs/z\n+z\n",
    "*** Delete File: run.sh\n",
];

/// Every file and what is in it.
fn files(tree: &MemoryTree) -> BTreeMap<String, Vec<u8>> {
    let paths = tree.paths().into_iter();
    paths
        .filter_map(|path| tree.bytes(&path).map(|bytes| (path, bytes)))
        .collect()
}

#[test]
fn a_patch_envelope_changes_all_it_names_or_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let workspace = Workspace::memory();
    let tree = &workspace.harness.tree;
    Fuzz::seeds(PATCHES)
        .words(WORDS)
        .inputs(250)
        .longest(1024)
        .run(|bytes| {
            for path in tree.paths() {
                tree.delete(&path);
            }
            for (path, text) in FILES {
                workspace.put(path, text);
            }
            let (everything, before) = (tree.paths(), files(tree));
            let text = String::from_utf8_lossy(bytes).into_owned();
            let call = workspace.harness.call("patch", json!({ "patch": text }));
            let outcome = runtime.block_on(call);
            let after = files(tree);
            if !outcome.succeeded() {
                assert_eq!(before, after, "a patch that failed changed something");
                assert_eq!(
                    everything,
                    tree.paths(),
                    "a patch that failed left a directory"
                );
                return ParseOutcome::Refused;
            }
            let listed = structured(&outcome)["files"].as_array().unwrap();
            let word = |file: &Value, key: &str| file[key].as_str().unwrap().to_owned();
            let moved = listed
                .iter()
                .filter(|file| word(file, "change") == "moved")
                .count();
            let mut gone = 0;
            let names = before.keys().chain(after.keys());
            for path in names.collect::<std::collections::BTreeSet<_>>() {
                if before.get(path) == after.get(path) {
                    continue;
                }
                let name = path.rsplit('/').next().unwrap();
                assert!(text.contains(name), "`{path}` was changed and is not named");
                if !listed.iter().any(|file| word(file, "path") == *path) {
                    assert!(
                        !after.contains_key(path),
                        "`{path}` was changed and is not listed"
                    );
                    gone += 1;
                }
            }
            assert!(gone <= moved, "{gone} files are gone, {moved} moved");
            for file in listed {
                let path = word(file, "path");
                let there = after.contains_key(&path);
                assert_eq!(there, word(file, "change") != "deleted", "`{path}`");
            }
            ParseOutcome::Taken
        });
}
