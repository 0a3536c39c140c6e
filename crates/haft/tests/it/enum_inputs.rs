//! A tool whose input is an enum: one object for models, checked exactly, and told apart in errors.
//! What cannot be one object is refused when the program starts, not left out in silence.

use std::marker::PhantomData;

use haft::{HostError, prelude::*};
use serde::de::DeserializeOwned;

use crate::place::Place;

/// Returns its input.
struct EchoTool<T>(PhantomData<fn() -> T>);

impl<T> EchoTool<T> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Tool for EchoTool<T>
where
    T: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static,
{
    type Input = T;
    type Output = Value;
    type Progress = NoProgress;
    const NAME: &'static str = "stage";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Stage", "Changes a stage.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &T, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: T, _: CallContext<NoProgress>) -> Result<Value, ToolError> {
        Ok(json!(input))
    }
}

/// The directories last as long as what is returned with it.
async fn built<T>() -> Result<(Haft, Place), HostError>
where
    T: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static,
{
    let place = Place::new();
    let haft = place.haft().tool(EchoTool::<T>::new()).build().await?;
    Ok((haft, place))
}

/// What models see as the input, the same in all three formats.
fn shown(haft: &Haft) -> Value {
    let of = |format: Format, input: &str| {
        let tools = haft.tools_as(format);
        let name = |tool: &Value| tool.pointer("/function").unwrap_or(tool)["name"].clone();
        let tool = tools.iter().find(|tool| name(tool) == "stage").unwrap();
        tool.pointer(input).unwrap().clone()
    };
    let mcp = of(Format::Mcp, "/inputSchema");
    assert_eq!(mcp, of(Format::OpenAi, "/function/parameters"));
    assert_eq!(mcp, of(Format::Anthropic, "/input_schema"));
    for keyword in ["oneOf", "anyOf", "allOf", "$ref", "enum", "not"] {
        assert!(mcp.get(keyword).is_none(), "{keyword} in {mcp}");
    }
    assert_eq!(mcp["type"], "object");
    mcp
}

/// The call succeeds with the input as it was written.
async fn takes(haft: &Haft, input: Value) {
    let outcome = haft.call("stage", input.clone()).await;
    assert!(outcome.succeeded(), "{input}: {}", outcome.model_text());
    assert_eq!(outcome.structured, Some(input));
}

/// The call is refused at this place of the input, with this hint.
async fn refuses(haft: &Haft, input: Value, at: &str, hint: &str) {
    let outcome = haft.call("stage", input.clone()).await;
    let failure = outcome.error.as_ref().unwrap();
    assert_eq!(failure.kind, ErrorKind::InvalidInput, "{input}");
    assert_eq!(failure.at.as_deref(), Some(at), "{input}: {failure}");
    assert_eq!(failure.hint.as_deref(), Some(hint), "{input}: {failure}");
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum Stage {
    /// Starts a deploy.
    Deploy {
        /// What is deployed.
        service: String,
        /// How many of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        copies: Option<u8>,
    },
    /// Goes back to an earlier one.
    Rollback { service: String, to: u64 },
    /// Says how things are.
    Status,
}

#[tokio::test]
async fn a_tagged_enum_is_one_object_that_says_what_each_choice_needs() {
    let (haft, _place) = built::<Stage>().await.unwrap();
    assert_eq!(
        shown(&haft),
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["action"],
            "properties": {
                "action": {
                    "type": "string",
                    "enum": ["deploy", "rollback", "status"],
                    "description": "- `deploy`: Starts a deploy; needs `service`.\n\
                        - `rollback`: Goes back to an earlier one; needs `service`, `to`.\n\
                        - `status`: Says how things are.",
                },
                "service": {
                    "type": "string",
                    "description": "What is deployed. \
                        Needed with `action` `deploy`, `rollback`, and only there.",
                },
                "copies": {
                    "type": "integer", "minimum": 0, "maximum": 255,
                    "description": "How many of it. Only with `action` `deploy`.",
                },
                "to": {
                    "type": "integer", "minimum": 0,
                    "description": "Needed with `action` `rollback`, and only there.",
                },
            },
        })
    );
}

