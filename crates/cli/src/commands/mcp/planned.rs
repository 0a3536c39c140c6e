//! One file of an agent's and what becomes of it when Haft is put in or taken out. Nothing is written
//! before everything is planned.

use std::path::{Path, PathBuf};

use haft_ledger::Redactor;
use serde_json::Value;

use super::entry::{diff, unchangeable};
use crate::{
    agent_files::installed::InstalledFile,
    agents::{
        additions::{self, Addition, Setting},
        document::{self, EditRefusal, Format},
    },
    stop::Stop,
};

/// A file and what becomes of it.
pub(super) struct PlannedFile {
    file: InstalledFile,
    format: Format,
    /// What it becomes; none if it goes.
    after: Option<String>,
    /// What Haft has added to it then.
    added: Vec<Addition>,
}

impl PlannedFile {
    /// A file as it is.
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

    /// Its text as it is, or what stands for an empty file.
    pub(super) fn text(&self) -> &str {
        self.file.text()
    }

    /// What it says as it is.
    pub(super) fn said(&self) -> Option<Value> {
        document::value_at(self.format, self.text(), &[]).ok()?
    }

    /// Whether Haft put settings into it.
    pub(super) fn has_settings(&self) -> bool {
        self.file.added().iter().any(Addition::is_setting)
    }

    /// Whether Haft noted that it put something into it.
    pub(super) fn is_noted(&self) -> bool {
        self.file.is_noted()
    }

    /// Whether it becomes another.
    pub(super) fn changes(&self) -> bool {
        self.after.as_deref() != self.file.file().text()
    }

    /// What becomes of it, in lines.
    pub(super) fn diff(&self, redactor: &Redactor) -> String {
        diff(self.file.file(), self.after.as_deref(), redactor)
    }

    /// Haft's entry is put into it, and this is its text then.
    pub(super) fn put_entry(&mut self, entry: Addition, after: String) {
        if after != self.file.text() {
            self.after = Some(after);
        }
        if !self.added.iter().any(|added| !added.is_setting()) {
            self.added.push(entry);
        }
    }

    /// A setting is put into it.
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

    /// Everything of Haft's is taken out of it; `entry` is the one that is there, noted or not.
    pub(super) fn take_out(&mut self, entry: Option<Addition>) -> Result<(), EditRefusal> {
        self.after = self.file.without(&self.additions_with(entry))?;
        Ok(())
    }

    /// Writes what is planned, and says where what the file was is kept. `entry` is the one that was
    /// there before.
    pub(super) fn put_in(&self, entry: Option<Addition>) -> Result<Option<PathBuf>, Stop> {
        let (true, Some(after)) = (self.changes(), &self.after) else {
            return Ok(None);
        };
        let before = self.file.without(&self.additions_with(entry));
        let before = before.map_err(|why| unchangeable(self.path(), why, None))?;
        self.file.put_in(before, after, self.added.clone())
    }

    /// Writes the file without Haft, and says where what it was is kept.
    pub(super) fn remove(&self) -> Result<Option<PathBuf>, Stop> {
        self.file.take_out(self.after.as_deref())
    }

    /// What was noted, and the entry if it was not.
    fn additions_with(&self, entry: Option<Addition>) -> Vec<Addition> {
        let mut added = self.file.added().to_vec();
        if !added.iter().any(|added| !added.is_setting()) {
            added.extend(entry);
        }
        added
    }
}
