//! Attempts to make or enter namespaces, in which a process would have every capability.
#![expect(unsafe_code, reason = "clones with flags of its own choice")]

use std::{
    fs::{self, File},
    os::fd::AsRawFd as _,
};

use rustix::{io::Errno, process::Pid};

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    own_child::{Forked, clone, fork, in_child, leave, wait},
    raw::call,
};

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "unshare",
        about: "moves into a new namespace of a kind, by unshare",
        arguments: "user|mount|pid|net|ipc|uts|cgroup|time",
        control: Control::Anyone,
        run: |given| {
            let flags = wanted(given)?;
            Ok(in_child(|| {
                // SAFETY: a number; only this attempt's own child is moved.
                let made = unsafe { call(libc::SYS_unshare, [flags]) };
                Verdict::of("unshare", made)
            }))
        },
    },
    Attempt {
        name: "clone",
        about: "makes a child in a new namespace of a kind, by clone",
        arguments: "user|mount|pid|net|ipc|uts|cgroup",
        control: Control::Anyone,
        run: |given| {
            let flags = wanted(given)?;
            // SAFETY: only flags for namespaces are given, so memory is copied.
            Ok(ended("clone", unsafe { clone(flags) }))
        },
    },
    Attempt {
        name: "clone3",
        about: "makes a child in a new namespace of a kind, by clone3, whose flags no filter sees",
        arguments: "user|mount|pid|net|ipc|uts|cgroup|time",
        control: Control::Anyone,
        run: |given| {
            let flags = wanted(given)?;
            Ok(ended("clone3", clone3(flags)))
        },
    },
    Attempt {
        name: "setns",
        about: "enters a namespace of a process",
        arguments: "PID user|mnt|pid|net|ipc|uts|cgroup",
        control: Control::Root,
        run: setns,
    },
    Attempt {
        name: "in-user-namespace",
        about: "makes another attempt in a user namespace of its own, with every other kind too",
        arguments: "ATTEMPT [ARGUMENT…]",
        control: Control::Anyone,
        run: in_user_namespace,
    },
];

/// A user namespace and the requested one together, because making that one needs its capabilities.
fn wanted(given: &Arguments<'_>) -> Result<usize, Unusable> {
    let flag = match given.text(0)? {
        "user" => 0,
        "mount" => libc::CLONE_NEWNS,
        "pid" => libc::CLONE_NEWPID,
        "net" => libc::CLONE_NEWNET,
        "ipc" => libc::CLONE_NEWIPC,
        "uts" => libc::CLONE_NEWUTS,
        "cgroup" => libc::CLONE_NEWCGROUP,
        "time" => libc::CLONE_NEWTIME,
        other => return Err(Unusable::new(format!("there is no namespace `{other}`"))),
    };
    Ok((flag | libc::CLONE_NEWUSER) as usize)
}

fn clone3(flags: usize) -> Result<usize, Errno> {
    /// `struct clone_args`, with the size of its first version.
    #[repr(C)]
    #[derive(Default)]
    struct CloneArgs {
        flags: u64,
        descriptor: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
    }
    let wanted = CloneArgs {
        flags: flags as u64,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        ..CloneArgs::default()
    };
    let words = [(&raw const wanted) as usize, size_of::<CloneArgs>()];
    // SAFETY: the description says its size and lives until the call returns; without a stack and
    // without `CLONE_VM` this is a fork, and this process has one thread.
    unsafe { call(libc::SYS_clone3, words) }
}

/// The verdict on a clone: the child exits at once, the parent waits for it.
fn ended(what: &str, made: Result<usize, Errno>) -> Verdict {
    match made {
        Ok(0) => leave(0),
        Ok(child) => {
            if let Some(child) = i32::try_from(child).ok().and_then(Pid::from_raw) {
                wait(child);
            }
            Verdict::succeeded(what)
        }
        Err(errno) => Verdict::refused(errno, what),
    }
}

fn setns(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = format!("/proc/{}/ns/{}", given.number::<u32>(0)?, given.text(1)?);
    let namespace = match File::open(&path) {
        Ok(namespace) => namespace,
        Err(error) => return Ok(Verdict::of_io::<()>(&path, Err(error))),
    };
    Ok(in_child(|| {
        // SAFETY: numbers; only this attempt's own child is moved.
        let made = unsafe { call(libc::SYS_setns, [namespace.as_raw_fd() as usize, 0]) };
        Verdict::of("setns", made)
    }))
}

fn in_user_namespace(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let name = given.text(0)?.to_owned();
    if name == "in-user-namespace" {
        return Err(Unusable::new("one user namespace is enough"));
    }
    let arguments = given.rest(1).to_vec();
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    Ok(in_child(move || {
        let flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        // SAFETY: a number; only this attempt's own child is moved.
        if let Err(errno) = unsafe { call(libc::SYS_unshare, [flags as usize]) } {
            return Verdict::refused(errno, "a user namespace");
        }
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {} 1", user.as_raw())),
            ("gid_map", format!("0 {} 1", group.as_raw())),
        ];
        for (file, text) in maps {
            // Without a map it is still a namespace, and the attempt is made anyway.
            let _ = fs::write(format!("/proc/self/{file}"), text);
        }
        // Attempts that need no network do without.
        let _ = super::socket::raise_loopback();
        // Only children are in the new pid namespace.
        match fork() {
            Err(errno) => Verdict::refused(errno, "fork"),
            Ok(Forked::Parent(child)) => {
                wait(child);
                // The child has sent its verdict through the pipe that both hold.
                leave(0)
            }
            Ok(Forked::Child) => super::attempt(&name, &arguments)
                .unwrap_or_else(|unusable| Verdict::stopped(unusable.to_json(&name))),
        }
    }))
}
