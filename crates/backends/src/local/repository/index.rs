//! Reads what git's index says, without what it remembers about files on disk.
//!
//! `git status` rewrites the index whenever a file was touched, so two indexes are compared by their
//! entries: path, mode, object, stage and flags. The format is that of git's `index-format`, versions
//! 2 to 4. What does not parse is compared byte by byte.
//!
//! Any command may write an index, and in version 4 a few bytes stand for a long path: each one
//! continues the one before it. So the paths are bounded, each by itself and all together.

use haft_contract::path::MAX_PATH_BYTES;

/// The times, numbers and sizes of a file that begin an entry; the mode is among them.
const STAT_BYTES: usize = 40;

/// Where the mode is in them.
const MODE_AT: usize = 24;

/// The flag that says that two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;

/// The lengths of an object id: SHA-1 and SHA-256.
const ID_BYTES: [usize; 2] = [20, 32];

/// The most bytes of all paths together. An index that git wrote and that is small enough to be read
/// has a fraction of it.
const MAX_ALL_PATHS_BYTES: usize = 64 << 20;

/// The extension that leads to another file, without which the index says little.
const SPLIT: &[u8] = b"link";

/// What an index says.
pub(super) enum IndexReading {
    /// Its entries.
    Entries {
        /// How many there are.
        count: usize,
        /// A hash of what they say.
        hash: blake3::Hash,
    },
    /// Part of it is in another file.
    Split,
    /// It is in no form known here.
    Unknown,
}

/// Reads an index.
pub(super) fn read(bytes: &[u8]) -> IndexReading {
    ID_BYTES
        .into_iter()
        .find_map(|id_bytes| {
            let mut hasher = blake3::Hasher::new();
            let mut count = 0;
            let is_split = Reader { bytes, id_bytes }.run(|entry| {
                let IndexEntry {
                    mode,
                    id,
                    flags,
                    extended,
                    path,
                } = entry;
                for field in [mode, id, flags, extended, path] {
                    hasher.update(&(field.len() as u64).to_le_bytes());
                    hasher.update(field);
                }
                count += 1;
            })?;
            let hash = hasher.finalize();
            Some(if is_split {
                IndexReading::Split
            } else {
                IndexReading::Entries { count, hash }
            })
        })
        .unwrap_or(IndexReading::Unknown)
}

/// One entry of an index.
pub(super) struct IndexEntry<'a> {
    /// Four bytes.
    pub(super) mode: &'a [u8],
    pub(super) id: &'a [u8],
    flags: &'a [u8],
    extended: &'a [u8],
    pub(super) path: &'a [u8],
}

/// Collects from the entries of an index; `None` if it is in no form known here, or part of it is in
/// another file.
pub(super) fn collect<T: Default>(
    bytes: &[u8],
    mut take: impl FnMut(&mut T, &IndexEntry<'_>),
) -> Option<T> {
    for id_bytes in ID_BYTES {
        let mut found = T::default();
        let read = Reader { bytes, id_bytes }.run(|entry| take(&mut found, &entry));
        if let Some(is_split) = read {
            return (!is_split).then_some(found);
        }
    }
    None
}

struct Reader<'a> {
    bytes: &'a [u8],
    id_bytes: usize,
}

