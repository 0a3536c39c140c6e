//! Converts domain types to the stored form, and back as far as recovery needs it.
//!
//! Secrets are removed here: what this file returns is written, hashed and searched.

use std::{borrow::Cow, sync::Arc, time::Duration};

use haft_contract::{
    Access, ActionName, AgentId, Arguments, CallEvent, CallId, CallRequest, Content, Label,
    Outcome, PathMode, PathScope, PlanDigest, Principal, SealedPlan, SessionId, SessionKind,
    TenantId, UserId, WorkPath, WorkspaceId,
    access::{Command, PathAccess, ProcessAccess, ProcessAct},
    content::ResourceBody,
    egress::{EgressRules, HostRule},
    event::RecordedEvent,
    host::{
        ApprovalAnswer, ApprovalId, ArtifactId, Decision, Grant, GrantId, LedgerError,
        LedgerErrorKind, Timestamp,
    },
    identity::{ChannelId, Scope},
    ops::{BackendId, FileVersion, Limit, Refusal, Tier},
    outcome::DeniedBy,
    progress::ProgressNote,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    body::Events,
    redact::Redactor,
    row,
    write_body::{MAX_BODY_BYTES, readable, write_body},
};

/// The complete request, with every value as received: for a call that is still to be run.
pub(crate) fn whole_request(request: &CallRequest) -> Result<String, LedgerError> {
    let whole = row::WholeRequest {
        principal: stored_principal(&request.principal),
        opened: row::OpenedRow {
            tool: (&request.tool).into(),
            arguments: match &request.arguments {
                Arguments::Text(text) => row::StoredArguments::Text(text.into()),
                Arguments::Value(value) => row::StoredArguments::Value(Cow::Borrowed(value)),
            },
            workspace: request.workspace.as_str().into(),
            timeout_ms: request.timeout.map(millis),
            left_out: None,
        },
    };
    match serde_json::to_string(&whole) {
        Ok(text) if text.len() <= MAX_BODY_BYTES => Ok(text),
        Ok(_) | Err(_) => Err(LedgerError::new(
            LedgerErrorKind::LimitExceeded,
            format!("the request is larger than {MAX_BODY_BYTES} bytes"),
        )),
    }
}

/// Reads a complete request back.
pub(crate) fn request_from(id: CallId, whole: &str) -> Option<CallRequest> {
    let whole: row::WholeRequest<'_> = serde_json::from_str(whole).ok()?;
    let principal = Arc::new(principal_from(&whole.principal)?);
    request_of(id, principal, whole.opened)
}

/// Reads a recorded request back, as it was asked for by this principal.
pub(crate) fn recorded_request(
    id: CallId,
    principal: Arc<Principal>,
    opened: &Value,
) -> Option<CallRequest> {
    request_of(id, principal, row::OpenedRow::deserialize(opened).ok()?)
}

fn request_of(
    id: CallId,
    principal: Arc<Principal>,
    opened: row::OpenedRow<'_>,
) -> Option<CallRequest> {
    let arguments = match opened.arguments {
        row::StoredArguments::Text(text) => Arguments::Text(text.into_owned()),
        row::StoredArguments::Value(value) => Arguments::Value(value.into_owned()),
    };
    let tool = opened.tool.into_owned();
    let mut request = CallRequest::from_arguments(tool, arguments, principal);
    request.id = id;
    request.workspace = WorkspaceId::parse(&opened.workspace).ok()?;
    request.timeout = opened.timeout_ms.map(Duration::from_millis);
    Some(request)
}

/// The stored form of a principal.
pub(crate) fn stored_principal(principal: &Principal) -> row::StoredPrincipal {
    row::StoredPrincipal {
        tenant: principal.tenant.to_string(),
        user: principal.user.to_string(),
        agent: principal.agent.to_string(),
        ancestors: principal.ancestors.iter().map(AgentId::to_string).collect(),
        session: principal.session.to_string(),
        session_kind: principal.session_kind.to_string(),
        narrowed_from: principal.narrowed_from.as_ref().map(SessionKind::to_string),
        channel: principal.channel.as_ref().map(ChannelId::to_string),
        scopes: principal.scopes.iter().map(Scope::to_string).collect(),
    }
}

/// Reads a principal back.
pub(crate) fn principal_from(stored: &row::StoredPrincipal) -> Option<Principal> {
    Some(Principal {
        tenant: TenantId::parse(&stored.tenant).ok()?,
        user: UserId::parse(&stored.user).ok()?,
        agent: AgentId::parse(&stored.agent).ok()?,
        ancestors: stored
            .ancestors
            .iter()
            .map(|agent| AgentId::parse(agent).ok())
            .collect::<Option<_>>()?,
        session: SessionId::parse(&stored.session).ok()?,
        session_kind: session_kind(&stored.session_kind)?,
        narrowed_from: match &stored.narrowed_from {
            Some(kind) => Some(session_kind(kind)?),
            None => None,
        },
        channel: match &stored.channel {
            Some(channel) => Some(ChannelId::parse(channel).ok()?),
            None => None,
        },
        scopes: stored
            .scopes
            .iter()
            .map(|scope| Scope::parse(scope).ok())
            .collect::<Option<_>>()?,
    })
}

