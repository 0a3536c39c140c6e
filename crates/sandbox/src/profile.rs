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

use crate::home::{self, Toolchains, can_read};

/// The most directories of the user's search path that are taken over.
const MAX_SEARCH: usize = 128;

/// What a sandboxed command sees in addition to its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// The user's home directory. A command has a private one at its path, in which toolchains and
    /// caches are shown read-only and git finds its harmless settings. `None` shows none of it.
    pub home: Option<PathBuf>,
    /// Toolchain locations set by a variable (`CARGO_HOME`, `RUSTUP_HOME`), by its name.
    pub toolchain_homes: BTreeMap<String, PathBuf>,
    /// Where the user's own shell looks for programs, in its order. What a sandbox does not show is
    /// left out.
    pub search: Vec<PathBuf>,
    /// More places to show read-only, at their own path.
    pub read_only: Vec<PathBuf>,
    /// More places to show writable, at their own path.
    pub writable: Vec<PathBuf>,
}

/// The home of a sandboxed command where the user's own path cannot be used. Like the other, it is
/// private, in memory, and removed with the command.
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
    /// The user's home directory, without symlinks.
    pub home: Option<PathBuf>,
    /// Git's harmless settings, as the text of a settings file.
    pub git_settings: Option<String>,
    /// Parts of toolchains.
    pub toolchains: Vec<PathBuf>,
    /// Files in them that may hold credentials; an empty file is shown in place of each.
    pub credentials: Vec<PathBuf>,
    /// Caches that are shown only to a command without network, because programs that have one
    /// insist on writing them.
    pub caches: Vec<PathBuf>,
    /// Directories of toolchain programs.
    pub programs: Vec<PathBuf>,
    /// Variables that say where a relocated toolchain is.
    pub variables: BTreeMap<String, String>,
    /// The directories of the user's search path that are shown.
    pub search: Vec<PathBuf>,
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

impl Profile {
    /// The variables that set toolchain locations, for [`Profile::toolchain_homes`].
    pub fn variables() -> impl Iterator<Item = &'static str> {
        Toolchains::variables()
    }
}

impl HostView {
    /// Whether commands are shown a path of this machine, something above it, or something below it.
    pub(crate) fn shows_part_of(&self, path: &Path) -> bool {
        let places = [
            &self.directories,
            &self.settings,
            &self.toolchains,
            &self.caches,
            &self.read_only,
            &self.writable,
        ];
        let mut places = places.into_iter().flatten();
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
        let home = profile.home.as_deref().and_then(home::real);
        let toolchains = Toolchains::look(home.as_deref(), &profile.toolchain_homes);
        view.toolchains = toolchains.places;
        view.credentials = toolchains.credentials;
        view.caches = toolchains.caches;
        view.programs = toolchains.programs;
        view.variables = toolchains.variables;
        if let Some(home) = home {
            view.git_settings = home::harmless_git_settings(&home);
            // Where the home is reached through a link, both spellings lead to it.
            let spelled = profile.home.as_ref().filter(|spelled| **spelled != home);
            let linked = spelled.filter(|spelled| spelled.is_absolute());
            view.links
                .extend(linked.map(|spelled| (spelled.clone(), home.clone())));
            view.home = Some(home);
        }
        let search = profile.search.iter().filter(|place| view.shows(place));
        view.search = search.take(MAX_SEARCH).cloned().collect();
        view
    }

    /// Whether a path of the machine is at the same place in every sandbox.
    fn shows(&self, path: &Path) -> bool {
        let links = self.links.iter().map(|(at, _)| at);
        let mut places = self
            .directories
            .iter()
            .chain(links)
            .chain(&self.toolchains)
            .chain(&self.read_only)
            .chain(&self.writable);
        places.any(|place| path.starts_with(place))
    }
}

fn existing(places: &[PathBuf]) -> Vec<PathBuf> {
    places
        .iter()
        .filter(|place| place.is_absolute() && can_read(place))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_with_credentials_is_ever_shown() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(home.path(), home.path().canonicalize().unwrap());
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
            .map(|place| place.strip_prefix(home.path()).unwrap())
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
        assert_eq!(view.programs, [home.path().join(".cargo/bin")]);
        assert_eq!(view.home.as_deref(), Some(home.path()));
        assert!(!view.settings.contains(&PathBuf::from("/etc/machine-id")));
    }

    #[test]
    fn the_search_path_keeps_its_order_and_what_is_not_shown_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".local/bin");
        std::fs::create_dir_all(&own).unwrap();
        let view = HostView::look(&Profile {
            home: Some(home.path().to_owned()),
            search: vec![
                "/usr/bin".into(),
                home.path().join("secret/bin"),
                own.clone(),
                "relative".into(),
            ],
            ..Profile::default()
        });
        assert_eq!(view.search, [Path::new("/usr/bin"), &own]);
    }
}
