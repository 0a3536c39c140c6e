//! `in_doubt = "sandbox"`: rules over commands that leave what is not understood to the sandbox; and
//! the commands that nobody is offered a rule for.

use haft_contract::{
    host::{
        Policy as _,
        Verdict::{Allow, Ask, Deny},
    },
    ops::Tier,
};
use haft_policy::grant::is_never_offered;

use crate::world::{Call, check, policy, problem};

const LEFT: &str = r#"
[policy]
preset = "workspace"
deny = [{ rule = ["bash(sudo *)", "bash(mkfs*)"], in_doubt = "sandbox" }]
"#;

fn sandboxed(script: &str) -> Call {
    Call::bash(script).tier(Tier::T2)
}

#[test]
fn a_rule_can_leave_what_is_not_understood_to_the_sandbox() {
    let asks =
        policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(sudo *)\", \"bash(mkfs*)\"]");
    let left = policy(LEFT);
    // What the words show is denied, wherever it stands.
    for script in [
        "sudo ls",
        "cd x && sudo ls",
        "bash -c 'sudo ls'",
        "mkfs.ext4 x",
    ] {
        check(&left, &sandboxed(script), Deny);
        check(&left, &Call::bash(script), Deny);
    }
    for script in [
        "make -j$(nproc)",
        "python3 -c 'print(1)'",
        "npx tsc --noEmit",
        "$X ls",
    ] {
        check(&asks, &sandboxed(script), Ask);
        check(&left, &Call::bash(script), Ask);
    }
    for script in [
        "make -j$(nproc)",
        "python3 -c 'print(1)'",
        "npx tsc --noEmit",
    ] {
        check(&left, &sandboxed(script), Allow);
    }
    // Another rule is still in doubt.
    let both = policy(&LEFT.replace("deny = [", "deny = [\"bash(git push *)\", "));
    check(&both, &sandboxed("make -j$(nproc)"), Ask);
}

#[test]
fn only_rules_that_restrict_commands_can() {
    for rules in [
        "allow = [{ rule = \"bash(ls)\", in_doubt = \"sandbox\" }]",
        "deny = [{ rule = \"read(**/.env)\", in_doubt = \"sandbox\" }]",
        "deny = [{ rule = \"bash\", in_doubt = \"sandbox\" }]",
    ] {
        let told = problem(&format!("[policy]\n{rules}"));
        assert!(told.contains("`in_doubt` changes nothing about"), "{told}");
    }
    let told = problem("[policy]\ndeny = [{ rule = \"bash(x)\", in_doubt = \"sandboxed\" }]");
    assert!(told.contains("did you mean `sandbox`?"), "{told}");
    let told = problem("[policy]\ndeny = [{ rule = [3] }]");
    assert!(told.contains("`rule` must be a string"), "{told}");
    let told = problem("[policy]\ndeny = [{ rule = [] }]");
    assert!(told.contains("`rule` is empty"), "{told}");
}

#[test]
fn nobody_is_offered_a_rule_for_what_ruins_a_machine() {
    let rules = policy("[policy]\npreset = \"careful\"");
    for script in [
        "sudo ls",
        "rm -rf ~",
        "rm -rf /",
        "touch a && rm -rf \"$HOME\"",
        "mkfs.ext4 disk.img",
        "dd if=a of=/dev/sdb",
        ":(){ :|:& };:",
    ] {
        for call in [Call::bash(script), sandboxed(script)] {
            check(&rules, &call, Ask);
            let offered = rules.proposals(&call.question());
            assert!(offered.is_empty(), "{script}: {offered:?}");
        }
    }
    // No grant covers what is typed, but a hint could name a rule for it.
    for (text, never) in [("sudo ls\n", true), ("ls\n", false)] {
        let typed = Call::types(text, "bash").tier(Tier::T2);
        check(&rules, &typed, Ask);
        assert!(rules.proposals(&typed.question()).is_empty());
        assert_eq!(is_never_offered(typed.question().plan), never, "{text}");
    }
    let offered = rules.proposals(&sandboxed("rm -rf build").question());
    assert!(!offered.is_empty());
}

#[test]
fn a_rule_can_name_together_what_ruins_a_machine() {
    let asks = policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(@ruinous)\"]");
    let left = policy(
        "[policy]\npreset = \"workspace\"\ndeny = [{ rule = \"bash(@ruinous)\", in_doubt = \"sandbox\" }]",
    );
    for rules in [&asks, &left] {
        for script in [
            "sudo ls",
            "cd x; rm -rf $HOME",
            "rm -rf \"$HOME\"",
            "dd if=a of=/dev/sdb",
            "echo; b() { b | b & }; b",
        ] {
            check(rules, &sandboxed(script), Deny);
            check(rules, &Call::bash(script), Deny);
        }
        check(rules, &sandboxed("rm -rf build/x && echo sudo"), Ask);
        check(rules, &sandboxed("mkdir -p build && echo sudo"), Allow);
    }
    // Where a word is known only when it runs, the rule may apply.
    for script in ["dd if=a of=$B", "make -j$(nproc)"] {
        check(&asks, &sandboxed(script), Ask);
        check(&left, &Call::bash(script), Ask);
    }
    check(&left, &sandboxed("make -j$(nproc)"), Allow);
    let asking = policy("[policy]\nallow = [\"bash\"]\nask = [\"bash(@ruinous)\"]");
    check(&asking, &Call::bash("sudo ls"), Ask);
    check(&asking, &Call::bash("ls"), Allow);
}

#[test]
fn a_group_of_commands_is_for_deny_and_ask_and_must_exist() {
    for rules in [
        "deny = [\"bash(@ruin)\"]",
        "allow = [\"bash(@ruinous)\"]",
        "ask = [\"bash(@ruinous x)\"]",
    ] {
        let told = problem(&format!("[policy]\n{rules}"));
        assert!(told.contains("can never match"), "{told}");
    }
    let example =
        "{ rule = \"bash(@ruinous)\", matches = [\"x; sudo ls\"], not_matches = [\"ls\"] }";
    policy(&format!("[policy]\ndeny = [{example}]"));
    let wrong = example.replace("sudo ls", "ls sudo");
    let told = problem(&format!("[policy]\ndeny = [{wrong}]"));
    assert!(told.contains("does not match its example"), "{told}");
}
