//! Rules written in code: by host and by action, for tools that come later, for one agent, and
//! replaced while the host runs.

use haft::{PolicySource, RulesInCode, contract::erased::erase, prelude::*};
use haft_contract::{ProviderId, host::Policy as _};

use crate::place::Place;

/// Deploys to a host, or says how that went.
struct DeployTool;

#[derive(Deserialize, JsonSchema)]
struct Deploy {
    host: String,
    rollout: bool,
}

impl Tool for DeployTool {
    type Input = Deploy;
    type Output = String;
    type Progress = NoProgress;
    const NAME: &'static str = "deploy";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Deploy", "Deploys to a host.")
            .action("rollout", Deadline::default())
            .action("status", Deadline::default())
    }

    fn plan(&self, input: &Deploy, _: &PlanContext) -> Result<Plan, ToolError> {
        let action = if input.rollout { "rollout" } else { "status" };
        let host = input.host.clone();
        Ok(Plan::new(Effects::UNKNOWN)
            .action(action)
            .access(Access::Host { host, port: 443 }))
    }

    async fn run(&self, input: Deploy, _: CallContext<NoProgress>) -> Result<String, ToolError> {
        Ok(input.host)
    }
}

async fn deploy(haft: &Haft, host: &str, rollout: bool) -> Terminal {
    let input = json!({"host": host, "rollout": rollout});
    haft.call("deploy", input).await.terminal
}

#[tokio::test]
async fn rules_name_hosts_and_actions_of_a_tool() {
    let place = Place::new();
    let haft = place
        .haft()
        .tool(DeployTool)
        .allow("deploy")
        .deny("deploy(prod.example.com)")
        .deny("deploy(action:rollout)")
        .build()
        .await
        .unwrap();
    for (host, rollout, expect) in [
        ("test.example.com", false, Terminal::Succeeded),
        ("test.example.com", true, Terminal::Denied),
        ("prod.example.com", false, Terminal::Denied),
        ("db.prod.example.com", false, Terminal::Denied),
    ] {
        let terminal = deploy(&haft, host, rollout).await;
        assert_eq!(terminal, expect, "{host} {rollout}");
    }
    haft.close().await.unwrap();
}

#[tokio::test]
async fn a_misspelt_action_or_tool_is_an_error_and_a_later_tool_is_not() {
    let place = Place::new();
    for (rule, says) in [
        ("deploy(action:rolout)", "did you mean `action:rollout`?"),
        ("deplyo(action:rollout)", "did you mean `deploy`?"),
    ] {
        let built = place.haft().tool(DeployTool).deny(rule).build().await;
        let refused = built.unwrap_err();
        let hint = refused.hint();
        assert!(hint.contains(says), "{refused}: {hint}");
    }
    let haft = place
        .haft()
        .allow("future:deploy")
        .deny("future:deploy(action:rollout)")
        .ask("future:embedded/deploy(prod.example.com)")
        .build()
        .await
        .unwrap();
    assert_eq!(deploy(&haft, "a.example", false).await, Terminal::Failed);
    let tool = erase(DeployTool).unwrap();
    let registry = haft.runtime().registry();
    registry
        .register(&ProviderId::embedded(), vec![tool])
        .unwrap();
    assert_eq!(deploy(&haft, "a.example", false).await, Terminal::Succeeded);
    assert_eq!(deploy(&haft, "a.example", true).await, Terminal::Denied);
    // Nobody is there to be asked.
    assert_eq!(
        deploy(&haft, "prod.example.com", false).await,
        Terminal::Denied
    );
    haft.close().await.unwrap();
}

#[tokio::test]
async fn an_agent_has_rules_of_its_own_in_code() {
    let place = Place::with(&[("a", "a")]);
    let haft = place
        .haft()
        .allow("write")
        .for_agent("writer", |rules| rules)
        .for_agent("reader", |rules| rules.deny("@changes"))
        .for_session(SessionKind::Cron, |rules| rules.deny("write"))
        .build()
        .await
        .unwrap();
    let (writer, reader) = (haft.agent("writer").unwrap(), haft.agent("reader").unwrap());
    let write = || json!({"path": "b", "content": "b"});
    assert!(writer.call("write", write()).await.succeeded());
    assert_eq!(
        reader.call("write", write()).await.terminal,
        Terminal::Denied
    );
    assert!(reader.call("read", json!({"path": "a"})).await.succeeded());
    // What it may not use at all is not shown to it.
    let shown = |haft: &Haft| -> Vec<String> {
        let tools = haft.tools();
        tools
            .iter()
            .map(|tool| tool.key().tool.to_string())
            .collect()
    };
    assert!(shown(&writer).contains(&"write".to_owned()));
    for tool in ["write", "edit", "bash"] {
        assert!(!shown(&reader).contains(&tool.to_owned()), "{tool}");
    }
    let nightly = writer.session("night", SessionKind::Cron).unwrap();
    assert_eq!(
        nightly.call("write", write()).await.terminal,
        Terminal::Denied
    );
    haft.close().await.unwrap();
    // The lint is that of a file.
    let misspelt = place
        .haft()
        .for_agent("reader", |rules| rules.deny("wriet"));
    assert!(misspelt.build().await.is_err());
}

#[tokio::test]
async fn rules_in_code_are_replaced_whole_and_the_record_names_the_version() {
    let place = Place::with(&[("a", "a")]);
    let haft = place.haft().allow("write").build().await.unwrap();
    let before = haft.policy().current().version();
    // One of them has no effect, so none of them counts.
    let wrong = RulesInCode::new().deny("write").deny("raed");
    let refused = haft.policy().replace(wrong).unwrap_err();
    assert!(refused.to_string().contains("raed"), "{refused}");
    assert_eq!(haft.policy().current().version(), before);
    let write = || json!({"path": "b", "content": "b"});
    assert!(haft.call("write", write()).await.succeeded());

    let rules = RulesInCode::new()
        .deny("write")
        .for_agent("writer", |rules| rules.allow("edit"))
        .policy_text("team.toml", "[policy]\ndeny = [\"read(a)\"]\n");
    let now = haft.policy().replace(rules).unwrap();
    assert_ne!(now, before);
    let writer = haft.agent("writer").unwrap();
    for (tool, input, source) in [
        ("write", write(), "code"),
        ("read", json!({"path": "a"}), "team.toml"),
    ] {
        let outcome = writer.call(tool, input).await;
        assert_eq!(outcome.terminal, Terminal::Denied);
        let tenant = &writer.principal().tenant;
        let events = haft.ledger().events(tenant, outcome.call).await.unwrap();
        let decided = events.iter().find(|event| event.kind == "decided").unwrap();
        assert_eq!(decided.body["policy"], now.0);
        assert_eq!(decided.body["rule"]["source"], source);
    }
    // A text alone, as before.
    let text = PolicySource::new("new.toml", "[policy]\nallow = [\"write\"]\n");
    let third = haft.policy().replace(text).unwrap();
    assert_ne!(third, now);
    assert!(haft.call("write", write()).await.succeeded());
    haft.close().await.unwrap();
}
