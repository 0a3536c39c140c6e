//! Searching file contents.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileKind, GrepMode, GrepQuery, GrepResults, OpsError},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use ignore::types::{Types, TypesBuilder};
use rustix::fs::{FileType, OFlags, fstat};
use tokio_util::sync::CancellationToken;

use super::{
    find::below,
    hits::{HitQuery, Hits},
    lines::LineSink,
};
use crate::local::walk::{Globs, Ignores, PathGlob, Visit, VisitedEntry, walk};

/// The longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 64 * 1024;

/// The most memory a compiled pattern takes, and as much again for its caches.
const MAX_COMPILED_BYTES: usize = 10 * 1024 * 1024;

/// The deepest nesting of groups in a pattern.
const MAX_NESTING: u32 = 250;

/// The most memory a searcher uses for one line, or for one file with multi-line matches. A file
/// that needs more is skipped.
const MAX_HEAP_BYTES: usize = 64 * 1024 * 1024;

/// The most lines of context on each side.
const MAX_CONTEXT: usize = 1000;

/// Reads of a file between two checks of the cancel token.
const READS_PER_LOOK: u32 = 16;

/// A grep, owned for the blocking pool.
pub(super) struct GrepJob {
    matcher: RegexMatcher,
    path: WorkPath,
    glob: Option<PathGlob>,
    types: Option<Types>,
    multiline: bool,
    hits: Hits,
    globs: Globs,
    stop: CancellationToken,
}

impl GrepJob {
    pub(super) fn new(query: &GrepQuery<'_>, stop: CancellationToken) -> Result<Self, OpsError> {
        Ok(Self {
            matcher: matcher(query)?,
            path: query.path.clone(),
            glob: query.glob.map(PathGlob::new).transpose()?,
            types: query.file_type.map(file_type).transpose()?,
            multiline: query.multiline,
            hits: Hits::new(HitQuery {
                mode: query.mode,
                limit: query.limit,
                offset: query.offset,
                before: query.before.min(MAX_CONTEXT),
                after: query.after.min(MAX_CONTEXT),
                max_line_bytes: query.max_line_bytes,
                found: query.found.clone().filter(|_| query.offset == 0),
            }),
            globs: Globs::new(query.withheld, Ignores::Respect)?,
            stop,
        })
    }

    pub(super) fn run(self, jail: &Jail) -> Result<GrepResults, OpsError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let fail = |errno| errno::on_path(errno, &self.path);
        let held = jail
            .open_at(&self.path, flags, Lookup::Full)
            .map_err(fail)?;
        let stat = fstat(&held).map_err(fail)?;
        let searched = if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.one_file(jail)?
        } else {
            let visitors = walk(jail, &self.path, &self.globs, &self.stop, || {
                Grepper::new(&self, jail)
            })?;
            visitors.iter().map(|grepper| grepper.searched).sum()
        };
        Ok(self.hits.finish(searched))
    }

    /// Searches a file that was named directly; ignore files do not matter then, but withholding
    /// does.
    fn one_file(&self, jail: &Jail) -> Result<u64, OpsError> {
        let path = self.path.as_str().as_bytes();
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        if self.stop.is_cancelled() {
            return Err(OpsError::new(
                ErrorKind::Cancelled,
                "the search was stopped",
            ));
        }
        if self.globs.withholds(path) || !self.wants(name) {
            return Ok(0);
        }
        let file = jail
            .open_at(&self.path, open_flags(), Lookup::Full)
            .map_err(|errno| errno::on_path(errno, &self.path))?;
        let mut grepper = Grepper::new(self, jail);
        grepper.search(file, path);
        Ok(grepper.searched)
    }

    /// Whether a path below the start matches the glob and the type.
    fn wants(&self, below: &[u8]) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(below))
            && self.types.as_ref().is_none_or(|types| {
                types
                    .matched(Path::new(OsStr::from_bytes(below)), false)
                    .is_whitelist()
            })
    }

    fn searcher(&self) -> Searcher {
        let asked = &self.hits.asked;
        let lines = asked.mode == GrepMode::Content;
        SearcherBuilder::new()
            .line_number(lines)
            .before_context(if lines { asked.before } else { 0 })
            .after_context(if lines { asked.after } else { 0 })
            .multi_line(self.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build()
    }
}

