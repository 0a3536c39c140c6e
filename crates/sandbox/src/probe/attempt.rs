//! What an attempt is, what arguments it takes, and what it reports.

use rustix::io::Errno;
use serde_json::json;

/// One way to try to escape.
pub struct Attempt {
    /// The name it is run by.
    pub name: &'static str,
    /// What it tries, and what counts as success.
    pub about: &'static str,
    /// The arguments it takes; those in brackets may be left out.
    pub arguments: &'static str,
    /// Under what conditions it succeeds outside a sandbox.
    pub control: Control,
    /// Makes the attempt.
    pub(super) run: fn(&Arguments<'_>) -> Result<Verdict, Unusable>,
}

/// Under what conditions an attempt succeeds outside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// For any user.
    Anyone,
    /// For any user, in their own user namespace, through the attempt `in-user-namespace`.
    OwnNamespace,
    /// Only for root: the kernel checks for a capability first.
    Root,
    /// Depends on how the kernel was built or on a device.
    Machine,
}

impl Attempt {
    /// Makes the attempt.
    pub(super) fn make(&self, arguments: &[String]) -> Result<Verdict, Unusable> {
        (self.run)(&Arguments {
            usage: self.arguments,
            words: arguments,
        })
    }
}

/// The arguments of one attempt.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    usage: &'static str,
    words: &'a [String],
}

impl<'a> Arguments<'a> {
    /// The argument at a position.
    pub(super) fn text(&self, at: usize) -> Result<&'a str, Unusable> {
        self.optional(at)
            .ok_or_else(|| Unusable::new(format!("an argument is missing: {}", self.usage)))
    }

    /// The argument at a position, if it was given.
    pub(super) fn optional(&self, at: usize) -> Option<&'a str> {
        self.words.get(at).map(String::as_str)
    }

    /// The argument at a position, as a number.
    pub(super) fn number<N: std::str::FromStr>(&self, at: usize) -> Result<N, Unusable> {
        let word = self.text(at)?;
        word.parse()
            .map_err(|_| Unusable::new(format!("`{word}` is not a number that fits here")))
    }

    /// The argument at a position as a number, or this default.
    pub(super) fn number_or<N: std::str::FromStr>(
        &self,
        at: usize,
        otherwise: N,
    ) -> Result<N, Unusable> {
        match self.optional(at) {
            Some(_) => self.number(at),
            None => Ok(otherwise),
        }
    }

    /// Everything from a position on.
    pub(super) fn rest(&self, from: usize) -> &'a [String] {
        self.words.get(from..).unwrap_or_default()
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It got what it tried to get.
    Succeeded {
        /// What exactly.
        detail: String,
    },
    /// Something stopped it.
    Refused {
        /// The kernel's error, if it gave one.
        errno: Option<Errno>,
        /// What exactly.
        detail: String,
    },
}

impl Verdict {
    pub(super) fn succeeded(detail: impl Into<String>) -> Self {
        Self::Succeeded {
            detail: detail.into(),
        }
    }

    pub(super) fn refused(errno: Errno, detail: impl Into<String>) -> Self {
        Self::Refused {
            errno: Some(errno),
            detail: detail.into(),
        }
    }

    /// Stopped by something other than an error of the kernel.
    pub(super) fn stopped(detail: impl Into<String>) -> Self {
        Self::Refused {
            errno: None,
            detail: detail.into(),
        }
    }

    /// Succeeded if the call did.
    pub(super) fn of<T>(what: &str, made: Result<T, Errno>) -> Self {
        Self::reached(what, made, &[])
    }

    /// Succeeded if the call did, or if the kernel answered with one of these errors: then it let
    /// the call in and rejected only its arguments, which are wrong on purpose.
    pub(super) fn reached<T>(what: &str, made: Result<T, Errno>, wrong: &[Errno]) -> Self {
        match made {
            Ok(_) => Self::succeeded(what),
            Err(errno) if wrong.contains(&errno) => Self::succeeded(format!(
                "{what}: the kernel was reached and answered {}",
                name_of(errno)
            )),
            Err(errno) => Self::refused(errno, what),
        }
    }

    /// Succeeded if the operation did.
    pub(super) fn of_io<T>(what: &str, made: std::io::Result<T>) -> Self {
        match made {
            Ok(_) => Self::succeeded(what),
            Err(error) => match Errno::from_io_error(&error) {
                Some(errno) => Self::refused(errno, what),
                None => Self::stopped(format!("{what}: {error}")),
            },
        }
    }

    /// The verdict as one line of JSON.
    pub(super) fn to_json(&self, attempt: &str) -> String {
        match self {
            Self::Succeeded { detail } => {
                json!({"attempt": attempt, "result": "succeeded", "errno": null, "detail": detail})
            }
            Self::Refused { errno, detail } => json!({
                "attempt": attempt,
                "result": "refused",
                "errno": errno.map(name_of),
                "detail": detail,
            }),
        }
        .to_string()
    }
}

/// The attempt could not be made: it does not exist, or its arguments make no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(String);

impl Unusable {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(super) fn to_json(&self, attempt: &str) -> String {
        json!({"attempt": attempt, "result": "unusable", "errno": null, "detail": self.0})
            .to_string()
    }
}

/// The usual name of an error, or its number.
pub(super) fn name_of(errno: Errno) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(
        || format!("errno {}", errno.raw_os_error()),
        |(_, name)| (*name).to_owned(),
    )
}

const NAMES: &[(Errno, &str)] = &[
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::SRCH, "ESRCH"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::NXIO, "ENXIO"),
    (Errno::BADF, "EBADF"),
    (Errno::CHILD, "ECHILD"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::FAULT, "EFAULT"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::XDEV, "EXDEV"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::TXTBSY, "ETXTBSY"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::ROFS, "EROFS"),
    (Errno::NOEXEC, "ENOEXEC"),
    (Errno::LOOP, "ELOOP"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::IDRM, "EIDRM"),
    (Errno::STALE, "ESTALE"),
    (Errno::NOKEY, "ENOKEY"),
    (Errno::USERS, "EUSERS"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::PROTOTYPE, "EPROTOTYPE"),
    (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
    (Errno::SOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::NETDOWN, "ENETDOWN"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::NOTCONN, "ENOTCONN"),
];
