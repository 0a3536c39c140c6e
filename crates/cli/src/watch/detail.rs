//! One question on the screen: its lines, the scroll position, and which lines have been seen. A
//! yes requires having seen all of them.

use std::sync::Arc;

use haft_contract::host::Timestamp;

use super::state::{Item, ScreenSize};
use crate::{
    terminal::{Page, Style, wrap},
    view::{
        question::{self, QuestionDrawing},
        time,
    },
};

#[derive(Debug, Clone)]
pub(super) struct Detail {
    pub(super) item: Arc<Item>,
    drawing: Result<QuestionDrawing, CannotShow>,
    home: Option<String>,
    /// The lines at the width of the screen; those that must be seen come first.
    pub(super) lines: Vec<Vec<(Style, String)>>,
    /// Whether each of the lines that must be seen has been on the screen.
    seen: Vec<bool>,
    pub(super) top: usize,
    pub(super) opened: Timestamp,
    /// Whether it is still open.
    pub(super) open: bool,
    /// The reason being typed.
    pub(super) reason: Option<String>,
    /// Whether the record was read for why it is asked.
    pub(super) explained: bool,
    /// Whether what only an auditor needs is shown below.
    with_details: bool,
}

/// Why a question cannot be shown, and so cannot be approved here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CannotShow {
    /// It holds a secret, which the record does not keep.
    Secret,
    /// The form is not the one that was asked about.
    Altered,
}

impl CannotShow {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Secret => {
                "the call contains a secret, which the record does not keep: answer where it was asked, or refuse it"
            }
            Self::Altered => "the question on record is not the one that was asked: refuse it",
        }
    }
}

impl Detail {
    /// Opens a question, at its beginning: what will happen comes first.
    pub(super) fn open(
        item: Arc<Item>,
        size: ScreenSize,
        now: Timestamp,
        home: Option<String>,
    ) -> Self {
        let mut detail = Self {
            drawing: drawn(&item, None, home.as_deref()),
            item,
            home,
            lines: Vec::new(),
            seen: Vec::new(),
            top: 0,
            opened: now,
            open: true,
            reason: None,
            explained: false,
            with_details: false,
        };
        detail.fit(size);
        detail
    }

    /// Adds why it is asked, if the record knows. The line must be seen like the others.
    pub(super) fn explain(&mut self, why: Option<&str>, size: ScreenSize) {
        self.explained = true;
        if why.is_some() {
            self.drawing = drawn(&self.item, why, self.home.as_deref());
            self.fit(size);
        }
    }

    /// Shows or hides what only an auditor needs. What was seen stays seen: it comes first.
    pub(super) fn toggle_details(&mut self, size: ScreenSize) {
        let seen = self.seen.clone();
        self.with_details = !self.with_details;
        self.fit(size);
        let top = if self.with_details { seen.len() } else { 0 };
        self.seen = seen;
        self.scroll_to(top, size);
    }

    /// Lays the lines out for a screen. Lines seen at another width must be seen again.
    pub(super) fn fit(&mut self, size: ScreenSize) {
        let width = usize::from(size.width);
        let laid_out = |page: &Page| -> Vec<_> {
            let lines = page.lines().into_iter();
            lines.flat_map(|line| wrap(line, width)).collect()
        };
        let (main, details) = match &self.drawing {
            Ok(drawing) => (
                Page::new().text_lines(&drawing.lines(Some(width))),
                Page::new()
                    .field("question", self.item.id.to_string())
                    .field("call", self.item.call.to_string())
                    .field("lapses", time::local(self.item.expires))
                    .page(question::details(drawing)),
            ),
            Err(why) => (Page::new().styled(Style::Bad, why.as_str()), Page::new()),
        };
        self.lines = laid_out(&main);
        self.seen = vec![false; self.lines.len()];
        if self.with_details {
            self.lines.push(Vec::new());
            self.lines.extend(laid_out(&details));
        }
        self.scroll_to(0, size);
    }

    /// Scrolls so that this line is the first, as far as possible.
    pub(super) fn scroll_to(&mut self, top: usize, size: ScreenSize) {
        let last = self.lines.len().saturating_sub(size.body());
        self.top = top.min(last);
        for seen in self.seen.iter_mut().skip(self.top).take(size.body()) {
            *seen = true;
        }
    }

    /// The first line that has not been on the screen yet.
    pub(super) fn unseen(&self) -> Option<usize> {
        self.seen.iter().position(|seen| !seen)
    }

    /// Why it cannot be approved here, if it cannot.
    pub(super) fn unshown(&self) -> Option<CannotShow> {
        self.drawing.as_ref().err().copied()
    }
}

fn drawn(
    item: &Item,
    why: Option<&str>,
    home: Option<&str>,
) -> Result<QuestionDrawing, CannotShow> {
    let form = item.form.as_ref().ok_or(CannotShow::Secret)?;
    question::draw(form, item.digest, why, home)
        .map_err(|question::FormMismatch| CannotShow::Altered)
}
