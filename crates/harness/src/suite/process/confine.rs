//! What a child starts with: arguments, environment, directory, tier.

use haft_contract::{
    ErrorKind,
    access::Command,
    ops::{ExitStatus, Spawn, Tier},
};

use super::{finish, script};
use crate::suite::fixture::{BackendFixture, at, fails, fails_as};

/// A variable that cargo sets for every test, so the parent has it.
const CANARY: &str = "CARGO_MANIFEST_DIR";

/// The words of an argument vector arrive unchanged.
pub async fn arguments_are_not_for_a_shell(fixture: impl BackendFixture) {
    let words = ["printf", "%s", "$HOME; echo 'x' > made.txt & (y)"];
    let argv = Command::Argv(words.map(str::to_owned).into());
    let ended = finish(&fixture, Spawn::new(argv, at("."), fixture.tier())).await;
    assert_eq!(ended.stdout(), words[2]);
    assert_eq!(fixture.names(".").await, Vec::<String>::new());
}

/// Mistake 14: nothing of the parent's environment is passed on.
#[expect(
    clippy::disallowed_methods,
    reason = "shows that the canary is there to be leaked"
)]
pub async fn the_environment_starts_empty(fixture: impl BackendFixture) {
    assert!(
        std::env::var_os(CANARY).is_some(),
        "the control: the parent has the canary"
    );
    let text = format!("echo \"[${CANARY}]\"");
    let ended = finish(&fixture, script(&fixture, &text)).await;
    assert_eq!(ended.stdout(), "[]\n");
}

/// The spawn's variables arrive byte for byte.
pub async fn given_variables_arrive(fixture: impl BackendFixture) {
    let mut spawn = script(&fixture, "printf '%s' \"$GREETING\"");
    let value = "hello; $(x) 'y' \"z\"\nsecond line";
    spawn
        .environment
        .insert("GREETING".to_owned(), value.to_owned());
    assert_eq!(finish(&fixture, spawn).await.stdout(), value);
}

/// EN-01, EN-02, EN-04: names that make programs load or run code, and invalid names.
pub async fn variables_that_run_code_are_refused(fixture: impl BackendFixture) {
    let processes = fixture.operations().processes;
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "BASH_ENV",
        "ENV",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "IFS",
        "BASH_FUNC_ls%%",
        "GIT_SSH_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "GIT_CONFIG_COUNT",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "",
        "A=B",
        "A\nB",
    ] {
        let mut spawn = script(&fixture, "echo started > started.txt");
        spawn.environment.insert(name.to_owned(), "x".to_owned());
        let refused = processes.spawn(spawn).await;
        assert!(refused.is_err(), "`{name}` was accepted");
    }
    assert_eq!(fixture.bytes("started.txt").await, None);
}

/// A child starts in the directory it was given, and only beneath the root.
pub async fn the_directory_is_beneath_the_root(fixture: impl BackendFixture) {
    let outside = fixture.put_outside("secret.txt", b"secret").await;
    let folder = outside
        .strip_suffix("/secret.txt")
        .expect("its folder")
        .to_owned();
    fixture.put("data/marker.txt", b"found").await;
    fixture.put_symlink("out", &folder).await;
    fixture.put_symlink("up", "..").await;
    let in_directory = |path: &str| Spawn {
        cwd: at(path),
        ..script(&fixture, "cat marker.txt")
    };
    let ended = finish(&fixture, in_directory("data")).await;
    assert_eq!(
        (ended.stdout().as_str(), ended.status),
        ("found", ExitStatus::Code(0))
    );
    let processes = fixture.operations().processes;
    let leaves = [ErrorKind::Symlink, ErrorKind::OutsideWorkspace];
    fails_as("out", processes.spawn(in_directory("out")).await, &leaves);
    fails_as("up", processes.spawn(in_directory("up")).await, &leaves);
    fails(
        "missing",
        processes.spawn(in_directory("nothing")).await,
        ErrorKind::NotFound,
    );
    let file = processes.spawn(in_directory("data/marker.txt")).await;
    fails("a file", file, ErrorKind::NotDirectory);
}

/// Promise 5: a tier is never lowered silently.
pub async fn a_tier_that_is_not_there_is_refused(fixture: impl BackendFixture) {
    let operations = fixture.operations();
    let absent = Tier::ALL
        .into_iter()
        .filter(|tier| !operations.tiers.contains(tier));
    for tier in absent {
        let spawn = Spawn {
            tier,
            ..script(&fixture, "echo started > started.txt")
        };
        let refused = operations.processes.spawn(spawn).await;
        fails(tier.as_str(), refused, ErrorKind::TierUnavailable);
    }
    assert_eq!(fixture.bytes("started.txt").await, None);
}

/// R8: a program trusted by its hash does not run with a different one.
pub async fn a_pinned_program_with_another_hash_is_refused(fixture: impl BackendFixture) {
    let argv = Command::Argv(vec!["echo".to_owned(), "started".to_owned()]);
    let mut spawn = Spawn::new(argv, at("."), fixture.tier());
    spawn.pinned = Some([0; 32]);
    let refused = fixture.operations().processes.spawn(spawn).await;
    assert!(refused.is_err(), "a program with another hash was started");
}
