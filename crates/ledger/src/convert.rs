//! Converts domain types to the stored form, and back as far as recovery needs it.
//!
//! Secrets are removed here: what this file returns is written, hashed and searched.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Access, ActionName, AgentId, Arguments, CallEvent, CallId, CallRequest, Content, Label,
    Outcome, PathMode, PathScope, PlanDigest, Principal, SealedPlan, SessionId, SessionKind,
    TenantId, UserId, WorkPath, WorkspaceId,
    access::{Command, PathAccess, ProcessAccess, ProcessAct},
    content::ResourceBody,
    egress::{EgressRules, HostRule},
    host::{
        ApprovalAnswer, ApprovalId, ArtifactId, Decision, Grant, GrantId, LedgerError,
        LedgerErrorKind, Timestamp,
    },
    identity::{ChannelId, Scope},
    ops::{BackendId, FileVersion, Limit, Refusal, Tier},
    outcome::DeniedBy,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    redact::Redactor,
    row::{self, BODY_VERSION},
};

/// The largest body of one record. Output is capped far below this before it gets here.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A body ready to be written.
#[derive(Debug)]
pub(crate) struct Body {
    /// `text` as a value; the call's row is folded from it.
    pub(crate) value: Value,
    /// The exact bytes that are stored and hashed.
    pub(crate) text: String,
    /// Whether a secret was removed.
    pub(crate) redacted: bool,
}

/// The stored form of the request that opened a call.
pub(crate) fn opened(request: &CallRequest, redactor: &Redactor) -> Body {
    let (arguments, json_redacted) = match &request.arguments {
        // RX-14: text too large for a record is not searched for secrets first; that would keep the
        // writer, and everyone waiting for it, busy with what is left out anyway.
        Arguments::Text(text) if text.len() > MAX_BODY_BYTES => (too_large(text), true),
        Arguments::Text(text) => match redactor.json(text) {
            Some(clean) => (row::StoredArguments::Text(clean), true),
            None => (row::StoredArguments::Text(text.clone()), false),
        },
        Arguments::Value(value) => (row::StoredArguments::Value(value.clone()), false),
    };
    let mut body = body_keeping(
        // The requester's identity must stay exactly what the host said: it is compared and
        // searched.
        &["principal", "workspace"],
        &row::OpenedRow {
            v: BODY_VERSION,
            tool: request.tool.clone(),
            arguments,
            principal: stored_principal(&request.principal),
            workspace: Some(request.workspace.to_string()),
            timeout_ms: request.timeout.map(millis),
        },
        redactor,
    );
    body.redacted |= json_redacted;
    body
}

/// The complete request, with every value as received: for a call that is still to be run.
pub(crate) fn whole_request(request: &CallRequest) -> Result<String, LedgerError> {
    let whole = row::OpenedRow {
        v: BODY_VERSION,
        tool: request.tool.clone(),
        arguments: match &request.arguments {
            Arguments::Text(text) => row::StoredArguments::Text(text.clone()),
            Arguments::Value(value) => row::StoredArguments::Value(value.clone()),
        },
        principal: stored_principal(&request.principal),
        workspace: Some(request.workspace.to_string()),
        timeout_ms: request.timeout.map(millis),
    };
    match serde_json::to_string(&whole) {
        Ok(text) if text.len() <= MAX_BODY_BYTES => Ok(text),
        Ok(_) | Err(_) => Err(LedgerError::new(
            LedgerErrorKind::LimitExceeded,
            format!("the request is larger than {MAX_BODY_BYTES} bytes"),
        )),
    }
}

/// Reads back who asked for what, as a request with this id.
pub(crate) fn request_from(id: CallId, body: &str) -> Option<CallRequest> {
    let opened: row::OpenedRow = serde_json::from_str(body).ok()?;
    let principal = principal_from(&opened.principal)?;
    let arguments = match opened.arguments {
        row::StoredArguments::Text(text) => Arguments::Text(text),
        row::StoredArguments::Value(value) => Arguments::Value(value),
    };
    let workspace = opened.workspace.as_deref().unwrap_or(row::NO_WORKSPACE);
    let mut request = CallRequest::from_arguments(opened.tool, arguments, Arc::new(principal));
    request.id = id;
    request.workspace = WorkspaceId::parse(workspace).ok()?;
    request.timeout = opened.timeout_ms.map(Duration::from_millis);
    Some(request)
}

/// Reads back who asked, even if the rest of the request is unreadable.
pub(crate) fn principal_in(body: &str) -> Option<Principal> {
    let opened: row::OpenedBy = serde_json::from_str(body).ok()?;
    principal_from(&opened.principal)
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

/// The session kind this word names.
pub(crate) fn session_kind(word: &str) -> Option<SessionKind> {
    SessionKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word)
}

