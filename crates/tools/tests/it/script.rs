//! R8: tools without Rust.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use haft_contract::{CallEvent, ErrorKind, ProviderId, ops::SandboxMode};
use haft_tools::script::{ScriptSource, ScriptTool};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::workspace::{Workspace, first_text, structured};

const MANIFEST: &str = r#"
name = "greet"
description = "Greets a person. Use it to greet."
program = "greet.sh"
effects = "read_only"
timeout_ms = 5000

[input]
type = "object"
additionalProperties = false
required = ["name"]
properties.name = { type = "string" }
"#;

struct Scripted {
    workspace: Workspace,
    scripts: TempDir,
}

impl Scripted {
    fn new(program: &str) -> Self {
        let scripts = tempfile::tempdir().unwrap();
        let path = scripts.path().join("greet.sh");
        write_program(&path, program);
        let tool = ScriptTool::new(ScriptSource {
            manifest_text: MANIFEST.to_owned(),
            program_path: path.display().to_string(),
            sha256: Sha256::digest(program).into(),
        })
        .unwrap()
        .erased();
        let workspace = Workspace::local_with(|builder| {
            builder
                .configure(|builder| builder.provider(ProviderId::script(), vec![tool]))
                .sandbox("greet", SandboxMode::Off)
        });
        Self { workspace, scripts }
    }
}

fn write_program(path: &Path, program: &str) {
    std::fs::write(path, program).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn r8_a_script_gets_json_and_returns_json_and_progress() {
    let scripted = Scripted::new(
        "#!/bin/sh\nread -r input\necho '{\"step\":1,\"total\":2,\"status\":\"greeting\"}' >&3\n\
         echo \"{\\\"got\\\": $input}\"\n",
    );
    let outcome = scripted
        .workspace
        .succeed("greet", json!({"name": "Ada"}))
        .await;
    assert_eq!(structured(&outcome), &json!({"got": {"name": "Ada"}}));
    assert_eq!(
        outcome.tool.as_ref().unwrap().provider,
        ProviderId::script()
    );
    let events = scripted.workspace.harness.events.of(outcome.call);
    assert!(events.iter().any(|event| matches!(event,
        CallEvent::Progress(progress) if progress.status == "greeting" && progress.total == Some(2))));
}

#[tokio::test]
async fn r8_a_script_may_return_text_and_may_fail() {
    let scripted = Scripted::new("#!/bin/sh\necho hello\n");
    let outcome = scripted
        .workspace
        .succeed("greet", json!({"name": "Ada"}))
        .await;
    assert_eq!(first_text(&outcome), "hello\n");

    let scripted = Scripted::new("#!/bin/sh\necho why >&2\nexit 4\n");
    let outcome = scripted
        .workspace
        .refuse("greet", json!({"name": "Ada"}), ErrorKind::CommandFailed)
        .await;
    assert_eq!(first_text(&outcome), "why\n");
    assert_eq!(outcome.facts.exit_code, Some(4));
}

#[tokio::test]
async fn r8_input_is_validated_against_the_manifest() {
    let scripted = Scripted::new("#!/bin/sh\necho ran\n");
    let outcome = scripted
        .workspace
        .refuse("greet", json!({"nam": "Ada"}), ErrorKind::InvalidInput)
        .await;
    assert!(!outcome.model_text().contains("ran\n"));
}

/// A program that changed since it was trusted does not run.
#[tokio::test]
async fn r8_a_program_that_changed_is_refused() {
    let scripted = Scripted::new("#!/bin/sh\necho ran\n");
    let program = scripted.scripts.path().join("greet.sh");
    write_program(&program, "#!/bin/sh\necho evil\n");
    let outcome = scripted
        .workspace
        .harness
        .fail("greet", json!({"name": "Ada"}))
        .await;
    assert!(!outcome.model_text().contains("evil"));
}
