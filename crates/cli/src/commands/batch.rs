//! `haft batch`: many calls at once, as JSON lines in and JSON lines out, in the order of the
//! calls.

use std::{
    io::{BufRead, BufReader, Read as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use haft_contract::Arguments;
use haft_host::state::private;
use serde::Deserialize;
use serde_json::Value;

use super::{
    App,
    call::{self, AskArgs},
};
use crate::{args::IdentityArgs, exit::Exit, stop::Stop, view::outcome::OutcomeView};

/// The most calls in one batch.
const MAX_CALLS: usize = 10_000;

/// The most bytes in one batch.
const MAX_BATCH_BYTES: u64 = 64 * 1024 * 1024;

/// Run many calls at once, from JSON lines
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is {\"tool\": …, \"arguments\": {…}}, and may have \"timeout_ms\". Calls run in parallel
unless they touch the same things. Results come back in the order of the lines. The exit code is that
of the first call that did not succeed.

Example:
  printf '%s\\n' '{\"tool\":\"read\",\"arguments\":{\"path\":\"a\"}}' | haft batch")]
pub(crate) struct BatchArgs {
    /// The file with the calls [default: standard input]
    file: Option<PathBuf>,
    #[command(flatten)]
    asking: AskArgs,
    #[command(flatten)]
    identity: IdentityArgs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine {
    tool: String,
    #[serde(default)]
    arguments: Value,
    timeout_ms: Option<u64>,
}

/// Runs the command.
pub(crate) async fn run(args: BatchArgs, app: &App) -> Result<Exit, Stop> {
    let lines = match &args.file {
        Some(path) => {
            let bytes = private::read(path, MAX_BATCH_BYTES).and_then(|bytes| {
                bytes.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
            });
            let bytes = bytes.map_err(|error| {
                Stop::usage(
                    format!("`{}` cannot be read: {error}", path.display()),
                    "name a file of JSON lines",
                )
            })?;
            read(bytes.as_slice())?
        }
        None => read(BufReader::new(
            std::io::stdin().lock().take(MAX_BATCH_BYTES),
        ))?,
    };
    let ready = call::ready(app, &args.identity, &args.asking, lines.len()).await?;
    let requests = lines.into_iter().map(|line| {
        let timeout = line.timeout_ms.map(Duration::from_millis);
        let arguments = match line.arguments {
            // The runtime accepts arguments as JSON text, as models send them.
            Value::String(text) => Arguments::Text(text),
            Value::Null => Arguments::Value(Value::Object(serde_json::Map::new())),
            value => Arguments::Value(value),
        };
        call::request(line.tool, arguments, &ready.principal, timeout)
    });
    let outcomes = ready.batch(requests.collect()).await;
    ready.close().await;
    let mut exit = Exit::Ok;
    for outcome in &outcomes {
        app.output.json_line(&OutcomeView::of(outcome))?;
        if exit == Exit::Ok {
            exit = Exit::of_call(outcome);
        }
    }
    Ok(exit)
}

fn read(input: impl BufRead) -> Result<Vec<BatchLine>, Stop> {
    let mut lines = Vec::new();
    for (number, text) in input.lines().enumerate() {
        let number = number + 1;
        let wrong = |why: String| {
            Stop::usage(
                format!("line {number} is not a call: {why}"),
                "write {\"tool\": \"…\", \"arguments\": {…}} on each line; nothing was run",
            )
        };
        let text = text.map_err(|error| wrong(error.to_string()))?;
        if text.trim().is_empty() {
            continue;
        }
        if lines.len() >= MAX_CALLS {
            return Err(Stop::usage(
                format!("there are more than {MAX_CALLS} calls"),
                "split the batch; nothing was run",
            ));
        }
        lines.push(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(lines)
}
