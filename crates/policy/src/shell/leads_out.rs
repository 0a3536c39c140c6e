//! Whether the words of a command lead out of the workspace. The sandbox shows nothing there, so
//! this decides whether to ask, not whether it is possible.

use super::{
    concern::{CommandPlace, WordRole, is_scratch},
    may_name::paths_in,
    options::has,
    touch::Directories,
    word::{Value, Word},
};

/// Directories of the system that a sandbox shows and nobody can change there.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Special files that are not anywhere.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// The first parts of absolute paths. Other words that start with a slash are patterns, such as
/// the `/x/d` of sed.
const TOP: &str = "boot data dev etc home lib lib32 lib64 media mnt opt private proc root run sbin \
     srv sys usr var bin Applications Library Users Volumes";

/// Variables that hold the home directory or something in it.
const HOME: [&str; 4] = ["$HOME", "${HOME", "$XDG_", "$OLDPWD"];

/// Whether a command reaches for something outside the workspace.
pub(super) fn leads_out(command: &CommandPlace<'_>) -> bool {
    let at = command.directories;
    let mut words = command.words.iter().enumerate();
    words.any(|(place, word)| match (command.role)(place) {
        WordRole::Text => false,
        role @ (WordRole::Path | WordRole::Unknown) => word_leads_out(at, word, role),
    }) || command
        .redirections
        .iter()
        .any(|redirection| word_leads_out(at, &redirection.target, WordRole::Path))
}

fn word_leads_out(at: &Directories<'_>, word: &Word, role: WordRole) -> bool {
    match &word.value {
        Value::Literal(text) | Value::Glob(text) => text_leads_out(at, text, role),
        Value::Given => false,
        Value::Unknown => {
            let raw = word.raw.trim_matches('"');
            let literal = raw.split(['$', '`']).next().unwrap_or_default();
            HOME.iter().any(|variable| raw.contains(variable))
                || raw.split('/').any(|part| part == "..")
                || text_leads_out(at, literal, role)
        }
    }
}

fn text_leads_out(at: &Directories<'_>, text: &str, role: WordRole) -> bool {
    // Code and messages hold blanks and brackets, paths seldom do.
    let is_pathlike = |path: &&str| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "(){};'\"".contains(c);
        role == WordRole::Path || !path.contains(odd)
    };
    let mut paths = paths_in(text).filter(is_pathlike);
    !text.contains("://") && paths.any(|path| path_leads_out(at, path, role))
}

fn path_leads_out(at: &Directories<'_>, path: &str, role: WordRole) -> bool {
    if path == "~" || path.starts_with("~/") {
        return true;
    }
    if path.starts_with('/') {
        let first = path
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or_default();
        let beside = at.root.trim_start_matches('/').split('/').next() == Some(first);
        let is_path = role == WordRole::Path || beside || has(TOP, first);
        return is_path
            && !at.is_inside_from_here(path)
            && !is_scratch(path)
            && !DEVICES.contains(&path)
            && !path.starts_with("/dev/fd/")
            && !SYSTEM.iter().any(|system| is_beneath(path, system));
    }
    path.split('/').any(|part| part == "..") && !at.is_inside_from_here(path)
}

/// Whether a path is this directory or beneath it, by name and without a way up.
fn is_beneath(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && !path.split('/').any(|part| part == "..")
}
