//! A program with the one line that sandboxes need, which lies in one of its two workspaces. A command
//! there replaces it, and then commands of the other one run. A test runs it:
//! `program_in_a_workspace_of_two WITH_PROGRAM OTHER COMMAND`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::path::Path;

use haft::{
    LocalBackend, LocalOptions,
    contract::{
        WorkPath,
        access::Command,
        ops::{Spawn, Tier},
    },
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    haft::helper::exit_if_asked();
    run()
}

#[tokio::main]
async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let (with_program, other, command) = (next(), next(), next());
    // As a host that is opened without a workspace: what is looked up once serves all of them.
    let first = LocalBackend::open(Path::new("/proc"), LocalOptions::default())?;
    let other = first.open_beside(Path::new(&other))?;
    let with_program = first.open_beside(Path::new(&with_program))?;
    println!("{}", said(&with_program, Tier::T2, &command).await);
    for tier in [Tier::T1, Tier::T2, Tier::Host] {
        let asked = format!("echo ran in {tier}");
        println!("{}", said(&other, tier, &asked).await);
    }
    Ok(())
}

/// What a command printed, or why it did not run.
async fn said(workspace: &LocalBackend, tier: Tier, command: &str) -> String {
    let Ok(directory) = WorkPath::relative(".") else {
        return String::new();
    };
    let spawn = Spawn::new(Command::Shell(command.to_owned()), directory, tier);
    let mut running = match workspace.operations().processes.spawn(spawn).await {
        Ok(running) => running,
        Err(error) => return error.to_string(),
    };
    let mut said = Vec::new();
    while let Some(chunk) = running.next_chunk().await {
        said.extend(chunk.bytes);
    }
    match running.wait().await {
        Ok(_) => String::from_utf8_lossy(&said).into_owned(),
        Err(error) => error.to_string(),
    }
}
