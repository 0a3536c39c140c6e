//! Standing approvals: what they open, what they never open, and which ones are proposed.

use std::sync::Arc;

use haft_contract::{
    Access, AgentId, PathAccess, PathMode, PathScope, SessionId, TenantId, UserId, WorkPath,
    access::{Command, CommandAccess, SoleAccess},
    host::{
        Decision, Grant, GrantBreadth, GrantId, GrantProposal, GrantScope, Policy as _, Question,
        Timestamp, Verdict,
    },
    ops::Tier,
};
use haft_policy::{CedarPolicy, GrantRule, Preset};
use proptest::prelude::*;

use crate::world::{Call, check, path, policy, through, workspace};

const CAREFUL: &str = "[policy]\npreset = \"careful\"\n";

/// A grant for the workspace of the user `ada`, as in [`Call`].
pub(crate) fn grant(rule: &str) -> Grant {
    Grant {
        id: GrantId::new(),
        tenant: TenantId::parse("local").unwrap(),
        user: UserId::parse("ada").unwrap(),
        rule: rule.to_owned(),
        scope: GrantScope::Project(workspace("local")),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: Timestamp(0),
        cause: None,
    }
}

fn decide(policy: &CedarPolicy, call: &Call, grants: &[Grant]) -> Decision {
    let decision = policy.decide(&Question {
        grants,
        ..call.question()
    });
    Arc::unwrap_or_clone(decision)
}

fn with(policy: &CedarPolicy, call: &Call, rules: &[&str]) -> Decision {
    let grants: Vec<Grant> = rules.iter().map(|rule| grant(rule)).collect();
    decide(policy, call, &grants)
}

#[track_caller]
fn opens(rules: &[&str], call: &Call) {
    let policy = policy(CAREFUL);
    check(&policy, call, Verdict::Ask);
    let decision = with(&policy, call, rules);
    assert_eq!(decision.verdict, Verdict::Allow, "{}", decision.reason);
    // Nothing of it is remembered for a question without grants.
    check(&policy, call, Verdict::Ask);
}

#[track_caller]
fn leaves(rules: &[&str], call: &Call) {
    let policy = policy(CAREFUL);
    check(&policy, call, Verdict::Ask);
    let decision = with(&policy, call, rules);
    assert_eq!(decision.verdict, Verdict::Ask, "{}", decision.reason);
    assert!(decision.grants.is_empty());
}

/// In a sandbox where no preset allows what only builds.
fn bash(script: &str) -> Call {
    Call::bash(script).tier(Tier::T1)
}

/// In a sandbox without network, and asked about because it stays.
fn held(script: &str) -> Call {
    Call::staying_bash(script).tier(Tier::T2)
}

fn proposals(policy: &CedarPolicy, call: &Call) -> Vec<GrantProposal> {
    policy.proposals(&call.question())
}

/// The proposed rules, as lines of breadth and rules.
fn proposed(call: &Call) -> Vec<String> {
    proposals(&policy(CAREFUL), call)
        .iter()
        .map(|proposal| format!("{:?}: {}", proposal.breadth, proposal.rules.join(" + ")))
        .collect()
}

#[test]
fn a_grant_answers_for_the_person_who_would_be_asked() {
    opens(&["bash(cargo test *)"], &bash("cargo test -p x"));
    opens(&["bash(cargo test *)"], &bash("cargo test"));
    opens(&["bash(cargo test -p x)"], &bash("cargo test -p x"));
    opens(&["write(src/**)"], &Call::write("src/a.rs"));
    opens(&["write(README.md)"], &Call::write("README.md"));
    leaves(&["bash(cargo test *)"], &bash("cargo build"));
    leaves(&["write(src/**)"], &Call::write("tests/a.rs"));
    leaves(&["edit(src/**)"], &Call::write("src/a.rs"));
}

#[test]
fn a_host_is_named_by_itself_where_a_tool_reaches_hosts_alone() {
    let fetch = |port| {
        let host = "127.0.0.1".to_owned();
        Call::of("web_fetch", vec![Access::Host { host, port }])
    };
    let alone = |port| fetch(port).touches_only(SoleAccess::Hosts);
    for port in [80, 38471] {
        opens(&["web_fetch(127.0.0.1)"], &alone(port));
        opens(&["web_fetch(domain:127.0.0.1)"], &alone(port));
        opens(&["web_fetch(domain:127.0.0.1)"], &fetch(port));
        leaves(&["web_fetch(127.0.0.2)"], &alone(port));
        // Where a file may be what was agreed to, it is not taken for a host.
        leaves(&["web_fetch(127.0.0.1)"], &fetch(port));
    }
    let rule = GrantRule::parse("web_fetch(127.0.0.1)").unwrap();
    let meaning = rule.meaning_for(Some(SoleAccess::Hosts));
    assert_eq!(meaning, "`web_fetch` may reach the host `127.0.0.1`");
    assert_eq!(rule.meaning(), "`web_fetch` on `127.0.0.1`");
    let every = GrantRule::parse("web_fetch(domain:*.example.com)").unwrap();
    assert_eq!(every.meaning(), every.meaning_for(Some(SoleAccess::Hosts)));
}

