//! What the files of `.git` may hold that git itself would not write: names that lead elsewhere, names
//! that are not text, more than is read, and what keeps an undo from being possible.

use crate::changes::{Watched, shell};

const COMMIT: &str = "git -c user.name=a -c user.email=a@example.org commit -q";

/// A workspace with a repository of two commits on `main`.
pub(crate) fn repository() -> Watched {
    let watched = Watched::new();
    watched.ws.put("a", "one");
    shell(
        &watched.ws.root,
        &format!(
            "git init -q -b main && git config gc.auto 0 && git add a && {COMMIT} -m one && \
             {COMMIT} --allow-empty -m two"
        ),
    );
    watched
}

/// The paths that a command changed, and what is said about the rest.
async fn found(watched: &Watched, script: &str) -> (Vec<String>, String) {
    let changes = watched.command(script).await;
    let paths = changes.files.iter().map(|file| file.path.to_string());
    (paths.collect(), changes.missed.unwrap_or_default())
}

#[tokio::test]
async fn a_line_of_packed_refs_that_leads_elsewhere_moves_no_branch() {
    let watched = repository();
    let forge = "old=$(git rev-parse HEAD~1); git pack-refs --all; \
                 echo \"$old refs/x/../heads/main\" >> .git/packed-refs";
    let (paths, missed) = found(&watched, forge).await;
    assert_eq!(paths, [""; 0]);
    assert!(missed.contains("`.git/packed-refs`"), "{missed}");
    // Nor does one that is there twice.
    let watched = repository();
    let twice = "old=$(git rev-parse HEAD~1); git pack-refs --all; \
                 echo \"$old refs/heads/main\" >> .git/packed-refs";
    let (paths, missed) = found(&watched, twice).await;
    assert_eq!(paths, [""; 0]);
    assert!(missed.contains("`.git/refs/heads/main`"), "{missed}");
    // The control: a line that git would write is a branch.
    let watched = repository();
    let side = "git pack-refs --all; echo \"$(git rev-parse HEAD) refs/heads/side\" \
                >> .git/packed-refs";
    let (paths, missed) = found(&watched, side).await;
    assert_eq!(
        (paths, missed.as_str()),
        (vec![".git/refs/heads/side".to_owned()], "")
    );
}

#[tokio::test]
async fn a_branch_whose_name_is_not_text_is_named_when_it_goes() {
    for pack in ["true", "git pack-refs --all"] {
        let watched = repository();
        shell(
            &watched.ws.root,
            &format!("git branch side; git branch $'odd\\xff'; {pack}"),
        );
        let (paths, missed) = found(&watched, "git branch -q -D $'odd\\xff'").await;
        assert!(!paths.iter().any(|path| path.contains("odd")), "{paths:?}");
        assert!(missed.contains("not readable"), "{pack}: {missed}");
        assert!(!missed.contains("too many"), "{pack}: {missed}");
        // The control: a name that is text is on record, and nothing is missed.
        let (paths, missed) = found(&watched, "git branch -q -D side").await;
        assert!(
            paths.contains(&".git/refs/heads/side".to_owned()),
            "{paths:?}"
        );
        assert_eq!(missed, "", "{pack}");
    }
}

#[tokio::test]
async fn more_reflogs_than_are_read_are_named() {
    let watched = repository();
    let many = "mkdir -p .git/logs/refs/heads/x; seq -f .git/logs/refs/heads/x/%g 1 5001 | \
                xargs touch; git branch side";
    let (paths, missed) = found(&watched, many).await;
    assert!(missed.contains("too many reflogs"), "{missed}");
    // No log that was read once counts as gone.
    assert_eq!(paths, [".git/refs/heads/side"]);
    // The control.
    let watched = repository();
    let (paths, missed) = found(&watched, "git branch side").await;
    assert_eq!(missed, "");
    assert_eq!(paths, [".git/logs/refs/heads/side", ".git/refs/heads/side"]);
}

#[tokio::test]
async fn what_a_command_puts_in_the_way_of_an_undo_is_named() {
    let watched = repository();
    let script = "mkdir .git/rebase-merge; touch .git/refs/heads/main.lock .git/index.lock";
    let (_, missed) = found(&watched, script).await;
    for part in [
        "the command left git in the middle of something",
        "`.git/rebase-merge`",
        "the command left locks of git behind",
        "`.git/index.lock`, `.git/refs/heads/main.lock`",
    ] {
        assert!(missed.contains(part), "{part}: {missed}");
    }
    // The control: what was there before is none of the command's.
    let (_, missed) = found(&watched, "true").await;
    assert_eq!(missed, "");
}
