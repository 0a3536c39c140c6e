//! Where a proxy listens: a Unix socket in its own directory that only this user may enter.

use std::{
    fs, io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{DirBuilderExt as _, OpenOptionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    rand::{GetRandomFlags, getrandom},
};

/// The name of the socket in its directory.
const SOCKET: &str = "egress";

/// A directory with a socket; removed on drop.
#[derive(Debug)]
pub(super) struct SocketDirectory {
    directory: PathBuf,
    socket: PathBuf,
}

impl SocketDirectory {
    /// Makes a directory in another one and listens in it.
    pub(super) fn make(beneath: &Path) -> io::Result<(Self, UnixListener)> {
        let mut name = [0; 16];
        getrandom(&mut name, GetRandomFlags::empty())?;
        let name = u128::from_ne_bytes(name);
        let directory = beneath.join(format!("haft-egress-{name:032x}"));
        // Fails if it exists, so nobody can have made it before.
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let place = Self {
            socket: directory.join(SOCKET),
            directory,
        };
        // The address of a socket must be short; through the open directory it always fits.
        let held = fs::OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed())
            .open(&place.directory)?;
        let through = format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd());
        let listener = UnixListener::bind(through)?;
        Ok((place, listener))
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let removed = fs::remove_file(&self.socket).and_then(|()| fs::remove_dir(&self.directory));
        if let Err(error) = removed {
            tracing::debug!(%error, "the socket of a proxy could not be removed");
        }
    }
}