#[test]
fn every_command_of_a_script_needs_its_own() {
    leaves(&["bash(cargo test *)"], &bash("cargo test && touch x"));
    opens(
        &["bash(cargo test *)", "bash(touch *)"],
        &bash("cargo test && touch x"),
    );
    leaves(&["bash(npm test)"], &bash("npm test; rm -rf ~"));
    leaves(&["bash(cargo test *)"], &bash("cargo test $(touch x)"));
}

#[test]
fn the_decision_names_the_grants_it_rests_on() {
    let policy = policy(CAREFUL);
    let grants = [
        grant("bash(make x)"),
        grant("bash(cargo test *)"),
        grant("bash(touch *)"),
    ];
    let decision = decide(&policy, &bash("cargo test && touch x"), &grants);
    assert_eq!(decision.grants, [grants[1].id, grants[2].id]);
    let rule = decision.rule.unwrap();
    assert_eq!(rule.text, "bash(cargo test *)");
    let short: String = grants[1].id.to_string().chars().take(13).collect();
    assert_eq!(rule.source, format!("grant {short}"));
    assert!(
        decision.reason.contains("allows running `cargo test`"),
        "{}",
        decision.reason
    );
}

#[test]
fn a_counted_grant_is_spared_where_another_covers_it() {
    let policy = policy(CAREFUL);
    let counted = Grant {
        uses_left: Some(3),
        ..grant("bash(cargo test *)")
    };
    let plain = grant("bash(cargo test -q)");
    let decision = decide(&policy, &bash("cargo test -q"), &[counted, plain.clone()]);
    assert_eq!(decision.grants, [plain.id]);
}

#[test]
fn a_grant_for_somebody_or_somewhere_else_opens_nothing() {
    let policy = policy(CAREFUL);
    let call = bash("cargo test");
    let of = |change: &dyn Fn(&mut Grant)| {
        let mut grant = grant("bash(cargo test *)");
        change(&mut grant);
        decide(&policy, &call, &[grant]).verdict
    };
    let agent = |name: &str| GrantScope::Agent(AgentId::parse(name).unwrap());
    let session = |name: &str| GrantScope::Session(SessionId::parse(name).unwrap());
    assert_eq!(of(&|_| ()), Verdict::Allow);
    assert_eq!(of(&|g| g.scope = agent("main")), Verdict::Allow);
    assert_eq!(of(&|g| g.scope = session("s1")), Verdict::Allow);
    assert_eq!(of(&|g| g.scope = agent("other")), Verdict::Ask);
    assert_eq!(of(&|g| g.scope = session("s2")), Verdict::Ask);
    assert_eq!(
        of(&|g| g.scope = GrantScope::Project(workspace("elsewhere"))),
        Verdict::Ask
    );
    assert_eq!(
        of(&|g| g.user = UserId::parse("eve").unwrap()),
        Verdict::Ask
    );
    assert_eq!(of(&|g| g.uses_left = Some(0)), Verdict::Ask);
    assert_eq!(
        of(&|g| g.tenant = TenantId::parse("other").unwrap()),
        Verdict::Ask
    );
}

#[test]
fn a_grant_for_an_agent_says_nothing_of_the_one_that_started_it() {
    let policy = policy(CAREFUL);
    let call = bash("cargo test").agent("child").started_by("parent");
    let mut own = grant("bash(cargo test)");
    assert_eq!(
        decide(&policy, &call, &[own.clone()]).verdict,
        Verdict::Allow
    );
    own.scope = GrantScope::Agent(AgentId::parse("child").unwrap());
    assert_eq!(decide(&policy, &call, &[own]).verdict, Verdict::Ask);
}

