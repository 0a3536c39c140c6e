//! The name of a process that a session keeps. A plan says which process it will act on, and
//! [`crate::background`] finds it.

use std::fmt;

/// Names a kept process within its session: `p1`, `p2`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u32);

impl ProcessId {
    /// The process with this number in its session, counted from 1.
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    /// Parses an id as displayed; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('p')?;
        let number = digits.parse().ok()?;
        let written = Self(number);
        (written.to_string() == text).then_some(written)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_only_as_it_is_shown() {
        assert_eq!(ProcessId::parse("p7"), Some(ProcessId::new(7)));
        for text in [
            "",
            "p",
            "7",
            "p07",
            "p+7",
            "P7",
            "p7 ",
            "p-1",
            "p99999999999",
        ] {
            assert_eq!(ProcessId::parse(text), None, "{text:?}");
        }
    }
}
