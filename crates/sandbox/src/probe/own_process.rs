//! Attempts of a process to exceed its rights: to gain privileges, to raise its limits, to use what
//! it inherited, to outlive the call that started it.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::{
    fs::{self, File},
    io::Write as _,
    net::TcpListener,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _},
    time::{Duration, Instant},
};

use rustix::{
    fs::MemfdFlags,
    io::Errno,
    process::{Pid, Resource, Rlimit},
};

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    own_child::{Forked, OwnChildEnd, end, fork, in_child, leave, wait},
    raw::{c_string, call, last_error},
};

/// How long a process that outlives its call lives at most.
const MAX_DAEMON: Duration = Duration::from_mins(2);
/// How long a set-user-ID program is watched.
const WATCHED: Duration = Duration::from_millis(500);
/// How often it is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The first descriptor that no command is given.
const FIRST_FOREIGN: i32 = 3;
/// Where the search for descriptors ends.
const LAST_FOREIGN: i32 = 4096;

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "inherited-descriptors",
        about: "looks for open descriptors beyond the standard three",
        arguments: "",
        control: Control::Anyone,
        run: |_| Ok(inherited()),
    },
    Attempt {
        name: "identity",
        about: "looks whether it runs as another user than the one who started it, or with \
                capabilities",
        arguments: "",
        control: Control::Root,
        run: |_| Ok(identity()),
    },
    Attempt {
        name: "set-user-id",
        about: "starts a program that takes its owner's identity, and looks whether it does",
        arguments: "PROGRAM [ARGUMENT…]",
        control: Control::Anyone,
        run: set_user_id,
    },
    Attempt {
        name: "setuid-root",
        about: "asks to become user 0",
        arguments: "",
        control: Control::OwnNamespace,
        run: |_| {
            Ok(in_child(|| {
                // SAFETY: a number; only this attempt's own child is changed.
                let made = unsafe { call(libc::SYS_setuid, [0]) };
                Verdict::of("setuid", made)
            }))
        },
    },
    Attempt {
        name: "new-privileges",
        about: "looks whether it could still gain privileges by executing a program",
        arguments: "",
        control: Control::Anyone,
        run: |_| {
            // SAFETY: numbers only.
            let made = unsafe {
                call(
                    libc::SYS_prctl,
                    [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0],
                )
            };
            Ok(match made {
                Ok(0) => Verdict::succeeded("no_new_privs is not set"),
                Ok(_) => Verdict::stopped("no_new_privs is set"),
                Err(errno) => Verdict::refused(errno, "prctl"),
            })
        },
    },
    Attempt {
        name: "raise-limit",
        about: "raises its own limit on open files, processes, file size or core size",
        arguments: "files|processes|file-size|core",
        control: Control::Root,
        run: raise_limit,
    },
    Attempt {
        name: "personality",
        about: "turns off the randomisation of addresses for programs it starts",
        arguments: "",
        control: Control::Anyone,
        run: |_| {
            Ok(in_child(|| {
                let wanted = libc::ADDR_NO_RANDOMIZE as usize;
                // SAFETY: a number; only this attempt's own child is changed.
                let made = unsafe { call(libc::SYS_personality, [wanted]) };
                Verdict::of("personality", made)
            }))
        },
    },
    Attempt {
        name: "memfd-exec",
        about: "copies a program into memory and executes it from there",
        arguments: "PROGRAM [ARGUMENT…]",
        control: Control::Anyone,
        run: memfd_exec,
    },
    Attempt {
        name: "daemon",
        about: "leaves a process in a session of its own behind, with MARK on its command line",
        arguments: "MARK SECONDS",
        control: Control::Anyone,
        run: |given| {
            given.text(0)?;
            daemon(given.number(1)?, || Ok(()))
        },
    },
    Attempt {
        name: "daemon-on-port",
        about: "leaves a process behind that listens on a port of 127.0.0.1",
        arguments: "MARK SECONDS PORT",
        control: Control::Anyone,
        run: |given| {
            given.text(0)?;
            let port: u16 = given.number(2)?;
            daemon(given.number(1)?, move || {
                TcpListener::bind(("127.0.0.1", port)).map(std::mem::forget)
            })
        },
    },
];

