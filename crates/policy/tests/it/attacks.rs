//! Attack cases on paths, each with a benign twin.

use haft_contract::{
    Access,
    host::Verdict::{Allow, Deny},
};

use crate::world::{Call, check, path, policy, through};

/// The loosest policy there can be: every answer other than allow is the protection's.
const LOOSEST: &str = "[policy]\npreset = \"workspace\"\nallow = [\"@all\"]";

#[track_caller]
fn protected(text: &str) {
    let rules = policy(LOOSEST);
    let call = Call::write(text);
    check(&rules, &call, Deny);
    let decision = call.decide(&rules);
    assert_eq!(decision.rule.unwrap().source, "built in");
    check(&rules, &Call::read(text), Allow);
    check(
        &rules,
        &Call::of("edit", vec![Access::write(path(text))]),
        Deny,
    );
}

#[track_caller]
fn ordinary(text: &str) {
    check(&policy(LOOSEST), &Call::write(text), Allow);
}

#[test]
fn pe_19_git_hooks_and_config() {
    for text in [
        ".git/hooks/pre-commit",
        "vendor/lib/.git/hooks/post-checkout",
        ".git/hooks",
        ".git/config",
        ".git",
        ".gitmodules",
        "sub/.gitmodules",
    ] {
        protected(text);
    }
    for text in [
        ".gitignore",
        ".github/workflows/ci.yml",
        "git/hooks/x",
        "hooks/pre-commit",
    ] {
        ordinary(text);
    }
}

/// Everything in a git directory: its to-do lists name commands, its alternates lead elsewhere.
#[test]
fn pe_19_everything_inside_git() {
    for text in [
        ".git/HEAD",
        ".git/index",
        ".git/rebase-merge/git-rebase-todo",
        ".git/sequencer/todo",
        ".git/objects/info/alternates",
        ".git/modules/lib/config",
        "deep/down/.git/anything/new",
    ] {
        protected(text);
    }
    for text in ["git/HEAD", ".git2/config", "x.git/description"] {
        ordinary(text);
    }
}

/// What logs in, installs packages or holds credentials is obeyed as a shell profile is.
#[test]
fn pe_20_logins_package_managers_and_credentials() {
    for text in [
        ".ssh/authorized_keys",
        "home/.ssh/config",
        ".npmrc",
        "web/.npmrc",
        ".pypirc",
        ".netrc",
        ".cargo/config.toml",
        ".config/git/config",
        ".config/pip/pip.conf",
        "pip.conf",
        ".docker/config.json",
        ".bash_aliases",
        ".zlogout",
    ] {
        protected(text);
    }
    for text in [
        "ssh/config",
        "Cargo.toml",
        "package.json",
        "pip.conf.md",
        ".config/nextest.toml",
        ".docker/Dockerfile",
        ".gitattributes",
    ] {
        ordinary(text);
    }
    let reason = Call::write(".npmrc").decide(&policy(LOOSEST)).reason;
    assert_eq!(
        reason,
        "writing `.npmrc` is never allowed: a package manager takes its sources, programs and \
         credentials from it; no rule can change that"
    );
}

/// Policy never looks at the disk, so present and absent are the same case by construction.
#[test]
fn pe_20_files_that_run_or_configure_something() {
    for text in [
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        "home/.profile",
        ".mcp.json",
        ".vscode/settings.json",
        ".vscode",
        ".idea/workspace.xml",
        ".claude/settings.json",
        ".cursor/rules",
        ".codex/config.toml",
        "AGENTS-policy",
        "haft.toml",
        "sub/haft.toml",
        ".haft/state.db",
    ] {
        protected(text);
    }
    for text in [
        "bashrc",
        "docs/vscode/settings.json",
        "AGENTS.md",
        "haft.toml.md",
        "mcp.json",
    ] {
        ordinary(text);
    }
}

