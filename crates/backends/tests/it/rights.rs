//! UN-03: what a file lets whom do, beyond its permission bits: access control lists, lists that a
//! directory hands down, and groups. The lists are written byte by byte, as the kernel takes them.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use haft_contract::ops::{Expected, WriteFile, WriteMode};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::workspace::{Workspace, at};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// The owner may read and write, user 12345 may read and write, the group and others nothing.
fn list_for_a_guest() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NOBODY),
        (0x02, 6, 12_345),
        (0x04, 0, NOBODY),
        (0x10, 6, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, whom) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(whom.to_le_bytes());
    }
    list
}

/// Gives a file or directory such a list.
fn give(path: &Path, attribute: &str) {
    let file = File::open(path).unwrap();
    fsetxattr(&file, attribute, &list_for_a_guest(), XattrFlags::empty()).unwrap();
}

fn list_of(path: &Path) -> Option<Vec<u8>> {
    let mut value = [0_u8; 256];
    let file = File::open(path).unwrap();
    let length = fgetxattr(&file, ACCESS, &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

async fn write(ws: &Workspace, path: &str, mode: WriteMode) {
    let write = WriteFile {
        bytes: b"new",
        expected: Expected::Anything,
        mode,
    };
    let files = ws.backend.operations().files;
    files.write(&at(path), write).await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs a file system with access control lists"]
async fn un_03_a_file_that_is_replaced_keeps_its_access_control_list() {
    let ws = Workspace::new();
    ws.put("listed", "old");
    let path = ws.root.join("listed");
    give(&path, ACCESS);
    // The bits of the group are the most that the list grants, not what the group may do.
    assert_eq!(mode(&path), 0o660);
    write(&ws, "listed", WriteMode::AsItIs).await;
    assert_eq!(mode(&path), 0o660);
    assert_eq!(list_of(&path), Some(list_for_a_guest()));

    // Taken by themselves they would let the group in.
    let files = ws.backend.operations().files;
    let reader = files.open(&at("listed")).await.unwrap();
    assert_eq!(reader.stat().mode, 0o660);
    assert_eq!(reader.own_mode(), 0o600);
}

#[tokio::test]
#[ignore = "ci: needs a file system with access control lists"]
async fn un_03_a_list_that_the_directory_hands_down_lets_nobody_into_a_file_that_was_there() {
    let ws = Workspace::new();
    ws.put("shared/plain", "old");
    let path = ws.root.join("shared/plain");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    give(&ws.root.join("shared"), DEFAULT);
    write(&ws, "shared/plain", WriteMode::AsItIs).await;
    assert_eq!((mode(&path), list_of(&path)), (0o660, None));

    // The same for a file that comes back; one that is new is like every new one.
    write(&ws, "shared/back", WriteMode::Exactly(0o640)).await;
    let back = ws.root.join("shared/back");
    assert_eq!((mode(&back), list_of(&back)), (0o640, None));
    write(&ws, "shared/new", WriteMode::AsItIs).await;
    assert!(list_of(&ws.root.join("shared/new")).is_some());
}

/// A directory can hand its group down, which is then not that of the file that was there.
#[tokio::test]
#[ignore = "ci: needs a second group"]
async fn un_03_a_file_keeps_its_group_or_lets_no_group_in() {
    let ws = Workspace::new();
    ws.put("shared/file", "old");
    let (directory, path) = (ws.root.join("shared"), ws.root.join("shared/file"));
    let own = fs::metadata(&path).unwrap().gid();
    let other = rustix::process::getgroups()
        .unwrap()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .find(|group| *group != own);
    let other = match other {
        Some(other) => other,
        None if rustix::process::geteuid().is_root() => own + 1,
        None => panic!("this user is in one group only"),
    };
    std::os::unix::fs::chown(&directory, None, Some(other)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o2770)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    write(&ws, "shared/file", WriteMode::AsItIs).await;
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.gid(), mode(&path)), (own, 0o660));
}
