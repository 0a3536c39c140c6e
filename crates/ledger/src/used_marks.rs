//! Notifies every process of a record that a session has used one more provider, without a database
//! query: a file of numbers next to the database, one for each session. A process that finds a
//! changed number reads the record again.
//!
//! A number means nothing by itself; only the record says what was used. Sessions share numbers by
//! their hash, so a changed number may belong to another session, which costs one extra read.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::atomic::{AtomicU64, Ordering},
};

use haft_contract::{SessionId, TenantId};

use crate::directory::{DirectoryError, PrivateDirectory, fill_random};

/// The file, in the record's directory.
const NAME: &str = "used.marks";

/// How many numbers there are.
const SLOTS: u64 = 4096;

/// The size of one number.
const SLOT_BYTES: u64 = size_of::<u64>() as u64;

/// The numbers of one record, in an open file.
#[derive(Debug)]
pub(crate) struct UsedMarks {
    file: File,
    /// The next number to write. Each process begins at a random one, so that no two write the same
    /// and a change is never mistaken for the old value.
    next: AtomicU64,
}

impl UsedMarks {
    /// Opens a record's numbers. One process at a time does this.
    pub(crate) fn open(directory: &PrivateDirectory) -> Result<Self, DirectoryError> {
        Self::held(directory).map_err(|source| DirectoryError::Io {
            path: directory.path().join(NAME),
            source,
        })
    }

    fn held(directory: &PrivateDirectory) -> io::Result<Self> {
        let file = directory.open_or_create(NAME)?;
        let length = file.metadata()?.len();
        if let Some(missing) = (SLOTS * SLOT_BYTES).checked_sub(length) {
            // Written and not only reserved, so that a full disk is noticed now.
            let zeros = vec![0; usize::try_from(missing).unwrap_or_default()];
            file.write_all_at(&zeros, length)?;
        }
        let mut first = [0; 8];
        fill_random(&mut first)?;
        Ok(Self {
            file,
            next: AtomicU64::new(u64::from_le_bytes(first)),
        })
    }

    /// A session's number; none if it cannot be read.
    pub(crate) fn of(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        let mut number = [0; 8];
        let read = self.file.read_exact_at(&mut number, place(tenant, session));
        read.ok().map(|()| u64::from_le_bytes(number))
    }

    /// Gives a session another number. Called once its use is in the record, and before the waiter
    /// is notified.
    pub(crate) fn change(&self, tenant: &TenantId, session: &SessionId) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.file
            .write_all_at(&number.to_le_bytes(), place(tenant, session))
    }
}

/// The offset of a session's number: FNV-1a, the same in every process.
fn place(tenant: &TenantId, session: &SessionId) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = tenant.as_str().bytes().chain([0]);
    let hash = bytes
        .chain(session.as_str().bytes())
        .fold(BASIS, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
    hash % SLOTS * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_everybody_and_of_that_session_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = PrivateDirectory::open(&folder.path().join("record")).expect("a directory");
        let (one, other) = (
            UsedMarks::open(&directory).expect("marks"),
            UsedMarks::open(&directory).expect("marks"),
        );
        let tenant = TenantId::parse("local").expect("an id");
        let (a, b) = (
            SessionId::parse("a").expect("an id"),
            SessionId::parse("b").expect("an id"),
        );
        let before = other.of(&tenant, &a);
        assert_eq!(before, Some(0));
        one.change(&tenant, &a).expect("it is written");
        let after = other.of(&tenant, &a);
        assert_ne!(after, before);
        assert_eq!(other.of(&tenant, &b), Some(0));
        other.change(&tenant, &a).expect("it is written");
        assert!(![before, after].contains(&one.of(&tenant, &a)));
    }

    #[test]
    fn what_is_cut_off_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = PrivateDirectory::open(&folder.path().join("record")).expect("a directory");
        let marks = UsedMarks::open(&directory).expect("marks");
        marks.file.set_len(0).expect("it is cut off");
        let tenant = TenantId::parse("local").expect("an id");
        let session = SessionId::parse("a").expect("an id");
        assert_eq!(marks.of(&tenant, &session), None);
    }

    /// Numbers that lay across each other would change with each other's sessions.
    #[test]
    fn every_session_has_one_whole_number_of_the_file() {
        let tenant = TenantId::parse("local").expect("an id");
        let places: std::collections::BTreeSet<u64> = (0..1_000)
            .map(|n| SessionId::parse(&format!("s{n}")).expect("an id"))
            .map(|session| place(&tenant, &session))
            .collect();
        for place in &places {
            assert_eq!(place % SLOT_BYTES, 0);
            assert!(place / SLOT_BYTES < SLOTS, "{place}");
        }
        // By chance some share one.
        assert!(places.len() > 800, "{}", places.len());
        assert!(places.last() > Some(&(SLOTS / 2 * SLOT_BYTES)));
    }
}