impl Reader<'_> {
    /// Visits every entry and returns whether part of the index is in another file; `None` if the
    /// bytes are not an index with object ids of this length.
    fn run(&self, mut visit: impl FnMut(IndexEntry<'_>)) -> Option<bool> {
        if self.bytes.get(..4)? != b"DIRC" {
            return None;
        }
        let version = self.number(4)?;
        let count = usize::try_from(self.number(8)?).ok()?;
        let mut at = 12;
        let mut path = Vec::new();
        let mut all_paths_bytes = 0;
        for _ in 0..count {
            at = self.entry(at, version, &mut path, &mut visit)?;
            all_paths_bytes += path.len();
            if all_paths_bytes > MAX_ALL_PATHS_BYTES {
                return None;
            }
        }
        // What follows are extensions, and the checksum of all of it.
        let end = self.bytes.len().checked_sub(self.id_bytes)?;
        let mut is_split = false;
        while at < end {
            let name = self.bytes.get(at..at.checked_add(4)?)?;
            is_split |= name == SPLIT;
            let size = usize::try_from(self.number(at + 4)?).ok()?;
            at = at.checked_add(8)?.checked_add(size)?;
        }
        (at == end).then_some(is_split)
    }

    /// Reads one entry and returns where the next one begins.
    fn entry(
        &self,
        start: usize,
        version: u32,
        path: &mut Vec<u8>,
        visit: &mut impl FnMut(IndexEntry<'_>),
    ) -> Option<usize> {
        let mode = self.bytes.get(start + MODE_AT..start + MODE_AT + 4)?;
        let id_at = start + STAT_BYTES;
        let flags_at = id_at + self.id_bytes;
        let id = self.bytes.get(id_at..flags_at)?;
        let flags = self.bytes.get(flags_at..flags_at + 2)?;
        let is_extended = u16::from_be_bytes(flags.try_into().ok()?) & EXTENDED != 0;
        let mut at = flags_at + 2;
        let extended: &[u8] = if is_extended && version >= 3 {
            at += 2;
            self.bytes.get(at - 2..at)?
        } else {
            &[]
        };
        let next = match version {
            2 | 3 => {
                let name = self.until_zero(at)?;
                path.clear();
                path.extend_from_slice(name);
                // Filled up with one to eight zeros to a multiple of eight.
                start + (at - start + name.len() + 8) / 8 * 8
            }
            4 => {
                let (strip, name_at) = self.variable(at)?;
                path.truncate(path.len().checked_sub(strip)?);
                let name = self.until_zero(name_at)?;
                path.extend_from_slice(name);
                name_at + name.len() + 1
            }
            _ => return None,
        };
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
        visit(IndexEntry {
            mode,
            id,
            flags,
            extended,
            path,
        });
        Some(next)
    }

    fn number(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    fn until_zero(&self, at: usize) -> Option<&[u8]> {
        let rest = self.bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest.get(..end)
    }

    /// The number of variable length that is also used in packs.
    fn variable(&self, mut at: usize) -> Option<(usize, usize)> {
        let mut byte = *self.bytes.get(at)?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            at += 1;
            byte = *self.bytes.get(at)?;
            value = value
                .checked_add(1)?
                .checked_mul(128)?
                .checked_add(usize::from(byte & 0x7f))?;
        }
        Some((value, at + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tracked::TrackedFiles, *};

    /// An index of version 2 with one entry.
    fn index(time: u8, id: u8, extension: Option<&[u8; 4]>) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
        let mut stat = [time; STAT_BYTES];
        stat[MODE_AT..MODE_AT + 4].copy_from_slice(&[0, 0, 0x81, 0xa4]);
        bytes.extend(stat);
        bytes.extend([id; 20]);
        bytes.extend([0, 1]);
        bytes.extend(b"a\0");
        while !(bytes.len() - 12).is_multiple_of(8) {
            bytes.push(0);
        }
        if let Some(name) = extension {
            bytes.extend(name);
            bytes.extend([0, 0, 0, 2, 9, 9]);
        }
        bytes.extend([time; 20]);
        bytes
    }

    fn hash(bytes: &[u8]) -> blake3::Hash {
        match read(bytes) {
            IndexReading::Entries { count: 1, hash } => hash,
            _ => panic!("not an index of one entry"),
        }
    }

    /// An index of version 4: each path takes so many bytes off the one before it, and adds some.
    fn version_4(entries: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x04".to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (strip, suffix) in entries {
            let mut stat = [0; STAT_BYTES];
            stat[MODE_AT..MODE_AT + 4].copy_from_slice(&[0, 0, 0x81, 0xa4]);
            bytes.extend(stat);
            bytes.extend([7; 20]);
            bytes.extend([0, 1]);
            bytes.push(*strip);
            bytes.extend(suffix);
            bytes.push(0);
        }
        bytes.extend([0; 20]);
        bytes
    }

    /// How many entries and how many files an index is read to have; `None` if it is not read.
    fn counts(bytes: &[u8]) -> (Option<usize>, Option<usize>) {
        let entries = match read(bytes) {
            IndexReading::Entries { count, .. } => Some(count),
            IndexReading::Split | IndexReading::Unknown => None,
        };
        let files = TrackedFiles::of(bytes).map(|tracked| tracked.paths().count());
        (entries, files)
    }

    /// With 64 bytes more in each path, 16 MiB of index would be 550 GB of paths.
    #[test]
    fn paths_that_grow_with_every_entry_are_not_read() {
        let growing = |count: usize| version_4(&vec![(0, vec![b'x'; 64]); count]);
        let most = MAX_PATH_BYTES / 64;
        assert_eq!(counts(&growing(most)), (Some(most), Some(most)));
        assert_eq!(counts(&growing(most + 1)), (None, None));
        assert_eq!(counts(&growing(10_000)), (None, None));
    }

    #[test]
    fn long_paths_are_read_up_to_a_sum() {
        let long = |count: usize| {
            let first = (0, vec![b'x'; MAX_PATH_BYTES]);
            let other = |at: usize| (2, vec![b'a' + u8::from(at.is_multiple_of(2)), b'y']);
            let entries: Vec<_> = std::iter::once(first)
                .chain((1..count).map(other))
                .collect();
            version_4(&entries)
        };
        let most = MAX_ALL_PATHS_BYTES / MAX_PATH_BYTES;
        // Its paths are three different ones.
        assert_eq!(counts(&long(most)), (Some(most), Some(3)));
        assert_eq!(counts(&long(most + 1)), (None, None));
    }

    #[test]
    fn times_are_left_out_and_objects_are_not() {
        let one = hash(&index(1, 7, None));
        assert_eq!(one, hash(&index(2, 7, None)));
        assert_eq!(one, hash(&index(2, 7, Some(b"TREE"))));
        assert_ne!(one, hash(&index(1, 8, None)));
    }

    #[test]
    fn what_is_cut_or_split_is_not_taken_for_an_index() {
        let whole = index(1, 7, Some(b"TREE"));
        for end in 0..whole.len() {
            // Cut where an extension begins, it is an index of the same entries.
            if let IndexReading::Entries { count, hash: found } = read(&whole[..end]) {
                assert_eq!((count, found), (1, hash(&whole)), "{end}");
            }
        }
        assert!(matches!(
            read(&index(1, 7, Some(b"link"))),
            IndexReading::Split
        ));
    }
}
