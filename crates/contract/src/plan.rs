//! What a call will do, before it does anything.
//!
//! A tool returns a [`Plan`]: accesses and effects for one input. The plan stage of the runtime
//! resolves its paths and seals it together with everything else an approval must bind — tool,
//! canonical input, back end, tier, deadline — into a [`SealedPlan`]. Policy judges the sealed
//! plan, a person approves it, the ledger records it, and the tool can touch only what it names.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    access::Access,
    effects::Effects,
    egress::EgressRules,
    identity::WorkspaceId,
    label::Labels,
    masks::Masks,
    name::{ActionName, ToolKey},
    ops::{BackendId, Tier},
    path::WorkPath,
};

/// What a tool says one input will touch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The action within the tool (`download` of `browser`), where it has several.
    pub action: Option<ActionName>,
    /// Everything the call will touch, in the order it will.
    pub accesses: Vec<Access>,
    /// What that may do to the world.
    pub effects: Effects,
    /// The run time the input itself asks for. It never exceeds the tool's maximum.
    pub timeout: Option<Duration>,
    /// What happens to the call when one of its paths may not or cannot be touched.
    pub paths: PathsTogether,
    /// Which hosts its commands may reach.
    pub hosts: CommandHosts,
}

/// Which hosts the commands of a plan may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandHosts {
    /// Those that the operator lets every command of the agent reach.
    Configured,
    /// Those that the plan's own accesses name, and no others.
    Planned,
}

/// Whether the paths of a plan succeed or fail together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathsTogether {
    /// A single path that is denied or does not resolve stops the call.
    AllOrNone,
    /// Such a path is left out of the plan, and the guarded files say why when the tool asks for
    /// it. The call stops only if nothing is left.
    EachByItself,
}

impl Plan {
    /// A plan that touches nothing yet.
    pub fn new(effects: Effects) -> Self {
        Self {
            action: None,
            accesses: Vec::new(),
            effects,
            timeout: None,
            paths: PathsTogether::AllOrNone,
            hosts: CommandHosts::Configured,
        }
    }

    /// A plan for something that only reads.
    pub fn read_only() -> Self {
        Self::new(Effects::READ_ONLY)
    }

    /// Adds one access.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.accesses.push(access);
        self
    }

    /// Names the action, which selects its deadline.
    #[must_use]
    pub fn action(mut self, action: impl Into<ActionName>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Asks for a run time other than the default.
    #[must_use]
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Treats each path separately: for a tool that does what it can and reports the rest.
    #[must_use]
    pub fn each_path_by_itself(mut self) -> Self {
        self.paths = PathsTogether::EachByItself;
        self
    }

    /// Lets the plan's commands reach the hosts that its accesses name, and no others.
    #[must_use]
    pub fn only_planned_hosts(mut self) -> Self {
        self.hosts = CommandHosts::Planned;
        self
    }
}

/// What the plan stage of the runtime collects before sealing.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanParts {
    /// The tool, by provider and name.
    pub tool: ToolKey,
    /// The action within the tool, where it has several.
    pub action: Option<ActionName>,
    /// The input as validated, with aliases and coercions applied.
    pub input: Value,
    /// Everything the call will touch, with paths resolved.
    pub accesses: Vec<Access>,
    /// What that may do to the world.
    pub effects: Effects,
    /// Where it runs.
    pub backend: BackendId,
    /// The workspace it runs in.
    pub workspace_id: WorkspaceId,
    /// The root of that workspace on its back end, for display. Nothing is looked up by it.
    pub workspace: Arc<str>,
    /// How strongly it is confined.
    pub tier: Tier,
    /// The hosts its commands may reach; `None` means no network.
    pub egress: Option<Arc<EgressRules>>,
    /// How long it may run.
    pub deadline: Duration,
    /// What the session had read from when the plan was sealed.
    pub read_from: Labels,
}

