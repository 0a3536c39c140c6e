//! Which preset suits a machine: the loosest one whose promises its sandbox can keep.

use haft_contract::ops::Tier;
use haft_policy::Preset;
use haft_sandbox::Facilities;

/// A preset and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recommendation {
    /// The preset.
    pub preset: Preset,
    /// Why, as the rest of a sentence after "because".
    pub because: &'static str,
}

/// The presets to choose from, one line each.
pub const PRESET_LINES: [(Preset, &str); 3] = [
    (
        Preset::Sandboxed,
        "asks before the network, leaving the workspace, and what undo cannot take back",
    ),
    (
        Preset::Workspace,
        "asks before deleting files and rewriting history as well",
    ),
    (
        Preset::Careful,
        "asks before every change and every command; only reading is allowed",
    ),
];

/// The preset for a machine with these facilities.
pub fn recommended(facilities: &Facilities) -> Recommendation {
    let has = |tier: Tier| facilities.missing(tier).is_empty();
    if has(Tier::T2) || has(Tier::T3) {
        Recommendation {
            preset: Preset::Sandboxed,
            because: "commands run in a sandbox without network here, and undo takes back what they change",
        }
    } else if has(Tier::T1) {
        Recommendation {
            preset: Preset::Workspace,
            because: "only tier t1 is available here, where undo does not know what commands change",
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
