//! The versions of packages that are on this machine already: what `npx` keeps of what it ran, and
//! what `uv tool` and `pipx` installed. Reads names and small files in a person's own home, follows
//! no other list, and gives up where there is too much.
#![expect(
    clippy::disallowed_methods,
    reason = "reads the caches of a person's package managers, which no workspace confines"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    config::launcher::{PackageIndex, UnpinnedPackage},
    state::private,
};

/// The most entries of one directory that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// The largest description of a package that is read.
const MAX_DESCRIPTION_BYTES: u64 = 1024 * 1024;

/// Where `npx` keeps what it ran, below the home directory.
const NPX: &str = ".npm/_npx";

/// Where Python tools are installed, each in an environment of its own, below the home directory.
const PYTHON_TOOLS: [&str; 3] = [
    ".local/share/uv/tools",
    ".local/share/pipx/venvs",
    ".local/pipx/venvs",
];

/// The versions of those packages that are here.
pub(super) fn find(
    packages: &[UnpinnedPackage],
    home: Option<&Path>,
) -> Vec<(UnpinnedPackage, String)> {
    let Some(home) = home else {
        return Vec::new();
    };
    // A tag other than `latest` means a version that only the registry knows.
    let plain = packages.iter().filter(|package| package.tag == "latest");
    let found = plain.filter_map(|package| {
        let versions = match package.index {
            PackageIndex::Npm => npx_versions(&package.name, home),
            PackageIndex::Python => python_versions(&package.name, home),
        };
        let newest = versions
            .into_iter()
            .max_by_key(|version| numbers(version))?;
        Some((package.clone(), newest))
    });
    found.collect()
}

/// The versions of a package that `npx` ran.
fn npx_versions(name: &str, home: &Path) -> Vec<String> {
    let description = |run: PathBuf| {
        let file = run.join("node_modules").join(name).join("package.json");
        let bytes = private::read(&file, MAX_DESCRIPTION_BYTES).ok()??;
        let description: Value = serde_json::from_slice(&bytes).ok()?;
        let version = description.get("version")?.as_str()?;
        Some(version.to_owned())
    };
    let runs = entries(&home.join(NPX)).into_iter();
    runs.filter_map(description).collect()
}

/// The versions of a tool that is installed in an environment of its own.
fn python_versions(name: &str, home: &Path) -> Vec<String> {
    let name = normal(name);
    let environments = PYTHON_TOOLS
        .iter()
        .flat_map(|place| entries(&home.join(place)))
        .filter(|environment| {
            let tool = environment.file_name().and_then(|tool| tool.to_str());
            tool.is_some_and(|tool| normal(tool) == name)
        });
    let packages = environments
        .flat_map(|environment| entries(&environment.join("lib")))
        .flat_map(|python| entries(&python.join("site-packages")));
    packages
        .filter_map(|package| {
            let package = package.file_name()?.to_str()?;
            let (of, version) = package.strip_suffix(".dist-info")?.rsplit_once('-')?;
            (normal(of) == name).then(|| version.to_owned())
        })
        .collect()
}

/// The paths in a directory; none if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let entries = entries.take(MAX_ENTRIES).filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

/// A Python name as an index compares it.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// The numbers of a version, and whether it is a release: a pre-release comes before it.
fn numbers(version: &str) -> (Vec<u64>, bool) {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.collect(), !version.contains('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(index: PackageIndex, name: &str, tag: &str) -> UnpinnedPackage {
        UnpinnedPackage {
            index,
            name: name.to_owned(),
            tag: tag.to_owned(),
        }
    }

    #[test]
    fn what_ran_here_is_found_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        for (run, version) in [("a1", "1.9.0"), ("b2", "1.10.0"), ("c3", "1.10.0-rc.1")] {
            let folder = home.path().join(NPX).join(run);
            let folder = folder.join("node_modules/@scope/server");
            fs::create_dir_all(&folder).unwrap();
            let text = format!("{{\"name\": \"@scope/server\", \"version\": \"{version}\"}}");
            fs::write(folder.join("package.json"), text).unwrap();
        }
        let site = ".local/share/uv/tools/mcp-server-git/lib/python3.12/site-packages";
        let site = home.path().join(site);
        fs::create_dir_all(site.join("mcp_server_git-2026.1.2.dist-info")).unwrap();
        fs::create_dir_all(site.join("mcp-9.9.dist-info")).unwrap();
        let wanted = [
            package(PackageIndex::Npm, "@scope/server", "latest"),
            package(PackageIndex::Npm, "@scope/server", "next"),
            package(PackageIndex::Npm, "@scope/other", "latest"),
            package(PackageIndex::Python, "mcp_server.git", "latest"),
            package(PackageIndex::Python, "mcp", "latest"),
        ];
        let found = find(&wanted, Some(home.path()));
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(package, version)| (package.name.as_str(), version.as_str()))
            .collect();
        assert_eq!(
            found,
            [("@scope/server", "1.10.0"), ("mcp_server.git", "2026.1.2")]
        );
        assert_eq!(find(&wanted, None), []);
    }
}
