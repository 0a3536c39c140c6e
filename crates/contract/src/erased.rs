//! The one place where typed tools and approvers become objects.
//!
//! Tools are written with native `async` and their own types; the registry holds them as objects.
//! An input is parsed into its type once, and the value that was planned is the value that runs, so
//! a validated copy and a raw original cannot drift apart.

use std::{any::Any, sync::Arc};

use serde_json::Value;

use crate::{
    content::Content,
    context::{CallContext, PlanContext, PreviewContext},
    error::{ErrorKind, ToolError},
    future::BoxFuture,
    host::{AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver},
    identity::{Principal, TenantId},
    name::{NameError, ToolName},
    plan::{Plan, SealedPlan},
    preview::Preview,
    progress::NoProgress,
    spec::ToolSpec,
    tool::Tool,
};

/// An input in its tool's own type. Only the tool that parsed it can read it.
pub struct ParsedInput(Box<dyn Any + Send + Sync>);

impl ParsedInput {
    /// Wraps an input for a tool that is already an object (a script, a foreign tool).
    pub fn new<T: Send + Sync + 'static>(input: T) -> Self {
        Self(Box::new(input))
    }

    /// The input, if it is of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Takes the input out, if it is of this type.
    pub fn take<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|input| *input)
    }
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    /// For the model to read.
    pub content: Vec<Content>,
    /// For programs.
    pub structured: Value,
}

/// Why a tool that is known is neither shown nor run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldReason {
    /// What it waits for.
    pub until: WithheldUntil,
    /// What is wrong.
    pub reason: String,
    /// What a person can do.
    pub hint: String,
}

/// What a withheld tool waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldUntil {
    /// A person reviews it.
    Accepted,
    /// Something it needs is there: a program, a key, a source, a server.
    Ready,
    /// This machine has a tier in which it may run.
    TierAvailable,
}

impl WithheldUntil {
    /// The kind of error with which its calls are refused.
    pub fn refusal(self) -> ErrorKind {
        match self {
            Self::Accepted => ErrorKind::Denied,
            Self::Ready => ErrorKind::Unavailable,
            Self::TierAvailable => ErrorKind::TierUnavailable,
        }
    }
}

/// A tool as an object. Implemented for every [`Tool`] by [`erase`] and for every [`ToolWrapper`];
/// implemented by hand only for tools whose schema is known at run time.
pub trait ErasedTool: Send + Sync {
    /// The tool's name.
    fn name(&self) -> &ToolName;
    /// The tool's description of itself.
    fn spec(&self) -> ToolSpec;
    /// JSON Schema (2020-12) of the input.
    fn input_schema(&self) -> Value;
    /// JSON Schema of the structured output.
    fn output_schema(&self) -> Value;
    /// SHA-256 of the program and of what comes with it (a script's manifest), for a tool that runs a
    /// separate one: part of what an approval binds. Any other tool is fixed by this build of Haft, its spec and its schemas.
    ///
    /// Has no default: whoever forgot it would loosen every approval of the tool. A wrapper passes it
    /// on as a [`ToolWrapper`].
    fn program_digest(&self) -> Option<[u8; 32]>;
    /// Why the tool is known but neither shown nor run: a person has to review it first (a foreign
    /// definition nobody has accepted), or what it needs is missing. Read once, at registration.
    /// Has no default, for the same reason.
    fn withheld(&self) -> Option<WithheldReason>;
    /// The tenant whose tool it is, if it is not for everybody: a server is mounted with that tenant's
    /// credential, say. Others are neither shown the tool, nor does it run for them. Read once, at
    /// registration.
    fn tenant(&self) -> Option<&TenantId> {
        None
    }
    /// Parses a validated input into the tool's own type.
    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError>;
    /// Says what an input will touch.
    fn plan(&self, input: &ParsedInput, cx: &PlanContext) -> Result<Plan, ToolError>;
    /// Shows what an input will do to files; see [`Tool::preview`].
    fn preview<'a>(
        &'a self,
        input: &'a ParsedInput,
        cx: PreviewContext,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        let _ = (input, cx);
        Box::pin(std::future::ready(Ok(Preview::default())))
    }
    /// Runs the call.
    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>>;
}

/// Turns a typed tool into an object.
pub fn erase<T: Tool>(tool: T) -> Result<Arc<dyn ErasedTool>, NameError> {
    Ok(Arc::new(Typed {
        name: ToolName::parse(T::NAME)?,
        tool,
    }))
}

/// What a builder takes as one tool: a [`Tool`], or what [`tool_fn`](crate::tool_fn::tool_fn) makes of a
/// function.
pub trait IntoTool {
    /// The tool as an object, unless its name is none.
    fn into_tool(self) -> Result<Arc<dyn ErasedTool>, NameError>;
}

impl<T: Tool> IntoTool for T {
    fn into_tool(self) -> Result<Arc<dyn ErasedTool>, NameError> {
        erase(self)
    }
}

/// The same under another name (the configured one).
pub fn erase_as<T: Tool>(tool: T, name: ToolName) -> Arc<dyn ErasedTool> {
    Arc::new(Typed { name, tool })
}

/// The same tool, known and neither shown nor run.
pub fn withhold(tool: Arc<dyn ErasedTool>, why: WithheldReason) -> Arc<dyn ErasedTool> {
    Arc::new(WithheldTool { tool, why })
}

/// The same tool, for principals of this tenant alone.
pub fn for_tenant(tool: Arc<dyn ErasedTool>, tenant: TenantId) -> Arc<dyn ErasedTool> {
    Arc::new(TenantTool { tool, tenant })
}

