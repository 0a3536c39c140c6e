//! From an input to a sealed plan: what it will touch, with every path resolved, where it runs,
//! how strongly it is confined, and for how long.

use std::{panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{
    Access, ActionName, CallEvent, CommandHosts, Effects, ErrorKind, Masks, PathAccess, PathMode,
    PathsTogether, Plan, PlanContext, PlanParts, SealedPlan, ToolError,
    egress::{EgressRules, Host, HostRule},
    erased::ParsedInput,
    ops::{FileKind, FileVersion, Operations, OpsError, SandboxMode, Tier},
    surface::NextStep,
};

use super::{
    HaltedCall, ValidatedCall,
    call_state::CallState,
    left_out::{is_about_one_path, leave_out_denied},
};
use crate::{deadline, registry::Entry, rules::WorkspaceRules};

/// The most accesses one plan may name.
const MAX_ACCESSES: usize = 4096;

/// A call with a sealed plan.
pub struct PlannedCall {
    pub(super) call: Box<CallState>,
    pub(super) entry: Arc<Entry>,
    pub(super) parsed: ParsedInput,
    pub(super) plan: Arc<SealedPlan>,
    /// The version of each access's target when the plan was made, for an approval to bind.
    pub(super) versions: Vec<Option<FileVersion>>,
    pub(super) rewrites: u8,
}

/// Asks the tool what the input will touch, and seals the answer.
pub async fn plan(validated: ValidatedCall) -> Result<PlannedCall, HaltedCall> {
    let ValidatedCall {
        call,
        entry,
        input,
        parsed,
        rewrites,
    } = validated;
    let mut call = call.unless_cancelled()?;
    let engine = Arc::clone(&call.engine);
    let workspace = Arc::clone(&call.workspace);
    let operations = &workspace.operations;
    let mut said = match ask_tool(&entry, &parsed, &call, operations) {
        Ok(said) => said,
        Err(error) => return Err(call.halt(error)),
    };
    let Targets {
        versions,
        mut left_out,
    } = match resolve_accesses(&mut said, &call).await {
        Ok(targets) => targets,
        Err(error) => return Err(call.halt(error)),
    };
    let mode = workspace.sandbox_mode(&call.rules, &entry);
    let tier = match tier(&said, mode, operations, &entry) {
        Ok(tier) => tier,
        Err(error) => return Err(call.halt(error)),
    };
    let session = engine
        .sessions
        .of(&call.principal, &*engine.ledger, &call.cancel);
    let session = match session.await {
        Ok(session) => session,
        Err(error) => return Err(call.not_looked_up(error)),
    };
    let egress = match command_hosts(&said, tier, workspace.egress_of(&call.principal, tier)) {
        Ok(egress) => egress,
        Err(error) => return Err(call.halt(error)),
    };
    let spec = entry.spec();
    let paths = said.paths;
    let plan = PlanParts {
        tool: entry.key().clone(),
        action: said.action.clone(),
        input,
        effects: honest_effects(&said),
        accesses: said.accesses,
        backend: operations.backend.clone(),
        workspace_id: workspace.id().clone(),
        workspace: Arc::clone(&operations.root),
        tier,
        egress,
        deadline: deadline::run_time(
            spec.deadline_of(said.action.as_ref()),
            said.timeout,
            call.timeout,
            engine.limits.hard_deadline,
        ),
        read_from: session.labels(),
    };
    let mut plan = plan.seal();
    let (held, attempted) = masks(&call, &entry, &plan).await;
    plan = plan.with_masks(held).with_attempted_masks(attempted);
    call.session = Some(session);
    let versions = match paths {
        PathsTogether::AllOrNone => versions,
        PathsTogether::EachByItself => {
            match leave_out_denied(&call, &entry, plan, versions, &mut left_out) {
                Ok(left) => {
                    plan = left.plan;
                    left.versions
                }
                Err(error) => return Err(call.halt(error)),
            }
        }
    };
    // The default allocates nothing, unlike the conversion of an empty list.
    call.left_out = if left_out.is_empty() {
        Arc::default()
    } else {
        left_out.into()
    };
    let plan = Arc::new(plan);
    call.recording.note(CallEvent::Planned {
        plan: Arc::clone(&plan),
    });
    Ok(PlannedCall {
        call,
        entry,
        parsed,
        plan,
        versions,
        rewrites,
    })
}

fn ask_tool(
    entry: &Entry,
    parsed: &ParsedInput,
    call: &CallState,
    operations: &Operations,
) -> Result<Plan, ToolError> {
    let cx = PlanContext {
        principal: Arc::clone(&call.principal),
        root: Arc::clone(&operations.root),
    };
    let said = std::panic::catch_unwind(AssertUnwindSafe(|| entry.tool().plan(parsed, &cx)))
        .map_err(|_| ToolError::new(ErrorKind::Internal, "the tool panicked while planning"))??;
    // A deadline whose key no plan names would never apply, and nobody would notice.
    let listed = |action: &ActionName| entry.spec().actions.iter().any(|spec| spec.name == *action);
    if let Some(action) = said.action.as_ref().filter(|action| !listed(action)) {
        let message =
            format!("the tool planned the action `{action}`, which its spec does not list");
        return Err(ToolError::new(ErrorKind::Internal, message));
    }
    if said.accesses.len() > MAX_ACCESSES {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!("the call would touch more than {MAX_ACCESSES} things"),
        )
        .hint("split it into several calls"));
    }
    Ok(said)
}

