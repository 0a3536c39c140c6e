//! Groups and aliases of scripts, kept for as long as the program runs, as those of built-in tools
//! are. Each different name is kept once, and there is a limit, so reading manifests again and again
//! costs nothing.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The most different names that are kept.
const MAX_NAMES: usize = 4096;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// There are too many different names.
#[derive(Debug, thiserror::Error)]
#[error("scripts have more than {MAX_NAMES} different groups and aliases")]
pub struct NamesError;

/// The same name, kept.
pub(super) fn keep(name: &str) -> Result<&'static str, NamesError> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = names.get(name) {
        return Ok(kept);
    }
    if names.len() >= MAX_NAMES {
        return Err(NamesError);
    }
    let kept: &'static str = Box::leak(Box::from(name));
    names.insert(kept);
    Ok(kept)
}
