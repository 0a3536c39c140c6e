//! Runs one case: the controls, the attempts and the benign twins, each in a scene of its own.
//!
//! Nothing is judged by what Haft says of itself alone: the files around the workspace are
//! compared by inode and content, the record is read back, and everything that was said or
//! stored is searched for the secret.

use std::{sync::Arc, time::Duration};

use haft::{Haft, contract::host::StoredCall, prelude::*};
use haft_testkit::CpuTime;

use super::{
    canary::Forms,
    confined,
    corpus::{Attempt, Case, Leaves, Place},
    log,
    scene::{Said, Scene},
};

/// What came of a case.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) attempts: usize,
    pub(crate) bypasses: usize,
    pub(crate) controls: usize,
    pub(crate) lost_controls: usize,
    pub(crate) twins: usize,
    pub(crate) false_denials: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.attempts += other.attempts;
        self.bypasses += other.bypasses;
        self.controls += other.controls;
        self.lost_controls += other.lost_controls;
        self.twins += other.twins;
        self.false_denials += other.false_denials;
    }
}

/// What came of a case, and what went wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) tally: Tally,
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: Self) {
        self.tally.add(other.tally);
        self.faults.extend(other.faults);
    }

    /// Notes an attempt and whether it was stopped as required.
    pub(crate) fn attempt(&mut self, what: &str, result: Result<(), String>) {
        self.tally.attempts += 1;
        if let Err(fault) = result {
            self.tally.bypasses += 1;
            self.faults.push(format!("{what}: {fault}"));
        }
    }

    /// Notes a control and whether the attack worked there.
    pub(crate) fn control(&mut self, what: &str, result: Result<(), String>) {
        self.tally.controls += 1;
        if let Err(fault) = result {
            self.tally.lost_controls += 1;
            self.faults
                .push(format!("the control {what} did not succeed: {fault}"));
        }
    }

    /// Notes a benign twin and whether it passed.
    pub(crate) fn twin(&mut self, what: &str, result: Result<(), String>) {
        self.tally.twins += 1;
        if let Err(fault) = result {
            self.tally.false_denials += 1;
            self.faults.push(format!("the benign twin {what}: {fault}"));
        }
    }
}

/// Runs the part of a case that is data.
pub(crate) async fn run(case: &Case) -> Verdict {
    let mut verdict = Verdict::default();
    if case.place == Place::T2 {
        confined::run(case, &mut verdict).await;
    }
    if case.namespace && case.place != Place::Local {
        // In a namespace of its own root is nobody, so neither bubblewrap nor a server is trusted.
        return verdict;
    }
    for control in &case.control {
        verdict.control(&control.run, Scene::of(case).control(control));
    }
    let here = |places: &[Place]| places.is_empty() || places.contains(&case.place);
    let attempts = || case.attempt.iter().filter(|attempt| here(&attempt.places));
    if attempts().next().is_some() {
        let scene = Scene::of(case);
        let said = Said::default();
        let haft = scene.haft(case, &said).await;
        for attempt in attempts() {
            let judged = judge(&scene, &haft, &said, attempt).await;
            verdict.attempt(&shown(attempt), judged);
        }
        haft.close().await.unwrap();
        verdict.attempt("the search for the secret", nothing_leaked(&scene, &said));
    }
    let twins = || case.twin.iter().filter(|twin| here(&twin.places));
    if twins().next().is_some() {
        let scene = Scene::of(case);
        let said = Said::default();
        let haft = scene.haft(case, &said).await;
        for twin in twins() {
            verdict.twin(&shown(twin), judge(&scene, &haft, &said, twin).await);
        }
        haft.close().await.unwrap();
    }
    verdict
}

/// A call of a runner, and how it must end.
pub(crate) fn calling(tool: &str, arguments: Value, expect: &str) -> Attempt {
    Attempt {
        places: Vec::new(),
        first: Vec::new(),
        tool: tool.to_owned(),
        arguments,
        expect: expect.to_owned(),
        shows: Vec::new(),
        hides: Vec::new(),
        cpu_ms: 10_000,
        leaves: Vec::new(),
    }
}

