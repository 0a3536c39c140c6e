//! What a call may do to the world. Declared by the tool per input; assumed to be the worst when
//! unknown.

use std::fmt;

/// The four effect flags of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent flags, as MCP names them"
)]
pub struct Effects {
    /// Changes nothing that anybody else can see.
    pub read_only: bool,
    /// Running it twice has the same effect as running it once.
    pub idempotent: bool,
    /// May remove or overwrite something.
    pub destructive: bool,
    /// Reaches things outside the workspace that Haft knows nothing about.
    pub open_world: bool,
}

impl Effects {
    /// Only reads. May be retried.
    pub const READ_ONLY: Self = Self {
        read_only: true,
        idempotent: true,
        destructive: false,
        open_world: false,
    };

    /// Anything is possible: the value for whatever is unknown.
    pub const UNKNOWN: Self = Self {
        read_only: false,
        idempotent: false,
        destructive: true,
        open_world: true,
    };

    /// Changes something, but keeps what was there (or its pre-image).
    pub const CHANGES: Self = Self {
        read_only: false,
        idempotent: false,
        destructive: false,
        open_world: false,
    };

    /// Replaces or removes something in the workspace.
    pub const REPLACES: Self = Self {
        read_only: false,
        idempotent: true,
        destructive: true,
        open_world: false,
    };

    /// Whether the intent must be durable before the effect begins.
    pub fn is_mutating(self) -> bool {
        !self.read_only
    }

    /// Whether a call whose outcome was lost may be run again.
    pub fn may_retry(self) -> bool {
        self.read_only || self.idempotent
    }

    /// The more pessimistic of two declarations, flag by flag.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        Self {
            read_only: self.read_only && other.read_only,
            idempotent: self.idempotent && other.idempotent,
            destructive: self.destructive || other.destructive,
            open_world: self.open_world || other.open_world,
        }
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.read_only, "read_only"),
            (self.idempotent, "idempotent"),
            (self.destructive, "destructive"),
            (self.open_world, "open_world"),
        ];
        let mut first = true;
        for (_, word) in words.into_iter().filter(|(on, _)| *on) {
            if !first {
                f.write_str(", ")?;
            }
            f.write_str(word)?;
            first = false;
        }
        if first {
            f.write_str("changes")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_effects_are_the_most_pessimistic() {
        assert_eq!(Effects::default(), Effects::UNKNOWN);
        assert_eq!(
            Effects::READ_ONLY.strictest(Effects::UNKNOWN),
            Effects::UNKNOWN
        );
        assert!(Effects::UNKNOWN.is_mutating());
        assert!(!Effects::UNKNOWN.may_retry());
    }
}
