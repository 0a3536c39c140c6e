//! An operator's settings for a container.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use haft_sandbox::helper::Helper;

use super::destination::{ContainerName, ContainerUser};
use crate::remote::RemoteOptions;

/// The program that reaches containers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerProgram {
    /// `docker`, where systems install it.
    #[default]
    Docker,
    /// `podman`, where systems install it.
    Podman,
    /// A program with the command line of one of them, at an absolute path.
    At(PathBuf),
}

impl ContainerProgram {
    /// Parses `docker`, `podman` or an absolute path.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "docker" => Some(Self::Docker),
            "podman" => Some(Self::Podman),
            _ if Path::new(text).is_absolute() => Some(Self::At(text.into())),
            _ => None,
        }
    }

    /// What people type to call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::At(path) => path.to_str().unwrap_or("docker"),
        }
    }
}

/// How to reach a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerOptions {
    /// Which container; it must run.
    pub container: ContainerName,
    /// What reaches it.
    pub program: ContainerProgram,
    /// As whom files are touched and commands run there, if not as the container's own user.
    pub user: Option<ContainerUser>,
    /// How long it may take until the helper in the container answers.
    pub connect_timeout: Duration,
    /// The program to bring there, which then serves. It must run in the container.
    pub helper: Helper,
    /// How the workspace behaves.
    pub remote: RemoteOptions,
}

impl ContainerOptions {
    /// The default options for a container.
    pub fn new(container: ContainerName) -> Self {
        Self {
            container,
            program: ContainerProgram::default(),
            user: None,
            connect_timeout: Duration::from_secs(30),
            helper: Helper::default(),
            remote: RemoteOptions::default(),
        }
    }
}
