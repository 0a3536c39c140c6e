//! The configuration file that a command adds lines to: read as it is, judged with the lines at its end
//! by the code that will read them there, and replaced entirely or not at all. Trusting it is another
//! step.

use std::path::Path;

use super::{Settings, resolve::check};
use crate::{
    error::HostError,
    state::foreign::{BackupPolicy, ForeignFile},
};

/// The configuration file that lines are added to.
#[derive(Debug)]
pub struct ExtendedConfig {
    file: ForeignFile,
    name: String,
    is_own: bool,
}

impl ExtendedConfig {
    /// Reads the file that rules go to. It need not exist.
    pub fn read(settings: &Settings) -> Result<Self, HostError> {
        let file = ForeignFile::read(settings.rules_go_to.clone())?;
        Ok(Self {
            name: settings.places.name_of(file.path()),
            is_own: settings.places.user_config.as_deref() == Some(file.path()),
            file,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the person's own for every workspace, which applies without being trusted.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// What it says; nothing if it does not exist.
    pub fn text(&self) -> &str {
        self.file.text().unwrap_or_default()
    }

    /// What it would say with these lines at its end.
    pub fn with(&self, lines: &str) -> String {
        with_lines(self.text(), lines)
    }

    /// Fails if a text of this file has a mistake.
    pub fn check(&self, text: &str) -> Result<(), HostError> {
        check(&self.name, self.path(), text)
    }

    /// Replaces it. Fails if it has changed since it was read.
    pub fn replace(&self, text: &str) -> Result<(), HostError> {
        self.file.replace(text, BackupPolicy::Never).map(drop)
    }

    /// Whether it has a table `[NAME.ENTRY]`. One with a mistake has none; `check` says what it is.
    pub(crate) fn has_table(&self, name: &str, entry: &str) -> bool {
        let file = self.text().parse::<toml::Table>().unwrap_or_default();
        let table = file.get(name).and_then(toml::Value::as_table);
        table.is_some_and(|table| table.contains_key(entry))
    }
}

/// A configuration with lines at its end.
pub(crate) fn with_lines(before: &str, lines: &str) -> String {
    match before.trim_end() {
        "" => lines.to_owned(),
        before => format!("{before}\n\n{lines}"),
    }
}