/// Where the accesses of a plan lead.
pub(super) struct Targets {
    /// The version of each access's target.
    pub(super) versions: Vec<Option<FileVersion>>,
    /// Paths that do not resolve and are left out.
    left_out: Vec<OpsError>,
}

/// Resolves every path. This is the only time symlinks are followed; from here on the resolved
/// paths are opened, and a symlink that appears later is refused.
pub(super) async fn resolve_accesses(
    said: &mut Plan,
    call: &CallState,
) -> Result<Targets, ToolError> {
    let operations = &call.workspace.operations;
    let accesses = std::mem::take(&mut said.accesses);
    let mut versions = Vec::with_capacity(accesses.len());
    let mut left_out = Vec::new();
    for mut access in accesses {
        let version = match &mut access {
            Access::Path(path) => match (resolve_path(path, operations).await, said.paths) {
                (Ok(version), _) => version,
                (Err(error), PathsTogether::EachByItself) if is_about_one_path(error.kind()) => {
                    left_out.push(error.on(&path.path));
                    continue;
                }
                (Err(error), _) => return Err(error.into()),
            },
            Access::Command(command) => {
                let there = operations.files.resolve(&command.cwd).await?;
                if there
                    .stat
                    .is_none_or(|stat| stat.kind != FileKind::Directory)
                {
                    return Err(ToolError::new(
                        ErrorKind::NotDirectory,
                        format!("there is no directory `{}` to run in", command.cwd),
                    ));
                }
                command.cwd = there.path;
                None
            }
            Access::Process(process) => {
                let kept =
                    call.engine
                        .processes
                        .find(&call.principal, call.workspace.id(), process.id)?;
                process.running = Some(kept.running().clone());
                None
            }
            Access::Host { .. }
            | Access::Database { .. }
            | Access::Message { .. }
            | Access::RemoteTool { .. }
            | Access::Custom(_) => None,
        };
        versions.push(version);
        said.accesses.push(access);
    }
    if said.accesses.is_empty()
        && let Some(first) = left_out.first()
    {
        return Err(first.clone().into());
    }
    Ok(Targets { versions, left_out })
}

async fn resolve_path(
    access: &mut PathAccess,
    operations: &Operations,
) -> Result<Option<FileVersion>, OpsError> {
    let there = operations.files.resolve(&access.path).await?;
    access.resolved = Some(there.path);
    access.protected = there.protected;
    Ok(there.stat.map(|stat| stat.version))
}

/// The hosts that the plan's commands may reach: what the operator configured, or only what the
/// plan's own accesses name. Whoever is denied to everybody is denied here too.
fn command_hosts(
    said: &Plan,
    tier: Tier,
    configured: Option<Arc<EgressRules>>,
) -> Result<Option<Arc<EgressRules>>, ToolError> {
    match (said.hosts, tier) {
        (CommandHosts::Configured, _) => return Ok(configured),
        // Nothing could enforce them on the host, and T1 has no network.
        (CommandHosts::Planned, Tier::Host | Tier::T1 | Tier::InProcess) => return Ok(None),
        (CommandHosts::Planned, Tier::T2 | Tier::T3) => {}
    }
    let named = said.accesses.iter().filter_map(|access| match access {
        Access::Host { host, port } => Some((host, *port)),
        _ => None,
    });
    let allow: Vec<HostRule> = named
        .map(|(host, port)| match Host::parse(host) {
            Ok(host) => Ok(HostRule::exact(host, port)),
            Err(error) => Err(ToolError::new(
                ErrorKind::Internal,
                format!("the tool planned a host that is none: {error}"),
            )),
        })
        .collect::<Result<_, _>>()?;
    if allow.is_empty() {
        return Ok(None);
    }
    let deny = configured.map_or_else(Vec::new, |rules| rules.deny.clone());
    Ok(Some(Arc::new(EgressRules { allow, deny })))
}