fn inherited() -> Verdict {
    let open: Vec<String> = (FIRST_FOREIGN..LAST_FOREIGN)
        .filter(|number| {
            // SAFETY: the descriptor is only asked about; if it is not open the answer says so.
            let held = unsafe { BorrowedFd::borrow_raw(*number) };
            rustix::io::fcntl_getfd(held).is_ok()
        })
        .map(|number| {
            let link = fs::read_link(format!("/proc/self/fd/{number}"));
            let leads = link.map_or_else(|_| "?".to_owned(), |to| to.display().to_string());
            format!("{number} -> {leads}")
        })
        .collect();
    if open.is_empty() {
        Verdict::stopped("none is open")
    } else {
        Verdict::succeeded(open.join(", "))
    }
}

fn identity() -> Verdict {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().replace('\t', " ")
    };
    let (user, effective) = (rustix::process::getuid(), rustix::process::geteuid());
    let capabilities = field("CapEff:");
    let shown = format!(
        "user {}, effective {}, capabilities {capabilities}",
        user.as_raw(),
        effective.as_raw()
    );
    let has_none = capabilities.chars().all(|digit| digit == '0');
    if user == effective && has_none {
        Verdict::stopped(shown)
    } else {
        Verdict::succeeded(shown)
    }
}

fn set_user_id(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let program = given.text(0)?;
    let words = std::iter::once(program)
        .chain(given.rest(1).iter().map(String::as_str))
        .map(c_string)
        .collect::<Result<Vec<_>, _>>()?;
    // Kept open and silent, so that a program that asks for a password waits long enough to be
    // seen.
    let (input, _kept) = match rustix::pipe::pipe() {
        Ok(ends) => ends,
        Err(errno) => return Ok(Verdict::refused(errno, "a pipe")),
    };
    match fork() {
        Err(errno) => Ok(Verdict::refused(errno, "fork")),
        Ok(Forked::Child) => {
            let silence = File::options().write(true).open("/dev/null");
            if let Ok(silence) = &silence {
                let _ = rustix::stdio::dup2_stdout(silence);
                let _ = rustix::stdio::dup2_stderr(silence);
            }
            let _ = rustix::stdio::dup2_stdin(&input);
            execute(&words);
            leave(127)
        }
        Ok(Forked::Parent(child)) => {
            let verdict = watch(child);
            end(child);
            Ok(verdict)
        }
    }
}

/// Replaces this process with a program; returns only if that fails.
fn execute(words: &[std::ffi::CString]) {
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let Some(program) = words.first() else { return };
    let environment = [std::ptr::null()];
    // SAFETY: the list of words and the environment end with a null pointer, each word ends with a
    // null byte, and all of them live until the program is executed.
    unsafe { libc::execve(program.as_ptr(), pointers.as_ptr(), environment.as_ptr()) };
}

