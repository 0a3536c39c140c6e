//! The dev container of a project is found by its label, if it runs.

use haft_backends::container::{ContainerProgram, development};

use super::engine::{Container, podman, program};

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn the_running_dev_container_of_a_folder_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let programs = [ContainerProgram::At(program())];
    assert!(!development::is_described(folder));
    std::fs::create_dir(folder.join(".devcontainer")).unwrap();
    std::fs::write(folder.join(".devcontainer/devcontainer.json"), "{}").unwrap();
    assert!(development::is_described(folder));
    assert_eq!(development::find(folder, &programs).await, None);
    let shown = folder.to_str().unwrap();
    let container = Container::start(&[
        "--label",
        &format!("devcontainer.local_folder={shown}"),
        "--label",
        "devcontainer.metadata=[{\"remoteUser\":\"vscode\"}]",
        "--volume",
        &format!("{shown}:/workspaces/shop"),
    ]);
    let found = development::find(folder, &programs).await.unwrap();
    assert_eq!(found.container.as_str(), container.name);
    assert_eq!(found.workspace.as_deref(), Some("/workspaces/shop"));
    assert_eq!(found.user.unwrap().as_str(), "vscode");
    // Another folder's is not this one's, and one that does not run is not offered.
    assert_eq!(development::find(&folder.join("x"), &programs).await, None);
    podman(&["stop", "--time", "0", &container.name]);
    assert_eq!(development::find(folder, &programs).await, None);
}
