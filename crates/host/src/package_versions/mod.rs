//! Finds the version that a command without one would run: the one on this machine, which is what
//! ran so far, or else the one a public registry names. Whoever takes a server over writes it down.
//!
//! Nothing is fetched but the name of a version, nothing is installed, and no registry but the
//! public one of the package's kind is asked. Read next: `config/launcher.rs`, which knows the
//! commands.

mod on_disk;
mod own_registries;
mod registry;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

pub use self::own_registries::own_registries;
use self::registry::Registry;
use crate::config::launcher::UnpinnedPackage;

/// How long all registries together may take.
const REGISTRIES_WAIT: Duration = Duration::from_secs(20);

/// The most packages that are looked for at once.
const MAX_PACKAGES: usize = 100;

/// A version and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundVersion {
    /// The exact version.
    pub version: String,
    /// Where it was found.
    pub source: VersionSource,
}

/// Where a version was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionSource {
    /// On this machine: it has been run or installed here.
    ThisMachine,
    /// At a registry, as the one that the tag means today.
    Registry(&'static str),
}

/// Whether registries are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryUse {
    /// They are asked for what is not on this machine.
    Ask,
    /// Nothing leaves this machine.
    Offline,
}

/// The versions of packages, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct PackageVersions(BTreeMap<UnpinnedPackage, FoundVersion>);

impl PackageVersions {
    /// Looks for the versions of packages. What is not found, or not in time, stays unknown.
    pub async fn find(
        packages: BTreeSet<UnpinnedPackage>,
        home: Option<PathBuf>,
        registries: RegistryUse,
    ) -> Self {
        let packages: Vec<UnpinnedPackage> = packages.into_iter().take(MAX_PACKAGES).collect();
        let wanted = packages.clone();
        let here = tokio::task::spawn_blocking(move || on_disk::find(&wanted, home.as_deref()));
        let here = here.await.unwrap_or_default();
        let found = here.into_iter().map(|(package, version)| {
            let source = VersionSource::ThisMachine;
            (package, FoundVersion { version, source })
        });
        let mut versions = Self(found.collect());
        if registries == RegistryUse::Ask {
            // Those that answered in time count.
            let _ = tokio::time::timeout(REGISTRIES_WAIT, versions.ask(&packages)).await;
        }
        versions
    }

    /// The version of a package.
    pub fn of(&self, package: &UnpinnedPackage) -> Option<&FoundVersion> {
        self.0.get(package)
    }

    /// Adds those that were found another way.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Asks the registries for what is missing.
    async fn ask(&mut self, packages: &[UnpinnedPackage]) {
        for package in packages {
            if self.0.contains_key(package) {
                continue;
            }
            let registry = Registry::of(package.index);
            if let Some(version) = registry.version_of(package).await {
                let source = VersionSource::Registry(registry.host());
                let found = FoundVersion { version, source };
                self.0.insert(package.clone(), found);
            }
        }
    }
}
