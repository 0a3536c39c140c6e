//! R20, R21, R22 and R26.

use haft_contract::{
    SessionKind, ToolName,
    host::{
        Verdict::{Allow, Ask, Deny},
        Visibility,
    },
    ops::SandboxMode,
};
use haft_policy::SessionLevel;

use crate::world::{Call, check, policy};

#[test]
fn r20_agents_differ_by_tool_and_argument() {
    let rules = policy(
        r#"
        [policy]
        deny = ["read(**/.env)"]
        [agents.writer]
        allow = ["write(docs/**)"]
        [agents.reviewer]
        deny = ["write"]
        [agents.runner]
        preset = "workspace"
        "#,
    );
    check(&rules, &Call::write("docs/a.md").agent("writer"), Allow);
    check(&rules, &Call::write("src/a.rs").agent("writer"), Ask);
    check(&rules, &Call::write("docs/a.md").agent("reviewer"), Deny);
    check(&rules, &Call::write("src/a.rs").agent("runner"), Allow);
    for agent in ["writer", "reviewer", "runner"] {
        check(&rules, &Call::read(".env").agent(agent), Deny);
    }
}

#[test]
fn r20_a_sub_agent_is_never_wider_than_its_parents() {
    let rules = policy(
        r#"
        [agents.parent]
        deny = ["bash(git push)"]
        ask = ["read(secret/**)"]
        [agents.child]
        allow = ["bash(git push)", "bash(ls)", "read(secret/**)"]
        "#,
    );
    let child = |call: Call| call.agent("child");
    check(&rules, &child(Call::bash("git push")), Allow);
    check(
        &rules,
        &child(Call::bash("git push")).started_by("parent"),
        Deny,
    );
    check(
        &rules,
        &child(Call::read("secret/a")).started_by("parent"),
        Ask,
    );
    // What the parent may do only when asked, its child may do only when asked.
    check(&rules, &child(Call::bash("ls")).started_by("parent"), Ask);
    let reason = child(Call::bash("git push"))
        .started_by("parent")
        .decide(&rules)
        .reason;
    assert!(
        reason.ends_with("(for agent `parent`, which started `child`)"),
        "{reason}"
    );
}

#[test]
fn r20_sessions_and_channels_narrow() {
    let rules = policy(
        r#"
        [policy]
        allow = ["bash(ls)", "write"]
        [sessions.dm]
        preset = "locked"
        [channels.slack]
        ask = ["bash"]
        deny = ["write(prod/**)"]
        "#,
    );
    check(&rules, &Call::bash("ls"), Allow);
    check(&rules, &Call::bash("ls").channel("slack"), Ask);
    check(&rules, &Call::write("prod/a").channel("slack"), Deny);
    check(&rules, &Call::write("prod/a").channel("telegram"), Allow);
    check(&rules, &Call::bash("ls").session(SessionKind::Dm), Allow);
    check(&rules, &Call::bash("pwd").session(SessionKind::Dm), Deny);
}

#[test]
fn r21_session_levels_and_a_dm_is_never_main() {
    let level = |level: &str| {
        policy(&format!(
            "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsession = \"{level}\""
        ))
    };
    for kind in SessionKind::ALL {
        let call = Call::bash("ls").session(kind);
        let main = kind == SessionKind::Main;
        check(&level("always"), &call, Allow);
        check(&level("main"), &call, if main { Allow } else { Deny });
        check(&level("non-main"), &call, if main { Deny } else { Allow });
    }
    let dm = Call::bash("ls")
        .session(SessionKind::Dm)
        .decide(&level("main"));
    assert_eq!(
        dm.rule.unwrap().to_string(),
        "`tools.bash.session = \"main\"` (haft.toml:4)"
    );
    assert!(SessionLevel::Main.admits(SessionKind::Main));
    assert!(!SessionLevel::Main.admits(SessionKind::Dm));
    // Blocked is a deny for everyone, so an allow beside it is dead.
    let blocked = policy("[tools.bash]\nsession = \"blocked\"");
    for kind in SessionKind::ALL {
        check(&blocked, &Call::bash("ls").session(kind), Deny);
    }
}

#[test]
fn r22_sandbox_modes_are_read_per_tool() {
    let rules = policy(
        r#"
        [tools.bash]
        sandbox = "full"
        [tools.format]
        sandbox = "basic"
        timeout_ms = 5
        [tools.legacy]
        sandbox = "off"
        "#,
    );
    let mode = |tool: &str| {
        rules
            .tool_settings()
            .sandbox(&ToolName::parse(tool).unwrap())
    };
    assert_eq!(mode("bash"), Some(SandboxMode::Full));
    assert_eq!(mode("format"), Some(SandboxMode::Basic));
    assert_eq!(mode("legacy"), Some(SandboxMode::Off));
    assert_eq!(mode("read"), None);
}

#[test]
fn r26_denied_tools_are_hidden_and_the_reason_is_known() {
    let hidden = |call: &Call, text: &str| match call.visibility(&policy(text)) {
        Visibility::Advertised => None,
        Visibility::Hidden { reason, .. } => Some(reason),
    };
    let bash = Call::bash("ls");
    assert_eq!(hidden(&bash, ""), None);
    assert_eq!(hidden(&bash, "[policy]\nask = [\"bash\"]"), None);
    assert_eq!(hidden(&bash, "[policy]\ndeny = [\"bash(rm *)\"]"), None);
    assert_eq!(
        hidden(&bash, "[policy]\ndeny = [\"bash\"]").as_deref(),
        Some("`bash` (haft.toml:2) denies every use of `bash` to agent `main`")
    );
    assert!(hidden(&bash, "[policy]\ndeny = [\"bash(*)\"]").is_some());
    assert!(hidden(&bash, "[tools.bash]\nsession = \"blocked\"").is_some());
    let dm = bash.clone().session(SessionKind::Dm);
    assert!(hidden(&dm, "[tools.bash]\nsession = \"main\"").is_some());
    assert_eq!(hidden(&bash, "[tools.bash]\nsession = \"main\""), None);
    let locked = "[policy]\npreset = \"locked\"\nallow = [\"bash(ls)\"]";
    assert_eq!(hidden(&bash, locked), None);
    assert_eq!(
        hidden(&Call::read("a"), locked).as_deref(),
        Some("no rule allows any use of `read` to agent `main`, and preset `locked` never asks")
    );
    let parents = "[agents.parent]\ndeny = [\"bash\"]\n[agents.main]";
    assert!(hidden(&bash.clone().started_by("parent"), parents).is_some());
    assert_eq!(hidden(&bash, parents), None);
}

#[test]
fn r26_a_tool_that_is_hidden_is_also_denied() {
    for text in [
        "[policy]\ndeny = [\"bash\"]",
        "[policy]\npreset = \"locked\"",
        "[tools.bash]\nsession = \"blocked\"",
    ] {
        let rules = policy(text);
        assert_ne!(Call::bash("ls").visibility(&rules), Visibility::Advertised);
        check(&rules, &Call::bash("ls"), Deny);
    }
}
