//! Detects whether this program was started by one of Haft's calls. A process started by a call
//! must not answer questions: an agent would approve itself.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at this process and its parents, which no workspace confines"
)]

use std::env;

/// The variable that Haft sets for every process it starts.
const MARK: &str = "HAFT_PROCESS_TREE";

/// How many parents are checked at most.
const MAX_PARENTS: usize = 64;

/// Why this process may not answer questions; `None` if it may.
pub fn started_by_a_call() -> Option<&'static str> {
    if env::var_os(MARK).is_some() {
        return Some("it was started by a call");
    }
    // A command can clear its variables, but it cannot choose its parents.
    let (own, mut parent) = status("self")?;
    for _ in 0..MAX_PARENTS {
        let (name, next) = status(&parent)?;
        if name == own {
            return Some("one of its parents is Haft");
        }
        parent = next;
    }
    None
}

/// The name of a process and the id of its parent.
fn status(process: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain some itself.
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let parent = after.split_whitespace().nth(1)?;
    Some((name.to_owned(), parent.to_owned()))
}
