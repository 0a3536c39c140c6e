//! What text is drawn with and on, as far as it decides whether anybody can read it.

use super::object::Object;

/// The most painted areas that are told apart; beyond that, everything counts as painted.
const MAX_AREAS: usize = 2000;

/// How near to white a colour is that is taken for it.
const WHITE: f64 = 0.97;

/// How opaque something is that nobody sees.
const FAINT: f64 = 0.05;

/// What is filled with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Paint {
    is_white: bool,
    pub(super) alpha: f64,
}

impl Default for Paint {
    fn default() -> Self {
        Self {
            is_white: false,
            alpha: 1.0,
        }
    }
}

impl Paint {
    pub(super) fn operator(&mut self, word: &[u8], operands: &[Object]) {
        let numbers = || operands.iter().map(Object::number);
        match word {
            b"g" | b"rg" => self.is_white = numbers().all(is_full),
            b"k" => self.is_white = numbers().all(is_none),
            b"cs" => self.is_white = false,
            // A pattern has a name, and four numbers are inks.
            b"sc" | b"scn" => {
                self.is_white = match operands.len() {
                    1 | 3 => numbers().all(is_full),
                    4 => numbers().all(is_none),
                    _ => false,
                };
            }
            _ => {}
        }
    }

    pub(super) fn is_white(&self) -> bool {
        self.is_white
    }

    pub(super) fn is_transparent(&self) -> bool {
        self.alpha <= FAINT
    }

    pub(super) fn is_invisible(&self) -> bool {
        self.is_white || self.is_transparent()
    }
}

fn is_full(number: Option<f64>) -> bool {
    number.is_some_and(|number| number >= WHITE)
}

fn is_none(number: Option<f64>) -> bool {
    number.is_some_and(|number| number <= 1.0 - WHITE)
}

/// An area with four edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageArea {
    left: f64,
    bottom: f64,
    right: f64,
    top: f64,
}

impl PageArea {
    /// From a list of four numbers.
    pub(super) fn of(numbers: &[Object]) -> Option<Self> {
        let numbers: Vec<f64> = numbers.iter().filter_map(Object::number).collect();
        let [x, y, other_x, other_y] = numbers[..] else {
            return None;
        };
        Self::around(&[(x, y), (other_x, other_y)])
    }

    pub(super) fn around(points: &[(f64, f64)]) -> Option<Self> {
        let (x, y) = *points.first()?;
        let start = Self {
            left: x,
            bottom: y,
            right: x,
            top: y,
        };
        Some(points.iter().fold(start, |area, (x, y)| Self {
            left: area.left.min(*x),
            bottom: area.bottom.min(*y),
            right: area.right.max(*x),
            top: area.top.max(*y),
        }))
    }

    pub(super) fn corners(&self) -> [(f64, f64); 2] {
        [(self.left, self.bottom), (self.right, self.top)]
    }

    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Whether a point is in it, or no farther off than so much.
    pub(super) fn is_near(&self, x: f64, y: f64, far: f64) -> bool {
        x >= self.left - far
            && x <= self.right + far
            && y >= self.bottom - far
            && y <= self.top + far
    }
}

/// Where something is painted that is not white.
#[derive(Debug, Default)]
pub(super) struct PaintedAreas {
    areas: Vec<PageArea>,
    is_everywhere: bool,
}

impl PaintedAreas {
    pub(super) fn add(&mut self, area: PageArea) {
        if self.areas.len() < MAX_AREAS {
            self.areas.push(area);
        } else {
            self.is_everywhere = true;
        }
    }

    pub(super) fn add_everything(&mut self) {
        self.is_everywhere = true;
    }

    pub(super) fn is_under(&self, x: f64, y: f64) -> bool {
        self.is_everywhere || self.areas.iter().any(|area| area.is_near(x, y, 1.0))
    }
}
