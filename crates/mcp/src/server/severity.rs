//! The severity of log messages, and which of them a client wants.

/// The protocol's levels, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but unusual.
    Notice,
    /// Something that may lead to an error.
    Warning,
    /// An error.
    Error,
    /// A needed component failed.
    Critical,
    /// Somebody has to act.
    Alert,
    /// Nothing works.
    Emergency,
}

impl Severity {
    const ALL: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    /// The level with this name.
    pub fn parse(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, level)| *level)
    }

    /// The protocol's name for it.
    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, level)| *level == self);
        found.map_or("", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_as_the_protocol_orders_them() {
        assert!(Severity::parse("debug") < Severity::parse("info"));
        assert!(Severity::parse("alert") < Severity::parse("emergency"));
        assert_eq!(Severity::parse("loud"), None);
        for (word, level) in Severity::ALL {
            assert_eq!(level.as_str(), word);
        }
    }
}
