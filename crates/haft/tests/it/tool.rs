//! A tool of the embedder's own: typed progress, beside the built-in ones, under the same rules.

use std::sync::{Arc, Mutex};

use haft::{contract::progress::RenderedProgress, prelude::*};

use crate::{
    place::Place,
    sample::{CountTool, Counted},
};

#[tokio::test]
async fn typed_progress_of_an_embedders_tool_is_seen_and_ends_at_100() {
    let seen: Arc<Mutex<Vec<RenderedProgress>>> = Arc::default();
    let listener = Arc::clone(&seen);
    let place = Place::new();
    let haft = place
        .haft()
        .tool(CountTool)
        .on_event(move |happened| {
            if let CallEvent::Progress(progress) = &happened.event {
                listener
                    .lock()
                    .unwrap()
                    .push(RenderedProgress::clone(progress));
            }
        })
        .build()
        .await
        .unwrap();

    let outcome = haft.call("count", json!({"to": 3})).await;

    assert_eq!(outcome.structured, Some(json!({"counted": 3})));
    let seen = seen.lock().unwrap();
    let first: Counted = serde_json::from_value(seen.first().unwrap().detail.clone()).unwrap();
    let last: Counted = serde_json::from_value(seen.last().unwrap().detail.clone()).unwrap();
    assert_eq!((first.counted, last.counted), (0, 3));
    assert_eq!(seen.first().unwrap().percentage(), Some(0));
    assert_eq!(seen.last().unwrap().percentage(), Some(100));
    assert_eq!(seen.last().unwrap().status, "at 3");
}

#[tokio::test]
async fn an_embedders_tool_is_listed_beside_the_built_in_ones() {
    let place = Place::new();
    let haft = place.haft().tool(CountTool).build().await.unwrap();
    let tools = haft.tools_as(Format::Anthropic);
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "bash",
            "copy",
            "count",
            "edit",
            "find",
            "grep",
            "list",
            "patch",
            "process",
            "read",
            "read_output",
            "todo",
            "write"
        ]
    );
    assert_eq!(tools[2]["input_schema"]["required"], json!(["to"]));
}

#[tokio::test]
async fn a_tool_may_not_take_the_name_of_a_built_in_one() {
    struct Impostor;
    impl Tool for Impostor {
        type Input = crate::sample::Picture;
        type Output = ();
        type Progress = NoProgress;
        // An alias of `read`.
        const NAME: &'static str = "Read";

        fn spec(&self) -> ToolSpec {
            ToolSpec::new("Read", "Reads.")
        }
        fn plan(&self, _: &Self::Input, _: &PlanContext) -> Result<Plan, ToolError> {
            Ok(Plan::read_only())
        }
        async fn run(&self, _: Self::Input, _: CallContext<NoProgress>) -> Result<(), ToolError> {
            Ok(())
        }
    }
    let place = Place::new();
    let error = place.haft().tool(Impostor).build().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`embedded` may not shadow the built-in tool `read` with the name `Read`"
    );
}
