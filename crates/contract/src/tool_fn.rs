//! A tool from an async function, for what computes or reads: a name, a description and the function.
//!
//! It is an ordinary tool to everything else: its schema comes from its input type, its plan names what
//! it declared, and at run time it reaches nothing that its plan does not name. A tool that shows a
//! preview or reports typed progress implements [`Tool`](crate::Tool).

use std::{future::Future, marker::PhantomData, sync::Arc};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    access::{Access, PathAccess, PathMode},
    content::Content,
    context::{CallContext, PlanContext},
    effects::Effects,
    erased::{
        ErasedTool, IntoTool, ParsedInput, ToolReply, WithheldReason, foreign_input, structured,
    },
    error::{ErrorKind, ToolError},
    future::BoxFuture,
    name::{NameError, ToolName},
    plan::Plan,
    progress::NoProgress,
    spec::{Deadline, ToolSpec},
};

/// What a function gets beside its input: the files, hosts and processes of its plan, the cancel token
/// and who asks.
pub type Cx = CallContext<NoProgress>;

type Accesses<I> = dyn Fn(&I, &PlanContext) -> Result<Vec<Access>, ToolError> + Send + Sync;

/// What an error about a path points at: the function does not say which parameter it came from.
const WHOLE_INPUT: &str = "/";

/// Makes a tool from an async function. It only reads and touches nothing, unless
/// [`reads`](FnTool::reads) or [`accesses`](FnTool::accesses) says otherwise.
///
/// ```
/// use haft_contract::{ToolError, tool_fn::{Cx, tool_fn}};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Ask { symbol: String }
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Price { cents: u64 }
///
/// let tool = tool_fn("price", "Says what a share costs.", async |ask: Ask, _: Cx| {
///     match ask.symbol.as_str() {
///         "HAFT" => Ok(Price { cents: 4_200 }),
///         other => Err(ToolError::invalid_input(format!("there is no share `{other}`"))),
///     }
/// });
/// ```
pub fn tool_fn<I, O, F, R>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: F,
) -> FnTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    F: Fn(I, Cx) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    let name = name.into();
    FnTool {
        spec: ToolSpec::new(name.clone(), description).effects(Effects::READ_ONLY),
        name,
        accesses: None,
        run,
        input: PhantomData,
    }
}

/// A tool made by [`tool_fn`].
#[must_use = "a tool has to be given to a builder"]
pub struct FnTool<I, F> {
    name: String,
    spec: ToolSpec,
    accesses: Option<Box<Accesses<I>>>,
    run: F,
    input: PhantomData<fn(I)>,
}

impl<I: 'static, F> FnTool<I, F> {
    /// The title people read, instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = title.into();
        self
    }

    /// Groups that rules can name, as `@market`.
    pub fn groups(mut self, groups: &[&'static str]) -> Self {
        self.spec = self.spec.groups(groups);
        self
    }

    /// How long it may run.
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.spec = self.spec.deadline(deadline);
        self
    }

    /// What it may do to the world, if it does more than read. Needed for every access that may change
    /// something.
    pub fn effects(mut self, effects: Effects) -> Self {
        self.spec = self.spec.effects(effects);
        self
    }

    /// The files it reads, as paths in the workspace.
    ///
    /// ```
    /// use haft_contract::tool_fn::{Cx, tool_fn};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Ask { path: String }
    ///
    /// let tool = tool_fn("size", "Says how large a file is.", async |ask: Ask, cx: Cx| {
    ///     let path = cx.path(&ask.path, "/path")?;
    ///     Ok(cx.files().stat(&path).await?.size)
    /// })
    /// .reads(|ask| vec![ask.path.clone()]);
    /// ```
    pub fn reads(self, paths: impl Fn(&I) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.accesses(move |input, cx| {
            let paths = paths(input).into_iter();
            let path = |path: String| cx.path(&path, WHOLE_INPUT).map(Access::read);
            paths.map(path).collect()
        })
    }

    /// Everything it touches, for each input. Hosts and databases make it open to the world.
    pub fn accesses(
        mut self,
        accesses: impl Fn(&I, &PlanContext) -> Result<Vec<Access>, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.accesses = Some(Box::new(accesses));
        self
    }
}

impl<I, O, F, R> IntoTool for FnTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    F: Fn(I, Cx) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn into_tool(self) -> Result<Arc<dyn ErasedTool>, NameError> {
        Ok(Arc::new(NamedFnTool {
            name: ToolName::parse(&self.name)?,
            tool: self,
            output: PhantomData,
        }))
    }
}

impl<I, F> std::fmt::Debug for FnTool<I, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FnTool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The same with a name that is one.
struct NamedFnTool<I, O, F> {
    name: ToolName,
    tool: FnTool<I, F>,
    output: PhantomData<fn() -> O>,
}

impl<I, O, F, R> ErasedTool for NamedFnTool<I, O, F>
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: Serialize + JsonSchema + Send + 'static,
    F: Fn(I, Cx) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        self.tool.spec.clone()
    }

    fn input_schema(&self) -> Value {
        schemars::schema_for!(I).to_value()
    }

    fn output_schema(&self) -> Value {
        schemars::schema_for!(O).to_value()
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        I::deserialize(input)
            .map(ParsedInput::new)
            .map_err(|error| ToolError::invalid_input(error.to_string()))
    }

    fn plan(&self, input: &ParsedInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let input = input.get::<I>().ok_or_else(foreign_input)?;
        let accesses = match &self.tool.accesses {
            Some(accesses) => accesses(input, cx)?,
            None => Vec::new(),
        };
        let mut effects = self.tool.spec.effects;
        for access in &accesses {
            if effects.read_only && !only_reads(access) {
                let message = format!(
                    "the tool `{}` says that it only reads, and it plans an access of kind `{}`",
                    self.name,
                    access.kind()
                );
                return Err(ToolError::new(ErrorKind::Internal, message)
                    .hint("this is a fault in the tool: it has to declare its effects"));
            }
            effects.open_world |= leaves_the_workspace(access);
        }
        Ok(accesses.into_iter().fold(Plan::new(effects), Plan::access))
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let input = input.take::<I>().ok_or_else(foreign_input)?;
            let output = (self.tool.run)(input, cx).await?;
            let structured = structured(&output)?;
            // Text is what a model reads; anything else it reads as JSON.
            let text = match &structured {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Ok(ToolReply {
                content: vec![Content::text(text)],
                structured,
            })
        })
    }
}

/// Whether an access changes nothing by itself.
fn only_reads(access: &Access) -> bool {
    matches!(
        access,
        Access::Path(PathAccess {
            mode: PathMode::Read,
            ..
        }) | Access::Host { .. }
            | Access::Database { writes: false, .. }
    )
}

/// Whether an access reaches what Haft knows nothing about.
fn leaves_the_workspace(access: &Access) -> bool {
    !matches!(access, Access::Path(_))
}
