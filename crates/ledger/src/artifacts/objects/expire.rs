//! Retention: contents are listed page by page, each with the moment it was last renewed, and removed
//! when they are too old, or the oldest when there are too many bytes.
//!
//! The storage lists names in order, so contents and renewals are read side by side, and no more than
//! two pages and the oldest few contents are in memory, however many there are.

use std::collections::BinaryHeap;

use futures_util::stream::{BoxStream, StreamExt as _};
use haft_contract::host::{LedgerError, LedgerErrorKind, Timestamp};
use object_store::{ObjectMeta, path::Path};

use super::bucket::{Bucket, ObjectKind, ObjectVersion, REMOVED_AT_ONCE, within};
use crate::{
    artifacts::{ExpiryReport, sweep::before},
    options::Retention,
};

/// How many of the oldest contents one pass may remove because there are too many bytes.
const MAX_CANDIDATES: usize = 65_536;

/// How many passes there are at most.
const MAX_PASSES: usize = 64;

/// How many letters the name of a content has: a hash in hexadecimal.
const NAME_LETTERS: usize = 64;

/// Removes what is too old or too much.
pub(super) async fn expire(
    bucket: &Bucket,
    now: Timestamp,
    retention: Retention,
) -> Result<ExpiryReport, LedgerError> {
    let mut report = ExpiryReport::default();
    for _ in 0..MAX_PASSES {
        if pass(
            bucket,
            before(now, retention.kept_for),
            retention,
            &mut report,
        )
        .await?
        {
            break;
        }
    }
    Ok(report)
}

/// The bytes of all contents. Only lists them.
pub(super) async fn kept_bytes(bucket: &Bucket) -> Result<u64, LedgerError> {
    let mut listed = bucket.list(ObjectKind::Content);
    let mut bytes = 0_u64;
    loop {
        let next = async { listed.next().await.transpose() };
        let Some(meta) = within(next).await? else {
            return Ok(bytes);
        };
        let content = NamedObject::of(&meta);
        bytes = bytes.saturating_add(content.map_or(0, |content| content.bytes));
    }
}

/// A content that may have to go, ordered by age.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    written: i64,
    name: String,
    bytes: u64,
}

/// Looks at everything once. Returns whether nothing is left to remove.
async fn pass(
    bucket: &Bucket,
    oldest: i64,
    retention: Retention,
    report: &mut ExpiryReport,
) -> Result<bool, LedgerError> {
    let mut contents = NameOrder::new(bucket.list(ObjectKind::Content));
    let mut renewals = NameOrder::new(bucket.list(ObjectKind::Renewal));
    let mut renewal = renewals.next().await?;
    let mut removal = Removal::new(bucket);
    // The youngest is on top, and goes first when there are too many.
    let mut candidates = BinaryHeap::new();
    let mut is_all = true;
    report.kept_bytes = 0;
    while let Some(content) = contents.next().await? {
        // A renewal of something that is gone goes when it is old.
        while let Some(orphan) = renewal.take_if(|renewal| renewal.name < content.name) {
            removal.remove_renewal(&orphan, oldest).await?;
            renewal = renewals.next().await?;
        }
        let mut candidate = Candidate {
            written: content.written,
            name: content.name,
            bytes: content.bytes,
        };
        if let Some(renewed) = renewal.take_if(|renewal| renewal.name == candidate.name) {
            candidate.written = candidate.written.max(renewed.written);
            renewal = renewals.next().await?;
        }
        report.kept_bytes += candidate.bytes;
        if candidate.written < oldest {
            removal.remove_content(candidate, report).await?;
            continue;
        }
        candidates.push(candidate);
        if candidates.len() > MAX_CANDIDATES {
            candidates.pop();
            is_all = false;
        }
    }
    while let Some(orphan) = renewal {
        removal.remove_renewal(&orphan, oldest).await?;
        renewal = renewals.next().await?;
    }
    for candidate in candidates.into_sorted_vec() {
        if report.kept_bytes <= retention.max_total_bytes {
            break;
        }
        removal.remove_content(candidate, report).await?;
    }
    removal.send().await?;
    Ok(is_all || report.kept_bytes <= retention.max_total_bytes)
}

/// Objects of one kind, as they are listed.
struct NameOrder {
    listed: BoxStream<'static, object_store::Result<ObjectMeta>>,
    last: String,
}

/// An object of an artifact, by the hash it is named after.
struct NamedObject {
    name: String,
    bytes: u64,
    written: i64,
}

impl NamedObject {
    /// None if its name is no hash; then it is not ours.
    fn of(meta: &ObjectMeta) -> Option<Self> {
        let name = meta.location.filename().unwrap_or_default();
        let is_hash =
            name.len() == NAME_LETTERS && name.bytes().all(|letter| letter.is_ascii_hexdigit());
        let ObjectVersion { bytes, written, .. } = ObjectVersion::of(meta);
        is_hash.then(|| Self {
            name: name.to_owned(),
            bytes,
            written,
        })
    }
}

impl NameOrder {
    fn new(listed: BoxStream<'static, object_store::Result<ObjectMeta>>) -> Self {
        Self {
            listed,
            last: String::new(),
        }
    }

    /// The next object whose name is a hash; others are not ours.
    async fn next(&mut self) -> Result<Option<NamedObject>, LedgerError> {
        loop {
            let next = async { self.listed.next().await.transpose() };
            let Some(meta) = within(next).await? else {
                return Ok(None);
            };
            let Some(object) = NamedObject::of(&meta) else {
                continue;
            };
            // Out of order, a renewal would be missed and something young removed.
            if object.name <= self.last {
                return Err(LedgerError::new(
                    LedgerErrorKind::Unavailable,
                    "the artifact storage does not list names in order, so nothing can be removed safely; remove old objects with a rule of the bucket",
                ));
            }
            self.last.clone_from(&object.name);
            return Ok(Some(object));
        }
    }
}

/// What is to be removed, sent in as few requests as possible.
struct Removal<'b> {
    bucket: &'b Bucket,
    keys: Vec<Path>,
}

impl<'b> Removal<'b> {
    fn new(bucket: &'b Bucket) -> Self {
        Self {
            bucket,
            keys: Vec::new(),
        }
    }

    async fn remove_content(
        &mut self,
        candidate: Candidate,
        report: &mut ExpiryReport,
    ) -> Result<(), LedgerError> {
        report.removed += 1;
        report.bytes += candidate.bytes;
        report.kept_bytes = report.kept_bytes.saturating_sub(candidate.bytes);
        for kind in [ObjectKind::Content, ObjectKind::Renewal] {
            self.keys.push(self.bucket.key_of(kind, &candidate.name));
        }
        self.send_if_full().await
    }

    async fn remove_renewal(
        &mut self,
        renewal: &NamedObject,
        oldest: i64,
    ) -> Result<(), LedgerError> {
        if renewal.written < oldest {
            let key = self.bucket.key_of(ObjectKind::Renewal, &renewal.name);
            self.keys.push(key);
        }
        self.send_if_full().await
    }

    async fn send_if_full(&mut self) -> Result<(), LedgerError> {
        if self.keys.len() + 2 > REMOVED_AT_ONCE {
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), LedgerError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        Ok(self.bucket.remove(std::mem::take(&mut self.keys)).await?)
    }
}
