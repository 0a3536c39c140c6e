//! `haft mcp token`: the secret that clients of `haft mcp --http` send. Created on first use, in a
//! file that only its owner can read, and kept until it is replaced.

use clap::Args;
use haft_host::state::http_token::HttpToken;

use super::super::{App, approvals::may_answer};
use crate::{exit::Exit, stop::Stop};

/// Printed with a new token.
const STAYS: &str = "a `haft mcp --http` that runs keeps the token it started with: start it again, and give its \
     clients this one";

/// Print the token that clients of `haft mcp --http` must send
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Replace it; the old one stops working when the server restarts
    #[arg(long)]
    new: bool,
}

/// Runs the command.
pub(super) fn run(args: &TokenArgs, app: &App) -> Result<Exit, Stop> {
    // Whoever has it can answer questions through `haft mcp --http`.
    may_answer()?;
    let data_dir = app.places()?.data_dir;
    let kept = if args.new {
        HttpToken::make(&data_dir)?
    } else {
        HttpToken::kept(&data_dir)?
    };
    app.output.content(&kept.text)?;
    if args.new {
        app.notes([&STAYS.to_owned()]);
    }
    Ok(Exit::Ok)
}
