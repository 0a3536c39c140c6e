//! Looks for an installed helper, for programs that are none themselves, such as test executables.
//!
//! A helper is started before anything is confined. So one that others could replace is not taken,
//! nor one of another version, which might read what it is told differently: each candidate is asked.
//! It is copied before that, so that what answered is what is started.

use std::{
    collections::BTreeMap,
    ffi::CString,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use crate::{
    helper_flag::{FLAG, VARIABLE},
    helper_program::HelperProgram,
    loopback::EndedOnDrop,
    orphans::BaseDirectories,
    own_copy::{self, ProgramIdentity},
    readable::readable,
    spawn::{self, Launch},
    spawner,
};

/// The helper mode that says which version it is.
pub(crate) const VERSION: &str = "version";

/// Raised whenever what a helper is told, or what it reports, changes.
const PROTOCOL: u32 = 2;

/// The names of helpers: the program that is nothing else, and the command line.
const NAMES: [&str; 2] = ["haft-helper", "haft"];

/// The most directories of `PATH` that are looked at.
const MAX_DIRECTORIES: usize = 64;

/// How long a candidate may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The longest answer that is read.
const MAX_ANSWER: usize = 256;

/// The permission bit that lets everybody write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// What a helper of this version answers.
pub(crate) fn answer() -> String {
    format!("haft-helper {} {PROTOCOL}\n", env!("CARGO_PKG_VERSION"))
}

/// The first helper that answers among those that may be used, which are asked by their paths without
/// symlinks. What is asked is what is started later: a copy, unless only root can replace the file.
pub(crate) fn find(
    may_use: &dyn Fn(&Path) -> bool,
    bases: &BaseDirectories,
) -> Option<HelperProgram> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let own = std::env::current_exe().ok();
    let candidates = match &named {
        Some(named) => vec![named.clone()],
        None => places(own.as_deref(), &directories()),
    };
    candidates.into_iter().find_map(|path| {
        let path = std::fs::canonicalize(path.is_absolute().then_some(path)?).ok()?;
        let is_ours = || named.is_some() || (is_private(&path) && Some(&path) != own.as_ref());
        if path.is_file() && may_use(&path) && is_ours() {
            answering(path, bases)
        } else {
            None
        }
    })
}

/// The directories of `PATH`.
fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).take(MAX_DIRECTORIES).collect()
}

/// Where a helper may be: beside this program, and, for tests and examples, beside their directory;
/// then in the directories of `PATH`.
fn places(own: Option<&Path>, directories: &[PathBuf]) -> Vec<PathBuf> {
    let [helper, _] = NAMES;
    let beside = own.and_then(Path::parent).into_iter().flat_map(|here| {
        let is_of_cargo = here.ends_with("deps") || here.ends_with("examples");
        let above = here.parent().filter(|_| is_of_cargo);
        [Some(here), above].into_iter().flatten()
    });
    let beside = beside.map(|directory| directory.join(helper));
    let installed = directories
        .iter()
        .flat_map(|directory| NAMES.map(|name| directory.join(name)));
    beside.chain(installed).collect()
}

/// Whether only this user and root can replace a program, as far as it and its directory say.
fn is_private(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    [Some(path), path.parent()].into_iter().all(|place| {
        place
            .and_then(|place| std::fs::metadata(place).ok())
            .is_some_and(|found| {
                (found.uid() == 0 || found.uid() == own) && found.mode() & WRITABLE_BY_ALL == 0
            })
    })
}

/// The program at a path, if it answers as a helper of this version. One that did not is not asked
/// again before its file changes.
fn answering(path: PathBuf, bases: &BaseDirectories) -> Option<HelperProgram> {
    static SILENT: Mutex<BTreeMap<PathBuf, ProgramIdentity>> = Mutex::new(BTreeMap::new());
    let identity = own_copy::identity(&std::fs::metadata(&path).ok()?);
    let silent = || SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    if silent().get(&path) == Some(&identity) {
        return None;
    }
    let found = match HelperProgram::at(path, bases) {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(
                ?error,
                "a program that may set up sandboxes cannot be copied"
            );
            return None;
        }
    };
    let is_ours = |said: Vec<u8>| said == answer().as_bytes();
    if found.answers(|path| ask(path).is_ok_and(is_ours)) {
        return Some(found);
    }
    silent().insert(found.source().to_owned(), identity);
    None
}

