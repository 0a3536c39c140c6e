//! Finds what deny rules hide from a command, or keep it from changing, in a workspace as it is now.
//!
//! A mask is a mount over something that exists, so it holds whatever the command's text says: what
//! is masked can be neither opened nor renamed, replaced or removed. What a command creates under a
//! hidden name is its own and not hidden from it. A pattern for changes is held only if everything
//! it can ever match lies in one existing place, since a mount cannot stop a name from appearing.
//!
//! The search is bounded in entries, masks and time. Beyond a bound, or where a link makes it
//! uncertain what a pattern covers, the answer is an error: before a decision it means that policy
//! asks, before a start that the command does not run.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use haft_contract::{ErrorKind, Masks, ops::OpsError};
use rustix::{
    fs::{AtFlags, Dir, FileType, OFlags, fstat, statat},
    io::Errno,
};

use crate::{
    errno,
    jail::{FileId, Jail, Lookup},
    profile::HostView,
    request::{HiddenPlace, MaskedPlaces, ProtectedPlace, ProtectionHold},
};

/// The most places that are masked for one command.
const MAX_MASKS: usize = 512;

/// The most entries of a workspace that are looked at.
const MAX_ENTRIES: usize = 200_000;

/// The most time spent looking.
const MAX_TIME: Duration = Duration::from_secs(2);

/// How many entries to look at between two checks of the clock.
const CLOCK_EVERY: usize = 256;

/// How long what was found for a decision is good for the start that follows it. What appears in
/// the workspace after that is not masked either, so a moment earlier makes no difference.
const FRESH: Duration = Duration::from_secs(2);

/// What was found for a decision in one workspace, for the start that follows it.
#[derive(Debug, Default)]
pub(crate) struct MaskSearch {
    latest: Mutex<Option<(Instant, Masks, MaskedPlaces)>>,
}

impl MaskSearch {
    /// The masks among these that can be held. Reads the workspace, so it blocks.
    pub(crate) fn holds(&self, jail: &Jail, view: &HostView, mut masks: Masks) -> Masks {
        // Without its root, a command has nothing to run in.
        masks.hidden.retain(|glob| !is_everything(glob));
        masks
            .read_only
            .retain(|glob| unchanging_place(jail, glob).is_ok());
        let found = search(jail, view, &masks).or_else(|_| {
            // What cannot be found cannot be hidden, but what must not change is known by name.
            masks.hidden.clear();
            search(jail, view, &masks)
        });
        let Ok(found) = found else {
            return Masks::NONE;
        };
        *self.latest() = Some((Instant::now(), masks.clone(), found));
        masks
    }