fn progress_note(note: &ProgressNote) -> row::ProgressRow<'_> {
    row::ProgressRow {
        message: &note.message,
        step: note.steps.map(|(step, _)| step),
        total: note.steps.and_then(|(_, total)| total),
        remaining_ms: note.remaining.map(millis),
        deadline_in_ms: millis(note.deadline_in),
    }
}

/// The session kind this word names.
pub(crate) fn session_kind(word: &str) -> Option<SessionKind> {
    SessionKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word)
}

/// Encodes an event under a name. Nothing for one that is not recorded, and for `opened`, whose body is the request.
pub(crate) fn event(
    events: &mut Events,
    kind: &str,
    happened: &RecordedEvent,
    redactor: &Redactor,
) {
    let event = &happened.event;
    if event.is_recorded() && !matches!(event, CallEvent::Opened { .. }) {
        events.push(kind, happened.at, |bytes| {
            write_event(bytes, event, redactor)
        });
    }
}

fn write_event(bytes: &mut Vec<u8>, event: &CallEvent, redactor: &Redactor) -> bool {
    match event {
        CallEvent::Opened { .. }
        | CallEvent::Running
        | CallEvent::Progress(_)
        | CallEvent::Output { .. }
        | CallEvent::Item(_)
        | CallEvent::RunEnded => false,
        CallEvent::ProgressNoted(note) => {
            let note = progress_note(note);
            write_body(bytes, &[], &note, redactor)
        }
        CallEvent::Resolved { tool } => {
            let tool = tool.to_string();
            write_body(bytes, &[], &row::ResolvedRow { tool }, redactor)
        }
        CallEvent::Validated { coercions } => {
            write_body(bytes, &[], &row::ValidatedRow { coercions }, redactor)
        }
        CallEvent::Planned { plan } => write_body(bytes, &[], &planned(plan), redactor),
        CallEvent::Decided { decision } => {
            let decision = stored_decision(decision);
            write_body(bytes, &[], &row::DecidedRow { decision }, redactor)
        }
        CallEvent::ApprovalAsked {
            id,
            digest,
            expires,
        } => write_body(
            bytes,
            &[],
            &approval_asked(*id, *digest, *expires),
            redactor,
        ),
        CallEvent::ApprovalAnswered { answer } => {
            let answer = stored_answer(answer);
            write_body(bytes, &[], &row::ApprovalAnswered { answer }, redactor)
        }
        CallEvent::Granted { grant } => write_body(bytes, &[], &granted(grant), redactor),
        CallEvent::Admitted { waited } => {
            let waited_us = micros(*waited);
            write_body(bytes, &[], &row::AdmittedRow { waited_us }, redactor)
        }
        CallEvent::Started {
            tier,
            approval,
            grants,
            // The plan has what it was judged with; this is a condition, not a fact.
            read_from: _,
        } => write_body(bytes, &[], &started(*tier, *approval, grants), redactor),
        CallEvent::PreimageKept {
            path,
            artifact,
            before,
            mode,
        } => write_body(
            bytes,
            // Undoing needs the file's real name.
            &["path"],
            &row::PreimageKept {
                path: path.as_str(),
                artifact: artifact.map(stored_artifact),
                before: before.as_ref().map(FileVersion::as_str),
                mode: *mode,
            },
            redactor,
        ),
        CallEvent::FileChanged {
            path,
            after,
            artifact,
        } => write_body(
            bytes,
            &["path"],
            &row::FileChanged {
                path: path.as_str(),
                after: after.as_ref().map(FileVersion::as_str),
                artifact: artifact.map(stored_artifact),
            },
            redactor,
        ),
        CallEvent::RowsChanged { .. } => write_rows_changed(bytes, event, redactor),
        CallEvent::ChangesScanned { files, missed } => write_body(
            bytes,
            &[],
            &row::ChangesScanned {
                files: *files,
                missed: missed.as_deref(),
            },
            redactor,
        ),
        CallEvent::Settled { outcome } => write_body(bytes, &[], &settled(outcome), redactor),
    }
}

fn write_rows_changed(bytes: &mut Vec<u8>, event: &CallEvent, redactor: &Redactor) -> bool {
    let CallEvent::RowsChanged {
        rows,
        writes,
        reads,
        artifact,
        missed,
    } = event
    else {
        return false;
    };
    let row = row::RowsChanged {
        rows: *rows,
        writes,
        reads,
        artifact: artifact.map(stored_artifact),
        missed: missed.as_deref(),
    };
    // Undoing needs the columns' real names.
    write_body(bytes, &["writes", "reads"], &row, redactor)
}

