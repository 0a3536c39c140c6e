//! Finds the running dev container of a project, to offer it. Nothing is started and nothing changes.
//!
//! Editors and the `devcontainer` program label a container with the folder it was made for
//! (<https://containers.dev/implementors/spec/>). A project's own file decides nothing here: what is
//! found is shown to a person, who writes it into their configuration.

use std::{path::Path, time::Duration};

use serde::Deserialize;
use tokio::{io::AsyncReadExt as _, time::timeout};

use super::{
    destination::{ContainerName, ContainerUser},
    options::ContainerProgram,
    program::{VARIABLES, locate},
};
use crate::client_program::{Launch, RunningClient};

/// Where a project describes its dev container.
const FILES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// The label with the folder a dev container was made for.
const FOLDER: &str = "devcontainer.local_folder";

/// The label with what the container was made from, as JSON.
const METADATA: &str = "devcontainer.metadata";

/// How long one question to Docker or Podman may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// The longest answer.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// A running dev container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevelopmentContainer {
    /// What reaches it.
    pub program: ContainerProgram,
    /// Which one it is.
    pub container: ContainerName,
    /// Where the project's folder is in it, if it is mounted there.
    pub workspace: Option<String>,
    /// As whom people work in it.
    pub user: Option<ContainerUser>,
}

/// What is asked about a container.
#[derive(Debug, Deserialize)]
struct InspectedContainer {
    #[serde(rename = "Mounts", default)]
    mounts: Vec<ContainerMount>,
    #[serde(rename = "Config")]
    config: ContainerConfig,
}

#[derive(Debug, Deserialize)]
struct ContainerMount {
    #[serde(rename = "Source", default)]
    source: String,
    #[serde(rename = "Destination", default)]
    destination: String,
}

#[derive(Debug, Deserialize)]
struct ContainerConfig {
    #[serde(rename = "Labels", default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
}

/// A part of the metadata label.
#[derive(Debug, Deserialize)]
struct MetadataPart {
    #[serde(rename = "remoteUser")]
    remote_user: Option<String>,
}

/// Whether a project describes a dev container.
pub fn is_described(folder: &Path) -> bool {
    FILES.iter().any(|file| folder.join(file).is_file())
}

/// The running dev container of a folder, if one of the programs has one.
pub async fn find(folder: &Path, programs: &[ContainerProgram]) -> Option<DevelopmentContainer> {
    for program in programs {
        if let Some(found) = find_with(folder, program).await {
            return Some(found);
        }
    }
    None
}

async fn find_with(folder: &Path, program: &ContainerProgram) -> Option<DevelopmentContainer> {
    let folder = folder.to_str()?;
    let filter = format!("label={FOLDER}={folder}");
    let listing = ["ps", "--filter", &filter, "--format", "{{.Names}}"];
    let names = ask(program, &listing).await?;
    // Docker separates the names of one container by commas.
    let name = names.lines().next()?.split(',').next()?.trim();
    let container = ContainerName::parse(name).ok()?;
    let inspecting = ["inspect", "--type", "container", container.as_str()];
    let inspected = ask(program, &inspecting).await?;
    let inspected: Vec<InspectedContainer> = serde_json::from_str(&inspected).ok()?;
    let inspected = inspected.into_iter().next()?;
    Some(DevelopmentContainer {
        program: program.clone(),
        container,
        workspace: inspected.workspace_of(folder),
        user: inspected.user(),
    })
}

impl InspectedContainer {
    /// Where a folder of this machine is in the container.
    fn workspace_of(&self, folder: &str) -> Option<String> {
        let mut mounts = self.mounts.iter();
        let mounted = mounts.find(|mounted| mounted.source == folder)?;
        Some(mounted.destination.clone())
    }

    /// As whom people work in it: the last part of the metadata that says so counts.
    fn user(&self) -> Option<ContainerUser> {
        let metadata = self.config.labels.as_ref()?.get(METADATA)?;
        let parts: Vec<MetadataPart> = serde_json::from_str(metadata).ok()?;
        let user = parts.into_iter().rev().find_map(|part| part.remote_user)?;
        ContainerUser::parse(&user).ok()
    }
}

/// What the program answers; `None` if it is not there, fails or takes too long.
async fn ask(program: &ContainerProgram, arguments: &[&str]) -> Option<String> {
    let launch = Launch {
        program: locate(program).ok()?,
        arguments: arguments.iter().map(Into::into).collect(),
        variables: &VARIABLES,
    };
    let (mut client, stdin, stdout) = RunningClient::start(launch).ok()?;
    drop(stdin);
    let answered = async {
        let mut answer = String::new();
        let mut stdout = stdout.take(MAX_ANSWER_BYTES);
        stdout.read_to_string(&mut answer).await.ok()?;
        (client.ended().await.0 == Some(0)).then_some(answer)
    };
    timeout(ANSWER_LIMIT, answered).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_and_the_user_are_read_from_what_the_program_says() {
        let said = r#"[{"Mounts": [{"Source": "/home/ada/cache", "Destination": "/cache"},
            {"Type": "bind", "Source": "/home/ada/src", "Destination": "/workspaces/src"}],
            "Config": {"Labels": {"devcontainer.metadata":
            "[{\"id\":\"x\",\"remoteUser\":\"root\"},{\"remoteUser\":\"vscode\"},{}]"}}}]"#;
        let inspected: Vec<InspectedContainer> = serde_json::from_str(said).unwrap();
        let inspected = inspected.first().unwrap();
        let workspace = inspected.workspace_of("/home/ada/src");
        assert_eq!(workspace.as_deref(), Some("/workspaces/src"));
        assert_eq!(inspected.workspace_of("/home/ada"), None);
        assert_eq!(inspected.user().unwrap().as_str(), "vscode");
        let bare: InspectedContainer =
            serde_json::from_str(r#"{"Config": {"Labels": null}}"#).unwrap();
        assert_eq!((bare.workspace_of("/"), bare.user()), (None, None));
    }
}
