//! The default data directory, for embedders that do not set one. Reads only `XDG_DATA_HOME` and
//! `HOME`.

use std::{ffi::OsString, path::PathBuf};

/// Haft's folder in this user's data directory: `$XDG_DATA_HOME/haft`, or `~/.local/share/haft`.
/// `None` if neither variable holds an absolute path.
pub fn platform_data_dir() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "an embedder's default comes from these two variables; the program's is read in `config/env.rs`"
    )]
    let variable = |name: &str| std::env::var_os(name);
    choose(variable("XDG_DATA_HOME"), variable("HOME"))
}

fn choose(data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths.
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(data_home)
        .or_else(|| absolute(home).map(|home| home.join(".local/share")))
        .map(|data| data.join("haft"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data_home: Option<&str>, home: Option<&str>, expect: Option<&str>) {
        let chosen = choose(data_home.map(Into::into), home.map(Into::into));
        assert_eq!(chosen, expect.map(PathBuf::from));
    }

    #[test]
    fn the_data_directory_follows_the_platform() {
        check(Some("/data"), Some("/home/ada"), Some("/data/haft"));
        check(None, Some("/home/ada"), Some("/home/ada/.local/share/haft"));
        check(
            Some("relative"),
            Some("/home/ada"),
            Some("/home/ada/.local/share/haft"),
        );
        check(Some(""), None, None);
        check(None, None, None);
    }
}
