//! An MCP server mounted in your own agent: its tools are listed with the built-in ones and go
//! through the same rules, record and sandbox.
//!
//! Run it with `cargo run -p haft --example mounted_server`; it needs `python3` and bubblewrap. The
//! rules are in `examples/mounted-server/haft.toml`, the server is `clock.py` in the same folder.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{error::Error, path::Path, process::ExitCode};

use haft::{LocalOptions, McpServer, prelude::*};

/// Runs the example and returns the lines to print.
pub(crate) async fn run(local: LocalOptions) -> Result<Vec<String>, Box<dyn Error>> {
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mounted-server");
    let clock = McpServer::command("clock", ["python3", "clock.py"])?.cwd(folder.canonicalize()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .local(local)
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/mounted-server/haft.toml"),
        )
        .mcp_server(clock)
        .build()
        .await?;
    let mut said = vec![format!("shown at first: {}", shown(&haft))];

    // A model sees nothing of a server until somebody has accepted it.
    let accepted = haft.accept_server("clock").await?;
    said.push(format!("accepted {accepted}, shown now: {}", shown(&haft)));

    let noon = json!({"city": "Lisbon"});
    let outcome = haft.call("mcp__clock__noon", noon).await;
    said.push(format!(
        "{}: {}",
        outcome.terminal,
        outcome.text().trim_end()
    ));
    haft.close().await?;
    Ok(said)
}

/// The server tools that a model is shown.
fn shown(haft: &Haft) -> String {
    let tools = haft.tools();
    let names = tools.iter().map(|entry| entry.key().tool.as_str());
    let mounted: Vec<&str> = names.filter(|name| name.starts_with("mcp__")).collect();
    if mounted.is_empty() {
        return "nothing".to_owned();
    }
    mounted.join(" ")
}

/// Servers are sandboxed by a second process of this program, so check for that first.
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
