//! Attempts to make a denied call through the entry point of another architecture, where its number
//! differs: 32-bit calls by `int 0x80`, x32 calls, the old vsyscall page. The call is one that
//! anybody may make on a host and no filter allows: asking for the session keyring.
//!
//! Each is made in a child, because the right answer to it is to kill the caller.
#![expect(unsafe_code, reason = "enters the kernel by hand")]

use super::{
    attempt::{Attempt, Control, Verdict},
    own_child::in_child,
};

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "int80-keyctl",
        about: "asks for the session keyring through the 32-bit entry point",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(in_child(entry::int80_keyctl)),
    },
    Attempt {
        name: "int80-getpid",
        about: "asks for its own id through the 32-bit entry point",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(in_child(entry::int80_getpid)),
    },
    Attempt {
        name: "x32-keyctl",
        about: "asks for the session keyring through the x32 entry point",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(in_child(entry::x32_keyctl)),
    },
    Attempt {
        name: "vsyscall-time",
        about: "asks for the time through the vsyscall page",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(in_child(entry::vsyscall_time)),
    },
];

#[cfg(target_arch = "x86_64")]
mod entry {
    use rustix::io::Errno;

    use super::Verdict;

    /// `KEYCTL_GET_KEYRING_ID` of `KEY_SPEC_SESSION_KEYRING`, without making one.
    const GET_KEYRING: u64 = 0;
    const SESSION_KEYRING: i64 = -3;

    pub(super) fn int80_keyctl() -> Verdict {
        verdict("int 0x80 keyctl", int80(288, GET_KEYRING, SESSION_KEYRING))
    }

    pub(super) fn int80_getpid() -> Verdict {
        verdict("int 0x80 getpid", int80(20, 0, 0))
    }

    pub(super) fn x32_keyctl() -> Verdict {
        /// `__X32_SYSCALL_BIT` and the number of `keyctl`.
        const NUMBER: i64 = 0x4000_0000 + 250;
        let answer: i64;
        // SAFETY: numbers only; the kernel keeps all registers but the three named.
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") NUMBER => answer,
                in("rdi") GET_KEYRING,
                in("rsi") SESSION_KEYRING,
                in("rdx") 0,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        verdict("x32 keyctl", i32::try_from(answer).unwrap_or_default())
    }

    pub(super) fn vsyscall_time() -> Verdict {
        /// The address of `time` on the vsyscall page.
        const TIME: usize = 0xffff_ffff_ff60_0400;
        let answer: i64;
        // SAFETY: the address is fixed in the ABI; where the page is off, the kernel kills this
        // child. A null pointer means that nothing is written.
        unsafe {
            std::arch::asm!(
                "sub rsp, 128",
                "call {entry}",
                "add rsp, 128",
                entry = in(reg) TIME,
                inlateout("rax") 0_i64 => answer,
                in("rdi") 0,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        // A filter that skips the call leaves its error, or nothing, instead of the time.
        if answer > 0 {
            Verdict::succeeded(format!("the time is {answer}"))
        } else {
            verdict("vsyscall time", i32::try_from(answer).unwrap_or_default())
        }
    }

    fn int80(number: i64, first: u64, second: i64) -> i32 {
        let answer: i64;
        // SAFETY: numbers only; `rbx` may not be named, so it is exchanged and restored; the kernel
        // clears r8 to r11 on this entry point.
        unsafe {
            std::arch::asm!(
                "xchg {first}, rbx",
                "int 0x80",
                "xchg {first}, rbx",
                first = inout(reg) first => _,
                inlateout("rax") number => answer,
                in("rcx") second,
                in("rdx") 0,
                lateout("r8") _,
                lateout("r9") _,
                lateout("r10") _,
                lateout("r11") _,
            );
        }
        // The answer is 32 bits wide, whatever the register holds above them.
        answer as i32
    }

    fn verdict(what: &str, answer: i32) -> Verdict {
        if answer >= 0 {
            return Verdict::succeeded(format!("{what}: {answer}"));
        }
        // A missing keyring, or one that may not be looked at, is an answer of the call itself.
        let errno = Errno::from_raw_os_error(-answer);
        Verdict::reached::<()>(what, Err(errno), &[Errno::NOKEY])
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod entry {
    use super::Verdict;

    pub(super) fn int80_keyctl() -> Verdict {
        absent()
    }

    pub(super) fn int80_getpid() -> Verdict {
        absent()
    }

    pub(super) fn x32_keyctl() -> Verdict {
        absent()
    }

    pub(super) fn vsyscall_time() -> Verdict {
        absent()
    }

    fn absent() -> Verdict {
        Verdict::stopped("this processor has no such entry point")
    }
}
