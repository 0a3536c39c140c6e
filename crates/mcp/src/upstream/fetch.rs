//! What a mounted server offers besides tools, as calls: reading a resource, getting a prompt,
//! completing an argument, subscribing to changes. No model is shown them, and they take the same
//! path as any other call.

use std::sync::Arc;

use haft_contract::{
    CallContext, Deadline, Effects, NoProgress, Plan, PlanContext, ToolError, ToolName, ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    future::BoxFuture,
    name::NameError,
};
use serde_json::{Value, json};

use super::{
    connection::Server,
    limits::URI_BYTES,
    result,
    tool::{self, GROUP, ToolMounting},
    uri::Uris,
};
use crate::{
    client::Clients,
    mounts::Fetch,
    name::{ServerId, ToolNaming, tool_name},
};

/// Reading has no effect that the protocol knows about, but what a server reads, and where, is up
/// to the server.
const EFFECTS: Effects = Effects {
    read_only: true,
    idempotent: true,
    destructive: false,
    open_world: true,
};

/// What is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A resource.
    Resource,
    /// A prompt.
    Prompt,
    /// Completions of an argument.
    Completion,
    /// A subscription to a resource's changes.
    Subscription,
    /// The end of such a subscription.
    EndOfSubscription,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Resource,
        Self::Prompt,
        Self::Completion,
        Self::Subscription,
        Self::EndOfSubscription,
    ];

    /// The protocol's method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
            Self::Completion => "completion/complete",
            Self::Subscription => "resources/subscribe",
            Self::EndOfSubscription => "resources/unsubscribe",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Resource => "Read a resource",
            Self::Prompt => "Get a prompt",
            Self::Completion => "Complete an argument",
            Self::Subscription => "Subscribe to changes of a resource",
            Self::EndOfSubscription => "Unsubscribe from changes of a resource",
        }
    }

    fn input_schema(self) -> Value {
        let text = json!({ "type": "string", "minLength": 1 });
        // A client fills templates in, at any length.
        let uri = json!({ "type": "string", "minLength": 1, "maxLength": URI_BYTES });
        match self {
            Self::Resource | Self::Subscription | Self::EndOfSubscription => json!({
                "type": "object",
                "properties": { "uri": uri },
                "required": ["uri"],
            }),
            Self::Prompt => json!({
                "type": "object",
                "properties": { "name": text, "arguments": { "type": "object" } },
                "required": ["name"],
            }),
            Self::Completion => json!({
                "type": "object",
                "properties": {
                    "ref": { "type": "object" },
                    "argument": { "type": "object" },
                    "context": { "type": "object" },
                },
                "required": ["ref", "argument"],
            }),
        }
    }

    /// The name of the tool. A method contains a `/`, so no tool of the server itself has this
    /// name.
    pub fn tool(self, server: &ServerId) -> Result<ToolName, NameError> {
        tool_name(server, self.method(), ToolNaming::Prefixed)
    }

    /// The call that fetches with these parameters, which use the server's own names and URIs.
    pub fn fetch(self, server: &ServerId, parameters: Value) -> Option<Fetch> {
        let tool = self.tool(server).ok()?;
        Some(Fetch {
            tool: tool.as_str().to_owned(),
            arguments: parameters,
        })
    }
}

/// The fetching tools of a server, according to its capabilities.
pub fn fetchers(
    server: &Arc<dyn Server>,
    capabilities: &Value,
    mounting: &ToolMounting,
) -> Vec<Arc<dyn ErasedTool>> {
    let can = |pointer: &str| {
        let capability = capabilities.pointer(pointer);
        capability.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    };
    let offered = |kind: &Kind| match kind {
        Kind::Resource => can("/resources"),
        Kind::Prompt => can("/prompts"),
        Kind::Completion => can("/completions"),
        Kind::Subscription | Kind::EndOfSubscription => can("/resources/subscribe"),
    };
    let make = |kind: Kind| {
        let tool = Fetcher {
            kind,
            name: kind.tool(server.id()).ok()?,
            server: Arc::clone(server),
            clients: Arc::clone(&mounting.clients),
            uris: Uris::of(server.id(), mounting.naming),
            deadline: mounting.deadline,
        };
        Some(Arc::new(tool) as Arc<dyn ErasedTool>)
    };
    Kind::ALL
        .into_iter()
        .filter(offered)
        .filter_map(make)
        .collect()
}

struct Fetcher {
    kind: Kind,
    name: ToolName,
    server: Arc<dyn Server>,
    clients: Arc<Clients>,
    uris: Uris,
    deadline: Deadline,
}

impl ErasedTool for Fetcher {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        let description = format!(
            "{} of the MCP server `{}`.",
            self.kind.title(),
            self.server.id()
        );
        ToolSpec::new(self.kind.title(), description)
            .effects(EFFECTS)
            .deadline(self.deadline)
            .groups(&[GROUP])
            .for_hosts()
    }

    fn input_schema(&self) -> Value {
        self.kind.input_schema()
    }

    fn output_schema(&self) -> Value {
        json!({ "type": "object" })
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
        tool::plan(&*self.server, self.kind.method(), EFFECTS)
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let parameters = input.take::<Value>().unwrap_or_else(|| json!({}));
            let method = self.kind.method();
            let sent = tool::send(
                &*self.server,
                &self.clients,
                (method, method),
                parameters,
                &cx,
            );
            let mut structured = sent.await?;
            match self.kind {
                Kind::Resource | Kind::Prompt => result::show_uris(&mut structured, &self.uris),
                Kind::Completion | Kind::Subscription | Kind::EndOfSubscription => {}
            }
            Ok(ToolReply {
                content: Vec::new(),
                structured,
            })
        })
    }
}
