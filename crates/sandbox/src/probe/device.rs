//! Attempts on devices: input pushed into a terminal as if somebody had typed it, and the device
//! nodes of the machine.
#![expect(unsafe_code, reason = "controls devices")]

use std::{fs::File, os::fd::AsRawFd as _};

use super::{
    attempt::{Attempt, Control, Verdict},
    raw::checked,
};

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "controlling-terminal",
        about: "opens the controlling terminal",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(Verdict::of_io("/dev/tty", terminal())),
    },
    Attempt {
        name: "tiocsti",
        about: "pushes one space into a terminal (standard input if none can be opened)",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(push_input()),
    },
    Attempt {
        name: "tioclinux",
        about: "pastes the selection of a console into it",
        arguments: "",
        control: Control::Root,
        run: |_| Ok(paste_selection()),
    },
    Attempt {
        name: "devices",
        about: "looks for nodes in /dev that reach the machine",
        arguments: "",
        control: Control::Anyone,
        run: |_| Ok(devices()),
    },
];

/// Nodes that no sandbox has; every machine has some of them.
const MACHINE_NODES: &[&str] = &[
    "kmsg",
    "mem",
    "port",
    "kvm",
    "fuse",
    "net",
    "vda",
    "sda",
    "nvme0n1",
    "loop-control",
    "loop0",
    "mapper",
    "dri",
    "input",
    "snd",
    "vhost-net",
    "vhost-vsock",
    "vsock",
    "uinput",
    "hpet",
    "rtc0",
    "cuse",
    "btrfs-control",
    "userfaultfd",
    "snapshot",
    "watchdog",
    "tty0",
    "console",
];

fn terminal() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

fn push_input() -> Verdict {
    let key = b" ";
    let held = terminal().ok();
    let number = held.as_ref().map_or(0, File::as_raw_fd);
    // SAFETY: the call reads one byte, which lives until it returns.
    let made = checked(unsafe { libc::ioctl(number, libc::TIOCSTI, key.as_ptr()) }.into());
    Verdict::of("TIOCSTI", made)
}

fn paste_selection() -> Verdict {
    // `TIOCL_PASTESEL`.
    let mut paste = [3_u8];
    let held = terminal().ok();
    let number = held.as_ref().map_or(0, File::as_raw_fd);
    // SAFETY: the call reads one byte, which lives until it returns.
    let made = checked(unsafe { libc::ioctl(number, libc::TIOCLINUX, paste.as_mut_ptr()) }.into());
    Verdict::of("TIOCLINUX", made)
}

fn devices() -> Verdict {
    let entries = match std::fs::read_dir("/dev") {
        Ok(entries) => entries,
        Err(error) => return Verdict::of_io::<()>("/dev", Err(error)),
    };
    let found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| MACHINE_NODES.contains(&name.as_str()))
        .collect();
    if found.is_empty() {
        Verdict::stopped("none is there")
    } else {
        Verdict::succeeded(found.join(", "))
    }
}
