//! A mounted server's tool as a Haft tool: planned, decided, approved and recorded like any other.
//! What the server says about it is data, and never makes anything easier.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    CallContext, Deadline, Effects, ErrorKind, NoProgress, Plan, PlanContext, ProviderId,
    ToolError, ToolName, ToolSpec,
    access::Access,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    future::BoxFuture,
    progress::{Progress as CallProgress, ProgressSink},
};
use serde_json::{Value, json};

use super::{
    connection::{Progress, Request, Server},
    result,
    uri::Uris,
};
use crate::{
    client::Clients,
    name::{ToolNaming, tool_name},
};

/// The group of every mounted tool.
pub const GROUP: &str = "mcp";

/// How a server's definitions become tools.
#[derive(Debug, Clone)]
pub struct ToolMounting {
    /// Whether names carry the server's id.
    pub naming: ToolNaming,
    /// How far its hints are trusted.
    pub hints: Hints,
    /// How long its calls may take.
    pub deadline: Deadline,
    /// The clients that can be asked while a call runs.
    pub clients: Arc<Clients>,
}

/// How far a server's hints about effects are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hints {
    /// Not at all: every tool may do anything.
    #[default]
    Ignored,
    /// The operator trusts the server to tell the truth.
    Believed,
}

impl ToolMounting {
    /// The defaults: names with the server's id, no trust, ten minutes at most.
    pub fn new(clients: Arc<Clients>) -> Self {
        Self {
            naming: ToolNaming::Prefixed,
            hints: Hints::Ignored,
            deadline: Deadline::new(Duration::from_mins(2), Duration::from_mins(10)),
            clients,
        }
    }
}

/// A tool whose calls are sent to a mounted server.
pub struct MountedTool {
    name: ToolName,
    /// The server's name for it.
    own_name: String,
    server: Arc<dyn Server>,
    clients: Arc<Clients>,
    uris: Uris,
    spec: ToolSpec,
    input_schema: Value,
    output_schema: Value,
}

impl MountedTool {
    /// The tool for a definition, or why there cannot be one.
    pub fn new(
        server: &Arc<dyn Server>,
        definition: &Value,
        mounting: &ToolMounting,
    ) -> Result<Self, String> {
        let text = |key: &str| definition.get(key).and_then(Value::as_str);
        let own_name = text("name").ok_or("it has no name")?;
        let name = tool_name(server.id(), own_name, mounting.naming);
        let name = name.map_err(|error| error.to_string())?;
        let annotations = definition.get("annotations");
        let annotated = annotations.and_then(|hints| hints.get("title")?.as_str());
        let title = text("title").or(annotated).unwrap_or(own_name);
        let spec = ToolSpec::new(title, text("description").unwrap_or_default())
            .effects(effects(annotations, mounting.hints))
            .deadline(mounting.deadline)
            .groups(&[GROUP]);
        let anything = || json!({ "type": "object" });
        Ok(Self {
            name,
            own_name: own_name.to_owned(),
            server: Arc::clone(server),
            clients: Arc::clone(&mounting.clients),
            uris: Uris::of(server.id(), mounting.naming),
            spec,
            input_schema: definition
                .get("inputSchema")
                .cloned()
                .unwrap_or_else(anything),
            output_schema: definition.get("outputSchema").cloned().unwrap_or_default(),
        })
    }
}

/// What a tool may do. Untrusted hints change nothing, because nothing is more pessimistic than not
/// knowing.
fn effects(hints: Option<&Value>, worth: Hints) -> Effects {
    let (Hints::Believed, Some(hints)) = (worth, hints) else {
        return Effects::UNKNOWN;
    };
    let hint = |key: &str| hints.get(key).and_then(Value::as_bool);
    let read_only = hint("readOnlyHint").unwrap_or(false);
    Effects {
        read_only,
        idempotent: read_only || hint("idempotentHint").unwrap_or(false),
        destructive: !read_only && hint("destructiveHint").unwrap_or(true),
        open_world: hint("openWorldHint").unwrap_or(true),
    }
}

fn provider(server: &dyn Server) -> Result<ProviderId, ToolError> {
    let provider = server.id().provider();
    provider.map_err(|error| ToolError::new(ErrorKind::Internal, error.to_string()))
}

/// The plan of a request to a server.
pub(super) fn plan(server: &dyn Server, what: &str, effects: Effects) -> Result<Plan, ToolError> {
    let provider = provider(server)?;
    Ok(Plan::new(effects).access(Access::RemoteTool {
        provider: provider.as_str().to_owned(),
        tool: what.to_owned(),
    }))
}

/// Sends a request for what a call's plan names, on behalf of that call.
pub(super) async fn send(
    server: &dyn Server,
    clients: &Clients,
    (method, what): (&'static str, &str),
    parameters: Value,
    cx: &CallContext<NoProgress>,
) -> Result<Value, ToolError> {
    cx.remote_tools().admit(provider(server)?.as_str(), what)?;
    let request = Request {
        principal: Arc::clone(cx.principal()),
        method,
        parameters,
        deadline: cx.remaining(),
        progress: Some(reports(cx.progress())),
        client: clients.of(cx.call()),
    };
    let answered = server.request(request, cx.cancel()).await;
    answered.map_err(|error| result::failure(error, server.id()))
}

/// Passes reports on in whole steps. Fractions are converted to hundredths.
fn reports(to: ProgressSink<NoProgress>) -> Arc<dyn Fn(Progress) + Send + Sync> {
    let in_fractions = AtomicBool::new(false);
    Arc::new(move |progress: Progress| {
        let numbers = [Some(progress.progress), progress.total];
        if numbers.into_iter().flatten().any(|n| n.fract() != 0.0) {
            in_fractions.store(true, Ordering::Relaxed);
        }
        let scale = match (in_fractions.load(Ordering::Relaxed), progress.total) {
            (true, _) => 100.0,
            (false, Some(total)) if total <= 1.0 => 100.0,
            (false, _) => 1.0,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and a step is for a person"
        )]
        let step = |n: f64| (n * scale).max(0.0) as u64;
        let status = progress.message.unwrap_or_default();
        to.report(CallProgress::of(
            step(progress.progress),
            progress.total.map(step),
            status,
        ));
    })
}

impl ErasedTool for MountedTool {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    fn output_schema(&self) -> Value {
        self.output_schema.clone()
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        plan(&*self.server, &self.own_name, self.spec.effects)
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let arguments = input.take::<Value>().unwrap_or_else(|| json!({}));
            let parameters = json!({ "name": self.own_name, "arguments": arguments });
            let what = ("tools/call", self.own_name.as_str());
            let called = send(&*self.server, &self.clients, what, parameters, &cx);
            result::reply(called.await?, &self.uris)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_05_a_hint_is_worth_what_the_operator_says() {
        let harmless = json!({ "readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": true, "openWorldHint": false });
        assert_eq!(effects(Some(&harmless), Hints::Ignored), Effects::UNKNOWN);
        assert_eq!(
            effects(Some(&harmless), Hints::Believed),
            Effects::READ_ONLY
        );
        assert_eq!(effects(None, Hints::Believed), Effects::UNKNOWN);
        assert_eq!(effects(Some(&json!({})), Hints::Believed), Effects::UNKNOWN);
    }
}
