//! Toolchains and caches that live in a home directory, as a table, and which of them exist.
//!
//! Of each only the parts that a build reads are shown; beside them are often credentials
//! (`~/.cargo/credentials.toml`, `~/.m2/settings.xml`, `~/.npmrc`). A new entry must list parts,
//! never the whole directory.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{credentials::CredentialSearch, is_own};

/// The most versions of a toolchain that are compared.
const MAX_VERSIONS: usize = 256;

/// A toolchain or cache that lives in a home directory.
struct Toolchain {
    /// The variable that relocates it.
    variable: Option<&'static str>,
    /// Where it is below the home by default.
    place: &'static str,
    /// The parts that are shown; the others hold credentials, or nothing a build reads.
    parts: &'static [&'static str],
    /// Where its programs are, below its place. At most one `*` stands for the newest version.
    programs: &'static [&'static str],
}

const TOOLCHAINS: [Toolchain; 21] = [
    Toolchain {
        variable: Some("RUSTUP_HOME"),
        place: ".rustup",
        parts: &["settings.toml", "toolchains", "update-hashes"],
        programs: &[],
    },
    Toolchain {
        variable: Some("CARGO_HOME"),
        place: ".cargo",
        parts: &["bin", "registry", "git"],
        programs: &["bin"],
    },
    Toolchain {
        variable: Some("NVM_DIR"),
        place: ".nvm",
        parts: &["versions", "alias"],
        programs: &["versions/node/*/bin"],
    },
    Toolchain {
        variable: Some("FNM_DIR"),
        place: ".local/share/fnm",
        parts: &["node-versions", "aliases"],
        programs: &["aliases/default/bin"],
    },
    Toolchain {
        variable: Some("VOLTA_HOME"),
        place: ".volta",
        parts: &["bin", "tools"],
        programs: &["bin"],
    },
    Toolchain {
        variable: None,
        place: ".npm-global",
        parts: &["bin", "lib"],
        programs: &["bin"],
    },
    Toolchain {
        variable: Some("PNPM_HOME"),
        place: ".local/share/pnpm",
        parts: &["global", "nodejs"],
        programs: &[],
    },
    Toolchain {
        variable: Some("PYENV_ROOT"),
        place: ".pyenv",
        parts: &["bin", "libexec", "shims", "versions", "version"],
        programs: &["shims", "bin"],
    },
    Toolchain {
        variable: None,
        place: ".local/share/uv",
        parts: &["python", "tools"],
        programs: &[],
    },
    Toolchain {
        variable: Some("PIPX_HOME"),
        place: ".local/share/pipx",
        parts: &["venvs", "shared", "py"],
        programs: &[],
    },
    Toolchain {
        variable: None,
        place: ".local/share/pypoetry",
        parts: &["venv"],
        programs: &[],
    },
    Toolchain {
        variable: None,
        place: ".cache/pypoetry",
        parts: &["virtualenvs"],
        programs: &[],
    },
    Toolchain {
        variable: None,
        place: ".local/share/virtualenvs",
        parts: &["."],
        programs: &[],
    },
    Toolchain {
        variable: None,
        place: ".local/share/mise",
        parts: &["installs", "shims"],
        programs: &["shims"],
    },
    Toolchain {
        variable: Some("GOPATH"),
        place: "go",
        parts: &["bin", "pkg"],
        programs: &["bin"],
    },
    Toolchain {
        variable: Some("SDKMAN_DIR"),
        place: ".sdkman",
        parts: &["candidates"],
        programs: &["candidates/java/current/bin"],
    },
    Toolchain {
        variable: Some("BUN_INSTALL"),
        place: ".bun",
        parts: &["bin"],
        programs: &["bin"],
    },
    Toolchain {
        variable: Some("DENO_INSTALL"),
        place: ".deno",
        parts: &["bin"],
        programs: &["bin"],
    },
    Toolchain {
        variable: None,
        place: ".m2",
        parts: &["repository"],
        programs: &[],
    },
    Toolchain {
        variable: None,
        place: ".local/bin",
        parts: &["."],
        programs: &["."],
    },
    // Which files git ignores. Its settings are not shown; they are made anew.
    Toolchain {
        variable: None,
        place: ".config/git",
        parts: &["ignore", "attributes"],
        programs: &[],
    },
];

/// Caches that package managers insist on writing when they can reach a registry, below the home.
const CACHES: [&str; 2] = [".npm/_cacache", ".local/share/pnpm/store"];

/// What was found of the tables.
#[derive(Debug, Default)]
pub(crate) struct Toolchains {
    /// What is shown, at its own path.
    pub(crate) places: Vec<PathBuf>,
    /// Caches that are shown only to a command without network.
    pub(crate) caches: Vec<PathBuf>,
    /// Files in them that may hold credentials.
    pub(crate) credentials: Vec<PathBuf>,
    /// Directories of programs.
    pub(crate) programs: Vec<PathBuf>,
    /// The variables that say where a relocated one is.
    pub(crate) variables: BTreeMap<String, String>,
}

