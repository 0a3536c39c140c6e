//! A whole agent: ask the model, run the tools it wants, give it the results, until it is done.
//!
//! The model is a scripted server on the loopback interface that speaks OpenAI's Chat Completions
//! over HTTP/1.1, so the example needs no key and prints the same every time. Both sides use real
//! sockets; point `ask_model` at a real server and the loop works unchanged.
//!
//! Run it with `cargo run -p haft --example agent_loop`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use haft::{LocalOptions, prelude::*};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The agent gives up after this many turns.
const MAX_TURNS: usize = 10;
/// The largest body either side reads.
const MAX_BODY_BYTES: u64 = 1024 * 1024;
/// How long one request may take.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// The whole agent: a loop.
async fn agent(haft: &Haft, model: SocketAddr, task: &str) -> Result<Vec<String>, Failure> {
    let mut said = Vec::new();
    let mut messages = vec![json!({"role": "user", "content": task})];
    for _ in 0..MAX_TURNS {
        let request = json!({
            "model": "scripted",
            "messages": messages,
            "tools": haft.tools_as(Format::OpenAi),
        });
        let response = timeout(REQUEST_TIME, ask_model(model, &request)).await??;
        let message = response.pointer("/choices/0/message").cloned();
        let message = message.ok_or("the response holds no message")?;
        let answers = haft.answer_openai(&message).await;
        if answers.is_empty() {
            let text = message.get("content").and_then(Value::as_str);
            said.push(format!("model: {}", text.unwrap_or_default()));
            return Ok(said);
        }
        for answer in &answers {
            let field = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
            let first = field("content").lines().next().unwrap_or_default();
            said.push(format!("{}: {first}", field("tool_call_id")));
        }
        messages.push(message);
        messages.extend(answers);
    }
    Err("the model did not come to an end".into())
}

/// Sends one request to the model and reads its response.
async fn ask_model(model: SocketAddr, request: &Value) -> Result<Value, Failure> {
    let mut stream = TcpStream::connect(model).await?;
    let body = request.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {model}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let (first, body) = read_message(&mut stream).await?;
    if !first.contains(" 200 ") {
        return Err(format!("the model answered `{first}`: {body}").into());
    }
    Ok(body)
}

/// Reads the first line and the JSON body of one HTTP/1.1 message.
async fn read_message(stream: &mut TcpStream) -> Result<(String, Value), Failure> {
    let mut reader = BufReader::new(stream.take(MAX_BODY_BYTES));
    let mut first = String::new();
    reader.read_line(&mut first).await?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<u64>()?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).await?;
    Ok((first.trim_end().to_owned(), serde_json::from_slice(&body)?))
}

/// The scripted model: looks around with two calls at once, tries something that is not allowed,
/// writes something that is, and says that it is done. It checks that every call it made was
/// answered.
async fn serve_model(listener: TcpListener) -> Result<(), Failure> {
    let call = |id: &str, name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"id": id, "type": "function", "function": function})
    };
    let turns = [
        vec![
            call("look_1", "list_dir", json!({"path": "."})),
            call("look_2", "Read", json!({"file_path": "notes.txt"})),
        ],
        vec![call("try_1", "bash", json!({"command": "rm -rf /"}))],
        vec![call(
            "write_1",
            "write",
            json!({"path": "out/summary.txt", "content": "one note\n"}),
        )],
        Vec::new(),
    ];
    let mut expected: Vec<Value> = Vec::new();
    for turn in turns {
        let (mut stream, _) = listener.accept().await?;
        let (_, request) = read_message(&mut stream).await?;
        let messages = request.get("messages").and_then(Value::as_array);
        let answered: Vec<Value> = messages
            .into_iter()
            .flatten()
            .filter_map(|message| message.get("tool_call_id").cloned())
            .collect();
        let (status, body) = if answered == expected {
            ("200 OK", reply(&turn))
        } else {
            (
                "400 Bad Request",
                json!({"error": "a call was not answered"}),
            )
        };
        expected.extend(turn.iter().filter_map(|call| call.get("id").cloned()));
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await?;
    }
    Ok(())
}

fn reply(tool_calls: &[Value]) -> Value {
    let message = if tool_calls.is_empty() {
        json!({"role": "assistant", "content": "I wrote a summary."})
    } else {
        json!({"role": "assistant", "content": null, "tool_calls": tool_calls})
    };
    json!({"object": "chat.completion", "choices": [{"index": 0, "message": message}]})
}

/// Runs the example and returns the lines to print.
pub(crate) async fn run(local: LocalOptions) -> Result<Vec<String>, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let model = tokio::spawn(serve_model(listener));

    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .local(local)
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/agent-loop/haft.toml"),
        )
        .agent("summariser")
        .build()
        .await?;
    // The operator's own session creates the file, under its own rules.
    let note = json!({"path": "notes.txt", "content": "buy milk\n"});
    haft.agent("operator")?.call("write", note).await;

    let mut said = agent(&haft, address, "summarise my notes").await?;
    timeout(REQUEST_TIME, model).await???;

    // The same calls, as recorded.
    let query = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    let mut calls = haft
        .ledger()
        .calls(&haft.principal().tenant, &query)
        .await?;
    // Calls of one batch are recorded in any order; their ids are in the order they were made.
    calls.sort_by_key(|call| call.id);
    for call in calls {
        let ended = call.terminal.map_or("open", Terminal::as_str);
        said.push(format!(
            "record: {} {} {ended}",
            call.agent, call.asked_tool
        ));
    }
    haft.close().await?;
    Ok(said)
}

/// Commands are sandboxed by a second process of this program, so check for that first.
#[allow(dead_code, reason = "tests run the example without `main`")]
fn main() -> ExitCode {
    haft::helper::run_if_asked().unwrap_or_else(show)
}

#[tokio::main]
async fn show() -> ExitCode {
    match run(LocalOptions::default()).await {
        Ok(lines) => {
            for line in lines {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