fn planned(plan: &SealedPlan) -> row::PlannedRow<'_> {
    row::PlannedRow {
        tool: plan.tool().to_string(),
        action: plan.action().map(ActionName::as_str),
        input: readable(plan.input()),
        accesses: plan.accesses().iter().map(stored_access).collect(),
        effects: row::StoredEffects {
            read_only: plan.effects().read_only,
            idempotent: plan.effects().idempotent,
            destructive: plan.effects().destructive,
            open_world: plan.effects().open_world,
        },
        backend: plan.backend().as_str(),
        workspace_id: plan.workspace_id().as_str(),
        workspace: plan.workspace(),
        tier: plan.tier().as_str(),
        egress: plan.egress().map(|rules| stored_egress(rules)),
        deadline_ms: millis(plan.deadline()),
        read_from: plan.read_from().iter().map(Label::as_str).collect(),
        masks: (!plan.masks().is_empty()).then(|| row::StoredMasks {
            hidden: &plan.masks().hidden,
            read_only: &plan.masks().read_only,
        }),
    }
}

fn approval_asked(id: ApprovalId, digest: PlanDigest, expires: Timestamp) -> row::ApprovalAsked {
    row::ApprovalAsked {
        id: id.to_string(),
        digest: digest.to_string(),
        expires_us: expires.0,
    }
}

fn granted(grant: &Grant) -> row::GrantedRow<'_> {
    row::GrantedRow {
        id: grant.id.to_string(),
        rule: &grant.rule,
        scope: grant.scope.as_str(),
        bound_to: grant.scope.bound_to(),
        shown: grant.scope.shown(),
        until_us: grant.until.map(|until| until.0),
        uses: grant.uses_left,
        by: &grant.made_by,
    }
}

fn started(tier: Tier, approval: Option<ApprovalId>, grants: &[GrantId]) -> row::StartedRow {
    row::StartedRow {
        tier: tier.as_str(),
        approval: approval.map(|id| id.to_string()),
        grants: grants.iter().map(GrantId::to_string).collect(),
    }
}

fn stored_egress(rules: &EgressRules) -> row::StoredEgress {
    let written = |rules: &[HostRule]| rules.iter().map(HostRule::to_string).collect();
    row::StoredEgress {
        allow: written(&rules.allow),
        deny: written(&rules.deny),
    }
}

fn stored_access(access: &Access) -> row::StoredAccess<'_> {
    match access {
        Access::Path(path) => match path.mode {
            PathMode::Read => row::StoredAccess::Read(stored_path(path)),
            PathMode::Write => row::StoredAccess::Write(stored_path(path)),
        },
        Access::Command(command) => {
            let (cwd, stays) = (command.cwd.as_str(), command.stays);
            match &command.command {
                Command::Shell(script) => row::StoredAccess::Shell { script, cwd, stays },
                Command::Argv(argv) => row::StoredAccess::Argv { argv, cwd, stays },
            }
        }
        Access::Process(process) => row::StoredAccess::Process(stored_process(process)),
        Access::Host { host, port } => row::StoredAccess::Connect { host, port: *port },
        Access::Database { source, writes } => row::StoredAccess::Database {
            source,
            writes: *writes,
        },
        Access::Message { channel, target } => row::StoredAccess::Message { channel, target },
        Access::RemoteTool { provider, tool } => row::StoredAccess::RemoteTool { provider, tool },
        Access::Custom(custom) => row::StoredAccess::Custom {
            kind: custom.kind().as_str(),
            target: custom.target().as_str(),
        },
    }
}

fn stored_process(access: &ProcessAccess) -> row::StoredProcess<'_> {
    let running = access.running.as_ref();
    row::StoredProcess {
        id: access.id.to_string(),
        act: access.act.as_str(),
        typed: match &access.act {
            ProcessAct::Write(text) => Some(text),
            ProcessAct::CloseInput
            | ProcessAct::Resize(_)
            | ProcessAct::Signal(_)
            | ProcessAct::Kill => None,
        },
        signal: match &access.act {
            ProcessAct::Signal(signal) => Some(signal.as_str()),
            ProcessAct::Write(_)
            | ProcessAct::CloseInput
            | ProcessAct::Resize(_)
            | ProcessAct::Kill => None,
        },
        size: match &access.act {
            ProcessAct::Resize(size) => Some((size.rows, size.columns)),
            ProcessAct::Write(_)
            | ProcessAct::CloseInput
            | ProcessAct::Signal(_)
            | ProcessAct::Kill => None,
        },
        command: running.map(|running| running.command.text()),
        argv: running.and_then(|running| match &running.command {
            Command::Argv(argv) => Some(argv.as_slice()),
            Command::Shell(_) => None,
        }),
        cwd: running.map(|running| running.cwd.as_str()),
        tier: running.map(|running| running.tier.as_str()),
    }
}

