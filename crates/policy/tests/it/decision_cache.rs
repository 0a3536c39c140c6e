//! Decisions are cached, and the next question may differ from the last one in a single thing. No
//! question gets the decision on another one.

use std::sync::Arc;

use haft_contract::{
    Access, Effects, SessionKind, WorkPath,
    egress::EgressRules,
    host::{
        Policy as _, Question, ToolFacts,
        Verdict::{self, Allow, Ask, Deny},
    },
    ops::Tier,
};
use haft_policy::CedarPolicy;

use crate::world::{Call, path, policy};

/// A call, and the effects its tool declares for all of its calls.
type DeclaredCall = (Call, Effects);

/// Asserts both answers of one policy, whichever question comes first.
#[track_caller]
fn apart(text: &str, first: (&DeclaredCall, Verdict), second: (&DeclaredCall, Verdict)) {
    for order in [[first, second], [second, first]] {
        let policy = policy(text);
        for (call, expect) in order {
            let decision = decide(&policy, call);
            assert_eq!(decision.0, expect, "{}", decision.1);
        }
    }
}

fn decide(policy: &CedarPolicy, (call, usual): &DeclaredCall) -> (Verdict, String) {
    let decision = policy.decide(&Question {
        tool: ToolFacts {
            touches: None,
            effects: *usual,
            ..call.facts()
        },
        ..call.question()
    });
    (decision.verdict, decision.reason.clone())
}

/// A call of a tool that declares what it does here.
fn plain(call: Call) -> DeclaredCall {
    let effects = call.parts.effects;
    (call, effects)
}

#[test]
fn nobody_gets_the_answer_for_another_caller() {
    let read = || Call::read("a");
    apart(
        "[sessions.cron]\ndeny = [\"read(a)\"]",
        (&plain(read()), Allow),
        (&plain(read().session(SessionKind::Cron)), Deny),
    );
    // The names of both lines are the same letters.
    apart(
        "[agents.main]\n[agents.ab]\n[agents.a]\n[agents.bc]\n[agents.c]\ndeny = [\"read(a)\"]",
        (&plain(read().started_by("a").started_by("bc")), Allow),
        (&plain(read().started_by("ab").started_by("c")), Deny),
    );
}

#[test]
fn no_tool_gets_the_answer_for_another_tool() {
    let greet = |provider: &str| Call::from(provider, "greet", vec![]);
    apart(
        "[policy]\nallow = [\"embedded/greet\"]",
        (&plain(greet("embedded")), Allow),
        (&plain(greet("mcp__x")), Ask),
    );
    let mut grouped = greet("embedded");
    grouped.groups = vec!["risky"];
    apart(
        "[policy]\nallow = [\"greet\"]\ndeny = [\"@risky\"]",
        (&plain(greet("embedded")), Allow),
        (&plain(grouped), Deny),
    );
    // What the tool declares counts, whatever this call of it does.
    let harmless = || greet("embedded").effects(Effects::READ_ONLY);
    apart(
        "[policy]\ndeny = [\"@destructive\"]",
        (&(harmless(), Effects::READ_ONLY), Allow),
        (&(harmless(), Effects::REPLACES), Deny),
    );
}

#[test]
fn no_call_gets_the_answer_for_another_call() {
    // What a call does may differ from what its tool declares.
    let does = |effects: Effects, accesses: Vec<Access>| -> DeclaredCall {
        let call = Call::from("embedded", "sync", accesses);
        (call.effects(effects), Effects::UNKNOWN)
    };
    apart(
        "",
        (&does(Effects::READ_ONLY, vec![]), Allow),
        (&does(Effects::CHANGES, vec![]), Ask),
    );
    let looks = Effects {
        open_world: true,
        ..Effects::READ_ONLY
    };
    let reads = || vec![Access::read(path("a"))];
    apart(
        "",
        (&does(looks, reads()), Allow),
        (&does(Effects::CHANGES, reads()), Ask),
    );
    let writes = vec![Access::write(path("a"))];
    apart(
        "[policy]\ndeny = [\"write(a)\"]",
        (&does(Effects::READ_ONLY, reads()), Allow),
        (&does(Effects::READ_ONLY, writes), Deny),
    );
}

#[test]
fn no_place_gets_the_answer_for_another_place() {
    let bash = |script: &str| Call::bash(script).tier(Tier::T2);
    // A star matches an unknown option only where nothing can be sent anywhere.
    let mut online = bash("deploy --force");
    online.parts.egress = Some(Arc::new(EgressRules {
        allow: vec![],
        deny: vec![],
    }));
    online.plan = online.parts.clone().seal();
    apart(
        "[policy]\nallow = [\"bash(deploy *)\"]",
        (&plain(bash("deploy --force")), Allow),
        (&plain(online), Ask),
    );
    let mut elsewhere = bash("cat /w/a");
    elsewhere.parts.workspace = "/v".into();
    elsewhere.plan = elsewhere.parts.clone().seal();
    apart(
        "[policy]\npreset = \"workspace\"",
        (&plain(bash("cat /w/a")), Allow),
        (&plain(elsewhere), Ask),
    );
    let inside = |directory: &str| {
        let cwd = WorkPath::relative(directory).unwrap();
        plain(Call::of("bash", vec![Access::shell("cat b", cwd)]).tier(Tier::T2))
    };
    apart(
        "[policy]\npreset = \"workspace\"\ndeny = [\"read(a/b)\"]",
        (&inside("c"), Allow),
        (&inside("a"), Deny),
    );
}