#[test]
fn a_grant_never_opens_a_denial() {
    let rules = [
        "bash(cargo test *)",
        "bash(cargo test)",
        "write(**)",
        "write",
    ];
    let denying = policy(
        "[policy]\npreset = \"careful\"\ndeny = [\"bash(cargo test)\", \"write(src/**)\"]\n",
    );
    for call in [
        bash("cargo test"),
        Call::write("src/a.rs"),
        Call::write(".git/config"),
    ] {
        assert_eq!(with(&denying, &call, &rules).verdict, Verdict::Deny);
    }
    // A rule that can match nothing denies everything its tool does.
    let unmatched = policy("[policy]\ndeny = [\"deploy(production)\"]");
    let host = Access::Host {
        host: "test.example.com".to_owned(),
        port: 443,
    };
    let deploy = Call::from("embedded", "deploy", vec![host]);
    assert_eq!(
        with(&unmatched, &deploy, &["deploy"]).verdict,
        Verdict::Deny
    );
    // Where nobody is asked, nobody can be answered for.
    let locked = CedarPolicy::preset(Preset::Locked).unwrap();
    assert_eq!(
        with(&locked, &bash("cargo test"), &rules).verdict,
        Verdict::Deny
    );
}

#[test]
fn a_grant_answers_an_ask_rule_too() {
    let asking = policy("[policy]\npreset = \"workspace\"\nask = [\"bash(git push)\"]\n");
    let call = bash("git push origin main");
    check(&asking, &call, Verdict::Ask);
    assert_eq!(
        with(&asking, &call, &["bash(git push origin *)"]).verdict,
        Verdict::Allow
    );
    assert_eq!(
        with(&asking, &call, &["bash(git pull *)"]).verdict,
        Verdict::Ask
    );
    let tool = policy("[policy]\npreset = \"workspace\"\nask = [\"bash\"]\n");
    assert_eq!(
        with(&tool, &bash("ls"), &["bash(ls)"]).verdict,
        Verdict::Allow
    );
}

#[test]
fn a_path_must_be_covered_where_it_leads_too() {
    let link = Call::of(
        "write",
        vec![through(Access::write(path("src/link")), "tests/a.rs")],
    );
    leaves(&["write(src/**)"], &link);
    opens(
        &["write(src/**)"],
        &Call::of(
            "write",
            vec![through(Access::write(path("src/a")), "src/b")],
        ),
    );
}

/// SH-48: on the host, what files of the workspace say is never granted.
#[test]
fn sh_48_what_the_workspace_says_is_granted_only_in_a_sandbox() {
    let on_host = Call::bash("npm test").tier(Tier::Host);
    leaves(&["bash(npm test)"], &on_host);
    leaves(&["bash(npm test *)"], &on_host);
    assert!(proposed(&on_host).is_empty());
    opens(&["bash(npm test)"], &bash("npm test"));
}

/// What people repeat is granted once, where a sandbox without network holds whatever it runs.
#[test]
fn a_test_runner_is_granted_by_prefix_in_a_sandbox_only() {
    for (rule, script) in [
        ("bash(python3 -m pytest *)", "python3 -m pytest"),
        (
            "bash(python3 -m pytest *)",
            "python3 -m pytest -x -q tests/test_a.py",
        ),
        (
            "bash(.venv/bin/python -m pytest *)",
            ".venv/bin/python -m pytest -q",
        ),
        ("bash(.venv/bin/pytest *)", ".venv/bin/pytest -q tests"),
        ("bash(npm test)", "npm test"),
        ("bash(npm test *)", "npm test -- --run"),
        ("bash(cargo test *)", "cargo test -p x"),
    ] {
        opens(&[rule], &held(script));
        leaves(&[rule], &Call::staying_bash(script).tier(Tier::Host));
    }
    let rule = "bash(python3 -m pytest *)";
    for script in [
        "python3 -m pip install x",
        "python3 -m pytest /etc",
        "python3 -m pytest ../other",
        "python3 -c 'import pytest' -m pytest",
        "python3 -i -m pytest",
        "python3 -m pytest $X",
        "python3 -m pytest && touch x",
        "python3 -m pytest $(touch x)",
        "X=1 python3 -m pytest; python3 x.py",
    ] {
        leaves(&[rule], &held(script));
    }
}

#[test]
fn a_star_never_leaves_the_workspace() {
    for script in [
        "touch /etc/x",
        "touch ~/x",
        "touch ../x",
        "touch a/../../x",
        "cp --target-directory=/etc a",
    ] {
        leaves(&["bash(touch *)", "bash(cp *)"], &bash(script));
    }
    opens(&["bash(touch *)"], &bash("touch /w/src/x"));
}