/// One worker.
struct Grepper<'a> {
    job: &'a GrepJob,
    jail: &'a Jail,
    searcher: Searcher,
    matcher: RegexMatcher,
    below: usize,
    sink: LineSink<'a>,
    searched: u64,
}

impl<'a> Grepper<'a> {
    fn new(job: &'a GrepJob, jail: &'a Jail) -> Self {
        Self {
            job,
            jail,
            searcher: job.searcher(),
            matcher: job.matcher.clone(),
            below: below(&job.path),
            sink: LineSink::new(&job.hits),
            searched: 0,
        }
    }

    /// Searches one open file. One that cannot be read, or is not what it seemed, is skipped.
    fn search(&mut self, file: OwnedFd, path: &[u8]) {
        let Ok(stat) = fstat(&file) else { return };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || self.jail.links_elsewhere(&stat)
        {
            return;
        }
        self.searched += 1;
        self.sink.begin(path);
        let reader = StoppableRead {
            file: File::from(file),
            stop: &self.job.stop,
            reads: 0,
        };
        if let Err(error) = self
            .searcher
            .search_reader(&self.matcher, reader, &mut self.sink)
        {
            tracing::debug!(%error, "a file was passed over");
        }
        if let Some(found) = self.sink.take() {
            self.job.hits.add(path, found);
        }
    }

    fn open(&self, directory: BorrowedFd<'_>, entry: &VisitedEntry<'_>) -> Option<OwnedFd> {
        self.jail
            .open_beneath(directory, entry.name, open_flags())
            .ok()
    }
}

impl Visit for Grepper<'_> {
    fn wants_directory(&mut self, path: &[u8]) -> bool {
        self.job.hits.wants_directory(path)
    }

    fn entry(&mut self, entry: &VisitedEntry<'_>) {
        if entry.kind != FileKind::File || !self.job.hits.wants_file(entry.path) {
            return;
        }
        let relative = entry.path.get(self.below..).unwrap_or_default();
        if !self.job.wants(relative) {
            return;
        }
        if let Some(file) = self.open(entry.directory.as_fd(), entry) {
            self.search(file, entry.path);
        }
    }
}

/// A file whose reads end when the search is stopped.
struct StoppableRead<'a> {
    file: File,
    stop: &'a CancellationToken,
    reads: u32,
}

impl Read for StoppableRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(READS_PER_LOOK) && self.stop.is_cancelled() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

/// `O_NONBLOCK`, so that a file that became a FIFO cannot block the thread.
fn open_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW
}

fn matcher(query: &GrepQuery<'_>) -> Result<RegexMatcher, OpsError> {
    if query.pattern.len() > MAX_PATTERN_BYTES {
        return Err(OpsError::new(
            ErrorKind::LimitExceeded,
            format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"),
        ));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(query.ignore_case)
        .fixed_strings(query.fixed)
        .multi_line(true)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .nest_limit(MAX_NESTING);
    if !query.multiline {
        builder.line_terminator(Some(b'\n'));
        // Files with NUL bytes are skipped, so a match cannot need one; knowing that makes the
        // searcher faster.
        builder.ban_byte(Some(0));
    }
    builder.build(query.pattern).map_err(|error| {
        let text = error.to_string();
        let (kind, message) = if text.contains("size limit") {
            (
                ErrorKind::LimitExceeded,
                "the pattern is too large once compiled; use a simpler one".to_owned(),
            )
        } else if text.contains("not allowed in a regex") {
            (
                ErrorKind::InvalidInput,
                format!("{text}; set `multiline` to match over line ends"),
            )
        } else {
            (
                ErrorKind::InvalidInput,
                format!("the pattern is not valid: {text}"),
            )
        };
        OpsError::new(kind, message)
    })
}

fn file_type(name: &str) -> Result<Types, OpsError> {
    let unknown = || {
        OpsError::new(
            ErrorKind::InvalidInput,
            format!("there is no file type `{name}`; use a name such as `rust`, `py` or `js`"),
        )
    };
    // A name pattern is not a type, and the builder treats `all` as every type there is.
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_name || name == "all" {
        return Err(unknown());
    }
    let mut types = TypesBuilder::new();
    types.add_defaults().select(name);
    types.build().map_err(|_| unknown())
}
