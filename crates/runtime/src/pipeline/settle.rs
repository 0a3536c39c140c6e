//! The last stage: caps and spills the content, then builds, records and returns the outcome.

use std::sync::Arc;

use haft_contract::{
    CallId, Content, Outcome, Terminal, ToolError, content::ResourceBody, erased::ToolReply,
    outcome::Failure, spec::Audience,
};
use serde_json::{Value, json};

use super::{CallState, FinishedCall, HaltedCall, run::RunningCall};
use crate::{
    capture,
    guard::confinement::CallSucceeded,
    halt::{refused_by, terminal_of},
    input,
    limits::OutputLimits,
    outgoing::comes_from_elsewhere,
};

/// The most structured output, in bytes of JSON, of a tool that is not shown to models: room for a
/// whole resource of a mounted server.
const HOST_STRUCTURED_BYTES: usize = 4 * 1024 * 1024;

/// Builds the outcome of a call that ran. The caller records it, so that every ending of a call is
/// recorded in one place.
pub async fn settle(finished: FinishedCall) -> Arc<Outcome> {
    let FinishedCall {
        planned: RunningCall { mut call, plan },
        reply,
        reports,
        guard,
        audience,
        held,
    } = finished;
    let captured = reports.capture.finish().await;
    // Left where they are: a call that waits below does not hold room for them twice.
    let facts = &mut call.facts;
    facts.bytes_omitted = captured.bytes_omitted;
    facts.lines_omitted = captured.lines_omitted;
    facts.artifact = captured.artifact;
    let (terminal, mut content, structured, error) = match reply {
        Ok(ToolReply {
            content,
            structured,
        }) => (Terminal::Succeeded, content, Some(structured), None),
        Err(error) => {
            let mut error = call.renamed.as_written(error);
            let (content, structured) = error.take_output();
            facts.denied_by = facts.denied_by.or(refused_by(error.kind()));
            let terminal = match terminal_of(error.kind()) {
                // A call that only reads has no effect to be in doubt about.
                Terminal::Unknown if plan.effects().read_only => Terminal::Failed,
                terminal => terminal,
            };
            (terminal, content, structured, Some(failure(&error)))
        }
    };
    if !captured.text.is_empty() {
        content.insert(0, Content::Text(captured.text));
    }
    let went = match terminal {
        Terminal::Succeeded => CallSucceeded::Well,
        Terminal::Failed
        | Terminal::Denied
        | Terminal::TimedOut
        | Terminal::Cancelled
        | Terminal::Unknown => CallSucceeded::Wrong,
    };
    content.extend(guard.confinement.tell(facts, went));
    content.extend(
        std::mem::take(&mut call.notes)
            .into_iter()
            .map(Content::text),
    );
    let limits = &call.engine.limits;
    let mut texts = content.iter_mut().filter_map(whole_text);
    if texts.any(|text| is_too_long(text, limits.output)) {
        // Boxed, because few results are that long.
        Box::pin(cap_content(&mut call, &mut content)).await;
    }
    if let Some(session) = &call.session
        && comes_from_elsewhere(&plan)
    {
        session.outgoing().note_result(&content);
    }
    let limits = &call.engine.limits;
    let most = match audience {
        Audience::Model => limits.structured_bytes,
        Audience::Host => HOST_STRUCTURED_BYTES,
    };
    let structured = structured.map(|value| cap_structured(value, most));
    let mut outcome = Arc::new(Outcome {
        call: call.id,
        tool: call.tool.take(),
        terminal,
        content,
        structured,
        error,
        facts: std::mem::take(&mut call.facts),
    });
    for hook in &call.engine.hooks {
        // Nobody else has it yet, so this copies nothing.
        let changed = Arc::make_mut(&mut outcome);
        hook.after_run(&plan, changed).await;
        // A hook cannot change how the call ended.
        changed.terminal = terminal;
    }
    drop(held);
    outcome
}

/// Builds the outcome of a call that a stage stopped.
pub(crate) fn settle_halt(call: CallId, halt: HaltedCall) -> Outcome {
    let HaltedCall {
        mut error,
        tool,
        mut facts,
    } = halt;
    // A stage that names who refused has denied the call, whatever the kind of error.
    let terminal = match facts.denied_by {
        Some(_) => Terminal::Denied,
        None => terminal_of(error.kind()),
    };
    facts.denied_by = facts.denied_by.or(refused_by(error.kind()));
    let (content, structured) = error.take_output();
    let error = Some(failure(&error));
    Outcome {
        call,
        tool,
        terminal,
        content,
        structured,
        error,
        facts: *facts,
    }
}

fn failure(error: &ToolError) -> Failure {
    Failure {
        kind: error.kind(),
        message: error.message().to_owned(),
        at: error.pointer().map(str::to_owned),
        hint: error.hint_text().map(str::to_owned),
    }
}

/// The text that a tool returned whole. Images and documents are capped by the tools that make them.
fn whole_text(piece: &mut Content) -> Option<&mut String> {
    match piece {
        Content::Text(text)
        | Content::Resource {
            body: ResourceBody::Text(text),
            ..
        } => Some(text),
        _ => None,
    }
}

/// Whether text must be capped. The capture's output is within the cap plus the line that says what
/// is missing.
fn is_too_long(text: &str, limits: OutputLimits) -> bool {
    text.len() > limits.total() + capture::NOTICE_BYTES
}

/// Caps text that a tool returned whole.
async fn cap_content(call: &mut CallState, content: &mut [Content]) {
    let limits = call.engine.limits.output;
    let facts = &mut call.facts;
    for text in content.iter_mut().filter_map(whole_text) {
        if !is_too_long(text, limits) {
            continue;
        }
        let whole = std::mem::take(text);
        let artifacts = call.engine.ledger.artifacts_of(&call.principal.tenant);
        let capped = capture::cap_text(call.id, whole, artifacts, limits).await;
        facts.bytes_omitted += capped.bytes_omitted;
        facts.lines_omitted += capped.lines_omitted;
        facts.artifact = facts.artifact.or(capped.artifact);
        *text = capped.text;
    }
}

fn cap_structured(value: Value, limit: usize) -> Value {
    if input::fits_in(&value, limit) {
        return value;
    }
    json!({ "omitted": format!("the structured output is larger than {limit} bytes") })
}
