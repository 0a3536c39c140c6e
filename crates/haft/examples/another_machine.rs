//! Works on another machine over SSH, with an MCP server mounted here: one policy, one record, and
//! the model does not see the difference.
//!
//! Run it with `cargo run -p haft --example another_machine -- ada@build.example.com /srv/app`; it
//! needs `python3` and bubblewrap here, and Landlock there. The rules are in
//! `examples/another-machine/haft.toml`, the server is `examples/mounted-server/clock.py`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{error::Error, path::Path};

use haft::{LocalOptions, McpServer, Ssh, prelude::*};

/// Runs the example and returns the lines to print.
pub(crate) async fn run(machine: Ssh, local: LocalOptions) -> Result<Vec<String>, Box<dyn Error>> {
    let data = tempfile::tempdir()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mounted-server");
    let clock = McpServer::command("clock", ["python3", "clock.py"])?.cwd(folder.canonicalize()?);
    let haft = Haft::open(machine)
        .data_dir(data.path())
        // For what runs on this machine, which is the server.
        .local(local)
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/another-machine/haft.toml"),
        )
        // Landlock is enough for these commands. A full sandbox needs bubblewrap over there.
        .sandbox("bash", SandboxMode::Basic)
        .mcp_server(clock)
        .build()
        .await?;
    haft.accept_server("clock").await?;
    let mut said = Vec::new();

    // What a call would do, without doing it.
    let note = json!({"path": "notes/today.txt", "content": "buy milk\n"});
    let foreseen = haft.plan("write", note.clone()).await;
    let foreseen = foreseen.map_err(|outcome| outcome.model_text())?;
    said.push(format!(
        "would write below `{}` of {}: {}",
        foreseen.plan.workspace().rsplit('/').next().unwrap_or("/"),
        foreseen.plan.backend(),
        foreseen.decision.verdict
    ));
    // And why another would not be.
    let secret = json!({"path": ".bashrc", "content": "x"});
    let explained = haft.explain("write", secret).await;
    let explained = explained.map_err(|outcome| outcome.model_text())?;
    for step in explained.steps {
        said.push(format!("{}: {}", step.verdict, step.reason));
    }

    let calls = [
        ("write", note),
        ("bash", json!({"command": "wc -c notes/today.txt"})),
        ("mcp__clock__noon", json!({"city": "Lisbon"})),
        ("bash", json!({"command": "rm -rf notes"})),
    ];
    for (tool, input) in calls {
        let outcome = haft.call(tool, input).await;
        let text = outcome.model_text();
        let first = text.lines().next().unwrap_or_default();
        said.push(format!("{tool}: {}: {first}", outcome.terminal));
    }
    haft.close().await?;
    Ok(said)
}

/// Sandboxes here and the helper over there are this program, so check for that first.
#[allow(dead_code, reason = "tests run the example without `main`")]
fn main() -> Result<(), Box<dyn Error>> {
    haft::helper::exit_if_asked();
    let mut arguments = std::env::args().skip(1);
    let (Some(destination), Some(root)) = (arguments.next(), arguments.next()) else {
        return Err("name a machine and a directory on it".into());
    };
    show(Ssh::new(destination, root))
}

#[tokio::main]
#[allow(dead_code, reason = "tests run the example without `main`")]
async fn show(machine: Ssh) -> Result<(), Box<dyn Error>> {
    for line in run(machine, LocalOptions::default()).await? {
        println!("{line}");
    }
    Ok(())
}
