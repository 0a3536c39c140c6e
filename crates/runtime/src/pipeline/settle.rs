//! The last stage: caps and spills the content, then builds, records and returns the outcome.

use std::sync::Arc;

use haft_contract::{
    CallId, Content, Outcome, Terminal, ToolError,
    content::ResourceBody,
    erased::ToolReply,
    outcome::{Facts, Failure},
    spec::Audience,
};
use serde_json::{Value, json};

use super::{
    FinishedCall, HaltedCall,
    halt::{refused_by, terminal_of},
    run::RunningCall,
};
use crate::{capture, engine::Engine, guard::confinement::CallSucceeded, input};

/// The most structured output, in bytes of JSON, of a tool that is not shown to models: room for a
/// whole resource of a mounted server.
const HOST_STRUCTURED_BYTES: usize = 4 * 1024 * 1024;

/// Builds the outcome of a call that ran. The caller records it, so that every ending of a call is
/// recorded in one place.
pub async fn settle(finished: FinishedCall) -> Outcome {
    let FinishedCall {
        planned: RunningCall { call, plan },
        reply,
        capture,
        confinement,
        audience,
        held,
    } = finished;
    let captured = capture.finish().await;
    let mut facts = call.facts;
    facts.bytes_omitted = captured.bytes_omitted;
    facts.lines_omitted = captured.lines_omitted;
    facts.artifact = captured.artifact;
    let mut content = Vec::new();
    if !captured.text.is_empty() {
        content.push(Content::Text(captured.text));
    }
    let (terminal, structured, error) = match reply {
        Ok(ToolReply {
            content: replied,
            structured,
        }) => {
            content.extend(replied);
            (Terminal::Succeeded, Some(structured), None)
        }
        Err(mut error) => {
            let (replied, structured) = error.take_output();
            content.extend(replied);
            facts.denied_by = facts.denied_by.or(refused_by(error.kind()));
            let terminal = match terminal_of(error.kind()) {
                // A call that only reads has no effect to be in doubt about.
                Terminal::Unknown if plan.effects().read_only => Terminal::Failed,
                terminal => terminal,
            };
            (terminal, structured, Some(failure(&error)))
        }
    };
    let went = match terminal {
        Terminal::Succeeded => CallSucceeded::Well,
        Terminal::Failed
        | Terminal::Denied
        | Terminal::TimedOut
        | Terminal::Cancelled
        | Terminal::Unknown => CallSucceeded::Wrong,
    };
    content.extend(confinement.tell(&mut facts, went));
    content.extend(call.notes.into_iter().map(Content::text));
    let engine = call.engine;
    cap_content(call.id, &mut content, &mut facts, &engine).await;
    let most = match audience {
        Audience::Model => engine.limits.structured_bytes,
        Audience::Host => HOST_STRUCTURED_BYTES,
    };
    let structured = structured.map(|value| cap_structured(value, most));
    let mut outcome = Outcome {
        call: call.id,
        tool: call.tool,
        terminal,
        content,
        structured,
        error,
        facts,
    };
    for hook in &engine.hooks {
        hook.after_run(&plan, &mut outcome).await;
        // A hook cannot change how the call ended.
        outcome.terminal = terminal;
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

/// Caps text that a tool returned whole. Images and documents are capped by the tools that make
/// them.
async fn cap_content(
    call: CallId,
    content: &mut [Content],
    facts: &mut Facts,
    engine: &Arc<Engine>,
) {
    let limits = engine.limits.output;
    for piece in content.iter_mut() {
        let (Content::Text(text)
        | Content::Resource {
            body: ResourceBody::Text(text),
            ..
        }) = piece
        else {
            continue;
        };
        // The capture's output is within the cap plus the line that says what is missing.
        if text.len() <= limits.total() + capture::NOTICE_BYTES {
            continue;
        }
        let whole = std::mem::take(text);
        let capped = capture::cap_text(call, whole, engine.ledger.artifacts(), limits).await;
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
