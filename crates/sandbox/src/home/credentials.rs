//! Files in shown parts of toolchains that may hold credentials: settings of package managers, what
//! installers noted about where a package came from, and the addresses of cloned repositories.
//!
//! Looked for once, when the home is looked at, within bounds; `mounts.rs` covers each with an empty
//! file. A toolchain that is too large to be looked through is not shown at all.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

/// The most entries of directories that are looked at in one home.
const MAX_ENTRIES: usize = 20_000;

/// The most files that are covered.
const MAX_COVERED: usize = 256;

/// The largest file whose text is looked at; a larger one is covered.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Which files of a toolchain may hold credentials, below its place. A `*` stands for any text in
/// one component.
const CREDENTIALS: &[(&str, &[(&str, Cover)])] = &[
    (
        ".cargo",
        &[
            ("git/db/*/config", Cover::IfTelling),
            ("git/db/*/FETCH_HEAD", Cover::IfTelling),
            ("git/checkouts/*/*/.git/config", Cover::IfTelling),
            ("git/checkouts/*/*/.git/FETCH_HEAD", Cover::IfTelling),
            ("git/checkouts/*/*/.git/modules/*/config", Cover::IfTelling),
            ("registry/index/*/.git/config", Cover::IfTelling),
            ("registry/index/*/.git/FETCH_HEAD", Cover::IfTelling),
        ],
    ),
    (
        ".nvm",
        &[
            ("versions/*/*/etc/npmrc", Cover::Always),
            ("versions/*/*/lib/node_modules/npm/npmrc", Cover::Always),
        ],
    ),
    (
        ".local/share/fnm",
        &[
            ("node-versions/*/installation/etc/npmrc", Cover::Always),
            (
                "node-versions/*/installation/lib/node_modules/npm/npmrc",
                Cover::Always,
            ),
        ],
    ),
    (
        ".volta",
        &[
            ("tools/image/*/*/etc/npmrc", Cover::Always),
            ("tools/image/*/*/npmrc", Cover::Always),
            ("tools/image/*/*/lib/node_modules/npm/npmrc", Cover::Always),
        ],
    ),
    (
        ".npm-global",
        &[("lib/node_modules/npm/npmrc", Cover::Always)],
    ),
    (
        ".local/share/pnpm",
        &[
            ("global/.npmrc", Cover::Always),
            ("global/*/.npmrc", Cover::Always),
            ("nodejs/*/etc/npmrc", Cover::Always),
            ("nodejs/*/lib/node_modules/npm/npmrc", Cover::Always),
        ],
    ),
    (
        ".pyenv",
        &[
            ("versions/*/pip.conf", Cover::Always),
            ("versions/*/envs/*/pip.conf", Cover::Always),
        ],
    ),
    (
        ".local/share/uv",
        &[
            ("python/*/pip.conf", Cover::Always),
            ("tools/*/pip.conf", Cover::Always),
            ("tools/*/uv-receipt.toml", Cover::IfTelling),
        ],
    ),
    (
        ".local/share/pipx",
        &[
            ("venvs/*/pip.conf", Cover::Always),
            ("venvs/*/pipx_metadata.json", Cover::IfTelling),
            ("shared/pip.conf", Cover::Always),
            ("py/*/pip.conf", Cover::Always),
        ],
    ),
    (".local/share/pypoetry", &[("venv/pip.conf", Cover::Always)]),
    (
        ".cache/pypoetry",
        &[("virtualenvs/*/pip.conf", Cover::Always)],
    ),
    (".local/share/virtualenvs", &[("*/pip.conf", Cover::Always)]),
    (
        ".local/share/mise",
        &[
            ("installs/node/*/etc/npmrc", Cover::Always),
            ("installs/node/*/lib/node_modules/npm/npmrc", Cover::Always),
            ("installs/*/*/pip.conf", Cover::Always),
            ("installs/*/*/*/pip.conf", Cover::Always),
            ("installs/*/*/*/uv-receipt.toml", Cover::IfTelling),
            ("installs/*/*/*/pipx_metadata.json", Cover::IfTelling),
            ("installs/*/*/venvs/*/pipx_metadata.json", Cover::IfTelling),
        ],
    ),
    (
        "go",
        &[
            ("pkg/mod/cache/vcs/*/config", Cover::IfTelling),
            ("pkg/mod/cache/vcs/*/FETCH_HEAD", Cover::IfTelling),
            ("pkg/mod/cache/vcs/*.info", Cover::IfTelling),
        ],
    ),
];

/// When a file is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// Whenever it exists.
    Always,
    /// If its text has an address with a name and a password, or the like: covered, it is of no use
    /// to the program it belongs to.
    IfTelling,
}

/// A home is too large to find every file with credentials.
#[derive(Debug)]
pub(super) struct TooLarge;

/// Looks for files with credentials, and counts what it looked at.
#[derive(Debug, Default)]
pub(super) struct CredentialSearch {
    entries: usize,
    /// What was found, where the sandbox shows it.
    pub(super) found: Vec<PathBuf>,
}

