//! What an agent has to tell Haft when it starts it, so that Haft finds there what it finds here: the
//! same record and the same configuration. Agents pass few of their variables on, so that what a
//! person's variables say has to be written down; what is the default anyway is not.

use std::{collections::BTreeMap, path::PathBuf};

use super::{env::Env, resolve::Overrides};

/// What is written into an agent's entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedEntry {
    /// `--workspace`.
    pub workspace: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, as a variable: `--config` would say that the workspace's own file does not
    /// count, and that the file is there.
    pub config_home: Option<PathBuf>,
}

impl PinnedEntry {
    /// What has to be written down of the command line and the environment of this program. A flag
    /// is always written: an agent may pass on a variable that says otherwise. Who asks and in which
    /// conversation is not: it is for the agent to say.
    pub fn of(env: &Env, overrides: &Overrides) -> Self {
        let elsewhere = Env::of_server(&BTreeMap::new());
        let by_default = Overrides::default().data_dir(&elsewhere);
        let data_dir = overrides.data_dir(env);
        let config = overrides.only_config(env);
        let workspace = overrides.workspace.as_ref().or(env.workspace.as_ref());
        Self {
            workspace: workspace.map(|path| env.current_dir.join(path)),
            data_dir: data_dir
                .filter(|path| overrides.data_dir.is_some() || by_default.as_ref() != Some(path)),
            config_home: match &config {
                Some(_) => None,
                None => env
                    .config_home
                    .clone()
                    .filter(|path| elsewhere.config_home.as_ref() != Some(path)),
            },
            config,
        }
    }

    /// The flags, and what each says.
    pub fn flags(&self) -> impl Iterator<Item = (&'static str, String)> {
        let flags = [
            ("--workspace", &self.workspace),
            ("--config", &self.config),
            ("--data-dir", &self.data_dir),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, path)| Some((flag, path.as_ref()?.display().to_string())))
    }
}
