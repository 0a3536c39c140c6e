//! What stops the program from outside: a person's keys at a terminal, and the signals of an agent
//! that ends the server it started. In both cases running calls are stopped properly and recorded.

use std::{future::poll_fn, task::Poll, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    exit::STOPPED_AT_ONCE,
    terminal::{Output, Page, Style},
};

/// How long an agent's further signals count as the same request to end. Agents send one after
/// another, a tenth of a second apart; exiting at the second would leave open questions that nobody
/// waits for.
const SAME_WISH: Duration = Duration::from_secs(5);

/// Cancels the token at the first SIGINT or SIGTERM, and exits the program at the second: for a
/// person who presses Ctrl-C again when it takes too long.
pub(crate) fn cancels(cancel: &CancellationToken, output: Output) {
    let Some(mut signals) = Signals::of(&[SignalKind::interrupt(), SignalKind::terminate()]) else {
        return;
    };
    let cancel = cancel.clone();
    tokio::spawn(async move {
        loop {
            signals.next().await;
            if cancel.is_cancelled() {
                std::process::exit(STOPPED_AT_ONCE);
            }
            cancel.cancel();
            let page = Page::new()
                .end()
                .styled(Style::Warn, "stopping; press again to exit at once")
                .end();
            output.note(&page);
        }
    });
}

/// Cancels the token at the first SIGINT, SIGTERM or SIGHUP, and exits the program at one that
/// comes much later: for a server whose agent ends it, or whose agent's terminal was closed.
pub(crate) fn cancels_for_agent(cancel: &CancellationToken) {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let Some(mut signals) = Signals::of(&kinds) else {
        return;
    };
    let cancel = cancel.clone();
    tokio::spawn(async move {
        signals.next().await;
        cancel.cancel();
        let first = Instant::now();
        loop {
            signals.next().await;
            if first.elapsed() > SAME_WISH {
                std::process::exit(STOPPED_AT_ONCE);
            }
        }
    });
}

/// Signals that are waited for together.
struct Signals(Vec<Signal>);

impl Signals {
    /// `None` if they cannot be handled: then they end the program, and the next start settles its
    /// calls.
    fn of(kinds: &[SignalKind]) -> Option<Self> {
        let signals = kinds.iter().map(|kind| signal(*kind));
        signals.collect::<Result<_, _>>().ok().map(Self)
    }

    /// Waits for the next signal of any kind.
    async fn next(&mut self) {
        poll_fn(|cx| {
            // Polls every one, so that each wakes this task.
            let came = self.0.iter_mut().map(|signal| signal.poll_recv(cx));
            match came.filter(Poll::is_ready).count() {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}
