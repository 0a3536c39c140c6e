//! What a sandboxed command sees in addition to its workspace: the operator's choice, and which
//! parts of it this machine has.
//!
//! [`Profile`] is the choice. [`HostView`] is what was found on the machine, looked up once per
//! workspace and plain data from then on, so that the plan stays pure. Neither ever includes a
//! place that holds credentials: of a toolchain only parts are shown, never a whole dot directory
//! that has some.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What a sandboxed command sees in addition to its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// The home directory to search for toolchains; they are shown read-only in the sandbox's own
    /// home. `None` shows none.
    pub home: Option<PathBuf>,
    /// Toolchain locations set by a variable (`CARGO_HOME`, `RUSTUP_HOME`), by its name.
    pub toolchain_homes: BTreeMap<String, PathBuf>,
    /// More places to show read-only, at their own path.
    pub read_only: Vec<PathBuf>,
    /// More places to show writable, at their own path.
    pub writable: Vec<PathBuf>,
}

/// The home of every sandboxed command: empty, in memory, removed with the command.
pub const SANDBOX_HOME: &str = "/home/haft";

/// The parts of a profile that this machine has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostView {
    /// System directories.
    pub directories: Vec<PathBuf>,
    /// System directories that are links, and where they lead (`/bin` to `usr/bin`).
    pub links: Vec<(PathBuf, PathBuf)>,
    /// The entries of `/etc` that are shown.
    pub settings: Vec<PathBuf>,
    /// Parts of toolchains: their location, and where below the sandbox's home they are shown.
    pub toolchains: Vec<(PathBuf, PathBuf)>,
    /// Directories of toolchain programs below the sandbox's home.
    pub programs: Vec<PathBuf>,
    /// The profile's read-only places that exist.
    pub read_only: Vec<PathBuf>,
    /// The profile's writable places that exist.
    pub writable: Vec<PathBuf>,
    /// The user the command runs as.
    pub user: u32,
    /// The group the command runs as.
    pub group: u32,
}

/// Directories that belong to the system. Where `/bin` is a link into `/usr`, it stays one.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
];

/// What programs need from `/etc`: names, certificates, loader and locale settings. Deliberately
/// missing: `machine-id` and keys of the machine, `shadow`, and anything that belongs to a service.
const SETTINGS: [&str; 31] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "dpkg/origins",
    "fonts",
    "gai.conf",
    "gitconfig",
    "host.conf",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "maven",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki",
    "protocols",
    "python3",
    "services",
    "ssl",
    "terminfo",
];

/// A toolchain that lives in a home directory.
struct Toolchain {
    /// The variable that relocates it.
    variable: Option<&'static str>,
    /// Where it is below the home by default, and where the sandbox shows it.
    place: &'static str,
    /// The parts that are shown; the others hold credentials, or nothing a build reads.
    parts: &'static [&'static str],
    /// Where its programs are, below its place.
    programs: &'static [&'static str],
}

const TOOLCHAINS: [Toolchain; 10] = [
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
];

impl Profile {
    /// The variables that set toolchain locations, for [`Profile::toolchain_homes`].
    pub fn variables() -> impl Iterator<Item = &'static str> {
        TOOLCHAINS.iter().filter_map(|toolchain| toolchain.variable)
    }
}

impl HostView {
    /// Whether a path of this machine is shown to commands.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        let sources = self.toolchains.iter().map(|(source, _)| source);
        let places = [
            &self.directories,
            &self.settings,
            &self.read_only,
            &self.writable,
        ];
        let mut places = places.into_iter().flatten().chain(sources);
        places.any(|place| path.starts_with(place) || place.starts_with(path))
    }

    /// Finds which parts of a profile this machine has.
    pub fn look(profile: &Profile) -> Self {
        let mut view = Self {
            read_only: existing(&profile.read_only),
            writable: existing(&profile.writable),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            ..Self::default()
        };
        for place in SYSTEM {
            let place = PathBuf::from(place);
            match std::fs::symlink_metadata(&place) {
                Ok(found) if found.is_dir() => view.directories.push(place),
                Ok(found) if found.is_symlink() => {
                    if let Ok(target) = std::fs::read_link(&place) {
                        view.links.push((place, target));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        let settings = SETTINGS.map(|name| Path::new("/etc").join(name));
        view.settings = existing(&settings);
        for toolchain in &TOOLCHAINS {
            view.add(profile, toolchain);
        }
        view
    }

    fn add(&mut self, profile: &Profile, toolchain: &Toolchain) {
        let moved = toolchain
            .variable
            .and_then(|variable| profile.toolchain_homes.get(variable))
            .cloned();
        let usual = profile.home.as_ref().map(|home| home.join(toolchain.place));
        let Some(place) = moved.or(usual) else {
            return;
        };
        let shown = Path::new(SANDBOX_HOME).join(toolchain.place);
        for part in toolchain.parts {
            let source = place.join(part);
            if can_read(&source) {
                self.toolchains.push((source, shown.join(part)));
            }
        }
        for programs in toolchain.programs {
            if let Some(found) = newest(&place, programs) {
                self.programs.push(shown.join(found));
            }
        }
    }
}

/// The directory that a pattern with at most one `*` matches below a place: the newest version.
fn newest(place: &Path, pattern: &str) -> Option<PathBuf> {
    let found = match pattern.split_once("/*/") {
        None => PathBuf::from(pattern),
        Some((above, below)) => {
            let versions = std::fs::read_dir(place.join(above)).ok()?;
            let newest = versions
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .max_by_key(|name| version(name))?;
            Path::new(above).join(newest).join(below)
        }
    };
    place.join(&found).is_dir().then_some(found)
}

/// The numbers in a version, for comparing.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn existing(places: &[PathBuf]) -> Vec<PathBuf> {
    places
        .iter()
        .filter(|place| place.is_absolute() && can_read(place))
        .cloned()
        .collect()
}

/// Whether it exists and can be read: something that cannot be bound would stop every command.
fn can_read(place: &Path) -> bool {
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
    fn no_place_with_credentials_is_ever_shown() {
        let home = tempfile::tempdir().unwrap();
        for place in [
            ".cargo/registry/src",
            ".cargo/bin",
            ".ssh",
            ".aws",
            ".m2/repository",
            ".rustup/toolchains",
        ] {
            std::fs::create_dir_all(home.path().join(place)).unwrap();
        }
        for secret in [
            ".cargo/credentials.toml",
            ".cargo/config.toml",
            ".ssh/id_ed25519",
            ".m2/settings.xml",
            ".netrc",
        ] {
            std::fs::write(home.path().join(secret), "secret").unwrap();
        }
        let view = HostView::look(&Profile {
            home: Some(home.path().to_owned()),
            ..Profile::default()
        });
        let shown: Vec<_> = view
            .toolchains
            .iter()
            .map(|(source, _)| source.strip_prefix(home.path()).unwrap())
            .collect();
        assert_eq!(
            shown,
            [
                ".rustup/toolchains",
                ".cargo/bin",
                ".cargo/registry",
                ".m2/repository"
            ]
            .map(Path::new)
        );
        assert_eq!(view.programs, [Path::new("/home/haft/.cargo/bin")]);
        assert!(!view.settings.contains(&PathBuf::from("/etc/machine-id")));
    }
}
