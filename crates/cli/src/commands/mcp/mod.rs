//! `haft mcp`: Haft as one MCP server in front of an agent, and the commands to set it up. Without
//! a subcommand it serves.

mod accept;
mod agent_section;
mod cost;
pub(crate) mod entry;
mod import;
mod install;
mod login;
mod pipes;
mod planned;
mod review;
mod serve;
pub(crate) mod status;
mod token;

use std::sync::Arc;

use clap::{Args, Subcommand};
use haft_contract::Principal;
use haft_host::config::Env;

use super::App;
use crate::{exit::Exit, stop::Stop};

/// Serve tools to an agent over MCP
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  haft mcp                          what an agent starts, with pipes
  haft mcp --http 127.0.0.1:8931    what an agent connects to; asks for the token in `haft mcp token`"
)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Install(install::InstallArgs),
    Import(import::ImportArgs),
    Status(status::StatusArgs),
    Cost(cost::CostArgs),
    Review(review::ReviewArgs),
    Accept(accept::AcceptArgs),
    Revoke(accept::RevokeArgs),
    Login(login::LoginArgs),
    Logout(login::LogoutArgs),
    Token(token::TokenArgs),
}

impl McpArgs {
    /// The caller if this command serves; `None` if it does something else.
    pub(crate) fn serves(&self, env: &Env) -> Option<Result<Arc<Principal>, Stop>> {
        match self.command {
            None => Some(self.serve.principal(env)),
            Some(_) => None,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: McpArgs, app: &App) -> Result<Exit, Stop> {
    match args.command {
        None => serve::run(args.serve, app).await,
        Some(McpCommand::Install(args)) => install::run(&args, app),
        Some(McpCommand::Import(args)) => import::run(&args, app).await,
        Some(McpCommand::Status(args)) => status::run(&args, app),
        Some(McpCommand::Cost(args)) => cost::run(&args, app).await,
        Some(McpCommand::Review(args)) => review::run(&args, app).await,
        Some(McpCommand::Accept(args)) => accept::accept(&args, app),
        Some(McpCommand::Revoke(args)) => accept::revoke(&args, app),
        Some(McpCommand::Login(args)) => login::log_in(&args, app).await,
        Some(McpCommand::Logout(args)) => login::log_out(&args, app).await,
        Some(McpCommand::Token(args)) => token::run(&args, app),
    }
}
