//! RX-02 and RX-04: more output than fits anywhere.

use haft::{Haft, Limits, prelude::*};

use super::health::Health;
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::{Said, Scene},
};

/// Bytes of a flood: several times every buffer and cap, and more than an artifact holds.
const FLOOD: u64 = 128 << 20;

/// What is kept of one, here.
const KEPT: u64 = 32 << 20;

pub(super) async fn flood(case: &Case, verdict: &mut Verdict) {
    let command = format!("yes | head -c {FLOOD}");
    let line = "y\n".repeat(100);
    drown(case, verdict, &command, &line).await;
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let small = haft
        .call("bash", json!({ "command": "yes | head -c 2000" }))
        .await;
    let whole = small.facts.bytes_omitted == 0 && small.text().matches('y').count() == 1000;
    verdict.twin("2,000 bytes", check(whole, || small.model_text()));
    haft.close().await.unwrap();
}

pub(super) async fn long_line(case: &Case, verdict: &mut Verdict) {
    let command = format!("head -c {FLOOD} /dev/zero | tr '\\0' x");
    drown(case, verdict, &command, &"x".repeat(200)).await;
}

/// A command that floods: what is kept begins and ends as what was printed, everything else is
/// counted, memory is bounded, others are served.
async fn drown(case: &Case, verdict: &mut Verdict, command: &str, edge: &str) {
    let empty = Case {
        setup: Vec::new(),
        ..toml::from_str("").unwrap_or_else(|error| panic!("{}: {error}", case.id))
    };
    let scene = Scene::of(&empty);
    let mut limits = Limits::default();
    limits.output.artifact_bytes = KEPT;
    // Events would hold the whole output in the test's own memory.
    let haft = Haft::open(&scene.workspace)
        .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
        .data_dir(&scene.data)
        .allow("@all")
        .preset(Preset::Workspace)
        .sandbox("bash", SandboxMode::Off)
        .configure(|runtime| runtime.limits(limits))
        .build()
        .await
        .unwrap();
    let attack = haft.call("bash", json!({ "command": command, "timeout_ms": 240_000 }));
    let (outcome, health) = Health::during(&haft, attack).await;
    println!("{command}: {:?}", outcome.facts.timings.ran);
    let printed = outcome
        .structured
        .as_ref()
        .map(|output| output["stdout_bytes"].clone());
    verdict.attempt(
        "the count",
        check(printed == Some(json!(FLOOD)), || outcome.model_text()),
    );
    let text = outcome.text();
    let (how_to_page, shown) = text.split_once('\n').unwrap_or_default();
    let kept = how_to_page.contains("read_output")
        && shown.starts_with(edge)
        && shown.trim_end().ends_with(edge.trim_end());
    verdict.attempt(
        "head and tail",
        check(kept && text.len() < 200_000, || {
            format!("{} bytes, {:.80}", text.len(), text)
        }),
    );
    let artifact = outcome.facts.artifact.is_some() && outcome.facts.bytes_omitted > 0;
    verdict.attempt(
        "the rest",
        check(artifact, || format!("{:?}", outcome.facts)),
    );
    verdict.attempt("memory", health.memory());
    verdict.attempt("other calls", health.others());
    haft.close().await.unwrap();
}
