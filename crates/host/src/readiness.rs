//! Tools that cannot work here because something they need is missing: a program, a tier, a secret.
//! They are withheld, so that no model is offered them, and say what to do. Looked at when tools are
//! registered, never on the path of a call.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_backends::LocalOptions;
use haft_contract::{
    erased::{ErasedTool, WithheldReason, WithheldUntil, withhold},
    ops::{SandboxMode, Tier},
    secret::SecretReference,
    spec::Requirement,
    surface::NextStep,
};
use haft_mcp::{
    pin::Item,
    upstream::{
        connection::Server,
        supervise::{MakeTools, OfferedResources},
    },
};
use haft_runtime::registry::{Entry, Registry};
use haft_sandbox::{HostView, Profile};
use haft_tools::script::ScriptManifest;

use crate::config::{
    Settings, env,
    mcp::{ServerSettings, Target},
    secrets::read_secret,
};

/// What is known of the place where tools run.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// Which tiers there are; none known where only another machine could say.
    pub(crate) tiers: KnownTiers,
    /// Where programs are looked for; nowhere if they are on another machine.
    pub(crate) programs: Option<ProgramSearch>,
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

/// Where the programs of commands are found.
#[derive(Debug)]
pub(crate) struct ProgramSearch {
    profile: Profile,
}

impl Readiness {
    /// Of the place in the settings.
    pub(crate) fn of(settings: &Settings, profile: Profile) -> Self {
        let is_here = settings.elsewhere().is_none() && !settings.varies;
        Self {
            tiers: if settings.varies {
                KnownTiers::Elsewhere
            } else {
                KnownTiers::OfWorkspace
            },
            programs: is_here.then_some(ProgramSearch { profile }),
            ..Self::default()
        }
    }

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

impl ProgramSearch {
    /// Whether a command with this confinement finds a program.
    fn finds(&self, program: &str, mode: SandboxMode) -> bool {
        if program.contains('/') {
            return Path::new(program).exists();
        }
        let is_in = |places: &[PathBuf]| places.iter().any(|place| place.join(program).exists());
        let system = LocalOptions::default().search_path;
        let system: Vec<PathBuf> = system.split(':').map(PathBuf::from).collect();
        if is_in(&system) {
            return true;
        }
        if mode == SandboxMode::Off {
            return is_in(&env::search_path());
        }
        // Looking through a home takes longer, and most programs are the system's.
        let view = HostView::look(&self.profile);
        is_in(&view.programs) || is_in(&view.search)
    }
}

/// What a script certainly lacks: one of its secrets. Its programs are looked for where it runs.
pub(crate) fn script_lacks(manifest: &ScriptManifest) -> Option<WithheldReason> {
    let whose = format!("the script `{}`", manifest.name);
    missing_secret(&manifest.secrets, &whose, "its manifest")
}

/// The first secret that cannot be read, of whom it is, and where it is named.
fn missing_secret(
    secrets: &BTreeMap<String, SecretReference>,
    whose: &str,
    named_in: &str,
) -> Option<WithheldReason> {
    secrets.iter().find_map(|(name, reference)| {
        let why = read_secret(reference).err()?;
        Some(WithheldReason {
            until: WithheldUntil::Ready,
            reason: format!("the secret `{name}` of {whose} is missing: {why}"),
            hint: format!("supply it, or correct `secrets` in {named_in}"),
        })
    })
}

/// What a mounted server certainly lacks: one of its secrets, or its program.
pub(crate) fn server_lacks(server: &ServerSettings, profile: &Profile) -> Option<WithheldReason> {
    let id = &server.id;
    let until = WithheldUntil::Ready;
    let lacking = missing_secret(
        &server.secrets,
        &format!("the server `{id}`"),
        &format!("the entry of `{id}`"),
    );
    if lacking.is_some() {
        return lacking;
    }
    let Target::Command(command) = &server.target else {
        return None;
    };
    let program = command.argv.first()?;
    // One that is only out of the sandbox's sight is another matter, which `haft doctor` explains.
    let is_there = if program.contains('/') {
        Path::new(program).is_relative() || Path::new(program).exists()
    } else {
        let search = ProgramSearch {
            profile: profile.clone(),
        };
        search.finds(program, SandboxMode::Off) || search.finds(program, SandboxMode::Full)
    };
    (!is_there).then(|| WithheldReason {
        until,
        reason: format!("there is no program `{program}`, which the server `{id}` is started with"),
        hint: format!("install `{program}`, or correct `command` in the entry of `{id}`"),
    })
}

/// Makes the tools of a server that cannot start, all withheld.
pub(crate) struct UnreadyTools {
    pub(crate) make: Arc<dyn MakeTools>,
    pub(crate) why: WithheldReason,
}

impl MakeTools for UnreadyTools {
    fn tool(&self, server: &Arc<dyn Server>, item: &Item) -> Result<Arc<dyn ErasedTool>, String> {
        let tool = self.make.tool(server, item)?;
        Ok(withhold(tool, self.why.clone()))
    }

    fn fetchers(
        &self,
        server: &Arc<dyn Server>,
        offered: &OfferedResources,
    ) -> Vec<Arc<dyn ErasedTool>> {
        let fetchers = self.make.fetchers(server, offered).into_iter();
        fetchers
            .map(|tool| withhold(tool, self.why.clone()))
            .collect()
    }
}

#[cfg(test)]
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

    #[test]
    fn a_program_is_looked_for_where_commands_find_it() {
        let search = ProgramSearch {
            profile: Profile::default(),
        };
        assert!(search.finds("sh", SandboxMode::Full));
        assert!(search.finds("/bin/sh", SandboxMode::Full));
        assert!(!search.finds("no-such-program", SandboxMode::Full));
        assert!(!search.finds("no-such-program", SandboxMode::Off));
        assert!(!search.finds("/no/such/program", SandboxMode::Off));
    }
}
