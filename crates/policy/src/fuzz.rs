//! Untrusted rule patterns against untrusted commands: what is allowed is never more than what the
//! same words deny, and what is written literally matches itself.

use haft_contract::{
    WorkPath,
    access::Command,
    host::{RuleRef, Verdict},
};
use haft_testkit::{Fuzz, ParseOutcome};

use crate::{
    command_pattern::PatternReach,
    pattern::{Pattern, PatternScope},
    rule::{Rule, RuleError, Section},
    shell::{Segment, analyse},
    text_pattern::TextPattern,
};

/// A pattern on the first line, a script on the others.
const PATTERNS_AND_SCRIPTS: [&str; 24] = [
    "git push *\ngit push origin main",
    "git push\ngit -C . push",
    "git push --force *\ngit push origin --force",
    "git -C x push\ngit -C x push",
    "git -c a=b log *\ngit -c a=b log -p",
    "git log --output=f *\ngit log --output=f x",
    "rm -rf *\nrm -r -f x",
    "rm -- -x\nrm -- -x",
    "npm run *\nnpm run build; rm x",
    "npm --prefix a run b\nnpm --prefix a run b",
    "kubectl -n prod delete *\nkubectl -n prod delete pod x",
    "cargo +nightly test\ncargo +nightly test",
    "cargo --color never test\ncargo --color never test",
    "ls \\*\nls '*'",
    "grep 'a b' *\ngrep \"a b\" f",
    "echo \\**\necho '*a'",
    "a*b*c\na--b--b--c",
    "/usr/bin/git status\n/usr/bin/git status",
    "timeout 5 make\ntimeout 5 make",
    "docker -H h run *\ndocker -H h run x",
    "find . -name x\nfind . -name x",
    "python3 -c *\npython3 -c x",
    "tar -xzf a.tgz\ntar -xzf a.tgz",
    "env A=b make\nenv A=b make",
];

const WORDS: [&str; 40] = [
    "*", "\\*", "\\", " ", "  ", "\t", "'", "\"", "' '", "-", "--", "-f", "-rf", "--force", "=",
    "-C ", "-c ", "git ", "push", "npm ", "rm ", "/", "./", "../", "~", "?", "[a]", "{a,b}", "$X",
    "$(id)", ";", "|", ">f", "#", "(", ")", "@", "\n", "**", "**/",
];

fn fuzz() -> Fuzz {
    Fuzz::seeds(PATTERNS_AND_SCRIPTS).words(WORDS).longest(512)
}

/// Splits an input into its two parts.
fn parts(bytes: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match text.split_once('\n') {
        Some((pattern, script)) => (pattern.to_owned(), script.to_owned()),
        None => (text.clone(), text),
    }
}

fn segments(script: &str) -> Vec<Segment> {
    let command = Command::Shell(script.to_owned());
    let analysis = analyse(&command, &WorkPath::root(), "/w");
    analysis.map_or_else(|_| Vec::new(), |analysis| analysis.segments().to_vec())
}

/// The words of a command, if all are known.
fn words(segment: &Segment) -> Option<String> {
    let words: Option<Vec<&str>> = segment.argv().collect();
    words.map(|words| words.join("\0"))
}

#[test]
fn a_command_pattern_allows_no_more_than_it_denies_and_matches_itself() {
    fuzz().inputs(1_500).run(|bytes| {
        let (text, script) = parts(bytes);
        let (Ok(allow), Ok(deny)) = (
            Pattern::command(&text, PatternScope::Exact),
            Pattern::command(&text, PatternScope::Wide),
        ) else {
            return ParseOutcome::Refused;
        };
        let (Some(covering), Some(reaching)) = (&allow.command, &deny.command) else {
            return ParseOutcome::Refused;
        };
        for segment in segments(&script).iter().chain(&segments(&text)) {
            let covers = covering.covers(segment, true);
            // A key joins words with NUL, so a word that contains NUL would be ambiguous.
            let itself = !bytes.contains(&0)
                && words(segment).is_some_and(|words| covering.literal_key() == Some(words));
            if itself && segment.unclear().is_empty() {
                assert!(
                    covers,
                    "`{text}` in allow does not cover `{}`",
                    segment.line()
                );
            }
            assert!(
                covers || !covering.covers(segment, false),
                "{}",
                segment.line()
            );
            if covers || itself {
                let reaches = reaching.reaches(segment);
                let line = segment.line();
                assert_eq!(reaches, PatternReach::Yes, "`{text}` in deny and `{line}`");
            }
        }
        ParseOutcome::Taken
    });
}

