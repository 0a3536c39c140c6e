//! Rules about what a session has read from (MC-19): `after` in `deny`, `ask` and `allow`, patterns
//! that do not reach across servers, and grants that do not answer for what was read.

use std::sync::Arc;

use haft_contract::{
    Access, Effects,
    host::{Decision, Grant, GrantId, GrantScope, Policy as _, Question, Timestamp, Verdict},
};
use haft_policy::CedarPolicy;

use crate::world::{Call, check, policy, problem, workspace};

/// A tool of a mounted server, about which nothing is known.
fn of(server: &str, tool: &str) -> Call {
    let provider = format!("mcp__{server}");
    let access = Access::RemoteTool {
        provider: provider.clone(),
        tool: tool.to_owned(),
    };
    Call::from(&provider, &format!("{provider}__{tool}"), vec![access])
}

fn granted(policy: &CedarPolicy, call: &Call, rule: &str) -> Decision {
    let grant = Grant {
        id: GrantId::new(),
        tenant: call.principal.tenant.clone(),
        user: call.principal.user.clone(),
        rule: rule.to_owned(),
        scope: GrantScope::Project(workspace("local")),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: Timestamp(0),
        cause: None,
    };
    let decision = policy.decide(&Question {
        grants: &[grant],
        ..call.question()
    });
    Arc::unwrap_or_clone(decision)
}

#[test]
fn mc_19_a_rule_speaks_once_the_session_has_read_from_what_it_names() {
    for (list, then) in [("deny", Verdict::Deny), ("ask", Verdict::Ask)] {
        let policy = policy(&format!(
            "[policy]\nallow = [\"mcp__b__send\"]\n\
             {list} = [{{ rule = \"mcp__b__send\", after = [\"mcp:a\", \"mcp:c\"] }}]"
        ));
        let send = || of("b", "send");
        check(&policy, &send(), Verdict::Allow);
        check(&policy, &send().after(&["mcp:b", "mcp:d"]), Verdict::Allow);
        check(&policy, &send().after(&["mcp:a"]), then);
        check(&policy, &send().after(&["mcp:b", "mcp:c"]), then);
        // More than are kept apart may be any of them.
        check(&policy, &send().after(&["anything"]), then);
        // Remembered answers are of the session that asked.
        check(&policy, &send(), Verdict::Allow);
        check(&policy, &of("b", "list"), Verdict::Ask);
    }
}

#[test]
fn the_answer_says_what_was_read_and_which_rule_speaks() {
    let policy = policy(
        "[policy]\nallow = [\"mcp__b__send\"]\n\
         deny = [{ rule = \"mcp__b__*\", after = [\"mcp:a\"] }]",
    );
    let denied = of("b", "send").after(&["mcp:a", "mcp:b"]).decide(&policy);
    let rule = denied.rule.unwrap();
    assert_eq!(rule.text, "mcp__b__* after mcp:a");
    assert_eq!(rule.line, Some(3));
    assert!(
        denied
            .reason
            .ends_with("; the session has read from mcp:a, mcp:b"),
        "{}",
        denied.reason
    );
}

#[test]
fn any_server_is_any_but_the_tools_own() {
    let policy = policy(
        "[policy]\nallow = [\"mcp__b__send\", \"bash(ls)\"]\n\
         ask = [{ rule = \"@all\", after = [\"mcp:*\"] }]",
    );
    check(&policy, &of("b", "send"), Verdict::Allow);
    check(&policy, &of("b", "send").after(&["mcp:b"]), Verdict::Allow);
    check(&policy, &of("b", "send").after(&["mcp:a"]), Verdict::Ask);
    check(
        &policy,
        &of("b", "send").after(&["mcp:a", "mcp:b"]),
        Verdict::Ask,
    );
    // A tool of Haft's own belongs to no server.
    check(&policy, &Call::bash("ls"), Verdict::Allow);
    check(&policy, &Call::bash("ls").after(&["mcp:b"]), Verdict::Ask);
    check(&policy, &Call::read("a").after(&["mcp:b"]), Verdict::Ask);
}

#[test]
fn hosts_of_the_web_are_sources_of_their_own() {
    let policy = policy(
        "[policy]\nallow = [\"bash(ls)\", \"mcp__b__send\", \"mcp__c__*\", \"write\"]\n\
         ask = [{ rule = \"bash\", after = [\"web:*\"] }, { rule = \"mcp__b__send\", after = [\"mcp:*\"] }]\n\
         deny = [{ rule = \"write\", after = [\"web:Forum.example\"] }]",
    );
    check(&policy, &Call::bash("ls"), Verdict::Allow);
    check(&policy, &Call::bash("ls").after(&["mcp:b"]), Verdict::Allow);
    check(
        &policy,
        &Call::bash("ls").after(&["web:docs.rs"]),
        Verdict::Ask,
    );
    check(
        &policy,
        &Call::bash("ls").after(&["anything"]),
        Verdict::Ask,
    );
    // A host is no server.
    check(
        &policy,
        &of("b", "send").after(&["web:docs.rs"]),
        Verdict::Allow,
    );
    check(
        &policy,
        &of("b", "send").after(&["web:docs.rs", "mcp:a"]),
        Verdict::Ask,
    );
    // A pattern over servers reaches no further after a host than after another server.
    check(&policy, &of("c", "send"), Verdict::Allow);
    check(
        &policy,
        &of("c", "send").after(&["web:docs.rs"]),
        Verdict::Ask,
    );
    check(
        &policy,
        &Call::write("a").after(&["web:docs.rs"]),
        Verdict::Allow,
    );
    check(
        &policy,
        &Call::write("a").after(&["web:forum.example"]),
        Verdict::Deny,
    );
}

