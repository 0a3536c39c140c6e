//! Settings that are given to git for one command. One of them can make any command of git run or
//! delete something else: `git -c alias.z=gc z`, `git -c gc.pruneExpire=now commit`.

use super::{parsed::Assignment, word::Word};

/// Settings that change only what is shown or recorded.
const HARMLESS: [&str; 10] = [
    "user.name",
    "user.email",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "core.quotepath",
    "init.defaultbranch",
    "commit.gpgsign",
    "log.date",
];

/// Whether a command gives git settings that are not known to be harmless. `place` is where the subcommand
/// may be.
pub(super) fn overrides_settings(
    name: &str,
    words: &[Word],
    assignments: &[Assignment],
    place: usize,
) -> bool {
    let mut variables = assignments
        .iter()
        .map(|assignment| assignment.name.as_str());
    let by_word = |word: &Word| {
        let raw = word.raw.trim_start_matches(['"', '\'']);
        raw.starts_with("GIT_CONFIG") && raw.contains('=')
    };
    if variables.any(|name| name.starts_with("GIT_CONFIG")) || words.iter().any(by_word) {
        return true;
    }
    if name != "git" {
        return false;
    }
    let mut words = words.iter().take(place).skip(1);
    while let Some(word) = words.next() {
        let text = word.shown();
        if text.starts_with("--config-env") || text.starts_with("--exec-path=") {
            return true;
        }
        let setting = match text.strip_prefix("-c") {
            Some("") => words.next().map(Word::shown),
            Some(attached) => Some(attached),
            None => continue,
        };
        let key = setting.map(|setting| setting.split('=').next().unwrap_or_default());
        let key = key.unwrap_or_default().to_ascii_lowercase();
        let shows = key.starts_with("color.") || key.starts_with("advice.");
        if !shows && !HARMLESS.contains(&key.as_str()) {
            return true;
        }
    }
    false
}
