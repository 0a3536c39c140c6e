//! Where a path leads once every symlink is followed.
//!
//! The only place that follows symlinks, by hand and one at a time, and it opens nothing for use:
//! the result is opened later without following any, so a path that is swapped after it was
//! resolved fails closed.

use std::collections::VecDeque;

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileKind, GitPart, OpsError, ResolvedPath},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::{
    fs::{FileType, OFlags, fstat, readlinkat},
    io::Errno,
};

use super::stat::file_stat;
use crate::protected;

/// The most symlinks followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The most components checked for one path, links included.
const MAX_COMPONENTS: usize = 4096;

/// The answer for a path that exists, has no symlinks and needs no check of its surroundings, if
/// that takes no disk access; `None` otherwise.
pub(super) fn cached(jail: &Jail, path: &WorkPath) -> Option<Result<ResolvedPath, OpsError>> {
    if protected::needs_a_look(path) {
        return None;
    }
    let file = jail.open_at(path, OFlags::PATH, Lookup::Cached).ok()?;
    let stat = fstat(&file).ok()?;
    Some(Ok(ResolvedPath {
        path: path.clone(),
        stat: Some(file_stat(&stat)),
        protected: None,
    }))
}

/// The answer for any path.
pub(super) fn full(jail: &Jail, path: &WorkPath) -> Result<ResolvedPath, OpsError> {
    let mut walk = Walk {
        resolved: Vec::new(),
        pending: path.components().map(str::to_owned).collect(),
        links: 0,
        looked: 0,
        asked: path,
    };
    let stat = walk.run(jail)?;
    let resolved = walk.path()?;
    Ok(ResolvedPath {
        protected: protected::reason(jail, &resolved)?,
        path: resolved,
        stat,
    })
}

struct Walk<'a> {
    /// Components known not to be symlinks, in order.
    resolved: Vec<String>,
    /// Components still to check; link targets are put in front.
    pending: VecDeque<String>,
    links: usize,
    looked: usize,
    asked: &'a WorkPath,
}

impl Walk<'_> {
    /// Follows everything; returns the state of what is at the end, if anything is.
    fn run(&mut self, jail: &Jail) -> Result<Option<haft_contract::ops::FileStat>, OpsError> {
        let mut last = None;
        while let Some(component) = self.pending.pop_front() {
            self.looked += 1;
            if self.looked > MAX_COMPONENTS {
                return Err(self.fail(ErrorKind::LimitExceeded, "it has too many components"));
            }
            if component == ".." {
                // Only a link's target can contain one; it climbs from where the link is.
                if self.resolved.pop().is_none() {
                    return Err(self.outside());
                }
                last = None;
                continue;
            }
            self.resolved.push(component);
            match self.look(jail)? {
                PathStep::Nothing => return self.keep_the_rest().map(|()| None),
                PathStep::Link(target) => {
                    self.resolved.pop();
                    self.follow(&target)?;
                    last = None;
                }
                PathStep::Thing(stat) => {
                    if stat.kind != FileKind::Directory && !self.pending.is_empty() {
                        if stat.kind == FileKind::File && self.is_below_git_part()? {
                            return self.keep_the_rest().map(|()| None);
                        }
                        return Err(self.fail(
                            ErrorKind::NotDirectory,
                            "there is a file where a directory is needed",
                        ));
                    }
                    last = Some(stat);
                }
            }
        }
        match last {
            Some(stat) => Ok(Some(stat)),
            // The path ended in `..` or is the root itself: check once more where it leads.
            None => match self.look(jail)? {
                PathStep::Thing(stat) => Ok(Some(stat)),
                PathStep::Nothing | PathStep::Link(_) => Ok(None),
            },
        }
    }

    /// What the resolved components lead to now.
    fn look(&self, jail: &Jail) -> Result<PathStep, OpsError> {
        let path = self.path()?;
        let fail = |errno| errno::on_path(errno, self.asked);
        let file = match jail.open_at(&path, OFlags::PATH | OFlags::NOFOLLOW, Lookup::Full) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(PathStep::Nothing),
            Err(errno) => return Err(fail(errno)),
        };
        let stat = fstat(&file).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(PathStep::Thing(file_stat(&stat)));
        }
        let target = readlinkat(&file, "", Vec::new()).map_err(fail)?;
        let target = target.into_string().map_err(|_| {
            self.fail(
                ErrorKind::InvalidPath,
                "it is a symlink whose target is not valid UTF-8",
            )
        })?;
        Ok(PathStep::Link(target))
    }

    fn follow(&mut self, target: &str) -> Result<(), OpsError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(self.fail(ErrorKind::Symlink, "it crosses too many symlinks"));
        }
        if target.starts_with('/') {
            return Err(self.outside());
        }
        for component in target.split('/').rev() {
            if !component.is_empty() && component != "." {
                self.pending.push_front(component.to_owned());
            }
        }
        Ok(())
    }

    /// Nothing exists here: the rest is kept as written, unless it climbs from a directory that
    /// does not exist.
    fn keep_the_rest(&mut self) -> Result<(), OpsError> {
        if self.pending.iter().any(|component| component == "..") {
            return Err(self.fail(
                ErrorKind::NotFound,
                "it is a symlink through a directory that does not exist",
            ));
        }
        self.resolved.extend(self.pending.drain(..));
        Ok(())
    }

    /// Whether a part of git's state is asked for and another one is where its directory would be, as
    /// `topic` is after `git branch -m topic/x topic`. An undo puts `topic/x` back once `topic` is
    /// gone, so there is nothing there yet; opening it fails.
    fn is_below_git_part(&self) -> Result<bool, OpsError> {
        let is_part = |path: &WorkPath| GitPart::of(path).is_some();
        Ok(self.links == 0 && is_part(self.asked) && is_part(&self.path()?))
    }

    fn path(&self) -> Result<WorkPath, OpsError> {
        if self.resolved.is_empty() {
            return Ok(WorkPath::root());
        }
        WorkPath::relative(&self.resolved.join("/"))
            .map_err(|error| self.fail(ErrorKind::InvalidPath, &error.to_string()))
    }

    fn outside(&self) -> OpsError {
        self.fail(
            ErrorKind::OutsideWorkspace,
            "it is a symlink that leads out of the workspace",
        )
    }

    fn fail(&self, kind: ErrorKind, message: &str) -> OpsError {
        OpsError::new(kind, message).on(self.asked)
    }
}

enum PathStep {
    Nothing,
    Link(String),
    Thing(haft_contract::ops::FileStat),
}