#[test]
fn an_allowed_pattern_may_reach_further_after_the_web() {
    let policy =
        policy("[policy]\nallow = [{ rule = \"mcp__*\", after = [\"web:*\", \"mcp:a\"] }]");
    check(
        &policy,
        &of("b", "send").after(&["web:docs.rs", "web:x.y"]),
        Verdict::Allow,
    );
    check(
        &policy,
        &of("b", "send").after(&["web:docs.rs", "mcp:a"]),
        Verdict::Allow,
    );
    check(
        &policy,
        &of("b", "send").after(&["web:docs.rs", "mcp:c"]),
        Verdict::Ask,
    );
}

#[test]
fn a_server_may_be_named_for_its_own_tools() {
    // The private part of a server is read, and its public part written.
    let policy = policy(
        "[policy]\nallow = [\"mcp__hub__post\"]\n\
         ask = [{ rule = \"mcp__hub__post\", after = [\"mcp:hub\"] }]",
    );
    check(&policy, &of("hub", "post"), Verdict::Allow);
    check(
        &policy,
        &of("hub", "post").after(&["mcp:hub"]),
        Verdict::Ask,
    );
}

#[test]
fn a_path_is_withheld_from_a_search_only_after_what_its_rule_names() {
    let policy = policy("[policy]\ndeny = [{ rule = \"read(secrets/**)\", after = [\"mcp:a\"] }]");
    let search = Call::grep(".");
    assert_eq!(search.decide(&policy).withheld, Vec::<String>::new());
    let withheld = search.after(&["mcp:a"]).decide(&policy).withheld;
    assert!(!withheld.is_empty());
    check(&policy, &Call::read("secrets/a"), Verdict::Allow);
    check(
        &policy,
        &Call::read("secrets/a").after(&["mcp:a"]),
        Verdict::Deny,
    );
}

#[test]
fn mc_19_no_grant_answers_a_rule_about_what_was_read() {
    let policy =
        policy("[policy]\nask = [\"mcp__b__list\", { rule = \"mcp__b__*\", after = [\"mcp:a\"] }]");
    for tool in ["send", "list"] {
        let before = of("b", tool);
        let name = format!("mcp__b__{tool}");
        assert_eq!(granted(&policy, &before, &name).verdict, Verdict::Allow);
        let after = before.after(&["mcp:a"]);
        let asked = granted(&policy, &after, &name);
        assert_eq!(asked.verdict, Verdict::Ask, "{}", asked.reason);
        assert!(asked.grants.is_empty());
        // And none is proposed.
        assert_eq!(policy.proposals(&after.question()), []);
    }
}

#[test]
fn mc_19_a_pattern_does_not_reach_across_servers_and_a_name_does() {
    for pattern in ["mcp__*", "mcp__b__*", "@all"] {
        let policy = policy(&format!("[policy]\nallow = [\"{pattern}\"]"));
        check(&policy, &of("b", "send"), Verdict::Allow);
        check(&policy, &of("b", "send").after(&["mcp:b"]), Verdict::Allow);
        let crossing = of("b", "send").after(&["mcp:a"]);
        check(&policy, &crossing, Verdict::Ask);
        let reason = crossing.decide(&policy).reason;
        let why = format!(
            "`{pattern}` (haft.toml:2) does not allow it after the session has read from another server \
             (mcp:a): a rule that names the tool would, or one with `after`"
        );
        assert!(reason.ends_with(&why), "{reason}");
        check(&policy, &of("b", "send").after(&["anything"]), Verdict::Ask);
        // What only looks, and reaches nothing outside, by the word of who trusts the server.
        let looks = of("b", "look").effects(Effects::READ_ONLY);
        check(&policy, &looks.after(&["mcp:a"]), Verdict::Allow);
    }
    let by_name = policy("[policy]\nallow = [\"mcp__b__send\", \"mcp__c/mcp__c__send\"]");
    for server in ["b", "c"] {
        check(
            &by_name,
            &of(server, "send").after(&["mcp:a"]),
            Verdict::Allow,
        );
    }
    let locked = policy("[policy]\npreset = \"locked\"\nallow = [\"mcp__*\"]");
    check(&locked, &of("b", "send"), Verdict::Allow);
    check(&locked, &of("b", "send").after(&["mcp:a"]), Verdict::Deny);
}