/// The stored form of an event; `None` for one that is not recorded, and for `opened`, whose body
/// is the request.
pub(crate) fn event(event: &CallEvent, redactor: &Redactor) -> Option<Body> {
    let v = BODY_VERSION;
    let stored = match event {
        CallEvent::Opened { .. }
        | CallEvent::Running
        | CallEvent::Progress(_)
        | CallEvent::Output { .. }
        | CallEvent::RunEnded => return None,
        CallEvent::Resolved { tool } => {
            let tool = tool.to_string();
            body(&row::ResolvedRow { v, tool }, redactor)
        }
        CallEvent::Validated { coercions } => body(&row::ValidatedRow { v, coercions }, redactor),
        CallEvent::Planned { plan } => body(&planned(plan), redactor),
        CallEvent::Decided { decision } => {
            let decision = stored_decision(decision);
            body(&row::DecidedRow { v, decision }, redactor)
        }
        CallEvent::ApprovalAsked {
            id,
            digest,
            expires,
        } => body(&approval_asked(*id, *digest, *expires), redactor),
        CallEvent::ApprovalAnswered { answer } => {
            let answer = stored_answer(answer);
            body(&row::ApprovalAnswered { v, answer }, redactor)
        }
        CallEvent::Granted { grant } => body(&granted(grant), redactor),
        CallEvent::Admitted { waited } => {
            let waited_us = micros(*waited);
            body(&row::AdmittedRow { v, waited_us }, redactor)
        }
        CallEvent::Started {
            tier,
            approval,
            grants,
            // The plan has what it was judged with; this is a condition, not a fact.
            read_from: _,
        } => body(&started(*tier, *approval, grants), redactor),
        CallEvent::PreimageKept {
            path,
            artifact,
            before,
            mode,
        } => body_keeping(
            // Undoing needs the file's real name.
            &["path"],
            &row::PreimageKept {
                v,
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
        } => body_keeping(
            &["path"],
            &row::FileChanged {
                v,
                path: path.as_str(),
                after: after.as_ref().map(FileVersion::as_str),
                artifact: artifact.map(stored_artifact),
            },
            redactor,
        ),
        CallEvent::ChangesScanned { files, missed } => body(
            &row::ChangesScanned {
                v,
                files: *files,
                missed: missed.as_deref(),
            },
            redactor,
        ),
        CallEvent::Settled { outcome } => body(&settled(outcome), redactor),
    };
    Some(stored)
}

fn planned(plan: &SealedPlan) -> row::PlannedRow<'_> {
    row::PlannedRow {
        v: BODY_VERSION,
        tool: plan.tool().to_string(),
        action: plan.action().map(ActionName::as_str),
        input: plan.input(),
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
    }
}

fn approval_asked(id: ApprovalId, digest: PlanDigest, expires: Timestamp) -> row::ApprovalAsked {
    row::ApprovalAsked {
        v: BODY_VERSION,
        id: id.to_string(),
        digest: digest.to_string(),
        expires_us: expires.0,
    }
}

fn granted(grant: &Grant) -> row::GrantedRow<'_> {
    row::GrantedRow {
        v: BODY_VERSION,
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
        v: BODY_VERSION,
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
            let cwd = command.cwd.as_str();
            match &command.command {
                Command::Shell(script) => row::StoredAccess::Shell { script, cwd },
                Command::Argv(argv) => row::StoredAccess::Argv { argv, cwd },
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
        v: BODY_VERSION,
        terminal: outcome.terminal.as_str(),
        tool: outcome.tool.as_ref().map(ToString::to_string),
        content: outcome.content.iter().map(stored_content).collect(),
        structured: outcome.structured.as_ref(),
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
            decision: facts.decision.as_ref().map(stored_decision),
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

fn body(stored: &impl Serialize, redactor: &Redactor) -> Body {
    body_keeping(&[], stored, redactor)
}

/// The stored form without secrets, except in fields that must stay exact because they are looked
/// up later: identities and the names of changed files.
fn body_keeping(kept: &[&str], stored: &impl Serialize, redactor: &Redactor) -> Body {
    // Stored forms hold only strings, numbers and JSON values, so this cannot fail.
    let mut value = serde_json::to_value(stored).unwrap_or(Value::Null);
    let mut redacted = false;
    if let Value::Object(fields) = &mut value {
        for (name, field) in fields {
            if !kept.contains(&name.as_str()) {
                redacted |= redactor.value(field);
            }
        }
    }
    let mut text = value.to_string();
    while text.len() > MAX_BODY_BYTES && leave_out_largest(&mut value) {
        text = value.to_string();
        redacted = true;
    }
    Body {
        value,
        text,
        redacted,
    }
}

/// Replaces the largest field of a body with a placeholder. Returns whether that made it smaller.
fn leave_out_largest(body: &mut Value) -> bool {
    let Value::Object(fields) = body else {
        return false;
    };
    let sized = fields.values_mut().map(|field| (field.to_string(), field));
    let Some((text, largest)) = sized.max_by_key(|(text, _)| text.len()) else {
        return false;
    };
    let stand_in = serde_json::to_value(row::TooLarge {
        omitted_bytes: text.len(),
        blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
    });
    *largest = stand_in.unwrap_or(Value::Null);
    largest.to_string().len() < text.len()
}

/// The placeholder for arguments too long for a record.
fn too_large(text: &str) -> row::StoredArguments {
    let stand_in = serde_json::to_value(row::TooLarge {
        omitted_bytes: text.len(),
        blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
    });
    row::StoredArguments::Value(stand_in.unwrap_or(Value::Null))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
