//! A program with the one line that sandboxes need, which lies in its own workspace, as `cargo run`
//! starts it. A test runs it: `program_in_workspace WORKSPACE DATA`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use haft::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all, before a runtime starts its threads.
    haft::helper::exit_if_asked();
    run()
}

#[tokio::main]
async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let haft = Haft::open(next())
        .data_dir(next())
        .allow("bash")
        .build()
        .await?;
    let replace = "rm target && printf 'exit 7' > target && chmod 755 target && echo replaced";
    for command in [replace, "echo ran here"] {
        let outcome = haft.call("bash", json!({"command": command})).await;
        println!("{}", outcome.model_text());
    }
    Ok(())
}