#[test]
fn tools_of_ours_are_allowed_by_patterns_whatever_was_read() {
    let policy = policy("[policy]\nallow = [\"@all\"]");
    for call in [Call::bash("ls"), Call::write("a"), Call::grep(".")] {
        check(&policy, &call.after(&["mcp:a", "mcp:b"]), Verdict::Allow);
    }
}

#[test]
fn after_widens_a_pattern_in_allow() {
    let some =
        policy("[policy]\nallow = [{ rule = \"mcp__b__*\", after = [\"mcp:a\", \"mcp:c\"] }]");
    for (read, expect) in [
        (&[][..], Verdict::Allow),
        (&["mcp:a"], Verdict::Allow),
        (&["mcp:a", "mcp:b", "mcp:c"], Verdict::Allow),
        (&["mcp:a", "mcp:d"], Verdict::Ask),
        (&["anything"], Verdict::Ask),
    ] {
        check(&some, &of("b", "send").after(read), expect);
    }
    let all = policy("[policy]\nallow = [{ rule = \"mcp__*\", after = [\"mcp:*\"] }]");
    for read in [&["mcp:a"][..], &["mcp:a", "mcp:d"], &["anything"]] {
        check(&all, &of("b", "send").after(read), Verdict::Allow);
    }
}

#[test]
fn mc_19_a_grant_by_pattern_does_not_reach_across_servers_and_a_name_does() {
    let policy = policy("[policy]\npreset = \"careful\"");
    let (before, crossing) = (of("b", "send"), of("b", "send").after(&["mcp:a"]));
    for (rule, expect) in [
        ("mcp__b__*", Verdict::Ask),
        ("mcp__b__send", Verdict::Allow),
    ] {
        assert_eq!(granted(&policy, &before, rule).verdict, Verdict::Allow);
        assert_eq!(granted(&policy, &crossing, rule).verdict, expect, "{rule}");
    }
    // What is proposed is what helps.
    let proposed = policy.proposals(&crossing.question());
    let rules: Vec<_> = proposed.iter().map(|one| one.rules.join(" ")).collect();
    assert_eq!(rules, ["mcp__b__send"]);
}

#[test]
fn a_tool_stays_visible_until_something_was_read() {
    let policy = policy("[policy]\ndeny = [{ rule = \"mcp__b__send\", after = [\"mcp:a\"] }]");
    let shown = of("b", "send").visibility(&policy);
    assert_eq!(shown, haft_contract::host::Visibility::Advertised);
}

#[test]
fn rules_before_and_after_do_not_cover_each_other() {
    policy(
        "[policy]\nallow = [\"mcp__b__send\"]\nask = [\n\
         \"mcp__c__x\",\n\
         { rule = \"mcp__b__send\", after = [\"mcp:a\"] },\n\
         { rule = \"mcp__c__x\", after = [\"mcp:a\"] }]\n\
         deny = [{ rule = \"mcp__b__send\", after = [\"mcp:c\"] }]",
    );
    for (text, says) in [
        (
            "deny = [\"mcp__b__send\", { rule = \"mcp__b__send\", after = [\"mcp:a\"] }]",
            "`mcp__b__send after mcp:a` has no effect",
        ),
        (
            "ask = [{ rule = \"x\", after = [\"mcp:a\"] }, { rule = \"x\", after = [\"mcp:a\"] }]",
            "`x after mcp:a` repeats",
        ),
        (
            "allow = [\"mcp__*\", { rule = \"mcp__*\", after = [\"mcp:a\"] }]",
            "`mcp__*` has no effect",
        ),
    ] {
        let problem = problem(&format!("[policy]\n{text}"));
        assert!(problem.contains(says), "{problem}");
    }
}

#[test]
fn what_after_cannot_mean_is_an_error_with_its_line() {
    for (rule, says) in [
        (
            "{ rule = \"x\", after = [\"github\"] }",
            "`github` is not a source a session can read from",
        ),
        (
            "{ rule = \"x\", after = [\"mpc:a\"] }",
            "`mpc:a` is not a source",
        ),
        (
            "{ rule = \"x\", after = [\"mcp:a*\"] }",
            "`mcp:a*` is not a source",
        ),
        (
            "{ rule = \"x\", after = [\"anything\"] }",
            "`anything` is not a source",
        ),
        ("{ rule = \"x\", after = [] }", "`after` is empty"),
        (
            "{ rule = \"x\", after = \"mcp:a\" }",
            "`after` must be a list",
        ),
        (
            "{ rule = \"x\", after = [1] }",
            "an entry of `after` must be a string",
        ),
    ] {
        let problem = problem(&format!("[policy]\ndeny = [{rule}]"));
        assert!(problem.starts_with("haft.toml:2:"), "{problem}");
        assert!(problem.contains(says), "{problem}");
    }
    let named = problem("[policy]\nallow = [{ rule = \"mcp__b__send\", after = [\"mcp:a\"] }]");
    assert!(
        named.contains("an allow rule that names a tool applies whatever was read"),
        "{named}"
    );
}