/// AP-11: "always allow" on a wrapper or an interpreter is the exact command or nothing.
#[test]
fn ap_11_wrappers_and_interpreters_are_never_granted_by_prefix() {
    for rule in [
        "bash",
        "builtin/bash",
        "bash(*)",
        "bash(* x)",
        "@all",
        "@process",
        "*",
        "b*",
        "process*",
        "bash(bash -c *)",
        "bash(bash -lc *)",
        "bash(sh *)",
        "bash(/bin/sh -c *)",
        "bash(env *)",
        "bash(/usr/bin/env *)",
        "bash(env X=1 cargo *)",
        "bash(python -c *)",
        "bash(python3 *)",
        "bash(python3.12 -c *)",
        "bash(python3 -m *)",
        "bash(python3 -m pip *)",
        "bash(python3 -m http.server *)",
        "bash(python3 -m pytest* *)",
        "bash(python3 -m pytest -p *)",
        "bash(node -e *)",
        "bash(perl *)",
        "bash(xargs *)",
        "bash(sudo *)",
        "bash(timeout 5 *)",
        "bash(npx *)",
        "bash(make *)",
        "bash(find . *)",
        "bash(awk *)",
        "bash(docker run *)",
        "bash(git -c alias.x=!sh *)",
        "bash(sort -o *)",
    ] {
        let refused = GrantRule::parse(rule).expect_err(rule);
        assert!(!refused.to_string().is_empty() && !refused.hint().is_empty());
        // Kept all the same, it covers nothing.
        for script in [
            "bash -c 'touch x'",
            "env X=1 cargo test",
            "python -c 'import os'",
            "touch x",
        ] {
            leaves(&[rule], &bash(script));
        }
    }
    for script in [
        "bash -c 'touch x'",
        "env X=1 cargo test",
        "python -c 'print(1)'",
        "find . -delete",
    ] {
        let call = bash(script);
        let exact = format!("bash({script})");
        opens(&[&exact], &call);
        leaves(&[&exact], &bash(&format!("{script}; touch y")));
        assert_eq!(proposed(&call), [format!("Exact: {exact}")]);
    }
    leaves(&["bash(bash -c 'touch x')"], &bash("bash -c 'touch y'"));
}

/// AP-12: a prefix never reaches out of the workspace, wherever in a word the path stands.
#[test]
fn ap_12_a_prefix_does_not_cover_paths_outside() {
    for words in [
        "-C/etc x",
        "if=/etc/passwd",
        "@/etc/passwd",
        "file:///etc/passwd",
        "--x=/etc",
        "--x=~/a",
        "~/a",
        "-I../a",
        "--x=a/../../b",
        "a:/etc/passwd",
    ] {
        let call = bash(&format!("mytool sub {words}"));
        leaves(&["bash(mytool sub *)"], &call);
    }
    for words in ["", "a", "--x=src/a", "-p a", "https://x/y", "a=b"] {
        let call = Call::bash(format!("mytool sub {words}").trim_end()).tier(Tier::T2);
        opens(&["bash(mytool sub *)"], &call);
    }
    for script in ["tar xIf id a", "tar xf a -C/etc", "tar x --absolute-names"] {
        leaves(&["bash(tar *)"], &bash(script));
    }
    for rule in [
        "bash(prlimit *)",
        "bash(/lib64/ld-linux-x86-64.so.2 *)",
        "bash(gh *)",
    ] {
        assert!(GrantRule::parse(rule).is_err(), "{rule}");
    }
}

/// AP-12: a prefix never reaches words that make the program do something else.
#[test]
fn ap_12_a_prefix_does_not_cover_hazardous_forms() {
    let rules = ["bash(git *)", "bash(git log *)", "bash(git fetch *)"];
    for script in [
        "git -c alias.x='!touch y' x",
        "git -c core.fsmonitor=./p status",
        "git log --output=x",
        "git fetch --upload-pack=./p origin",
        "git log $(touch x)",
        "git grep -O./p x",
        "git $X",
    ] {
        leaves(&rules, &bash(script));
    }
    opens(&rules, &bash("git add x"));
    opens(&rules, &bash("git commit -m x"));
    let denying = policy("[policy]\npreset = \"careful\"\ndeny = [\"bash(git push)\"]\n");
    assert_eq!(
        with(&denying, &bash("git -C . push"), &rules).verdict,
        Verdict::Deny
    );
}