/// Makes one call and compares everything about it with what must be.
pub(crate) async fn judge(
    scene: &Arc<Scene>,
    haft: &Haft,
    said: &Said,
    attempt: &Attempt,
) -> Result<(), String> {
    attempt.first.iter().for_each(|step| scene.step(step));
    let arguments = expand(scene, &attempt.arguments);
    let (around, inside) = (scene.around(), scene.inside());
    let cpu = CpuTime::start();
    let outcome = haft.call(attempt.tool.as_str(), arguments).await;
    let used = cpu.used();
    said.note(&format!("{outcome:?}"));

    ended_as(&outcome, &attempt.expect)?;
    recorded(haft, &outcome).await?;
    let limit = Duration::from_millis(attempt.cpu_ms);
    check(used <= limit, || {
        format!("it took {used:?} of CPU time, more than {limit:?}")
    })?;
    let text = format!(
        "{}\n{}",
        outcome.model_text(),
        outcome
            .structured
            .as_ref()
            .map_or(String::new(), Value::to_string)
    );
    for shows in &attempt.shows {
        let shows = scene.expand(shows);
        check(text.contains(&shows), || {
            format!("{shows:?} is not in {text:.600}")
        })?;
    }
    for hides in &attempt.hides {
        let hides = scene.expand(hides);
        check(!text.contains(&hides), || {
            format!("{hides:?} is in {text:.600}")
        })?;
    }
    check(scene.around() == around, || {
        "something outside the workspace was changed".to_owned()
    })?;
    if !outcome.succeeded() && outcome.facts.exit_code.is_none() && attempt.leaves.is_empty() {
        // A meanwhile step changes the workspace too; such a case says what it leaves.
        check(scene.inside() == inside, || {
            "a call that did not succeed changed the workspace".to_owned()
        })?;
    }
    for leaves in &attempt.leaves {
        left(scene, leaves)?;
    }
    Ok(())
}

fn ended_as(outcome: &Outcome, expect: &str) -> Result<(), String> {
    let mut words = expect.split_whitespace();
    let terminal = Terminal::parse(words.next().unwrap_or_default());
    let terminal = terminal.ok_or_else(|| format!("`{expect}` names no terminal state"))?;
    let kinds: Vec<ErrorKind> = words
        .map(|word| ErrorKind::parse(word).ok_or_else(|| format!("`{word}` is no kind")))
        .collect::<Result<_, _>>()?;
    let kind = outcome.error.as_ref().map(|failure| failure.kind);
    let right_kind = match kind {
        None => kinds.is_empty(),
        Some(kind) => kinds.contains(&kind),
    };
    check(outcome.terminal == terminal && right_kind, || {
        format!(
            "expected {expect}, got {} {kind:?}: {:.400}",
            outcome.terminal,
            outcome.model_text()
        )
    })
}

/// The record holds the call and how it ended.
pub(crate) async fn recorded(haft: &Haft, outcome: &Outcome) -> Result<(), String> {
    let tenant = &haft.principal().tenant;
    // Reading waits a moment for what is on its way; here it has all the time it needs.
    haft.runtime()
        .flush()
        .await
        .map_err(|error| error.to_string())?;
    let stored = haft.ledger().call(tenant, outcome.call).await;
    let stored: Option<StoredCall> = stored.map_err(|error| error.to_string())?;
    let terminal = stored.and_then(|call| call.terminal);
    check(terminal == Some(outcome.terminal), || {
        format!("the record says {terminal:?}")
    })
}

pub(crate) fn left(scene: &Scene, leaves: &Leaves) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = scene.at(&leaves.path);
    let found = std::fs::symlink_metadata(&path).ok();
    if leaves.absent {
        return check(found.is_none(), || format!("{} is there", leaves.path));
    }
    let found = found.ok_or_else(|| format!("{} is not there", leaves.path))?;
    if let Some(mode) = leaves.mode {
        let is = found.permissions().mode() & 0o7777;
        check(is == mode, || format!("{} has mode {is:o}", leaves.path))?;
    }
    if let Some(text) = &leaves.text {
        let is = std::fs::read(&path).map_err(|error| error.to_string())?;
        check(is == scene.expand(text).as_bytes(), || {
            format!(
                "{} holds {:.200}",
                leaves.path,
                String::from_utf8_lossy(&is)
            )
        })?;
    }
    Ok(())
}

/// Neither what was said nor what was stored holds the secret, in any form.
pub(crate) fn nothing_leaked(scene: &Scene, said: &Said) -> Result<(), String> {
    let forms = Forms::of(&scene.canary);
    if let Some(form) = forms.within(said.text().as_bytes()) {
        return Err(format!("Haft said the secret {form}"));
    }
    if let Some(form) = forms.within(&log::everything()) {
        return Err(format!("the log holds the secret {form}"));
    }
    match forms.beneath(&scene.data) {
        Some(place) => Err(format!("the secret is stored in {place}")),
        None => Ok(()),
    }
}

fn expand(scene: &Scene, value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(scene.expand(text)),
        Value::Array(values) => values.iter().map(|value| expand(scene, value)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (scene.expand(name), expand(scene, value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn shown(attempt: &Attempt) -> String {
    format!("{} {:.120}", attempt.tool, attempt.arguments.to_string())
}

pub(crate) fn check(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
