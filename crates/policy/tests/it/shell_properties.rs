//! What must hold for any script: joining, nesting and wrapping never loosen an answer, a deny rule
//! never allows more, and nothing makes the analysis panic.

use haft_contract::{
    WorkPath,
    access::Command,
    host::Verdict::{self, Allow, Ask},
    ops::Tier,
};
use haft_policy::{CedarPolicy, shell::analyse};
use proptest::{prelude::*, sample::select};

use crate::world::{Call, policy};

/// Commands of every kind: known, unknown, denied, hazardous, unclear, reading, writing.
const COMMANDS: [&str; 26] = [
    "ls",
    "ls -la src",
    "echo a",
    "echo 'a; b'",
    "cat .env",
    "cat notes",
    "git push",
    "git push --force",
    "git status",
    "git -C . push",
    "git log --output=f",
    "rm -rf x",
    "touch P",
    "npm test",
    "npm run x",
    "$X",
    "echo $X",
    "echo $(git push)",
    "echo x > notes",
    "echo x > .bashrc",
    "python3 -c x",
    "find . -delete",
    "sort -o f f",
    "true",
    "X=1",
    "./run",
];

const POLICIES: [&str; 5] = [
    "[policy]\npreset = \"workspace\"",
    "[policy]\npreset = \"workspace\"\ndeny = [\"bash(git push)\", \"read(**/.env)\"]",
    "[policy]\nallow = [\"bash(echo *)\", \"bash(ls *)\", \"bash(git *)\", \"bash(npm run *)\", \"bash(cat *)\"]",
    "[policy]\nallow = [\"bash\"]\nask = [\"bash(rm *)\"]\ndeny = [\"bash(git push *)\", \"write(notes)\"]",
    "[policy]\npreset = \"locked\"\nallow = [\"bash(ls)\", \"bash(echo *)\", \"bash(timeout *)\", \"bash(bash *)\"]",
];

fn command() -> impl Strategy<Value = &'static str> {
    select(COMMANDS.to_vec())
}

fn tier() -> impl Strategy<Value = Tier> {
    select(vec![Tier::Host, Tier::T2])
}

fn policies() -> Vec<CedarPolicy> {
    POLICIES.iter().map(|text| policy(text)).collect()
}

fn verdict(rules: &CedarPolicy, tier: Tier, script: &str) -> Verdict {
    Call::bash(script).tier(tier).decide(rules).verdict
}

/// Ways to join two commands.
fn joined(first: &str, second: &str) -> [String; 9] {
    [
        format!("{first}; {second}"),
        format!("{first} && {second}"),
        format!("{first} || {second}"),
        format!("{first} | {second}"),
        format!("{first} & {second}"),
        format!("{first}\n{second}"),
        format!("if {first}; then {second}; fi"),
        format!("while {first}; do {second}; done"),
        format!("({first}) && {{ {second}; }}"),
    ]
}

/// Ways to put one command into something else.
fn nested(command: &str) -> Vec<String> {
    let mut nested = vec![
        format!("({command})"),
        format!("{{ {command}; }}"),
        format!("! {command}"),
        format!("echo $({command})"),
        format!("echo \"$({command})\""),
        format!("cat <({command})"),
        format!("f() {{ {command}; }}; f"),
        format!("for x in a; do {command}; done"),
        format!("case x in x) {command};; esac"),
        format!("cat <<EOF\n$({command})\nEOF"),
    ];
    if !command.contains('\'') {
        nested.push(format!("bash -c '{command}'"));
        nested.push(format!("sh -ec '{command}'"));
        nested.push(format!("eval '{command}'"));
        nested.push(format!("trap '{command}' EXIT"));
    }
    nested
}

