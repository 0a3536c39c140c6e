//! What must hold for any rules and any question.

use std::{collections::BTreeSet, fmt::Write as _};

use haft_contract::{
    Access, Effects, SessionKind, WorkPath,
    host::Verdict::{self, Allow, Ask, Deny},
    ops::Tier,
};
use haft_policy::{CedarPolicy, PolicySource};
use proptest::{prelude::*, sample::select};

use crate::{
    reference::{self, Written},
    world::{Call, path, through},
};

const PRESETS: [&str; 4] = ["sandboxed", "workspace", "careful", "locked"];
const PATHS: [&str; 9] = [
    "src/a.rs",
    "src/b/c.rs",
    ".env",
    "a/.env",
    "secret/k",
    "a/secret/x",
    "b.rs",
    "src",
    ".",
];

fn rule() -> impl Strategy<Value = Written> {
    let sections = select(vec![
        "policy",
        "policy",
        "agents.main",
        "agents.child",
        "sessions.dm",
    ]);
    let lists = select(vec![Allow, Ask, Deny]);
    let paths = select(vec![
        None,
        Some("src/**"),
        Some("src/a.rs"),
        Some("*.rs"),
        Some("**/.env"),
        Some("secret"),
        Some("src/*"),
        Some("**"),
        Some("**/secret/**"),
    ]);
    let tools = select(vec![
        "read",
        "write",
        "edit",
        "grep",
        "@files",
        "@all",
        "re*",
        "builtin/read",
        "mystery",
    ]);
    let commands = select(vec![
        None,
        Some("ls"),
        Some("rm *"),
        Some("git*push"),
        Some("*"),
    ]);
    let about_paths = (tools, paths);
    let about_commands = commands.prop_map(|pattern| ("bash", pattern));
    (
        sections,
        lists,
        prop_oneof![3 => about_paths, 1 => about_commands],
    )
        .prop_filter_map(
            "sessions cannot allow, a wildcard cannot be the program, nor a group be denied a path",
            |(section, list, (tool, pattern))| {
                let wild = tool == "bash" && matches!(pattern, Some("git*push" | "*"));
                let refused = list == Allow && (section == "sessions.dm" || wild);
                let written = Written {
                    section,
                    list,
                    tool,
                    pattern,
                };
                (!refused && (list == Allow || can_be_denied(&written))).then_some(written)
            },
        )
}

/// A path denied to a group alone is refused: other tools would still reach it.
fn can_be_denied(rule: &Written) -> bool {
    rule.tool != "@files" || matches!(rule.pattern, None | Some("**"))
}

fn call() -> impl Strategy<Value = Call> {
    let one_path = || select(PATHS.to_vec());
    let access = |access: fn(WorkPath) -> Access| {
        (one_path(), prop::option::of(one_path())).prop_map(move |(written, leads_to)| {
            let access = access(path(written));
            leads_to.map_or(access.clone(), |leads_to| through(access, leads_to))
        })
    };
    let commands = select(vec!["ls", "rm x", "rm", "git force push", "ls; rm x"]);
    let calls = prop_oneof![
        access(Access::read).prop_map(|access| Call::of("read", vec![access])),
        access(Access::write).prop_map(|access| Call::of("write", vec![access])),
        access(Access::write).prop_map(|access| Call::of("edit", vec![access])),
        access(Access::read_tree).prop_map(|access| Call::of("grep", vec![access])),
        (access(Access::read), access(Access::write))
            .prop_map(|(from, to)| Call::of("copy", vec![from, to])),
        commands.prop_map(Call::bash),
        access(Access::read).prop_map(|access| {
            Call::from("elsewhere", "mystery", vec![access]).effects(Effects::READ_ONLY)
        }),
        Just(Call::from("elsewhere", "mystery", vec![])),
    ];
    (
        calls,
        select(vec!["main", "child", "other"]),
        prop::option::of(select(vec!["main", "child", "other"])),
        select(vec![SessionKind::Main, SessionKind::Dm]),
        select(vec![Tier::Host, Tier::T2]),
    )
        .prop_map(|(call, agent, parent, kind, tier)| {
            let call = call.agent(agent).session(kind).tier(tier);
            match parent {
                Some(parent) => call.started_by(parent),
                None => call,
            }
        })
}

fn rules() -> impl Strategy<Value = Vec<Written>> {
    prop::collection::vec(rule(), 0..8)
}

