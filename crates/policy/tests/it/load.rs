//! What a file may say, and what is said about one that says it wrongly.

use haft_contract::host::Verdict::{Allow, Ask, Deny};
use haft_policy::{CedarPolicy, PolicyFile, PolicySource};

use crate::world::{Call, check, policy, problem};

#[track_caller]
fn refused(text: &str, expect: &str) {
    assert_eq!(problem(text), expect);
}

#[test]
fn unknown_keys_and_words_name_the_nearest() {
    refused(
        "[policy]\nalow = [\"read\"]",
        "haft.toml:2:1: unknown key in [policy] `alow`\n  hint: did you mean `allow`?",
    );
    refused(
        "[policy]\npreset = \"carefull\"",
        "haft.toml:2:10: unknown preset `carefull`\n  hint: did you mean `careful`?",
    );
    refused(
        "[agents.x]\ndeney = []",
        "haft.toml:2:1: unknown key in [agents.x] `deney`\n  hint: did you mean `deny`?",
    );
    refused(
        "[sessions.direct]\ndeny = []",
        "haft.toml:1:11: unknown session kind `direct`\n  hint: known: main, dm, group, subagent, cron",
    );
    refused(
        "[tools.bash]\nsession = \"nonmain\"",
        "haft.toml:2:11: unknown session `nonmain`\n  hint: did you mean `non-main`?",
    );
}

#[test]
fn wrong_shapes_are_named_with_their_place() {
    refused(
        "[policy]\nallow = \"read\"",
        "haft.toml:2:9: `allow` must be a list\n  hint: write [\"…\"]",
    );
    refused("policy = 3", "haft.toml:1:10: [policy] must be a table");
    assert!(problem("[policy]\ndeny = [3]").starts_with("haft.toml:2:9: a rule must be a string"));
    assert!(problem("[policy\n").starts_with("haft.toml:1:"));
}

#[test]
fn rules_that_cannot_be_right_are_refused() {
    let rule = |rule: &str| problem(&format!("[policy]\ndeny = ['{rule}']"));
    assert!(rule("read(").contains("unbalanced parentheses"));
    assert!(rule("read()").contains("an empty pattern"));
    assert!(rule("").contains("the rule is empty"));
    assert!(rule("re ad").contains("does not start with a tool"));
    assert!(rule("read(/etc/passwd)").contains("its path is not relative"));
    assert!(rule("read(../x)").contains("its path contains `..`"));
    assert!(rule("read(a[)").contains("is not a valid glob"));
}

#[test]
fn sessions_and_channels_cannot_widen() {
    let text = problem("[sessions.main]\nallow = [\"bash\"]");
    assert!(text.starts_with("haft.toml:2:1: `allow` does not belong in [sessions.main]"));
    assert!(problem("[channels.x]\nallow = [\"bash\"]").contains("can only restrict"));
}

#[test]
fn the_rest_of_the_file_is_left_alone() {
    let rules = policy(
        r#"
        [workspace]
        root = "."
        [tools.bash]
        timeout_ms = 1000
        [tools.read]
        session = "always"
        [policy]
        deny = ["bash"]
        "#,
    );
    check(&rules, &Call::bash("ls"), Deny);
    let factory = "[[tools]]\ntype = \"script\"\nname = \"deploy\"\nsession = \"main\"";
    assert_eq!(policy(factory).rules().count(), 1);
}

#[test]
fn examples_are_checked() {
    policy(
        r#"
        [policy]
        deny = [
          { rule = "bash(rm *)", matches = ["rm -rf x"], not_matches = ["farm x"] },
          { rule = "read(**/.env)", matches = [".env", "a/.env"], not_matches = ["a/.envrc"] },
          { rule = "mcp__x__*", matches = ["mcp__x__y"], not_matches = ["mcp__y__x"] },
        ]
        allow = [{ rule = "bash(npm run *)", matches = ["npm run x"], not_matches = ["npm run x; ls"] }]
        "#,
    );
    refused(
        "[policy]\ndeny = [{ rule = \"bash(rm *)\", matches = [\"rmdir x\"] }]",
        "haft.toml:2:43: `bash(rm *)` does not match its example `rmdir x`\n  hint: change the pattern, or the example",
    );
    assert!(
        problem("[policy]\ndeny = [{ rule = \"read(*.rs)\", not_matches = [\"a/b.rs\"] }]")
            .contains("which it must not")
    );
}

