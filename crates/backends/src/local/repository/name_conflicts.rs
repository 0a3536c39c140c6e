//! Names that exclude each other: a ref is a file and cannot also be a directory of refs, so `topic`
//! and `topic/x` never exist together, neither as files nor as lines of `packed-refs`. The same holds
//! for reflogs.
//!
//! Finds what keeps parts from going back, before any of them does. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{GitPart, OpsError, PartChange},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::fs::{FileType, OFlags, fstat};

use super::refs::{self, PackedRefs, RefValue};
use crate::local::walk::shown;

/// The names of the parts that change.
pub(super) struct ChangedNames<'c> {
    changes: &'c [PartChange],
    written: BTreeSet<&'c str>,
    removed: BTreeSet<&'c str>,
    /// Every directory above a part that is written.
    directories: BTreeSet<&'c str>,
}

impl<'c> ChangedNames<'c> {
    pub(super) fn of(changes: &'c [PartChange]) -> Self {
        let mut names = Self {
            changes,
            written: BTreeSet::new(),
            removed: BTreeSet::new(),
            directories: BTreeSet::new(),
        };
        for change in changes {
            if change.bytes.is_some() {
                names.written.insert(change.path.as_str());
                names.directories.extend(change.path.ancestors().skip(1));
            } else {
                names.removed.insert(change.path.as_str());
            }
        }
        names
    }

    /// Whether a part is written below this path.
    pub(super) fn is_directory_of_written(&self, path: &WorkPath) -> bool {
        self.directories.contains(path.as_str())
    }

    /// Whether a directory above this path has the name of a part that is removed.
    pub(super) fn is_below_removed(&self, path: &WorkPath) -> bool {
        let mut above = path.ancestors().skip(1);
        above.any(|above| self.removed.contains(above))
    }

    /// Fails if one of the parts cannot be written beside the others, or beside what stays. To be
    /// called when the parts are locked.
    pub(super) fn check(&self, jail: &Jail) -> Result<(), OpsError> {
        // If it cannot be read, then a ref that is not a file could not be read before either.
        let packed = PackedRefs::read(jail).map_err(errno::error)?;
        let packed = packed.map(|packed| packed.all().values).unwrap_or_default();
        let written = self.changes.iter().filter(|change| change.bytes.is_some());
        for change in written {
            let path = &change.path;
            let mut other = self.written_below(path);
            if other.is_none() {
                other = self.file_below(jail, path)?;
            }
            let is_new = change.expected.is_none();
            if other.is_none() && is_new && GitPart::of(path) == Some(GitPart::Ref) {
                other = self.packed_beside(&packed, path);
            }
            if let Some(other) = other {
                return Err(name_conflict(path, &other));
            }
        }
        Ok(())
    }

    fn written_below(&self, path: &WorkPath) -> Option<String> {
        if !self.is_directory_of_written(path) {
            return None;
        }
        let is_below = |other: &&&str| {
            let rest = other.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let other = self.written.iter().find(is_below);
        other.map(|other| (*other).to_owned())
    }

    /// A file below a path that stays.
    fn file_below(&self, jail: &Jail, path: &WorkPath) -> Result<Option<String>, OpsError> {
        let below = refs::files_below(jail, path.as_str(), refs::MAX_REFS)
            .map_err(|errno| errno::on_path(errno, path))?;
        let Some(below) = below else {
            return Ok(Some(format!("{path}/")));
        };
        let is_removed = |name: &str| self.removed.contains(name);
        let file = below
            .files
            .iter()
            .find(|file| !std::str::from_utf8(file).is_ok_and(is_removed))
            .map(|file| shown(file).0);
        // The locks of the parts that are removed are our own.
        let lock = below
            .locks
            .into_iter()
            .find(|lock| !lock.strip_suffix(".lock").is_some_and(is_removed));
        Ok(file.or(lock))
    }

    /// A packed ref above or below this one that stays.
    fn packed_beside(
        &self,
        packed: &BTreeMap<String, RefValue>,
        path: &WorkPath,
    ) -> Option<String> {
        let stays = |name: &str| !self.removed.contains(name);
        let directory = format!("{path}/");
        let below = packed
            .range(directory.clone()..)
            .map(|(name, _)| name.as_str())
            .take_while(|name| name.starts_with(directory.as_str()))
            .find(|name| stays(name));
        let mut above = path.ancestors().skip(1);
        let above = above.find(|above| packed.contains_key(*above) && stays(above));
        below.or(above).map(str::to_owned)
    }
}

/// The file that has the name of a directory above this path.
pub(super) fn file_above(jail: &Jail, path: &WorkPath) -> Option<String> {
    let is_file = |above: &str| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        jail.open_bytes(above.as_bytes(), flags, Lookup::Full)
            .and_then(|found| fstat(&found))
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
    };
    let mut above = path.ancestors().skip(1);
    above.find(|above| is_file(above)).map(str::to_owned)
}

/// Says which name keeps a part from going back.
pub(super) fn name_conflict(path: &WorkPath, other: &str) -> OpsError {
    let other = other.escape_debug();
    let message = format!(
        "`{path}` cannot go back beside `{other}`: one name cannot be a file and a directory"
    );
    OpsError::new(ErrorKind::Conflict, message).on(path)
}