/// Ways to wrap the words of a command.
fn wrapped(command: &str) -> Vec<String> {
    // Words that a shell would have to expand or redirect are no words for a wrapper.
    if command.contains(['$', '=', '>']) {
        return Vec::new();
    }
    [
        "timeout 5",
        "nice",
        "nice -n 5",
        "env",
        "nohup",
        "stdbuf -oL",
        "setsid",
        "time",
        "command",
        "sudo",
        "xargs",
        "busybox",
        "exec",
        "timeout -k 1 5 nice env",
        "doas",
    ]
    .iter()
    .map(|wrapper| format!("{wrapper} {command}"))
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn joining_never_weakens(first in command(), second in command(), tier in tier()) {
        for rules in policies() {
            let strictest = verdict(&rules, tier, first).max(verdict(&rules, tier, second));
            for script in joined(first, second) {
                let joined = verdict(&rules, tier, &script);
                prop_assert!(joined >= strictest, "{:?} is {}, not {}", script, joined, strictest);
            }
        }
    }

    #[test]
    fn nesting_and_wrapping_never_weaken(command in command(), tier in tier()) {
        for rules in policies() {
            let plain = verdict(&rules, tier, command);
            for script in nested(command).into_iter().chain(wrapped(command)) {
                let nested = verdict(&rules, tier, &script);
                prop_assert!(nested >= plain, "{:?} is {}, not {}", script, nested, plain);
            }
        }
    }

    #[test]
    fn a_deny_rule_about_commands_never_allows_more(
        first in command(),
        second in command(),
        denied in select(vec!["ls", "git *", "echo", "rm -rf *", "*x*", "timeout 5", "npm"]),
        tier in tier(),
    ) {
        let script = format!("{first}; timeout 5 {second}");
        for text in POLICIES {
            let stricter = format!("[policy]\ndeny = [\"bash({denied})\"]");
            let sources = [
                haft_policy::PolicySource::new("a.toml", text),
                haft_policy::PolicySource::new("b.toml", stricter),
            ];
            let both = CedarPolicy::load(&sources).unwrap();
            let before = verdict(&policy(text), tier, &script);
            prop_assert!(verdict(&both, tier, &script) >= before, "{:?}", script);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n\t]{0,200}") {
        let _ = analyse(&Command::Shell(text), &WorkPath::root(), "/w");
    }

    #[test]
    fn no_pieces_of_scripts_make_it_panic(
        pieces in prop::collection::vec(select(vec![
            "echo", " ", "'", "\"", "$(", ")", "`", "{", "}", "(", ";", "&&", "|", "&", "\n", "<<EOF", "EOF", ">", "<", "$", "${", "x", "=", "[[", "]]",
            "if ", "then ", "fi", "for ", "do ", "done", "case ", "esac", ";;", "\\", "é", "\u{202e}", "\r", "#", "!", "*", "find . -exec ", "xargs ", "sh -c ", "-", "timeout 5 ", "env ", "2>&1", "<(", "((", "))",
        ]), 0..40),
    ) {
        let script = pieces.concat();
        let _ = analyse(&Command::Shell(script), &WorkPath::root(), "/w");
    }

    /// A script that is no more than literal words is read as exactly these.
    #[test]
    fn quoted_words_are_what_they_say(words in prop::collection::vec("[ -&(-~]{1,12}", 1..6)) {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!("echo {}", quoted.join(" "));
        let analysis = analyse(&Command::Shell(script), &WorkPath::root(), "/w").unwrap();
        let read: Vec<Option<&str>> = analysis.segments()[0].argv().skip(1).collect();
        let wanted: Vec<Option<&str>> = words.iter().map(|word| Some(word.as_str())).collect();
        prop_assert_eq!(analysis.segments().len(), 1);
        prop_assert_eq!(read, wanted);
        prop_assert!(analysis.segments()[0].unclear().is_empty());
    }
}

/// What asks inside a script asks with the name of the command that does.
#[test]
fn the_deciding_command_is_named() {
    let rules = policy(POLICIES[0]);
    let decision = Call::bash("ls && git status; touch /etc/P; pwd")
        .tier(Tier::T2)
        .decide(&rules);
    assert_eq!(decision.verdict, Ask);
    assert_eq!(decision.access.as_deref(), Some("command touch /etc/P"));
    assert_eq!(
        decision.reason,
        "no rule allows running `touch /etc/P`, so preset `workspace` asks: it leads out of the \
         workspace"
    );
    let call = Call::bash("ls && touch /etc/P").tier(Tier::T2);
    let explanation = rules.explain(&call.question());
    let steps: Vec<_> = explanation
        .steps
        .iter()
        .map(|step| (step.access.as_deref(), step.verdict))
        .collect();
    assert!(steps.contains(&(Some("command ls"), Allow)), "{steps:?}");
    assert!(
        steps.contains(&(Some("command touch /etc/P"), Ask)),
        "{steps:?}"
    );
}
