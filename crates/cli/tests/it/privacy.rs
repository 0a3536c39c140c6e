//! What belongs to the operator alone: the program's environment, and the files that decide what
//! tools may do.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
};

use crate::support::Stage;

/// A user with no rights of its own.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Root may read everything, so as root the program runs as somebody else.
#[test]
fn au_01_a_command_cannot_read_the_environment_of_the_program() {
    const SECRET: &str = "canary-7d1f0c";
    let stage =
        Stage::with_config("[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n");
    let program = stage.home.join("haft");
    fs::copy(env!("CARGO_BIN_EXE_haft"), &program).unwrap();
    let run = |script: &str| {
        let prepared = stage.command(&["call", "bash", script]);
        let mut command = std::process::Command::new(&program);
        command
            .args(prepared.get_args())
            .current_dir(&stage.work)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &stage.home)
            .env("USER", "ada")
            .env("SECRET", SECRET);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let ran = command.output().unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    if is_root() {
        give_to_nobody(stage.home.parent().unwrap());
    }
    let parent = run("tr '\\0' ' ' < /proc/$PPID/cmdline; id -u");
    assert!(parent.contains("call bash"), "{parent}");
    assert!(!parent.lines().any(|line| line == "0"), "{parent}");
    let read = run("cat /proc/$PPID/environ");
    assert!(!read.contains(SECRET), "{read}");
    assert!(read.contains("denied"), "{read}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn sb_14_a_sandboxed_command_sees_nothing_of_the_program_at_all() {
    const SECRET: &str = "canary-41c6aa";
    let stage = Stage::with_config("[policy]\nallow = [\"bash\"]\n");
    let script = "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; echo end";
    let ran = stage
        .command(&["call", "bash", script])
        .env("SECRET", SECRET)
        .output()
        .unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(text.contains("end\n"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    // Its own words are there; those of the program that runs it are not.
    assert!(!text.contains("call\nbash\n"), "{text}");
}

fn give_to_nobody(folder: &Path) {
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            give_to_nobody(&path);
        } else {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

#[test]
fn mc_15_files_that_others_can_write_decide_nothing() {
    let stage = Stage::with_config("[policy]\npreset = \"workspace\"\n");
    let user = stage.home.join(".config/haft/haft.toml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(&user, "[policy]\n").unwrap();
    let data = stage.home.join(".local/share/haft");
    let files = [
        (user.parent().unwrap().to_owned(), 0o755),
        (user, 0o644),
        (data.join("trust.json"), 0o600),
        (data, 0o700),
    ];
    for (path, mode) in &files {
        set_mode(path, *mode);
    }
    stage.haft(&["call", "list", "path=."]).ok();
    for (path, mode) in &files {
        for open in [0o002, 0o020] {
            set_mode(path, mode | open);
            let error = stage.haft(&["call", "list", "path=."]).fails(7);
            assert!(error.contains("can be written by others"), "{error}");
            assert!(error.contains("chmod go-w"), "{error}");
        }
        set_mode(path, *mode);
        if is_root() {
            chown(path, Some(NOBODY), None).unwrap();
            let error = stage.haft(&["call", "list", "path=."]).fails(7);
            assert!(
                error.contains("belongs to user 65534, not to you"),
                "{error}"
            );
            chown(path, Some(0), None).unwrap();
        }
    }
    stage.haft(&["call", "list", "path=."]).ok();
}
