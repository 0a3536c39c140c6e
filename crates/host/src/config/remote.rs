//! What `[ssh]` and `[docker]` have in common: how a workspace elsewhere behaves, and how the keys
//! of both tables are read.

use std::{path::PathBuf, time::Duration};

use haft_backends::{
    LocalOptions,
    remote::{RemoteOptions, RemoteSandbox, Toolchains},
};
use haft_sandbox::jail::Mounts;

use super::{
    file::{Reader, Table},
    sandbox::{Home, SandboxSettings, is_place},
};

/// The longest duration, in seconds.
const MOST_SECONDS: u64 = 3600;

/// How a workspace elsewhere behaves, from `[sandbox]` and `[workspace]`. Paths are those over there.
pub(super) fn remote_options(sandbox: &SandboxSettings, cross_mounts: Mounts) -> RemoteOptions {
    let texts = |places: &[PathBuf]| {
        places
            .iter()
            .map(|place| place.display().to_string())
            .collect()
    };
    let first = sandbox.path.iter().map(|place| place.display().to_string());
    let usual = LocalOptions::default().search_path;
    let search: Vec<String> = first.chain([usual]).collect();
    RemoteOptions {
        cross_mounts,
        search_path: (!sandbox.path.is_empty()).then(|| search.join(":")),
        environment: sandbox.env.clone(),
        sandbox: RemoteSandbox {
            read_only: texts(&sandbox.read_only),
            writable: texts(&sandbox.writable),
            toolchains: match &sandbox.home {
                None => Toolchains::OfTheAccount,
                Some(Home::Off) => Toolchains::None,
                Some(Home::At(home)) => Toolchains::In(home.display().to_string()),
            },
            limits: sandbox.remote_limits(),
        },
        ..RemoteOptions::default()
    }
}

impl Reader<'_> {
    /// A number from 1 up to a limit that means something.
    pub(super) fn remote_number<T>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        most: u64,
        meant: impl Fn(u64) -> Option<T>,
    ) -> Option<T> {
        let number = self.number(table, key)?;
        let found = (1..=most)
            .contains(&number)
            .then(|| meant(number))
            .flatten();
        if found.is_none() {
            let at = table.get(key).map_or(0, |value| value.span().start);
            let message = format!("`{key}` must be a number from 1 to {most}");
            self.problem(at, message, "leave it out for the default");
        }
        found
    }

    /// A duration in whole seconds.
    pub(super) fn remote_seconds(&mut self, table: &Table<'_>, key: &str) -> Option<Duration> {
        let seconds = |number| Some(Duration::from_secs(number));
        self.remote_number(table, key, MOST_SECONDS, seconds)
    }

    /// An absolute path on this machine.
    pub(super) fn remote_file(&mut self, table: &Table<'_>, key: &str) -> Option<PathBuf> {
        let (at, text) = self.text(table, key)?;
        let path = PathBuf::from(&text);
        if is_place(&path) {
            return Some(path);
        }
        self.problem(
            at,
            format!("`{key}` must be an absolute path"),
            "write it in full, such as \"/home/me/.ssh/id_ed25519\"",
        );
        None
    }
}