/// What a program says when it is asked for its version.
fn ask(path: &Path) -> Result<Vec<u8>, Errno> {
    let deadline = Instant::now() + ANSWER_WAIT;
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    let program = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let started = spawner::run(move || start(&program, &theirs))?;
    // A program that is no helper may go on for ever.
    let _asked = EndedOnDrop(started);
    let mut pipe = std::fs::File::from(ours);
    let mut said = Vec::new();
    while said.len() < MAX_ANSWER && readable(pipe.as_fd(), deadline)? {
        let mut some = [0; MAX_ANSWER];
        match pipe.read(&mut some) {
            Ok(0) => return Ok(said),
            Ok(read) => said.extend(some.iter().take(read)),
            Err(_) => return Err(Errno::IO),
        }
    }
    Err(Errno::TIMEDOUT)
}

fn start(program: &CString, output: &OwnedFd) -> Result<spawn::StartedChild, Errno> {
    let word = |word: String| CString::new(word).map_err(|_| Errno::INVAL);
    let words = ["haft", FLAG, VERSION].map(|text| word(text.to_owned()));
    let words = words.into_iter().collect::<Result<Vec<_>, _>>()?;
    // A program that looks for helpers itself must not ask others on, or itself.
    let environment = [word(format!("{VARIABLE}="))?];
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    spawn::launch(&Launch {
        program,
        arguments: &words,
        environment: &environment,
        directory: root.as_fd(),
        descriptors: &[nothing.as_fd(), output.as_fd(), nothing.as_fd()],
        terminal: None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_test_finds_the_helper_that_is_built_beside_it() {
        let found = places(Some(Path::new("/t/debug/deps/it-1")), &["/bin".into()]);
        let expect = [
            "/t/debug/deps/haft-helper",
            "/t/debug/haft-helper",
            "/bin/haft-helper",
            "/bin/haft",
        ];
        assert_eq!(found, expect.map(PathBuf::from));
        let found = places(Some(Path::new("/t/debug/program")), &[]);
        assert_eq!(found, [PathBuf::from("/t/debug/haft-helper")]);
    }

    #[test]
    fn only_a_program_that_answers_with_this_version_is_taken() {
        let (place, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let check = |name: &str, script: String, expect: bool| {
            let path = place.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            let path = path.canonicalize().unwrap();
            let bases = BaseDirectories::new(None, copies.path());
            // A second time, when it is known.
            for _ in 0..2 {
                let found = answering(path.clone(), &bases);
                assert_eq!(found.is_some(), expect, "{name}");
            }
        };
        let right = answer();
        let right = right.trim();
        check(
            "right",
            format!("[ \"$2\" = version ] && echo '{right}'"),
            true,
        );
        check("older", "echo 'haft-helper 0.0.0 1'".to_owned(), false);
        check("silent", "exit 0".to_owned(), false);
        check("chatty", "yes".to_owned(), false);
        // It must not look for helpers in its turn, which might be itself.
        check(
            "asked on",
            format!("[ -z \"${{{VARIABLE}-unset}}\" ] && echo '{right}'"),
            true,
        );
    }

    #[test]
    fn what_answered_is_what_is_started_whatever_becomes_of_its_file() {
        let (place, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = place.path().canonicalize().unwrap().join("haft");
        let put = |script: String| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        put(format!("echo '{}'", answer().trim()));
        let bases = BaseDirectories::new(None, copies.path());
        let found = answering(path.clone(), &bases).unwrap();
        put("echo another".to_owned());
        assert_eq!(ask(found.path()).unwrap(), answer().as_bytes());
        // It is looked for again only by what is opened from now on.
        assert!(answering(path.clone(), &bases).is_none());
        let copy = found.path().to_owned();
        drop(found);
        assert!(!copy.exists());
    }

    #[test]
    fn what_others_can_replace_is_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("haft-helper");
        std::fs::write(&path, "").unwrap();
        for (of, mode, expect) in [
            (&*path, 0o755, true),
            (&*path, 0o757, false),
            (&*path, 0o755, true),
            (place.path(), 0o777, false),
        ] {
            std::fs::set_permissions(of, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(is_private(&path), expect, "{mode:o}");
        }
    }
}