    /// What these masks cover: as it was found for the decision, if that was a moment ago and no
    /// other command has started since, or as it is now. Reads the workspace, so it blocks.
    pub(crate) fn places(
        &self,
        jail: &Jail,
        view: &HostView,
        masks: &Masks,
    ) -> Result<MaskedPlaces, OpsError> {
        match self.latest().take() {
            Some((at, of, places)) if of == *masks && at.elapsed() < FRESH => Ok(places),
            Some(_) | None => search(jail, view, masks),
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<(Instant, Masks, MaskedPlaces)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for everything the masks cover.
fn search(jail: &Jail, view: &HostView, masks: &Masks) -> Result<MaskedPlaces, OpsError> {
    let mut search = PlaceSearch {
        jail,
        view,
        root: PathBuf::from(jail.shown()),
        hidden: BTreeMap::new(),
        held: BTreeMap::new(),
        entries: 0,
        deadline: Instant::now() + MAX_TIME,
    };
    for glob in &masks.read_only {
        let (path, identity) = unchanging_place(jail, glob)?;
        search.hold_above(&path)?;
        search.hold(path, identity, ProtectionHold::ReadOnly);
    }
    let hidden: Vec<HiddenPattern<'_>> = masks
        .hidden
        .iter()
        .map(|glob| HiddenPattern::of(glob))
        .collect();
    for pattern in hidden.iter().filter(|pattern| pattern.is_literal()) {
        search.hide_if_there(Path::new(pattern.body), pattern)?;
    }
    let globs: Vec<&HiddenPattern<'_>> = hidden.iter().filter(|p| !p.is_literal()).collect();
    if !globs.is_empty() {
        search.walk(&globs)?;
    }
    search.found()
}

/// One pattern of hidden paths.
struct HiddenPattern<'g> {
    /// The glob of what is mounted over: for `secrets/**` the directory `secrets`.
    body: &'g str,
    /// Whether only what is beneath a match is meant, so that a file of that name is not.
    beneath: bool,
}

impl<'g> HiddenPattern<'g> {
    fn of(glob: &'g str) -> Self {
        match glob.strip_suffix("/**") {
            Some(body) => Self {
                body,
                beneath: true,
            },
            None => Self {
                body: glob,
                beneath: false,
            },
        }
    }

    fn is_literal(&self) -> bool {
        is_literal(self.body)
    }

    /// Whether a match depends on more than the name of what is mounted over.
    fn names_directories(&self) -> bool {
        let name = self.body.strip_prefix("**/");
        name.is_none_or(|name| name.contains('/'))
    }

    /// The leading directories without wildcards.
    fn stem(&self) -> PathBuf {
        let literal = self.body.split('/').take_while(|part| is_literal(part));
        literal.collect()
    }

    fn fits(&self, kind: FileType) -> bool {
        !self.beneath || matches!(kind, FileType::Directory | FileType::Symlink)
    }
}

struct PlaceSearch<'a> {
    jail: &'a Jail,
    view: &'a HostView,
    root: PathBuf,
    hidden: BTreeMap<PathBuf, HiddenPlace>,
    held: BTreeMap<PathBuf, ProtectedPlace>,
    entries: usize,
    deadline: Instant,
}

impl PlaceSearch<'_> {
    /// Looks through every directory in which a glob can match.
    fn walk(&mut self, patterns: &[&HiddenPattern<'_>]) -> Result<(), OpsError> {
        let globs = compile(patterns)?;
        let stems: BTreeSet<PathBuf> = patterns.iter().map(|pattern| pattern.stem()).collect();
        let mut starts: Vec<PathBuf> = Vec::new();
        for stem in stems {
            // Sorted, so that a directory comes before what is in it.
            if !starts.iter().any(|start| stem.starts_with(start)) {
                starts.push(stem);
            }
        }
        for start in &starts {
            if let Some(link) = self.link_on_the_way(start) {
                return Err(uncertain(&link));
            }
        }
        let mut directories = starts;
        while let Some(directory) = directories.pop() {
            directories.extend(self.look_into(&directory, patterns, &globs)?);
        }
        Ok(())
    }

    /// Looks at the entries of one directory; returns the directories to look into next.
    fn look_into(
        &mut self,
        directory: &Path,
        patterns: &[&HiddenPattern<'_>],
        globs: &GlobSet,
    ) -> Result<Vec<PathBuf>, OpsError> {
        let path = if directory == Path::new("") {
            Path::new(".")
        } else {
            directory
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = self
            .jail
            .open_bytes(path.as_os_str().as_bytes(), flags, Lookup::Full);
        let held = match opened {
            Ok(held) => held,
            // Gone meanwhile, never there, or a mount that the sandbox does not show.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(Vec::new()),
            Err(Errno::ACCESS) if !self.could_be_opened_up(directory) => return Ok(Vec::new()),
            Err(error) => return Err(errno::error(error)),
        };
        let mut below = Vec::new();
        for entry in Dir::read_from(&held).map_err(errno::error)? {
            let entry = entry.map_err(errno::error)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.count()?;
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&held, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let matching = globs.matches(&path);
            let matching: Vec<&&HiddenPattern<'_>> = matching
                .into_iter()
                .filter_map(|index| patterns.get(index))
                .filter(|pattern| pattern.fits(kind))
                .collect();
            if !matching.is_empty() {
                for pattern in matching {
                    self.hide_if_there(&path, pattern)?;
                }
                continue;
            }
            match kind {
                FileType::Directory => below.push(path),
                // Through a link, a pattern that names directories may match what it does not match
                // by its real name.
                FileType::Symlink if patterns.iter().any(|pattern| pattern.names_directories()) => {
                    let leads_to = std::fs::metadata(self.root.join(&path));
                    if leads_to.is_ok_and(|found| found.is_dir()) {
                        return Err(uncertain(&path));
                    }
                }
                _ => {}
            }
        }
        Ok(below)
    }

    /// Hides what is at a path, if anything is. A link is hidden by hiding what it leads to.
    fn hide_if_there(&mut self, path: &Path, pattern: &HiddenPattern<'_>) -> Result<(), OpsError> {
        if let Some(link) = path.parent().and_then(|above| self.link_on_the_way(above)) {
            return Err(uncertain(&link));
        }
        let Some((identity, kind)) = look(self.jail, path)? else {
            return Ok(());
        };
        if !pattern.fits(kind) {
            return Ok(());
        }
        if kind == FileType::Symlink {
            return self.hide_target(path);
        }
        self.hide(path, identity, kind)
    }

    fn hide_target(&mut self, link: &Path) -> Result<(), OpsError> {
        // One that leads nowhere shows nothing.
        let Ok(target) = std::fs::canonicalize(self.root.join(link)) else {
            return Ok(());
        };
        let Ok(below) = target.strip_prefix(&self.root) else {
            let shown = self.view.shows_part_of(&target) || self.root.starts_with(&target);
            return if shown { Err(uncertain(link)) } else { Ok(()) };
        };
        if below == Path::new("") {
            return Err(uncertain(link));
        }
        match look(self.jail, below)? {
            Some((identity, kind)) => self.hide(below, identity, kind),
            None => Ok(()),
        }
    }

    fn hide(&mut self, path: &Path, identity: FileId, kind: FileType) -> Result<(), OpsError> {
        self.hold_above(path)?;
        let at = self.root.join(path);
        let place = match kind {
            FileType::Directory => HiddenPlace::Directory { at, identity },
            _ => HiddenPlace::File { at, identity },
        };
        self.hidden.insert(path.to_owned(), place);
        Ok(())
    }

    /// Holds every directory above a path where it is: moving one would take the path away from the
    /// rule that names it, or from under the mask of a command that is just being started.
    fn hold_above(&mut self, path: &Path) -> Result<(), OpsError> {
        for above in path
            .ancestors()
            .skip(1)
            .filter(|above| *above != Path::new(""))
        {
            if let Some((identity, FileType::Directory)) = look(self.jail, above)? {
                self.hold(above.to_owned(), identity, ProtectionHold::InPlace);
            }
        }
        Ok(())
    }

    fn hold(&mut self, path: PathBuf, identity: FileId, hold: ProtectionHold) {
        let place = ProtectedPlace {
            path: path.clone(),
            identity,
            hold,
        };
        match hold {
            ProtectionHold::ReadOnly => {
                self.held.insert(path, place);
            }
            ProtectionHold::InPlace => {
                self.held.entry(path).or_insert(place);
            }
        }
    }

    /// The first link among a directory and those above it.
    fn link_on_the_way(&self, directory: &Path) -> Option<PathBuf> {
        let mut above: Vec<&Path> = directory.ancestors().collect();
        above.reverse();
        let is_link = |path: &&&Path| {
            let found = std::fs::symlink_metadata(self.root.join(path));
            found.is_ok_and(|found| found.is_symlink())
        };
        let parts = above.iter().filter(|path| **path != Path::new(""));
        parts
            .into_iter()
            .find(is_link)
            .map(|path| path.to_path_buf())
    }

    /// Whether a command could make this unreadable directory readable: it runs as its owner.
    fn could_be_opened_up(&self, directory: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let bytes = directory.as_os_str().as_bytes();
        let stat = self
            .jail
            .open_bytes(bytes, flags, Lookup::Full)
            .and_then(fstat);
        stat.map_or(true, |stat| stat.st_uid == self.view.user)
    }

    fn count(&mut self) -> Result<(), OpsError> {
        self.entries += 1;
        let late = self.entries.is_multiple_of(CLOCK_EVERY) && Instant::now() > self.deadline;
        if self.entries > MAX_ENTRIES || late {
            return Err(OpsError::new(
                ErrorKind::TierUnavailable,
                format!(
                    "the workspace is too large to find everything that deny rules hide: more than \
                     {MAX_ENTRIES} entries, or {} s",
                    MAX_TIME.as_secs()
                ),
            ));
        }
        Ok(())
    }

    fn found(self) -> Result<MaskedPlaces, OpsError> {
        if self.hidden.len() + self.held.len() > MAX_MASKS {
            return Err(OpsError::new(
                ErrorKind::TierUnavailable,
                format!("deny rules hide more than {MAX_MASKS} places in this workspace"),
            ));
        }
        // What lies in something hidden is hidden with it, and cannot be mounted over.
        let mut hidden: Vec<(PathBuf, HiddenPlace)> = Vec::new();
        for (path, place) in self.hidden {
            if !hidden.iter().any(|(above, _)| path.starts_with(above)) {
                hidden.push((path, place));
            }
        }
        Ok(MaskedPlaces {
            hidden: hidden.into_iter().map(|(_, place)| place).collect(),
            held: self.held.into_values().collect(),
        })
    }
}

/// The existing place that everything this pattern can ever match lies in.
fn unchanging_place(jail: &Jail, glob: &str) -> Result<(PathBuf, FileId), OpsError> {
    if is_everything(glob) {
        return Ok((PathBuf::new(), jail.identity()));
    }
    let pattern = HiddenPattern::of(glob);
    let path = PathBuf::from(pattern.body);
    let found = if pattern.is_literal() {
        look(jail, &path)?
    } else {
        None
    };
    match found {
        Some((identity, FileType::Directory)) => Ok((path, identity)),
        Some((identity, FileType::RegularFile)) if !pattern.beneath => Ok((path, identity)),
        _ => Err(OpsError::new(
            ErrorKind::TierUnavailable,
            format!("nothing can keep a command from creating `{glob}`"),
        )),
    }
}

/// What is at a path. One that cannot be looked up is an error: a command may be able to open the
/// directory it is in.
fn look(jail: &Jail, path: &Path) -> Result<Option<(FileId, FileType)>, OpsError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let opened = jail.open_bytes(path.as_os_str().as_bytes(), flags, Lookup::Full);
    match opened.and_then(fstat) {
        Ok(stat) => {
            let identity = FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            };
            Ok(Some((identity, FileType::from_raw_mode(stat.st_mode))))
        }
        // Not there, or a mount that the sandbox does not show.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno::error(errno)),
    }
}

fn compile(patterns: &[&HiddenPattern<'_>]) -> Result<GlobSet, OpsError> {
    let mut set = GlobSetBuilder::new();
    let invalid = |error: globset::Error| {
        OpsError::new(
            ErrorKind::InvalidInput,
            format!("a mask is not a glob: {}", error.kind()),
        )
    };
    for pattern in patterns {
        // As policy reads the same text.
        let glob = GlobBuilder::new(pattern.body)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(invalid)?;
        set.add(glob);
    }
    set.build().map_err(invalid)
}

fn uncertain(link: &Path) -> OpsError {
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!(
            "the link `{}` makes it uncertain what a deny rule hides",
            link.display()
        ),
    )
}

fn is_everything(glob: &str) -> bool {
    matches!(glob, "**" | "**/**")
}

fn is_literal(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}
