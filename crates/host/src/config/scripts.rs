//! Script tools in the folders an operator configured. A script is offered only if its manifest and
//! its program have not changed since they were trusted. The back end checks the program's hash
//! again on the very file it runs.
//!
//! The back ends read the folder; this file compares with the pins.

use std::path::{Path, PathBuf};

use haft_backends::{ScriptFile, load_scripts};
use haft_contract::egress::HostRule;
use haft_egress::never_granted;
use haft_tools::script::{ScriptHosts, ScriptManifest, ScriptSource};

use super::trust::{Trust, TrustStore, sha256};

/// A script found on disk, trusted or not.
#[derive(Debug)]
pub struct FoundScript {
    manifest_path: PathBuf,
    file: ScriptFile,
    manifest: ScriptManifest,
}

/// Finds every script of a folder, ordered by name.
pub fn find(folder: &Path) -> Result<Vec<FoundScript>, String> {
    let files = load_scripts(folder).map_err(|error| error.to_string())?;
    files
        .into_iter()
        .map(|file| FoundScript::new(folder, file))
        .collect()
}

/// Finds one script by its manifest.
pub fn find_one(manifest: &Path) -> Result<FoundScript, String> {
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let wanted = manifest.file_stem();
    find(folder)?
        .into_iter()
        .find(|script| script.manifest_path.file_stem() == wanted)
        .ok_or_else(|| format!("there is no manifest `{}`", manifest.display()))
}

impl FoundScript {
    fn new(folder: &Path, file: ScriptFile) -> Result<Self, String> {
        let manifest_path = folder.join(format!("{}.toml", file.name));
        let manifest = ScriptManifest::parse(&file.manifest_text)
            .map_err(|error| format!("`{}`: {error}", manifest_path.display()))?;
        if manifest.program != file.name {
            return Err(format!(
                "`{}`: the program of a manifest has its name without `.toml`, so it must be `{}` and not `{}`",
                manifest_path.display(),
                file.name,
                manifest.program
            ));
        }
        if let ScriptHosts::Own(hosts) = &manifest.hosts {
            let rules = hosts
                .iter()
                .map(|(host, port)| HostRule::exact(host.clone(), *port));
            let refused = |rule| Some((never_granted(&rule)?, rule));
            if let Some((why, rule)) = rules.into_iter().find_map(refused) {
                return Err(format!(
                    "`{}`: no script may reach `{rule}`: {why}",
                    manifest_path.display()
                ));
            }
        }
        Ok(Self {
            manifest_path,
            file,
            manifest,
        })
    }

    /// What its manifest says.
    pub fn manifest(&self) -> &ScriptManifest {
        &self.manifest
    }

    /// The path of its manifest.
    pub fn manifest_path(&self) -> &Path {
        &self.manifest_path
    }

    /// Whether its manifest and its program are what was trusted.
    pub fn is_pinned(&self, store: &TrustStore) -> bool {
        let manifest = sha256(self.file.manifest_text.as_bytes());
        let program = self.file.sha256;
        store.of(&self.manifest_path, manifest) == Trust::Trusted
            && program
                .is_some_and(|sha256| store.of(&self.file.program_path, sha256) == Trust::Trusted)
    }

    /// Pins the current contents of its manifest and its program.
    pub fn pin(&self, store: &mut TrustStore) {
        store.pin(
            &self.manifest_path,
            sha256(self.file.manifest_text.as_bytes()),
        );
        if let Some(sha256) = self.file.sha256 {
            store.pin(&self.file.program_path, sha256);
        }
    }

    /// The interpreter that the program's first line names.
    pub fn interpreter(&self) -> Option<String> {
        self.file.interpreter.clone()
    }

    /// The script whether or not it is trusted; for looking at, never for running.
    pub fn unchecked(self) -> ScriptSource {
        ScriptSource {
            program_path: self.file.program_path.display().to_string(),
            manifest_text: self.file.manifest_text,
            // No program has this hash, so one that appears later does not run.
            sha256: self.file.sha256.unwrap_or_default(),
        }
    }

    /// The script, if neither of its files has changed since they were trusted; otherwise why not.
    pub fn trusted(self, store: &TrustStore) -> Result<ScriptSource, String> {
        let manifest = sha256(self.file.manifest_text.as_bytes());
        let program = self.file.sha256.map(|hash| (&self.file.program_path, hash));
        for (path, hash) in [(&self.manifest_path, manifest)].into_iter().chain(program) {
            match store.of(path, hash) {
                Trust::Trusted => {}
                Trust::Changed => {
                    return Err(format!("`{}` changed since it was trusted", path.display()));
                }
                Trust::Never => return Err(format!("`{}` was never trusted", path.display())),
            }
        }
        Ok(self.unchecked())
    }
}
