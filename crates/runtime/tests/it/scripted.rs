//! A tool whose plan and behaviour a test writes in place.

use std::{future::Future, sync::Arc};

use haft_contract::{
    Access, BoxFuture, CallContext, Effects, NoProgress, Plan, PlanContext, ToolError, ToolName,
    ToolSpec,
    context::PreviewContext,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    preview::Preview,
};
use serde_json::{Value, json};

type Run = dyn Fn(Value, CallContext<NoProgress>) -> BoxFuture<'static, Result<Value, ToolError>>
    + Send
    + Sync;
type Draw =
    dyn Fn(Value, PreviewContext) -> BoxFuture<'static, Result<Preview, ToolError>> + Send + Sync;
type Accesses = dyn Fn(&Value) -> Vec<Access> + Send + Sync;

/// A tool made of closures.
pub(crate) struct Scripted {
    name: ToolName,
    spec: ToolSpec,
    schema: Value,
    effects: Effects,
    accesses: Box<Accesses>,
    run: Box<Run>,
    preview: Option<Box<Draw>>,
}

impl Scripted {
    /// A read-only tool that takes anything and returns what the closure returns.
    pub(crate) fn new<F>(
        name: &str,
        run: impl Fn(Value, CallContext<NoProgress>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        Self {
            name: ToolName::parse(name).unwrap(),
            spec: ToolSpec::new(name, format!("{name} for tests")).effects(Effects::READ_ONLY),
            schema: json!({"type": "object", "properties": {}}),
            effects: Effects::READ_ONLY,
            accesses: Box::new(|_| Vec::new()),
            run: Box::new(move |input, cx| Box::pin(run(input, cx))),
            preview: None,
        }
    }

    /// Returns its input.
    pub(crate) fn echo(name: &str) -> Self {
        Self::new(name, |input, _| async { Ok(input) })
    }

    pub(crate) fn spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }

    pub(crate) fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    pub(crate) fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self.spec = self.spec.effects(effects);
        self
    }

    pub(crate) fn accesses(
        mut self,
        accesses: impl Fn(&Value) -> Vec<Access> + Send + Sync + 'static,
    ) -> Self {
        self.accesses = Box::new(accesses);
        self
    }

    /// Shows what the closure draws.
    pub(crate) fn preview<F>(
        mut self,
        draw: impl Fn(Value, PreviewContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Preview, ToolError>> + Send + 'static,
    {
        self.preview = Some(Box::new(move |input, cx| Box::pin(draw(input, cx))));
        self
    }

    pub(crate) fn tool(self) -> Arc<dyn ErasedTool> {
        Arc::new(self)
    }
}

impl ErasedTool for Scripted {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn output_schema(&self) -> Value {
        json!({"type": "object"})
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

    fn plan(&self, input: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let input = input.get::<Value>().unwrap();
        let mut plan = Plan::new(self.effects);
        plan.accesses = (self.accesses)(input);
        if input.get("action").is_some_and(|action| action == "slow") {
            plan = plan.action("slow");
        }
        let asked = input.get("timeout_ms").and_then(Value::as_u64);
        Ok(plan.timeout(asked.map(std::time::Duration::from_millis)))
    }

    fn preview<'a>(
        &'a self,
        input: &'a ParsedInput,
        cx: PreviewContext,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        match &self.preview {
            Some(draw) => draw(input.get::<Value>().unwrap().clone(), cx),
            None => Box::pin(async { Ok(Preview::default()) }),
        }
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        let running = (self.run)(input.take().unwrap(), cx);
        Box::pin(async move {
            let structured = running.await?;
            let content = vec![haft_contract::Content::text(structured.to_string())];
            Ok(ToolReply {
                content,
                structured,
            })
        })
    }
}
