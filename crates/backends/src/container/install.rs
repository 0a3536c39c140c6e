//! The helper mode that an upload ends with, in the container: the uploaded program hashes itself
//! and takes the name of its hash. A file with such a name is therefore complete, whatever happened
//! to the archive it came in.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::program::{COMPLETE, INCOMPLETE};
use crate::client_program::Digest;

/// The mode.
pub(crate) const INSTALL: &str = "install";

/// Gives this program its final name.
pub(crate) fn install() -> ExitCode {
    match std::env::current_exe().and_then(|own| install_file(&own)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody reads it, there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "haft helper: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Renames an uploaded file to its hash; returns its name. The first of several uploads wins.
fn install_file(own: &Path) -> std::io::Result<PathBuf> {
    let uploaded = own.file_name().and_then(|name| name.to_str());
    if !uploaded.is_some_and(|name| name.starts_with(INCOMPLETE)) {
        return Err(std::io::Error::other("this program was not uploaded"));
    }
    let digest = Digest::of(&std::fs::read(own)?);
    let complete = own.with_file_name(format!("{COMPLETE}{digest}"));
    match renameat_with(CWD, own, CWD, &complete, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // Another Haft was faster, and may be running it.
        Err(Errno::EXIST) => std::fs::remove_file(own)?,
        Err(errno) => return Err(errno.into()),
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use super::*;

    #[test]
    fn the_first_upload_wins_and_nothing_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let upload = |name: &str| {
            let path = directory.path().join(name);
            fs::write(&path, "the program").unwrap();
            path
        };
        let first = install_file(&upload("upload-1")).unwrap();
        let inode = fs::metadata(&first).unwrap().ino();
        assert_eq!(install_file(&upload("upload-2")).unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().ino(), inode);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let name = first.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, format!("helper-{}", Digest::of(b"the program")));
        install_file(&upload("haft")).unwrap_err();
    }
}
