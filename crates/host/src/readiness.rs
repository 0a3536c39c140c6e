//! Tools that cannot work here because something they need is missing: a program, a tier, a secret.
//! They are withheld, so that no model is offered them, and say what to do. Looked at when tools are
//! registered, never on the path of a call.

#[cfg(feature = "settings")]
mod of_settings;

use std::{collections::BTreeMap, fmt, sync::Arc};

use haft_contract::{
    erased::{WithheldReason, WithheldUntil, withhold},
    ops::{SandboxMode, Tier},
    spec::Requirement,
    surface::NextStep,
};
use haft_runtime::registry::{Entry, Registry};

#[cfg(feature = "settings")]
pub(crate) use self::of_settings::{UnreadyTools, script_lacks, server_lacks};

/// What is known of the place where tools run.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// Which tiers there are; none known where only another machine could say.
    pub(crate) tiers: KnownTiers,
    /// Where programs are looked for; nowhere if they are on another machine.
    pub(crate) programs: Option<Box<dyn FindProgram>>,
    /// The confinement that settings or code ask for.
    pub(crate) modes: BTreeMap<String, SandboxMode>,
}

/// Whether the tiers of the opened workspace are those in which tools run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KnownTiers {
    /// They are.
    #[default]
    OfWorkspace,
    /// Tools run on another machine, which was not asked, or on several.
    Elsewhere,
}

/// Finds the programs of commands.
pub(crate) trait FindProgram: fmt::Debug + Send + Sync {
    /// Whether a command with this confinement finds a program.
    fn finds(&self, program: &str, mode: SandboxMode) -> bool;
}

impl Readiness {
    /// Withholds the registered tools that lack something.
    pub(crate) fn apply(&self, registry: &Registry, tiers: &[Tier]) {
        let tools = registry.snapshot();
        for entry in tools.page(0, tools.len()) {
            if entry.withheld().is_some() {
                continue;
            }
            if let Some(why) = self.missing(entry, tiers) {
                let withheld = withhold(Arc::clone(entry.tool()), why);
                // The entry is there: it comes from this registry, which nobody else has yet.
                let _ = registry.replace(&entry.key().provider, withheld);
            }
        }
    }

    fn missing(&self, entry: &Entry, tiers: &[Tier]) -> Option<WithheldReason> {
        let name = entry.key().tool.as_str();
        let mode = self.modes.get(name).copied();
        let mode = mode.unwrap_or(entry.spec().sandbox);
        let mut needed = entry.spec().requires.iter();
        needed.find_map(|requirement| match requirement {
            Requirement::Commands => self.no_tier(name, mode, tiers),
            Requirement::Program(program) => {
                let search = self.programs.as_ref()?;
                (!search.finds(program, mode)).then(|| no_program(program))
            }
            _ => None,
        })
    }

    fn no_tier(&self, tool: &str, mode: SandboxMode, tiers: &[Tier]) -> Option<WithheldReason> {
        let known = self.tiers == KnownTiers::OfWorkspace;
        if !known || tiers.iter().any(|tier| mode.accepts(*tier)) {
            return None;
        }
        let wanted = match mode {
            SandboxMode::Off => "a way to start commands",
            SandboxMode::Basic => "a sandbox of tier t1 or stronger",
            SandboxMode::Full => "a sandbox of tier t2 or stronger",
        };
        Some(WithheldReason {
            until: WithheldUntil::TierAvailable,
            reason: format!("it needs {wanted}, which is not available here"),
            hint: format!(
                "{}; to run it with less, the operator can set `sandbox` under `[tools.{tool}]` in \
                 haft.toml",
                NextStep::CheckSandbox(None).words()
            ),
        })
    }
}

fn no_program(program: &str) -> WithheldReason {
    let (reason, hint) = if program.contains('/') {
        (
            format!("there is no program `{program}`"),
            format!(
                "put it there; if it changed since, {}",
                NextStep::TrustAgain.words()
            ),
        )
    } else {
        (
            format!("the program `{program}` is not installed where commands find it"),
            format!("install `{program}`, or add the directory it is in to `path` under [sandbox]"),
        )
    };
    WithheldReason {
        until: WithheldUntil::Ready,
        reason,
        hint,
    }
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use haft_contract::ProviderId;

    use super::*;

    /// The tools that are withheld where there are these tiers.
    fn withheld(readiness: &Readiness, tiers: &[Tier]) -> Vec<String> {
        let registry = Registry::new();
        registry
            .register(&ProviderId::builtin(), haft_tools::builtins())
            .unwrap();
        readiness.apply(&registry, tiers);
        let tools = registry.snapshot();
        let entries = tools.page(0, tools.len()).iter();
        let withheld = entries.filter(|entry| entry.withheld().is_some());
        withheld.map(|entry| entry.key().tool.to_string()).collect()
    }

    #[test]
    fn a_tool_that_starts_commands_needs_a_tier_that_its_confinement_accepts() {
        let none: [&str; 0] = [];
        let usual = Readiness::default();
        assert_eq!(withheld(&usual, &[Tier::Host, Tier::T2]), none);
        assert_eq!(withheld(&usual, &[Tier::Host, Tier::T1]), ["bash"]);
        assert_eq!(withheld(&usual, &[]), ["bash"]);
        let off = Readiness {
            modes: [("bash".to_owned(), SandboxMode::Off)].into(),
            ..Readiness::default()
        };
        assert_eq!(withheld(&off, &[Tier::Host]), none);
        let elsewhere = Readiness {
            tiers: KnownTiers::Elsewhere,
            ..Readiness::default()
        };
        assert_eq!(withheld(&elsewhere, &[]), none);
    }
}
