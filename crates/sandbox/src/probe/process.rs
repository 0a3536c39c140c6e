//! Attempts on other processes: reading and writing their memory, taking their descriptors,
//! stopping and seeing them.
//!
//! Nothing is changed: a written byte is the byte that was already there, and a stopped process is
//! released again. `hold` is a process to aim at for the control.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::{
    fs,
    io::Read as _,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid},
};

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    raw::{MINUS_ONE, call, checked},
};

/// The most bytes read of a process's files in `/proc`.
const MAX_PROC_BYTES: u64 = 1024 * 1024;

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "ptrace-attach",
        about: "attaches to a process as a debugger, and lets go",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| ptrace(given, libc::PTRACE_ATTACH),
    },
    Attempt {
        name: "ptrace-seize",
        about: "attaches to a process without stopping it, and lets go",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| ptrace(given, libc::PTRACE_SEIZE),
    },
    Attempt {
        name: "process-vm-readv",
        about: "reads the memory of a process; an address that is not mapped counts as reached",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| process_memory(given, libc::SYS_process_vm_readv),
    },
    Attempt {
        name: "process-vm-writev",
        about: "writes the byte that is there into the memory of a process",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| process_memory(given, libc::SYS_process_vm_writev),
    },
    Attempt {
        name: "proc-mem",
        about: "opens /proc/PID/mem and writes the byte that is there",
        arguments: "PID",
        control: Control::Anyone,
        run: proc_mem,
    },
    Attempt {
        name: "pidfd-getfd",
        about: "takes a descriptor out of a process",
        arguments: "PID [FD]",
        control: Control::Anyone,
        run: pidfd_getfd,
    },
    Attempt {
        name: "kcmp",
        about: "compares the kernel objects of a process with one's own",
        arguments: "PID",
        control: Control::Anyone,
        run: kcmp,
    },
    Attempt {
        name: "perf-event-open",
        about: "counts the page faults of a process (itself if none is named)",
        arguments: "[PID]",
        control: Control::Anyone,
        run: perf_event_open,
    },
    Attempt {
        name: "process-madvise",
        about: "advises the kernel about the memory of a process; wrong advice counts as reached",
        arguments: "PID",
        control: Control::Anyone,
        run: process_madvise,
    },
    Attempt {
        name: "environ",
        about: "reads the environment of a process",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| proc_file(given, "environ"),
    },
    Attempt {
        name: "maps",
        about: "reads the memory map of a process",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| proc_file(given, "maps"),
    },
    Attempt {
        name: "root-of",
        about: "lists the root directory as a process sees it",
        arguments: "PID",
        control: Control::Anyone,
        run: |given| {
            let path = format!("/proc/{}/root", given.number::<u32>(0)?);
            let listed = fs::read_dir(&path).map(Iterator::count);
            Ok(Verdict::of_io(&path, listed))
        },
    },
    Attempt {
        name: "find-process",
        about: "looks for a process with a word on its command line, other than this one",
        arguments: "WORD",
        control: Control::Anyone,
        run: find_process,
    },
    Attempt {
        name: "signal",
        about: "sends a signal to a process; 0 (the default) only asks whether it may",
        arguments: "PID [SIGNAL]",
        control: Control::Anyone,
        run: |given| {
            let signal = given.number_or(1, 0)?;
            // SAFETY: sends a signal; no memory is involved.
            let made = checked(unsafe { libc::kill(given.number(0)?, signal) }.into());
            Ok(Verdict::of("kill", made))
        },
    },
    Attempt {
        name: "signal-everyone",
        about: "asks whether it may signal any other process at all (kill -1 with signal 0)",
        arguments: "",
        control: Control::Anyone,
        run: |_| {
            // SAFETY: signal 0 is sent to nobody; no memory is involved.
            let made = checked(unsafe { libc::kill(-1, 0) }.into());
            Ok(Verdict::of("kill -1", made))
        },
    },
    Attempt {
        name: "hold",
        about: "no attempt: waits for end of input, as a process to aim at; prints its id at once",
        arguments: "",
        control: Control::Anyone,
        run: |_| Ok(hold()),
    },
];