/// Watches the identity of a child until it changes, the child ends, or the time is up.
fn watch(child: Pid) -> Verdict {
    let own = rustix::process::getuid().as_raw();
    let path = format!("/proc/{}/status", child.as_raw_nonzero());
    let deadline = Instant::now() + WATCHED;
    let mut last = "it ended at once".to_owned();
    while Instant::now() < deadline {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective: Option<u32> = users
            .and_then(|users| users.split_whitespace().nth(1))
            .and_then(|user| user.parse().ok());
        match effective {
            Some(user) if user != own => {
                return Verdict::succeeded(format!("it runs as user {user}"));
            }
            Some(user) => last = format!("it runs as user {user}"),
            None => break,
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Verdict::stopped(last)
}

fn raise_limit(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let resource = match given.text(0)? {
        "files" => Resource::Nofile,
        "processes" => Resource::Nproc,
        "file-size" => Resource::Fsize,
        "core" => Resource::Core,
        other => return Err(Unusable::new(format!("there is no limit `{other}`"))),
    };
    let now = rustix::process::getrlimit(resource);
    let Some(maximum) = now.maximum else {
        return Ok(Verdict::succeeded("there is no limit"));
    };
    let wanted = Rlimit {
        current: now.current,
        maximum: Some(maximum.saturating_add(1)),
    };
    Ok(in_child(|| {
        Verdict::of("setrlimit", rustix::process::setrlimit(resource, wanted))
    }))
}

fn memfd_exec(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let program = given.text(0)?;
    let words = std::iter::once(program)
        .chain(given.rest(1).iter().map(String::as_str))
        .map(c_string)
        .collect::<Result<Vec<_>, _>>()?;
    let memory = match rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC) {
        Ok(memory) => File::from(memory),
        Err(errno) => return Ok(Verdict::refused(errno, "memfd_create")),
    };
    let copied = File::open(program).and_then(|mut from| std::io::copy(&mut from, &mut &memory));
    if copied.is_err() {
        return Ok(Verdict::of_io(program, copied));
    }
    match fork() {
        Err(errno) => Ok(Verdict::refused(errno, "fork")),
        Ok(Forked::Child) => {
            let mut pointers: Vec<usize> =
                words.iter().map(|word| word.as_ptr() as usize).collect();
            pointers.push(0);
            let environment = [0_usize];
            // SAFETY: both lists end with a null pointer, each word with a null byte, and the path
            // is empty and null-terminated; all live until the program is executed.
            let _ = unsafe {
                call(
                    libc::SYS_execveat,
                    [
                        memory.as_raw_fd() as usize,
                        c"".as_ptr() as usize,
                        pointers.as_ptr() as usize,
                        environment.as_ptr() as usize,
                        libc::AT_EMPTY_PATH as usize,
                    ],
                )
            };
            // The exit code tells the parent the error number.
            leave(last_error().raw_os_error())
        }
        Ok(Forked::Parent(child)) => Ok(match wait(child) {
            OwnChildEnd::Code(0) => Verdict::succeeded("the copy ran"),
            OwnChildEnd::Code(code) => Verdict::refused(Errno::from_raw_os_error(code), "execveat"),
            OwnChildEnd::Signal(signal) => Verdict::stopped(format!("killed by signal {signal}")),
        }),
    }
}

/// Leaves a process behind: a new session, forked twice, without the streams of the call.
fn daemon(
    seconds: u64,
    prepare: impl FnOnce() -> std::io::Result<()>,
) -> Result<Verdict, Unusable> {
    let lifetime = Duration::from_secs(seconds);
    if lifetime > MAX_DAEMON {
        return Err(Unusable::new(format!(
            "at most {} seconds",
            MAX_DAEMON.as_secs()
        )));
    }
    let (reader, writer) = match rustix::pipe::pipe() {
        Ok(ends) => ends,
        Err(errno) => return Ok(Verdict::refused(errno, "a pipe")),
    };
    let child = match fork() {
        Err(errno) => return Ok(Verdict::refused(errno, "fork")),
        Ok(Forked::Parent(child)) => child,
        Ok(Forked::Child) => {
            let _ = rustix::process::setsid();
            if let Ok(Forked::Child) = fork() {
                let prepared = prepare();
                let word = match &prepared {
                    Ok(()) => std::process::id().to_string(),
                    Err(error) => format!("-{}", error.raw_os_error().unwrap_or_default()),
                };
                let _ = File::from(writer).write_all(word.as_bytes());
                if let (Ok(()), Ok(nothing)) = (
                    &prepared,
                    File::options().read(true).write(true).open("/dev/null"),
                ) {
                    let _ = rustix::stdio::dup2_stdin(&nothing);
                    let _ = rustix::stdio::dup2_stdout(&nothing);
                    let _ = rustix::stdio::dup2_stderr(&nothing);
                    std::thread::sleep(lifetime);
                }
            }
            leave(0)
        }
    };
    drop(writer);
    wait(child);
    let mut word = String::new();
    let _ = std::io::Read::read_to_string(&mut File::from(reader), &mut word);
    Ok(match word.parse::<i32>() {
        Ok(id) if id > 0 => Verdict::succeeded(format!("process {id} is left behind")),
        Ok(errno) => Verdict::refused(Errno::from_raw_os_error(-errno), "what it was to hold"),
        Err(_) => Verdict::stopped("it did not start"),
    })
}

/// Takes ownership of a descriptor number the kernel just returned.
pub(super) fn owned(descriptor: usize) -> Option<std::os::fd::OwnedFd> {
    let number = i32::try_from(descriptor).ok()?;
    // SAFETY: callers pass what a call that makes descriptors just returned, so it is open and
    // nobody else owns it.
    Some(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) })
}
