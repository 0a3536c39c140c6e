//! Whether the repository still has an object, and how many it has: loose ones by their names, packed
//! ones by the indexes of their packs. Reads no object.

use std::os::fd::OwnedFd;

use haft_sandbox::jail::{Jail, Lookup};
use rustix::{
    fs::{FileType, OFlags},
    io::{Errno, pread},
};

use super::file;

const PACKS: &str = ".git/objects/pack";

/// What a pack's index of version 2 begins with.
const PACK_INDEX_MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// How many entries the table has that says where ids with a first byte begin.
const FANOUT: usize = 256;

/// Where the ids begin.
const IDS_AT: u64 = 8 + 4 * FANOUT as u64;

/// The most packs that are looked into, and the most loose objects that are counted. A repository that
/// git looks after has at most fifty packs.
const MAX_PACKS: usize = 2_000;
const MAX_LOOSE: usize = 50_000;

/// How many objects a repository has. An object may count twice, loose and packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectCount(pub(super) u64);

/// Looks for objects. Holds the names of packs and opens one at a time: any command may fill the
/// directory, and the descriptors of this process are there for every call.
pub(super) struct ObjectLookup<'a> {
    jail: &'a Jail,
    /// The paths of the packs' indexes.
    packs: Vec<Vec<u8>>,
    has_more_packs: bool,
}

impl<'a> ObjectLookup<'a> {
    /// Reads the names of the packs.
    pub(super) fn new(jail: &'a Jail) -> Result<Self, Errno> {
        let mut packs = Vec::new();
        for (name, kind) in file::names(jail, PACKS)? {
            if kind == FileType::RegularFile && name.ends_with(b".idx") {
                packs.push([PACKS.as_bytes(), b"/", &name].concat());
            }
        }
        let has_more_packs = packs.len() > MAX_PACKS;
        packs.truncate(MAX_PACKS);
        Ok(Self {
            jail,
            packs,
            has_more_packs,
        })
    }

    /// Which of these objects are not there. What cannot be read is not.
    pub(super) fn missing(&self, mut ids: Vec<String>) -> Vec<String> {
        ids.retain(|id| !self.has_loose(id));
        for path in &self.packs {
            if ids.is_empty() {
                break;
            }
            if let Ok(Some(pack)) = self.open(path) {
                ids.retain(|id| pack_has(&pack, id) != Some(true));
            }
        }
        ids
    }

    /// How many there are; `None` if there are too many to count, or a pack cannot be read.
    pub(super) fn count(&self) -> Result<Option<ObjectCount>, Errno> {
        if self.has_more_packs {
            return Ok(None);
        }
        let mut loose = 0;
        for (name, kind) in file::names(self.jail, ".git/objects")? {
            if kind == FileType::Directory && name.len() == 2 {
                let path = [&b".git/objects/"[..], &name].concat();
                loose += file::names(self.jail, path)?.len();
            }
            if loose > MAX_LOOSE {
                return Ok(None);
            }
        }
        let mut packed = 0;
        for path in &self.packs {
            let count = match self.open(path) {
                Ok(Some(pack)) => fanout(&pack, FANOUT - 1),
                Ok(None) => continue,
                Err(_) => None,
            };
            let Some(count) = count else {
                return Ok(None);
            };
            packed += u64::from(count);
        }
        Ok(Some(ObjectCount(packed + loose as u64)))
    }

    fn has_loose(&self, id: &str) -> bool {
        let Some((first, rest)) = id.split_at_checked(2) else {
            return false;
        };
        let path = format!(".git/objects/{first}/{rest}");
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        self.jail
            .open_bytes(path.as_bytes(), flags, Lookup::Full)
            .is_ok()
    }

    /// Opens a pack's index; `None` if git has just replaced it.
    fn open(&self, path: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match self.jail.open_bytes(path, flags, Lookup::Full) {
            Ok(pack) => Ok(Some(pack)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// Looks an id up in a pack's index; `None` if that cannot be read.
fn pack_has(pack: &OwnedFd, id: &str) -> Option<bool> {
    let id = bytes_of(id)?;
    let first = usize::from(*id.first()?);
    let mut low = match first.checked_sub(1) {
        Some(before) => fanout(pack, before)?,
        None => 0,
    };
    let mut high = fanout(pack, first)?;
    let mut found = vec![0; id.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        let at = IDS_AT + u64::from(middle) * id.len() as u64;
        read_exactly(pack, &mut found, at)?;
        match found.cmp(&id) {
            std::cmp::Ordering::Equal => return Some(true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Some(false)
}

/// How many ids begin with this byte or a smaller one.
fn fanout(pack: &OwnedFd, first: usize) -> Option<u32> {
    let mut magic = [0; 8];
    read_exactly(pack, &mut magic, 0)?;
    if magic != PACK_INDEX_MAGIC {
        return None;
    }
    let mut count = [0; 4];
    read_exactly(pack, &mut count, 8 + 4 * first as u64)?;
    Some(u32::from_be_bytes(count))
}

fn read_exactly(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Option<()> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = buffer.get_mut(done..)?;
        match pread(file, rest, at + done as u64) {
            Ok(0) | Err(_) => return None,
            Ok(read) => done += read,
        }
    }
    Some(())
}

fn bytes_of(id: &str) -> Option<Vec<u8>> {
    let digits = id.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use haft_sandbox::jail::Mounts;

    use super::*;

    /// The index of a pack with one object, whose id has this byte twenty times.
    fn pack_index(id: u8) -> Vec<u8> {
        let mut bytes = PACK_INDEX_MAGIC.to_vec();
        for first in 0..=u8::MAX {
            bytes.extend(u32::from(first >= id).to_be_bytes());
        }
        bytes.extend([id; 20]);
        bytes
    }

    fn hex(id: u8) -> String {
        format!("{id:02x}").repeat(20)
    }

    /// How many files below a directory this process has open.
    fn open_files(directory: &Path) -> usize {
        let held = fs::read_dir("/proc/self/fd").unwrap();
        let held = held.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        held.filter(|target| target.starts_with(directory)).count()
    }

    #[test]
    fn many_packs_hold_no_descriptors() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let packs = root.join(PACKS);
        fs::create_dir_all(&packs).unwrap();
        for pack in 0..1_500 {
            let name = packs.join(format!("{pack}.idx"));
            fs::write(name, pack_index(if pack == 700 { 9 } else { 200 })).unwrap();
        }
        let jail = Jail::open(&root, Mounts::Refuse).unwrap();
        let objects = ObjectLookup::new(&jail).unwrap();
        assert_eq!(open_files(&packs), 0);
        assert_eq!(objects.count(), Ok(Some(ObjectCount(1_500))));
        let ids = [8, 9, 200, 201].map(hex);
        assert_eq!(objects.missing(ids.to_vec()), [hex(8), hex(201)]);
        assert_eq!(open_files(&packs), 0);

        // More than are looked into are not counted, and keep nothing else from being read.
        for pack in 0..=MAX_PACKS {
            fs::write(packs.join(format!("more-{pack}.idx")), "").unwrap();
        }
        let objects = ObjectLookup::new(&jail).unwrap();
        assert_eq!(objects.count(), Ok(None));
    }
}
