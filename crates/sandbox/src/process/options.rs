//! The environment of a workspace's children, and how they are confined.

use std::collections::BTreeMap;

use crate::{options::SandboxOptions, orphans::TEMPORARY};

/// How the processes of a workspace behave. The default is safe but rarely useful: children find
/// the system's programs and have no home.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// `PATH` of every child; also where programs named without a slash are looked for.
    pub search_path: String,
    /// `HOME` of every child. Must not be the workspace: files there would configure programs.
    pub home: String,
    /// `TMPDIR` of every child.
    pub temporary: String,
    /// `USER` and `LOGNAME` of every child.
    pub user: String,
    /// More variables of every child, from the operator. Any name is allowed; the ones above win.
    pub environment: BTreeMap<String, String>,
    /// How children are confined in tiers above `host`.
    pub sandbox: SandboxOptions,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            search_path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            home: "/nonexistent".to_owned(),
            temporary: TEMPORARY.to_owned(),
            user: "haft".to_owned(),
            environment: BTreeMap::new(),
            sandbox: SandboxOptions::default(),
        }
    }
}
