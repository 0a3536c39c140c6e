//! Deny rules that the sandbox holds by masks: which it is asked to hold, and what need not be asked
//! about then.

use haft_contract::{
    Labels, Masks,
    host::{
        Policy as _,
        Verdict::{Allow, Ask, Deny},
    },
    ops::Tier,
};

use crate::world::{Call, check, policy};

const HIDES_ENV: &str = "[policy]\npreset = \"workspace\"\nallow = [\"bash\"]\n\
                         deny = [\"read(**/.env)\"]\n";

/// Commands whose text does not say whether they read `.env`.
const UNCLEAR: [&str; 4] = [
    "cat .*",
    "python3 -c 'print(open(\".e\" + \"nv\").read())'",
    "find . -type f -exec cat {} +",
    "cat $FILE",
];

fn masks(hidden: &[&str], read_only: &[&str]) -> Masks {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    Masks {
        hidden: owned(hidden),
        read_only: owned(read_only),
    }
}

fn wanted(rules: &str, call: &Call) -> Masks {
    policy(rules).masks(&call.principal, &call.facts(), &Labels::NONE)
}

#[test]
fn a_deny_rule_that_a_mask_holds_is_no_reason_to_ask() {
    let rules = policy(HIDES_ENV);
    let held = masks(&["**/.env"], &[]);
    for script in UNCLEAR {
        let call = Call::bash(script).tier(Tier::T2);
        let without = call.decide(&rules);
        assert_eq!(without.verdict, Ask, "{script}: {}", without.reason);
        check(&rules, &call.masked(held.clone()), Allow);
    }
    let call = Call::bash("cat .*").tier(Tier::T2).masked(held);
    let steps = rules.explain(&call.question()).steps;
    let says = |reason: &str| reason.ends_with("; the sandbox hides `**/.env`");
    assert!(steps.iter().any(|step| says(&step.reason)), "{steps:#?}");
}

#[test]
fn what_a_command_plainly_names_stays_denied() {
    let rules = policy(HIDES_ENV);
    for script in ["cat .env", "cat < x/.env", "grep x .env"] {
        let call = Call::bash(script).tier(Tier::T2);
        check(&rules, &call.masked(masks(&["**/.env"], &[])), Deny);
    }
}

#[test]
fn what_git_has_stored_is_still_asked_about() {
    let rules = policy(HIDES_ENV);
    let held = masks(&["**/.env"], &[]);
    let call = |script: &str| Call::bash(script).tier(Tier::T2).masked(held.clone());
    assert_ne!(call("git show HEAD:.env").decide(&rules).verdict, Allow);
    check(&rules, &call("git status"), Allow);
}

#[test]
fn only_what_is_held_is_not_asked_about() {
    let rules = policy(
        "[policy]\npreset = \"workspace\"\nallow = [\"bash\"]\n\
         deny = [\"read(**/.env)\", \"write(*.lock)\"]\n",
    );
    let call = |held| Call::bash("cat .*").tier(Tier::T2).masked(held);
    check(&rules, &call(masks(&["**/.env"], &[])), Ask);
    check(&rules, &call(masks(&["**/.env"], &["**/*.lock"])), Allow);
    // Hiding is more than keeping unchanged, and not the other way round.
    check(&rules, &call(masks(&["**/.env", "**/*.lock"], &[])), Allow);
    check(&rules, &call(masks(&[], &["**/.env", "**/*.lock"])), Ask);
}

#[test]
fn a_mask_holds_neither_ask_rules_nor_rules_about_commands() {
    for more in ["ask = [\"read(notes/**)\"]", "ask = [\"bash(git push *)\"]"] {
        let rules = policy(&format!("{HIDES_ENV}{more}\n"));
        let call = Call::bash("python3 -c 'x'").tier(Tier::T2);
        check(
            &rules,
            &call.masked(masks(&["**/.env", "notes/**"], &[])),
            Ask,
        );
    }
}

#[test]
fn the_masks_are_those_of_the_caller_and_of_who_started_it() {
    let rules = "[policy]\npreset = \"workspace\"\n\
                 deny = [\"read(**/.env)\", \"write(vendor/**)\", \"bash(git push *)\"]\n\
                 ask = [\"read(notes/**)\"]\n\
                 [agents.main]\n[agents.reviewer]\ndeny = [\"write(**)\"]\n";
    let everyone = masks(&["**/.env"], &["vendor/**"]);
    let reviewer = masks(&["**/.env"], &["**", "vendor/**"]);
    assert_eq!(wanted(rules, &Call::bash("ls")), everyone);
    assert_eq!(wanted(rules, &Call::bash("ls").agent("reviewer")), reviewer);
    assert_eq!(
        wanted(rules, &Call::bash("ls").started_by("reviewer")),
        reviewer
    );
}

/// How many of them are masked, the sandbox decides.
#[test]
fn every_pattern_is_named_however_many_there_are() {
    let deny: Vec<String> = (0..=Masks::MAX_PATTERNS)
        .map(|number| format!("\"read(secret-{number}/**)\""))
        .collect();
    let rules = format!("[policy]\ndeny = [{}]\n", deny.join(", "));
    let wanted = wanted(&rules, &Call::bash("ls"));
    assert_eq!(wanted.hidden.len(), Masks::MAX_PATTERNS + 1);
}
