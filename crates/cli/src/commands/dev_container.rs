//! What `haft init` says about the dev container of a project: which lines put the workspace into it.
//! Never writes them: where commands run is for the operator to decide.

use std::path::Path;

use haft_backends::container::{
    ContainerProgram,
    development::{DevelopmentContainer, find, is_described},
};
use serde_json::{Value, json};

/// What is known about the dev container of a folder.
pub(super) enum DevContainerOffer {
    /// One runs.
    Running(DevelopmentContainer),
    /// The project describes one, and none runs.
    NotRunning,
}

/// Looks for the dev container of a folder whose project describes one.
pub(super) async fn offer(folder: &Path) -> Option<DevContainerOffer> {
    if !is_described(folder) {
        return None;
    }
    let programs = [ContainerProgram::Docker, ContainerProgram::Podman];
    Some(match find(folder, &programs).await {
        Some(found) => DevContainerOffer::Running(found),
        None => DevContainerOffer::NotRunning,
    })
}

impl DevContainerOffer {
    /// What is told to a person.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Running(found) => format!(
                "This project's dev container `{}` runs. To have tools work in it instead of here, add to haft.toml and run `haft trust`:\n\n{}",
                found.container,
                lines(found)
            ),
            Self::NotRunning => "This project describes a dev container, and none runs. Once it does, docs/guide/containers.md says how tools work in it.".to_owned(),
        }
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Running(found) => {
                json!({ "container": found.container.as_str(), "lines": lines(found) })
            }
            Self::NotRunning => json!({ "container": null }),
        }
    }
}

/// The lines of `haft.toml`.
fn lines(found: &DevelopmentContainer) -> String {
    let mut lines = vec!["[docker]".to_owned()];
    let mut line = |key: &str, value: &str| {
        // A JSON string is a TOML string.
        lines.push(format!("{key} = {}", Value::from(value)));
    };
    if found.program != ContainerProgram::Docker {
        line("program", found.program.name());
    }
    line("container", found.container.as_str());
    match &found.workspace {
        Some(workspace) => line("workspace", workspace),
        None => line("workspace", "/the/path/in/the/container"),
    }
    if let Some(user) = &found.user {
        line("user", user.as_str());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use haft_backends::container::{ContainerName, ContainerUser};

    use super::*;

    #[test]
    fn the_lines_are_what_the_configuration_reads() {
        let found = DevelopmentContainer {
            program: ContainerProgram::Podman,
            container: ContainerName::parse("shop-dev").unwrap(),
            workspace: Some("/workspaces/a \"b\"".to_owned()),
            user: Some(ContainerUser::parse("vscode").unwrap()),
        };
        let lines = lines(&found);
        let read: toml::Value = toml::from_str(&lines).unwrap();
        let docker = &read["docker"];
        assert_eq!(docker["program"].as_str(), Some("podman"));
        assert_eq!(docker["container"].as_str(), Some("shop-dev"));
        assert_eq!(docker["workspace"].as_str(), Some("/workspaces/a \"b\""));
        assert_eq!(docker["user"].as_str(), Some("vscode"));
    }
}