/// A tool that stands for another one. What it does not say itself is the other's, and so is what it
/// does.
pub trait ToolWrapper: Send + Sync {
    /// The other tool.
    fn wrapped(&self) -> &dyn ErasedTool;

    /// The tool's name.
    fn name(&self) -> &ToolName {
        self.wrapped().name()
    }

    /// The tool's description of itself.
    fn spec(&self) -> ToolSpec {
        self.wrapped().spec()
    }

    /// Why the tool is known but neither shown nor run.
    fn withheld(&self) -> Option<WithheldReason> {
        self.wrapped().withheld()
    }

    /// The tenant whose tool it is.
    fn tenant(&self) -> Option<&TenantId> {
        self.wrapped().tenant()
    }
}

/// The one place where a wrapper passes calls on: a wrapper cannot forget a digest or a preview, and
/// runs nothing while it is withheld.
impl<W: ToolWrapper> ErasedTool for W {
    fn name(&self) -> &ToolName {
        ToolWrapper::name(self)
    }

    fn spec(&self) -> ToolSpec {
        ToolWrapper::spec(self)
    }

    fn input_schema(&self) -> Value {
        self.wrapped().input_schema()
    }

    fn output_schema(&self) -> Value {
        self.wrapped().output_schema()
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        self.wrapped().program_digest()
    }

    fn withheld(&self) -> Option<WithheldReason> {
        ToolWrapper::withheld(self)
    }

    fn tenant(&self) -> Option<&TenantId> {
        ToolWrapper::tenant(self)
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        refuse_if_withheld(self)?;
        self.wrapped().parse(input)
    }

    fn plan(&self, input: &ParsedInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        refuse_if_withheld(self)?;
        self.wrapped().plan(input, cx)
    }

    fn preview<'a>(
        &'a self,
        input: &'a ParsedInput,
        cx: PreviewContext,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        match refuse_if_withheld(self) {
            Ok(()) => self.wrapped().preview(input, cx),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        match refuse_if_withheld(self) {
            Ok(()) => self.wrapped().run(input, cx),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }
}

fn refuse_if_withheld(tool: &impl ToolWrapper) -> Result<(), ToolError> {
    match ToolWrapper::withheld(tool) {
        Some(why) => Err(ToolError::new(why.until.refusal(), why.reason).hint(why.hint)),
        None => Ok(()),
    }
}

/// A tool of one tenant.
struct TenantTool {
    tool: Arc<dyn ErasedTool>,
    tenant: TenantId,
}

impl ToolWrapper for TenantTool {
    fn wrapped(&self) -> &dyn ErasedTool {
        &*self.tool
    }

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }
}

/// Replaces a tool for as long as it is withheld.
struct WithheldTool {
    tool: Arc<dyn ErasedTool>,
    why: WithheldReason,
}

impl ToolWrapper for WithheldTool {
    fn wrapped(&self) -> &dyn ErasedTool {
        &*self.tool
    }

    fn withheld(&self) -> Option<WithheldReason> {
        Some(self.why.clone())
    }
}

struct Typed<T> {
    name: ToolName,
    tool: T,
}

pub(crate) fn foreign_input() -> ToolError {
    ToolError::new(ErrorKind::Internal, "the input was parsed for another tool")
}

/// An output for programs.
pub(crate) fn structured(output: &impl serde::Serialize) -> Result<Value, ToolError> {
    serde_json::to_value(output).map_err(|error| {
        let message = format!("the output is not JSON: {error}");
        ToolError::new(ErrorKind::Internal, message)
    })
}

impl<T: Tool> ErasedTool for Typed<T> {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn input_schema(&self) -> Value {
        schemars::schema_for!(T::Input).to_value()
    }

    fn output_schema(&self) -> Value {
        schemars::schema_for!(T::Output).to_value()
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        use serde::Deserialize as _;
        T::Input::deserialize(input)
            .map(ParsedInput::new)
            .map_err(|error| ToolError::invalid_input(error.to_string()))
    }

    fn plan(&self, input: &ParsedInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        self.tool
            .plan(input.get::<T::Input>().ok_or_else(foreign_input)?, cx)
    }

    fn preview<'a>(
        &'a self,
        input: &'a ParsedInput,
        cx: PreviewContext,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let input = input.get::<T::Input>().ok_or_else(foreign_input)?;
            self.tool.preview(input, cx).await
        })
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let input = input.take::<T::Input>().ok_or_else(foreign_input)?;
            let output = self.tool.run(input, cx.typed()).await?;
            let structured = structured(&output)?;
            Ok(ToolReply {
                content: self.tool.render(&output),
                structured,
            })
        })
    }
}

/// An approver as an object.
pub trait ErasedApprover: Send + Sync {
    /// Whether there is nobody to ask; see [`Approver::nobody`].
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String>;
    /// Asks; see [`Approver::ask`].
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, ApprovalAnswer>;
    /// Whether nobody answers an agent's questions; see [`Approver::nobody_replies`].
    fn nobody_replies(&self, principal: &Principal) -> Option<String>;
    /// Puts an agent's question; see [`Approver::put`].
    fn put(&self, request: AgentQuestionRequest) -> BoxFuture<'_, AgentQuestionAnswer>;
}

impl<A: Approver> ErasedApprover for A {
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        Approver::nobody(self, principal, plan)
    }

    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, ApprovalAnswer> {
        Box::pin(Approver::ask(self, request))
    }

    fn nobody_replies(&self, principal: &Principal) -> Option<String> {
        Approver::nobody_replies(self, principal)
    }

    fn put(&self, request: AgentQuestionRequest) -> BoxFuture<'_, AgentQuestionAnswer> {
        Box::pin(Approver::put(self, request))
    }
}