#[test]
fn the_narrowest_rule_is_proposed_first() {
    for (script, expect) in [
        (
            "cargo test -p x",
            vec!["Exact: bash(cargo test -p x)", "Prefix: bash(cargo test *)"],
        ),
        (
            "git commit -m 'a b'",
            vec![
                "Exact: bash(git commit -m 'a b')",
                "Prefix: bash(git commit *)",
            ],
        ),
        (
            "npm run build",
            vec![
                "Exact: bash(npm run build)",
                "Prefix: bash(npm run build *)",
                "Prefix: bash(npm run *)",
            ],
        ),
        (
            "python3 -m pytest -q tests/test_a.py",
            vec![
                "Exact: bash(python3 -m pytest -q tests/test_a.py)",
                "Prefix: bash(python3 -m pytest *)",
            ],
        ),
        (
            ".venv/bin/python -m pytest",
            vec![
                "Exact: bash(.venv/bin/python -m pytest)",
                "Prefix: bash(.venv/bin/python -m pytest *)",
            ],
        ),
        (
            ".venv/bin/pytest -q tests",
            vec![
                "Exact: bash(.venv/bin/pytest -q tests)",
                "Program: bash(.venv/bin/pytest *)",
            ],
        ),
        (
            "npm test",
            vec!["Exact: bash(npm test)", "Prefix: bash(npm test *)"],
        ),
        (
            "python3 -m http.server",
            vec!["Exact: bash(python3 -m http.server)"],
        ),
        (
            "python3 -c 'print(41+1)'",
            vec!["Exact: bash(python3 -c 'print(41+1)')"],
        ),
        (
            "touch src/a.rs",
            vec!["Exact: bash(touch src/a.rs)", "Program: bash(touch *)"],
        ),
        ("git -C . push", vec!["Exact: bash(git -C . push)"]),
        ("rm *.o", vec!["Exact: bash(rm \\*.o)"]),
        (
            "cargo test && git commit -m x",
            vec![
                "Exact: bash(cargo test && git commit -m x)",
                "Prefix: bash(cargo test *) + bash(git commit *)",
            ],
        ),
        ("cat a > b", vec!["Exact: bash(cat a > b)"]),
        ("cat /etc/passwd", vec!["Exact: bash(cat /etc/passwd)"]),
        ("$X", vec!["Exact: bash($X)"]),
    ] {
        assert_eq!(proposed(&held(script)), expect, "{script}");
    }
    assert_eq!(
        proposed(&Call::write("src/a[1].rs")),
        ["Exact: write(src/a\\[1\\].rs)", "Prefix: write(src/**)"]
    );
    assert_eq!(
        proposed(&Call::write("README.md")),
        ["Exact: write(README.md)"]
    );
    assert_eq!(
        proposed(&Call::of("web_fetch", vec![host("docs.rs")])),
        ["Hosts: web_fetch(domain:docs.rs)"]
    );
    let remote = Access::RemoteTool {
        provider: "github".to_owned(),
        tool: "x".to_owned(),
    };
    assert_eq!(
        proposed(&Call::from("github", "mcp__github__x", vec![remote])),
        ["Program: mcp__github__x"]
    );
}

#[test]
fn nothing_is_proposed_for_what_cannot_be_granted() {
    let typed = Call::types("rm -rf /", "bash");
    assert!(proposed(&typed).is_empty());
    let many: Vec<Access> = (0..9)
        .map(|n| Access::write(path(&format!("f{n}"))))
        .collect();
    assert!(proposed(&Call::of("patch", many)).is_empty());
    assert!(proposed(&Call::read("a")).is_empty(), "it is allowed");
    let denying = policy("[policy]\npreset = \"careful\"\ndeny = [\"bash(touch)\"]\n");
    assert!(proposals(&denying, &bash("touch x")).is_empty());
    let long = format!("touch {}", "x".repeat(2000));
    assert_eq!(proposed(&bash(&long)), ["Program: bash(touch *)"]);
}

#[test]
fn what_a_deny_may_speak_of_is_granted_only_word_for_word() {
    let denying = policy("[policy]\npreset = \"workspace\"\ndeny = [\"read(**/.env)\"]\n");
    // What `$F` is cannot be known, and `.env` may be the name of a file.
    for script in ["somecat $F", "somecat .env"] {
        let call = bash(script);
        check(&denying, &call, Verdict::Ask);
        let decision = with(&denying, &call, &["bash(somecat *)"]);
        assert_eq!(decision.verdict, Verdict::Ask, "{}", decision.reason);
        let decision = with(&denying, &call, &[&format!("bash({script})")]);
        assert_eq!(decision.verdict, Verdict::Allow, "{}", decision.reason);
    }
}

