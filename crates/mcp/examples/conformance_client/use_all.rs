//! Uses everything a server offers, at once: every tool, resource and prompt. Whatever the server
//! asks meanwhile is answered like an obliging person would.

use std::sync::Arc;

use futures_util::future::join_all;
use haft_contract::future::BoxFuture;
use haft_mcp::{
    client::{AskError, Client, ClientAbilities, Question, QuestionKind},
    upstream::connection::{Connection, Definitions, Request},
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Uses all of it, and says what did not work.
pub(crate) async fn of(
    connection: &Arc<dyn Connection>,
    definitions: &Definitions,
    context: &Value,
    cancel: &CancellationToken,
) -> Vec<String> {
    let mut requests: Vec<(&'static str, Value)> = match context.get("toolCalls") {
        Some(Value::Array(calls)) => calls
            .iter()
            .map(|call| ("tools/call", call.clone()))
            .collect(),
        _ => definitions.tools.iter().filter_map(call).collect(),
    };
    for resource in &definitions.resources {
        requests.push(("resources/read", json!({"uri": resource["uri"]})));
    }
    for prompt in &definitions.prompts {
        requests.push((
            "prompts/get",
            json!({"name": prompt["name"], "arguments": {}}),
        ));
    }
    let client: Arc<dyn Client> = Arc::new(ObligingClient);
    let sent = requests.into_iter().map(|(method, parameters)| {
        let request = Request {
            principal: haft_testkit::principal(),
            method,
            parameters: parameters.clone(),
            deadline: crate::WITHIN,
            progress: None,
            client: Some(Arc::clone(&client)),
        };
        async move {
            let answer = connection.request(request, cancel).await;
            answer
                .err()
                .map(|error| format!("{method} {parameters}: {error}"))
        }
    });
    join_all(sent).await.into_iter().flatten().collect()
}

/// A call of a tool, with an argument for everything it requires.
fn call(tool: &Value) -> Option<(&'static str, Value)> {
    let schema = tool.get("inputSchema")?;
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let properties = schema.get("properties").unwrap_or(&Value::Null);
    let arguments: Map<String, Value> = required
        .filter_map(Value::as_str)
        .map(|name| {
            let property = properties.get(name).unwrap_or(&Value::Null);
            (name.to_owned(), some(property))
        })
        .collect();
    Some((
        "tools/call",
        json!({"name": tool.get("name")?, "arguments": arguments}),
    ))
}

/// Some value of a schema: the default where there is one.
fn some(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!("text"),
    }
}

/// Answers everything.
struct ObligingClient;

impl Client for ObligingClient {
    fn abilities(&self) -> ClientAbilities {
        ClientAbilities {
            elicit_form: true,
            elicit_url: false,
            sample: true,
            roots: true,
        }
    }

    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>> {
        let answers = questions.iter().map(answer).collect();
        Box::pin(async move { Ok(answers) })
    }

    fn log(&self, _: Value) {}
}

fn answer(question: &Question) -> Value {
    match question.kind {
        QuestionKind::Elicit => {
            let properties = question.parameters.pointer("/requestedSchema/properties");
            let fields = properties.and_then(Value::as_object).into_iter().flatten();
            let content: Map<String, Value> = fields
                .map(|(name, schema)| (name.clone(), some(schema)))
                .collect();
            json!({"action": "accept", "content": content})
        }
        QuestionKind::Sample => json!({
            "role": "assistant", "model": "none", "stopReason": "endTurn",
            "content": {"type": "text", "text": "text"},
        }),
        QuestionKind::Roots => json!({"roots": []}),
    }
}
