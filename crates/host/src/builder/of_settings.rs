//! A builder from settings: the configured tools, servers, limits and back ends.

use std::sync::Arc;

#[cfg(feature = "databases")]
use haft_contract::erased::for_tenant;
use haft_contract::{ProviderId, secret::ReadSecret};
use haft_runtime::Runtime;
use haft_tools::catalog::undo_tool;

use super::{AssemblyParts, HostBuilder, WorkspaceSupplier};
use crate::{
    config::Settings,
    error::HostError,
    follow_trust::FollowedFile,
    mounting::{Configured, MountPlan},
    own_tools,
    places_apart::PlacesApart,
    readiness::{KnownTiers, Readiness},
    record::RecordOptions,
    script_secrets::ScriptSecrets,
    suggest::{AfterEdit, Suggest},
    web::WebAccess,
    workspace::{WorkspaceSource, local_options, sandbox_options},
    workspaces_by_caller::SeveralBackends,
};

impl HostBuilder {
    /// Starts from settings.
    pub fn from_settings(settings: Settings) -> Result<Self, HostError> {
        let after = if settings.rules_go_to == settings.places.project_config {
            AfterEdit::Trust
        } else {
            AfterEdit::Nothing
        };
        let rules_file = settings.rules_file_name();
        let followed = FollowedFile::of(&settings.places);
        let mut notes = settings.notes.clone();
        if settings.sources.is_empty() && notes.is_empty() {
            notes.push(format!(
                "no haft.toml applies in `{}`, so only the preset `careful` applies; \
                 `haft init` makes it a workspace",
                settings.places.workspace.display()
            ));
        }
        let mounts = Arc::new(MountPlan::of(&settings));
        let (workspace, record) = (WorkspaceSource::of(&settings), RecordOptions::of(&settings));
        let (local, apart) = (local_options(&settings), PlacesApart::of(&settings.places));
        let several = SeveralBackends::of(&settings);
        let script_secrets = ScriptSecrets::of(&settings);
        let reader: Arc<dyn ReadSecret> = Arc::new(script_secrets.clone());
        #[cfg_attr(
            not(feature = "databases"),
            expect(unused_mut, reason = "nothing adds a tool without databases")
        )]
        let mut builtins = own_tools::built_in(&settings, &reader)?;
        let web = WebAccess::of(&settings)?;
        #[cfg(feature = "databases")]
        let databases = crate::databases::DatabaseTools::of(&settings, &reader)?;
        #[cfg(feature = "databases")]
        let databases = databases.map(|databases| {
            let tenant = settings.places.tenant.clone();
            builtins.extend(databases.tool.map(|tool| for_tenant(tool, tenant)));
            databases.operations
        });
        #[cfg(not(feature = "databases"))]
        let databases = None;
        let scripts = own_tools::trusted_scripts(&settings, &reader)?;
        notes.extend(scripts.refused.iter().cloned());
        let mut readiness = Readiness::of(&settings, sandbox_options(&settings).profile);
        let modes = settings.policy.tool_settings().sandboxes();
        readiness.modes = modes
            .map(|(tool, mode)| (tool.as_str().to_owned(), mode))
            .collect();
        let policy = Arc::new(settings.policy);
        let mut suggest = Suggest::new(settings.sources, Arc::clone(&policy), rules_file, after);
        if let Some(tool) = undo_tool() {
            suggest.know_apart(tool);
        }
        let mut runtime = Runtime::builder()
            .limits(settings.limits)
            .timeouts(settings.timeouts.timeouts())
            .loop_guard(settings.loop_guard.guard())
            .provider(ProviderId::builtin(), builtins)
            .provider(ProviderId::script(), scripts.tools);
        if let Some(rules) = &settings.sandbox.network {
            runtime = runtime.egress(rules.clone());
        }
        let (timeouts, tools_are_missing) = (settings.timeouts, !scripts.refused.is_empty());
        let parts = AssemblyParts {
            runtime,
            policy,
            mounts,
            suggest,
            check: Some(Box::new(move |runtime| {
                timeouts.check(runtime, tools_are_missing)
            })),
            tools_are_missing,
            readiness,
            several: several
                .map(|several| -> WorkspaceSupplier { Box::new(move |own| several.beside(own)) }),
            databases,
        };
        let mut builder = Self::of(workspace, record, parts);
        builder.notes = notes;
        builder.local = Some(Box::new(local));
        builder.apart = apart;
        builder.web = web;
        builder.configured = Configured::new(script_secrets, followed);
        Ok(builder)
    }

    /// Lets the host take workspaces on this machine also where its own is elsewhere. Where its own is
    /// here, it takes them anyway.
    pub fn takes_workspaces(mut self) -> Self {
        self.beside = self.beside.or(self.local.take());
        self
    }

    /// As [`Self::from_settings`], but in the directory on this machine, wherever the workspace is.
    /// For commands that look at rules and tools and touch no files.
    pub fn to_look(settings: Settings) -> Result<Self, HostError> {
        let workspace = WorkspaceSource::local(&settings);
        let tiers = match settings.elsewhere() {
            Some(_) => KnownTiers::Elsewhere,
            None => KnownTiers::OfWorkspace,
        };
        let mut builder = Self::from_settings(settings)?.workspace(workspace);
        builder.parts.readiness.tiers = tiers;
        Ok(builder)
    }
}
