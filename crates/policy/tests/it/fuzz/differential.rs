//! What the rules allow, run by a real bash: scripts are made from known ones by mutation, and each
//! that is allowed is run in an empty sandbox where every program reports that it was started. Whatever
//! starts must be something a rule allows, and no file may change. The parsers are not asked what
//! they think; only what bash did counts (SH-56).
#![allow(
    clippy::disallowed_methods,
    reason = "a sandbox of the test's own, not a tool's files and processes"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use haft_contract::{host::Verdict, ops::Tier};
use haft_testkit::{Fuzz, ParseOutcome};

use super::shell::{WORDS, scripts};
use crate::world::{Call, policy};

/// Allows a few programs by wildcard, wrappers among them, and nothing else.
const ALLOWS: &str = r#"
[policy]
preset = "locked"
allow = [
  "bash(echo *)", "bash(printf *)", "bash(true)", "bash(false)", "bash(test *)", "bash([ *)", "bash(cd *)", "bash(set *)",
  "bash(ls *)", "bash(cat *)", "bash(grep *)", "bash(sort *)", "bash(find *)", "bash(git log *)", "bash(git status)",
  "bash(timeout *)", "bash(nice *)", "bash(env *)", "bash(xargs *)", "bash(time *)", "bash(command *)", "bash(bash *)",
]
"#;

/// Allows everything but two commands.
const DENIES: &str = r#"
[policy]
preset = "locked"
allow = ["bash"]
deny = ["bash(rm *)", "bash(git push *)"]
"#;

/// Programs that only report.
const SILENT: &str = "ls cat grep git rm touch curl evil python3 sh dash make npm cargo tee cp mv sed awk \
     head wc uniq jq sleep echo printf true false test id sudo";

/// Programs that report and then do what they always do.
const REAL: &str = "bash timeout nice env xargs find sort";

/// Options of git that take the next word.
const GIT_VALUES: &str =
    "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source";

const SEEDS: [&str; 40] = [
    "ls -la",
    "ls && rm x",
    "cat f | grep x | sort",
    "git log --oneline; git push",
    "git -C . log",
    "git -c a.b=c push",
    "timeout 5 rm x",
    "timeout -s KILL 5 ls",
    "nice -n 3 git push",
    "env A=b rm x",
    "env -u A ls",
    "find . -name f -exec rm {} ;",
    "find . -name f -exec rm {} \\;",
    "find . -type f",
    "echo x | xargs rm",
    "echo f | xargs -n 1 ls",
    "echo f | xargs -I X rm X",
    "bash -c 'rm x'",
    "bash -c 'ls; ls'",
    "command rm x",
    "command -v rm",
    "eval rm x",
    "$(echo rm) x",
    "`echo rm` x",
    "X=rm; $X x",
    "rm() { ls; }; rm",
    "alias ls=rm; ls",
    "if ls; then rm x; fi",
    "for x in a b; do ls $x; done",
    "while false; do rm x; done",
    "case a in a) rm x;; esac",
    "cat <<E\nrm x\nE",
    "cat <<E\n$(rm x)\nE",
    "echo $((x=1))",
    "ls > out",
    "sort -o out f",
    "set -e; ls",
    "set -o keyword; ls PATH=.",
    "time ls; ! ls",
    "(cd a && ls) & git push",
];

/// The directory a sandbox sees as `/scene`.
struct ScratchTree(PathBuf);