impl CredentialSearch {
    /// Looks through a toolchain that is by default at `usual` below the home, and of which these
    /// parts are shown.
    pub(super) fn look(
        &mut self,
        place: &Path,
        usual: &str,
        parts: &[PathBuf],
    ) -> Result<(), TooLarge> {
        let known = CREDENTIALS.iter().filter(|(of, _)| *of == usual);
        let patterns = known.flat_map(|(_, patterns)| patterns.iter());
        let mut found = Vec::new();
        for (pattern, cover) in patterns {
            let mut paths = vec![place.to_owned()];
            for part in pattern.split('/') {
                paths = self.below(&paths, part)?;
            }
            let shown = paths.iter().filter_map(|path| where_shown(path, parts));
            found.extend(shown.filter(|path| match cover {
                Cover::Always => true,
                Cover::IfTelling => may_tell(path),
            }));
        }
        found.retain(|path| !self.found.contains(path));
        found.sort_unstable();
        found.dedup();
        if self.found.len() + found.len() > MAX_COVERED {
            return Err(TooLarge);
        }
        self.found.extend(found);
        Ok(())
    }

    /// The entries of directories that match one component of a pattern.
    fn below(&mut self, directories: &[PathBuf], part: &str) -> Result<Vec<PathBuf>, TooLarge> {
        let Some((before, after)) = part.split_once('*') else {
            let paths = directories.iter().map(|directory| directory.join(part));
            let exists = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok();
            return Ok(paths.filter(exists).collect());
        };
        let mut paths = Vec::new();
        for directory in directories {
            let Ok(entries) = std::fs::read_dir(directory) else {
                continue;
            };
            for entry in entries {
                self.entries += 1;
                if self.entries > MAX_ENTRIES {
                    return Err(TooLarge);
                }
                let Ok(entry) = entry else { continue };
                let name = entry.file_name();
                let bytes = name.as_encoded_bytes();
                if bytes.starts_with(before.as_bytes()) && bytes.ends_with(after.as_bytes()) {
                    paths.push(directory.join(&name));
                }
            }
        }
        Ok(paths)
    }
}

/// Where the sandbox shows a file that may be reached through links, if it does and it is one.
fn where_shown(path: &Path, parts: &[PathBuf]) -> Option<PathBuf> {
    let real = path.canonicalize().ok().filter(|real| real.is_file())?;
    parts.iter().find_map(|part| {
        let below = real.strip_prefix(part.canonicalize().ok()?).ok()?;
        // A part that is a file itself has nothing below it.
        (below != Path::new("")).then(|| part.join(below))
    })
}

/// Whether a file may hold credentials. One that cannot be read as a whole may.
fn may_tell(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(read) if read as u64 <= MAX_FILE_BYTES => tells(&String::from_utf8_lossy(&bytes)),
        Ok(_) | Err(_) => true,
    }
}

/// Whether a text has an address with a name or password in it, or a header or key with a secret.
fn tells(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    if ["authorization", "extraheader", "password", "_auth"]
        .iter()
        .any(|word| text.contains(word))
    {
        return true;
    }
    text.match_indices("://").any(|(at, mark)| {
        let (before, rest) = text.split_at(at);
        let rest = rest.strip_prefix(mark).unwrap_or(rest);
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '<' | '>');
        let host = rest.split(ends).next().unwrap_or_default();
        match host.rsplit_once('@') {
            None => false,
            // A name alone is no secret where a key proves who one is.
            Some((user, _)) => !before.ends_with("ssh") || user.contains(':'),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::toolchains;

    #[test]
    fn an_address_tells_if_it_has_a_password_or_a_token() {
        for text in [
            "url = https://ada:s3cret@example.org/x.git",
            "url = https://ghp_token@example.org/x.git",
            "\"--index-url=http://u:p@host/simple\"",
            "ssh://git:password1@example.org/x",
            "[http]\nextraHeader = AUTHORIZATION: basic eA==",
        ] {
            assert!(tells(text), "{text}");
        }
        for text in [
            "url = https://example.org/x.git",
            "url = ssh://git@example.org/x.git",
            "git+ssh://git@example.org/x.git",
            "url = git@example.org:x.git",
            "author <https://example.org> ada@example.org",
        ] {
            assert!(!tells(text), "{text}");
        }
    }

    /// A file that no shown part contains needs no cover, and a misspelt place would never be
    /// looked at.
    #[test]
    fn every_file_is_in_a_shown_part_of_a_known_toolchain() {
        for (place, patterns) in CREDENTIALS {
            for (pattern, _) in *patterns {
                let first = pattern.split('/').next().unwrap();
                let shown = toolchains::parts_at(place).any(|part| part == "." || part == first);
                assert!(shown, "{place}/{pattern}");
            }
        }
    }

    #[test]
    fn a_file_behind_links_is_covered_where_it_is_shown() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let real = home.join("elsewhere/versions/node/v1/etc");
        std::fs::create_dir_all(&real).unwrap();
        std::fs::write(real.join("real"), "//r/:_authToken=x").unwrap();
        std::os::unix::fs::symlink("real", real.join("npmrc")).unwrap();
        std::os::unix::fs::symlink("elsewhere", home.join(".nvm")).unwrap();
        let mut search = CredentialSearch::default();
        let parts = [home.join(".nvm/versions")];
        search.look(&home.join(".nvm"), ".nvm", &parts).unwrap();
        let shown = home.join(".nvm/versions/node/v1/etc/real");
        assert_eq!(search.found, [shown]);
    }
}
