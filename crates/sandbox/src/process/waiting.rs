//! Whether anything waits for a child's input, according to the process table.
//!
//! A thread counts as waiting when the kernel holds it in `read` on the input, or in `poll`,
//! `select` or `epoll` over a set that contains the input. This is a snapshot: a program that reads
//! in a loop is sometimes caught between two lines, so ask again before believing it.
//!
//! Not seen: waiting through io_uring, 32-bit programs, and programs that made themselves
//! unreadable to their own user (`sudo`, `ssh-agent`). Seen although it may not matter: a server
//! that also listens to its terminal.

use std::os::{
    fd::BorrowedFd,
    unix::fs::{FileExt as _, MetadataExt as _},
};

use rustix::{fs::fstat, io::Errno};

/// The most threads of one process that are looked at.
const MAX_THREADS: usize = 1024;

/// The most descriptors of one set that are looked at.
const MAX_SET: usize = 1024;

/// The most bytes read of the description of an epoll set.
const MAX_EPOLL_BYTES: usize = 64 * 1024;

/// The device number of `/dev/tty`, whichever terminal that is.
const CONTROLLING_TERMINAL: u64 = libc::makedev(5, 0);

/// Identifies what a child reads, so that its descriptor is recognised in any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputSource {
    file_system: u64,
    inode: u64,
    /// The device number of a terminal; 0 for a pipe.
    device: u64,
}

impl InputSource {
    /// Identifies the child's end of its input.
    pub(crate) fn of(end: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = fstat(end)?;
        Ok(Self {
            file_system: stat.st_dev,
            inode: stat.st_ino,
            device: stat.st_rdev,
        })
    }

    /// Whether one of these processes waits for it.
    pub(crate) fn is_awaited_by(&self, processes: &[i32]) -> bool {
        processes.iter().any(|pid| self.is_awaited_in(*pid))
    }

    fn is_awaited_in(&self, pid: i32) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return false;
        };
        threads.flatten().take(MAX_THREADS).any(|thread| {
            let call = std::fs::read_to_string(thread.path().join("syscall"));
            let call = call.ok().and_then(|text| Call::parse(&text));
            call.is_some_and(|call| self.is_awaited_by_call(pid, &call))
        })
    }

    fn is_awaited_by_call(&self, pid: i32, call: &Call) -> bool {
        match call.wait() {
            None => false,
            Some(Wait::Read(descriptor)) => self.is(pid, descriptor),
            Some(Wait::Poll { set, length }) => polled(pid, set, length)
                .into_iter()
                .any(|descriptor| self.is(pid, descriptor)),
            Some(Wait::Select { set, length }) => selected(pid, set, length)
                .into_iter()
                .any(|descriptor| self.is(pid, descriptor)),
            Some(Wait::Epoll(descriptor)) => watched(pid, descriptor)
                .into_iter()
                .any(|descriptor| self.is(pid, descriptor)),
        }
    }

    /// Whether a descriptor of a process refers to this input.
    fn is(&self, pid: i32, descriptor: u64) -> bool {
        let Ok(there) = std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}")) else {
            return false;
        };
        let same = there.dev() == self.file_system && there.ino() == self.inode;
        same || (self.device != 0
            && there.rdev() == CONTROLLING_TERMINAL
            && controlling_terminal(pid) == Some(self.device))
    }
}

/// The system call a thread is in.
struct Call {
    number: i64,
    arguments: [u64; 6],
}

/// What a thread waits for.
enum Wait {
    Read(u64),
    Poll { set: u64, length: u64 },
    Select { set: u64, length: u64 },
    Epoll(u64),
}

