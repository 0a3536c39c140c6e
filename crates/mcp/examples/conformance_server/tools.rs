//! The tools of the fixture: those that the conformance suite calls, and those behind resources and
//! prompts, which no client is shown.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_contract::{
    CallContext, Effects, ErrorKind, NoProgress, Plan, PlanContext, ToolError, ToolName, ToolSpec,
    content::{Content, ResourceBody},
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    future::BoxFuture,
};
use serde_json::{Map, Value, json};

use crate::{
    beside::FixtureResources,
    script::{World, fill, take},
};

/// Reads a resource.
pub(crate) const READ: &str = "fixture_read";
/// Gets a prompt.
pub(crate) const PROMPT: &str = "fixture_prompt";
/// Completes an argument.
pub(crate) const COMPLETE: &str = "fixture_complete";
/// Watches a resource, or no longer.
pub(crate) const SUBSCRIBE: &str = "fixture_subscribe";

/// A tool that does what the fixture says.
struct Scripted {
    name: ToolName,
    definition: Value,
    what: FixtureTool,
    world: Arc<World>,
    beside: Arc<FixtureResources>,
}

#[derive(Clone, Copy)]
enum FixtureTool {
    Tool,
    Read,
    Prompt,
    Complete,
    Subscribe,
}

/// Every tool of the fixture.
pub(crate) fn all(
    fixture: &Value,
    world: &Arc<World>,
    beside: &Arc<FixtureResources>,
) -> Vec<Arc<dyn ErasedTool>> {
    let tool = |definition: Value, what| -> Option<Arc<dyn ErasedTool>> {
        Some(Arc::new(Scripted {
            name: ToolName::parse(definition.get("name")?.as_str()?).ok()?,
            definition,
            what,
            world: Arc::clone(world),
            beside: Arc::clone(beside),
        }))
    };
    let shown = fixture
        .get("tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut tools: Vec<_> = shown
        .filter_map(|it| tool(it.clone(), FixtureTool::Tool))
        .collect();
    let behind = [
        (READ, FixtureTool::Read),
        (PROMPT, FixtureTool::Prompt),
        (COMPLETE, FixtureTool::Complete),
        (SUBSCRIBE, FixtureTool::Subscribe),
    ];
    for (name, what) in behind {
        let definition =
            json!({"name": name, "description": "Fetches", "inputSchema": {"type": "object"}});
        tools.extend(tool(definition, what));
    }
    tools
}

impl Scripted {
    async fn act(
        &self,
        input: Map<String, Value>,
        cx: &CallContext<NoProgress>,
    ) -> Result<ToolReply, ToolError> {
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let not_found = || ToolError::new(ErrorKind::NotFound, "there is no such thing");
        match self.what {
            FixtureTool::Tool => {
                let mut values = input;
                take(&self.definition["steps"], &mut values, &self.world, cx).await?;
                let content = fill(&self.definition["content"], &values);
                let content: Vec<Content> = content
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(content_of)
                    .collect();
                if self.definition["isError"] == json!(true) {
                    let said = content
                        .first()
                        .and_then(Content::as_text)
                        .unwrap_or_default();
                    return Err(ToolError::new(ErrorKind::CommandFailed, said));
                }
                Ok(ToolReply {
                    content,
                    structured: Value::Null,
                })
            }
            FixtureTool::Read => Ok(fetched(
                self.beside.contents(text("uri")).ok_or_else(not_found)?,
            )),
            FixtureTool::Prompt => {
                let prompt = self
                    .beside
                    .find_prompt(text("name"))
                    .ok_or_else(not_found)?;
                let arguments = input.get("arguments").and_then(Value::as_object);
                let mut values = arguments.cloned().unwrap_or_default();
                take(&prompt["steps"], &mut values, &self.world, cx).await?;
                let messages = fill(&prompt["messages"], &values);
                Ok(fetched(json!({"messages": messages})))
            }
            FixtureTool::Complete => Ok(fetched(
                json!({"completion": {"values": ["test1", "test2"], "total": 2, "hasMore": false}}),
            )),
            FixtureTool::Subscribe => Ok(fetched(json!({}))),
        }
    }
}

fn fetched(structured: Value) -> ToolReply {
    ToolReply {
        content: Vec::new(),
        structured,
    }
}

/// A piece of content as the protocol has it.
fn content_of(content: &Value) -> Option<Content> {
    let text = |pointer: &str| {
        content
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let data = || STANDARD.decode(text("/data")?).ok();
    Some(match content.get("type")?.as_str()? {
        "text" => Content::Text(text("/text")?),
        "image" => Content::Image {
            data: data()?,
            media_type: text("/mimeType")?,
        },
        "audio" => Content::Audio {
            data: data()?,
            media_type: text("/mimeType")?,
        },
        "resource" => Content::Resource {
            uri: text("/resource/uri")?,
            media_type: text("/resource/mimeType"),
            body: ResourceBody::Text(text("/resource/text")?),
        },
        _ => return None,
    })
}

impl ErasedTool for Scripted {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        let description = self.definition["description"].as_str().unwrap_or_default();
        let spec = ToolSpec::new(description, description).effects(Effects::READ_ONLY);
        match self.what {
            FixtureTool::Tool => spec,
            FixtureTool::Read
            | FixtureTool::Prompt
            | FixtureTool::Complete
            | FixtureTool::Subscribe => spec.for_hosts(),
        }
    }

    fn input_schema(&self) -> Value {
        self.definition["inputSchema"].clone()
    }

    fn output_schema(&self) -> Value {
        json!({})
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(
            input.as_object().cloned().unwrap_or_default(),
        ))
    }

    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move { self.act(input.take().unwrap_or_default(), &cx).await })
    }
}
