//! R8: tools without Rust.

use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    Access, BoxFuture, CallEvent, DeniedBy, ErrorKind, Outcome, ProviderId, SealedPlan, Terminal,
    egress::{EgressRules, HostRule},
    ops::{SandboxMode, Tier},
    secret::{ReadSecret, Secret, SecretReference},
};
use haft_testkit::Harness;
use haft_tools::{
    factory::{Factory, ToolEntry},
    script::{ScriptSource, ScriptTool},
};
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

/// What every secret of a test is.
const CANARY: &str = "canary-of-a-script";

/// Has one secret, in the variable `KEY`.
struct OneSecret;

impl ReadSecret for OneSecret {
    fn read<'a>(&'a self, reference: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        Box::pin(async move {
            match reference {
                SecretReference::Env(name) if name == "KEY" => Ok(Secret::new(CANARY).unwrap()),
                other => Err(format!("there is no `{other}`")),
            }
        })
    }
}

struct Scripted {
    workspace: Workspace,
    scripts: TempDir,
}

impl Scripted {
    fn new(program: &str) -> Self {
        Self::with(MANIFEST, program)
    }

    /// A script with this manifest, whose secrets are all [`CANARY`].
    fn with(manifest: &str, program: &str) -> Self {
        let scripts = tempfile::tempdir().unwrap();
        let path = scripts.path().join("greet.sh");
        write_program(&path, program);
        let tool = ScriptTool::new(ScriptSource {
            manifest_text: manifest.to_owned(),
            program_path: path.display().to_string(),
            sha256: Sha256::digest(program).into(),
        })
        .unwrap()
        .secrets(Arc::new(OneSecret))
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

/// The plan that a call was decided by.
fn plan_of(harness: &Harness, outcome: &Outcome) -> Arc<SealedPlan> {
    let mut events = harness.events.of(outcome.call).into_iter();
    events
        .find_map(|event| match event {
            CallEvent::Planned { plan } => Some(plan),
            _ => None,
        })
        .expect("a plan")
}

#[tokio::test]
async fn r8_each_action_has_its_deadline() {
    let manifest = format!("{MANIFEST}\n[actions]\nshort = {{ timeout_ms = 900 }}\nlong = {{}}\n");
    let scripted = Scripted::with(&manifest, "#!/bin/sh\ncat\n");
    for (action, deadline) in [("short", 900), ("long", 5000)] {
        let input = json!({"name": "Ada", "action": action});
        let outcome = scripted.workspace.succeed("greet", input.clone()).await;
        assert_eq!(structured(&outcome), &input, "a script is told its action");
        let plan = plan_of(&scripted.workspace.harness, &outcome);
        assert_eq!(plan.action().unwrap().as_str(), action);
        assert_eq!(plan.deadline().as_millis(), deadline);
    }
    for input in [
        json!({"name": "Ada"}),
        json!({"name": "Ada", "action": "other"}),
    ] {
        scripted
            .workspace
            .refuse("greet", input, ErrorKind::InvalidInput)
            .await;
    }
}

#[tokio::test]
async fn r8_a_script_may_require_a_scope_and_have_other_names() {
    let more = |more: &str| MANIFEST.replace("\n[input]", &format!("{more}\n[input]"));
    let scripted = Scripted::with(
        &more("required_scopes = [\"people.read\"]"),
        "#!/bin/sh\ntouch ran\n",
    );
    let outcome = scripted
        .workspace
        .harness
        .call("greet", json!({"name": "Ada"}))
        .await;
    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Policy));
    let refused = outcome.model_text();
    assert!(refused.contains("people.read"), "{refused}");
    assert_eq!(scripted.workspace.bytes("ran"), None);

    let named = more("aliases = [\"welcome\", \"Read\"]\ngroups = [\"people\"]");
    let scripted = Scripted::with(&named, "#!/bin/sh\necho hello\n");
    let outcome = scripted
        .workspace
        .succeed("welcome", json!({"name": "Ada"}))
        .await;
    assert_eq!(outcome.tool.as_ref().unwrap().tool.as_str(), "greet");
    // A name that models know for another tool stays with that tool.
    scripted.workspace.put("file", "of the tool `read`");
    let outcome = scripted
        .workspace
        .succeed("Read", json!({"path": "file"}))
        .await;
    assert_eq!(outcome.tool.as_ref().unwrap().tool.as_str(), "read");
}