impl Call {
    /// Parses `/proc/…/syscall`: a number, six arguments, two registers. A thread that is running,
    /// or blocked outside a call, has none.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            let word = words.next()?.strip_prefix("0x")?;
            *argument = u64::from_str_radix(word, 16).ok()?;
        }
        Some(Self { number, arguments })
    }

    fn wait(&self) -> Option<Wait> {
        let [first, second, ..] = self.arguments;
        match self.number {
            libc::SYS_read | libc::SYS_readv => Some(Wait::Read(first)),
            libc::SYS_ppoll => Some(Wait::Poll {
                set: first,
                length: second,
            }),
            libc::SYS_pselect6 => Some(Wait::Select {
                set: second,
                length: first,
            }),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Some(Wait::Epoll(first)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => Some(Wait::Poll {
                set: first,
                length: second,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => Some(Wait::Select {
                set: second,
                length: first,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => Some(Wait::Epoll(first)),
            _ => None,
        }
    }
}

/// The descriptors a `poll` waits to read from.
fn polled(pid: i32, set: u64, length: u64) -> Vec<u64> {
    const ENTRY: usize = 8;
    let length = usize::try_from(length).unwrap_or(MAX_SET).min(MAX_SET);
    let Some(bytes) = memory(pid, set, length * ENTRY) else {
        return Vec::new();
    };
    let entries = bytes.chunks_exact(ENTRY).filter_map(|entry| {
        let descriptor = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let events = i16::from_ne_bytes(entry.get(4..6)?.try_into().ok()?);
        let reads = events & (libc::POLLIN | libc::POLLRDNORM) != 0;
        u64::try_from(descriptor).ok().filter(|_| reads)
    });
    entries.collect()
}

/// The descriptors a `select` waits to read from.
fn selected(pid: i32, set: u64, length: u64) -> Vec<u64> {
    let length = usize::try_from(length).unwrap_or(MAX_SET).min(MAX_SET);
    if set == 0 {
        return Vec::new();
    }
    let Some(bytes) = memory(pid, set, length.div_ceil(8)) else {
        return Vec::new();
    };
    let is_set = |descriptor: &usize| {
        let byte = bytes.get(descriptor / 8).copied().unwrap_or(0);
        byte & (1 << (descriptor % 8)) != 0
    };
    (0..length)
        .filter(is_set)
        .map(|descriptor| descriptor as u64)
        .collect()
}

/// The descriptors an epoll set waits to read from.
fn watched(pid: i32, set: u64) -> Vec<u64> {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/fdinfo/{set}")) else {
        return Vec::new();
    };
    let mut text = String::new();
    if file
        .take(MAX_EPOLL_BYTES as u64)
        .read_to_string(&mut text)
        .is_err()
    {
        return Vec::new();
    }
    let entry = |line: &str| -> Option<u64> {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let descriptor = words.next()?.parse().ok()?;
        let events = words.nth(1)?;
        let events = u32::from_str_radix(events, 16).ok()?;
        (events & libc::EPOLLIN.unsigned_abs() != 0).then_some(descriptor)
    };
    text.lines().filter_map(entry).collect()
}

/// Bytes of another process's memory.
fn memory(pid: i32, address: u64, length: usize) -> Option<Vec<u8>> {
    let file = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// The device number of a process's controlling terminal.
fn controlling_terminal(pid: i32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let number: u32 = rest.split(' ').nth(4)?.parse::<i32>().ok()?.cast_unsigned();
    // The kernel's short form: minor in the low byte and the high twelve bits, major between.
    let major = (number >> 8) & 0xfff;
    let minor = (number & 0xff) | ((number >> 12) & 0xf_ff00);
    Some(libc::makedev(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_table_says_is_read() {
        let call = Call::parse("0 0x0 0x7ffd 0x1000 0x0 0x0 0x0 0x7ffd 0x7f0a\n").expect("a call");
        assert!(matches!(call.wait(), Some(Wait::Read(0))) || libc::SYS_read != 0);
        for none in ["running\n", "-1 0x7ffd 0x7f0a\n", "", "0 0x0\n"] {
            assert!(Call::parse(none).is_none(), "{none:?}");
        }
    }
}
