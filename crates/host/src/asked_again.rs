//! Looks at a question away from where its call was made: plans the call again, under the current
//! rules of its workspace, to find the rules a person could accept. Nothing is run, and nothing is
//! proposed if the rules or the plan differ from those that were asked about.

#[cfg(feature = "settings")]
mod elsewhere;

use std::sync::Arc;

use haft_contract::{
    CallRequest, Label, Labels, Masks, WorkspaceId,
    host::{Approval, GrantProposal, GrantedWorkspace, Question},
};
use haft_runtime::Runtime;
use serde_json::Value;

#[cfg(feature = "settings")]
pub use self::elsewhere::proposals;
use crate::error::{HostError, HostErrorKind};

/// The workspace a question is about.
pub fn workspace(question: &Approval) -> Option<GrantedWorkspace> {
    let form = question.form.as_ref()?;
    let of = |name: &str| form.get(name).and_then(Value::as_str);
    Some(GrantedWorkspace {
        id: WorkspaceId::parse(of("workspace_id")?).ok()?,
        shown: of("workspace")?.to_owned(),
    })
}

/// The rules that would allow calls like the one a question is about, narrowest first, for a host that
/// runs, in the workspace with this id.
pub async fn proposals_in(
    runtime: &Runtime,
    at: WorkspaceId,
    question: &Approval,
) -> Result<Vec<GrantProposal>, HostError> {
    let form = question.form.as_deref().unwrap_or(&Value::Null);
    let of = |name: &str| form.get(name).and_then(Value::as_str).unwrap_or_default();
    let other = || {
        HostError::new(
            HostErrorKind::Refused,
            "the rules or the workspace have changed since the question was asked",
            "answer where the call was made, or allow it once",
        )
    };
    let tool = of("tool").rsplit('/').next().unwrap_or_default().to_owned();
    let input = form.get("input").cloned().unwrap_or_default();
    let principal = &question.principal;
    let workspace = runtime.workspace(principal, &at).await;
    let workspace = workspace.map_err(|_| other())?;
    let request = CallRequest::new(tool.clone(), input.clone(), Arc::clone(principal));
    let foreseen = runtime.plan(request.in_workspace(at)).await;
    let plan = Arc::unwrap_or_clone(foreseen.map_err(|_| other())?.plan);
    let plan = plan
        .with_read_from(read_from(form).ok_or_else(other)?)
        .with_masks(masks(form));
    let rules = workspace.rules().current();
    if rules.version().0 != of("policy")
        || plan.workspace_id().as_str() != of("workspace_id")
        || *plan.input() != input
    {
        return Err(other());
    }
    let tools = workspace.registry().snapshot();
    let entry = tools.get(&tool).ok_or_else(other)?;
    Ok(rules.proposals(&Question {
        principal,
        tool: entry.facts(),
        plan: &plan,
        grants: &[],
    }))
}

/// What was masked when the question was asked.
fn masks(form: &Value) -> Masks {
    let patterns = |kind: &str| {
        let listed = form.get(kind).and_then(Value::as_array);
        let listed = listed.into_iter().flatten();
        let texts = listed.filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    Masks {
        hidden: patterns("hidden"),
        read_only: patterns("read_only"),
    }
}

/// The labels of what the session had read when the question was asked; `None` if they cannot be
/// parsed.
fn read_from(form: &Value) -> Option<Labels> {
    let labels = form.get("read_from").and_then(Value::as_array);
    let labels = labels.into_iter().flatten();
    labels
        .map(|label| Label::parse(label.as_str()?).ok())
        .collect()
}
