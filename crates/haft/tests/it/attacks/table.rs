//! What the corpus shows, as a line a case for the terminal and as a page for readers.

use super::{attempt::Verdict, corpus::Case};

/// One case, as the run prints it.
pub(crate) fn line(case: &Case, verdict: &Verdict) -> String {
    let tally = verdict.tally;
    let result = match (tally.attempts, verdict.faults.len()) {
        (0, 0) => "due".to_owned(),
        (attempts, 0) => format!("held {attempts}/{attempts}"),
        (attempts, faults) => format!("{faults} faults in {attempts}"),
    };
    format!(
        "{:6} {:14} controls {}/{}  twins {}/{}  {}",
        case.id,
        result,
        tally.controls - tally.lost_controls,
        tally.controls,
        tally.twins - tally.false_denials,
        tally.twins,
        case.title
    )
}
