//! Attempts to share memory and queues with the host: System V by key, POSIX by name. The
//! `…-create` attempt of the same kind makes what they look for on the host beforehand.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use rustix::{fs::Mode, io::Errno, shm};

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    own_process::owned,
    raw::{c_string, call, checked},
};

/// The size of shared memory.
const SIZE: usize = 4096;

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "sysv-memory",
        about: "finds shared memory by its key",
        arguments: "KEY",
        control: Control::Anyone,
        run: |given| Ok(system_v(libc::SYS_shmget, [given.number(0)?, 0, 0o400])),
    },
    Attempt {
        name: "sysv-memory-create",
        about: "makes shared memory with a key",
        arguments: "KEY",
        control: Control::Anyone,
        run: |given| Ok(system_v(libc::SYS_shmget, [given.number(0)?, SIZE, CREATE])),
    },
    Attempt {
        name: "sysv-memory-remove",
        about: "removes shared memory by its key",
        arguments: "KEY",
        control: Control::Anyone,
        run: |given| {
            // SAFETY: numbers only; nobody is attached to what is removed by this process.
            let made = unsafe { call(libc::SYS_shmget, [given.number(0)?, 0, 0]) }.and_then(|id| {
                // SAFETY: as above.
                unsafe { call(libc::SYS_shmctl, [id, libc::IPC_RMID as usize, 0]) }
            });
            Ok(Verdict::of("shmctl", made))
        },
    },
    Attempt {
        name: "sysv-semaphores",
        about: "finds semaphores by their key, or makes them",
        arguments: "KEY [create]",
        control: Control::Anyone,
        run: |given| {
            let flags = given.optional(1).map_or(0o400, |_| CREATE);
            let count = given.optional(1).map_or(0, |_| 1);
            Ok(system_v(libc::SYS_semget, [given.number(0)?, count, flags]))
        },
    },
    Attempt {
        name: "sysv-messages",
        about: "finds a message queue by its key, or makes one",
        arguments: "KEY [create]",
        control: Control::Anyone,
        run: |given| {
            let flags = given.optional(1).map_or(0o400, |_| CREATE);
            Ok(system_v(libc::SYS_msgget, [given.number(0)?, flags, 0]))
        },
    },
    Attempt {
        name: "posix-memory",
        about: "opens shared memory by its name",
        arguments: "/NAME",
        control: Control::Anyone,
        run: |given| posix_memory(given, shm::OFlags::RDWR),
    },
    Attempt {
        name: "posix-memory-create",
        about: "makes shared memory with a name",
        arguments: "/NAME",
        control: Control::Anyone,
        run: |given| posix_memory(given, shm::OFlags::RDWR | shm::OFlags::CREATE),
    },
    Attempt {
        name: "posix-memory-remove",
        about: "removes shared memory by its name",
        arguments: "/NAME",
        control: Control::Anyone,
        run: |given| Ok(Verdict::of("shm_unlink", shm::unlink(given.text(0)?))),
    },
    Attempt {
        name: "posix-queue",
        about: "opens a message queue by its name",
        arguments: "/NAME",
        control: Control::Machine,
        run: |given| posix_queue(given, libc::O_RDWR),
    },
    Attempt {
        name: "posix-queue-create",
        about: "makes a message queue with a name",
        arguments: "/NAME",
        control: Control::Machine,
        run: |given| posix_queue(given, libc::O_RDWR | libc::O_CREAT),
    },
    Attempt {
        name: "posix-queue-remove",
        about: "removes a message queue by its name",
        arguments: "/NAME",
        control: Control::Machine,
        run: |given| {
            let name = c_string(given.text(0)?)?;
            // SAFETY: the name ends with a null byte and lives until the call returns.
            let made = checked(unsafe { libc::mq_unlink(name.as_ptr()) }.into());
            Ok(Verdict::of("mq_unlink", made))
        },
    },
];

/// Create it if it does not exist, for this user.
const CREATE: usize = libc::IPC_CREAT as usize | 0o600;

fn system_v(number: libc::c_long, words: [usize; 3]) -> Verdict {
    // SAFETY: numbers only; what is found is not attached.
    let made = unsafe { call(number, words) };
    // If it may not be opened, it was still found.
    Verdict::reached("System V", made, &[Errno::ACCESS])
}

fn posix_memory(given: &Arguments<'_>, flags: shm::OFlags) -> Result<Verdict, Unusable> {
    let opened = shm::open(given.text(0)?, flags, Mode::RUSR | Mode::WUSR);
    Ok(Verdict::of("shm_open", opened))
}

fn posix_queue(given: &Arguments<'_>, flags: i32) -> Result<Verdict, Unusable> {
    let name = c_string(given.text(0)?)?;
    let mode: libc::mode_t = 0o600;
    let defaults = std::ptr::null_mut::<libc::mq_attr>();
    // SAFETY: the name ends with a null byte and lives until the call returns; without attributes
    // the system's defaults apply.
    let opened = checked(unsafe { libc::mq_open(name.as_ptr(), flags, mode, defaults) }.into());
    Ok(Verdict::of("mq_open", opened.map(owned)))
}
