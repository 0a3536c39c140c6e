//! The tiers, each proven by attempted escapes, and what to install or set where one is not
//! available. The default tier must hold; the others may be missing.

use std::path::Path;

use haft_contract::ops::Tier;
use haft_sandbox::{
    SandboxOptions,
    cgroup::{CgroupReport, Controller},
    proof::{AttemptVerdict, Proof, prove},
    remedy::{HostFacts, Remedy, apparmor, last_resort, remedies},
};

use super::check::Check;

/// The tier for `bash` and every other child process unless the operator sets another.
const DEFAULT: Tier = Tier::T2;

/// The name of a tier's check.
fn name(tier: Tier) -> &'static str {
    match tier {
        Tier::T1 => "sandbox t1",
        Tier::T2 => "sandbox t2",
        Tier::T3 => "sandbox t3",
        Tier::Host | Tier::InProcess => "sandbox",
    }
}

/// Proves every tier. `place` is one of Haft's own directories.
pub async fn prove_all(options: &SandboxOptions, place: &Path) -> Vec<Check> {
    let tiers = [Tier::T2, Tier::T1, Tier::T3];
    match prove(options, place, &tiers).await {
        Ok(proofs) => {
            let facts = HostFacts::gather();
            let mut checks: Vec<Check> = proofs.iter().map(|proof| judge(proof, &facts)).collect();
            checks.push(control_groups(options));
            checks
        }
        Err(error) => vec![Check::fail(
            name(DEFAULT),
            error.to_string(),
            format!(
                "check that `{}` is yours and has room, and that programs can be started",
                place.display()
            ),
        )],
    }
}

fn judge(proof: &Proof, facts: &HostFacts) -> Check {
    let name = name(proof.tier);
    if let Some(why) = &proof.unavailable {
        return unavailable(proof.tier, why, facts);
    }
    let count = |shows: AttemptVerdict| {
        let same = proof.tried.iter().filter(|tried| tried.shows() == shows);
        same.count()
    };
    let (stopped, unproven) = (
        count(AttemptVerdict::Stopped),
        count(AttemptVerdict::Nothing),
    );
    let (escaped, failed) = (
        count(AttemptVerdict::Escaped),
        count(AttemptVerdict::Failed),
    );
    let total = proof.tried.len();
    if proof.holds() {
        let of_which = match unproven {
            0 => String::new(),
            _ => format!(", {unproven} unproven because nothing lets them through here"),
        };
        return Check::ok(
            name,
            format!("{stopped} of {total} escapes stopped that succeed outside{of_which}"),
        )
        .tried(proof);
    }
    Check::fail(
        name,
        format!("{total} escapes attempted: {escaped} succeeded, {failed} could not be made"),
        "do not rely on this tier; please report it with the output of `haft doctor --json`",
    )
    .tried(proof)
}

/// A tier that does not start: what prevents it, as far as this machine shows.
fn unavailable(tier: Tier, why: &str, facts: &HostFacts) -> Check {
    let mut found = remedies(facts, tier);
    if found.is_empty() && tier == Tier::T2 {
        found.extend(apparmor(facts));
    }
    if found.is_empty() {
        found = last_resort(facts, tier);
    }
    let hint = lines(&found);
    match tier {
        DEFAULT => {
            let hint = match hint {
                Some(hint) => hint,
                None => "see docs/guide/sandbox.md for what this tier needs".to_owned(),
            };
            Check::fail(
                name(tier),
                format!("not available, so commands are refused: {why}"),
                hint,
            )
        }
        Tier::Host | Tier::InProcess | Tier::T1 | Tier::T3 => {
            Check::absent(name(tier), format!("not available: {why}"), hint)
        }
    }
}

fn lines(remedies: &[Remedy]) -> Option<String> {
    let lines: Vec<String> = remedies
        .iter()
        .flat_map(|remedy| {
            let commands = remedy.commands.iter().map(|command| format!("  {command}"));
            std::iter::once(remedy.problem.clone()).chain(commands)
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Whether control groups can limit everything a command starts.
fn control_groups(options: &SandboxOptions) -> Check {
    const NAME: &str = "control groups";
    let report = match CgroupReport::look(&options.cgroup) {
        Ok(report) => report,
        Err(error) => {
            return Check::fail(
                NAME,
                error.to_string(),
                "delegate it to your user, or remove `cgroup` from [sandbox]",
            );
        }
    };
    let held: Vec<&str> = report
        .controllers
        .iter()
        .filter(|(_, version)| version.is_some())
        .map(|(controller, _)| word(*controller))
        .collect();
    match report.remedy {
        None => Check::ok(
            NAME,
            format!("{} are limited for a command's whole tree", held.join(", ")),
        ),
        Some(remedy) => {
            let held = if held.is_empty() {
                "limits hold for each process, not for a command's whole tree".to_owned()
            } else {
                format!(
                    "only {} are limited for a command's whole tree, the rest for each process",
                    held.join(", ")
                )
            };
            Check::warn(NAME, held, format!("as root: {remedy}"))
        }
    }
}

fn word(controller: Controller) -> &'static str {
    match controller {
        Controller::Memory => "memory",
        Controller::Pids => "processes",
        Controller::Cpu => "processor shares",
        Controller::CpuAccounting => "processor time",
    }
}
