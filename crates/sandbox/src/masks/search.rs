//! Looks through a workspace for what masks cover, within bounds.
//!
//! Nothing here fails as a whole. What cannot be found out is noted for the patterns that it
//! concerns, and the search goes on: every place that was found is masked, whether its pattern holds
//! or not. Places that hold a pattern come first, so that best effort never takes their room.
//! `walk.rs` goes through directories; this file masks what is found there or named by a rule.

mod walk;

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use haft_contract::Masks;
use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::pattern::{MaskKind, MaskPattern};
use crate::{
    jail::{FileId, Jail, Lookup},
    options::MaskLimits,
    profile::HostView,
    request::{HiddenPlace, MaskedPlaces, ProtectedPlace, ProtectionHold},
};

/// The most places that are kept unchanged for patterns that are not held.
const MAX_KEPT: usize = 128;

/// What was found.
#[derive(Debug)]
pub(super) struct SearchResult {
    pub(super) places: MaskedPlaces,
    /// The hidden patterns that are not held, and why.
    pub(super) unhidden: BTreeMap<String, String>,
    /// The read-only patterns that are not held, and why.
    pub(super) unkept: BTreeMap<String, String>,
}

/// Looks for everything the masks cover.
pub(super) fn search(
    jail: &Jail,
    view: &HostView,
    limits: &MaskLimits,
    masks: &[&Masks],
) -> SearchResult {
    let mut search = PlaceSearch {
        jail,
        view,
        limits,
        root: PathBuf::from(jail.shown()),
        patterns: Vec::new(),
        unhidden: BTreeMap::new(),
        unkept: BTreeMap::new(),
        hidden: BTreeMap::new(),
        held: BTreeMap::new(),
        candidates: BTreeMap::new(),
        linked: Vec::new(),
        entries: 0,
        deadline: Instant::now() + limits.time,
    };
    search.read(masks);
    search.keep_known_places();
    search.mask_named(MaskKind::Hidden);
    search.walk();
    search.mask_named(MaskKind::ReadOnly);
    search.keep_candidates();
    search.found()
}

/// A pattern by its number in the search.
type PatternNumber = usize;

/// A directory to look into: where it is, and the name that patterns are compared with, which is
/// another one behind a link.
#[derive(Debug, Clone)]
struct Visit {
    real: PathBuf,
    named: PathBuf,
}

struct PlaceSearch<'a> {
    jail: &'a Jail,
    view: &'a HostView,
    limits: &'a MaskLimits,
    root: PathBuf,
    patterns: Vec<MaskPattern<'a>>,
    unhidden: BTreeMap<String, String>,
    unkept: BTreeMap<String, String>,
    hidden: BTreeMap<PathBuf, HiddenPlace>,
    held: BTreeMap<PathBuf, ProtectedPlace>,
    /// What to keep unchanged if there is room at the end, shallow places first.
    candidates: BTreeMap<(usize, PathBuf), (PatternNumber, FileId)>,
    /// Directories behind links, looked into at the end.
    linked: Vec<Visit>,
    entries: usize,
    deadline: Instant,
}

