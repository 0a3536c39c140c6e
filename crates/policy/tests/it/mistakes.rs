//! Mistakes others made, each shown not to be made here.

use haft_contract::{
    Effects,
    host::{
        Verdict::{self, Allow, Ask, Deny},
        Visibility,
    },
};

use crate::world::{Call, check, policy, problem};

#[test]
fn mistake_02_unknown_agent_or_tool_is_not_allowed() {
    let rules = policy("[policy]\nallow = [\"bash(ls)\"]\n[agents.known]");
    check(&rules, &Call::bash("ls").agent("known"), Allow);
    check(&rules, &Call::bash("ls").agent("stranger"), Ask);
    check(&rules, &Call::read("a").agent("stranger"), Ask);
    check(
        &rules,
        &Call::read("a").agent("known").started_by("stranger"),
        Ask,
    );
    let reason = Call::read("a").agent("stranger").decide(&rules).reason;
    assert!(
        reason.contains("has no `[agents.stranger]` section"),
        "{reason}"
    );
    for preset in ["careful", "workspace", "locked"] {
        let rules = policy(&format!("[policy]\npreset = \"{preset}\""));
        let unknown = Call::from("somewhere", "mystery", vec![]).effects(Effects::READ_ONLY);
        assert_ne!(unknown.decide(&rules).verdict, Allow, "{preset}");
    }
}

#[test]
fn mistake_02_a_tool_that_needs_approval_is_not_reported_as_allowed() {
    let rules = policy("[policy]\nask = [\"bash\"]\nallow = [\"read\"]");
    check(&rules, &Call::bash("ls"), Ask);
    assert_eq!(Call::bash("ls").visibility(&rules), Visibility::Advertised);
    assert_ne!(Call::bash("ls").decide(&rules).verdict, Allow);
}

/// One policy that gives all three answers: a check wired the wrong way round, or one that always
/// answers the same, fails here.
#[test]
fn mistake_08_the_check_neither_denies_nor_allows_everything() {
    let rules = policy("[policy]\nallow = [\"bash(ls)\"]\ndeny = [\"bash(rm *)\"]");
    let answers: Vec<Verdict> = ["ls", "pwd", "rm x"]
        .map(|command| Call::bash(command).decide(&rules).verdict)
        .to_vec();
    assert_eq!(answers, [Allow, Ask, Deny]);
    for (list, expect) in [("allow", Allow), ("ask", Ask), ("deny", Deny)] {
        let rules = policy(&format!("[policy]\n{list} = [\"bash\"]"));
        check(&rules, &Call::bash("anything"), expect);
    }
}

#[test]
fn mistake_10_substring_blacklist() {
    let rules = policy(
        "[policy]\nallow = [\"bash\"]\ndeny = [\"bash(su)\", \"bash(su *)\", \"bash(dd *)\"]",
    );
    check(&rules, &Call::bash("echo result"), Allow);
    check(&rules, &Call::bash("git add ."), Allow);
    check(&rules, &Call::bash("su"), Deny);
    check(&rules, &Call::bash("su root"), Deny);
    check(&rules, &Call::bash("dd if=/dev/zero"), Deny);
    // A blacklist of spellings lets `rm -fr /` pass; here what no rule allows asks.
    let other = policy("[policy]\ndeny = [\"bash(rm -rf /)\"]");
    check(&other, &Call::bash("rm -rf /"), Deny);
    check(&other, &Call::bash("rm -fr /"), Ask);
}

#[test]
fn mistake_18_a_wildcard_never_allows_a_joined_command() {
    let refused = problem("[policy]\nallow = [\"bash(npm run *)\"]");
    assert_eq!(
        refused,
        "haft.toml:2:10: `bash(npm run *)` would allow more than it says: a wildcard also covers \
         `; rm -rf ~`\n  hint: command wildcards in allow come with shell analysis; allow the \
         exact text"
    );
    let rules = policy("[policy]\nallow = [\"bash(npm run x)\"]");
    check(&rules, &Call::bash("npm run x"), Allow);
    check(&rules, &Call::bash("npm run x; rm -rf ~"), Ask);
    check(&rules, &Call::bash("npm  run x"), Ask);
    check(&rules, &Call::bash("npm run x\n"), Ask);
}

/// A custom command tool is not known by name when the file is read; its wildcard is inert, and
/// the linter, which knows the tools, reports it.
#[test]
fn mistake_18_holds_for_command_tools_by_any_name() {
    let rules = policy("[policy]\nallow = [\"shell(npm run *)\"]");
    let mut call = Call::bash("npm run x; rm -rf ~");
    call.key.tool = "shell".parse().unwrap();
    check(&rules, &call, Ask);
    let findings = rules.lint(&[call.facts()]);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0]
            .to_string()
            .contains("would allow more than it says")
    );
}
