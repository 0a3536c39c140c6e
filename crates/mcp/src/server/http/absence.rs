//! A client with a session may lose the stream of an answer and come back for it, so a closed stream
//! does not end its call at once. A client that does not come back is gone, and its call is cancelled as
//! if it had said so.

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

/// How long a client has to come back for an answer whose stream it lost.
pub const COME_BACK: Duration = Duration::from_secs(30);

/// How many lost answers are watched at once; beyond it calls run to their own deadlines.
const MAX_WATCHED: usize = 1_000;

/// Sessions whose client lost the stream of an answer and was not heard of since.
pub(super) struct Absences {
    since: Mutex<HashMap<String, u64>>,
    count: AtomicU64,
    sessions: Arc<LocalSessionManager>,
    come_back: Duration,
}

/// A request of a session, by what the client calls it.
struct Asked {
    session: String,
    id: Value,
}

impl Absences {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, come_back: Duration) -> Arc<Self> {
        Arc::new(Self {
            since: Mutex::default(),
            count: AtomicU64::new(0),
            sessions,
            come_back,
        })
    }

    fn since(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session was heard of.
    pub(super) fn heard(&self, session: &str) {
        self.since().remove(session);
    }

    /// Watches over the answer to a message of a session, if it is a request.
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
        let asked = asked.map(|it| Asked {
            session: session.to_owned(),
            id: it.id,
        });
        let absences = Arc::clone(self);
        move |body| match asked {
            None => body,
            Some(asked) => BoxBody::new(Watched {
                body,
                absences,
                asked: Some(asked),
            }),
        }
    }

    /// The stream of an answer was closed before the answer. Unless the client is heard of in time,
    /// its request is cancelled.
    fn lost(self: &Arc<Self>, asked: Asked) {
        let mark = self.count.fetch_add(1, Ordering::Relaxed);
        {
            let mut since = self.since();
            if since.len() >= MAX_WATCHED {
                return;
            }
            since.insert(asked.session.clone(), mark);
        }
        let Ok(handle) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let absences = Arc::clone(self);
        handle.spawn(async move {
            tokio::time::sleep(absences.come_back).await;
            let still = absences.since().get(&asked.session) == Some(&mark);
            if still {
                absences.heard(&asked.session);
                absences.cancel(&asked).await;
            }
        });
    }

    async fn cancel(&self, asked: &Asked) {
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

/// An answer that says if it was dropped before its end.
struct Watched {
    body: BoxBody<Bytes, Infallible>,
    absences: Arc<Absences>,
    asked: Option<Asked>,
}

impl Body for Watched {
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

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take()
            && !self.body.is_end_stream()
        {
            self.absences.lost(asked);
        }
    }
}
