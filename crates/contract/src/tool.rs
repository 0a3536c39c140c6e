//! The trait a tool implements.
//!
//! A tool says what it is ([`Tool::spec`]), what an input will touch ([`Tool::plan`]) and does it
//! ([`Tool::run`]). Timeouts, truncation, approval, audit and retries live in pipeline stages, not
//! here. A tool keeps no per-call state: everything about a call is in its context.

use std::future::Future;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    content::Content,
    context::{CallContext, PlanContext, PreviewContext},
    error::ToolError,
    plan::Plan,
    preview::Preview,
    spec::ToolSpec,
};

/// A named capability with typed input, output and progress.
///
/// ```
/// use haft_contract::{CallContext, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greet { name: String }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Greeting { text: String }
/// struct GreetTool;
///
/// impl Tool for GreetTool {
///     type Input = Greet;
///     type Output = Greeting;
///     type Progress = NoProgress;
///     const NAME: &'static str = "greet";
///
///     fn spec(&self) -> ToolSpec {
///         ToolSpec::new("Greet", "Greets a person by name.")
///     }
///     fn plan(&self, _: &Greet, _: &PlanContext) -> Result<Plan, ToolError> {
///         Ok(Plan::read_only())
///     }
///     async fn run(&self, input: Greet, _: CallContext<NoProgress>) -> Result<Greeting, ToolError> {
///         Ok(Greeting { text: format!("hello, {}", input.name) })
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// What the model passes. The schema it sees is derived from this type.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// Structured output; also rendered to text for the model.
    type Output: Serialize + JsonSchema + Send + 'static;
    /// The typed part of progress; [`crate::NoProgress`] if there is none.
    type Progress: Serialize + Send + 'static;
    /// The tool's name.
    const NAME: &'static str;

    /// Describes the tool.
    fn spec(&self) -> ToolSpec;

    /// Says what an input will touch. Pure: no file is opened, nothing is sent.
    fn plan(&self, input: &Self::Input, cx: &PlanContext) -> Result<Plan, ToolError>;

    /// Runs the call.
    fn run(
        &self,
        input: Self::Input,
        cx: CallContext<Self::Progress>,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// Shows what an input will do to files, for a person who is asked to approve it: the whole
    /// change, computed from the files as they are, and what a database expects of a statement.
    /// Commands, hosts and what a statement touches are shown from the plan, without the tool. Called
    /// only when somebody is asked; must not change anything.
    fn preview(
        &self,
        input: &Self::Input,
        cx: PreviewContext,
    ) -> impl Future<Output = Result<Preview, ToolError>> + Send {
        let _ = (input, cx);
        std::future::ready(Ok(Preview::default()))
    }

    /// Renders the output for the model. The default is its JSON; a tool whose output is text
    /// (a file's lines, a diff) returns that text instead.
    fn render(&self, output: &Self::Output) -> Vec<Content> {
        vec![Content::text(
            serde_json::to_string(output).unwrap_or_default(),
        )]
    }
}
