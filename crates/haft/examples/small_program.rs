//! A program as small as they get: it makes calls and returns from `main`, without closing anything.
//!
//! A test runs it as a process of its own: `small_program WORKSPACE DATA CALLS [COMMAND]`. Every call
//! it made is then on record, and a command runs although nothing here says how sandboxes are set
//! up.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use haft::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let (workspace, data, calls, command) = (next(), next(), next(), next());
    let haft = Haft::open(workspace)
        .data_dir(data)
        .preset(Preset::Workspace)
        .build()
        .await?;
    for _ in 0..calls.parse()? {
        let outcome = haft.call("read", json!({"path": "notes.txt"})).await;
        println!("{} {:?}", outcome.call, outcome.terminal);
    }
    if !command.is_empty() {
        let outcome = haft.call("bash", json!({"command": command})).await;
        println!("{} {:?}", outcome.call, outcome.terminal);
        println!("{}", outcome.model_text());
    }
    Ok(())
}