impl Toolchains {
    /// The variables that relocate toolchains.
    pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
        TOOLCHAINS.iter().filter_map(|toolchain| toolchain.variable)
    }

    /// Looks for every toolchain in a home, or where its variable says that it is.
    pub(crate) fn look(home: Option<&Path>, relocated: &BTreeMap<String, PathBuf>) -> Self {
        let caches = home
            .into_iter()
            .flat_map(|home| CACHES.map(|cache| home.join(cache)));
        let mut found = Self {
            caches: caches.filter(|cache| is_shown(cache)).collect(),
            ..Self::default()
        };
        let mut search = CredentialSearch::default();
        for toolchain in &TOOLCHAINS {
            let moved = toolchain
                .variable
                .and_then(|variable| Some((variable, relocated.get(variable)?)));
            if let Some((variable, place)) = moved {
                let before = found.places.len();
                found.add(place, toolchain, &mut search);
                if let Some(text) = place.to_str().filter(|_| found.places.len() > before) {
                    found.variables.insert(variable.to_owned(), text.to_owned());
                }
            } else if let Some(home) = home {
                found.add(&home.join(toolchain.place), toolchain, &mut search);
            }
        }
        found.credentials = search.found;
        found
    }

    fn add(&mut self, place: &Path, toolchain: &Toolchain, search: &mut CredentialSearch) {
        let parts = toolchain.parts.iter().map(|part| below(place, part));
        let parts: Vec<PathBuf> = parts.filter(|part| is_shown(part)).collect();
        if search.look(place, toolchain.place, &parts).is_err() {
            let place = place.display();
            tracing::warn!(%place, "too large to find every file with credentials; not shown");
            return;
        }
        self.places.extend(parts);
        for pattern in toolchain.programs {
            let programs = newest(place, pattern);
            self.programs
                .extend(programs.filter(|programs| self.shows(programs)));
        }
    }

    fn shows(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }
}

/// The parts that are shown of what is at a place below the home by default.
#[cfg(test)]
pub(super) fn parts_at(place: &str) -> impl Iterator<Item = &'static str> {
    let known = TOOLCHAINS.iter().filter(move |known| known.place == place);
    known.flat_map(|known| known.parts.iter().copied())
}

/// Whether something exists that can be shown and that nobody else put there.
fn is_shown(path: &Path) -> bool {
    can_read(path) && is_own(path)
}

/// A part of a toolchain; `.` is all of it.
fn below(place: &Path, part: &str) -> PathBuf {
    match part {
        "." => place.to_owned(),
        part => place.join(part),
    }
}

/// The directory that a pattern with at most one `*` matches below a place: the newest version.
fn newest(place: &Path, pattern: &str) -> Option<PathBuf> {
    let found = match pattern.split_once("/*/") {
        None => below(place, pattern),
        Some((above, below)) => {
            let versions = std::fs::read_dir(place.join(above)).ok()?;
            let newest = versions
                .take(MAX_VERSIONS)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .max_by_key(|name| version(name))?;
            place.join(above).join(newest).join(below)
        }
    };
    found.is_dir().then_some(found)
}

/// The numbers in a version, for comparing.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// Whether it exists and can be read: something that cannot be bound would stop every command.
pub(crate) fn can_read(place: &Path) -> bool {
    rustix::fs::access(place, rustix::fs::Access::READ_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_newest_by_number() {
        assert!(version("v20.9.0") < version("v20.10.1"));
        assert!(version("v8.0.0") < version("v18.0.0"));
    }

    #[test]
    fn a_relocated_toolchain_is_shown_where_it_is_and_its_variable_says_so() {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::create_dir(elsewhere.path().join("bin")).unwrap();
        let relocated = [("CARGO_HOME".to_owned(), elsewhere.path().to_owned())].into();
        let found = Toolchains::look(None, &relocated);
        assert_eq!(found.places, [elsewhere.path().join("bin")]);
        assert_eq!(found.programs, [elsewhere.path().join("bin")]);
        let told = found.variables["CARGO_HOME"].as_str();
        assert_eq!(Path::new(told), elsewhere.path());
    }

    #[test]
    fn no_entry_shows_a_directory_that_holds_credentials() {
        let secret = [
            ".cargo/credentials.toml",
            ".npmrc",
            ".npm/_logs",
            ".m2/settings.xml",
            ".config/git/credentials",
            ".config/git/config",
            ".config/pypoetry/auth.toml",
            ".local/share/mise/trusted-configs",
            ".local/share/keyrings/login.keyring",
            ".local/share/haft/key",
            ".bun/install/cache",
            ".volta/hooks.json",
        ];
        for toolchain in &TOOLCHAINS {
            for part in toolchain.parts {
                let shown = below(Path::new(toolchain.place), part);
                for secret in secret {
                    assert!(!Path::new(secret).starts_with(&shown), "{secret}");
                }
            }
        }
        let is_cache = |secret: &&str| CACHES.iter().any(|cache| secret.starts_with(cache));
        assert_eq!(secret.iter().copied().find(is_cache), None);
    }
}
