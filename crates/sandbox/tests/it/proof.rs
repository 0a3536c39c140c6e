//! The doctor's proof is a real one: the tiers hold on this machine, and one with a layer taken out
//! is found not to.

use haft_contract::ops::{Layer, Tier};
use haft_sandbox::{
    SandboxOptions,
    helper::Helper,
    proof::{AttemptVerdict, Proof, prove},
};
use haft_testkit::helper_program;

async fn proof(tier: Tier, without: &[Layer]) -> Proof {
    let place = tempfile::tempdir().unwrap();
    let options = SandboxOptions {
        helper: Helper::Path(helper_program()),
        without: without.iter().copied().collect(),
        ..SandboxOptions::default()
    };
    let place = place.path().join("proof");
    let mut proofs = prove(&options, &place, &[tier]).await.unwrap();
    assert!(!place.exists(), "what was attacked is removed");
    proofs.pop().unwrap()
}

fn escapes(proof: &Proof) -> Vec<&str> {
    let escaped = proof
        .tried
        .iter()
        .filter(|tried| tried.shows() == AttemptVerdict::Escaped);
    escaped.map(|tried| tried.attempted).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn every_escape_succeeds_outside_and_is_stopped_inside() {
    for tier in [Tier::T2, Tier::T1] {
        let proof = proof(tier, &[]).await;
        for tried in &proof.tried {
            assert_eq!(tried.shows(), AttemptVerdict::Stopped, "{tier}: {tried:?}");
        }
        assert!(proof.holds() && proof.tried.len() >= 12, "{proof:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn a_tier_without_one_of_its_layers_is_found_out() {
    let proof_of = proof(Tier::T2, &[Layer::Seccomp]).await;
    assert!(!proof_of.holds());
    assert!(
        escapes(&proof_of).contains(&"open a socket to the hypervisor"),
        "{proof_of:?}"
    );
    let proof_of = proof(Tier::T2, &[Layer::Namespaces]).await;
    assert!(!proof_of.holds());
    let proof_of = proof(Tier::T1, &[Layer::Landlock]).await;
    assert!(
        escapes(&proof_of).contains(&"read a file outside the workspace"),
        "{proof_of:?}"
    );
}