#[test]
fn what_a_grant_means_is_said_in_words() {
    for (rule, says) in [
        ("bash(cargo test *)", "begins with the words `cargo test`"),
        ("bash(touch *)", "the program `touch` with any words"),
        ("bash(echo \\*)", "exactly this command: `echo *`"),
        ("write(src/**)", "`write` on everything beneath `src`"),
        ("web_fetch(domain:docs.rs)", "may reach the host `docs.rs`"),
        ("mcp__x__y", "every use of `mcp__x__y`"),
    ] {
        let meaning = GrantRule::parse(rule).unwrap().meaning();
        assert!(meaning.contains(says), "{meaning}");
    }
}

/// The grants that are found for a call among these.
fn found(policy: &CedarPolicy, call: &Call, grants: &[Grant]) -> Vec<Grant> {
    let keys = policy.grant_keys(&call.question());
    let shared = |grant: &&Grant| {
        let of_rule = policy.grant_rule_keys(&grant.rule);
        of_rule.iter().any(|key| keys.contains(key))
    };
    grants.iter().filter(shared).cloned().collect()
}

/// What is decided and by which grants. The reason to ask may name another part of the call if
/// there are grants at all.
fn answer(policy: &CedarPolicy, call: &Call, grants: &[Grant]) -> (Verdict, Vec<GrantId>) {
    let decision = decide(policy, call, grants);
    (decision.verdict, decision.grants)
}

fn host(host: &str) -> Access {
    Access::Host {
        host: host.to_owned(),
        port: 443,
    }
}

/// Calls of every kind that a rule can be about.
fn calls() -> Vec<Call> {
    let database = Access::Database {
        source: "shop".to_owned(),
        writes: true,
    };
    let message = Access::Message {
        channel: "chat".to_owned(),
        target: "ada".to_owned(),
    };
    let remote = Access::RemoteTool {
        provider: "github".to_owned(),
        tool: "x".to_owned(),
    };
    let argv = Command::Argv(vec!["make".to_owned(), "all".to_owned()]);
    let argv = Access::Command(CommandAccess {
        command: argv,
        cwd: WorkPath::root(),
        stays: false,
    });
    let tree = Access::Path(PathAccess {
        mode: PathMode::Write,
        scope: PathScope::Tree,
        path: path("src/a"),
        resolved: None,
        protected: None,
    });
    let mut calls = vec![
        Call::write("src/a/b.rs"),
        Call::write("src"),
        Call::write("."),
        Call::write("src/a[1].rs"),
        Call::of("copy", vec![tree]),
        Call::of("write", vec![through(Access::write(path("a")), "src/b.rs")]),
        Call::of("web_fetch", vec![host("Docs.RS.")]),
        Call::of("web_fetch", vec![host("a.b.example.com"), host("docs.rs")]),
        Call::of("query", vec![database]),
        Call::of("send", vec![message]),
        Call::of("build", vec![argv]),
        Call::from("github", "mcp__github__x", vec![remote]),
        Call::types("ls", "bash"),
    ];
    let scripts = [
        "cargo test -p x",
        "/usr/bin/cargo test",
        "git commit -m 'a b'",
        "touch a b c d e f g h i j k l m n o p q r s t",
        "cargo test && touch x | cat > y",
        "$X",
        "echo $(git log)",
        "X=1 make",
        "",
    ];
    calls.extend(scripts.map(bash));
    calls
}

/// Rules in every shape, most of which cover one of those calls.
const EVERY_RULE: [&str; 46] = [
    "write",
    "builtin/write",
    "wri*",
    "write(**)",
    "write(src)",
    "write(src/)",
    "write(./src/a/b.rs)",
    "write(src/**)",
    "write(src/a/**)",
    "write(src/*.rs)",
    "write(src/a\\[1\\].rs)",
    "write(src/**/*.rs)",
    "write(**/b.rs)",
    "write({src,a}/**)",
    "write(*)",
    "write(.)",
    "copy(src/**)",
    "copy(src/*/**)",
    "copy(src/a)",
    "web_fetch",
    "web_fetch(domain:docs.rs)",
    "web_fetch(domain:DOCS.rs.)",
    "web_fetch(domain:*.example.com)",
    "query(shop)",
    "query(sh*)",
    "query(db:shop, writes)",
    "query(db:sh*)",
    "send(chat:ada)",
    "send(chat:*)",
    "build",
    "build(make all)",
    "build(make *)",
    "mcp__github__x",
    "mcp__github__*",
    "github/mcp__github__x",
    "process",
    "bash(cargo test *)",
    "builtin/bash(cargo test *)",
    "bash(cargo test -p x)",
    "bash(cargo  test '-p' x)",
    "bash(git commit -m \"a b\")",
    "bash(touch *)",
    "bash(touch a b c d e f g h i j k l m n o p q r s t)",
    "bash(touch a b c d e f g h i j k l m n o p q r * t)",
    "bash(cargo test && touch x | cat > y)",
    "bash($X)",
];