/// What the sandbox will keep from the plan's commands, and what it masks only as far as it can.
/// Whatever goes wrong, nothing is held, and policy asks about what the masks would have held.
async fn masks(call: &CallState, entry: &Entry, plan: &SealedPlan) -> (Masks, Masks) {
    let is_command = |access: &Access| matches!(access, Access::Command(_));
    if !plan.accesses().iter().any(is_command) {
        return (Masks::NONE, Masks::NONE);
    }
    let wanted = wanted_masks(&call.rules, call, entry, plan).unwrap_or_default();
    if wanted.is_empty() {
        return (Masks::NONE, Masks::NONE);
    }
    let processes = &call.workspace.operations.processes;
    let held = processes.holds(plan.tier(), wanted.clone()).await;
    let held = held.unwrap_or_else(|error| {
        tracing::debug!(%error, "no mask is certain to hold; policy asks instead");
        Masks::NONE
    });
    let attempted = wanted.without(&held);
    (held, attempted)
}

/// What a version of the rules wants to keep from the call's commands; `None` if its policy panics.
pub(super) fn wanted_masks(
    rules: &WorkspaceRules,
    call: &CallState,
    entry: &Entry,
    plan: &SealedPlan,
) -> Option<Masks> {
    let masks = || {
        let read_from = plan.read_from();
        rules
            .policy
            .masks(&call.principal, &entry.facts(), read_from)
    };
    std::panic::catch_unwind(AssertUnwindSafe(masks)).ok()
}

/// A tool that writes or runs something is not read-only, whatever it says.
fn honest_effects(said: &Plan) -> Effects {
    let changes = |access: &Access| match access {
        Access::Path(path) => path.mode == PathMode::Write,
        Access::Database { writes, .. } => *writes,
        // Nobody but the tool knows what such an access does.
        Access::Command(_) | Access::Process(_) | Access::Message { .. } | Access::Custom(_) => {
            true
        }
        Access::Host { .. } | Access::RemoteTool { .. } => false,
    };
    let mut effects = said.effects;
    if said.accesses.iter().any(changes) {
        effects.read_only = false;
    }
    effects
}

/// The weakest tier that is strong enough, or a refusal: never silently a weaker one.
fn tier(
    said: &Plan,
    mode: SandboxMode,
    operations: &Operations,
    entry: &Entry,
) -> Result<Tier, ToolError> {
    let commands = said
        .accesses
        .iter()
        .any(|access| matches!(access, Access::Command(_)));
    if !commands {
        // An act on a process happens in the tier where the process runs.
        let running = said.accesses.iter().filter_map(|access| match access {
            Access::Process(process) => process.running.as_ref().map(|running| running.tier),
            _ => None,
        });
        return Ok(running.min().unwrap_or(Tier::InProcess));
    }
    operations
        .tiers
        .iter()
        .copied()
        .filter(|tier| mode.accepts(*tier))
        .min()
        .ok_or_else(|| {
            let name = &entry.key().tool;
            let wanted = match mode {
                SandboxMode::Off => "a way to start processes",
                SandboxMode::Basic => "a sandbox of tier t1 or stronger",
                SandboxMode::Full => "a sandbox of tier t2 or stronger",
            };
            let (less, setting) = if operations.tiers.contains(&Tier::T1) {
                ("in tier t1, which is available,", "basic")
            } else {
                ("without a sandbox", "off")
            };
            let step = NextStep::CheckSandbox(operations.tier_remedy).words();
            ToolError::new(
                ErrorKind::TierUnavailable,
                format!("`{name}` needs {wanted}, which is not available here"),
            )
            .hint(format!(
                "{step}; to run it {less} anyway, the operator can set `sandbox = \"{setting}\"` under `[tools.{name}]` in \
                 haft.toml"
            ))
        })
}
