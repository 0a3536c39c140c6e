//! Generated texts: the reference is up to date, completions exist, help is what it was.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;

use crate::support::Stage;

/// The shells that have a completion script.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

fn page_of_the_guide(name: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    fs::read_to_string(guide.join(name)).unwrap()
}

#[test]
fn the_reference_is_what_the_program_says() {
    let stage = Stage::bare();
    let printed = stage.haft(&["docs"]).ok();
    assert!(
        page_of_the_guide("reference.md") == printed,
        "docs/guide/reference.md is stale: write `haft docs` to it"
    );
}

#[test]
fn completions_know_the_commands() {
    let stage = Stage::bare();
    for shell in SHELLS {
        let script = stage.haft(&["completions", shell]).ok();
        assert!(
            script.contains("explain") && script.contains("haft"),
            "{shell}"
        );
    }
}

/// What a shell offers after the words, with the script sourced as the guide says.
fn bash_offers(stage: &Stage, words: &[&str]) -> Vec<String> {
    let script = "
        source haft.bash || exit 1
        complete -p haft || exit 1
        COMP_WORDS=(haft \"$@\")
        COMP_CWORD=$#
        COMP_LINE=\"haft $*\"
        COMP_POINT=${#COMP_LINE}
        registered=$(complete -p haft)
        registered=${registered#*-F }
        ${registered%% *} haft \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"
    ";
    let shell = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", script, "bash"])
        .args(words)
        .current_dir(&stage.work)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success() && errors.is_empty(), "{errors}");
    let printed = String::from_utf8(shell.stdout).unwrap();
    let mut lines = printed.lines();
    let registered = lines.next().unwrap_or_default();
    assert!(registered.ends_with(" -F _haft haft"), "{registered}");
    lines.map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let stage = Stage::bare();
    stage.write("haft.bash", stage.haft(&["completions", "bash"]).ok());
    assert_eq!(bash_offers(&stage, &["expl"]), ["explain"]);
    assert_eq!(bash_offers(&stage, &["mcp", "inst"]), ["install"]);
    assert_eq!(bash_offers(&stage, &["call", "--tim"]), ["--timeout"]);
    assert_eq!(bash_offers(&stage, &["--color", "al"]), ["always"]);
    assert_eq!(bash_offers(&stage, &["nonsense"]), [""]);
}

#[test]
fn the_guide_installs_completions_as_the_help_says() {
    let stage = Stage::bare();
    let help = stage.haft(&["completions", "--help"]).ok();
    let guide = page_of_the_guide("install.md");
    for shell in SHELLS {
        let command = format!("haft completions {shell}");
        let line = help
            .lines()
            .find(|line| line.contains(&command))
            .unwrap_or_else(|| panic!("the help does not say how to install in {shell}"));
        let line = line.trim().trim_start_matches(shell).trim();
        assert!(
            guide.lines().any(|written| written == line),
            "docs/guide/install.md does not say `{line}`"
        );
    }
}

/// The commands that help lists, each with its words, the program itself first.
fn documented_commands() -> Vec<Vec<String>> {
    let headings = Regex::new(r"(?m)^#{2,3} haft(.*)$").unwrap();
    headings
        .captures_iter(&page_of_the_guide("reference.md"))
        .map(|heading| heading[1].split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// A page as a person reads it, if this machine has a program that shows man pages.
fn formatted(page: &Path) -> Option<String> {
    let programs: [(&str, &[&str]); 2] = [
        ("groff", &["-man", "-Tutf8", "-ww", "-P-c", "-rHY=0"]),
        ("mandoc", &["-Tutf8", "-Wwarning"]),
    ];
    let overstruck = Regex::new(".\u{8}").unwrap();
    for (program, arguments) in programs {
        let Ok(shown) = Command::new(program).args(arguments).arg(page).output() else {
            continue;
        };
        let errors = String::from_utf8_lossy(&shown.stderr);
        assert!(errors.is_empty(), "{program} {}: {errors}", page.display());
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let text = overstruck.replace_all(&text, "");
        return Some(text.replace(['\u{2010}', '\u{2212}'], "-"));
    }
    None
}

#[test]
fn every_command_has_a_man_page_with_all_of_its_options() {
    let stage = Stage::bare();
    let said = stage.haft(&["docs", "man", "share/man1"]).ok();
    let commands = documented_commands();
    assert!(commands.len() > 40, "{commands:?}");
    let expected = format!("{} manual pages in share/man1\n", commands.len());
    assert_eq!(said, expected);
    let option = Regex::new(r"(?m)^ +(?:-\w, )?(--[a-z-]+)").unwrap();
    let lines = Regex::new(r"\s+").unwrap();
    for words in commands {
        let name = [vec!["haft".to_owned()], words.clone()].concat().join("-");
        let path: PathBuf = stage.work.join(format!("share/man1/{name}.1"));
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {section}\n")),
                "{name}: {section}"
            );
        }
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("--help");
        let help = stage.haft(&words).ok();
        let shown = formatted(&path);
        for found in option.captures_iter(&help) {
            let written = found[1].replace('-', "\\-");
            assert!(page.contains(&written), "{name} leaves out {}", &found[1]);
            if let Some(shown) = &shown {
                assert!(
                    shown.contains(&found[1]),
                    "{name} does not show {}",
                    &found[1]
                );
            }
        }
        if let Some(shown) = shown {
            let shown = lines.replace_all(&shown, " ");
            let about = lines
                .replace_all(help.lines().next().unwrap(), " ")
                .into_owned();
            assert!(
                shown.contains(&format!("{name} - {about}")),
                "{name}: {shown}"
            );
        }
    }
}

#[test]
fn man_pages_need_a_directory_that_can_be_written() {
    let stage = Stage::bare();
    let error = stage.haft(&["docs", "man"]).fails(2);
    assert!(error.contains("DIR"), "{error}");
    stage.write("file", "");
    let error = stage.haft(&["docs", "man", "file"]).fails(2);
    assert!(
        error.contains("cannot write manual pages into `file`"),
        "{error}"
    );
    assert!(error.contains("hint: name a directory"), "{error}");
}

#[test]
fn help_is_help_and_a_mistake_is_a_mistake() {
    let stage = Stage::bare();
    assert!(stage.haft(&["--help"]).ok().contains("Usage: haft"));
    assert!(stage.haft(&["--version"]).ok().starts_with("haft 0."));
    let error = stage.haft(&["cal"]).fails(2);
    assert!(error.contains("call"), "{error}");
    assert!(
        error.ends_with("hint: `haft COMMAND --help` shows what a command takes\n"),
        "{error}"
    );
    let error = stage.haft(&["\u{1b}[31mred"]).fails(2);
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn a_value_of_the_configuration_says_where_it_comes_from() {
    let stage = Stage::with_config("[policy]\npreset = \"workspace\"\n\n[limits]\nprocesses = 7\n");
    let shown = stage.haft(&["config", "show"]).ok();
    assert!(shown.contains("processes = 7  # haft.toml:5"), "{shown}");
    assert!(!shown.contains("calls_in_flight"), "{shown}");
    let shown = stage.haft(&["config", "show", "--effective"]).ok();
    assert!(
        shown.contains("calls_in_flight = 16384  # default"),
        "{shown}"
    );
    let values = stage.json(&["--json", "config", "show"]);
    assert_eq!(values[0]["key"], "preset");
    assert_eq!(values[0]["origin"], "haft.toml:2");
    let schema = stage.json(&["--json", "config", "schema"]);
    assert_eq!(
        schema["properties"]["limits"]["additionalProperties"],
        false
    );
}
