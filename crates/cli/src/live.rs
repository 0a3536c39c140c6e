//! Prints a call while it runs: its text to a pipe, or its events as JSON lines.
//!
//! The call never waits for whoever reads. A thread prints; while its queue is full, events are
//! dropped and counted. Text is printed up to the first thing dropped, and not past the head that
//! every result has, so that the rest can be printed from the outcome and nothing is lost.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use haft_contract::{
    CallEvent, Outcome,
    event::{EventSink, RecordedEvent},
};

use crate::{
    terminal::{Format, JsonLists, Output},
    view::event::{LiveEventView, MissedView},
};

/// How many events wait for a slow reader.
const HELD: usize = 1_024;

/// What is printed while a call runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LiveFormat {
    /// Its output as text, at most this many bytes.
    Text(usize),
    /// Its events, each as a line of JSON.
    Lines,
}

impl LiveFormat {
    /// How a call is printed while it runs, if at all: text to a pipe, at most this many bytes, or
    /// events where every item has a line of its own.
    pub(crate) fn of(output: Output, head_bytes: usize) -> Option<Self> {
        match (output.format(), output.lists()) {
            (Format::Json, JsonLists::Lines) => Some(Self::Lines),
            (Format::Json, JsonLists::Array) => None,
            (Format::Text, _) if output.stdout_is_terminal() => None,
            (Format::Text, _) => Some(Self::Text(head_bytes)),
        }
    }
}

/// A listener that prints one call once it is started.
#[derive(Default)]
pub(crate) struct LivePrinter(Mutex<Option<Printing>>);

struct Printing {
    format: LiveFormat,
    to: SyncSender<Print>,
    /// Events dropped since the last that was not.
    missed: u64,
    thread: JoinHandle<String>,
}

/// An event to print, and how many were dropped before it.
struct Print {
    missed: u64,
    happened: RecordedEvent,
}

impl LivePrinter {
    /// Starts printing.
    pub(crate) fn start(&self, output: Output, format: LiveFormat) {
        let (to, queue) = sync_channel(HELD);
        let thread = std::thread::spawn(move || match format {
            LiveFormat::Text(most) => print_text(output, &queue, most),
            LiveFormat::Lines => print_lines(output, &queue),
        });
        *self.printing() = Some(Printing {
            format,
            to,
            missed: 0,
            thread,
        });
    }

    /// Prints what waits, stops, and returns the text that was printed.
    pub(crate) async fn finish(&self) -> String {
        let Some(Printing { to, thread, .. }) = self.printing().take() else {
            return String::new();
        };
        drop(to);
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        joined.ok().and_then(Result::ok).unwrap_or_default()
    }

    fn printing(&self) -> std::sync::MutexGuard<'_, Option<Printing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for LivePrinter {
    fn happened(&self, happened: &RecordedEvent) {
        let mut printing = self.printing();
        let Some(printing) = &mut *printing else {
            return;
        };
        let wanted = match (printing.format, &happened.event) {
            // After a gap, the rest comes from the outcome.
            (LiveFormat::Text(_), CallEvent::Output { .. }) => printing.missed == 0,
            // The outcome is printed by itself, and notes repeat what was said.
            (LiveFormat::Text(_), _)
            | (LiveFormat::Lines, CallEvent::Settled { .. } | CallEvent::ProgressNoted(_)) => false,
            (LiveFormat::Lines, _) => true,
        };
        if !wanted {
            return;
        }
        let print = Print {
            missed: printing.missed,
            happened: happened.clone(),
        };
        match printing.to.try_send(print) {
            Ok(()) => printing.missed = 0,
            Err(_) => printing.missed += 1,
        }
    }
}

fn print_text(output: Output, queue: &Receiver<Print>, most: usize) -> String {
    let mut printed = String::new();
    for Print { happened, .. } in queue {
        let CallEvent::Output { text, .. } = &happened.event else {
            continue;
        };
        let room = most.saturating_sub(printed.len());
        let piece = text.get(..text.floor_char_boundary(room));
        let Some(piece) = piece.filter(|piece| !piece.is_empty()) else {
            break;
        };
        // Whoever prints the outcome meets the same error and reports it.
        if output.piece(piece).is_err() {
            break;
        }
        printed.push_str(piece);
        if piece.len() < text.len() {
            break;
        }
    }
    printed
}

fn print_lines(output: Output, queue: &Receiver<Print>) -> String {
    for Print { missed, happened } in queue {
        let missing = (missed > 0).then(|| MissedView::of(missed, happened.call));
        let told = missing.map_or(Ok(()), |missed| output.json_line(&missed));
        if told
            .and_then(|()| output.json_line(&LiveEventView::of(&happened)))
            .is_err()
        {
            break;
        }
    }
    String::new()
}

/// What is left to print of an outcome after the beginning of its text was. The line that says how
/// to get what was left out comes first in a result; here it comes where that is left out, because
/// what precedes it is printed already.
pub(crate) fn rest_of(outcome: &Outcome, printed: &str) -> Option<String> {
    let text = outcome.text();
    if let Some(rest) = text.strip_prefix(printed) {
        return Some(rest.to_owned());
    }
    let (notice, body) = text.split_once('\n')?;
    let rest = body.strip_prefix(printed)?;
    let facts = &outcome.facts;
    let (bytes, lines) = (facts.bytes_omitted, facts.lines_omitted);
    let gap = format!("[… {bytes} bytes in {lines} lines left out …]\n");
    let (before, after) = rest.split_once(&gap)?;
    Some(format!("{before}{notice}\n{gap}{after}"))
}

#[cfg(test)]
mod tests {
    use haft_contract::{CallId, Content, Terminal, outcome::Facts};

    use super::*;

    fn outcome(text: &str, omitted: (u64, u64)) -> Outcome {
        let mut facts = Facts::default();
        (facts.bytes_omitted, facts.lines_omitted) = omitted;
        Outcome {
            call: CallId::new(),
            tool: None,
            terminal: Terminal::Succeeded,
            content: vec![Content::text(text)],
            structured: None,
            error: None,
            facts,
        }
    }

    #[test]
    fn what_was_printed_is_not_printed_again() {
        let whole = outcome("one\ntwo\n", (0, 0));
        assert_eq!(rest_of(&whole, "one\n").as_deref(), Some("two\n"));
        assert_eq!(rest_of(&whole, "").as_deref(), Some("one\ntwo\n"));
        let text = "[9 bytes: ask]\none\ntwo\n[… 9 bytes in 3 lines left out …]\nlast\n";
        let long = outcome(text, (9, 3));
        let rest = "two\n[9 bytes: ask]\n[… 9 bytes in 3 lines left out …]\nlast\n";
        assert_eq!(rest_of(&long, "one\n").as_deref(), Some(rest));
        assert_eq!(rest_of(&whole, "something else"), None);
    }
}
