//! A tool from a function goes through every stage: validated, planned, decided, recorded, and held to
//! its plan.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft::{Cx, contract::outcome::DeniedBy, prelude::*, tool_fn};

use crate::place::Place;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ask {
    /// The ticker symbol.
    symbol: String,
}

#[derive(Serialize, JsonSchema)]
struct Price {
    cents: u64,
}

async fn price(ask: Ask, _: Cx) -> Result<Price, ToolError> {
    match ask.symbol.as_str() {
        "HAFT" => Ok(Price { cents: 4_200 }),
        other => {
            Err(ToolError::invalid_input(format!("there is no share `{other}`")).at("/symbol"))
        }
    }
}

#[tokio::test]
async fn a_function_is_a_tool_in_one_line() {
    let place = Place::new();
    let tool = tool_fn("get_stock_price", "Says what a share costs.", price)
        .title("Stock price")
        .groups(&["market"]);
    let haft = place
        .haft()
        .tool(tool)
        .allow("@market")
        .build()
        .await
        .unwrap();

    let tools = haft.tools_as(Format::Mcp);
    let shown = tools.iter().find(|tool| tool["name"] == "get_stock_price");
    let shown = shown.unwrap();
    assert_eq!(shown["title"], "Stock price");
    assert_eq!(shown["annotations"]["readOnlyHint"], true);
    assert_eq!(shown["annotations"]["openWorldHint"], false);
    assert_eq!(
        shown["inputSchema"]["properties"]["symbol"]["description"],
        "The ticker symbol."
    );

    let outcome = haft
        .call("get_stock_price", json!({"symbol": "HAFT"}))
        .await;
    assert_eq!(outcome.structured, Some(json!({"cents": 4200})));
    assert_eq!(
        outcome.tool.as_ref().unwrap().to_string(),
        "embedded/get_stock_price"
    );
    let wrong = haft.call("get_stock_price", json!({"symbl": "HAFT"})).await;
    let failure = wrong.error.as_ref().unwrap();
    assert_eq!(failure.kind, ErrorKind::InvalidInput);
    assert!(
        failure.to_string().contains("did you mean `symbol`"),
        "{failure}"
    );
    let unknown = haft.call("get_stock_price", json!({"symbol": "X"})).await;
    assert_eq!(
        unknown.error.as_ref().unwrap().at.as_deref(),
        Some("/symbol")
    );

    let tenant = &haft.principal().tenant;
    let events = haft.ledger().events(tenant, outcome.call).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    for stage in [
        "resolved",
        "validated",
        "planned",
        "decided",
        "started",
        "settled",
    ] {
        assert!(kinds.contains(&stage), "{stage} in {kinds:?}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct TwoPaths {
    path: String,
    opens: String,
}

/// Reads a file, whatever its plan says.
async fn first_line(input: TwoPaths, cx: Cx) -> Result<String, ToolError> {
    let path = cx.path(&input.opens, "/opens")?;
    let reader = cx.files().open(&path).await?;
    let bytes = reader.read_at(0, 1024, Vec::new()).await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_function_reads_what_its_plan_names_and_nothing_else() {
    let place = Place::with(&[("a", "one\n"), ("b", "two\n")]);
    let tool = tool_fn("first_line", "Reads a file's first line.", first_line)
        .reads(|input| vec![input.path.clone()]);
    let undeclared = tool_fn("rogue_line", "Reads a file's first line.", first_line);
    let haft = place
        .haft()
        .tool(tool)
        .tool(undeclared)
        .allow("first_line")
        .allow("rogue_line");
    let haft = haft.deny("read(b)").build().await.unwrap();

    let named = haft
        .call("first_line", json!({"path": "a", "opens": "a"}))
        .await;
    assert_eq!(named.text(), "one");
    // The rules see what it declares.
    let denied = haft
        .call("first_line", json!({"path": "b", "opens": "b"}))
        .await;
    assert_eq!(denied.facts.denied_by, Some(DeniedBy::Policy));
    // What it opens beyond that is refused.
    for tool in ["first_line", "rogue_line"] {
        let rogue = haft
            .call(tool, json!({"path": "missing", "opens": "b"}))
            .await;
        let failure = rogue.error.as_ref().unwrap();
        assert_eq!(failure.kind, ErrorKind::NotInPlan, "{failure}");
    }
    let outside = haft
        .call("first_line", json!({"path": "../x", "opens": "a"}))
        .await;
    assert!(!outside.succeeded());
}

#[tokio::test]
async fn a_function_that_changes_something_has_to_say_so() {
    let place = Place::with(&[("a", "one\n")]);
    let runs: Arc<AtomicUsize> = Arc::default();
    let tool = |name: &str, effects: Option<Effects>| {
        let counted = Arc::clone(&runs);
        let tool = tool_fn(name, "Removes a file.", move |_: Ask, cx: Cx| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let path = cx.path("a", "/symbol")?;
                cx.files()
                    .remove(&path, haft::contract::ops::RemoveScope::File)
                    .await?;
                Ok(())
            }
        })
        .accesses(|_, cx| Ok(vec![Access::write(cx.path("a", "/symbol")?)]));
        match effects {
            Some(effects) => tool.effects(effects),
            None => tool,
        }
    };
    let haft = place
        .haft()
        .tool(tool("silent", None))
        .tool(tool("honest", Some(Effects::REPLACES)))
        .allow("silent")
        .allow("honest")
        .build()
        .await
        .unwrap();
    let silent = haft.call("silent", json!({"symbol": "x"})).await;
    let failure = silent.error.as_ref().unwrap();
    assert!(
        failure.message.contains("says that it only reads"),
        "{failure}"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let honest = haft.call("honest", json!({"symbol": "x"})).await;
    assert!(honest.succeeded(), "{}", honest.model_text());
    assert!(!place.exists("a"));
}

#[tokio::test]
async fn a_function_with_no_name_of_a_tool_is_refused_when_the_program_starts() {
    let place = Place::new();
    let error = place
        .haft()
        .tool(tool_fn("no name", "Says nothing.", price))
        .build();
    assert!(error.await.unwrap_err().to_string().contains("no name"));
}
