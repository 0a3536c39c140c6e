//! Paths no rule can open for writing: what a shell, an editor, git, an agent or Haft itself would
//! execute or obey later. They are protected whether they exist or not, at any depth.
//!
//! Names are compared as bytes. On a directory that ignores case the back end sets
//! `PathAccess::protected`, which counts the same.

/// Files protected by their name.
const FILES: &[&str] = &[
    ".gitmodules",
    ".gitconfig",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".envrc",
    ".mcp.json",
    "haft.toml",
    "AGENTS-policy",
    "AGENTS-policy.md",
    "AGENTS-policy.toml",
];

/// Directories protected with everything beneath them.
const DIRECTORIES: &[&str] = &[".vscode", ".idea", ".claude", ".cursor", ".codex", ".haft"];

/// Entries of a git directory that name programs to run, or lead git elsewhere.
const GIT_ENTRIES: &[&str] = &[
    "hooks",
    "config",
    "config.worktree",
    "info",
    "modules",
    "worktrees",
    "commondir",
    "gitdir",
];

/// The built-in rule that protects this path, in rule notation.
pub(crate) fn protecting_rule(path: &str) -> Option<String> {
    let mut components = path.split('/').peekable();
    while let Some(component) = components.next() {
        if let Some(directory) = DIRECTORIES.iter().find(|name| **name == component) {
            return Some(format!("write(**/{directory}/**)"));
        }
        if component == ".git" {
            match components.peek() {
                // A `.git` file would send git to another directory.
                None => return Some("write(**/.git)".to_owned()),
                Some(entry) if GIT_ENTRIES.contains(entry) => {
                    return Some(format!("write(**/.git/{entry}/**)"));
                }
                Some(_) => {}
            }
        }
        if FILES.contains(&component) {
            return Some(format!("write(**/{component})"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_by_whole_component_at_any_depth() {
        assert!(protecting_rule(".git/hooks/pre-commit").is_some());
        assert!(protecting_rule("sub/.git/config").is_some());
        assert!(protecting_rule("a/.vscode/settings.json").is_some());
        assert!(protecting_rule(".idea").is_some());
        assert!(protecting_rule(".git").is_some());
        assert_eq!(protecting_rule(".github/workflows/ci.yml"), None);
        assert_eq!(protecting_rule(".gitignore"), None);
        assert_eq!(protecting_rule("docs/bashrc"), None);
        assert_eq!(protecting_rule(".Git/hooks/x"), None);
        assert_eq!(protecting_rule("."), None);
    }
}
