//! The attack groups SH and AI, decided: what must not be allowed is not, and what is ordinary is.

use haft_contract::{
    PathMode, WorkPath,
    access::Command,
    host::Verdict::{self, Allow, Deny},
    ops::Tier,
};
use haft_policy::{
    CedarPolicy,
    shell::{Class, analyse},
};
use toml::{Table, Value};

use crate::world::{Call, policy};

const GROUPS: [(&str, usize, &str); 2] = [
    ("SH", 58, include_str!("../../../../attacks/sh.toml")),
    ("AI", 20, include_str!("../../../../attacks/ai.toml")),
];

/// The preset that allows most by itself.
const WORKSPACE: &str = "[policy]\npreset = \"workspace\"";

/// What people allow by wildcard: the harmless half of most attacks, and the programs that a word
/// turns into something else.
const WILDCARDS: &str = r#"
[policy]
preset = "careful"
allow = [
  "bash(echo *)", "bash(ls *)", "bash(cat *)", "bash(grep *)", "bash(true)", "bash(false)", "bash(cd *)", "bash(printf *)", "bash(test *)", "bash([ *)",
  "bash(git status *)", "bash(git log *)", "bash(git diff *)", "bash(git show *)", "bash(git grep *)", "bash(git blame *)", "bash(git fetch --all)",
  "bash(find *)", "bash(sort *)", "bash(sed *)", "bash(awk *)", "bash(rg *)", "bash(uniq *)", "bash(xxd f)", "bash(jq *)", "bash(date *)", "bash(file *)", "bash(tree *)",
  "bash(cargo test *)", "bash(npm run *)", "bash(make *)", "bash(diff *)", "bash(wc *)", "bash(time *)", "bash(timeout *)", "bash(nice *)", "bash(env *)", "bash(xargs *)",
]
"#;

/// Commands that `WILDCARDS` does allow, because a rule in it says so and nothing is hidden.
const BY_RULE: [&str; 14] = [
    "git log --oneline",
    "cargo test -p x",
    "git status",
    "npm run x",
    "make test",
    "sed -n 1,5p f",
    "ls /etc",
    "cat ~/x",
    "find . -name x",
    "echo ok; ls",
    "timeout 5 ls",
    "date",
    "git log main",
    "sort ./*",
];

fn cases(group: usize) -> Vec<Table> {
    let (name, count, text) = GROUPS[group];
    let table: Table = text
        .parse()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(table["group"].as_str(), Some(name));
    let cases: Vec<Table> = table["case"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case.as_table().unwrap().clone())
        .collect();
    for (number, case) in cases.iter().enumerate() {
        let id = format!("{name}-{:02}", number + 1);
        assert_eq!(case["id"].as_str(), Some(id.as_str()));
        let known = [
            "id",
            "title",
            "requires",
            "stopped_by",
            "rules",
            "tier",
            "asks",
            "denies",
            "twin",
            "due",
        ];
        for key in case.keys() {
            assert!(known.contains(&key.as_str()), "{id}: unknown word `{key}`");
        }
        let something = ["asks", "denies", "twin", "due"]
            .iter()
            .any(|key| case.contains_key(*key));
        assert!(something, "{id} shows nothing");
    }
    assert_eq!(cases.len(), count, "{name}");
    cases
}

fn list(case: &Table, key: &str) -> Vec<String> {
    let commands = case.get(key).and_then(Value::as_array);
    commands
        .into_iter()
        .flatten()
        .map(|command| expand(command.as_str().unwrap()))
        .collect()
}

/// `<x*300>` for three hundred times `x`, `<P>` for a file outside the workspace.
fn expand(text: &str) -> String {
    let text = text.replace("<P>", "/outside/P");
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find('<') {
        expanded.push_str(&rest[..start]);
        let repeated = rest[start + 1..]
            .split_once('>')
            .and_then(|(inner, after)| {
                let (piece, count) = inner.rsplit_once('*')?;
                Some((piece.repeat(count.parse().ok()?), after))
            });
        if let Some((repeated, after)) = repeated {
            expanded.push_str(&repeated);
            rest = after;
        } else {
            expanded.push('<');
            rest = &rest[start + 1..];
        }
    }
    expanded.push_str(rest);
    expanded
}

