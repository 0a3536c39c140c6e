//! Ctrl-C: the first one stops what runs, properly and on record; the second one leaves at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::terminal::{Output, Page, Style};

/// The exit code of a program that SIGINT ended, as shells write it.
const LEFT_AT_ONCE: i32 = 130;

/// Cancels the token at the first SIGINT or SIGTERM, and leaves the program at the second.
pub(crate) fn cancels(cancel: &CancellationToken, output: Output) {
    let (Ok(mut interrupts), Ok(mut terminations)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the signals end the program, and the next start settles the call.
        return;
    };
    let cancel = cancel.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
            }
            if cancel.is_cancelled() {
                std::process::exit(LEFT_AT_ONCE);
            }
            cancel.cancel();
            let page = Page::new()
                .end()
                .styled(Style::Warn, "stopping; once more leaves at once")
                .end();
            output.note(&page);
        }
    });
}
