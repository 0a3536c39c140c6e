//! Arguments that the operator has fixed: not shown, not taken from a caller, and part of what is
//! planned.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallEvent, ErrorKind, Outcome, Principal, ProviderId, SealedPlan,
    host::{BeforeDecide, Hook},
};
use haft_runtime::registry::{Entry, Format};
use haft_testkit::Harness;
use serde_json::{Value, json};

use crate::scripted::Scripted;

fn weather(fixed: Value) -> Scripted {
    let Value::Object(fixed) = fixed else {
        panic!("an object")
    };
    Scripted::echo("weather")
        .schema(json!({
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "units": {"enum": ["metric", "imperial"]},
            },
            "required": ["city", "units"],
            "additionalProperties": false,
        }))
        .spec(|spec| spec.fixed_arguments(fixed))
}

fn metric() -> Scripted {
    weather(json!({"units": "metric"}))
}

#[test]
fn what_is_fixed_is_in_no_schema_that_is_shown() {
    let entry = Entry::new(&ProviderId::builtin(), metric().tool());
    let shown = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": false,
    });
    assert_eq!(entry.input_schema(), &shown);
    for format in [Format::Mcp, Format::OpenAi, Format::Anthropic] {
        let rendering = entry.rendering(format).to_string();
        assert!(!rendering.contains("units"), "{rendering}");
    }
    let other = Entry::new(
        &ProviderId::builtin(),
        weather(json!({"units": "imperial"})).tool(),
    );
    assert_ne!(entry.digest(), other.digest(), "an approval binds it");
}

#[tokio::test]
async fn what_is_fixed_is_planned_and_not_taken_from_a_caller() {
    let harness = Harness::memory().tools(vec![metric().tool()]).build();
    let outcome = harness.succeed("weather", json!({"city": "Bonn"})).await;
    let whole = json!({"city": "Bonn", "units": "metric"});
    assert_eq!(outcome.structured.as_ref(), Some(&whole));
    let planned = harness.events.of(outcome.call).into_iter();
    let planned: Vec<Value> = planned
        .filter_map(|event| match event {
            CallEvent::Planned { plan } => Some(plan.input().clone()),
            _ => None,
        })
        .collect();
    assert_eq!(planned, [whole]);

    for units in ["metric", "imperial"] {
        let outcome = harness
            .fail("weather", json!({"city": "Bonn", "units": units}))
            .await;
        let failure = outcome.error.as_ref().unwrap();
        assert_eq!(failure.kind, ErrorKind::InvalidInput);
        assert_eq!(failure.at.as_deref(), Some("/units"));
    }
}

#[tokio::test]
async fn a_fixed_argument_that_does_not_fit_is_the_operators_mistake() {
    let tool = weather(json!({"units": "kelvin"})).tool();
    let harness = Harness::memory().tools(vec![tool]).build();
    let outcome = harness.fail("weather", json!({"city": "Bonn"})).await;
    let failure = outcome.error.as_ref().unwrap();
    assert_eq!(failure.kind, ErrorKind::Unavailable);
    assert!(failure.to_string().contains("`units`"), "{failure}");
}

/// Changes one argument of the whole input.
struct Change(&'static str, &'static str);

impl Hook for Change {
    fn before_decide<'a>(
        &'a self,
        _: &'a Principal,
        plan: &'a SealedPlan,
    ) -> BoxFuture<'a, BeforeDecide> {
        let mut input = plan.input().clone();
        input[self.0] = json!(self.1);
        Box::pin(async { BeforeDecide::Rewrite(input) })
    }
}

#[tokio::test]
async fn a_hook_may_leave_what_is_fixed_and_not_change_it() {
    let run = async |change: Change| -> Arc<Outcome> {
        let harness = Harness::memory()
            .tools(vec![metric().tool()])
            .hook(change)
            .build();
        harness.call("weather", json!({"city": "Bonn"})).await
    };
    let outcome = run(Change("city", "Köln")).await;
    let whole = json!({"city": "Köln", "units": "metric"});
    assert_eq!(outcome.structured, Some(whole));
    let outcome = run(Change("units", "imperial")).await;
    let failure = outcome.error.as_ref().unwrap();
    assert_eq!(failure.kind, ErrorKind::InvalidInput);
}
