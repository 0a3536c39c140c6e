//! Where things are on a page: six numbers that move, turn and stretch.

use super::object::Object;

/// A point `(x, y)` becomes `(a x + c y + e, b x + d y + f)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matrix {
    pub(super) a: f64,
    pub(super) b: f64,
    pub(super) c: f64,
    pub(super) d: f64,
    pub(super) e: f64,
    pub(super) f: f64,
}

impl Matrix {
    pub(super) const IDENTITY: Self = Self {
        a: 1.0,
        b: 0.0,
        c: 0.0,
        d: 1.0,
        e: 0.0,
        f: 0.0,
    };

    pub(super) fn of_move(x: f64, y: f64) -> Self {
        Self {
            e: x,
            f: y,
            ..Self::IDENTITY
        }
    }

    /// The last six numbers of a list.
    pub(super) fn of(objects: &[Object]) -> Option<Self> {
        let start = objects.len().checked_sub(6)?;
        let numbers = objects.get(start..)?.iter().map(Object::number);
        let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
        let number = |index: usize| numbers.get(index).copied();
        Some(Self {
            a: number(0)?,
            b: number(1)?,
            c: number(2)?,
            d: number(3)?,
            e: number(4)?,
            f: number(5)?,
        })
    }

    /// This first, then another.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            a: self.a * next.a + self.b * next.c,
            b: self.a * next.b + self.b * next.d,
            c: self.c * next.a + self.d * next.c,
            d: self.c * next.b + self.d * next.d,
            e: self.e * next.a + self.f * next.c + next.e,
            f: self.e * next.b + self.f * next.d + next.f,
        }
    }

    pub(super) fn apply(self, x: f64, y: f64) -> (f64, f64) {
        (
            self.a * x + self.c * y + self.e,
            self.b * x + self.d * y + self.f,
        )
    }
}
