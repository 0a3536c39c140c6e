//! Mistakes others made, each shown not to be made here.

use haft_contract::{
    Access, Effects, WorkPath,
    host::{
        Verdict::{self, Allow, Ask, Deny},
        Visibility,
    },
    ops::Tier,
};

use crate::world::{Call, check, path, policy, problem};

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
    // A blacklist of spellings lets `rm -fr /` pass.
    let other = policy("[policy]\nallow = [\"bash\"]\ndeny = [\"bash(rm -rf /)\"]");
    for script in [
        "rm -rf /",
        "rm -fr /",
        "rm -r -f /",
        "rm / -rf",
        "/bin/rm -rf /",
    ] {
        check(&other, &Call::bash(script), Deny);
    }
    check(&other, &Call::bash("rm -rf x"), Allow);
}

/// Deny rules that would silently cover less than they say, as other spellings of one wish.
#[test]
fn mistake_10_every_spelling_of_a_denied_path_denies_it() {
    let denied = |rule: &str, text: &str| {
        let rules = policy(&format!("[policy]\ndeny = [\"{rule}\"]"));
        check(&rules, &Call::read(text), Deny);
        let copy = vec![Access::read(path(text)), Access::write(path("new"))];
        check(&rules, &Call::of("copy", copy), Deny);
        check(&rules, &Call::bash("ls"), Ask);
    };
    denied("read(secrets/)", "secrets/key");
    denied("read(secrets/)", "app/secrets/key");
    denied("read(./secrets/)", "app/secrets/key");
    for everything in ["read(.)", "read(./)", "read(**)", "read(*)"] {
        denied(everything, ".env");
        denied(everything, "a/b/.env");
    }
    denied("builtin/read(**/.env)", "a/.env");
    let rules = policy("[policy]\npreset = \"workspace\"\ndeny = [\"builtin/write(docs/)\"]");
    let edit = |text| Call::of("edit", vec![Access::write(path(text))]);
    check(&rules, &edit("docs/a"), Deny);
    check(&rules, &edit("src/a"), Allow);
    // Benign twins: what the rules do not speak of, and `allow`, which reaches only what it says.
    let rules = policy("[policy]\ndeny = [\"read(secrets/)\"]\nallow = [\"write(out/)\"]");
    check(&rules, &Call::read("secrets2/key"), Allow);
    check(&rules, &Call::write("out/a/b"), Allow);
    check(&rules, &Call::write("x/out/a"), Ask);
    let rules = policy("[policy]\ndeny = [\"elsewhere/read(**/.env)\"]");
    check(&rules, &Call::read(".env"), Allow);
}

#[test]
fn mistake_10_a_denied_tool_is_hidden_however_everything_is_spelt() {
    for rule in ["edit", "edit(.)", "edit(./)", "edit(**)"] {
        let rules = policy(&format!("[policy]\ndeny = [\"{rule}\"]"));
        let visibility = Call::of("edit", vec![]).visibility(&rules);
        assert_ne!(visibility, Visibility::Advertised, "{rule}");
    }
}

#[test]
fn mistake_10_a_rule_that_would_cover_less_than_it_says_is_refused() {
    let refused = |rule: &str, expect: &str| {
        for list in ["deny", "ask"] {
            let text = problem(&format!("[policy]\n{list} = [\"{rule}\"]"));
            assert!(text.contains(expect), "{text}");
        }
    };
    for rule in ["read( .env)", "read(.env )", "bash( rm *)", "read( )"] {
        refused(rule, "starts or ends with whitespace");
    }
    for rule in ["@read-only(**/.env)", "@files(.env)", "@search(secrets/)"] {
        refused(rule, "tools outside the group still reach the path");
    }
    for rule in ["fetch(domain: x.com)", "fetch(domain:https://x.com)"] {
        refused(rule, "`domain:` takes a host name");
    }
    // These say what they cover.
    policy("[policy]\ndeny = [\"@read-only\", \"@files(**)\", \"@process(rm *)\", \"@all(.env)\"]");
    policy("[policy]\nallow = [\"@files(docs/**)\", \"bash(ls )\"]");
}

/// The same text as a command and as a host is two patterns, in either order of the rules.
#[test]
fn mistake_10_a_command_and_a_host_of_one_spelling_are_two_patterns() {
    let connect = || {
        let host = Access::Host {
            host: "evil.example".to_owned(),
            port: 443,
        };
        Call::of("fetch", vec![host])
    };
    let (command, host) = ("bash(domain:evil.example)", "fetch(domain:evil.example)");
    for (first, second) in [(command, host), (host, command)] {
        let rules = policy(&format!("[policy]\ndeny = [\"{first}\", \"{second}\"]"));
        check(&rules, &connect(), Deny);
        check(&rules, &Call::bash("domain:evil.example"), Deny);
    }
}

