//! What an agent has to pass to Haft when starting it, so that Haft finds the same record and the
//! same configuration there as here. Agents pass on few of their variables, so the person's
//! settings have to be written down; defaults are not.

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
    /// `XDG_CONFIG_HOME`, as a variable: `--config` would mean that the workspace's own file does
    /// not count, and that the file exists.
    pub config_home: Option<PathBuf>,
}

impl PinnedEntry {
    /// What has to be written down from this program's command line and environment. A flag is
    /// always written: an agent may pass on a variable that contradicts it. The agent and its
    /// session are not written: the agent supplies those.
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

    /// The flags and their values.
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