#[test]
fn a_text_pattern_matches_as_its_naive_reading_does() {
    fuzz().run(|bytes| {
        let (text, other) = parts(bytes);
        let pattern = TextPattern::parse(&text);
        assert_eq!(
            pattern.matches(&other),
            naive(&text, &other),
            "{text:?} on {other:?}"
        );
        // Every text can be written as a pattern that matches it and nothing else.
        let literal = TextPattern::parse(&other.replace('*', "\\*"));
        assert!(
            matches!(&literal, TextPattern::Literal(kept) if *kept == other),
            "{literal:?}"
        );
        match pattern {
            TextPattern::Wild(_) => ParseOutcome::Taken,
            TextPattern::Literal(_) => ParseOutcome::Refused,
        }
    });
}

/// Tries every position for every star.
fn naive(pattern: &str, text: &str) -> bool {
    // `None` is a star.
    let mut pieces: Vec<Option<char>> = Vec::new();
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\*");
        pieces.push(
            (escaped.is_some() || next != '*').then_some(if escaped.is_some() {
                '*'
            } else {
                next
            }),
        );
        rest = escaped.unwrap_or(&rest[next.len_utf8()..]);
    }
    let text: Vec<char> = text.chars().collect();
    // Which ends in the text the pieces so far can reach.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    for piece in pieces {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            next[at] = match piece {
                None => ends[at] || (at > 0 && next[at - 1]),
                Some(wanted) => at > 0 && ends[at - 1] && text[at - 1] == wanted,
            };
        }
        ends = next;
    }
    ends[text.len()]
}

fn rule(text: &str, verdict: Verdict) -> Result<Rule, RuleError> {
    let origin = RuleRef {
        text: text.to_owned(),
        source: "haft.toml".to_owned(),
        line: None,
    };
    Rule::parse(text, verdict, Section::Everyone, origin)
}

#[test]
fn a_rule_reads_again_as_what_it_was_read_as() {
    const RULES: [&str; 22] = [
        "bash(git push *)",
        "builtin/bash(ls)",
        "read(**/.env)",
        "write(src/)",
        "edit(./a/../b)",
        "grep(src/*.rs)",
        "copy({a,b}/[c-d]?)",
        "read(a\\*b)",
        "mcp__github__*",
        "mcp__github__*(domain:example.com)",
        "fetch(domain:*.Example.com.)",
        "@all",
        "@files(**)",
        "@read-only",
        "github/create_issue",
        "read",
        "deploy(action:roll*)",
        "db(crm, writes)",
        "message(slack:#ops)",
        "host(*.example.com)",
        "future:deploy(docs.rs)",
        "pay(payment:eur/*)",
    ];
    let words = [
        "bash(", "read(", "write(", "@", "mcp__", "domain:", "builtin/", "~/",
    ];
    let harness = Fuzz::seeds(RULES)
        .words(words)
        .words(WORDS)
        .inputs(1_000)
        .longest(256);
    harness.run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut taken = ParseOutcome::Refused;
        for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            let read = match rule(&text, verdict) {
                Ok(read) => read,
                Err(error) => {
                    assert!(!error.to_string().is_empty() && !error.hint().is_empty());
                    continue;
                }
            };
            let selector = &read.selector;
            let written = match &read.pattern {
                Some(pattern) => format!("{selector}({})", pattern.text),
                None => selector.to_string(),
            };
            let again = rule(&written, verdict).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again.selector, read.selector, "{written}");
            let shown = |rule: &Rule| format!("{:?}", rule.pattern);
            assert_eq!(shown(&again), shown(&read), "{written}");
            taken = ParseOutcome::Taken;
        }
        taken
    });
}

/// The rule offered to a person for a script names that script, whatever it contains.
#[test]
fn every_script_can_be_written_as_a_command_pattern() {
    fuzz().inputs(800).run(|bytes| {
        let (_, script) = parts(bytes);
        if script.is_empty() {
            return ParseOutcome::Refused;
        }
        let text = format!("bash({})", script.replace('*', "\\*"));
        let rule = rule(&text, Verdict::Allow).unwrap_or_else(|error| panic!("{error}"));
        assert!(rule.speaks_of(&script), "{text:?}");
        ParseOutcome::Taken
    });
}
