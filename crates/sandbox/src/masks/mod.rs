//! Finds what deny rules hide from a command, or keep it from changing, in a workspace as it is now.
//!
//! A mask is a mount over something that exists, so it holds whatever the command's text says: what
//! is masked can be neither opened nor renamed, replaced or removed. What a command creates under a
//! hidden name is its own and not hidden from it. A pattern for changes is held only if everything
//! it can ever match lies in one existing place, since a mount cannot stop a name from appearing.
//!
//! Whatever is uncertain (a bound that was reached, a link, a directory that cannot be read) makes
//! the patterns that it concerns not held, and no others: policy then asks. What was found for such
//! a pattern is masked all the same. `search.rs` looks, `pattern.rs` reads one pattern.

mod pattern;
mod search;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use haft_contract::{ErrorKind, Masks, ops::OpsError};

use self::search::search;
use crate::{jail::Jail, options::MaskLimits, profile::HostView, request::MaskedPlaces};

/// How long what was found for a decision is good for the start that follows it. What appears in
/// the workspace after that is not masked either, so a moment earlier makes no difference.
const FRESH: Duration = Duration::from_secs(2);

/// What was found for a decision in one workspace, for the start that follows it.
#[derive(Debug, Default)]
pub(crate) struct MaskSearch {
    latest: Mutex<Option<LatestSearch>>,
}

#[derive(Debug)]
struct LatestSearch {
    at: Instant,
    held: Masks,
    attempted: Masks,
    places: MaskedPlaces,
}

impl MaskSearch {
    /// The masks among these that are certain to hold. Reads the workspace, so it blocks.
    pub(crate) fn holds(
        &self,
        jail: &Jail,
        view: &HostView,
        limits: &MaskLimits,
        wanted: &Masks,
    ) -> Masks {
        let found = search(jail, view, limits, &[wanted]);
        let uncertain = Masks {
            hidden: found.unhidden.keys().cloned().collect(),
            read_only: found.unkept.keys().cloned().collect(),
        };
        for (pattern, why) in found.unhidden.iter().chain(&found.unkept) {
            tracing::debug!(pattern, why, "the sandbox does not hold a deny rule");
        }
        let held = wanted.without(&uncertain);
        *self.latest() = Some(LatestSearch {
            at: Instant::now(),
            attempted: wanted.without(&held),
            held: held.clone(),
            places: found.places,
        });
        held
    }

    /// What these masks cover: as it was found for the decision, if that was a moment ago and no
    /// other command has started since, or as it is now. Fails if one that must hold does not; what
    /// is only attempted never fails. Reads the workspace, so it blocks.
    pub(crate) fn places(
        &self,
        jail: &Jail,
        view: &HostView,
        limits: &MaskLimits,
        held: &Masks,
        attempted: &Masks,
    ) -> Result<MaskedPlaces, OpsError> {
        let latest = self.latest().take().filter(|latest| {
            latest.held == *held && latest.attempted == *attempted && latest.at.elapsed() < FRESH
        });
        if let Some(latest) = latest {
            return Ok(latest.places);
        }
        let found = search(jail, view, limits, &[held, attempted]);
        let unhidden = held.hidden.iter().filter_map(|it| found.unhidden.get(it));
        let unkept = held.read_only.iter().filter_map(|it| found.unkept.get(it));
        match unhidden.chain(unkept).next() {
            None => Ok(found.places),
            Some(why) => Err(OpsError::new(ErrorKind::TierUnavailable, why.clone())),
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<LatestSearch>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
