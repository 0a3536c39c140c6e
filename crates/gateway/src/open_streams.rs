//! How many streams are open, of each credential and in all. A stream costs memory for as long as
//! somebody keeps it open, so there are never more than an operator allows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    limits::Limits,
    problem::{Problem, ProblemKind},
};

/// The open streams.
#[derive(Debug)]
pub(crate) struct OpenStreams {
    of_each: usize,
    of_all: usize,
    open: Arc<Mutex<StreamCounts>>,
}

#[derive(Debug, Default)]
struct StreamCounts {
    all: usize,
    by_credential: HashMap<String, usize>,
}

/// A stream's place; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    credential: String,
    open: Arc<Mutex<StreamCounts>>,
}

impl OpenStreams {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            of_each: limits.streams_per_credential,
            of_all: limits.streams,
            open: Arc::default(),
        }
    }

    /// A place for one more stream of this credential.
    pub(crate) fn take(&self, credential: String) -> Result<StreamPlace, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_this = open.by_credential.get(&credential).copied().unwrap_or(0);
        let most = if of_this >= self.of_each {
            Some((self.of_each, "of this credential"))
        } else if open.all >= self.of_all {
            Some((self.of_all, "of this server"))
        } else {
            None
        };
        if let Some((most, whose)) = most {
            return Err(Problem::new(
                ProblemKind::TooManyRequests,
                format!("{most} streams {whose} are open, which is the most"),
            )
            .hint("close one that nobody reads")
            .denied_by("quota"));
        }
        open.all += 1;
        *open.by_credential.entry(credential.clone()).or_default() += 1;
        Ok(StreamPlace {
            credential,
            open: Arc::clone(&self.open),
        })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(count) = open.by_credential.get_mut(&self.credential) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.by_credential.remove(&self.credential);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back() {
        let streams = OpenStreams::new(&Limits {
            streams_per_credential: 2,
            streams: 3,
            ..Limits::default()
        });
        let take = |who: &str| streams.take(who.to_owned());
        let (first, _second) = (take("a").unwrap(), take("a").unwrap());
        assert!(take("a").is_err());
        let _other = take("b").unwrap();
        assert!(take("b").is_err(), "all places are taken");
        drop(first);
        assert!(take("b").is_ok());
        assert!(take("a").is_ok());
    }
}
