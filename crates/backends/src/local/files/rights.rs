//! Who may do what with a file: its permission bits, and its POSIX access control list.
//!
//! If there is a list, the group bits are no longer those of the group but the most that the list
//! grants anybody. Used as a mode they would give the group rights it never had, so code that makes
//! a file from them must ask here.

use std::os::fd::AsFd;

use rustix::{
    fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr},
    io::Errno,
};

/// The permission bits a file made here may have: never set-user-id or set-group-id.
pub(super) const KEPT_MODE: u32 = 0o1777;

const ATTRIBUTE: &str = "system.posix_acl_access";

/// The largest value an attribute can have.
const MAX_VALUE: usize = 64 * 1024;

/// The access control list of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccessList {
    /// It has none, or its file system does not support them.
    Absent,
    /// In the kernel's format.
    Present(Vec<u8>),
    /// It could not be read.
    Unknown,
}

impl AccessList {
    /// The list of an open file.
    pub(crate) fn of(file: impl AsFd) -> Self {
        let mut value = [0_u8; 1024];
        match fgetxattr(&file, ATTRIBUTE, &mut value) {
            Ok(length) => Self::Present(value.get(..length).unwrap_or_default().to_vec()),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Self::Absent,
            Err(Errno::RANGE) => {
                let mut value = vec![0; MAX_VALUE];
                match fgetxattr(&file, ATTRIBUTE, &mut value[..]) {
                    Ok(length) => {
                        value.truncate(length);
                        Self::Present(value)
                    }
                    Err(_) => Self::Unknown,
                }
            }
            Err(_) => Self::Unknown,
        }
    }

    /// Gives a file this list and no other; returns whether it now has it. A new file may have
    /// inherited one from its directory, which grants what the file it replaces did not.
    pub(super) fn give_to(&self, file: impl AsFd) -> bool {
        match self {
            Self::Present(value) => fsetxattr(&file, ATTRIBUTE, value, XattrFlags::empty()).is_ok(),
            Self::Absent => matches!(
                fremovexattr(&file, ATTRIBUTE),
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP)
            ),
            Self::Unknown => false,
        }
    }

    /// The permission bits that by themselves grant nobody more than the file does.
    pub(crate) fn own_mode(&self, mode: u32) -> u32 {
        match self {
            Self::Absent => mode,
            Self::Present(_) | Self::Unknown => without_group(mode),
        }
    }
}

/// These bits, with the group reduced to what everybody else may do too.
pub(crate) fn without_group(mode: u32) -> u32 {
    let others = (mode & 0o007) << 3;
    (mode & !0o070) | (mode & others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_is_not_known_gets_what_everybody_has() {
        for (mode, expected) in [
            (0o600, 0o600),
            (0o640, 0o600),
            (0o644, 0o644),
            (0o664, 0o644),
            (0o770, 0o700),
            (0o754, 0o744),
            (0o604, 0o604),
        ] {
            assert_eq!(without_group(mode), expected, "{mode:o}");
        }
    }
}
