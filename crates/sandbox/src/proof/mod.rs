//! Shows that a tier holds, by attempts to escape it: each escape of `cases.rs` is tried inside,
//! through the back end that commands use, and outside as the control. An attempt that fails
//! outside as well proves nothing, and is reported separately.
//!
//! Judges and prints nothing; `haft doctor` does. Nothing here can lower a tier to make it pass.

mod cases;
mod scene;

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    ops::{OpsError, ProcessHandle, ProcessOps, Spawn, Stream, Tier},
};
use serde::Deserialize;

use self::{
    cases::{CASES, EscapeCase},
    scene::AttackScene,
};
use crate::{
    helper_flag,
    jail::{Jail, Mounts},
    options::SandboxOptions,
    process::{LocalProcesses, ProcessOptions},
};

/// How long one attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_mins(1);

/// The most output of an attempt that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The results for one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The tier.
    pub tier: Tier,
    /// What was tried in it.
    pub tried: Vec<EscapeAttempt>,
    /// Why nothing could be tried, if so.
    pub unavailable: Option<String>,
}

/// One attempt, inside and outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscapeAttempt {
    /// The layer that should stop it.
    pub layer: &'static str,
    /// What was tried, as the end of a sentence.
    pub attempted: &'static str,
    /// The result in the tier.
    pub inside: AttemptOutcome,
    /// The result without a sandbox.
    pub outside: AttemptOutcome,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It got what it tried to get.
    Succeeded,
    /// It was stopped, with the kernel's error if there was one.
    Refused(String),
    /// It could not be made.
    Failed(String),
}

/// What an attempt proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptVerdict {
    /// Stopped inside, and only there.
    Stopped,
    /// Stopped inside, but it does not succeed outside either, so the tier may not be the reason.
    Nothing,
    /// It got out.
    Escaped,
    /// It could not be made inside.
    Failed,
}

impl EscapeAttempt {
    /// What it proves.
    pub fn shows(&self) -> AttemptVerdict {
        match (&self.inside, &self.outside) {
            (AttemptOutcome::Succeeded, _) => AttemptVerdict::Escaped,
            (AttemptOutcome::Failed(_), _) => AttemptVerdict::Failed,
            (AttemptOutcome::Refused(_), AttemptOutcome::Succeeded) => AttemptVerdict::Stopped,
            (
                AttemptOutcome::Refused(_),
                AttemptOutcome::Refused(_) | AttemptOutcome::Failed(_),
            ) => AttemptVerdict::Nothing,
        }
    }
}

impl Proof {
    /// Whether the tier works and nothing got out.
    pub fn holds(&self) -> bool {
        let good = |tried: &EscapeAttempt| {
            matches!(
                tried.shows(),
                AttemptVerdict::Stopped | AttemptVerdict::Nothing
            )
        };
        let proven = |tried: &EscapeAttempt| tried.shows() == AttemptVerdict::Stopped;
        self.unavailable.is_none() && self.tried.iter().all(good) && self.tried.iter().any(proven)
    }
}

