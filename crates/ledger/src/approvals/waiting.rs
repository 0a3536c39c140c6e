//! How calls wait for answers: all of them listen in one place, without a thread or task each. The
//! writer announces answers from this process at once; answers from other processes are found by a
//! single poll that runs only while somebody waits. The poll also wakes waiters whose questions
//! lapsed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::host::{ApprovalId, Clock, LedgerError, Timestamp};
use tokio::sync::{Notify, futures::Notified};

use crate::{
    queue::unavailable,
    store::{Connection, Scope, Store, StoreError, values},
};

/// The pause between two polls while answers arrive.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The pause between two polls when nothing happens.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How much the pause grows with each poll that finds nothing.
const PAUSE_STEP: Duration = Duration::from_millis(25);

/// How many changes one poll reads; the rest follow with the next.
const CHANGES_A_POLL: i64 = 10_000;

/// Everyone in this process who waits for an answer.
#[derive(Default)]
pub(crate) struct AnswerWaiters {
    inner: Mutex<Inner>,
    /// Wakes the poll when the first waiter arrives.
    first: Notify,
}

#[derive(Default)]
struct Inner {
    questions: HashMap<ApprovalId, Question>,
    by_expiry: BTreeSet<(Timestamp, ApprovalId)>,
    closed: bool,
}

struct Question {
    changed: Arc<Notify>,
    expires: Timestamp,
    waiters: usize,
}

/// A registered waiter. Dropping it ends the waiting.
pub(crate) struct Waiter<'a> {
    waiting: &'a AnswerWaiters,
    id: ApprovalId,
    changed: Arc<Notify>,
}

impl AnswerWaiters {
    /// Begins to wait for a question.
    pub(crate) fn wait_for(
        &self,
        id: ApprovalId,
        expires: Timestamp,
    ) -> Result<Waiter<'_>, LedgerError> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(unavailable("it is closed"));
        }
        let question = inner.questions.entry(id).or_insert_with(|| Question {
            changed: Arc::default(),
            expires,
            waiters: 0,
        });
        question.waiters += 1;
        let changed = Arc::clone(&question.changed);
        inner.by_expiry.insert((expires, id));
        drop(inner);
        self.first.notify_one();
        Ok(Waiter {
            waiting: self,
            id,
            changed,
        })
    }

    /// Wakes those who wait for these questions, to look again.
    pub(crate) fn wake<'a>(&self, ids: impl IntoIterator<Item = &'a ApprovalId>) {
        let inner = self.lock();
        for id in ids {
            if let Some(question) = inner.questions.get(id) {
                question.changed.notify_waiters();
            }
        }
    }

    fn wake_lapsed(&self, now: Timestamp) {
        let mut inner = self.lock();
        while let Some((expires, id)) = inner.by_expiry.first().copied()
            && expires <= now
        {
            inner.by_expiry.pop_first();
            if let Some(question) = inner.questions.get(&id) {
                question.changed.notify_waiters();
            }
        }
    }

    /// When the next question lapses.
    fn next_lapse(&self) -> Lapse {
        let inner = self.lock();
        if inner.questions.is_empty() {
            return Lapse::NobodyWaits;
        }
        match inner.by_expiry.first() {
            Some((expires, _)) => Lapse::At(*expires),
            None => Lapse::NoneKnown,
        }
    }

    fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        for question in inner.questions.values() {
            question.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held, and the data would be consistent anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Lapse {
    NobodyWaits,
    NoneKnown,
    At(Timestamp),
}

impl Waiter<'_> {
    /// Resolves when the question may have changed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut inner = self.waiting.lock();
        let Some(question) = inner.questions.get_mut(&self.id) else {
            return;
        };
        question.waiters -= 1;
        if question.waiters == 0 {
            let expires = question.expires;
            inner.questions.remove(&self.id);
            inner.by_expiry.remove(&(expires, self.id));
        }
    }
}

/// Finds answers from other processes, for as long as the writer lives.
pub(crate) async fn poll(
    waiting: Arc<AnswerWaiters>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    mut seen: i64,
) {
    let _closing = CloseOnDrop(Arc::clone(&waiting));
    let mut pause = SHORTEST_PAUSE;
    loop {
        let until_lapse = match waiting.next_lapse() {
            Lapse::NobodyWaits => {
                waiting.first.notified().await;
                pause = SHORTEST_PAUSE;
                continue;
            }
            Lapse::NoneKnown => LONGEST_PAUSE,
            Lapse::At(expires) => expires.since(clock.now()),
        };
        tokio::time::sleep(pause.min(until_lapse)).await;
        match changed_since(&*store, seen).await {
            Ok(changes) => {
                pause = match changes.last() {
                    Some((change, _)) => {
                        seen = *change;
                        SHORTEST_PAUSE
                    }
                    None => (pause + PAUSE_STEP).min(LONGEST_PAUSE),
                };
                waiting.wake(changes.iter().map(|(_, id)| id));
            }
            Err(error) => {
                pause = LONGEST_PAUSE;
                tracing::debug!(%error, "answers could not be looked for");
            }
        }
        waiting.wake_lapsed(clock.now());
    }
}

/// The number of the newest change.
pub(crate) async fn newest_change(connection: &mut dyn Connection) -> Result<i64, StoreError> {
    connection
        .number("SELECT coalesce(max(changed), 0) FROM approval", &[])
        .await
}

async fn changed_since(store: &dyn Store, seen: i64) -> Result<Vec<(i64, ApprovalId)>, StoreError> {
    // Whoever waits, of whichever tenant, is told by this one poll.
    let mut reader = store.reader(Scope::Every).await?;
    let rows = reader
        .query(
            "SELECT changed, id FROM approval WHERE changed > ?1 ORDER BY changed LIMIT ?2",
            &values![seen, CHANGES_A_POLL],
        )
        .await?;
    let mut changes = Vec::with_capacity(rows.len());
    for row in &rows {
        // A row without a valid id is nobody's question.
        if let Some(id) = ApprovalId::parse(row.get("id")?) {
            changes.push((row.get("changed")?, id));
        }
    }
    Ok(changes)
}

/// When the poll ends, so does all waiting.
struct CloseOnDrop(Arc<AnswerWaiters>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