impl PlanParts {
    /// Seals the plan: from here on it cannot change.
    pub fn seal(self) -> SealedPlan {
        SealedPlan {
            parts: self,
            masks: Masks::NONE,
            attempted_masks: Masks::NONE,
        }
    }
}

/// A plan with everything an approval binds. It cannot be changed: what was recorded, judged and
/// approved is what runs. Changing anything makes another plan from this one.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedPlan {
    parts: PlanParts,
    masks: Masks,
    attempted_masks: Masks,
}

impl SealedPlan {
    /// The tool, by provider and name.
    pub fn tool(&self) -> &ToolKey {
        &self.parts.tool
    }

    /// The action within the tool, where it has several.
    pub fn action(&self) -> Option<&ActionName> {
        self.parts.action.as_ref()
    }

    /// The input as validated, with aliases and coercions applied.
    pub fn input(&self) -> &Value {
        &self.parts.input
    }

    /// Everything the call will touch, with paths resolved.
    pub fn accesses(&self) -> &[Access] {
        &self.parts.accesses
    }

    /// What that may do to the world.
    pub fn effects(&self) -> Effects {
        self.parts.effects
    }

    /// Where it runs.
    pub fn backend(&self) -> &BackendId {
        &self.parts.backend
    }

    /// The workspace it runs in.
    pub fn workspace_id(&self) -> &WorkspaceId {
        &self.parts.workspace_id
    }

    /// The root of that workspace on its back end, for display. Nothing is looked up by it.
    pub fn workspace(&self) -> &str {
        &self.parts.workspace
    }

    /// How strongly it is confined.
    pub fn tier(&self) -> Tier {
        self.parts.tier
    }

    /// The hosts its commands may reach; `None` means no network.
    pub fn egress(&self) -> Option<&Arc<EgressRules>> {
        self.parts.egress.as_ref()
    }

    /// How long it may run.
    pub fn deadline(&self) -> Duration {
        self.parts.deadline
    }

    /// What the session had read from when the plan was sealed.
    pub fn read_from(&self) -> &Labels {
        &self.parts.read_from
    }

    /// What the sandbox keeps from the call's commands, whatever their text says.
    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    /// What the sandbox masks of it only as far as it can. Policy asks as if it were not masked.
    pub fn attempted_masks(&self) -> &Masks {
        &self.attempted_masks
    }

    /// A new plan: this one with commands that are kept from these paths.
    #[must_use]
    pub fn with_masks(mut self, masks: Masks) -> Self {
        self.masks = masks;
        self
    }

    /// A new plan: this one with commands that are kept from these paths as far as possible.
    #[must_use]
    pub fn with_attempted_masks(mut self, masks: Masks) -> Self {
        self.attempted_masks = masks;
        self
    }

    /// A new plan: this one with other accesses.
    #[must_use]
    pub fn with_accesses(mut self, accesses: Vec<Access>) -> Self {
        self.parts.accesses = accesses;
        self
    }

    /// A new plan: this one for a session that has read from these sources.
    #[must_use]
    pub fn with_read_from(mut self, read_from: Labels) -> Self {
        self.parts.read_from = read_from;
        self
    }

    /// The path accesses among all accesses, in order.
    pub fn path_accesses(&self) -> impl Iterator<Item = &crate::access::PathAccess> {
        self.parts
            .accesses
            .iter()
            .filter_map(|access| match access {
                Access::Path(path) => Some(path),
                _ => None,
            })
    }

    /// Whether any access covers this path for reading, by file or by tree.
    pub fn covers_read(&self, path: &WorkPath) -> bool {
        use crate::access::PathScope;
        self.path_accesses().any(|access| match access.scope {
            PathScope::File => access.target() == path,
            PathScope::Tree => access.target().contains(path),
        })
    }
}

/// SHA-256 of a canonical sealed plan. What an approval binds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanDigest(pub [u8; 32]);

impl PlanDigest {
    /// Parses a digest as it is written: 64 hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        let is_hex = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || !rest.is_empty() || pairs.len() != bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let digits = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