#[test]
fn mistake_18_a_wildcard_never_allows_a_joined_command() {
    let refused = problem("[policy]\nallow = [\"bash(* --version)\"]");
    assert_eq!(
        refused,
        "haft.toml:2:10: `bash(* --version)` can never match: in allow, a wildcard matches only \
         words after a named program\n  hint: name the program of one command, such as `bash(npm run *)`, \
         or allow the exact text"
    );
    for rule in ["bash(a *; b)", "bash(a * | b)", "bash(echo $X *)"] {
        let refused = problem(&format!("[policy]\nallow = [\"{rule}\"]"));
        assert!(refused.contains("can never match"), "{refused}");
    }
    for rule in ["bash(npm run x)", "bash(npm run *)"] {
        let rules = policy(&format!("[policy]\nallow = [\"{rule}\"]"));
        let bash = |script: &str| Call::bash(script).tier(Tier::T2);
        check(&rules, &bash("npm run x"), Allow);
        check(&rules, &bash("npm  run x\n"), Allow);
        check(&rules, &bash("npm run x; rm -rf ~"), Ask);
        check(&rules, &bash("npm run x && rm -rf ~"), Ask);
        check(&rules, &bash("npm run $(rm -rf ~)"), Ask);
    }
}

/// A custom command tool is not known by name when the file is read. A wildcard for its program is
/// inert, and the linter, which knows the tools, reports it.
#[test]
fn mistake_18_holds_for_command_tools_by_any_name() {
    let rules = policy("[policy]\nallow = [\"shell(* run x)\"]");
    let mut call = Call::bash("npm run x; rm -rf ~");
    call.key.tool = "shell".parse().unwrap();
    check(&rules, &call, Ask);
    let findings = rules.lint(&[call.facts()]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].to_string().contains("can never match"));
}

/// A rule that can match nothing its tool touches would let through what it was written to stop.
#[test]
fn a_deny_with_a_pattern_that_cannot_match_denies_and_says_which_can() {
    let host = |host: &str| Access::Host {
        host: host.to_owned(),
        port: 443,
    };
    let rules = policy("[policy]\nallow = [\"deploy\"]\ndeny = [\"deploy(production)\"]");
    for name in ["prod.example.com", "test.example.com"] {
        let decision = Call::from("embedded", "deploy", vec![host(name)]).decide(&rules);
        assert_eq!(decision.verdict, Deny);
        let says = "write `deploy(domain:production)` for a host";
        assert!(decision.reason.contains(says), "{}", decision.reason);
    }
    let decision = Call::from("embedded", "deploy", Vec::new()).decide(&rules);
    assert_eq!(decision.verdict, Deny);
    assert!(
        decision.reason.contains("without a pattern"),
        "{}",
        decision.reason
    );

    let rules =
        policy("[policy]\nallow = [\"deploy\"]\ndeny = [\"deploy(domain:prod.example.com)\"]");
    for (name, verdict) in [("prod.example.com", Deny), ("test.example.com", Allow)] {
        let decision = Call::from("embedded", "deploy", vec![host(name)]).decide(&rules);
        assert_eq!(decision.verdict, verdict, "{}", decision.reason);
    }
    let path = Access::write(path("a"));
    let rules = policy("[policy]\nallow = [\"deploy\"]\ndeny = [\"deploy(secret/**)\"]");
    let decision = Call::from("embedded", "deploy", vec![path]).decide(&rules);
    assert_ne!(decision.verdict, Deny, "{}", decision.reason);
}

/// It denies to those its section names, and to nobody else.
#[test]
fn a_deny_that_cannot_match_denies_to_those_it_is_for() {
    let call = || {
        let host = Access::Host {
            host: "test.example.com".to_owned(),
            port: 443,
        };
        Call::from("embedded", "deploy", vec![host]).started_by("lead")
    };
    let rule = "deny = [\"deploy(production)\"]";
    for (section, expect) in [
        ("[agents.lead]", Deny),
        ("[users.ada]", Deny),
        ("[users.bob]", Allow),
        ("[tenants.local]", Deny),
        ("[tenants.acme]", Allow),
        ("[sessions.main]", Deny),
        ("[sessions.cron]", Allow),
        ("[channels.ops]", Allow),
    ] {
        let agents = if section == "[agents.lead]" {
            "[agents.main]"
        } else {
            "[agents.main]\n[agents.lead]"
        };
        let rules = policy(&format!(
            "[policy]\nallow = [\"deploy\"]\n{agents}\n{section}\n{rule}"
        ));
        let decision = call().decide(&rules);
        assert_eq!(decision.verdict, expect, "{section}: {}", decision.reason);
    }
    let rules = policy("[policy]\nallow = [\"deploy\"]\ndeny = [\"embedded/deploy(production)\"]");
    let decision = call().decide(&rules);
    assert_eq!(decision.verdict, Deny, "{}", decision.reason);
}

/// A file and a command are no host, and no pattern is about a call elsewhere.
#[test]
fn a_deny_with_a_pattern_of_another_kind_denies() {
    let remote = Access::RemoteTool {
        provider: "x".to_owned(),
        tool: "deploy".to_owned(),
    };
    for (access, pattern) in [
        (Access::write(path("a")), "domain:x"),
        (Access::shell("ls", WorkPath::root()), "domain:x"),
        (remote, "src/**"),
    ] {
        let rules = policy(&format!(
            "[policy]\nallow = [\"deploy\"]\ndeny = [\"deploy({pattern})\"]"
        ));
        let decision = Call::from("embedded", "deploy", vec![access]).decide(&rules);
        assert_eq!(decision.verdict, Deny, "{pattern}: {}", decision.reason);
    }
}
