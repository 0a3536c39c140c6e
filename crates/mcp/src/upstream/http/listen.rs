//! Changes in the older era: a stream the server may offer separately from the requests. Questions
//! on it go to the one call in flight (`server_questions`).

use std::sync::Arc;

use tokio::time::Duration;

use super::{
    deliver::Address,
    exchange::{Events, is_stream},
};
use crate::upstream::{
    limits::REOPEN,
    session::unsolicited,
    wire::message::{self, Incoming},
};

/// The wait after the first break; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Listens until the connection ends, or the server says that it has no such stream.
pub(super) async fn listen(address: Arc<Address>) {
    let mut wait = FIRST_WAIT;
    let mut again = false;
    loop {
        tokio::select! {
            biased;
            () = address.gone.cancelled() => return,
            heard = hear(&address, again) => match heard {
                ListenEnd::Nothing => return,
                ListenEnd::Broke { after } if after > REOPEN => wait = FIRST_WAIT,
                ListenEnd::Broke { .. } => {}
            },
        }
        again = true;
        tokio::select! {
            biased;
            () = address.gone.cancelled() => return,
            () = tokio::time::sleep(wait) => wait = (2 * wait).min(REOPEN),
        }
    }
}

enum ListenEnd {
    /// The server has no such stream.
    Nothing,
    /// The stream broke, or the server could not be reached.
    Broke {
        /// How long the stream lasted.
        after: Duration,
    },
}

async fn hear(address: &Address, again: bool) -> ListenEnd {
    let began = tokio::time::Instant::now();
    let response = address.get(None).await;
    address.listening.cancel();
    let Ok(response) = response else {
        return ListenEnd::Broke {
            after: began.elapsed(),
        };
    };
    if response.status().is_client_error() {
        return ListenEnd::Nothing;
    }
    if !response.status().is_success() || !is_stream(&response) {
        return ListenEnd::Broke {
            after: began.elapsed(),
        };
    }
    if again {
        // Something may have changed while nobody listened.
        address.notices.definitions();
    }
    let mut events = Events::new(response);
    while let Ok(Some(text)) = events.next().await {
        match message::read(&text) {
            Ok(Incoming::Notice { method, parameters }) => {
                address.notices.take(&method, &parameters);
            }
            Ok(Incoming::Asked {
                id,
                method,
                parameters,
            }) => {
                if let Some((id, method, _)) = address.beside.ask((id, method, parameters)) {
                    let answer = message::answer(&id, unsolicited(&method));
                    let _ = address.post(answer.to_string(), &[]).await;
                }
            }
            Ok(Incoming::Answer { .. }) => address.dropped.unknown_answer(),
            Err(_) => address.dropped.broken(),
        }
    }
    ListenEnd::Broke {
        after: began.elapsed(),
    }
}