#[tokio::test]
async fn a_tagged_enum_is_checked_as_exactly_as_it_is_written() {
    let (haft, _place) = built::<Stage>().await.unwrap();
    takes(
        &haft,
        json!({"action": "deploy", "service": "api", "copies": 2}),
    )
    .await;
    takes(&haft, json!({"action": "deploy", "service": "api"})).await;
    takes(
        &haft,
        json!({"action": "rollback", "service": "api", "to": 7}),
    )
    .await;
    takes(&haft, json!({"action": "status"})).await;
    // What is coerced elsewhere is coerced here.
    let outcome = haft.call(
        "stage",
        json!({"action": "deploy", "service": "api", "copies": "2"}),
    );
    assert_eq!(outcome.await.structured.as_ref().unwrap()["copies"], 2);
    for (input, at, hint) in [
        (json!({"action": "deploy"}), "/service", "add `service`"),
        (
            json!({"action": "rollback", "service": "api", "to": -1}),
            "/to",
            "see the tool's input schema",
        ),
        (
            json!({"action": "rollback", "service": "api", "to": 1, "copies": 2}),
            "/copies",
            "the parameters are: action, service, to",
        ),
        (
            json!({"action": "deploy", "service": "api", "copy": 2}),
            "/copy",
            "did you mean `copies`?",
        ),
        (
            json!({"action": "restart", "service": "api"}),
            "/action",
            "use one of: deploy, rollback, status",
        ),
        (
            json!({"service": "api"}),
            "/action",
            "add `action`, one of: deploy, rollback, status",
        ),
    ] {
        refuses(&haft, input, at, hint).await;
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Window {
    /// When it begins.
    from: String,
    level: Level,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// All of it.
    High,
    Low,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "unit", rename_all = "snake_case")]
enum Span {
    Days { days: u32 },
    Until { date: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Plan2 {
    Open(Window),
    Extend(Span),
    Close { span: Span, level: String },
}

#[tokio::test]
async fn variants_that_hold_structs_and_enums_are_merged_too() {
    let (haft, _place) = built::<Plan2>().await.unwrap();
    let input = shown(&haft);
    let names: Vec<&String> = input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["action", "date", "days", "from", "level", "span", "unit"]
    );
    assert_eq!(input["required"], json!(["action"]));
    assert_eq!(
        input["properties"]["unit"]["enum"],
        json!(["days", "until"])
    );
    // The same name means something else in another variant.
    let level = input["properties"]["level"]["anyOf"].as_array().unwrap();
    assert_eq!(level.len(), 2, "{level:?}");
    assert_eq!(
        level[0]["description"]
            .as_str()
            .unwrap()
            .lines()
            .next()
            .unwrap(),
        "With `action` `open`."
    );
    // An enum further inside stays a choice, which every provider takes there.
    assert!(input["properties"]["span"]["oneOf"].is_array());
    takes(
        &haft,
        json!({"action": "open", "from": "now", "level": "high"}),
    )
    .await;
    takes(
        &haft,
        json!({"action": "extend", "unit": "days", "days": 3}),
    )
    .await;
    let span = json!({"unit": "until", "date": "Friday"});
    takes(
        &haft,
        json!({"action": "close", "span": span, "level": "any"}),
    )
    .await;
    for (input, at, hint) in [
        (
            json!({"action": "open", "from": "now", "level": "hig"}),
            "/level",
            "use one of: low, high",
        ),
        (
            json!({"action": "extend", "unit": "until"}),
            "/date",
            "add `date`",
        ),
        (
            json!({"action": "extend", "unit": "weeks"}),
            "/unit",
            "use one of: days, until",
        ),
        (
            json!({"action": "close", "level": "x", "span": {"unit": "days"}}),
            "/span/days",
            "add `days`",
        ),
        (
            json!({"action": "close", "level": "x", "span": {"unit": "weeks"}}),
            "/span/unit",
            "use one of: days, until",
        ),
    ] {
        refuses(&haft, input, at, hint).await;
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    /// For whom.
    customer: String,
    #[serde(flatten)]
    stage: Stage2,
    #[serde(flatten)]
    span: Option<Span>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Stage2 {
    Place { item: String },
    Cancel,
}

#[tokio::test]
async fn enums_flattened_into_a_struct_are_seen_by_every_model() {
    let (haft, _place) = built::<Order>().await.unwrap();
    let input = shown(&haft);
    assert_eq!(input["required"], json!(["action", "customer"]));
    assert_eq!(
        input["properties"]["action"]["enum"],
        json!(["place", "cancel"])
    );
    assert_eq!(
        input["properties"]["unit"]["enum"],
        json!(["days", "until"])
    );
    takes(
        &haft,
        json!({"customer": "ada", "action": "place", "item": "tea"}),
    )
    .await;
    let with_span = json!({"customer": "ada", "action": "cancel", "unit": "days", "days": 1});
    takes(&haft, with_span).await;
    let without = json!({"customer": "ada", "action": "place"});
    refuses(&haft, without, "/item", "add `item`").await;
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum External {
    Start { name: String },
    Stop(Window),
}

#[tokio::test]
async fn an_externally_tagged_enum_is_an_object_with_exactly_one_of_its_names() {
    let (haft, _place) = built::<External>().await.unwrap();
    let input = shown(&haft);
    assert_eq!(
        input["description"],
        "Give exactly one of: `start`; or `stop`."
    );
    assert_eq!(input["additionalProperties"], false);
    assert!(input.get("required").is_none());
    takes(&haft, json!({"start": {"name": "api"}})).await;
    for (input, at, hint) in [
        (json!({"start": {}}), "/start/name", "add `name`"),
        (
            json!({"strt": {"name": "api"}}),
            "/strt",
            "did you mean `start`?",
        ),
        (json!({}), "/", "give `start`, or `stop`"),
    ] {
        refuses(&haft, input, at, hint).await;
    }
    let both = json!({"start": {"name": "api"}, "stop": {"from": "now", "level": "low"}});
    assert!(!haft.call("stage", both).await.succeeded());
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    ByName { name: String, exact: Option<bool> },
    ById { id: u64, shard: u8 },
}

#[tokio::test]
async fn an_untagged_enum_is_an_object_that_says_what_goes_together() {
    let (haft, _place) = built::<Untagged>().await.unwrap();
    let input = shown(&haft);
    assert_eq!(
        input["description"],
        "Give exactly one of: `name` (may have `exact`); or `id` and `shard`."
    );
    takes(&haft, json!({"id": 7, "shard": 1})).await;
    for (input, at, hint) in [
        (json!({"id": 7}), "/", "give `name`, or `shard`"),
        (
            json!({"id": "x", "shard": 1}),
            "/id",
            "see the tool's input schema",
        ),
        (json!({}), "/name", "add `name`"),
    ] {
        refuses(&haft, input, at, hint).await;
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
enum Adjacent {
    Text(String),
    Place { x: i32 },
    Nothing,
}

#[tokio::test]
async fn an_adjacently_tagged_enum_keeps_its_tag_and_its_content() {
    let (haft, _place) = built::<Adjacent>().await.unwrap();
    let input = shown(&haft);
    assert_eq!(
        input["properties"]["kind"]["enum"],
        json!(["text", "place", "nothing"])
    );
    assert_eq!(
        input["properties"]["of"]["anyOf"].as_array().unwrap().len(),
        2
    );
    takes(&haft, json!({"kind": "text", "of": "a"})).await;
    takes(&haft, json!({"kind": "place", "of": {"x": 1}})).await;
    refuses(
        &haft,
        json!({"kind": "place", "of": {}}),
        "/of/x",
        "add `x`",
    )
    .await;
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum OnlyNames {
    Start,
    Stop,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum NamesAndObjects {
    Start { name: String },
    Stop,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TextOrObject {
    Text(String),
    Object { name: String },
}

#[tokio::test]
async fn what_can_never_be_called_is_refused_when_the_program_starts() {
    let said = async |built: Result<(Haft, Place), HostError>| {
        let error = built.err().unwrap();
        assert!(error.hint().contains("#[serde(tag"), "{}", error.hint());
        error.to_string()
    };
    let no_model = "no model could use the tool `embedded/stage`: ";
    let never = "and the arguments of a call are always an object";
    assert_eq!(
        said(built::<OnlyNames>().await).await,
        format!("{no_model}its input schema does not describe an object")
    );
    assert_eq!(
        said(built::<NamesAndObjects>().await).await,
        format!("{no_model}its input may be `\"Stop\"`, {never}")
    );
    assert_eq!(
        said(built::<TextOrObject>().await).await,
        format!("{no_model}its input may be text, {never}")
    );
    assert_eq!(
        said(built::<Vec<Stage>>().await).await,
        format!("{no_model}its input schema does not describe an object")
    );
}
