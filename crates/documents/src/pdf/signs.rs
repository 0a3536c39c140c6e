//! The signs of a page and their places.

use super::paint::{PageArea, PaintedAreas};

/// The most signs of a page; more than a page can show.
const MAX_SIGNS: usize = 200_000;

/// The farthest place that is one on a page.
const FAR: f64 = 1e6;

/// A sign, which may be several characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedSign {
    /// Where it begins, on its line.
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) size: f64,
    /// Where its line goes: 0 is to the right, the angle grows against the clock.
    pub(super) turn: f64,
    /// Where its characters are in the text of the page.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl PlacedSign {
    pub(super) fn is_finite(&self) -> bool {
        let numbers = [self.x, self.y, self.width, self.size];
        numbers.iter().all(|number| number.abs() < FAR) && self.turn.is_finite()
    }
}

/// All signs of a page, in the order in which they are drawn.
#[derive(Debug)]
pub(super) struct PageSigns {
    pub(super) text: String,
    pub(super) signs: Vec<PlacedSign>,
    /// Signs that are drawn to be found, and not to be seen.
    searched: Vec<PlacedSign>,
    pub(super) pictures: usize,
    /// How many signs nobody knows the meaning of.
    pub(super) unknown: usize,
    /// How many characters nobody sees.
    pub(super) hidden: usize,
    pub(super) ground: PaintedAreas,
    area: Option<PageArea>,
}

impl PageSigns {
    pub(super) fn new(area: Option<PageArea>) -> Self {
        Self {
            text: String::new(),
            signs: Vec::new(),
            searched: Vec::new(),
            pictures: 0,
            unknown: 0,
            hidden: 0,
            ground: PaintedAreas::default(),
            area,
        }
    }

    /// Whether no more signs are taken.
    pub(super) fn is_full(&self) -> bool {
        self.signs.len() >= MAX_SIGNS || self.searched.len() >= MAX_SIGNS
    }

    pub(super) fn add(&mut self, sign: PlacedSign) {
        self.signs.push(sign);
    }

    pub(super) fn add_searched(&mut self, sign: PlacedSign) {
        self.searched.push(sign);
    }

    /// Whether a sign begins outside the page.
    pub(super) fn is_outside(&self, sign: &PlacedSign) -> bool {
        let area = self.area.as_ref();
        area.is_some_and(|area| !area.is_near(sign.x, sign.y, sign.size))
    }

    /// Takes away the text from here on, which nobody sees.
    pub(super) fn leave_out(&mut self, start: usize) {
        let text = self.text.get(start..).unwrap_or_default();
        self.hidden += text.chars().filter(|c| !c.is_whitespace()).count();
        self.text.truncate(start);
    }

    /// Decides about what is there to be searched: it is the text of a picture, if there is one.
    pub(super) fn settle_searched(&mut self) {
        let searched = std::mem::take(&mut self.searched);
        if self.pictures > 0 {
            self.signs.extend(searched);
            return;
        }
        for sign in searched {
            let text = self.text.get(sign.start..sign.end).unwrap_or_default();
            self.hidden += text.chars().filter(|c| !c.is_whitespace()).count();
        }
    }
}
