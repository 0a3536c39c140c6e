//! R24 and R25: scopes, routes of sub-agents, and callers that narrow themselves.

use haft_contract::{
    SessionKind,
    host::{
        Verdict::{Allow, Ask, Deny},
        Visibility,
    },
    identity::Scope,
};

use crate::world::{Call, check, policy, problem};

fn with_scopes(mut call: Call, scopes: &[&str]) -> Call {
    let parse = |scope: &&str| Scope::parse(scope).unwrap();
    call.principal.scopes = scopes.iter().map(parse).collect();
    call
}

fn narrowed(mut call: Call, kind: SessionKind) -> Call {
    call.principal.narrow_session(kind);
    call
}

#[test]
fn r25_a_tool_requires_scopes() {
    let rules = policy(
        r#"
        [policy]
        allow = ["write"]
        [tools.write]
        scopes = ["files.write", "files.any"]
        "#,
    );
    let write = || Call::write("a");
    // Twice, because the second answer is remembered: it must not be another's.
    for _ in 0..2 {
        check(&rules, &write(), Deny);
        check(&rules, &with_scopes(write(), &["files.write"]), Deny);
        let both = with_scopes(write(), &["files.any", "files.write", "mail"]);
        check(&rules, &both, Allow);
    }
    let without = with_scopes(write(), &["files.write"]);
    let Visibility::Hidden { reason, .. } = without.visibility(&rules) else {
        panic!("a tool that no call of this caller may use is shown");
    };
    assert_eq!(
        reason,
        "`tools.write.scopes = [\"files.any\"]` (haft.toml:5) denies every use of `write` to agent \
         `main`, because the caller's credential does not carry scope `files.any`"
    );
}

#[test]
fn r25_a_rule_names_a_scope() {
    let rules = policy(
        r#"
        [policy]
        ask = ["write(prod/**)"]
        [scopes."deploy"]
        allow = ["write"]
        "#,
    );
    let carries = |call: Call| with_scopes(call, &["deploy"]);
    for _ in 0..2 {
        check(&rules, &Call::write("out/a"), Ask);
        check(&rules, &carries(Call::write("out/a")), Allow);
        check(&rules, &with_scopes(Call::write("out/a"), &["other"]), Ask);
        // What a rule asks about, a scope does not open.
        check(&rules, &carries(Call::write("prod/a")), Ask);
    }
}

#[test]
fn r25_a_scope_can_only_allow() {
    for key in ["deny = [\"write\"]", "ask = []", "preset = \"locked\""] {
        let told = problem(&format!("[scopes.deploy]\n{key}"));
        assert!(
            told.contains("does not belong in [scopes.deploy], which can only allow"),
            "{told}"
        );
    }
    let told = problem("[tools.write]\nscopes = [\"a b\"]");
    assert!(told.contains("`a b` is not an identifier"), "{told}");
}

#[test]
fn r24_routes_of_sub_agents() {
    let rules = |route: &str| {
        policy(&format!(
            "[policy]\nallow = [\"write\"]\n[tools.write]\nsubagents = \"{route}\""
        ))
    };
    let own = || Call::write("a");
    let child = || Call::write("a").agent("child").started_by("main");
    let session = || Call::write("a").session(SessionKind::Subagent);
    for (route, verdict) in [("here", Allow), ("gateway", Deny), ("disabled", Deny)] {
        let rules = rules(route);
        for _ in 0..2 {
            check(&rules, &own(), Allow);
            check(&rules, &child(), verdict);
            check(&rules, &session(), verdict);
        }
    }
    for (route, why) in [
        (
            "gateway",
            "because calls of sub-agents run at the gateway, and this program is not one",
        ),
        ("disabled", "because another agent started it"),
    ] {
        let rules = rules(route);
        let Visibility::Hidden { reason, .. } = child().visibility(&rules) else {
            panic!("{route}: shown");
        };
        assert!(reason.ends_with(why), "{reason}");
        let decided = child().decide(&rules);
        assert!(decided.reason.contains(why), "{}", decided.reason);
        assert_eq!(own().visibility(&rules), Visibility::Advertised);
    }
    assert_eq!(
        problem("[tools.write]\nsubagents = \"disable\""),
        "haft.toml:2:13: unknown route `disable`\n  hint: did you mean `disabled`?"
    );
}

/// A caller that calls itself something else keeps every restriction it had.
#[test]
fn narrowing_never_widens() {
    let rules = policy(
        r#"
        [policy]
        allow = ["write", "bash(ls)"]
        [tools.bash]
        session = "non-main"
        [sessions.main]
        deny = ["write(private/**)"]
        [sessions.dm]
        preset = "locked"
        ask = ["write(docs/**)"]
        "#,
    );
    for _ in 0..2 {
        for kind in [SessionKind::Dm, SessionKind::Group, SessionKind::Cron] {
            let session = |call: Call| call.session(kind);
            check(&rules, &session(Call::write("private/a")), Allow);
            check(&rules, &narrowed(Call::write("private/a"), kind), Deny);
            check(&rules, &session(Call::bash("ls")), Allow);
            check(&rules, &narrowed(Call::bash("ls"), kind), Deny);
        }
        let dm = |call: Call| narrowed(call, SessionKind::Dm);
        check(&rules, &Call::write("docs/a"), Allow);
        // Asked in a direct message, and `locked` never asks.
        check(&rules, &dm(Call::write("docs/a")), Deny);
        check(&rules, &dm(Call::write("b")), Allow);
    }
}
