//! Which preset suits a machine: the loosest one whose promises its sandbox can keep. And what
//! `haft init` says about the presets.

use std::{fmt::Write as _, path::Path};

use haft_contract::ops::Tier;
use haft_policy::Preset;
use haft_sandbox::{Facilities, SandboxOptions, helper::Helper};

/// What a newcomer is told about the presets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetGuide {
    /// The preset that suits this machine.
    pub recommended: Preset,
    /// The presets, one line each, and the recommendation.
    pub presets: String,
    /// Two calls that show what the chosen preset does.
    pub first_calls: &'static str,
}

/// A preset and the reason for it.
struct Recommendation {
    preset: Preset,
    because: &'static str,
}

/// The presets to choose from, one line each.
const PRESET_LINES: [(Preset, &str); 3] = [
    (
        Preset::Sandboxed,
        "asks before the network, leaving the workspace, and losing what no command makes again",
    ),
    (
        Preset::Workspace,
        "asks before deleting files and rewriting history as well",
    ),
    (
        Preset::Careful,
        "asks before every change to a file; looking, building and testing are allowed",
    ),
];

/// The guide to the presets for a workspace that has this one.
pub fn preset_guide(preset: Preset, workspace: &Path) -> PresetGuide {
    let options = SandboxOptions {
        helper: Helper::CurrentExecutable,
        ..SandboxOptions::default()
    };
    let recommendation = recommended(&Facilities::look(&options, workspace));
    let (suits, because) = (recommendation.preset, recommendation.because);
    let mut presets = format!("The preset is `{preset}`. The presets:\n");
    for (preset, line) in PRESET_LINES {
        let _ = writeln!(presets, "  {:<10} {line}", preset.as_str());
    }
    let _ = write!(presets, "`{suits}` is recommended: {because}.");
    if preset != suits {
        let _ = write!(
            presets,
            "\nTo use it, write preset = \"{suits}\" in haft.toml and run `haft trust`."
        );
    }
    PresetGuide {
        recommended: suits,
        presets,
        first_calls: first_calls(preset),
    }
}

fn first_calls(preset: Preset) -> &'static str {
    match preset {
        Preset::Careful => {
            "  haft call list path=.            a call that only reads is allowed
  haft call bash 'touch made'      one that changes something asks you first"
        }
        Preset::Sandboxed | Preset::Workspace => {
            "  haft call write notes.txt hello  a change inside the workspace is allowed
  haft call bash 'date'            so is a command, in a sandbox"
        }
        Preset::Locked => {
            "  haft call list path=.            denied until a rule allows it; the hint names the rule
  haft call bash 'date'            denied too: nobody is ever asked"
        }
    }
}

/// The preset for a machine with these facilities.
fn recommended(facilities: &Facilities) -> Recommendation {
    let has = |tier: Tier| facilities.missing(tier).is_empty();
    if has(Tier::T2) || has(Tier::T3) {
        Recommendation {
            preset: Preset::Sandboxed,
            because: "commands run in a sandbox without network here, and undo takes back what they change",
        }
    } else if has(Tier::T1) {
        Recommendation {
            preset: Preset::Workspace,
            because: "only tier t1 is available here, where undo does not know what commands change; `bash` runs there once haft.toml says sandbox = \"basic\" under [tools.bash]",
        }
    } else {
        Recommendation {
            preset: Preset::Careful,
            because: "no sandbox is available here; `haft doctor` says what is missing",
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_sandbox::MissingFacility;

    use super::*;

    #[test]
    fn the_preset_follows_from_the_sandbox_that_is_there() {
        let mut machine = Facilities {
            helper: Ok("/usr/bin/haft".into()),
            bubblewrap: Ok("/usr/bin/bwrap".into()),
            gvisor: Err(MissingFacility::Gvisor),
            landlock: Some(i32::MAX),
            seccomp: Ok(()),
        };
        assert_eq!(recommended(&machine).preset, Preset::Sandboxed);
        machine.bubblewrap = Err(MissingFacility::Bubblewrap);
        assert_eq!(recommended(&machine).preset, Preset::Workspace);
        machine.helper = Err(MissingFacility::Helper);
        assert_eq!(recommended(&machine).preset, Preset::Careful);
    }
}
