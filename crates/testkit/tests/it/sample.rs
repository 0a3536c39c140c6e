//! The tool suite on every sample tool.

use std::time::Duration;

use haft_contract::{
    CallContext, Deadline, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec, erased::erase,
};
use haft_testkit::{
    sample,
    suite::tool::{
        KnownResult, ToolFixture, actions_are_those_that_plans_name, it_keeps_to_its_plan,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

macro_rules! sample_tools {
    ($($module:ident: $tool:expr, $example:tt, $ends:ident $payload:expr;)+) => {
        $(
            mod $module {
                use super::*;

                haft_testkit::tool_suite!(fixture());
                haft_testkit::tool_style_suite!(fixture());

                fn fixture() -> ToolFixture {
                    let known = KnownResult::$ends(json!($example), &[$payload]);
                    ToolFixture::new(erase($tool).unwrap(), [json!($example)]).known([known])
                }
            }
        )+

        #[test]
        fn every_sample_tool_is_tested() {
            let tested = [$(stringify!($module)),+];
            let all = sample::all();
            let names: Vec<&str> = all.iter().map(|tool| tool.name().as_str()).collect();
            assert_eq!(names, tested);
        }
    };
}

sample_tools! {
    append: sample::Append, { "path": "log.txt", "line": "one" }, succeeds "{";
    count: sample::Count, { "to": 3 }, succeeds "3";
    echo: sample::Echo, { "text": "hello" }, succeeds "hello";
    emit: sample::Emit, { "chunks": [{ "bytes": [104, 105] }] }, succeeds "hi";
    panic: sample::Panic, { "message": "broken" }, fails "panic";
    rogue: sample::Rogue, { "planned": "a", "touched": "a", "how": "read" }, fails "a";
    sleep: sample::Sleep, { "ms": 1 }, succeeds "1";
    stubborn: sample::Stubborn, { "ms": 1 }, succeeds "{";
}

/// A tool whose table of deadlines names `camera`, while its plans name what the model wrote.
struct Nodes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NodesInput {
    /// Whether to use the camera.
    camera: bool,
}

impl Tool for Nodes {
    type Input = NodesInput;
    type Output = Value;
    type Progress = NoProgress;
    const NAME: &'static str = "nodes";

    fn spec(&self) -> ToolSpec {
        let short = Deadline::new(Duration::from_secs(30), Duration::from_secs(30));
        ToolSpec::new("Nodes", "Does something on another machine.").action("camera", short)
    }

    fn plan(&self, input: &NodesInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let action = if input.camera { "nodes.camera" } else { "list" };
        Ok(Plan::read_only().action(action))
    }

    async fn run(&self, _: NodesInput, _: CallContext<NoProgress>) -> Result<Value, ToolError> {
        Ok(json!({}))
    }
}

#[tokio::test]
#[should_panic(expected = "actions of `nodes`")]
async fn mistake_06_a_deadline_that_no_plan_can_reach_is_found() {
    let examples = [json!({"camera": true}), json!({"camera": false})];
    actions_are_those_that_plans_name(ToolFixture::new(erase(Nodes).unwrap(), examples)).await;
}

#[tokio::test]
#[should_panic(expected = "leaves its plan")]
async fn a_tool_that_reaches_for_more_than_it_planned_is_found() {
    let rogue = json!({"planned": "known.txt", "touched": "folder/deep.txt", "how": "read"});
    it_keeps_to_its_plan(ToolFixture::new(erase(sample::Rogue).unwrap(), [rogue])).await;
}
