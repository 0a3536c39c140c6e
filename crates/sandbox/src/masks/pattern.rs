//! One pattern of a deny rule, as the search for what it covers needs it. Compares texts only.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};
use haft_contract::Masks;
use rustix::fs::FileType;

/// What a pattern keeps a command from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskKind {
    /// Reading what matches, and so changing it.
    Hidden,
    /// Changing what matches.
    ReadOnly,
}

/// One pattern.
#[derive(Debug)]
pub(super) struct MaskPattern<'g> {
    /// As the rule has it.
    pub(super) text: &'g str,
    pub(super) kind: MaskKind,
    /// The glob of what is mounted over: for `secrets/**` the directory `secrets`.
    pub(super) body: &'g str,
    /// Whether only what is beneath a match is meant, so that a file of that name is not.
    pub(super) beneath: bool,
    /// The leading directories without wildcards.
    stem: PathBuf,
    glob: Glob,
    matcher: GlobMatcher,
}

impl<'g> MaskPattern<'g> {
    /// Reads a pattern as policy reads the same text.
    pub(super) fn parse(text: &'g str, kind: MaskKind) -> Result<Self, String> {
        let (body, beneath) = match text.strip_suffix("/**") {
            Some(body) => (body, true),
            None => (text, false),
        };
        let glob = GlobBuilder::new(body)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| format!("a mask is not a glob: {}", error.kind()))?;
        let literal = body.split('/').take_while(|part| Masks::is_literal(part));
        Ok(Self {
            text,
            kind,
            body,
            beneath,
            stem: literal.collect(),
            matcher: glob.compile_matcher(),
            glob,
        })
    }

    /// The glob of what is mounted over.
    pub(super) fn glob(&self) -> &Glob {
        &self.glob
    }

    /// The directory beneath which everything lies that can match.
    pub(super) fn stem(&self) -> &Path {
        &self.stem
    }

    /// Whether the whole workspace is meant.
    pub(super) fn is_everything(&self) -> bool {
        Masks::is_everything(self.text)
    }

    /// Whether it is a path and not a glob.
    pub(super) fn is_literal(&self) -> bool {
        Masks::is_literal(self.body)
    }

    /// Whether everything that it can ever match lies in one place.
    pub(super) fn names_one_place(&self) -> bool {
        Masks::names_one_place(self.text)
    }

    /// Whether a match depends on more than the name of what is mounted over.
    pub(super) fn names_directories(&self) -> bool {
        let name = self.body.strip_prefix("**/");
        name.is_none_or(|name| name.contains('/'))
    }

    /// Whether something of this kind can be meant.
    pub(super) fn fits(&self, kind: FileType) -> bool {
        !self.beneath || matches!(kind, FileType::Directory | FileType::Symlink)
    }

    /// Whether a path is covered by its own name or by that of a directory above it.
    pub(super) fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.matcher.is_match(part))
    }

    /// Whether something beneath a directory might match. In doubt, it might.
    pub(super) fn may_match_beneath(&self, directory: &Path) -> bool {
        let depth = directory.components().count();
        let reaches = self.body.contains("**") || depth < self.body.split('/').count();
        reaches && (directory.starts_with(&self.stem) || self.stem.starts_with(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_in_which_something_might_match_count() {
        for (text, directory, expected) in [
            ("**/.env", "a/b", true),
            ("conf/*.pem", "conf", true),
            ("conf/*.pem", "", true),
            ("conf/*.pem", "other", false),
            ("conf/*.pem", "conf/deep", false),
            ("conf/**/*.pem", "conf/deep/er", true),
            ("*/key", "a", true),
            ("*/key", "a/b", false),
            ("{a/b/c,d}/e", "a/b", true),
        ] {
            let pattern = MaskPattern::parse(text, MaskKind::Hidden).unwrap();
            let found = pattern.may_match_beneath(Path::new(directory));
            assert_eq!(found, expected, "{text} in {directory}");
        }
    }

    #[test]
    fn a_path_is_covered_by_its_name_or_by_a_directory_above_it() {
        for (text, path, expected) in [
            ("**/.env", "a/.env", true),
            ("secrets/**", "secrets/a/b", true),
            ("**/.env", "config/secrets.txt", false),
        ] {
            let pattern = MaskPattern::parse(text, MaskKind::Hidden).unwrap();
            assert_eq!(pattern.covers(Path::new(path)), expected, "{text} {path}");
        }
    }
}