#[test]
fn pe_21_case_decides_unless_the_back_end_says_otherwise() {
    ordinary(".Git/hooks/x");
    ordinary(".GIT/config");
    let rules = policy(LOOSEST);
    let mut access = Access::write(path(".Git/hooks/x"));
    if let Access::Path(path) = &mut access {
        path.protected = Some("the directory ignores case".to_owned());
    }
    let call = Call::of("write", vec![access]);
    check(&rules, &call, Deny);
    let reason = call.decide(&rules).reason;
    assert!(reason.contains("the directory ignores case"), "{reason}");
}

#[test]
fn pe_22_a_moved_git_directory_is_protected_by_what_the_back_end_found() {
    let rules = policy(LOOSEST);
    let mut access = Access::write(path("other/hooks/pre-commit"));
    check(&rules, &Call::of("write", vec![access.clone()]), Allow);
    if let Access::Path(path) = &mut access {
        path.protected = Some("`other` is a git directory".to_owned());
    }
    check(&rules, &Call::of("write", vec![access]), Deny);
}

/// Undo puts back where a repository is. It reaches nothing that git would run or obey, nobody else
/// does, and a link leads it nowhere else.
#[test]
fn pe_19_only_undo_puts_git_back_and_only_its_state() {
    let rules = policy(LOOSEST);
    let by = |tool: &'static str, access: Access| Call::of(tool, vec![access]);
    let state = [
        ".git/HEAD",
        ".git/index",
        ".git/refs/heads/main",
        ".git/refs/stash",
        ".git/logs/HEAD",
        ".git/MERGE_HEAD",
    ];
    for text in state {
        let mut access = Access::write(path(text));
        if let Access::Path(path) = &mut access {
            path.protected = Some("`.git` is a git directory".to_owned());
        }
        check(&rules, &by("undo", access.clone()), Allow);
        check(&rules, &by("write", access), Deny);
        let elsewhere = through(Access::write(path(text)), ".git/config");
        check(&rules, &by("undo", elsewhere), Deny);
        let from_elsewhere = through(Access::write(path("notes")), text);
        check(&rules, &by("undo", from_elsewhere), Deny);
    }
    for text in [
        ".git",
        ".git/config",
        ".git/hooks/post-checkout",
        ".git/info/attributes",
        ".git/objects/info/alternates",
        ".git/rebase-merge/git-rebase-todo",
        ".git/refs/remotes/origin/main",
        "sub/.git/HEAD",
        ".bashrc",
    ] {
        check(&rules, &by("undo", Access::write(path(text))), Deny);
    }
    // Rules still count.
    let rules = policy("[policy]\nallow = [\"undo\"]\ndeny = [\"write(.git/refs/heads/**)\"]");
    let access = Access::write(path(".git/refs/heads/main"));
    check(&rules, &by("undo", access), Deny);
    let access = Access::write(path(".git/HEAD"));
    check(&rules, &by("undo", access), Allow);
}

#[test]
fn sl_11_rules_hold_where_the_path_leads() {
    let rules =
        policy("[policy]\nallow = [\"write(c/**)\"]\ndeny = [\"write(a/**)\", \"read(**/.env)\"]");
    let write = |text: &str, leads_to: &str| {
        Call::of("write", vec![through(Access::write(path(text)), leads_to)])
    };
    check(&rules, &write("c/b", "c/b"), Allow);
    check(&rules, &write("c/b", "a/b"), Deny);
    // An allow holds only if both the name and what it leads to are covered.
    assert_ne!(write("c/b", "d/b").decide(&rules).verdict, Allow);
    let read = Call::of("read", vec![through(Access::read(path("notes")), "x/.env")]);
    check(&rules, &read, Deny);
    let loosest = policy(LOOSEST);
    check(&loosest, &write("notes", ".git/hooks/pre-commit"), Deny);
    check(&loosest, &write(".git/hooks/pre-commit", "notes"), Deny);
}