fn stored_path(access: &PathAccess) -> row::StoredPath<'_> {
    row::StoredPath {
        scope: match access.scope {
            PathScope::File => "file",
            PathScope::Tree => "tree",
        },
        path: access.path.as_str(),
        resolved: access.resolved.as_ref().map(WorkPath::as_str),
        protected: access.protected.as_deref(),
    }
}

fn stored_decision(decision: &Decision) -> row::StoredDecision<'_> {
    row::StoredDecision {
        verdict: decision.verdict.as_str(),
        rule: decision.rule.as_ref().map(|rule| row::StoredRule {
            text: &rule.text,
            source: &rule.source,
            line: rule.line,
        }),
        reason: &decision.reason,
        access: decision.access.as_deref(),
        withheld: &decision.withheld,
        policy: &decision.policy.0,
        grants: decision.grants.iter().map(GrantId::to_string).collect(),
    }
}

fn stored_answer(answer: &ApprovalAnswer) -> row::StoredAnswer<'_> {
    match answer {
        ApprovalAnswer::Approved { by, digest, grant } => row::StoredAnswer::Approved {
            by,
            digest: digest.to_string(),
            rules: grant.as_ref().map(|wish| wish.rules.as_slice()),
        },
        ApprovalAnswer::Refused { by, reason } => row::StoredAnswer::Refused {
            by,
            reason: reason.as_deref(),
        },
        ApprovalAnswer::Elsewhere => row::StoredAnswer::Elsewhere,
        ApprovalAnswer::NobodyThere { reason } => row::StoredAnswer::NobodyThere { reason },
        ApprovalAnswer::Failed { reason } => row::StoredAnswer::Failed { reason },
        ApprovalAnswer::Expired => row::StoredAnswer::Expired,
    }
}

fn stored_artifact(id: ArtifactId) -> row::StoredArtifact {
    row::StoredArtifact {
        hash: id.hex(),
        bytes: id.bytes,
    }
}

fn settled(outcome: &Outcome) -> row::SettledRow<'_> {
    let facts = &outcome.facts;
    row::SettledRow {
        terminal: outcome.terminal.as_str(),
        tool: outcome.tool.as_ref().map(ToString::to_string),
        content: outcome.content.iter().map(stored_content).collect(),
        structured: outcome.structured.as_ref().map(readable),
        error: outcome.error.as_ref().map(|failure| row::StoredFailure {
            kind: failure.kind.as_str(),
            message: &failure.message,
            at: failure.at.as_deref(),
            hint: failure.hint.as_deref(),
        }),
        facts: row::StoredFacts {
            exit_code: facts.exit_code,
            signal: facts.signal,
            bytes_omitted: facts.bytes_omitted,
            lines_omitted: facts.lines_omitted,
            artifact: facts.artifact.map(stored_artifact),
            decision: facts.decision.as_deref().map(stored_decision),
            denied_by: facts.denied_by.map(DeniedBy::as_str),
            exceeded: facts.exceeded.map(Limit::as_str),
            refusals: facts.refusals.iter().map(stored_refusal).collect(),
            backend: facts.backend.as_ref().map(BackendId::as_str),
            tier: facts.tier.map(Tier::as_str),
            coercions: &facts.coercions,
            asked_us: micros(facts.timings.asked),
            queued_us: micros(facts.timings.queued),
            ran_us: micros(facts.timings.ran),
        },
    }
}

fn stored_refusal(refusal: &Refusal) -> row::StoredRefusal<'_> {
    row::StoredRefusal {
        layer: refusal.layer.as_str(),
        what: &refusal.what,
        why: &refusal.why,
    }
}

fn stored_bytes<'a>(media_type: &'a str, data: &[u8]) -> row::StoredContent<'a> {
    row::StoredContent::Bytes {
        media_type,
        bytes: data.len(),
        blake3: blake3::hash(data).to_hex().to_string(),
    }
}

fn stored_content(content: &Content) -> row::StoredContent<'_> {
    match content {
        Content::Text(text)
        | Content::Resource {
            body: ResourceBody::Text(text),
            ..
        } => row::StoredContent::Text { text },
        Content::Image { data, media_type }
        | Content::Audio { data, media_type }
        | Content::Document {
            data, media_type, ..
        } => stored_bytes(media_type, data),
        Content::Resource {
            media_type,
            body: ResourceBody::Bytes(data),
            ..
        } => stored_bytes(
            media_type.as_deref().unwrap_or("application/octet-stream"),
            data,
        ),
        Content::Link { uri, name, .. } => row::StoredContent::Link { uri, name },
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
