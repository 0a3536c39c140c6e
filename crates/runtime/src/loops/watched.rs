//! One watched call: fingerprints of the call and of its result.
//!
//! The tool and the canonical input identify a call; content, structured output and failure
//! identify a result. Times and durations are part of neither.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::{Arguments, CallRequest, Content, Outcome, SealedPlan};
use sha2::{Digest as _, Sha256};

use crate::session_key::SessionKey;

/// The first half of a SHA-256: enough to tell calls apart, and small enough to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(pub(super) [u8; 16]);

pub(crate) struct WatchedCall {
    whose: SessionKey,
    /// The request as received: the only identity of a call that never gets a plan.
    said: Fingerprint,
    planned: OnceLock<Fingerprint>,
    asked: AtomicBool,
}

impl WatchedCall {
    pub(super) fn new(request: &CallRequest, said: Fingerprint) -> Self {
        Self {
            whose: SessionKey::of(&request.principal, &request.workspace),
            said,
            planned: OnceLock::new(),
            asked: AtomicBool::new(false),
        }
    }

    pub(super) fn whose(&self) -> &SessionKey {
        &self.whose
    }

    /// Sets the fingerprint of the plan, once there is one.
    pub(super) fn plan(&self, planned: Fingerprint) -> Fingerprint {
        *self.planned.get_or_init(|| planned)
    }

    /// The fingerprint of the call.
    pub(super) fn call(&self) -> Fingerprint {
        self.planned.get().copied().unwrap_or(self.said)
    }

    /// Notes that the guard wants a person to be asked.
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// The fingerprint of a request.
pub(super) fn asked(request: &CallRequest) -> Fingerprint {
    let mut print = Print::new("asked");
    print.part(request.tool.as_bytes());
    match &request.arguments {
        Arguments::Text(text) => print.part(text.as_bytes()),
        Arguments::Value(value) => print.part(value.to_string().as_bytes()),
    }
    print.end()
}

/// The fingerprint of a plan.
pub(super) fn planned(plan: &SealedPlan) -> Fingerprint {
    let mut print = Print::new("planned");
    print.part(plan.tool().to_string().as_bytes());
    // Fails only for numbers that JSON cannot hold, which the parser has refused.
    let input = serde_json_canonicalizer::to_vec(&plan.input())
        .unwrap_or_else(|_| plan.input().to_string().into());
    print.part(&input);
    print.end()
}

/// The fingerprint of a result.
pub(super) fn result(outcome: &Outcome) -> Fingerprint {
    let mut print = Print::new("result");
    print.part(outcome.terminal.as_str().as_bytes());
    for content in &outcome.content {
        match content {
            Content::Text(text) => print.part(text.as_bytes()),
            Content::Image { data, .. }
            | Content::Audio { data, .. }
            | Content::Document { data, .. } => print.part(data),
            Content::Resource { uri, body, .. } => {
                print.part(uri.as_bytes());
                print.part(body.as_bytes());
            }
            Content::Link { uri, .. } => print.part(uri.as_bytes()),
        }
    }
    match &outcome.structured {
        Some(value) => print.part(value.to_string().as_bytes()),
        None => print.part(b""),
    }
    if let Some(failure) = &outcome.error {
        print.part(failure.kind.as_str().as_bytes());
        print.part(failure.message.as_bytes());
        print.part(failure.at.as_deref().unwrap_or_default().as_bytes());
    }
    print.end()
}

/// Hashes parts one after the other, each with its length, so that no part runs into the next.
struct Print(Sha256);

impl Print {
    fn new(form: &str) -> Self {
        let mut print = Self(Sha256::new());
        print.part(form.as_bytes());
        print
    }

    fn part(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.0.update(length.to_le_bytes());
        self.0.update(bytes);
    }

    fn end(self) -> Fingerprint {
        let whole: [u8; 32] = self.0.finalize().into();
        let (half, _) = whole.split_at(16);
        let mut print = [0; 16];
        print.copy_from_slice(half);
        Fingerprint(print)
    }
}