fn query(source: &str, writes: bool) -> Call {
    let source = source.to_owned();
    Call::of("query", vec![Access::Database { source, writes }])
}

#[test]
fn what_was_granted_for_reading_never_covers_a_change() {
    let policy = policy(CAREFUL);
    let check = |rule: &str, call: &Call, covers: bool| {
        let (verdict, _) = answer(&policy, call, &[grant(rule)]);
        let expected = if covers { Verdict::Allow } else { Verdict::Ask };
        assert_eq!(verdict, expected, "{rule}");
    };
    let (read, change) = (query("crm.users.id", false), query("crm.users.id", true));
    for rule in [
        "query(crm.users.id)",
        "query(crm)",
        "query(db:crm.users, reads)",
    ] {
        check(rule, &read, true);
        check(rule, &change, false);
    }
    check("query(db:crm.users.id, writes)", &read, false);
    check("query(db:crm.users.id, writes)", &change, true);
    check(
        "query(db:crm.users, reads)",
        &query("crm.users.logins.id", false),
        false,
    );
}

#[test]
fn a_query_is_offered_for_its_column_and_its_use() {
    let offered = |source: &str, writes: bool| {
        let offered = proposals(&policy(CAREFUL), &query(source, writes));
        let told = offered
            .into_iter()
            .map(|offer| (offer.rules, offer.meaning));
        told.collect::<Vec<_>>()
    };
    let expect = |rule: &str, meaning: &str| vec![(vec![rule.to_owned()], meaning.to_owned())];
    assert_eq!(
        offered("crm.users.id", true),
        expect(
            "query(db:crm.users.id, writes)",
            "`query` may change `crm.users.id`"
        )
    );
    assert_eq!(
        offered("crm.users.*", false),
        expect(
            r"query(db:crm.users.\*, reads)",
            "`query` may read `crm.users.*`"
        )
    );
    // A name that the notation cannot say is not offered.
    assert_eq!(offered("crm.users.\"a, writes\"", false), []);
    assert_eq!(offered("crm.users.\"a b\"", true), []);
}

#[test]
fn whatever_covers_a_call_is_found_by_its_keys() {
    let policy = policy(CAREFUL);
    let calls = calls();
    let mut covered = 0;
    for call in &calls {
        for rule in EVERY_RULE {
            let grants = [grant(rule)];
            let found = found(&policy, call, &grants);
            assert_eq!(
                answer(&policy, call, &found),
                answer(&policy, call, &grants),
                "{rule}"
            );
            covered += answer(&policy, call, &grants).1.len();
        }
        let all = EVERY_RULE.map(grant);
        let found = found(&policy, call, &all);
        assert_eq!(answer(&policy, call, &found), answer(&policy, call, &all));
    }
    // It would say nothing if the rules covered none of the calls.
    assert!(covered > calls.len(), "{covered}");
}

#[test]
fn a_call_finds_few_of_many_grants() {
    let policy = policy(CAREFUL);
    let rules = (0..100).flat_map(|number| {
        [
            format!("bash(make target{number})"),
            format!("bash(npm run script{number} *)"),
            format!("bash(./script{number}.sh; ls)"),
            format!("write(src/file{number}.rs)"),
            format!("write(dir{number}/**)"),
            format!("write(dir{number}/*.rs)"),
            format!("web_fetch(domain:host{number}.example.com)"),
            format!("tool{number}"),
            format!("server/tool{number}"),
        ]
    });
    let grants: Vec<Grant> = rules.map(|rule| grant(&rule)).collect();
    for (call, expect) in [
        (bash("make target7"), 1),
        (bash("npm run script7 --all"), 1),
        (bash("./script7.sh; ls"), 1),
        (bash("make target7 && npm run script9"), 2),
        (Call::write("src/file7.rs"), 1),
        (Call::write("dir7/a.rs"), 2),
        (Call::of("web_fetch", vec![host("host7.example.com")]), 1),
        (Call::from("server", "tool7", Vec::new()), 2),
        (bash("true"), 0),
    ] {
        let found = found(&policy, &call, &grants);
        let rules: Vec<&str> = found.iter().map(|grant| grant.rule.as_str()).collect();
        assert_eq!(rules.len(), expect, "{rules:?}");
    }
}

