//! Who asks decides what is allowed: per agent, per session kind, in code and in text.

use haft::{
    LocalOptions,
    prelude::*,
    sandbox::{SandboxOptions, helper::Helper},
};

use crate::place::Place;

const RULES: &str = r#"
[policy]
preset = "careful"

[agents.writer]
allow = ["write(docs/**)"]

[agents.reviewer]
deny = ["write"]
"#;

#[tokio::test]
async fn r20_the_same_call_is_allowed_denied_or_asked_by_who_makes_it() {
    let place = Place::new();
    let haft = place
        .haft()
        .policy_text("haft.toml", RULES)
        .build()
        .await
        .unwrap();
    let input = json!({"path": "docs/a.md", "content": "a"});

    let writer = haft
        .agent("writer")
        .unwrap()
        .call("write", input.clone())
        .await;
    assert_eq!(
        writer.terminal,
        Terminal::Succeeded,
        "{}",
        writer.model_text()
    );

    let reviewer = haft
        .agent("reviewer")
        .unwrap()
        .call("write", input.clone())
        .await;
    assert_eq!(reviewer.terminal, Terminal::Denied);
    let decision = reviewer.facts.decision.clone().unwrap();
    assert_eq!(
        decision.rule.as_ref().unwrap().to_string(),
        "`write` (haft.toml:9)"
    );

    // An agent without a section, where others have one, is never simply allowed.
    let stranger = haft.agent("stranger").unwrap();
    let read = stranger.call("read", json!({"path": "docs/a.md"})).await;
    assert_eq!(read.terminal, Terminal::Denied, "{}", read.model_text());
}

#[tokio::test]
async fn r26_a_tool_that_is_denied_is_not_shown() {
    let place = Place::new();
    let haft = place
        .haft()
        .policy_text("haft.toml", RULES)
        .build()
        .await
        .unwrap();
    let shows_write = |agent: &str| {
        let tools = haft.agent(agent).unwrap().tools_as(Format::OpenAi);
        tools.iter().any(|tool| tool["function"]["name"] == "write")
    };
    assert!(shows_write("writer"));
    assert!(!shows_write("reviewer"));
}

#[tokio::test]
async fn r21_a_session_level_in_text_holds_for_the_sessions_of_an_embedder() {
    let place = Place::with(&[("a.txt", "a")]);
    let haft = place
        .haft()
        .policy_text("haft.toml", "[tools.read]\nsession = \"main\"\n")
        .build()
        .await
        .unwrap();
    let read = json!({"path": "a.txt"});
    assert!(haft.call("read", read.clone()).await.succeeded());
    let dm = haft.session("dm-1", SessionKind::Dm).unwrap();
    assert_eq!(dm.call("read", read).await.terminal, Terminal::Denied);
}

#[tokio::test]
async fn rules_in_code_allow_ask_and_deny() {
    let place = Place::with(&[("a.txt", "a"), ("secret.pem", "key")]);
    let haft = place
        .haft()
        .allow("write(out/**)")
        .ask("list")
        .deny("read(*.pem)")
        .build()
        .await
        .unwrap();
    let write = json!({"path": "out/x", "content": "x"});
    assert!(haft.call("write", write).await.succeeded());
    assert!(
        haft.call("read", json!({"path": "a.txt"}))
            .await
            .succeeded()
    );
    for (tool, input) in [
        ("list", json!({"path": "."})),
        ("read", json!({"path": "secret.pem"})),
        ("write", json!({"path": "elsewhere", "content": "x"})),
    ] {
        let outcome = haft.call(tool, input).await;
        assert_eq!(outcome.terminal, Terminal::Denied, "{tool}");
    }
}

#[tokio::test]
async fn r22_a_command_needs_a_sandbox_until_somebody_says_off() {
    let place = Place::new();
    let echo = json!({"command": "echo hello"});

    let nowhere = LocalOptions {
        sandbox: SandboxOptions {
            helper: Helper::Path("/nonexistent/helper".into()),
            ..SandboxOptions::default()
        },
        ..LocalOptions::default()
    };
    let haft = place
        .haft()
        .local(nowhere.clone())
        .allow("bash(echo hello)")
        .build()
        .await
        .unwrap();
    let refused = haft.call("bash", echo.clone()).await;
    assert_eq!(
        refused.terminal,
        Terminal::Denied,
        "{}",
        refused.model_text()
    );
    haft.close().await.unwrap();

    let haft = place
        .haft()
        .allow("bash(echo hello)")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let ran = haft.call("bash", echo.clone()).await;
    assert_eq!(ran.text().trim_end(), "hello");
    haft.close().await.unwrap();

    // Code and text disagree: the stronger one holds.
    let haft = place
        .haft()
        .local(nowhere)
        .allow("bash(echo hello)")
        .sandbox("bash", SandboxMode::Off)
        .policy_text("haft.toml", "[tools.bash]\nsandbox = \"full\"\n")
        .build()
        .await
        .unwrap();
    assert_eq!(haft.call("bash", echo).await.terminal, Terminal::Denied);
}