impl ScratchTree {
    fn new() -> Self {
        let name = format!("haft-differential-{}", std::process::id());
        let tree = Self(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&tree.0);
        fs::create_dir_all(tree.0.join("stubs")).unwrap();
        let report = "IFS=$(printf '\\037')\nprintf '%s\\036' \"${0##*/}$IFS$*\" >>/scene/log\n";
        for name in SILENT.split_whitespace() {
            tree.program(
                &format!("stubs/{name}"),
                &format!("#!/usr/bin/dash\n{report}"),
            );
        }
        for name in REAL.split_whitespace() {
            let real = format!("#!/usr/bin/dash\n{report}unset IFS\nexec /usr/bin/{name} \"$@\"\n");
            tree.program(&format!("stubs/{name}"), &real);
        }
        fs::write(tree.0.join("driver"), include_str!("differential.sh")).unwrap();
        tree
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for ScratchTree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A bash in an empty sandbox that runs one script after the other.
struct Bash {
    child: Child,
    scripts: ChildStdin,
    reports: BufReader<ChildStdout>,
}

/// What happened when a script ran.
struct Report {
    /// The programs that were started, each with its words.
    started: Vec<Vec<String>>,
    changed: bool,
}

impl Bash {
    fn in_sandbox(scene: &Path) -> Self {
        let mut command = Command::new("bwrap");
        command.args([
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--clearenv",
        ]);
        for (name, target) in [
            ("/bin", "usr/bin"),
            ("/lib", "usr/lib"),
            ("/lib64", "usr/lib64"),
        ] {
            command.args(["--symlink", target, name]);
        }
        command.args([
            "--ro-bind",
            "/usr",
            "/usr",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        command
            .args(["--tmpfs", "/tmp", "--bind"])
            .arg(scene)
            .arg("/scene");
        command.args([
            "--setenv",
            "PATH",
            "/scene/stubs",
            "--setenv",
            "HOME",
            "/scene/home",
        ]);
        command.args([
            "--chdir",
            "/scene",
            "/usr/bin/bash",
            "--norc",
            "--noprofile",
            "/scene/driver",
        ]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bubblewrap is installed");
        let scripts = child.stdin.take().unwrap();
        let reports = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            scripts,
            reports,
        }
    }

    fn run(&mut self, script: &str) -> Report {
        self.scripts.write_all(script.as_bytes()).unwrap();
        self.scripts.write_all(&[0]).unwrap();
        self.scripts.flush().unwrap();
        let mut report = Vec::new();
        self.reports.read_until(0, &mut report).unwrap();
        assert_eq!(report.pop(), Some(0), "the driver ended");
        let text = String::from_utf8_lossy(&report);
        let (log, changed) = text.rsplit_once('\u{1d}').unwrap();
        let entries = log.split('\u{1e}').filter(|entry| !entry.is_empty());
        Report {
            started: entries
                .map(|entry| entry.split('\u{1f}').map(str::to_owned).collect())
                .collect(),
            changed: changed == "changed",
        }
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What git is told to do.
fn subcommand(words: &[String]) -> Option<&str> {
    let mut words = words.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        if GIT_VALUES.split(' ').any(|option| option == word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Whether `ALLOWS` says a program with these words may start.
fn is_allowed(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("git") => match words.get(1).map(String::as_str) {
            Some("log") => {
                let mut options = words.iter().take_while(|word| *word != "--");
                !options.any(|word| word.starts_with("--out"))
            }
            Some("status") => words.len() == 2,
            _ => false,
        },
        Some(
            "echo" | "printf" | "true" | "false" | "test" | "ls" | "cat" | "grep" | "sort" | "find"
            | "timeout" | "nice" | "env" | "xargs" | "bash",
        ) => true,
        _ => false,
    }
}

/// Whether `DENIES` says a program with these words may not start.
fn is_denied(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("rm") => true,
        Some("git") => subcommand(words) == Some("push"),
        _ => false,
    }
}

#[test]
#[ignore = "ci: needs bubblewrap; a real bash for every script that is allowed"]
fn what_the_rules_allow_is_what_bash_does() {
    let scene = ScratchTree::new();
    let mut bash = Bash::in_sandbox(&scene.0);
    let (allowing, denying) = (policy(ALLOWS), policy(DENIES));
    let (mut ran, mut started) = (0_usize, 0_usize);
    let known = scripts();
    let known = known
        .iter()
        .filter(|script| script.len() < 200 && !script.contains('<'));
    let seeds = SEEDS.iter().map(|seed| (*seed).to_owned());
    let harness = Fuzz::seeds(seeds.chain(known.cloned()))
        .words(WORDS)
        .words([
            "rm x", "git push", "ls", "./evil", "touch x", "-c", "-exec", "-o", "{}",
        ])
        .longest(256)
        .inputs(1_000);
    harness.run(|bytes| {
        let script = String::from_utf8_lossy(bytes).replace('\0', "");
        let allowed = |policy| {
            let decision = Call::bash(&script).tier(Tier::T2).decide(policy);
            decision.verdict == Verdict::Allow
        };
        let (by_allow, by_deny) = (allowed(&allowing), allowed(&denying));
        if !by_allow && !by_deny {
            return ParseOutcome::Refused;
        }
        let report = bash.run(&script);
        ran += 1;
        started += report.started.len();
        if by_allow {
            assert!(!report.changed, "a file changed");
            let other = report.started.iter().find(|words| !is_allowed(words));
            assert!(other.is_none(), "no rule allows {other:?}");
        }
        if by_deny {
            let denied = report.started.iter().find(|words| is_denied(words));
            assert!(denied.is_none(), "a rule denies {denied:?}");
        }
        ParseOutcome::Taken
    });
    println!("{ran} scripts were allowed and run, {started} programs were started");
    assert!(started * 4 > ran, "hardly anything was started");
}

/// The sandbox reports: without that the test above would prove nothing.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn the_sandbox_reports_what_starts_and_what_changes() {
    let scene = ScratchTree::new();
    let mut bash = Bash::in_sandbox(&scene.0);
    for (script, program) in [
        ("rm x", "rm"),
        ("timeout 5 rm x", "rm"),
        ("env A=b git push", "git"),
        ("find . -name f -exec rm {} \\;", "rm"),
        ("echo x | xargs rm", "rm"),
        ("$(echo rm) x", "rm"),
        ("bash -c 'rm x' &", "rm"),
        ("./evil", "evil"),
    ] {
        let report = bash.run(script);
        let named = |words: &Vec<String>| words.first().is_some_and(|name| name == program);
        assert!(
            report.started.iter().any(named),
            "{script}: {:?}",
            report.started
        );
        assert!(!report.changed, "{script}");
    }
    for script in [
        "echo x > out",
        "sort -o out f",
        "find . -name f -delete",
        "echo x >> f",
    ] {
        assert!(bash.run(script).changed, "{script}");
    }
    let report = bash.run("ls -l f");
    assert_eq!(report.started, [["ls", "-l", "f"]]);
    assert!(!report.changed);
}
