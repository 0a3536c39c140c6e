//! Attempts through io_uring, which makes system calls that no filter sees.
#![expect(unsafe_code, reason = "a ring is shared memory")]

use std::{
    fs::File,
    io::Read as _,
    os::fd::AsRawFd as _,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::io::Errno;

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    own_process::owned,
    raw::{c_string, call},
};

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "io-uring-setup",
        about: "makes a ring",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(Verdict::of("io_uring_setup", set_up().map(|_| ()))),
    },
    Attempt {
        name: "io-uring-open",
        about: "opens a file through a ring and reads from it",
        arguments: "PATH",
        control: Control::Machine,
        run: open_through_ring,
    },
];

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submissions: u32,
    completions: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    worker: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user: u64,
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    overflow: u32,
    events: u32,
    flags: u32,
    reserved: u32,
    user: u64,
}

/// The fields of `struct io_uring_sqe` that an open needs.
#[repr(C)]
struct Submission {
    operation: u8,
    flags: u8,
    priority: u16,
    directory: i32,
    offset: u64,
    address: u64,
    length: u32,
    open_flags: u32,
    user: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`.
#[repr(C)]
struct Completion {
    user: u64,
    result: i32,
    flags: u32,
}

/// `IORING_OP_OPENAT`.
const OPEN: u8 = 18;
/// `IORING_ENTER_GETEVENTS`.
const GET_EVENTS: usize = 1;
/// `IORING_OFF_SQ_RING`, which maps both rings if the kernel offers one map for them.
const RINGS_AT: i64 = 0;
/// `IORING_OFF_SQES`.
const ENTRIES_AT: i64 = 0x1000_0000;
/// `IORING_FEAT_SINGLE_MMAP`.
const ONE_MAP: u32 = 1;

fn set_up() -> Result<(File, Parameters), Errno> {
    let mut parameters = Parameters::default();
    let words = [1, (&raw mut parameters) as usize];
    // SAFETY: the parameters have the layout the call expects and live until it returns.
    let ring = unsafe { call(libc::SYS_io_uring_setup, words) }?;
    let ring = owned(ring).ok_or(Errno::BADF)?;
    Ok((File::from(ring), parameters))
}

fn open_through_ring(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = c_string(given.text(0)?)?;
    let (ring, parameters) = match set_up() {
        Ok(made) => made,
        Err(errno) => return Ok(Verdict::refused(errno, "io_uring_setup")),
    };
    if parameters.features & ONE_MAP == 0 {
        return Ok(Verdict::stopped("this kernel maps its rings apart"));
    }
    let completions = parameters.completion.events as usize
        + parameters.completions as usize * size_of::<Completion>();
    let submissions =
        parameters.submission.array as usize + parameters.submissions as usize * size_of::<u32>();
    let mapped = Map::of(&ring, RINGS_AT, completions.max(submissions)).and_then(|rings| {
        let entries = Map::of(&ring, ENTRIES_AT, size_of::<Submission>())?;
        Ok((rings, entries))
    });
    let (rings, entries) = match mapped {
        Ok(maps) => maps,
        Err(errno) => return Ok(Verdict::refused(errno, "mapping the ring")),
    };
    let submission = Submission {
        operation: OPEN,
        flags: 0,
        priority: 0,
        directory: libc::AT_FDCWD,
        offset: 0,
        address: path.as_ptr() as u64,
        length: 0,
        open_flags: libc::O_RDONLY.unsigned_abs(),
        user: 0,
        rest: [0; 3],
    };
    // SAFETY: the offsets are the kernel's own and lie within the maps; the ring is new, so its
    // first entry is free and nothing is taken from it until its tail moves. The path lives until
    // the call below has returned with the completion.
    unsafe {
        entries.at::<Submission>(0).write(submission);
        rings
            .at::<u32>(parameters.submission.array as usize)
            .write(0);
        (*rings.at::<AtomicU32>(parameters.submission.tail as usize)).store(1, Ordering::Release);
    }
    let words = [ring.as_raw_fd() as usize, 1, 1, GET_EVENTS, 0, 0];
    // SAFETY: numbers; the call submits one entry and waits for its completion.
    if let Err(errno) = unsafe { call(libc::SYS_io_uring_enter, words) } {
        return Ok(Verdict::refused(errno, "io_uring_enter"));
    }
    // SAFETY: as above; the kernel has written the first completion.
    let result = unsafe { (*rings.at::<Completion>(parameters.completion.events as usize)).result };
    let opened = usize::try_from(result).ok().and_then(owned);
    let Some(opened) = opened else {
        let errno = Errno::from_raw_os_error(-result);
        return Ok(Verdict::refused(errno, "openat through the ring"));
    };
    let mut text = String::new();
    let read = File::from(opened).take(256).read_to_string(&mut text);
    Ok(match read {
        Ok(_) => Verdict::succeeded(text),
        Err(_) => Verdict::of_io("reading what was opened", read),
    })
}

/// Memory shared with the kernel, unmapped on drop.
struct Map {
    start: *mut libc::c_void,
    length: usize,
}

impl Map {
    fn of(ring: &File, offset: i64, length: usize) -> Result<Self, Errno> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new map at an address the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                kind,
                ring.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(super::raw::last_error());
        }
        Ok(Self { start, length })
    }

    /// A place in the map. The caller must stay within it.
    fn at<T>(&self, offset: usize) -> *mut T {
        self.start.wrapping_byte_add(offset).cast()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