fn pid(given: &Arguments<'_>) -> Result<Pid, Unusable> {
    Pid::from_raw(given.number(0)?)
        .filter(|pid| pid.as_raw_nonzero().get() > 0)
        .ok_or_else(|| Unusable::new("a process id is above 0"))
}

fn ptrace(given: &Arguments<'_>, request: libc::c_uint) -> Result<Verdict, Unusable> {
    let target = pid(given)?;
    let id = target.as_raw_nonzero().get() as usize;
    // SAFETY: attaching takes no memory of this process.
    let made = unsafe { call(libc::SYS_ptrace, [request as usize, id, 0, 0]) };
    if made.is_ok() {
        // Only a process that has stopped can be detached.
        if request == libc::PTRACE_SEIZE {
            // SAFETY: as above.
            let _ = unsafe {
                call(
                    libc::SYS_ptrace,
                    [libc::PTRACE_INTERRUPT as usize, id, 0, 0],
                )
            };
        }
        let _ = waitpid(Some(target), WaitOptions::UNTRACED);
        // SAFETY: as above.
        let _ = unsafe { call(libc::SYS_ptrace, [libc::PTRACE_DETACH as usize, id, 0, 0]) };
    }
    Ok(Verdict::of("ptrace", made))
}

/// The start of writable memory of a process, if its maps can be read.
fn writable_address(target: Pid) -> Option<usize> {
    let path = format!("/proc/{}/maps", target.as_raw_nonzero());
    let file = fs::File::open(path).ok()?;
    let mut maps = String::new();
    file.take(MAX_PROC_BYTES).read_to_string(&mut maps).ok()?;
    let line = maps.lines().find(|line| line.contains(" rw"))?;
    usize::from_str_radix(line.split('-').next()?, 16).ok()
}

fn process_memory(given: &Arguments<'_>, number: libc::c_long) -> Result<Verdict, Unusable> {
    let target = pid(given)?;
    let id = target.as_raw_nonzero().get() as usize;
    // The kernel checks permission before it looks at the address, so any address will do.
    let address = writable_address(target).unwrap_or_default();
    let mut byte = 0_u8;
    let ours = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let theirs = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: 1,
    };
    let words = [
        id,
        (&raw const ours) as usize,
        1,
        (&raw const theirs) as usize,
        1,
        0,
    ];
    // SAFETY: both vectors live until the calls return and say that they hold one byte; the
    // address in the other process is only ever used there.
    let read = unsafe { call(libc::SYS_process_vm_readv, words) };
    let made = if number == libc::SYS_process_vm_readv || read.is_err() && address != 0 {
        read
    } else {
        // SAFETY: as above; what is written is what was just read.
        unsafe { call(number, words) }
    };
    let what = if number == libc::SYS_process_vm_readv {
        "process_vm_readv"
    } else {
        "process_vm_writev"
    };
    Ok(Verdict::reached(what, made, &[Errno::FAULT]))
}

fn proc_mem(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let target = pid(given)?;
    let path = format!("/proc/{}/mem", target.as_raw_nonzero());
    let memory = match fs::OpenOptions::new().read(true).write(true).open(&path) {
        Ok(memory) => memory,
        Err(error) => return Ok(Verdict::of_io::<()>(&path, Err(error))),
    };
    let Some(address) = writable_address(target) else {
        return Ok(Verdict::succeeded(format!("{path} was opened for writing")));
    };
    let mut byte = [0];
    let made = memory
        .read_exact_at(&mut byte, address as u64)
        .and_then(|()| memory.write_all_at(&byte, address as u64));
    Ok(Verdict::of_io(&format!("write to {path}"), made))
}

fn pidfd_getfd(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let target = pid(given)?;
    let wanted: u32 = given.number_or(1, 1)?;
    let made = pidfd_open(target, PidfdFlags::empty()).and_then(|held| {
        let words = [held.as_raw_fd() as usize, wanted as usize, 0];
        // SAFETY: three numbers; a resulting descriptor stays open until this process ends.
        unsafe { call(libc::SYS_pidfd_getfd, words) }
    });
    Ok(Verdict::reached("pidfd_getfd", made, &[Errno::BADF]))
}

