//! The high-water mark: how far each writer's chain had got, signed, in a separate file next to
//! the record's directory. A record that was emptied, removed or restored from an older copy ends
//! before its mark; that is reported when it is opened and by `verify`.
//!
//! The mark never goes back by itself. To restore an older copy on purpose, remove the file. It
//! cannot detect an attacker who also restores an older mark, or who has the key.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use haft_contract::TenantId;

use crate::{
    chain::Head,
    directory::{DirectoryError, PrivateDirectory},
    seal::Seal,
};

/// What is added to the directory's name: `record` has its mark in `record.mark`.
const MARK: &str = ".mark";

/// Names the file format.
const FORM: &str = "haft-high-water-2";

/// The largest mark file, in bytes. Enough for some 30,000 chains; beyond it the mark is no longer
/// written.
const MAX_BYTES: u64 = 4 << 20;

/// The mark file of one record, held open.
#[derive(Debug)]
pub(crate) struct HighWater {
    file: File,
    path: PathBuf,
    key: [u8; 32],
}

/// The newest known row of each chain, by tenant and writer.
pub(crate) type HighWaterMarks = BTreeMap<(String, String), Head>;

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// The mark of each tenant; empty if nothing was ever recorded.
    Marks(HighWaterMarks),
    /// It is not signed by this record's key: its own record is gone, or it was tampered with.
    Foreign,
}

impl HighWater {
    /// Opens a record's mark, next to its directory.
    pub(crate) fn open(
        directory: &PrivateDirectory,
        key: [u8; 32],
    ) -> Result<Self, DirectoryError> {
        let (file, path) = directory.open_beside(MARK)?;
        let failed = |source| DirectoryError::Io {
            path: path.clone(),
            source,
        };
        let is_file = file.metadata().map_err(failed)?.is_file();
        if !is_file {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        Ok(Self { file, path, key })
    }

    /// The path, for display.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and checks the mark.
    pub(crate) fn read(&self) -> io::Result<Read> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(Read::Marks(HighWaterMarks::new()));
        }
        Ok(parse(&text, &self.key).map_or(Read::Foreign, Read::Marks))
    }

    /// Raises the marks of tenants whose records are on disk. Higher marks stay: several processes
    /// write one record.
    pub(crate) fn raise(&self, writer: &str, heads: &[(TenantId, Head)]) -> io::Result<()> {
        self.file.lock()?;
        let raised = self.raise_locked(writer, heads);
        self.file.unlock()?;
        raised
    }

    fn raise_locked(&self, writer: &str, heads: &[(TenantId, Head)]) -> io::Result<()> {
        let Read::Marks(mut marks) = self.read()? else {
            // It belongs to another record; do not overwrite it.
            return Ok(());
        };
        for (tenant, head) in heads {
            let chain = (tenant.as_str().to_owned(), writer.to_owned());
            let mark = marks.entry(chain).or_insert(*head);
            if mark.sequence < head.sequence {
                *mark = *head;
            }
        }
        let text = written(&marks, &self.key);
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if length > MAX_BYTES {
            return Err(io::Error::other("it names too many chains"));
        }
        // One write, never shorter than before: a crash leaves no partial file.
        self.file.write_all_at(text.as_bytes(), 0)
    }

    fn text(&self) -> io::Result<String> {
        let length = self.file.metadata()?.len().min(MAX_BYTES);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn written(marks: &HighWaterMarks, key: &[u8; 32]) -> String {
    let mut text = format!("{FORM}\n");
    for ((tenant, writer), head) in marks {
        let hash = blake3::Hash::from_bytes(head.hash).to_hex();
        // Writing to a `String` cannot fail. A writer's name has no space.
        let _ = writeln!(text, "{:020} {hash} {writer} {tenant}", head.sequence);
    }
    let seal = Seal::new(FORM, key).text(&text).sign();
    let _ = writeln!(text, "{}", blake3::Hash::from_bytes(seal).to_hex());
    text
}

fn parse(text: &str, key: &[u8; 32]) -> Option<HighWaterMarks> {
    let (body, seal) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let body = format!("{body}\n");
    let seal = blake3::Hash::from_hex(seal).ok()?;
    if !Seal::new(FORM, key).text(&body).is(seal.as_bytes()) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next() != Some(FORM) {
        return None;
    }
    lines
        .map(|line| {
            let mut parts = line.splitn(4, ' ');
            let sequence = parts.next()?.parse().ok()?;
            let hash = *blake3::Hash::from_hex(parts.next()?).ok()?.as_bytes();
            let writer = parts.next()?.to_owned();
            let tenant = parts.next()?.to_owned();
            Some(((tenant, writer), Head { sequence, hash }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(tenant: &str) -> (String, String) {
        (tenant.to_owned(), "w1".to_owned())
    }

    fn head(sequence: u64) -> Head {
        Head {
            sequence,
            hash: [7; 32],
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_other_key_will_do() {
        let marks: HighWaterMarks = [(chain("local"), head(3)), (chain("a b"), head(9))].into();
        let text = written(&marks, &[1; 32]);
        assert_eq!(parse(&text, &[1; 32]), Some(marks));
        assert_eq!(parse(&text, &[2; 32]), None);
        assert_eq!(parse(&text.replace("09 ", "08 "), &[1; 32]), None);
        assert_eq!(parse("", &[1; 32]), None);
        assert_eq!(parse(FORM, &[1; 32]), None);
    }

    #[test]
    fn a_mark_only_rises() {
        let place = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&place.path().join("record")).unwrap();
        let mark = HighWater::open(&directory, [1; 32]).unwrap();
        let tenant = TenantId::parse("local").unwrap();
        for (raised, expect) in [(5, 5), (3, 5), (8, 8)] {
            mark.raise("w1", &[(tenant.clone(), head(raised))]).unwrap();
            let Read::Marks(marks) = mark.read().unwrap() else {
                panic!("it is not ours");
            };
            assert_eq!(marks.get(&chain("local")), Some(&head(expect)));
        }
        let other = HighWater::open(&directory, [2; 32]).unwrap();
        assert_eq!(other.read().unwrap(), Read::Foreign);
        other.raise("w1", &[(tenant, head(99))]).unwrap();
        assert_eq!(other.read().unwrap(), Read::Foreign);
    }

    /// A mark of the same height with another hash is of another record: it stays as it was.
    #[test]
    fn a_mark_of_the_same_height_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&place.path().join("record")).unwrap();
        let mark = HighWater::open(&directory, [1; 32]).unwrap();
        let tenant = TenantId::parse("local").unwrap();
        let other = Head {
            hash: [8; 32],
            ..head(5)
        };
        mark.raise("w1", &[(tenant.clone(), head(5))]).unwrap();
        mark.raise("w1", &[(tenant, other)]).unwrap();
        let expect: HighWaterMarks = [(chain("local"), head(5))].into();
        assert_eq!(mark.read().unwrap(), Read::Marks(expect));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "puts something else where the mark was, as an attacker would"
    )]
    fn a_mark_is_a_file_of_its_own_that_no_tool_inherits() {
        let place = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&place.path().join("record")).unwrap();
        let mark = HighWater::open(&directory, [1; 32]).unwrap();
        let flags = rustix::io::fcntl_getfd(&mark.file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let path = place.path().join("record.mark");
        std::fs::rename(&path, place.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(place.path().join("elsewhere"), &path).unwrap();
        assert!(HighWater::open(&directory, [1; 32]).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(HighWater::open(&directory, [1; 32]).is_err());
    }
}
