//! Attempts on the kernel's rarer calls, as one table. Calls that would change the machine are made
//! with arguments that the kernel rejects: what counts is that it looked at them at all, which its
//! answer shows. Where it checks for a capability first, only root can run the control.
#![expect(unsafe_code, reason = "makes system calls by number")]

use rustix::io::Errno;

use super::{
    attempt::{Attempt, Control, Verdict},
    raw::{MINUS_ONE, call},
};

/// One call: its number, arguments that are not pointers into this process, and the answers that
/// show that the kernel looked at them.
struct Call {
    number: libc::c_long,
    words: [usize; 5],
    reached: &'static [Errno],
}

macro_rules! calls {
    ($($name:literal, $about:literal, $control:ident, $number:expr, $words:expr, $reached:expr;)*) => {
        /// The attempts of this family.
        pub(super) const ATTEMPTS: &[Attempt] = &[$(Attempt {
            name: $name,
            about: $about,
            arguments: "",
            control: Control::$control,
            run: |_| {
                const CALL: Call = Call { number: $number, words: $words, reached: $reached };
                Ok(made($name, &CALL))
            },
        },)*];
    };
}

/// `KEY_SPEC_SESSION_KEYRING`.
const SESSION_KEYRING: usize = -3_isize as usize;

calls! {
    "keyctl", "asks for the session keyring", Anyone,
        libc::SYS_keyctl, [0, SESSION_KEYRING, 0, 0, 0], &[Errno::NOKEY];
    "add-key", "adds a key; a kind that cannot be read counts as reached", Anyone,
        libc::SYS_add_key, [MINUS_ONE, MINUS_ONE, 0, 0, SESSION_KEYRING], &[Errno::FAULT];
    "request-key", "asks for a key; a kind that cannot be read counts as reached", Anyone,
        libc::SYS_request_key, [MINUS_ONE, MINUS_ONE, 0, SESSION_KEYRING, 0], &[Errno::FAULT];
    "bpf", "gives the kernel a command about programs that it does not know", Machine,
        libc::SYS_bpf, [MINUS_ONE, 0, 0, 0, 0], &[Errno::INVAL, Errno::FAULT];
    "userfaultfd", "asks to handle its own page faults in user mode", Anyone,
        libc::SYS_userfaultfd, [1 | libc::O_CLOEXEC as usize, 0, 0, 0, 0], &[];
    "kexec-load", "loads another kernel, with more parts than there may be", Root,
        libc::SYS_kexec_load, [0, MINUS_ONE, 0, 0, 0], &[Errno::INVAL];
    "init-module", "loads a kernel module of no bytes", Root,
        libc::SYS_init_module, [0, 0, 0, 0, 0], &[Errno::NOEXEC, Errno::FAULT, Errno::INVAL];
    "finit-module", "loads a kernel module from no file", Root,
        libc::SYS_finit_module, [MINUS_ONE, 0, 0, 0, 0], &[Errno::BADF, Errno::FAULT];
    "delete-module", "removes a kernel module whose name cannot be read", Root,
        libc::SYS_delete_module, [MINUS_ONE, 0, 0, 0, 0], &[Errno::FAULT];
    "reboot", "restarts the machine, with a magic number that is none", OwnNamespace,
        libc::SYS_reboot, [0x0bad_0bad, 0x0bad_0bad, 0, 0, 0], &[Errno::INVAL];
    "swapon", "swaps to a file, with flags that are none", Anyone,
        libc::SYS_swapon, [MINUS_ONE, 0x7fff_0000, 0, 0, 0], &[Errno::INVAL];
    "swapoff", "stops swapping to a file whose name cannot be read", Root,
        libc::SYS_swapoff, [MINUS_ONE, 0, 0, 0, 0], &[Errno::FAULT];
    "settimeofday", "sets the clock to a moment that cannot be read", Anyone,
        libc::SYS_settimeofday, [MINUS_ONE, 0, 0, 0, 0], &[Errno::FAULT];
    "clock-settime", "sets the clock to a moment that cannot be read", Anyone,
        libc::SYS_clock_settime, [0, MINUS_ONE, 0, 0, 0], &[Errno::FAULT];
    "clock-adjtime", "adjusts the clock by what cannot be read", Anyone,
        libc::SYS_clock_adjtime, [0, MINUS_ONE, 0, 0, 0], &[Errno::FAULT];
    "quotactl", "changes disk quotas of a kind that there is not", Anyone,
        libc::SYS_quotactl, [MINUS_ONE, 0, 0, 0, 0], &[Errno::INVAL];
    "acct", "records every process to a file whose name cannot be read", Root,
        libc::SYS_acct, [MINUS_ONE, 0, 0, 0, 0], &[Errno::FAULT];
    "syslog", "reads the size of the kernel's log", Machine,
        libc::SYS_syslog, [10, 0, 0, 0, 0], &[];
    "sethostname", "sets the host name to one of negative length", OwnNamespace,
        libc::SYS_sethostname, [0, MINUS_ONE, 0, 0, 0], &[Errno::INVAL];
    "setdomainname", "sets the domain name to one of negative length", OwnNamespace,
        libc::SYS_setdomainname, [0, MINUS_ONE, 0, 0, 0], &[Errno::INVAL];
    "fanotify-init", "watches files as anybody may (FAN_REPORT_FID)", Machine,
        libc::SYS_fanotify_init, [0x200, 0, 0, 0, 0], &[];
    "memfd-secret", "makes memory that not even the kernel maps", Machine,
        libc::SYS_memfd_secret, [0, 0, 0, 0, 0], &[];
    "move-pages", "moves the pages of a process between memories, with flags that are none", Anyone,
        libc::SYS_move_pages, [0, 0, 0, 0, 0], &[Errno::INVAL];
    "pidfd-open-init", "gets hold of process 1", Anyone,
        libc::SYS_pidfd_open, [1, 0, 0, 0, 0], &[];
    "landlock-create", "asks for the version of Landlock, which any program may", Anyone,
        libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0], &[];
}

fn made(what: &str, made: &Call) -> Verdict {
    // SAFETY: every row of the table above passes numbers, null, or addresses outside user memory,
    // and no row changes the memory, the descriptors or the identity of this process.
    let answer = unsafe { call(made.number, made.words) };
    Verdict::reached(what, answer, made.reached)
}
