//! What other systems' models send (`calls/*.toml`), each through the pipeline: the tool and the
//! input that it means here, what was changed on the way, or what it is refused with. The words are
//! explained in `calls/README.md`; words that are not listed there are an error.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, sync::Arc};

use haft_contract::{
    CallRequest, Content, ErrorKind, Outcome,
    erased::ErasedTool,
    host::{AgentQuestionAnswer, GivenReply},
};
use haft_testkit::{Harness, ScriptedApprover};
use haft_tools::{builtins, catalog::optional};
use serde::Deserialize;
use serde_json::{Value, json};

/// The variable that writes what was found into the files.
const UPDATE: &str = "HAFT_UPDATE";

/// What the data must hold at least.
const CALLS: usize = 150;

/// One file: a system and its calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    from: String,
    #[serde(rename = "call")]
    calls: Vec<ForeignCall>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignCall {
    tool: String,
    arguments: Value,
    is: Option<String>,
    input: Option<Value>,
    #[serde(default)]
    notes: Vec<String>,
    refused: Option<String>,
    waits_for: Option<String>,
    runs: Option<String>,
}

fn systems() -> Vec<(String, System)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../calls");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let system =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.display().to_string(), system)
    };
    files.into_iter().map(read).collect()
}

/// Every tool that there is, whether or not it is offered without being configured.
fn every_tool() -> Vec<Arc<dyn ErasedTool>> {
    builtins().into_iter().chain(optional()).collect()
}

/// A workspace of its own for each call, with a person who answers what they are asked.
fn harness() -> Harness {
    let person = ScriptedApprover::default();
    person.says([AgentQuestionAnswer::Said {
        by: "ada".to_owned(),
        reply: GivenReply::Text("A".to_owned()),
    }]);
    let harness = Harness::memory()
        .tools(every_tool())
        .person(&person)
        .build();
    harness.tree.put("src/a.rs", "fn a() {}\n");
    harness.tree.put("src/b.rs", "fn b() {}\n// second\n");
    harness.tree.put_directory("docs");
    harness
}

fn request(harness: &Harness, call: &ForeignCall) -> CallRequest {
    match &call.arguments {
        Value::String(text) => CallRequest::from_text(&*call.tool, text, harness.principal.clone()),
        arguments => harness.request(&call.tool, arguments.clone()),
    }
}

/// A refusal as the model reads it.
fn refusal(outcome: &Outcome) -> String {
    let error = outcome.error.as_ref().expect("it was not refused");
    let mut told = format!("{}: {}", error.kind, error.message);
    if let Some(at) = &error.at {
        let _ = write!(told, " (at {at})");
    }
    if let Some(hint) = &error.hint {
        let _ = write!(told, "; {hint}");
    }
    for more in outcome.content.iter().filter_map(Content::as_text) {
        let _ = write!(told, "\n{more}");
    }
    told
}

/// What a call comes to, in the words of the data.
#[derive(Debug, PartialEq)]
enum Meaning {
    Is(String, Value, Vec<String>),
    Refused(String),
    Unknown,
}

async fn meaning(call: &ForeignCall) -> Meaning {
    let harness = harness();
    match harness.runtime.plan(request(&harness, call)).await {
        Ok(dry) => Meaning::Is(
            dry.plan.tool().tool.to_string(),
            dry.plan.input().clone(),
            dry.coercions,
        ),
        Err(outcome) if call.waits_for.is_some() => {
            let error = outcome.error.as_ref().unwrap();
            assert_eq!(error.kind, ErrorKind::UnknownTool, "{call:?}: {error:?}");
            Meaning::Unknown
        }
        Err(outcome) => Meaning::Refused(refusal(&outcome)),
    }
}

fn expected(call: &ForeignCall) -> Meaning {
    match (&call.is, &call.input, &call.refused, &call.waits_for) {
        (Some(tool), Some(input), None, None) => {
            Meaning::Is(tool.clone(), input.clone(), call.notes.clone())
        }
        (None, None, Some(refused), None) => Meaning::Refused(refused.clone()),
        (None, None, None, Some(_)) => Meaning::Unknown,
        _ => panic!("it says neither what it is, nor its refusal, nor what it waits for: {call:?}"),
    }
}

#[tokio::test]
async fn every_call_means_what_its_line_says() {
    let systems = systems();
    let all: Vec<_> = systems
        .iter()
        .flat_map(|(_, system)| &system.calls)
        .collect();
    assert!(all.len() >= CALLS, "{} calls", all.len());
    let mut wrong = Vec::new();
    for (file, System { from, calls }) in &systems {
        for (index, call) in calls.iter().enumerate() {
            let (found, expected) = (meaning(call).await, expected(call));
            if std::env::var_os(UPDATE).is_some() {
                println!("@@ {}", json!([file, index, told(&found)]));
            } else if found != expected {
                let what = format!("{from}, {} {}", call.tool, call.arguments);
                wrong.push(format!(
                    "{what}\n  is       {found:?}\n  expected {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn told(found: &Meaning) -> Value {
    match found {
        Meaning::Is(tool, input, notes) => json!({"is": tool, "input": input, "notes": notes}),
        Meaning::Refused(refused) => json!({ "refused": refused }),
        Meaning::Unknown => json!({}),
    }
}

/// Whoever adds a tool that calls wait for has to say what they mean.
#[tokio::test]
async fn what_calls_wait_for_does_not_exist_yet() {
    let harness = harness();
    let waiting: BTreeSet<String> = systems()
        .into_iter()
        .flat_map(|(_, system)| system.calls)
        .filter_map(|call| call.waits_for)
        .collect();
    assert!(!waiting.is_empty());
    for tool in waiting {
        let outcome = harness.fail(&tool, json!({})).await;
        let kind = outcome.error.as_ref().map(|error| error.kind);
        assert_eq!(
            kind,
            Some(ErrorKind::UnknownTool),
            "`{tool}` exists: say in calls/ what its calls mean"
        );
    }
}

#[tokio::test]
async fn the_calls_that_run_do_what_they_mean() {
    let mut run = 0;
    for (_, System { from, calls }) in systems() {
        for call in calls {
            let Some(shows) = &call.runs else { continue };
            let harness = harness();
            let outcome = harness.runtime.call(request(&harness, &call)).await;
            let text = outcome.model_text();
            let what = format!("{from}, {} {}: {text}", call.tool, call.arguments);
            assert!(outcome.succeeded(), "{what}");
            assert!(text.contains(shows.as_str()), "{what}");
            assert_eq!(outcome.facts.coercions, call.notes, "{what}");
            run += 1;
        }
    }
    assert!(run > 20, "{run}");
}

/// An alias resolves and is not listed.
#[tokio::test]
async fn no_list_names_the_tools_of_other_systems() {
    let harness = harness();
    let tools = harness.runtime.registry().snapshot();
    let listed: BTreeSet<String> = tools
        .page(0, tools.len())
        .iter()
        .map(|entry| entry.key().tool.to_string())
        .collect();
    for (_, system) in systems() {
        for call in system.calls {
            let own = every_tool()
                .iter()
                .any(|tool| tool.name().as_str() == call.tool);
            assert_eq!(listed.contains(&call.tool), own, "{}", call.tool);
        }
    }
}