impl<'a> PlaceSearch<'a> {
    /// Takes over the patterns, up to the most there may be.
    fn read(&mut self, masks: &[&'a Masks]) {
        let hidden = masks.iter().flat_map(|masks| &masks.hidden);
        let hidden = hidden.map(|text| (text, MaskKind::Hidden));
        let read_only = masks.iter().flat_map(|masks| &masks.read_only);
        let read_only = read_only.map(|text| (text, MaskKind::ReadOnly));
        for (text, kind) in hidden.chain(read_only) {
            let read = if self.patterns.len() < self.limits.patterns {
                MaskPattern::parse(text, kind)
            } else {
                let most = self.limits.patterns;
                Err(format!(
                    "more than {most} patterns of deny rules are not masked"
                ))
            };
            match read {
                Ok(pattern) if pattern.is_everything() && kind == MaskKind::Hidden => {
                    // Without its root, a command has nothing to run in.
                    self.note(text, kind, "a whole workspace cannot be hidden".to_owned());
                }
                Ok(pattern) => self.patterns.push(pattern),
                Err(why) => self.note(text, kind, why),
            }
        }
    }

    /// Keeps unchanged what patterns can only ever match in one existing place.
    fn keep_known_places(&mut self) {
        for number in self.numbers(|pattern| pattern.kind == MaskKind::ReadOnly) {
            let Some(pattern) = self.patterns.get(number) else {
                continue;
            };
            match unchanging_place(self.jail, pattern) {
                Ok((path, identity)) => match self.above(&path) {
                    Ok(above) if self.has_room(&path, &above) => {
                        self.hold_in_place(above);
                        self.keep(path, identity);
                    }
                    Ok(_) => self.doubt(number, self.no_room()),
                    Err(why) => self.doubt(number, why),
                },
                Err(why) => self.doubt(number, why),
            }
        }
    }

    /// Masks what patterns without wildcards name: everything hidden, and what was not kept by
    /// [`Self::keep_known_places`].
    fn mask_named(&mut self, kind: MaskKind) {
        let is_named = |pattern: &MaskPattern<'_>| pattern.kind == kind && pattern.is_literal();
        for number in self.numbers(is_named) {
            let Some(pattern) = self.patterns.get(number) else {
                continue;
            };
            let is_kept = kind == MaskKind::ReadOnly && !self.unkept.contains_key(pattern.text);
            if !is_kept {
                let path = PathBuf::from(pattern.body);
                self.mask_at(number, &path);
            }
        }
    }

    /// Masks what is at a path, if anything is that the pattern can mean.
    fn mask_at(&mut self, number: PatternNumber, path: &Path) {
        if let Some(link) = path.parent().and_then(|above| self.link_on_the_way(above)) {
            self.doubt(number, uncertain(&link));
            return self.mask_target(number, path);
        }
        let fits = |kind| {
            let pattern = self.patterns.get(number);
            pattern.is_some_and(|pattern| pattern.fits(kind))
        };
        match look(self.jail, path) {
            Ok(Some((_, kind))) if !fits(kind) => {}
            Ok(Some((_, FileType::Symlink))) => self.mask_target(number, path),
            Ok(Some((identity, kind))) => self.mask(number, path, identity, kind),
            Ok(None) => {}
            Err(Errno::ACCESS) => self.mask_out_of_reach(number, path),
            Err(errno) => self.doubt(number, cannot_look(path, errno)),
        }
    }

    /// Masks what a link leads to. The link itself is free: once it is renamed, nothing says that
    /// what it led to was meant, so the pattern is not held unless it means that anyway.
    fn mask_target(&mut self, number: PatternNumber, link: &Path) {
        let target = match std::fs::canonicalize(self.root.join(link)) {
            Ok(target) => target,
            // One that leads nowhere shows nothing.
            Err(error) if leads_nowhere(&error) => return,
            Err(_) => return self.doubt(number, uncertain(link)),
        };
        let Ok(below) = target.strip_prefix(&self.root) else {
            if self.is_shown(&target) {
                self.doubt(number, uncertain(link));
            }
            return;
        };
        let found = match look(self.jail, below) {
            Ok(found) => found,
            Err(errno) => return self.doubt(number, cannot_look(below, errno)),
        };
        let Some(pattern) = self.patterns.get(number) else {
            return;
        };
        match found {
            _ if below == Path::new("") => self.doubt(number, uncertain(link)),
            None => {}
            Some((_, kind)) if !pattern.fits(kind) => {}
            Some((identity, kind)) => {
                if !pattern.covers(below) {
                    self.doubt(number, uncertain(link));
                }
                self.mask(number, below, identity, kind);
            }
        }
    }

    /// Masks a path in a directory that cannot be searched, but that a command could open: all of
    /// the directory, if anything is to be hidden in it.
    fn mask_out_of_reach(&mut self, number: PatternNumber, path: &Path) {
        let closed = path.ancestors().skip(1).find(|above| {
            let found = look(self.jail, above);
            matches!(found, Ok(Some((_, FileType::Directory))))
        });
        let Some(closed) = closed.filter(|closed| self.could_be_opened_up(closed)) else {
            return;
        };
        let visit = Visit {
            real: closed.to_owned(),
            named: closed.to_owned(),
        };
        self.doubt(number, cannot_look(path, Errno::ACCESS));
        self.close_off(&visit, &[number]);
    }

    /// Masks what was found at a path, if there is room.
    fn mask(&mut self, number: PatternNumber, path: &Path, identity: FileId, kind: FileType) {
        if self.is_hidden(path) {
            return;
        }
        let mask = self.patterns.get(number).map(|pattern| pattern.kind);
        if mask == Some(MaskKind::ReadOnly) {
            let is_git = path.iter().any(|part| part == ".git");
            // What git makes and removes all the time is protected in its own way.
            if !is_git && matches!(kind, FileType::Directory | FileType::RegularFile) {
                let place = (path.components().count(), path.to_owned());
                self.candidates.entry(place).or_insert((number, identity));
                if self.candidates.len() > MAX_KEPT {
                    self.candidates.pop_last();
                }
            }
            return;
        }
        let above = match self.above(path) {
            Ok(above) if self.has_room(path, &above) => above,
            Ok(_) => return self.doubt(number, self.no_room()),
            Err(why) => return self.doubt(number, why),
        };
        self.hold_in_place(above);
        let at = self.root.join(path);
        let place = match kind {
            FileType::Directory => HiddenPlace::Directory { at, identity },
            _ => HiddenPlace::File { at, identity },
        };
        self.hidden.insert(path.to_owned(), place);
    }

    /// Keeps unchanged what was found for patterns that are not held, as far as there is room.
    fn keep_candidates(&mut self) {
        for ((_, path), (number, identity)) in std::mem::take(&mut self.candidates) {
            let is_kept = |above: &Path| {
                let known = self.held.get(above);
                known.is_some_and(|known| known.hold == ProtectionHold::ReadOnly)
            };
            if self.is_hidden(&path) || path.ancestors().any(is_kept) {
                continue;
            }
            // A name that means the same everywhere may move with its directory.
            let pattern = self.patterns.get(number);
            let above = if pattern.is_some_and(MaskPattern::names_directories) {
                self.above(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            if self.has_room(&path, &above) {
                self.hold_in_place(above);
                self.keep(path, identity);
            }
        }
    }

    /// Every directory above a path. They are held where they are: moving one would take the path
    /// away from the rule that names it, or from under the mask of a command that is just being
    /// started.
    fn above(&self, path: &Path) -> Result<Vec<(PathBuf, FileId)>, String> {
        let mut found = Vec::new();
        for above in path.ancestors().skip(1) {
            if above == Path::new("") || self.held.contains_key(above) {
                continue;
            }
            match look(self.jail, above) {
                Ok(Some((identity, FileType::Directory))) => {
                    found.push((above.to_owned(), identity));
                }
                Ok(_) => {}
                Err(errno) => return Err(cannot_look(above, errno)),
            }
        }
        Ok(found)
    }

    fn hold_in_place(&mut self, directories: Vec<(PathBuf, FileId)>) {
        for (path, identity) in directories {
            let place = ProtectedPlace {
                path: path.clone(),
                identity,
                hold: ProtectionHold::InPlace,
            };
            self.held.entry(path).or_insert(place);
        }
    }

    fn keep(&mut self, path: PathBuf, identity: FileId) {
        let place = ProtectedPlace {
            path: path.clone(),
            identity,
            hold: ProtectionHold::ReadOnly,
        };
        self.held.insert(path, place);
    }

    /// Whether one more place and the directories above it can be mounted.
    fn has_room(&self, path: &Path, above: &[(PathBuf, FileId)]) -> bool {
        let known = self.hidden.contains_key(path) || self.held.contains_key(path);
        let more = above.len() + usize::from(!known);
        self.hidden.len() + self.held.len() + more <= self.limits.places
    }

    fn is_hidden(&self, path: &Path) -> bool {
        path.ancestors()
            .any(|above| self.hidden.contains_key(above))
    }

    /// Whether a sandbox shows a path outside the workspace.
    fn is_shown(&self, path: &Path) -> bool {
        self.view.shows_part_of(path) || self.root.starts_with(path)
    }

    /// The first link among a directory and those above it.
    fn link_on_the_way(&self, directory: &Path) -> Option<PathBuf> {
        let mut above: Vec<&Path> = directory.ancestors().collect();
        above.reverse();
        let is_link = |path: &&Path| {
            let found = std::fs::symlink_metadata(self.root.join(path));
            found.is_ok_and(|found| found.is_symlink())
        };
        let mut parts = above.into_iter().filter(|path| *path != Path::new(""));
        parts.find(is_link).map(Path::to_path_buf)
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

    /// The numbers of some patterns.
    fn numbers(&self, some: impl Fn(&MaskPattern<'_>) -> bool) -> Vec<PatternNumber> {
        let patterns = self.patterns.iter().enumerate();
        let some = patterns.filter(|(_, pattern)| some(pattern));
        some.map(|(number, _)| number).collect()
    }

    /// Notes that a pattern is not held.
    fn doubt(&mut self, number: PatternNumber, why: String) {
        if let Some((text, kind)) = self
            .patterns
            .get(number)
            .map(|pattern| (pattern.text, pattern.kind))
        {
            self.note(text, kind, why);
        }
    }

    fn note(&mut self, text: &str, kind: MaskKind, why: String) {
        let unheld = match kind {
            MaskKind::Hidden => &mut self.unhidden,
            MaskKind::ReadOnly => &mut self.unkept,
        };
        unheld.entry(text.to_owned()).or_insert(why);
    }

    fn no_room(&self) -> String {
        let most = self.limits.places;
        format!(
            "deny rules concern more than {most} places in this workspace; `places` under \
             [sandbox.masks] allows more"
        )
    }

    fn found(self) -> SearchResult {
        // What lies in something hidden is hidden with it, and cannot be mounted over.
        let mut hidden: Vec<(PathBuf, HiddenPlace)> = Vec::new();
        for (path, place) in self.hidden {
            if !hidden.iter().any(|(above, _)| path.starts_with(above)) {
                hidden.push((path, place));
            }
        }
        SearchResult {
            places: MaskedPlaces {
                hidden: hidden.into_iter().map(|(_, place)| place).collect(),
                held: self.held.into_values().collect(),
            },
            unhidden: self.unhidden,
            unkept: self.unkept,
        }
    }
}

/// The existing place that everything this pattern can ever match lies in.
fn unchanging_place(jail: &Jail, pattern: &MaskPattern<'_>) -> Result<(PathBuf, FileId), String> {
    if pattern.is_everything() {
        return Ok((PathBuf::new(), jail.identity()));
    }
    let path = PathBuf::from(pattern.body);
    let found = if pattern.names_one_place() {
        look(jail, &path).map_err(|errno| cannot_look(&path, errno))?
    } else {
        None
    };
    match found {
        Some((identity, FileType::Directory)) => Ok((path, identity)),
        Some((identity, FileType::RegularFile)) if !pattern.beneath => Ok((path, identity)),
        _ => Err(format!(
            "nothing can keep a command from creating `{}`",
            pattern.text
        )),
    }
}

/// What is at a path, without following a link.
fn look(jail: &Jail, path: &Path) -> Result<Option<(FileId, FileType)>, Errno> {
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
        Err(errno) => Err(errno),
    }
}

fn leads_nowhere(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn uncertain(link: &Path) -> String {
    let link = link.display();
    format!("the link `{link}` makes it uncertain what a deny rule hides")
}

fn cannot_look(path: &Path, errno: Errno) -> String {
    let path = path.display();
    format!("`{path}` cannot be looked at ({errno}), and a deny rule may mean something there")
}
