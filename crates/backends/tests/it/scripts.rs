//! Script folders: what is loaded, and what is refused.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use haft_backends::{MAX_MANIFEST_BYTES, load_scripts};
use sha2::Digest as _;

fn put(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "greet.toml",
        "description = \"greets\"\n",
        0o644,
    );
    put(folder.path(), "greet", "#!/bin/sh\necho hi\n", 0o755);
    folder
}

#[test]
fn loads_manifests_and_programs_sorted() {
    let folder = folder();
    put(folder.path(), "add.toml", "", 0o600);
    put(folder.path(), "add", "#!/bin/sh\n", 0o700);
    put(folder.path(), "README.md", "not a tool", 0o666);
    let scripts = load_scripts(folder.path()).unwrap();
    let names: Vec<_> = scripts.iter().map(|script| script.name.as_str()).collect();
    assert_eq!(names, ["add", "greet"]);
    assert_eq!(scripts[1].manifest_text, "description = \"greets\"\n");
    assert_eq!(
        scripts[1].program_path,
        folder.path().canonicalize().unwrap().join("greet")
    );
    let hash: [u8; 32] = sha2::Sha256::digest("#!/bin/sh\necho hi\n").into();
    assert_eq!(scripts[1].sha256, Some(hash));
    assert_eq!(scripts[1].interpreter.as_deref(), Some("/bin/sh"));
}

#[test]
fn a_program_that_is_not_there_and_interpreters_are_told() {
    let folder = folder();
    put(folder.path(), "absent.toml", "", 0o600);
    for (name, text) in [
        ("env", "#!/usr/bin/env python3\n"),
        ("flags", "#! /usr/bin/env -S node --test\n"),
        ("none", "\u{7f}ELF"),
    ] {
        put(folder.path(), &format!("{name}.toml"), "", 0o600);
        put(folder.path(), name, text, 0o700);
    }
    let scripts = load_scripts(folder.path()).unwrap();
    let told: Vec<_> = scripts
        .iter()
        .map(|script| {
            (
                &*script.name,
                script.sha256.is_some(),
                script.interpreter.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("absent", false, None),
        ("env", true, Some("python3")),
        ("flags", true, Some("node")),
        ("greet", true, Some("/bin/sh")),
        ("none", true, None),
    ];
    assert_eq!(told, expected);
}

/// What is done to the folder, the file the error names, and words of its reason.
type Change = fn(&Path);

const REFUSED: [(Change, &str, &str); 8] = [
    (|f| put(f, "greet", "x", 0o775), "greet", "may write"),
    (|f| put(f, "greet", "x", 0o757), "greet", "may write"),
    (|f| put(f, "greet", "x", 0o644), "greet", "not executable"),
    (
        |f| put(f, "greet.toml", "x", 0o666),
        "greet.toml",
        "may write",
    ),
    (
        |f| {
            fs::rename(f.join("greet"), f.join("real")).unwrap();
            symlink("real", f.join("greet")).unwrap();
        },
        "greet",
        "symlink",
    ),
    (
        |f| {
            fs::remove_file(f.join("greet.toml")).unwrap();
            symlink("/etc/hostname", f.join("greet.toml")).unwrap();
        },
        "greet.toml",
        "symlink",
    ),
    (
        |f| {
            fs::remove_file(f.join("greet")).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o755);
            rustix::fs::mkfifoat(rustix::fs::CWD, f.join("greet"), mode).unwrap();
        },
        "greet",
        "not a regular file",
    ),
    (
        |f| {
            let size = usize::try_from(MAX_MANIFEST_BYTES).unwrap() + 1;
            put(f, "greet.toml", &"#".repeat(size), 0o644);
        },
        "greet.toml",
        "larger than",
    ),
];

#[test]
fn what_others_could_have_changed_is_refused() {
    for (change, file, reason) in REFUSED {
        let folder = folder();
        load_scripts(folder.path()).expect("the control");
        change(folder.path());
        let error = load_scripts(folder.path()).unwrap_err();
        assert_eq!(error.file(), file);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_folder_everybody_may_write_to_is_refused() {
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = load_scripts(folder.path()).unwrap_err();
    assert!(error.to_string().contains("may write"), "{error}");
    assert!(load_scripts(Path::new("/nonexistent/scripts")).is_err());
}