#[test]
fn dead_rules_are_errors_with_their_line() {
    refused(
        "[policy]\ndeny = [\"bash\",\n  \"bash\"]",
        "haft.toml:3: `bash` repeats `bash` (haft.toml:2)\n  hint: remove one of the two",
    );
    let shadowed = |text: &str| {
        let text = problem(text);
        assert!(text.contains("has no effect"), "{text}");
    };
    shadowed("[policy]\nallow = [\"bash(ls)\"]\ndeny = [\"bash\"]");
    shadowed("[policy]\nallow = [\"bash\"]\ndeny = [\"bash\"]");
    shadowed("[policy]\nallow = [\"read\", \"read(src/**)\"]");
    shadowed("[policy]\nallow = [\"read(a/.env)\"]\ndeny = [\"read(**/.env)\"]");
    shadowed("[policy]\nask = [\"bash(rm x)\"]\ndeny = [\"bash(rm *)\"]");
    shadowed("[policy]\nallow = [\"write(.git/config)\"]");
    shadowed("[policy]\ndeny = [\"bash\"]\n[agents.a]\nallow = [\"bash(ls)\"]");
    shadowed("[policy]\nallow = [\"write(secret)\"]\ndeny = [\"write(secret)\"]");
    // These look alike and are not dead.
    policy(
        "[policy]\nallow = [\"bash(ls)\"]\nask = [\"write\"]\ndeny = [\"read(**/.env)\", \"read(**/.key)\"]",
    );
    policy("[policy]\nallow = [\"read\"]\nask = [\"read(secret/**)\"]");
    policy("[agents.a]\nallow = [\"bash\"]\n[agents.b]\ndeny = [\"bash\"]");
}

#[test]
fn unknown_tools_and_groups_are_found_with_the_tools_at_hand() {
    let rules = policy(
        "[policy]\ndeny = [\"Bash\", \"raed\", \"@serch\", \"bash\", \"@search\", \"mcp__x__*\"]",
    );
    let (bash, read) = (Call::bash("ls"), Call::read("a"));
    let found: Vec<String> = rules
        .lint(&[bash.facts(), read.facts()])
        .iter()
        .map(|finding| format!("{finding}; {}", finding.hint()))
        .collect();
    assert_eq!(
        found,
        [
            "`Bash` can never match: there is no such tool; did you mean `bash`?",
            "`raed` can never match: there is no such tool; did you mean `read`?",
            "`@serch` can never match: no tool is in this group; did you mean `@search`?",
        ]
    );
}

fn load(first: &str, second: &str) -> CedarPolicy {
    CedarPolicy::load(&[
        PolicySource::new("user.toml", first),
        PolicySource::new("project.toml", second),
    ])
    .unwrap()
}

#[test]
fn several_files_add_up_and_the_stricter_holds() {
    let both = load(
        "[policy]\ndeny = [\"bash\"]",
        "[policy]\nallow = [\"bash\", \"write\"]",
    );
    check(&both, &Call::bash("ls"), Deny);
    check(&both, &Call::write("a"), Allow);
    let rule = Call::bash("ls").decide(&both).rule.unwrap();
    assert_eq!(rule.to_string(), "`bash` (user.toml:2)");
    let presets = load(
        "[policy]\npreset = \"careful\"",
        "[policy]\npreset = \"workspace\"",
    );
    check(&presets, &Call::write("a"), Ask);
}