fn shown(command: &str) -> String {
    command
        .chars()
        .take(120)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

fn decide(rules: &CedarPolicy, tier: Tier, command: &str) -> (Verdict, String) {
    let decision = Call::bash(command).tier(tier).decide(rules);
    (decision.verdict, decision.reason)
}

#[track_caller]
fn run(group: usize) {
    let (workspace, wildcards) = (policy(WORKSPACE), policy(WILDCARDS));
    let mut wrong = Vec::new();
    for case in cases(group) {
        let id = case["id"].as_str().unwrap();
        let own = case
            .get("rules")
            .map(|rules| policy(rules.as_str().unwrap()));
        let tier = match case.get("tier").map(|tier| tier.as_str().unwrap()) {
            Some("host") => Tier::Host,
            Some(other) => panic!("{id}: unknown tier `{other}`"),
            // Where the sandbox holds a command without network, presets leave more to it; what
            // a text is read as decides in tier T1.
            None => Tier::T1,
        };
        let policies: Vec<&CedarPolicy> = match &own {
            Some(own) => vec![own],
            None => vec![&workspace, &wildcards],
        };
        for command in list(&case, "asks") {
            for rules in &policies {
                let (verdict, reason) = decide(rules, tier, &command);
                if verdict == Allow {
                    wrong.push(format!("{id} allowed: {} ({reason})", shown(&command)));
                }
            }
        }
        for command in list(&case, "denies") {
            for rules in &policies {
                let (verdict, reason) = decide(rules, tier, &command);
                if verdict != Deny {
                    wrong.push(format!(
                        "{id} {verdict}, not deny: {} ({reason})",
                        shown(&command)
                    ));
                }
            }
        }
        let loosest = policies[0];
        for command in list(&case, "twin") {
            let (verdict, reason) = decide(loosest, tier, &command);
            if verdict != Allow {
                wrong.push(format!(
                    "{id} twin {verdict}: {} ({reason})",
                    shown(&command)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn sh_01_to_58_are_asked_about_or_denied_and_their_twins_allowed() {
    run(0);
}

#[test]
fn ai_01_to_20_are_asked_about_or_denied_and_their_twins_allowed() {
    run(1);
}

/// Of the ordinary commands, all of which the preset allows, so many only look: every command in
/// them is known to look, and no word or redirection writes.
#[test]
fn sh_49_has_at_least_150_commands_that_only_look() {
    let workspace = policy(WORKSPACE);
    let only_looks = |script: &String| {
        let command = Command::Shell(script.clone());
        let analysis = analyse(&command, &WorkPath::root(), "/w").unwrap();
        analysis.segments().iter().all(|segment| {
            let writes = segment.names().any(|(mode, _)| mode == PathMode::Write);
            segment.class() == Class::Looks && !writes
        })
    };
    let twins = list(&cases(0)[48], "twin");
    let (looking, other): (Vec<String>, Vec<String>) = twins.into_iter().partition(only_looks);
    for script in looking.iter().chain(&other) {
        for tier in [Tier::T1, Tier::T2] {
            let (verdict, reason) = decide(&workspace, tier, script);
            assert_eq!(verdict, Allow, "{script}: {reason}");
        }
    }
    println!(
        "{} commands that only look and {} others are allowed",
        looking.len(),
        other.len()
    );
    assert!(looking.len() >= 150, "{}", looking.len());
    assert!(other.len() >= 50, "{}", other.len());
}

/// The wildcards the attacks are tried against do allow something.
#[test]
fn the_wildcards_allow_what_they_say() {
    let rules = policy(WILDCARDS);
    for command in BY_RULE {
        let (verdict, reason) = decide(&rules, Tier::T2, command);
        assert_eq!(verdict, Allow, "{command}: {reason}");
    }
}

/// A word the shell makes out of file names can be the word a rule speaks of.
#[test]
fn a_glob_does_not_slip_past_a_deny() {
    let texts = [
        r#"allow = ["bash(git *)"]"#,
        r#"allow = ["bash"]"#,
        r#"preset = "workspace""#,
    ];
    for allow in texts {
        for list in ["deny", "ask"] {
            let rules = policy(&format!(
                "[policy]\n{allow}\n{list} = [\"bash(git push *)\"]"
            ));
            for command in [
                "git pus?",
                "git p[u]sh",
                "git pus? origin main",
                "gi? push",
                "g[i]t push",
                "git {push,}",
                "{git,} push",
                "git --no-pager pus*",
                "git -C * push",
                "git 'pu's?",
                "timeout 5 git pus?",
                "bash -c 'git pus?'",
            ] {
                let (verdict, reason) = decide(&rules, Tier::T2, command);
                assert_ne!(verdict, Allow, "{allow}, {list}: {command}: {reason}");
            }
            let (verdict, reason) = decide(&rules, Tier::T2, "git add src/*.rs");
            let by_rule = !allow.starts_with("preset");
            assert!(verdict == Allow || !by_rule, "{allow}, {list}: {reason}");
        }
    }
}
