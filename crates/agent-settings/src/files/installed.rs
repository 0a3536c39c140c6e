//! An agent's file with Haft in it, and next to it a note of what Haft added. If the file is still
//! as Haft left it, removing Haft restores every byte; if its owner or the agent has changed it
//! since, only what Haft added is removed.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use haft_host::{
    HostError,
    config::trust::{hex, sha256},
    state::foreign::{BackupPolicy, ForeignFile},
};

use crate::{
    additions::{self, Addition},
    document::{self, EditRefusal, Format},
};

/// The suffix of a note.
const NOTE: &str = ".haft-install";

/// The version of the note format.
const VERSION: u32 = 1;

/// A file of an agent, and the note beside it.
#[derive(Debug)]
pub struct InstalledFile {
    file: ForeignFile,
    format: Format,
    note_file: ForeignFile,
    note: Option<InstalledNote>,
}

/// What Haft put into a file. Newer versions read old notes, never the other way round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct InstalledNote {
    v: u32,
    /// The file without Haft; `None` if there was no file.
    before: Option<String>,
    /// The SHA-256 of the file with Haft.
    after: String,
    /// What Haft added.
    added: Vec<Addition>,
}

impl InstalledFile {
    /// Reads a file and its note; either may be missing.
    pub fn read(path: &Path, format: Format) -> Result<Self, HostError> {
        let file = ForeignFile::read(path.to_owned())?;
        let note_file = ForeignFile::read(note_path(path))?;
        let note = note_file.text().map(|text| {
            let note = serde_json::from_str::<InstalledNote>(text).ok();
            note.filter(|note| note.v == VERSION).ok_or_else(|| {
                HostError::config(
                    format!(
                        "`{}` is not a note of this version of Haft",
                        note_file.path().display()
                    ),
                    "use the version that installed Haft, or move the note away",
                )
            })
        });
        Ok(Self {
            note: note.transpose()?,
            file,
            format,
            note_file,
        })
    }

    /// Whether Haft left a note about a file.
    pub fn has_note(path: &Path) -> Result<bool, HostError> {
        Ok(ForeignFile::read(note_path(path))?.text().is_some())
    }

    /// The file.
    pub fn file(&self) -> &ForeignFile {
        &self.file
    }

    /// Its text, or the text of an empty file.
    pub fn text(&self) -> &str {
        let text = self.file.text().filter(|text| !text.trim().is_empty());
        text.unwrap_or(document::blank(self.format))
    }

    /// What Haft added to it.
    pub fn added(&self) -> &[Addition] {
        self.note.as_ref().map_or(&[], |note| &note.added)
    }

    /// Whether there is a note about it.
    pub fn is_noted(&self) -> bool {
        self.note.is_some()
    }

    /// The file without these additions; `None` if there is then no file.
    pub fn without(&self, added: &[Addition]) -> Result<Option<String>, EditRefusal> {
        let Some(text) = self.file.text() else {
            return Ok(None);
        };
        if let Some(note) = &self.note
            && note.after == digest(text)
        {
            return Ok(note.before.clone());
        }
        if added.is_empty() {
            return Ok(Some(text.to_owned()));
        }
        let left = additions::undone(self.format, self.text(), added)?;
        if left == self.text() {
            // It contains none of them, so it stays as it is, even if it is empty.
            return Ok(Some(text.to_owned()));
        }
        let made_by_haft = self.note.as_ref().is_some_and(|note| note.before.is_none());
        Ok(Some(left).filter(|left| !(made_by_haft && document::says_nothing(self.format, left))))
    }

    /// Writes the note, then the file with Haft. The note comes first: a note about a change that
    /// did not happen removes nothing. Returns the backup's path.
    pub fn put_in(
        &self,
        before: Option<String>,
        after: &str,
        added: Vec<Addition>,
    ) -> Result<Option<PathBuf>, HostError> {
        let note = InstalledNote {
            v: VERSION,
            before,
            after: digest(after),
            added,
        };
        let note = serde_json::to_string_pretty(&note)
            .map_err(|error| HostError::config(error.to_string(), "report this"))?;
        self.note_file
            .replace(&format!("{note}\n"), BackupPolicy::Never)?;
        self.file.replace(after, BackupPolicy::Once)
    }

    /// Writes the file without Haft, and removes the note.
    pub fn take_out(&self, without: Option<&str>) -> Result<Option<PathBuf>, HostError> {
        let backup = match without {
            Some(text) if self.file.text() == Some(text) => None,
            Some(text) => self.file.replace(text, BackupPolicy::Once)?,
            None => {
                self.file.remove()?;
                None
            }
        };
        self.note_file.remove()?;
        Ok(backup)
    }
}

/// The path of the note about a file.
fn note_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(NOTE);
    path.with_file_name(name)
}

fn digest(text: &str) -> String {
    hex(sha256(text.as_bytes()))
}
