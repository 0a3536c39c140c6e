//! `[docker]` and `[docker.NAME]` of `haft.toml`: a workspace in a running container.
//!
//! Rules, the record and approvals stay on this machine; only what tools touch is in the container.
//! The container comes from here alone, never from a model, and Haft neither starts nor stops it.

use std::{path::PathBuf, time::Duration};

use haft_backends::container::{ContainerName, ContainerOptions, ContainerProgram, ContainerUser};
use haft_sandbox::{helper::Helper, jail::Mounts};

use super::{
    file::{Reader, Table},
    remote::remote_options,
    sandbox::SandboxSettings,
};

pub(super) const KEYS: [&str; 6] = [
    "program",
    "container",
    "workspace",
    "user",
    "connect_timeout",
    "helper",
];

/// The keys of `[docker]`.
#[derive(Debug, Clone, PartialEq)]
pub struct DockerSettings {
    /// What reaches the container.
    pub program: ContainerProgram,
    /// Its name or id.
    pub container: ContainerName,
    /// The workspace directory in the container.
    pub workspace: String,
    user: Option<ContainerUser>,
    connect_timeout: Option<Duration>,
    helper: Option<PathBuf>,
}

impl DockerSettings {
    /// The options of the back end, including those from `[sandbox]` and `[workspace]`.
    pub fn options(&self, sandbox: &SandboxSettings, cross_mounts: Mounts) -> ContainerOptions {
        let mut options = ContainerOptions::new(self.container.clone());
        options.program = self.program.clone();
        options.user.clone_from(&self.user);
        options.connect_timeout = self.connect_timeout.unwrap_or(options.connect_timeout);
        options.helper = self
            .helper
            .clone()
            .map_or_else(Helper::default, Helper::Path);
        options.remote = remote_options(sandbox, cross_mounts);
        options.remote.user = self.user.as_ref().and_then(named);
        options
    }
}

/// The name of a user, if it is given as one: `docker exec` does not set `USER`.
fn named(user: &ContainerUser) -> Option<String> {
    let name = user.as_str().split(':').next()?;
    (!name.starts_with(|c: char| c.is_ascii_digit())).then(|| name.to_owned())
}

impl Reader<'_> {
    /// Reads `[docker]` or `[docker.NAME]`.
    pub(super) fn docker(
        &mut self,
        table: &Table<'_>,
        title: &str,
        at: usize,
    ) -> Option<DockerSettings> {
        self.known_keys(table, title, &KEYS);
        let program = match self.text(table, "program") {
            None => Some(ContainerProgram::default()),
            Some((at, text)) => {
                let program = ContainerProgram::parse(&text);
                if program.is_none() {
                    self.problem(
                        at,
                        "`program` must be \"docker\", \"podman\" or an absolute path",
                        "leave it out for docker",
                    );
                }
                program
            }
        };
        let container = match self.text(table, "container") {
            None => {
                self.problem(
                    at,
                    format!("{title} does not name the container"),
                    "write `container = \"web\"`; `docker ps` lists those that run",
                );
                None
            }
            Some((at, text)) => self.parsed(at, ContainerName::parse(&text)),
        };
        let workspace = match self.text(table, "workspace") {
            Some((_, text)) if text.starts_with('/') => Some(text),
            other => {
                self.problem(
                    other.map_or(at, |(at, _)| at),
                    format!("{title} does not name the workspace directory by its absolute path"),
                    "write `workspace = \"/workspace\"`, as the container sees it",
                );
                None
            }
        };
        let user = match self.text(table, "user") {
            None => None,
            Some((at, text)) => Some(self.parsed(at, ContainerUser::parse(&text))?),
        };
        Some(DockerSettings {
            connect_timeout: self.remote_seconds(table, "connect_timeout"),
            helper: self.remote_file(table, "helper"),
            user,
            program: program?,
            container: container?,
            workspace: workspace?,
        })
    }

    fn parsed<T>(&mut self, at: usize, parsed: Result<T, impl ToString>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(
                    at,
                    error.to_string(),
                    "write it as `docker ps` and `docker exec --user` know it",
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::{backends::Elsewhere, file};

    fn docker_of(file: file::ConfigFile) -> Option<DockerSettings> {
        match file.backends.get(&file.backends.default_backend()) {
            Some(Elsewhere::Docker(docker)) => Some(docker.clone()),
            Some(Elsewhere::Ssh(_)) | None => None,
        }
    }

    fn read(text: &str) -> Result<Option<DockerSettings>, String> {
        let parsed = file::parse(&PolicySource::new("haft.toml", text));
        parsed.map(docker_of).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn a_workspace_in_a_container() {
        let text = "[docker]\nprogram = \"podman\"\ncontainer = \"web\"\nworkspace = \"/app\"\n\
                    user = \"dev:staff\"\nconnect_timeout = 5\n[sandbox.limits]\nprocesses = 10\n";
        let parsed = file::parse(&PolicySource::new("haft.toml", text)).unwrap();
        let docker = docker_of(parsed.clone()).unwrap();
        let options = docker.options(&parsed.sandbox, Mounts::Refuse);
        assert_eq!(docker.workspace, "/app");
        assert_eq!(options.program, ContainerProgram::Podman);
        assert_eq!(options.container.as_str(), "web");
        assert_eq!(options.user.unwrap().as_str(), "dev:staff");
        assert_eq!(options.remote.user.as_deref(), Some("dev"));
        assert_eq!(options.connect_timeout, Duration::from_secs(5));
        assert_eq!(options.remote.sandbox.limits.processes, Some(10));
        assert_eq!(read("").unwrap(), None);
    }

    #[test]
    fn what_is_missing_or_cannot_be_is_told_with_its_line() {
        let check = |text: &str, expect: &str| {
            let problems = read(text).unwrap_err();
            assert!(problems.contains(expect), "{text}: {problems}");
        };
        check(
            "[docker]\nworkspace = \"/app\"\n",
            "does not name the container",
        );
        check(
            "[docker]\ncontainer = \"web\"\nworkspace = \"app\"\n",
            "haft.toml:3:13: [docker] does not name the workspace directory",
        );
        check(
            "[docker]\ncontainer = \"--privileged\"\nworkspace = \"/app\"\n",
            "haft.toml:2:13: `--privileged` is not a container",
        );
        check(
            "[docker]\ncontainer = \"web\"\nworkspace = \"/app\"\nuser = \"-x\"\n",
            "haft.toml:4:8: `-x` is not a user",
        );
        check(
            "[docker]\ncontainer = \"web\"\nworkspace = \"/app\"\nprogram = \"sh\"\n",
            "`program` must be",
        );
        check(
            "[docker]\ncontainer = \"web\"\nworkspace = \"/app\"\nimage = \"x\"\n",
            "unknown key `image` in [docker]",
        );
        check(
            "[docker]\ncontainer = \"web\"\nworkspace = \"/app\"\n[ssh]\ndestination = \"h\"\n\
             root = \"/srv\"\n",
            "[ssh] and [docker] both say where the workspace is",
        );
    }
}