/// The attempts could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// There is no program to run attempts with.
    #[error("no program answers as a helper, so no escape can be attempted")]
    Helper,
    /// The place to attack cannot be made.
    #[error("the files to attack cannot be made")]
    Scene(#[source] std::io::Error),
    /// The workspace for it cannot be opened.
    #[error("the workspace to attack from cannot be opened")]
    Workspace(#[source] std::io::Error),
    /// Nothing can be run even without a sandbox.
    #[error("nothing can be run outside a sandbox: {0}")]
    Control(OpsError),
}

/// Tries every escape in each of these tiers. `place` is a directory for this alone: it is made if
/// necessary, something to attack is put in it, and all of it is removed again.
pub async fn prove(
    options: &SandboxOptions,
    place: &Path,
    tiers: &[Tier],
) -> Result<Vec<Proof>, ProofError> {
    let program = options.helper.locate().ok_or(ProofError::Helper)?;
    let place = place.to_owned();
    let scene = tokio::task::spawn_blocking(move || AttackScene::set(&place))
        .await
        .map_err(|error| ProofError::Scene(std::io::Error::other(error)))?
        .map_err(ProofError::Scene)?;
    let mut sandbox = options.clone();
    // The helper makes the attempts, so it must be visible at its own path.
    sandbox.profile.read_only.push(program.clone());
    let jail = Jail::open(scene.workspace(), Mounts::Refuse).map_err(ProofError::Workspace)?;
    let options = ProcessOptions {
        sandbox,
        ..ProcessOptions::default()
    };
    let stage = Stage {
        processes: LocalProcesses::open(Arc::new(jail), options),
        program: program.display().to_string(),
    };
    let facilities = stage.processes.facilities().clone();
    let target = stage.hold(&scene).await.map_err(ProofError::Control)?;
    let scene = scene.with_target(target.id);
    for preparation in scene.preparations() {
        stage
            .attempt(preparation, Tier::Host)
            .await
            .map_err(ProofError::Control)?;
    }
    let mut controls = Vec::with_capacity(CASES.len());
    for case in CASES {
        let attempt = stage.attempt((case.outside)(&scene), Tier::Host).await;
        controls.push((case, attempt.map_err(ProofError::Control)?));
    }
    let mut proofs = Vec::with_capacity(tiers.len());
    for tier in tiers {
        let missing = facilities.missing(*tier);
        proofs.push(if missing.is_empty() {
            stage.prove(*tier, &scene, &controls).await
        } else {
            let reasons: Vec<String> = missing.iter().map(|missing| missing.reason()).collect();
            Proof {
                tier: *tier,
                tried: Vec::new(),
                unavailable: Some(reasons.join("; ")),
            }
        });
    }
    for clearance in scene.clearances() {
        // What cannot be removed contains nothing.
        let _ = stage.attempt(clearance, Tier::Host).await;
    }
    drop(target);
    // Removing files blocks.
    let _ = tokio::task::spawn_blocking(move || drop(scene)).await;
    Ok(proofs)
}

/// A workspace, and the program that makes attempts in it.
struct Stage {
    processes: LocalProcesses,
    program: String,
}

/// A process for attempts to aim at.
struct Target {
    id: u32,
    /// Ends the process on drop.
    _handle: Box<dyn ProcessHandle>,
}

impl Stage {
    async fn prove(
        &self,
        tier: Tier,
        scene: &AttackScene,
        controls: &[(&EscapeCase, AttemptOutcome)],
    ) -> Proof {
        let mut proof = Proof {
            tier,
            tried: Vec::new(),
            unavailable: None,
        };
        for (case, outside) in controls {
            let Some(layer) = case.layer(tier) else {
                continue;
            };
            let inside = match self.attempt((case.inside)(scene, tier), tier).await {
                Ok(inside) => inside,
                Err(error) if error.kind() == ErrorKind::TierUnavailable => {
                    proof.unavailable = Some(error.to_string());
                    return proof;
                }
                Err(error) => AttemptOutcome::Failed(error.to_string()),
            };
            proof.tried.push(EscapeAttempt {
                layer,
                attempted: case.attempted,
                inside,
                outside: outside.clone(),
            });
        }
        proof
    }

    async fn attempt(&self, words: Vec<String>, tier: Tier) -> Result<AttemptOutcome, OpsError> {
        let run = async {
            let mut handle = self.start(words, tier).await?;
            let mut output = Vec::new();
            while let Some(chunk) = handle.next_chunk().await {
                if chunk.stream == Stream::Stdout && output.len() < MAX_ANSWER_BYTES {
                    output.extend(chunk.bytes);
                }
            }
            let ended = handle.wait().await?;
            Ok(read(&output).unwrap_or_else(|| {
                AttemptOutcome::Failed(format!("it ended without an answer ({:?})", ended.status))
            }))
        };
        match tokio::time::timeout(ATTEMPT_LIMIT, run).await {
            Ok(answered) => answered,
            Err(_) => Ok(AttemptOutcome::Failed("it did not end in time".to_owned())),
        }
    }

    async fn hold(&self, scene: &AttackScene) -> Result<Target, OpsError> {
        let words = vec!["hold".to_owned(), scene.mark().to_owned()];
        let mut spawn = self.spawn(words, Tier::Host);
        spawn.input = haft_contract::ops::Input::Open;
        let mut handle = self.processes.spawn(spawn).await?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') {
            match tokio::time::timeout(ATTEMPT_LIMIT, handle.next_chunk()).await {
                Ok(Some(chunk)) => line.extend(chunk.bytes),
                Ok(None) | Err(_) => break,
            }
        }
        let id = String::from_utf8_lossy(&line).trim().parse();
        let id = id.map_err(|_| {
            OpsError::new(ErrorKind::Unavailable, "a process to aim at did not start")
        })?;
        Ok(Target {
            id,
            _handle: handle,
        })
    }

    async fn start(
        &self,
        words: Vec<String>,
        tier: Tier,
    ) -> Result<Box<dyn ProcessHandle>, OpsError> {
        let spawn = self.spawn(words, tier);
        self.processes.spawn(spawn).await
    }

    fn spawn(&self, words: Vec<String>, tier: Tier) -> Spawn {
        let mut command = vec![
            self.program.clone(),
            helper_flag::FLAG.to_owned(),
            "probe".to_owned(),
        ];
        command.extend(words);
        Spawn::new(Command::Argv(command), WorkPath::root(), tier)
    }
}

