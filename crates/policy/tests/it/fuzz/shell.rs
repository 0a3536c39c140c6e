//! Scripts: read twice the same, within bounds, and never judged less strictly for what follows.

use haft_contract::{WorkPath, access::Command, host::Verdict::Deny, ops::Tier};
use haft_policy::shell::{Refusal, analyse};
use haft_testkit::{Fuzz, ParseOutcome};
use toml::{Table, Value};

use crate::world::{Call, policy};

/// The most commands of one script, as the refusal prints it.
const MAX_COMMANDS: usize = 512;
/// The most wrappers around one command, as the refusal prints it.
const MAX_WRAPPERS: usize = 8;

/// Every script of the attack groups that is not repeated.
pub(super) fn scripts() -> Vec<String> {
    let texts = [
        include_str!("../../../../../attacks/sh.toml"),
        include_str!("../../../../../attacks/ai.toml"),
    ];
    let mut scripts = Vec::new();
    for text in texts {
        let table: Table = text.parse().unwrap();
        for case in table["case"].as_array().unwrap() {
            for key in ["asks", "denies", "twin"] {
                let listed = case.get(key).and_then(Value::as_array);
                let listed = listed.into_iter().flatten().filter_map(Value::as_str);
                scripts.extend(listed.map(str::to_owned));
            }
        }
    }
    scripts
}

pub(super) const WORDS: [&str; 56] = [
    "if ",
    "then ",
    "fi\n",
    "while ",
    "until ",
    "do ",
    "done\n",
    "for x in ",
    "case x in ",
    ";;",
    "esac",
    "! ",
    "[[ ",
    "]]",
    "time ",
    "else ",
    "$(",
    ")",
    "`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "<<E\n",
    "\nE\n",
    "<<-'E'\n",
    "<<<",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "{ ",
    "; }",
    "${",
    "}",
    "$((",
    "))",
    "<(",
    ">",
    ">>",
    "2>&1",
    "#",
    "*",
    "~",
    "$'\\x",
    "env -i ",
    "timeout 5 ",
    "xargs ",
    "sh -c ",
    "eval ",
    "find . -exec ",
    "coproc ",
    "f() ",
    "\u{a0}",
];

fn fuzz() -> Fuzz {
    Fuzz::seeds(scripts()).words(WORDS)
}

/// Reads a script twice and looks at everything that came of it.
fn hold(script: &str) -> ParseOutcome {
    let command = Command::Shell(script.to_owned());
    let read = || analyse(&command, &WorkPath::root(), "/w");
    let (first, second) = (read(), read());
    assert_eq!(first, second, "the same script was read differently");
    let analysis = match first {
        Ok(analysis) => analysis,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return ParseOutcome::Refused;
        }
    };
    let segments = analysis.segments();
    assert!(!segments.is_empty(), "there was nothing to judge");
    assert!(segments.len() <= MAX_COMMANDS, "{}", segments.len());
    for segment in segments {
        assert!(segment.runs().len() <= 64, "{:?}", segment.runs());
        assert!(segment.touches().count() <= 1024, "{}", segment.text());
        assert!(
            segment.inside().len() <= MAX_WRAPPERS,
            "{:?}",
            segment.inside()
        );
        let shown = segment.line();
        let known: usize = segment.argv().flatten().map(str::len).sum();
        assert!(shown.len() >= known, "{shown:?} shows less than the words");
    }
    ParseOutcome::Taken
}

#[test]
fn a_shell_script_is_read_twice_the_same_and_within_bounds() {
    fuzz()
        .inputs(700)
        .run(|bytes| hold(&String::from_utf8_lossy(bytes)));
}

/// Bash runs the first line before it reads the second, so nothing in the second can excuse the first.
#[test]
fn what_follows_in_a_shell_script_excuses_nothing_before_it() {
    let rules = policy(
        "[policy]\npreset = \"workspace\"\nallow = [\"bash(git *)\", \"bash(cat *)\"]\n\
         deny = [\"bash(git push)\", \"read(**/.env)\"]",
    );
    let verdict = |script: &str| Call::bash(script).tier(Tier::T2).decide(&rules).verdict;
    let denied = [
        "git push",
        "timeout 5 git -C . push",
        "cat .env",
        "true && cat a/.env",
    ];
    for first in denied {
        assert_eq!(verdict(first), Deny, "{first}");
        // Found by a seed of the moment: the parser took all of it for one mistake.
        let script = format!("{first}\n\\\u{fffd}$");
        assert_eq!(verdict(&script), Deny, "{script:?}");
    }
    fuzz().inputs(250).run(|bytes| {
        let rest = String::from_utf8_lossy(bytes);
        let first = denied[bytes.len() % denied.len()];
        let script = format!("{first}\n{rest}");
        assert_eq!(verdict(&script), Deny, "{script:?}");
        let command = Command::Shell(script);
        ParseOutcome::of(&analyse(&command, &WorkPath::root(), "/w"))
    });
}

/// Whatever is repeated, however often: no script makes a parser call itself until the stack of a
/// worker thread is full, which would end the process and not only the call.
#[test]
fn no_repetition_overflows_the_stack_of_a_worker() {
    const STACK: usize = 2 * 1024 * 1024;
    const PIECES: [&str; 16] = [
        "if ",
        "while ",
        "until ",
        "for x in a; do ",
        "case ",
        "case x in x) ",
        "select x in a; do ",
        "! ",
        "{ ",
        "( ",
        "(",
        "[[ ",
        "[[ ! ",
        "time ",
        "coproc ",
        "function f ",
    ];
    let scripts = PIECES.iter().flat_map(|piece| {
        [4, 8, 32, 64, 600, 64 * 1024 / piece.len()]
            .into_iter()
            .map(|count| piece.repeat(count.min(64 * 1024 / piece.len())))
    });
    let scripts: Vec<String> = scripts.collect();
    let mixed = "if ! { time ( while [[ ".repeat(6);
    let worker = std::thread::Builder::new().stack_size(STACK);
    let worker = worker.spawn(move || {
        for script in scripts.iter().chain([&mixed]) {
            hold(script);
        }
    });
    worker.unwrap().join().unwrap();
}

/// The bounds that this file repeats are those the refusals print.
#[test]
fn the_bounds_of_a_shell_script_are_the_printed_ones() {
    let printed = Refusal::TooManyCommands.to_string();
    assert!(printed.contains(&MAX_COMMANDS.to_string()), "{printed}");
    let printed = Refusal::TooManyWrappers.to_string();
    assert!(printed.contains(&MAX_WRAPPERS.to_string()), "{printed}");
}
