//! Glob patterns over workspace paths, with one meaning everywhere: `**/*.rs` also matches at the
//! top, `*` stops at a slash, and a pattern without a slash matches a name at any depth.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use haft_contract::{ErrorKind, ops::OpsError};

use super::Ignores;

/// The longest glob accepted, in bytes.
const MAX_GLOB_BYTES: usize = 4096;

/// The most withheld globs accepted.
const MAX_WITHHELD: usize = 4096;

/// One pattern from a caller.
#[derive(Debug, Clone)]
pub(crate) struct PathGlob(GlobSet);

impl PathGlob {
    pub(crate) fn new(pattern: &str) -> Result<Self, OpsError> {
        let mut set = GlobSetBuilder::new();
        add(&mut set, pattern)?;
        build(&set, pattern).map(Self)
    }

    /// Whether a path relative to the start of the search matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.0.is_match_candidate(&Candidate::from_bytes(path))
    }
}

/// What a walk leaves out.
#[derive(Debug, Clone)]
pub(crate) struct Globs {
    withheld: GlobSet,
    /// Whether ignore files are respected.
    pub(crate) ignores: Ignores,
}

impl Globs {
    pub(crate) fn new(withheld: &[String], ignores: Ignores) -> Result<Self, OpsError> {
        if withheld.len() > MAX_WITHHELD {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("more than {MAX_WITHHELD} globs of withheld paths"),
            ));
        }
        let mut set = GlobSetBuilder::new();
        for pattern in withheld {
            add(&mut set, pattern)?;
        }
        Ok(Self {
            withheld: build(&set, "withheld paths")?,
            ignores,
        })
    }

    /// Whether reading this path, relative to the workspace, is denied.
    pub(crate) fn withholds(&self, path: &[u8]) -> bool {
        !self.withheld.is_empty()
            && self
                .withheld
                .is_match_candidate(&Candidate::from_bytes(path))
    }
}

fn add(set: &mut GlobSetBuilder, pattern: &str) -> Result<(), OpsError> {
    if pattern.len() > MAX_GLOB_BYTES {
        return Err(OpsError::new(
            ErrorKind::LimitExceeded,
            format!("the glob is longer than {MAX_GLOB_BYTES} bytes"),
        ));
    }
    // Patterns are anchored at the start of the search; a leading slash or `./` says only that.
    let anchored = pattern
        .strip_prefix("./")
        .or_else(|| pattern.strip_prefix('/'))
        .unwrap_or(pattern);
    let any_depth;
    let text = if pattern.contains('/') {
        anchored
    } else {
        any_depth = format!("**/{pattern}");
        &any_depth
    };
    let glob = GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| invalid(pattern, &error))?;
    set.add(glob);
    Ok(())
}

fn build(set: &GlobSetBuilder, pattern: &str) -> Result<GlobSet, OpsError> {
    set.build().map_err(|error| invalid(pattern, &error))
}

fn invalid(pattern: &str, error: &globset::Error) -> OpsError {
    OpsError::new(
        ErrorKind::InvalidInput,
        format!("the glob `{pattern}` is not valid: {}", error.kind()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, expect: bool) {
        let glob = PathGlob::new(pattern).expect(pattern);
        assert_eq!(glob.matches(path.as_bytes()), expect, "{pattern} {path}");
    }

    /// Mistake 22: a glob that misses root files, or matches only them.
    #[test]
    fn mistake_22_globs_match_at_the_top_and_below() {
        for pattern in ["**/*.rs", "*.rs"] {
            check(pattern, "main.rs", true);
            check(pattern, "src/a/b.rs", true);
            check(pattern, "src/a/b.rsx", false);
        }
        check("src/*.rs", "src/a.rs", true);
        check("src/*.rs", "src/a/b.rs", false);
        check("/src/**", "src/a/b.rs", true);
        check("{a,b}/*.{rs,toml}", "b/x.toml", true);
    }

    /// RX-16: a glob that would expand without bound.
    #[test]
    fn rx_16_braces_do_not_explode() {
        check(&"{a,b}".repeat(30), &"ab".repeat(15), true);
        check("**/**/**/*", "a/b/c/d/e", true);
    }
}