/// Each rule is a file of its own: rules that cover each other are then not an error. Files that
/// list agents all list the same ones, because an agent is known only if each of them knows it.
fn load(rules: &[Written], preset: &str) -> CedarPolicy {
    load_texts(rules.iter().map(Written::toml).collect(), preset)
}

fn load_texts(texts: Vec<String>, preset: &str) -> CedarPolicy {
    let preset = format!("[policy]\npreset = \"{preset}\"");
    let agents = |text: &String| text.starts_with("[agents.");
    let title = |text: &String| text.lines().next().unwrap().to_owned();
    let listed: BTreeSet<String> = texts
        .iter()
        .filter(|text| agents(text))
        .map(title)
        .collect();
    let texts = texts.into_iter().map(|mut text| {
        if agents(&text) {
            let others: Vec<&String> = listed.iter().filter(|o| **o != title(&text)).collect();
            for other in others {
                write!(text, "\n{other}\n").unwrap();
            }
        }
        text
    });
    let sources: Vec<PolicySource> = std::iter::once(preset)
        .chain(texts)
        .enumerate()
        .map(|(number, text)| PolicySource::new(format!("{number}.toml"), text))
        .collect();
    CedarPolicy::load(&sources).unwrap_or_else(|error| panic!("{error}"))
}

fn verdict(rules: &[Written], preset: &str, call: &Call) -> Verdict {
    call.decide(&load(rules, preset)).verdict
}

/// The answer before a rule is added. The section it is added to is there already, without it:
/// a section, even an empty one, is what makes an agent known, and that is not the rule's doing.
fn before(rules: &[Written], extra: &Written, preset: &str, call: &Call) -> Verdict {
    let mut texts: Vec<String> = rules.iter().map(Written::toml).collect();
    texts.push(format!("[{}]", extra.section));
    call.decide(&load_texts(texts, preset)).verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_naive_reading(
        rules in rules(),
        preset in select(PRESETS.to_vec()),
        calls in prop::collection::vec(call(), 1..6),
    ) {
        let policy = load(&rules, preset);
        for call in &calls {
            let expect = reference::decide(&rules, preset, call);
            let decision = call.decide(&policy);
            prop_assert_eq!(decision.verdict, expect, "{}", decision.reason);
            prop_assert_eq!(call.decide(&policy), decision);
            let explained = policy.explain(&call.question());
            let strictest = explained.steps.iter().map(|step| step.verdict).max();
            prop_assert_eq!(strictest, Some(expect));
        }
    }

    #[test]
    fn a_deny_rule_never_allows_more(
        mut rules in rules(),
        extra in rule().prop_filter("a group cannot be denied a path", can_be_denied),
        preset in select(PRESETS.to_vec()),
        call in call(),
    ) {
        let before = before(&rules, &extra, preset, &call);
        rules.push(Written { list: Deny, ..extra });
        prop_assert!(verdict(&rules, preset, &call) >= before);
    }

    #[test]
    fn an_ask_rule_never_allows_more(
        mut rules in rules(),
        extra in rule().prop_filter("a group cannot be denied a path", can_be_denied),
        preset in select(PRESETS.to_vec()),
        call in call(),
    ) {
        let before = before(&rules, &extra, preset, &call);
        rules.push(Written { list: Ask, ..extra });
        prop_assert!(verdict(&rules, preset, &call) >= before);
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        (rules, shuffled) in rules().prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        preset in select(PRESETS.to_vec()),
        call in call(),
    ) {
        prop_assert_eq!(verdict(&rules, preset, &call), verdict(&shuffled, preset, &call));
    }

    #[test]
    fn an_unknown_tool_is_never_allowed(
        rules in rules(),
        preset in select(PRESETS.to_vec()),
        call in call(),
    ) {
        let mut call = call;
        call.key.provider = "elsewhere".parse().unwrap();
        call.key.tool = "unheard_of".parse().unwrap();
        call.groups.clear();
        let named = rules.iter().any(|rule| rule.list == Allow && rule.selects(&call));
        prop_assume!(!named);
        prop_assert_ne!(verdict(&rules, preset, &call), Allow);
    }

    #[test]
    fn a_hidden_tool_is_denied_whatever_it_is_asked(
        rules in rules(),
        preset in select(PRESETS.to_vec()),
        call in call(),
    ) {
        let policy = load(&rules, preset);
        if call.visibility(&policy) != haft_contract::host::Visibility::Advertised {
            prop_assert_eq!(call.decide(&policy).verdict, Deny);
        }
    }
}
