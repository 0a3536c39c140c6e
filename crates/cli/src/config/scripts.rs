//! Script tools of the folders an operator configured. A script is offered only if its manifest and
//! its program are as they were when they were trusted; the back end checks the program's hash
//! once more on the very file it runs.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use haft_tools::script::{ScriptManifest, ScriptSource};

use super::{
    private,
    trust::{Trust, TrustStore, sha256},
};

/// The most scripts in one folder.
const MAX_SCRIPTS: usize = 1_000;

/// The largest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 256 * 1024;

/// The largest program that is read.
const MAX_PROGRAM_BYTES: u64 = 64 * 1024 * 1024;

/// One script as found.
#[derive(Debug)]
pub(crate) struct FoundScript {
    /// The manifest.
    pub(crate) manifest_path: PathBuf,
    /// What came of looking at it.
    pub(crate) state: ScriptState,
}

/// What came of looking at a script.
#[derive(Debug)]
pub(crate) enum ScriptState {
    /// Trusted, and as it was then.
    Ready(Box<ScriptSource>),
    /// Not to be used, and why.
    Refused(String),
}

/// The bytes of a script, for pinning.
#[derive(Debug)]
pub(crate) struct ScriptFiles {
    manifest: (PathBuf, Vec<u8>),
    program: (PathBuf, Vec<u8>),
}

impl ScriptFiles {
    /// The manifest.
    pub(crate) fn manifest_path(&self) -> &Path {
        &self.manifest.0
    }

    /// Pins both files at what they hold.
    pub(crate) fn pin(&self, store: &mut TrustStore) {
        for (path, bytes) in [&self.manifest, &self.program] {
            store.pin(path, bytes);
        }
    }
}

/// Looks at every script of a folder, in order of file name.
pub(crate) fn find(folder: &Path, store: &TrustStore) -> io::Result<Vec<FoundScript>> {
    let found = manifests(folder)?;
    Ok(found.into_iter().map(|manifest| look(manifest, store)).collect())
}

/// Looks at one script.
pub(crate) fn look(manifest_path: PathBuf, store: &TrustStore) -> FoundScript {
    let state = match load(&manifest_path, store) {
        Ok(source) => ScriptState::Ready(Box::new(source)),
        Err(why) => ScriptState::Refused(why),
    };
    FoundScript { manifest_path, state }
}

/// Reads every script of a folder for pinning.
pub(crate) fn read_all(folder: &Path) -> io::Result<Vec<Result<ScriptFiles, String>>> {
    Ok(manifests(folder)?.iter().map(|path| read(path)).collect())
}

fn load(manifest_path: &Path, store: &TrustStore) -> Result<ScriptSource, String> {
    let files = read(manifest_path)?;
    for (path, bytes) in [&files.manifest, &files.program] {
        match store.of(path, bytes) {
            Trust::Trusted => {}
            Trust::Changed => return Err(format!("`{}` changed since it was trusted", path.display())),
            Trust::Never => return Err(format!("`{}` was never trusted", path.display())),
        }
    }
    let (program_path, program) = files.program;
    Ok(ScriptSource {
        manifest_text: String::from_utf8(files.manifest.1).map_err(|_| "it is not UTF-8".to_owned())?,
        program_path: program_path
            .to_str()
            .ok_or_else(|| "its path is not UTF-8".to_owned())?
            .to_owned(),
        sha256: sha256(&program),
    })
}

/// Reads one script for pinning.
pub(crate) fn read(manifest_path: &Path) -> Result<ScriptFiles, String> {
    let bytes = read_file(manifest_path, MAX_MANIFEST_BYTES)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| format!("`{}` is not UTF-8", manifest_path.display()))?;
    let manifest = ScriptManifest::parse(text)
        .map_err(|error| format!("`{}`: {error}", manifest_path.display()))?;
    let program_path = manifest_path.with_file_name(&manifest.program);
    let program = read_file(&program_path, MAX_PROGRAM_BYTES)?;
    Ok(ScriptFiles {
        manifest: (manifest_path.to_owned(), bytes),
        program: (program_path, program),
    })
}

fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    match private::read(path, limit) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(format!("`{}` does not exist", path.display())),
        Err(error) => Err(format!("`{}`: {error}", path.display())),
    }
}

fn manifests(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = fs::canonicalize(folder)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("toml")) {
            found.push(path);
        }
        if found.len() > MAX_SCRIPTS {
            return Err(io::Error::other(format!("it holds more than {MAX_SCRIPTS} scripts")));
        }
    }
    found.sort();
    Ok(found)
}
