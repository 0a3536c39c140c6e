//! What is known from settings: where programs are found, and which secrets and servers lack something.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_backends::LocalOptions;
use haft_contract::{
    erased::{ErasedTool, WithheldReason, WithheldUntil, withhold},
    ops::SandboxMode,
    secret::SecretReference,
};
use haft_mcp::{
    pin::Item,
    upstream::{
        connection::Server,
        supervise::{MakeTools, OfferedResources},
    },
};
use haft_sandbox::{HostView, Profile};
use haft_tools::script::ScriptManifest;

use super::{FindProgram, KnownTiers, Readiness};
use crate::config::{
    Settings, env,
    mcp::{ServerSettings, Target},
    secrets::read_secret,
};

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
            programs: is_here.then(|| Box::new(ProgramSearch { profile }) as Box<dyn FindProgram>),
            ..Self::default()
        }
    }
}

impl FindProgram for ProgramSearch {
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
    use super::*;

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
