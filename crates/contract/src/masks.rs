//! Paths that a sandbox keeps from a command, whatever the command's text says.
//!
//! Policy names the patterns its deny rules use, a back end answers which of them its sandbox can
//! hold, and the plan carries that answer: policy need not ask about what is held, and the sandbox
//! must hold it or refuse to start the command. What is not held it still masks as far as it can:
//! the question about it is then not the only thing in the way.

use std::collections::HashSet;

/// Patterns of workspace paths that are masked for a command. A pattern is a glob over
/// workspace-relative paths and covers everything beneath a directory it matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Masks {
    /// What the command cannot read, and so cannot change either.
    pub hidden: Vec<String>,
    /// What the command can read but not change.
    pub read_only: Vec<String>,
}

impl Masks {
    /// Nothing is masked.
    pub const NONE: Self = Self {
        hidden: Vec::new(),
        read_only: Vec::new(),
    };

    /// The most patterns that a back end masks for one command, unless its operator says otherwise.
    /// Those beyond are not held.
    pub const MAX_PATTERNS: usize = 256;

    /// Whether nothing is masked.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.read_only.is_empty()
    }

    /// Whether a pattern means the whole workspace.
    pub fn is_everything(pattern: &str) -> bool {
        matches!(pattern, "**" | "**/**")
    }

    /// Whether a pattern, or a part of one, is a path and not a glob.
    pub fn is_literal(pattern: &str) -> bool {
        !pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])
    }

    /// Whether everything that a pattern can ever match lies in one place. Only then can a sandbox keep
    /// all of it from changing: a mount cannot keep a name from appearing elsewhere.
    pub fn names_one_place(pattern: &str) -> bool {
        let place = pattern.strip_suffix("/**").unwrap_or(pattern);
        Self::is_everything(pattern) || Self::is_literal(place)
    }

    /// The patterns of these masks that others do not have, in the same order.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let rest = |patterns: &[String], known: &[String]| {
            let known: HashSet<&String> = known.iter().collect();
            let rest = patterns.iter().filter(|pattern| !known.contains(pattern));
            rest.cloned().collect()
        };
        Self {
            hidden: rest(&self.hidden, &others.hidden),
            read_only: rest(&self.read_only, &others.read_only),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_one_place_if_it_is_a_path_or_everything() {
        for (pattern, expected) in [
            ("vendor", true),
            ("vendor/**", true),
            ("a/b.txt", true),
            ("**", true),
            ("**/**", true),
            ("**/.env", false),
            ("*/**", false),
            ("a/*.txt", false),
            ("a?", false),
            ("[ab]", false),
            ("a]", false),
            ("{a,b}/**", false),
            ("a}", false),
            ("a\\*", false),
        ] {
            assert_eq!(Masks::names_one_place(pattern), expected, "{pattern}");
        }
    }
}