/// The line an attempt prints, as `probe` writes it.
#[derive(Deserialize)]
struct ProbeLine {
    result: String,
    errno: Option<String>,
    detail: String,
}

fn read(output: &[u8]) -> Option<AttemptOutcome> {
    let text = std::str::from_utf8(output).ok()?;
    let line: ProbeLine = serde_json::from_str(text.lines().last()?).ok()?;
    Some(match line.result.as_str() {
        "succeeded" => AttemptOutcome::Succeeded,
        "refused" => AttemptOutcome::Refused(line.errno.unwrap_or(line.detail)),
        _ => AttemptOutcome::Failed(line.detail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inside: AttemptOutcome, outside: AttemptOutcome, expect: AttemptVerdict) {
        let tried = EscapeAttempt {
            layer: "mounts",
            attempted: "read a file",
            inside,
            outside,
        };
        assert_eq!(tried.shows(), expect);
    }

    fn refused() -> AttemptOutcome {
        AttemptOutcome::Refused("EPERM".to_owned())
    }

    #[test]
    fn only_what_succeeds_outside_shows_that_the_inside_holds() {
        check(
            refused(),
            AttemptOutcome::Succeeded,
            AttemptVerdict::Stopped,
        );
        check(refused(), refused(), AttemptVerdict::Nothing);
        check(
            AttemptOutcome::Succeeded,
            AttemptOutcome::Succeeded,
            AttemptVerdict::Escaped,
        );
        check(
            AttemptOutcome::Succeeded,
            refused(),
            AttemptVerdict::Escaped,
        );
        let broken = AttemptOutcome::Failed("killed".to_owned());
        check(broken, AttemptOutcome::Succeeded, AttemptVerdict::Failed);
    }

    #[test]
    fn a_tier_in_which_nothing_was_shown_does_not_hold() {
        let mut proof = Proof {
            tier: Tier::T2,
            tried: Vec::new(),
            unavailable: None,
        };
        assert!(!proof.holds());
        proof.tried.push(EscapeAttempt {
            layer: "mounts",
            attempted: "read a file",
            inside: refused(),
            outside: refused(),
        });
        assert!(!proof.holds());
    }

    #[test]
    fn an_answer_is_the_last_line() {
        let line = br#"{"attempt":"read","result":"refused","errno":"EACCES","detail":"/x"}"#;
        assert_eq!(
            read(line),
            Some(AttemptOutcome::Refused("EACCES".to_owned()))
        );
        assert_eq!(read(b"nonsense"), None);
    }
}