fn kcmp(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    /// `KCMP_VM`: whether two processes share their memory.
    const MEMORY: usize = 1;
    let target = pid(given)?.as_raw_nonzero().get() as usize;
    let own = std::process::id() as usize;
    // SAFETY: numbers only.
    let made = unsafe { call(libc::SYS_kcmp, [own, target, MEMORY, 0, 0]) };
    Ok(Verdict::of("kcmp", made))
}

fn perf_event_open(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    /// The first words of `struct perf_event_attr`, with the size of its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Event {
        kind: u32,
        size: u32,
        config: u64,
        rest: [u64; 6],
    }
    /// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_PAGE_FAULTS`.
    const SOFTWARE: u32 = 1;
    const PAGE_FAULTS: u64 = 2;
    /// `exclude_kernel` and `exclude_hv`, without which no unprivileged user may count.
    const USER_ONLY: u64 = 0b110_0000;
    let target: u32 = given.number_or(0, 0)?;
    let mut event = Event {
        kind: SOFTWARE,
        size: 64,
        config: PAGE_FAULTS,
        ..Event::default()
    };
    if let Some(flags) = event.rest.get_mut(3) {
        *flags = USER_ONLY;
    }
    let words = [
        (&raw mut event) as usize,
        target as usize,
        MINUS_ONE,
        MINUS_ONE,
        0,
    ];
    // SAFETY: the event says its own size and lives until the call returns; a resulting descriptor
    // stays open until this process ends.
    let made = unsafe { call(libc::SYS_perf_event_open, words) };
    Ok(Verdict::of("perf_event_open", made))
}

fn process_madvise(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let target = pid(given)?;
    let made = pidfd_open(target, PidfdFlags::empty()).and_then(|held| {
        let vector = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let words = [
            held.as_raw_fd() as usize,
            (&raw const vector) as usize,
            1,
            MINUS_ONE,
        ];
        // SAFETY: the vector is empty and lives until the call returns.
        unsafe { call(libc::SYS_process_madvise, words) }
    });
    Ok(Verdict::reached("process_madvise", made, &[Errno::INVAL]))
}

fn proc_file(given: &Arguments<'_>, name: &str) -> Result<Verdict, Unusable> {
    let path = format!("/proc/{}/{name}", pid(given)?.as_raw_nonzero());
    let mut bytes = Vec::new();
    let read =
        fs::File::open(&path).and_then(|file| file.take(MAX_PROC_BYTES).read_to_end(&mut bytes));
    Ok(match read {
        // A kernel thread, and a process that may not be looked at, read as empty.
        Ok(0) => Verdict::stopped(format!("{path} is empty")),
        Ok(_) => {
            let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
            Verdict::succeeded(text.chars().take(4096).collect::<String>())
        }
        Err(_) => Verdict::of_io(&path, read),
    })
}

fn find_process(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let word = given.text(0)?;
    let own = std::process::id();
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => return Ok(Verdict::of_io::<()>("/proc", Err(error))),
    };
    let mut seen = 0_usize;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        seen += 1;
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        // Whatever started this attempt has the word on its command line too.
        if id != own && line.contains(word) && !line.contains("find-process") {
            return Ok(Verdict::succeeded(format!("process {id}")));
        }
    }
    Ok(Verdict::stopped(format!("none of {seen} processes")))
}

fn hold() -> Verdict {
    use std::io::Write as _;
    // SAFETY: numbers only; lets any process of this user trace this one, even where only parents
    // may.
    let _ = unsafe {
        call(
            libc::SYS_prctl,
            [
                libc::PR_SET_PTRACER as usize,
                libc::PR_SET_PTRACER_ANY as usize,
                0,
                0,
                0,
            ],
        )
    };
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", std::process::id()).and_then(|()| stdout.flush());
    let mut input = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_PROC_BYTES)
        .read_to_end(&mut input);
    Verdict::of_io("held", read)
}