fn scripts() -> impl Strategy<Value = String> {
    let command = prop::sample::select(vec![
        "cargo test",
        "cargo test -p x",
        "touch a",
        "touch /etc/x",
        "git log",
        "git -c a=b log",
        "git push",
        "rm -rf b",
        "env X=1 ls",
        "bash -c 'touch a'",
        "cat .env",
        "echo x > y",
        "$X",
        "ls *",
        "find . -delete",
        "python -c 1",
        "npm test",
    ]);
    let joint = prop::sample::select(vec![" && ", "; ", " | ", "\n"]);
    (prop::collection::vec(command, 1..4), joint).prop_map(|(commands, joint)| commands.join(joint))
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    let rule = prop_oneof![
        prop::sample::select(vec![
            "bash(cargo test *)",
            "bash(touch *)",
            "bash(git *)",
            "bash(rm *)",
            "bash(ls *)",
            "bash(cat *)",
            "bash(echo *)",
            "bash(npm test)",
            "write(**)",
            "bash",
            "bash(*)",
            "bash(env *)",
            "@all",
            "nonsense(",
        ])
        .prop_map(str::to_owned),
        scripts().prop_map(|script| format!("bash({})", script.replace('*', "\\*"))),
    ];
    prop::collection::vec(rule, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A grant never turns a denial or an allowance into anything else, more grants never turn an
    /// allowance back, and what each part alone leaves asking asks.
    #[test]
    fn grants_only_ever_answer_questions(script in scripts(), rules in rules(), preset in 0..3usize) {
        let presets = ["careful", "workspace", "locked"];
        let policy = policy(&format!(
            "[policy]\npreset = \"{}\"\nask = [\"bash(git push)\"]\ndeny = [\"read(**/.env)\", \"bash(rm)\"]\n",
            presets[preset]
        ));
        let call = bash(&script);
        let without = call.decide(&policy);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let decision = with(&policy, &call, &rules);
        match without.verdict {
            Verdict::Deny | Verdict::Allow => prop_assert_eq!(&decision, &without),
            Verdict::Ask => prop_assert_ne!(decision.verdict, Verdict::Deny),
        }
        prop_assert_eq!(decision.grants.is_empty(), decision.verdict != Verdict::Allow || without.verdict == Verdict::Allow);
        for count in 0..rules.len() {
            if with(&policy, &call, &rules[..count]).verdict == Verdict::Allow {
                prop_assert_eq!(decision.verdict, Verdict::Allow);
            }
        }
        // Asked once more without, the answer is the old one.
        prop_assert_eq!(call.decide(&policy), without);
    }

    /// A decision with the grants that are found for a call is the one with all of them.
    #[test]
    fn the_grants_that_are_found_are_enough(script in scripts(), rules in rules()) {
        let policy = policy(CAREFUL);
        let call = bash(&script);
        let grants: Vec<Grant> = rules.iter().map(|rule| grant(rule)).collect();
        let found = found(&policy, &call, &grants);
        prop_assert_eq!(answer(&policy, &call, &found), answer(&policy, &call, &grants));
    }

    /// Joining another command to one that is granted never takes that other command along.
    #[test]
    fn joining_never_widens_a_grant(granted in scripts(), other in scripts(), rules in rules()) {
        let policy = policy(CAREFUL);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let joined = format!("{granted}; {other}");
        if with(&policy, &bash(&other), &rules).verdict == Verdict::Ask
            && !rules.contains(&format!("bash({})", joined.replace('*', "\\*")).as_str())
        {
            prop_assert_ne!(with(&policy, &bash(&joined), &rules).verdict, Verdict::Allow);
        }
    }

    /// Every proposal makes the answer to its own question an allowance, and is a rule one may accept.
    #[test]
    fn every_proposal_holds(script in scripts()) {
        let policy = policy(CAREFUL);
        let call = bash(&script);
        let mut narrower = GrantBreadth::Exact;
        for proposal in proposals(&policy, &call) {
            let rules: Vec<&str> = proposal.rules.iter().map(String::as_str).collect();
            prop_assert_eq!(with(&policy, &call, &rules).verdict, Verdict::Allow);
            prop_assert!(rules.iter().all(|rule| GrantRule::parse(rule).is_ok()));
            prop_assert!(narrower <= proposal.breadth);
            narrower = proposal.breadth;
        }
    }
}

#[test]
fn a_command_in_another_directory_is_the_same_command() {
    let call = Call::of(
        "bash",
        vec![Access::shell(
            "cargo test",
            WorkPath::relative("sub").unwrap(),
        )],
    );
    opens(&["bash(cargo test)"], &call.tier(Tier::T1));
}