/// Mistake 2 across files: a section for an agent in one file never loosens what another says.
#[test]
fn mistake_02_no_file_loosens_another_through_an_agent() {
    let main = || Call::write("a").agent("main");
    let presets = |user: &str, project: &str| {
        let verdict = |first: &str, second: &str| main().decide(&load(first, second)).verdict;
        let answer = verdict(user, project);
        assert_eq!(verdict(project, user), answer, "the order of files matters");
        answer
    };
    let everyone = |preset: &str| format!("[policy]\npreset = \"{preset}\"\n");
    let own = |preset: &str| format!("[agents.main]\npreset = \"{preset}\"\n");
    assert_eq!(presets(&everyone("locked"), &own("workspace")), Deny);
    assert_eq!(presets(&everyone("careful"), &own("workspace")), Ask);
    assert_eq!(presets(&own("careful"), &everyone("workspace")), Ask);
    assert_eq!(presets(&own("locked"), &own("workspace")), Deny);
    assert_eq!(presets(&everyone("workspace"), &own("locked")), Deny);
    // Within one file the section is the more special word, and a silent file says nothing.
    let both = everyone("locked") + &own("workspace");
    assert_eq!(presets(&both, ""), Allow);
    assert_eq!(presets(&both, &everyone("workspace")), Allow);
    assert_eq!(presets(&both, &everyone("careful")), Ask);
    assert_eq!(presets("", ""), Ask);
}

/// An agent that a file does not know stays a stranger to it, whoever else introduces it.
#[test]
fn mistake_02_an_agent_is_known_only_if_every_file_with_agents_knows_it() {
    let rules = load("[agents.main]", "[agents.main]\n[agents.stranger]");
    check(&rules, &Call::read("a").agent("main"), Allow);
    check(&rules, &Call::read("a").agent("stranger"), Ask);
    let reason = Call::read("a").agent("stranger").decide(&rules).reason;
    assert!(
        reason.contains("has no `[agents.stranger]` section in user.toml"),
        "{reason}"
    );
    let silent = load("[agents.main]", "[policy]\ndeny = [\"bash\"]");
    check(&silent, &Call::read("a").agent("main"), Allow);
}

#[test]
fn examples_are_tried_one_by_one() {
    let text = r#"
[policy]
allow = [
    "read",
    { rule = "bash(cargo test *)", matches = ["cargo test -q", "cargo build"], not_matches = ["cargo run"] },
]
deny = [
    { rule = "bash(git push *)", not_matches = ["git status",
        "git push origin"] },
]
"#;
    let tested = PolicyFile::test(&[PolicySource::new("haft.toml", text)]).unwrap();
    let seen: Vec<_> = tested
        .iter()
        .map(|tested| {
            let failures: Vec<String> = tested
                .examples
                .iter()
                .filter_map(|example| {
                    Some(format!("{:?} {}", example.line, example.failure()?.message))
                })
                .collect();
            let rule = &tested.rule;
            (
                rule.text.as_str(),
                rule.line,
                tested.examples.len(),
                failures,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("read", Some(4), 0, vec![]),
            (
                "bash(cargo test *)",
                Some(5),
                3,
                vec![
                    "Some(5) `bash(cargo test *)` does not match its example `cargo build`"
                        .to_owned()
                ]
            ),
            (
                "bash(git push *)",
                Some(8),
                2,
                vec![
                    "Some(9) `bash(git push *)` matches `git push origin`, which it must not"
                        .to_owned()
                ]
            ),
        ]
    );
    // The same file does not load, and says the same.
    let error = CedarPolicy::load(&[PolicySource::new("haft.toml", text)]).unwrap_err();
    assert_eq!(error.problems().len(), 2);
    // Any other mistake is still one.
    let broken = text.replace("\"read\"", "\"read(\"");
    assert!(PolicyFile::test(&[PolicySource::new("haft.toml", broken)]).is_err());
}

/// Where an agent works is no rule, so a section about it alone makes no other agent unknown.
#[test]
fn a_section_with_nothing_but_a_back_end_says_nothing_about_agents() {
    let knows = |text: &str| {
        let other = haft_contract::AgentId::parse("other").unwrap();
        policy(text).lists(&other)
    };
    assert!(knows("[agents.builder]\nbackend = \"ssh:build\"\n"));
    assert!(!knows(
        "[agents.builder]\nbackend = \"local\"\npreset = \"careful\"\n"
    ));
    assert!(!knows("[agents.builder]\n"));
}
