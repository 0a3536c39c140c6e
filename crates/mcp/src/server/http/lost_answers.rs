//! A client with a session may lose the stream of an answer and reconnect for it, so a closed
//! stream does not end its call at once. A client that does not return is gone, and its call is
//! cancelled as if it had asked for that.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::streamable_http_server::{SessionManager as _, session::local::LocalSessionManager},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long a client has to reconnect for an answer whose stream it lost.
pub const COME_BACK: Duration = Duration::from_secs(30);

/// How many lost answers are watched at once; past it, calls run to their own deadlines.
const MAX_WATCHED: usize = 1_000;

/// Answers whose stream was lost by a client that has not sent anything since.
pub(super) struct LostAnswers {
    lost: Mutex<LostIndex>,
    count: AtomicU64,
    sessions: Arc<LocalSessionManager>,
    come_back: Duration,
}

/// The lost answers, by session and by the client's request id, each with a unique mark.
#[derive(Default)]
struct LostIndex {
    by_session: HashMap<String, HashMap<String, u64>>,
    watched: usize,
}

impl LostIndex {
    /// Adds an answer; returns whether there was room.
    fn add(&mut self, asked: &RequestKey, mark: u64) -> bool {
        if self.watched >= MAX_WATCHED {
            return false;
        }
        let session = self.by_session.entry(asked.session.clone()).or_default();
        self.watched += usize::from(session.insert(asked.id.to_string(), mark).is_none());
        true
    }

    fn forget(&mut self, session: &str) {
        if let Some(forgotten) = self.by_session.remove(session) {
            self.watched -= forgotten.len();
        }
    }

    /// Removes an answer if it still has this mark; returns whether it did.
    fn take(&mut self, asked: &RequestKey, mark: u64) -> bool {
        let Some(session) = self.by_session.get_mut(&asked.session) else {
            return false;
        };
        let id = asked.id.to_string();
        if session.get(&id) != Some(&mark) {
            return false;
        }
        session.remove(&id);
        if session.is_empty() {
            self.by_session.remove(&asked.session);
        }
        self.watched -= 1;
        true
    }
}

/// A request of a session, by the client's id for it.
struct RequestKey {
    session: String,
    id: Value,
}

impl LostAnswers {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, come_back: Duration) -> Arc<Self> {
        Arc::new(Self {
            lost: Mutex::default(),
            count: AtomicU64::new(0),
            sessions,
            come_back,
        })
    }

    fn all(&self) -> MutexGuard<'_, LostIndex> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a session sent something.
    pub(super) fn heard(&self, session: &str) {
        self.all().forget(session);
    }

    /// Watches the answer to a message of a session, if the message is a request.
    pub(super) fn watch(
        self: &Arc<Self>,
        session: &str,
        message: &[u8],
    ) -> impl FnOnce(BoxBody<Bytes, Infallible>) -> BoxBody<Bytes, Infallible> + use<> {
        #[derive(Deserialize)]
        struct Id {
            #[serde(default)]
            id: Value,
            #[serde(default)]
            method: Value,
        }
        let asked = serde_json::from_slice::<Id>(message).ok();
        let asked = asked.filter(|it| it.method.is_string() && !it.id.is_null());
        let asked = asked.map(|it| RequestKey {
            session: session.to_owned(),
            id: it.id,
        });
        let absences = Arc::clone(self);
        move |body| match asked {
            None => body,
            Some(asked) => BoxBody::new(WatchedAnswer {
                body,
                absences,
                asked: Some(asked),
            }),
        }
    }

    /// Notes that the stream closed before the answer. Unless the client sends something in time,
    /// its request is cancelled.
    fn lost(self: &Arc<Self>, asked: RequestKey) {
        let mark = self.count.fetch_add(1, Ordering::Relaxed);
        if !self.all().add(&asked, mark) {
            return;
        }
        let Ok(handle) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let absences = Arc::clone(self);
        handle.spawn(async move {
            tokio::time::sleep(absences.come_back).await;
            let still = absences.all().take(&asked, mark);
            if still {
                absences.cancel(&asked).await;
            }
        });
    }

    async fn cancel(&self, asked: &RequestKey) {
        let cancelled = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": asked.id, "reason": "the client is gone"},
        });
        let Ok(message) = serde_json::from_value::<ClientJsonRpcMessage>(cancelled) else {
            return;
        };
        let session = asked.session.as_str().into();
        if let Err(error) = self.sessions.accept_message(&session, message).await {
            tracing::debug!(%error, "a request of a client that is gone could not be cancelled");
        }
    }
}

/// An answer that reports if it was dropped before its end.
struct WatchedAnswer {
    body: BoxBody<Bytes, Infallible>,
    absences: Arc<LostAnswers>,
    asked: Option<RequestKey>,
}

impl Body for WatchedAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.asked = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedAnswer {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take()
            && !self.body.is_end_stream()
        {
            self.absences.lost(asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(session: &str, id: u64) -> RequestKey {
        RequestKey {
            session: session.to_owned(),
            id: json!(id),
        }
    }

    #[test]
    fn each_lost_answer_of_a_session_is_kept_apart() {
        let mut lost = LostIndex::default();
        assert!(lost.add(&asked("s", 1), 10) && lost.add(&asked("s", 2), 11));
        assert!(lost.add(&asked("t", 1), 12));
        assert!(
            lost.take(&asked("s", 1), 10),
            "the second took nothing from it"
        );
        assert!(!lost.take(&asked("s", 1), 10));
        assert!(!lost.take(&asked("s", 2), 10), "the mark of another");
        lost.forget("s");
        assert!(!lost.take(&asked("s", 2), 11), "its client was heard of");
        assert_eq!(lost.watched, 1);
        assert!(lost.take(&asked("t", 1), 12));
        assert!(lost.by_session.is_empty() && lost.watched == 0);
    }

    #[test]
    fn so_many_are_watched_and_no_more() {
        let mut lost = LostIndex::default();
        let most = u64::try_from(MAX_WATCHED).unwrap();
        assert!((0..most).all(|id| lost.add(&asked("s", id), id)));
        assert!(!lost.add(&asked("t", 0), 0));
        lost.forget("s");
        assert!(lost.add(&asked("t", 0), 0));
    }
}
