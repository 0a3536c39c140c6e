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

/// The most packs that are looked into, and the most loose objects that are counted.
const MAX_PACKS: usize = 2_000;
const MAX_LOOSE: usize = 50_000;

/// How many objects a repository has. An object may count twice, loose and packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectCount(pub(super) u64);

/// Looks for objects.
pub(super) struct ObjectLookup<'a> {
    jail: &'a Jail,
    packs: Vec<OwnedFd>,
}

impl<'a> ObjectLookup<'a> {
    pub(super) fn open(jail: &'a Jail) -> Result<Self, Errno> {
        let mut packs = Vec::new();
        for (name, kind) in file::names(jail, PACKS)? {
            if kind != FileType::RegularFile || !name.ends_with(b".idx") {
                continue;
            }
            let path = [PACKS.as_bytes(), b"/", &name].concat();
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            match jail.open_bytes(&path, flags, Lookup::Full) {
                Ok(pack) => packs.push(pack),
                // Git has just replaced it.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            if packs.len() > MAX_PACKS {
                return Err(Errno::TOOBIG);
            }
        }
        Ok(Self { jail, packs })
    }

    /// Whether the object is there. What cannot be read is not.
    pub(super) fn has(&self, id: &str) -> bool {
        let Some((first, rest)) = id.split_at_checked(2) else {
            return false;
        };
        let path = format!(".git/objects/{first}/{rest}");
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        if self
            .jail
            .open_bytes(path.as_bytes(), flags, Lookup::Full)
            .is_ok()
        {
            return true;
        }
        let Some(id) = bytes_of(id) else {
            return false;
        };
        self.packs
            .iter()
            .any(|pack| pack_has(pack, &id) == Some(true))
    }

    /// How many there are; `None` if there are too many to count.
    pub(super) fn count(&self) -> Result<Option<ObjectCount>, Errno> {
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
        let packed: Option<u64> = self
            .packs
            .iter()
            .map(|pack| Some(u64::from(fanout(pack, FANOUT - 1)?)))
            .sum();
        Ok(packed.map(|packed| ObjectCount(packed + loose as u64)))
    }
}

/// Looks an id up in a pack's index; `None` if that cannot be read.
fn pack_has(pack: &OwnedFd, id: &[u8]) -> Option<bool> {
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
        match found.as_slice().cmp(id) {
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
