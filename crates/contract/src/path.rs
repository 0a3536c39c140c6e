//! A path inside a workspace, parsed once from what a model wrote.
//!
//! Parsing is lexical and is *not* what confines a call: back ends resolve every path beneath a
//! directory they hold open. It gives plans and rules one spelling per path, and refuses early,
//! with a reason, what can never be valid.

use std::fmt;

/// The longest path accepted, in bytes (Linux `PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;

/// The longest single component accepted, in bytes (Linux `NAME_MAX`).
pub const MAX_COMPONENT_BYTES: usize = 255;

/// A normalised path relative to a workspace root. The root itself is `.`; no component is empty,
/// `.` or `..`, and there is no leading or trailing slash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkPath(String);

/// Why a path was refused before any file was touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path has no characters.
    #[error("the path is empty")]
    Empty,
    /// The path contains a NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// The path, or one of its components, is too long.
    #[error("the path is too long ({bytes} bytes, at most {limit})")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A URL such as `file:///etc/passwd` instead of a path.
    #[error("`{}` is a URL, not a path", shown(.0))]
    Url(String),
    /// The path leaves the workspace.
    #[error("`{}` is outside the workspace", shown(.0))]
    Outside(String),
}

impl WorkPath {
    /// The workspace root.
    pub fn root() -> Self {
        Self(".".to_owned())
    }

    /// Parses what a model wrote: relative to the workspace, or absolute beneath `root`.
    ///
    /// `~`, variables, percent-encoding and look-alike characters are literal. `..` is resolved by
    /// name; a path that climbs above the root at any point is refused even if it comes back.
    pub fn parse(text: &str, root: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong {
                bytes: text.len(),
                limit: MAX_PATH_BYTES,
            });
        }
        if looks_like_url(text) {
            return Err(PathError::Url(text.to_owned()));
        }
        let relative = match text.strip_prefix('/') {
            None => text,
            Some(_) => beneath(text, root).ok_or_else(|| PathError::Outside(text.to_owned()))?,
        };
        let mut components: Vec<&str> = Vec::new();
        for component in relative.split('/') {
            match component {
                "" | "." => {}
                ".." => {
                    if components.pop().is_none() {
                        return Err(PathError::Outside(text.to_owned()));
                    }
                }
                name if name.len() > MAX_COMPONENT_BYTES => {
                    return Err(PathError::TooLong {
                        bytes: name.len(),
                        limit: MAX_COMPONENT_BYTES,
                    });
                }
                name => components.push(name),
            }
        }
        if components.is_empty() {
            return Ok(Self::root());
        }
        Ok(Self(components.join("/")))
    }

    /// Parses a path that is already relative, such as one a back end reports.
    pub fn relative(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return Err(PathError::Outside(text.to_owned()));
        }
        Self::parse(text, "/")
    }

    /// The path as text; `.` for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the workspace root.
    pub fn is_root(&self) -> bool {
        self.0 == "."
    }

    /// The components; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        let text = if self.is_root() { "" } else { self.0.as_str() };
        text.split('/').filter(|component| !component.is_empty())
    }

    /// The last component, unless this is the root.
    pub fn file_name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The directory this path is in; the root has none.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.rsplit_once('/') {
            Some((parent, _)) => Self(parent.to_owned()),
            None => Self::root(),
        })
    }

    /// This path with one or more components appended.
    pub fn join(&self, relative: &str) -> Result<Self, PathError> {
        let below = Self::relative(relative)?;
        if self.is_root() {
            return Ok(below);
        }
        if below.is_root() {
            return Ok(self.clone());
        }
        Ok(Self(format!("{}/{}", self.0, below.0)))
    }

    /// This path and every directory above it, starting with itself; without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let mut rest = (!self.is_root()).then_some(self.0.as_str());
        std::iter::from_fn(move || {
            let path = rest?;
            rest = path.rsplit_once('/').map(|(above, _)| above);
            Some(path)
        })
    }

    /// Whether `other` is this path or lies beneath it, component by component.
    pub fn contains(&self, other: &Self) -> bool {
        let mut theirs = other.components();
        self.components().all(|mine| theirs.next() == Some(mine))
    }
}

impl fmt::Display for WorkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path for messages: control characters are escaped, so that a name can neither forge a line nor
/// control a terminal.
pub(crate) fn shown(path: &str) -> String {
    let mut shown = String::with_capacity(path.len());
    for character in path.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// `scheme://` with a plausible scheme. A Windows drive (`C:\x`) is a literal name on Linux.
fn looks_like_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// The part of absolute `text` below `root`, compared component by component so that `/w/app-evil`
/// is not beneath `/w/app`. No `..` in `text` can hide an escape: the rest is parsed as relative.
fn beneath<'t>(text: &'t str, root: &str) -> Option<&'t str> {
    let mut rest = text;
    for expected in root.split('/').filter(|component| !component.is_empty()) {
        rest = rest.trim_start_matches('/');
        let (head, tail) = rest.split_once('/').unwrap_or((rest, ""));
        if head != expected {
            return None;
        }
        rest = tail;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        match WorkPath::parse(text, "/w/app") {
            Ok(path) => assert_eq!(path.as_str(), expect, "{text}"),
            Err(error) => assert_eq!(error.to_string(), expect, "{text}"),
        }
    }

    #[test]
    fn one_spelling_per_path() {
        check("src/lib.rs", "src/lib.rs");
        check("./src//lib.rs/", "src/lib.rs");
        check("src/../Cargo.toml", "Cargo.toml");
        check("/w/app", ".");
        check("/w/app/src", "src");
        check("//w//app/src", "src");
    }

    /// Mistake 9 of requirements.md: workspace check by string prefix.
    #[test]
    fn a_sibling_with_the_same_prefix_is_outside() {
        check("/w/app-evil/x", "`/w/app-evil/x` is outside the workspace");
        check(
            "/w/app/../app-evil/x",
            "`/w/app/../app-evil/x` is outside the workspace",
        );
    }

    #[test]
    fn what_can_never_be_right_is_refused_with_its_reason() {
        check("", "the path is empty");
        check("x\0/../../etc/passwd", "the path contains a NUL byte");
        check(
            "file:///etc/passwd",
            "`file:///etc/passwd` is a URL, not a path",
        );
        check(
            "../../etc/passwd",
            "`../../etc/passwd` is outside the workspace",
        );
        check("a/../../app/x", "`a/../../app/x` is outside the workspace");
        check(
            "../a\n\u{1b}[31m",
            "`../a\\n\\u{1b}[31m` is outside the workspace",
        );
    }

    #[test]
    fn everything_else_is_a_literal_name() {
        check("%2e%2e%2fetc/passwd", "%2e%2e%2fetc/passwd");
        check("..\\..\\x", "..\\..\\x");
        check("C:\\x", "C:\\x");
        check("~/.ssh/id_rsa", "~/.ssh/id_rsa");
        check("$HOME/x", "$HOME/x");
        check("\u{ff0e}\u{ff0e}/x", "\u{ff0e}\u{ff0e}/x");
    }

    #[test]
    fn ancestors_go_up_to_below_the_root() {
        let path = WorkPath::relative("a/b/c").unwrap();
        assert_eq!(path.ancestors().collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
        assert_eq!(WorkPath::root().ancestors().count(), 0);
    }

    #[test]
    fn containment_is_by_component() {
        let source = WorkPath::relative("src").unwrap();
        assert!(source.contains(&WorkPath::relative("src/a/b").unwrap()));
        assert!(!source.contains(&WorkPath::relative("src2").unwrap()));
        assert!(WorkPath::root().contains(&source));
    }
}