#[tokio::test]
async fn r8_secrets_are_on_standard_input_and_in_nothing_that_is_put_out() {
    let manifest = format!("{MANIFEST}\n[secrets]\nAPI_KEY = \"env:KEY\"\n");
    let scripted = Scripted::with(
        &manifest,
        "#!/bin/sh\nread -r input\necho \"with $input\" >&3\necho \"error $input\" >&2\n\
         echo \"$input\"\nenv | grep canary\nexit 0\n",
    );
    let outcome = scripted
        .workspace
        .succeed("greet", json!({"name": "Ada"}))
        .await;
    let expect = r#"error {"name":"Ada","secrets":{"API_KEY":"[redacted]"}}"#;
    assert!(outcome.text().contains(expect), "{}", outcome.text());
    let said = json!({"name": "Ada", "secrets": {"API_KEY": "[redacted]"}});
    assert_eq!(structured(&outcome), &said);
    let plan = plan_of(&scripted.workspace.harness, &outcome);
    assert_eq!(plan.input(), &json!({"name": "Ada"}));
    let events = scripted.workspace.harness.events.of(outcome.call);
    let all = format!("{events:?} {outcome:?}");
    assert!(all.contains("with {"), "{all}");
    assert!(!all.contains(CANARY), "{all}");
}

#[tokio::test]
async fn r8_a_caller_sets_no_secret_and_a_missing_one_stops_the_script() {
    // Without `additionalProperties`, any parameter would be let through.
    let open = MANIFEST.replace("additionalProperties = false\n", "");
    let manifest = format!("{open}\n[secrets]\nAPI_KEY = \"env:KEY\"\n");
    let scripted = Scripted::with(&manifest, "#!/bin/sh\ntouch ran\n");
    let input = json!({"name": "Ada", "secrets": {"API_KEY": "mine"}});
    let outcome = scripted
        .workspace
        .refuse("greet", input, ErrorKind::InvalidInput)
        .await;
    assert_eq!(crate::workspace::pointer(&outcome), "/secrets");

    let manifest = manifest.replace("env:KEY", "env:OTHER");
    let scripted = Scripted::with(&manifest, "#!/bin/sh\ntouch ran\n");
    let outcome = scripted
        .workspace
        .refuse("greet", json!({"name": "Ada"}), ErrorKind::Unavailable)
        .await;
    let failure = outcome.error.as_ref().unwrap().to_string();
    assert!(failure.contains("there is no `env:OTHER`"), "{failure}");
    assert_eq!(scripted.workspace.bytes("ran"), None);
}

/// What the sandbox's proxy is configured from: the plan's own hosts, and no others.
#[tokio::test]
async fn r8_a_scripts_commands_reach_the_hosts_of_its_manifest_and_no_others() {
    let rules = |texts: &[&str]| -> Vec<HostRule> {
        let rules = texts.iter().map(|text| HostRule::parse(text).unwrap());
        rules.collect()
    };
    let planned = async |head: &str, tier: Tier| {
        let folder = tempfile::tempdir().unwrap();
        let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
        let mut operations = backend.operations();
        operations.tiers = [tier].into();
        let tool = ScriptTool::new(ScriptSource {
            manifest_text: MANIFEST.replace("\n[input]", &format!("{head}\n[input]")),
            program_path: "/nonexistent/greet.sh".to_owned(),
            sha256: [0; 32],
        });
        let tool = tool.unwrap().erased();
        let configured = EgressRules {
            allow: rules(&["everybody.example"]),
            deny: rules(&["evil.example"]),
        };
        let harness = Harness::on(operations)
            .configure(|builder| {
                builder
                    .provider(ProviderId::script(), vec![tool])
                    .egress(configured)
            })
            .sandbox("greet", SandboxMode::Off)
            .build();
        let outcome = harness.fail("greet", json!({"name": "Ada"})).await;
        plan_of(&harness, &outcome)
    };
    let hosts = |plan: &SealedPlan| -> Vec<String> {
        let hosts = plan.accesses().iter().filter_map(|access| match access {
            Access::Host { host, port } => Some(format!("{host}:{port}")),
            _ => None,
        });
        hosts.collect()
    };
    let own = "hosts = [\"docs.rs:443\", \"[::1]:8080\"]";
    let plan = planned(own, Tier::T2).await;
    assert_eq!(hosts(&plan), ["docs.rs:443", "[::1]:8080"]);
    assert!(plan.effects().open_world);
    let egress = plan.egress().expect("a way out");
    assert_eq!(egress.allow, rules(&["docs.rs:443", "[::1]:8080"]));
    assert_eq!(egress.deny, rules(&["evil.example"]));

    // Neither a key nor an empty list opens what is configured for everybody.
    for head in ["hosts = []", "secrets.API_KEY = \"env:KEY\""] {
        assert_eq!(planned(head, Tier::T2).await.egress(), None, "{head}");
    }
    let usual = planned("", Tier::T2).await;
    assert_eq!(usual.egress().unwrap().allow, rules(&["everybody.example"]));
    assert_eq!(planned(own, Tier::Host).await.egress(), None);
}

