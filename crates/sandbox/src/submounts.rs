//! File systems that are mounted inside a workspace. File tools do not cross onto them unless the
//! operator vouches for them, so a sandboxed command must not see them either: bubblewrap binds a
//! directory with everything mounted below it.
//!
//! Covers only what is mounted when a command starts; mounting takes root.

use std::{
    ffi::OsString,
    io::{self, Read as _},
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use crate::request::CoveredMount;

/// The kernel's list of mounts.
const LIST: &str = "/proc/self/mountinfo";

/// The longest list that is read. A longer one is an error.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// What is mounted below a directory, without mounts below those mounts.
pub(crate) fn beneath(root: &Path) -> io::Result<Vec<CoveredMount>> {
    let mut list = Vec::new();
    let read = std::fs::File::open(LIST)?
        .take(MAX_LIST_BYTES + 1)
        .read_to_end(&mut list)?;
    if read as u64 > MAX_LIST_BYTES {
        return Err(io::Error::other("too much is mounted on this machine"));
    }
    let mut covered: Vec<CoveredMount> = Vec::new();
    for place in places(&list, root) {
        if covered.iter().any(|above| place.starts_with(above.path())) {
            continue;
        }
        covered.push(match std::fs::symlink_metadata(&place) {
            Ok(found) if !found.is_dir() => CoveredMount::File(place),
            // One that cannot be inspected is treated as a directory, which most are.
            Ok(_) | Err(_) => CoveredMount::Directory(place),
        });
    }
    Ok(covered)
}

/// The mount points below a directory, parents before children.
fn places(list: &[u8], root: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = list
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsString::from_vec(plain(field))))
        .filter(|place| place.starts_with(root) && place != root)
        .collect();
    places.sort();
    places.dedup();
    places
}

/// A path from the kernel's list, where spaces and the like are three octal digits.
fn plain(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let escaped = (*first == b'\\').then(|| after.get(..3)).flatten();
        let byte = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_below_a_directory_are_found_by_component_and_unescaped() {
        let list = b"1 0 8:1 / / rw - ext4 /dev/x rw\n\
            2 1 8:1 /a /w/app rw - ext4 /dev/x rw\n\
            3 1 8:1 /a /w/app/mnt\\040one rw - ext4 /dev/x rw\n\
            4 1 8:1 /a /w/app-evil/mnt rw - ext4 /dev/x rw\n\
            5 1 8:1 /a /w/app/a/b rw - ext4 /dev/x rw\n\
            6 1 8:1 /a /w/app/a rw - ext4 /dev/x rw\n\nnonsense\n";
        let found = places(list, Path::new("/w/app"));
        let expect = ["/w/app/a", "/w/app/a/b", "/w/app/mnt one"];
        assert_eq!(found, expect.map(PathBuf::from));
    }

    #[test]
    fn this_machine_has_processes_mounted_below_its_root() {
        let covered = beneath(Path::new("/")).unwrap();
        assert!(covered.contains(&CoveredMount::Directory("/proc".into())));
        assert!(
            !covered
                .iter()
                .any(|place| place.path().starts_with("/proc/sys"))
        );
    }
}
