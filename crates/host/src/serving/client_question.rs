//! A question for a client to show to its person, and what it offers beyond *once*.

use haft_contract::host::ApprovalRequest;
use haft_mcp::server::approve::{QuestionText, Window};

use crate::{
    grant_choice,
    question::{self, DrawingContext, RoomForText},
    screen_text::{TextLine, most_columns, plain, sanitise, wrap::wrap_line},
};

/// Draws a question for a window; nothing if its form is not the one that an answer would bind.
pub(super) fn draw(request: &ApprovalRequest, window: Window) -> Option<QuestionText> {
    let room = window
        .columns
        .map_or(RoomForText::Enough, RoomForText::Narrow);
    let cx = DrawingContext {
        why: Some(&request.decision.reason),
        home: None,
        room,
    };
    let drawing = question::draw(&request.form, request.digest, cx).ok()?;
    let lines = drawing.lines(None).into_iter().map(harmless);
    let lines: Vec<TextLine> = match room {
        RoomForText::Narrow(columns) => lines
            .flat_map(|line| wrap_line(line, columns, most_columns))
            .collect(),
        RoomForText::Enough => lines.collect(),
    };
    Some(QuestionText {
        text: plain(&lines),
        choices: grant_choice::choices(request),
    })
}

/// A line of which no piece begins another.
fn harmless(line: TextLine) -> TextLine {
    let pieces = line.into_iter();
    pieces
        .map(|(tone, text)| (tone, sanitise::inline(&text)))
        .collect()
}