/// A script as a library offers it: found by its manifest, with hosts of its own and an argument that no
/// model sees.
#[tokio::test]
async fn a_script_of_a_factory_has_its_hosts_and_its_fixed_arguments() {
    let scripts = tempfile::tempdir().unwrap();
    let program = "#!/bin/sh\nread -r input\necho \"{\\\"got\\\": $input}\"\n";
    let path = scripts.path().join("greet.sh");
    write_program(&path, program);
    let manifest = MANIFEST.replace("\n[input]", "hosts = [\"docs.rs:443\"]\n\n[input]");
    let manifest = format!("{manifest}properties.tone = {{ type = \"string\" }}\n");
    let mut factory = Factory::builtin();
    factory.register_scripts(move |written| match written {
        "tools/greet.toml" => ScriptTool::new(ScriptSource {
            manifest_text: manifest.clone(),
            program_path: path.display().to_string(),
            sha256: Sha256::digest(program).into(),
        })
        .map_err(|error| error.to_string()),
        other => Err(format!("`{other}` is not trusted")),
    });
    let entry = |manifest: &str, arguments: serde_json::Value| {
        let entry = json!({
            "type": "script", "name": "greet_kindly",
            "config": {"manifest": manifest}, "arguments": arguments,
        });
        serde_json::from_value::<ToolEntry>(entry).unwrap()
    };
    let unknown = factory.build(&entry("other.toml", json!({})));
    let refused = unknown.err().expect("it is not trusted").to_string();
    assert!(refused.contains("`other.toml` is not trusted"), "{refused}");

    let tool = factory
        .build(&entry("tools/greet.toml", json!({"tone": "kind"})))
        .unwrap();
    let workspace = Workspace::local_with(|builder| {
        builder
            .configure(|builder| builder.provider(ProviderId::script(), vec![tool]))
            .sandbox("greet_kindly", SandboxMode::Off)
    });
    let tools = workspace.harness.runtime.registry().snapshot();
    let entry = tools.get("greet_kindly").expect("it is offered");
    let schema = entry.input_schema().to_string();
    assert!(!schema.contains("tone"), "{schema}");
    let outcome = workspace
        .succeed("greet_kindly", json!({"name": "Ada"}))
        .await;
    assert_eq!(
        structured(&outcome),
        &json!({"got": {"name": "Ada", "tone": "kind"}})
    );
    let plan = plan_of(&workspace.harness, &outcome);
    let host = plan.accesses().iter().find_map(|access| match access {
        Access::Host { host, port } => Some(format!("{host}:{port}")),
        _ => None,
    });
    assert_eq!(host.as_deref(), Some("docs.rs:443"));
    // Nobody sets it from outside, whatever they call it.
    workspace
        .refuse(
            "greet_kindly",
            json!({"name": "Ada", "tone": "rude"}),
            ErrorKind::InvalidInput,
        )
        .await;
}
