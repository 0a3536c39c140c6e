//! A question on a terminal: `haft_host::question` draws it, this gives it colours and width.

use haft_contract::PlanDigest;
use haft_host::question::{self, DrawingContext, RoomForText};
pub(crate) use haft_host::question::{FormMismatch, QuestionDrawing, kind};
use serde_json::Value;

use crate::terminal::{Page, stderr_columns};

/// The most questions a list shows.
pub(crate) const MAX_LISTED: usize = 1_000;

/// Draws a question, if its form has this digest.
pub(crate) fn draw(
    form: &Value,
    digest: PlanDigest,
    why: Option<&str>,
    home: Option<&str>,
) -> Result<QuestionDrawing, FormMismatch> {
    let room = RoomForText::Enough;
    question::draw(form, digest, DrawingContext { why, home, room })
}

/// What must be seen before a yes counts, for standard error.
pub(crate) fn page(drawing: &QuestionDrawing) -> Page {
    let lines = drawing.lines(stderr_columns());
    Page::new().text_lines(&lines)
}

/// What is behind the key `d`.
pub(crate) fn details(drawing: &QuestionDrawing) -> Page {
    Page::new().text_lines(&drawing.details)
}
