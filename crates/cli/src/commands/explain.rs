//! `haft explain`: why a call was allowed, asked about or denied: the rule, its file and its line.

use clap::Args;
use haft_contract::{
    TenantId, Terminal,
    host::{History as _, Policy as _, StoredCall, StoredEvent},
};
use haft_host::call_lookup;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::{App, scope::WorkspaceArgs};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        call::{CallView, outcome_style},
        decision::DecisionView,
        time,
    },
};

/// Explain why a call was allowed, asked about or denied
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The call's id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    id: String,
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// Why, for programs.
#[derive(Debug, Serialize)]
struct ExplainView {
    #[serde(flatten)]
    call: CallView,
    /// The input: as planned, or as received if there was no plan.
    input: Option<Value>,
    /// What the session had read when it was planned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    read_from: Vec<String>,
    /// The policy decision; `None` if the call ended before it.
    decision: Option<DecisionView>,
    /// The person's answer, if one was asked.
    approval: Option<Value>,
    /// What went wrong, if it did not succeed.
    error: Option<Value>,
    /// Whether the rules are still the same.
    rules_unchanged: Option<bool>,
}

/// Runs the command.
pub(crate) async fn run(args: &ExplainArgs, app: &App) -> Result<Exit, Stop> {
    let places = app.places()?;
    let (ledger, scope) = app.record_of(args.workspaces).await?;
    let call = call_lookup::call(&ledger, &args.id, scope.filter()).await?;
    let events = ledger
        .events(&TenantId::local(), call.id)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    // The last one: newer rules may have overruled the first before the call started.
    let decided = events.iter().rev().find(|event| event.kind == "decided");
    let decision = decided.and_then(|event| DecisionView::deserialize(&event.body).ok());
    // Explaining the past must work even if today's configuration does not.
    let now = places
        .settings()
        .ok()
        .map(|settings| settings.policy.version().0);
    let rules_unchanged = match (&decision, &now) {
        (Some(decision), Some(now)) => Some(decision.policy == *now),
        _ => None,
    };
    let view = ExplainView {
        call: CallView::of(&call).in_workspace(scope.workspaces.root_of_call(&call)),
        input: event(&events, "planned")
            .and_then(|body| body.get("input"))
            .or_else(|| event(&events, "opened").and_then(|body| body.get("arguments")))
            .cloned(),
        read_from: event(&events, "planned").map(read_from).unwrap_or_default(),
        approval: event(&events, "approval_answered").cloned(),
        error: event(&events, "settled")
            .and_then(|body| body.get("error"))
            .cloned(),
        decision,
        rules_unchanged,
    };
    match app.output.format() {
        Format::Json => app.output.json(&view)?,
        Format::Text => {
            let workspace = scope.workspaces.of_call(&call);
            app.output.page(&page(&call, &view, &workspace))?;
        }
    }
    Ok(Exit::Ok)
}

fn event<'e>(events: &'e [StoredEvent], kind: &str) -> Option<&'e Value> {
    events
        .iter()
        .find(|event| event.kind == kind)
        .map(|event| &event.body)
}

/// The labels in a recorded plan.
fn read_from(planned: &Value) -> Vec<String> {
    let labels = planned.get("read_from").and_then(Value::as_array);
    let labels = labels.into_iter().flatten().filter_map(Value::as_str);
    labels.map(str::to_owned).collect()
}

fn page(call: &StoredCall, view: &ExplainView, workspace: &str) -> Page {
    let mut page = Page::new()
        .styled(Style::Strong, &view.call.call)
        .text(format!("  {}", view.call.tool))
        .styled(Style::Dim, format!("  {}", time::local(call.opened)))
        .end()
        .field(
            "input",
            view.input
                .as_ref()
                .map(Value::to_string)
                .unwrap_or_default(),
        );
    page = page.field("in", workspace);
    if !view.read_from.is_empty() {
        page = page.field("read from", view.read_from.join(", "));
    }
    page = match &view.decision {
        Some(decision) => page.page(decision.page()),
        None => page.field("decision", "none: the call ended before policy was asked"),
    };
    if let Some(approval) = &view.approval {
        page = page.field("person", answer(approval));
    }
    page = page
        .styled(Style::Dim, "outcome   ")
        .styled(outcome_style(call.terminal), &view.call.outcome)
        .end();
    if let Some(error) = &view.error {
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let message = text("message").unwrap_or_default();
        let said = view
            .decision
            .as_ref()
            .is_some_and(|decision| message.contains(&decision.reason));
        if !said {
            page = page.field("error", message);
        }
        if let Some(hint) = text("hint") {
            page = page.styled(Style::Warn, "hint: ").text(hint).end();
        }
    }
    if view.rules_unchanged == Some(false) {
        page = page
            .styled(Style::Warn, "note: ")
            .text("the rules have changed since; `haft policy check` says what they say now")
            .end();
    }
    if call.terminal == Some(Terminal::Unknown) {
        page = page
            .styled(Style::Warn, "note: ")
            .text("it was started, and nobody can say how it ended; look before you repeat it")
            .end();
    }
    page
}

fn answer(approval: &Value) -> String {
    let text = |key: &str| {
        approval
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match text("answer") {
        "approved" => format!("{} said yes to plan {}", text("by"), text("digest")),
        "refused" => format!("{} said no", text("by")),
        "nobody_there" => "nobody was there to ask".to_owned(),
        "failed" => format!("asking failed: {}", text("reason")),
        "expired" => "nobody answered in time".to_owned(),
        other => other.to_owned(),
    }
}
