//! One question on the screen: its lines, the scroll position, and which lines have been seen. A
//! yes requires having seen all of them.

use std::sync::Arc;

use haft_contract::host::Timestamp;

use super::state::{Item, ScreenSize};
use crate::{
    terminal::{Page, Style, wrap},
    view::{approval, time},
};

#[derive(Debug, Clone)]
pub(super) struct Detail {
    pub(super) item: Arc<Item>,
    page: Result<RenderedDetail, CannotShow>,
    /// The lines at the width of the screen.
    pub(super) lines: Vec<Vec<(Style, String)>>,
    seen: Vec<bool>,
    pub(super) top: usize,
    pub(super) opened: Timestamp,
    /// Whether it is still open.
    pub(super) open: bool,
    /// The reason being typed.
    pub(super) reason: Option<String>,
}

#[derive(Debug, Clone)]
struct RenderedDetail {
    facts: Page,
    heart: Page,
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
    /// Opens a question. It is scrolled to where what will happen starts, unless all of it fits.
    pub(super) fn open(item: Arc<Item>, size: ScreenSize, now: Timestamp) -> Self {
        let page = match &item.form {
            None => Err(CannotShow::Secret),
            Some(form) => match approval::draw(form, item.digest) {
                Ok(drawn) => Ok(RenderedDetail {
                    facts: Page::new()
                        .field("question", item.id.to_string())
                        .field("lapses", time::local(item.expires))
                        .page(drawn.facts),
                    heart: drawn.heart,
                }),
                Err(approval::FormMismatch) => Err(CannotShow::Altered),
            },
        };
        let mut detail = Self {
            item,
            page,
            lines: Vec::new(),
            seen: Vec::new(),
            top: 0,
            opened: now,
            open: true,
            reason: None,
        };
        detail.fit(size);
        detail
    }

    /// Lays the lines out for a screen. Lines seen at another width must be seen again.
    pub(super) fn fit(&mut self, size: ScreenSize) {
        let width = usize::from(size.width);
        let laid_out = |page: &Page| -> Vec<_> {
            let lines = page.lines().into_iter();
            lines.flat_map(|line| wrap(line, width)).collect()
        };
        let (facts, heart) = match &self.page {
            Ok(drawn) => (laid_out(&drawn.facts), laid_out(&drawn.heart)),
            Err(why) => (
                Vec::new(),
                laid_out(&Page::new().styled(Style::Bad, why.as_str())),
            ),
        };
        let begin = facts.len();
        self.lines = facts;
        self.lines.extend(heart);
        self.seen = vec![false; self.lines.len()];
        self.top = begin;
        self.scroll_to(begin, size);
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
        self.page.as_ref().err().copied()
    }
}
