//! Pages fetched a moment ago, so that paging through one does not ask its server again.
//!
//! A copy belongs to one user's agent in one tenant and to one way of reading. It is never shown to
//! anybody else, whatever they ask for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_contract::{Principal, ops::DocumentForm};
use tokio::time::Instant;

use super::answer::Page;

/// The most copies that are kept.
const MAX_COPIES: usize = 128;

/// The most bytes of all copies.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What is kept.
#[derive(Debug)]
pub(super) struct Copies {
    keep_for: Duration,
    kept: Mutex<HashMap<CopyKey, Copy>>,
}

/// Whose copy of what it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CopyKey {
    tenant: String,
    user: String,
    agent: String,
    form: FormKey,
    url: String,
}

/// A way of reading, for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FormKey {
    Markdown,
    Text,
    Raw,
}

#[derive(Debug)]
struct Copy {
    page: Arc<Page>,
    made: Instant,
}

impl CopyKey {
    pub(super) fn new(principal: &Principal, form: DocumentForm, url: &str) -> Self {
        Self {
            tenant: principal.tenant.as_str().to_owned(),
            user: principal.user.as_str().to_owned(),
            agent: principal.agent.as_str().to_owned(),
            form: match form {
                DocumentForm::Markdown => FormKey::Markdown,
                DocumentForm::Text => FormKey::Text,
                DocumentForm::Raw => FormKey::Raw,
            },
            url: url.to_owned(),
        }
    }
}

impl Copies {
    pub(super) fn new(keep_for: Duration) -> Self {
        Self {
            keep_for,
            kept: Mutex::default(),
        }
    }

    /// The copy, if there is one that is not too old, and its age.
    pub(super) fn get(&self, key: &CopyKey) -> Option<(Arc<Page>, Duration)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let age = kept.get(key)?.made.elapsed();
        if age >= self.keep_for {
            kept.remove(key);
            return None;
        }
        kept.get(key).map(|copy| (Arc::clone(&copy.page), age))
    }

    /// Keeps a copy, and forgets what is too old or too much.
    pub(super) fn put(&self, key: CopyKey, page: Arc<Page>) {
        if self.keep_for.is_zero() || page.size() > MAX_BYTES / 4 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, copy| copy.made.elapsed() < self.keep_for);
        let made = Instant::now();
        kept.insert(key, Copy { page, made });
        while kept.len() > MAX_COPIES
            || kept.values().map(|copy| copy.page.size()).sum::<usize>() > MAX_BYTES
        {
            let oldest = kept.iter().min_by_key(|(_, copy)| copy.made);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            kept.remove(&oldest);
        }
    }
}
