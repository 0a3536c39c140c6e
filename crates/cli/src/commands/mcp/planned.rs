//! One of an agent's files and its change when Haft is added or removed. Nothing is written before
//! everything is planned.

use std::path::{Path, PathBuf};

use haft_agent_settings::{
    additions::{self, Addition, Setting},
    document::{self, EditRefusal, Format},
};
use haft_ledger::Redactor;
use serde_json::Value;

use super::entry::{diff, unchangeable};
use crate::stop::Stop;
use haft_agent_settings::files::installed::InstalledFile;

/// A file and its planned text.
pub(super) struct PlannedFile {
    file: InstalledFile,
    format: Format,
    /// Its new text; `None` if it is removed.
    after: Option<String>,
    /// What Haft will have added to it.
    added: Vec<Addition>,
}

impl PlannedFile {
    /// Reads a file, with no change planned yet.
    pub(super) fn read(path: &Path, format: Format) -> Result<Self, Stop> {
        let file = InstalledFile::read(path, format)?;
        Ok(Self {
            after: file.file().text().map(str::to_owned),
            added: file.added().to_vec(),
            file,
            format,
        })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        self.file.file().path()
    }

    /// Its current text, or the text of an empty file.
    pub(super) fn text(&self) -> &str {
        self.file.text()
    }

    /// Its current text as a value.
    pub(super) fn said(&self) -> Option<Value> {
        document::value_at(self.format, self.text(), &[]).ok()?
    }

    /// Whether Haft added settings to it.
    pub(super) fn has_settings(&self) -> bool {
        self.file.added().iter().any(Addition::is_setting)
    }

    /// Whether Haft left a note about it.
    pub(super) fn is_noted(&self) -> bool {
        self.file.is_noted()
    }

    /// Whether its text changes.
    pub(super) fn changes(&self) -> bool {
        self.after.as_deref() != self.file.file().text()
    }

    /// Its change as a diff.
    pub(super) fn diff(&self, redactor: &Redactor) -> String {
        diff(self.file.file(), self.after.as_deref(), redactor)
    }

    /// Plans to add Haft's entry; `after` is the resulting text.
    pub(super) fn put_entry(&mut self, entry: Addition, after: String) {
        if after != self.file.text() {
            self.after = Some(after);
        }
        if !self.added.iter().any(|added| !added.is_setting()) {
            self.added.push(entry);
        }
    }

    /// Plans to add a setting.
    pub(super) fn put_setting(&mut self, setting: &Setting) -> Result<(), Stop> {
        let now = self.after.as_deref().filter(|text| !text.trim().is_empty());
        let now = now.unwrap_or_else(|| self.file.text()).to_owned();
        let after = additions::with_setting(self.format, &now, setting, &mut self.added)
            .map_err(|why| unchangeable(self.path(), why, None))?;
        if after != now {
            self.after = Some(after);
        }
        Ok(())
    }

    /// Plans to remove everything of Haft's; `entry` is the existing one, noted or not.
    pub(super) fn take_out(&mut self, entry: Option<Addition>) -> Result<(), EditRefusal> {
        self.after = self.file.without(&self.additions_with(entry))?;
        Ok(())
    }

    /// Writes the planned text and returns the backup's path. `entry` is the one that was there
    /// before.
    pub(super) fn put_in(&self, entry: Option<Addition>) -> Result<Option<PathBuf>, Stop> {
        let (true, Some(after)) = (self.changes(), &self.after) else {
            return Ok(None);
        };
        let before = self.file.without(&self.additions_with(entry));
        let before = before.map_err(|why| unchangeable(self.path(), why, None))?;
        Ok(self.file.put_in(before, after, self.added.clone())?)
    }

    /// Writes the file without Haft and returns the backup's path.
    pub(super) fn remove(&self) -> Result<Option<PathBuf>, Stop> {
        Ok(self.file.take_out(self.after.as_deref())?)
    }

    /// What was noted, and the entry if it was not noted.
    fn additions_with(&self, entry: Option<Addition>) -> Vec<Addition> {
        let mut added = self.file.added().to_vec();
        if !added.iter().any(|added| !added.is_setting()) {
            added.extend(entry);
        }
        added
    }
}
