//! Where an option ends and a command or a path begins: spellings by which a program or a protected
//! file was once taken for the value of something else.

use haft_contract::{Masks, WorkPath, access::Command, host::Verdict, ops::Tier};
use haft_policy::{
    CedarPolicy,
    shell::{Class, analyse},
};

use crate::world::{Call, check, policy};

/// The preset that allows most by itself, and one file that is not to be read.
const WORKSPACE: &str = "[policy]\npreset = \"workspace\"\ndeny = [\"read(.env)\"]";

fn verdict(policy: &CedarPolicy, script: &str) -> Verdict {
    Call::bash(script).tier(Tier::T2).decide(policy).verdict
}

#[track_caller]
fn not_allowed(scripts: &[&str]) {
    let workspace = policy(WORKSPACE);
    let allowed: Vec<&&str> = scripts
        .iter()
        .filter(|script| verdict(&workspace, script) == Verdict::Allow)
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[track_caller]
fn allowed(scripts: &[&str]) {
    let workspace = policy(WORKSPACE);
    let stopped: Vec<&&str> = scripts
        .iter()
        .filter(|script| verdict(&workspace, script) != Verdict::Allow)
        .collect();
    assert!(stopped.is_empty(), "{stopped:#?}");
}

#[test]
fn optional_values_of_xargs_are_never_the_next_word() {
    not_allowed(&[
        "echo x | xargs -i sh ls",
        "echo x | xargs --replace sh ls",
        "echo x | xargs --max-lines sh ls",
        "echo x | xargs -l sh ls",
        "echo x | xargs -e sh ls",
        "echo evil.py | xargs --eof python3 cat evil.py",
        "echo x | xargs -i curl echo",
        "echo .env | xargs -i touch ls",
        "echo x | xargs -0i sh ls",
        "echo x | xargs -iX sh X",
        "echo x | xargs --replace=X sh X",
        // The text that is replaced is the program.
        "echo x | xargs -0I ls ls",
        "echo x | xargs -0Ils ls",
        "echo x | xargs -I X -I ls ls",
        "echo x | xargs -ils ls",
    ]);
    let denies = policy("[policy]\npreset = \"workspace\"\ndeny = [\"bash(rm *)\"]");
    for script in ["echo x | xargs -i rm ls", "echo x | xargs --eof rm ls"] {
        assert_eq!(verdict(&denies, script), Verdict::Deny, "{script}");
    }
    allowed(&[
        "echo x | xargs -n 1 echo",
        "echo x | xargs -i echo {}",
        "echo x | xargs echo",
    ]);
}

#[test]
fn wrappers_read_files_and_change_directories() {
    not_allowed(&[
        "xargs -a .env echo",
        "xargs -a.env echo",
        "xargs -0a .env echo",
        "xargs --arg-file=.env echo",
        "xargs --arg-file .env echo",
        "xargs -a /etc/shadow echo",
        "env -C/etc cat passwd",
        "env -iC /etc cat passwd",
    ]);
}

#[test]
fn a_path_is_found_behind_any_letter_of_a_cluster() {
    not_allowed(&[
        "grep -rf.env x",
        "grep -f.env x",
        "grep -rf .env x",
        "rg -if .env x",
        "rg -if.env x",
        "rg -ie x .env",
        "git ls-files -iX .env",
        "git ls-files -iX.env",
        "diff -rX .env a b",
        "diff -rX.env a b",
    ]);
    allowed(&[
        "grep -rn x src",
        "rg -in x src",
        "diff -rx target a b",
        "rg -ie x src",
    ]);
}

#[test]
fn files_are_read_by_other_names_too() {
    not_allowed(&[
        "strings @.env",
        "readelf @x",
        "nm @x",
        "size @x",
        "mv .env x",
        "mv a .env x",
        "git mv .env x",
        "git show HEAD:.env",
        "git show :.env",
        "git show :0:.env",
        "git cat-file -p HEAD:.env",
        "git log -L1,5:.env",
        "git log -L 1,5:.env",
        "git diff HEAD:.env a",
    ]);
    allowed(&[
        "strings a",
        "mv a b",
        "git show HEAD:src/a.rs",
        "git log -L1,5:src/a.rs",
    ]);
}

#[test]
fn what_a_toolchain_file_decides_is_run() {
    for script in [
        "cargo --version",
        "cargo version",
        "cargo locate-project",
        "rustc -V",
        "rustup show",
        "go version",
        "go env",
    ] {
        let command = Command::Shell(script.to_owned());
        let analysis = analyse(&command, &WorkPath::root(), "/w").unwrap();
        assert_eq!(analysis.segments()[0].class(), Class::Runs, "{script}");
    }
}

#[test]
fn a_word_that_is_known_in_part_is_not_known() {
    not_allowed(&[
        "cat .e$X",
        "cat .e\"$X\"",
        "cat \"$X\"v",
        "cat .e$(echo nv)",
        "cat .'e'\"$X\"",
    ]);
    allowed(&["cat .e", "cat .'e'\"x\""]);
}

#[test]
fn what_a_recipe_is_given_may_be_a_file() {
    not_allowed(&["make .env", "make -n .env"]);
    // Even `make test` may read it, but where the sandbox hides it only the word counts.
    let workspace = policy(WORKSPACE);
    let held = Masks {
        hidden: vec!["**/.env".to_owned()],
        read_only: vec![],
    };
    for script in ["make test", "make -n test"] {
        let call = Call::bash(script).tier(Tier::T2);
        assert_eq!(call.decide(&workspace).verdict, Verdict::Ask, "{script}");
        check(&workspace, &call.masked(held.clone()), Verdict::Allow);
    }
}

#[test]
fn a_file_that_no_word_is_may_be_named() {
    let names = |script: &str| {
        let command = Command::Shell(script.to_owned());
        let analysis = analyse(&command, &WorkPath::root(), "/w").unwrap();
        analysis.segments()[0].may_name().to_vec()
    };
    let main = "/w/tool/__main__.py".to_owned();
    assert!(names("python3 tool").contains(&main));
    assert!(names("/usr/bin/python3.12 -B tool").contains(&main));
    assert!(!names("cat tool").contains(&main));
    let list = "/w/list".to_owned();
    for script in [
        "grep -flist x",
        "grep -rflist x",
        "x --file=list",
        "x < list",
    ] {
        assert!(names(script).contains(&list), "{script}");
    }
}

#[test]
fn a_variable_is_harmless_only_for_one_command() {
    allowed(&["LANG=C ls", "LANG=C TZ=UTC date"]);
    not_allowed(&["LANG=C; ls", "LANG=$X ls", "PATH=x ls"]);
}
