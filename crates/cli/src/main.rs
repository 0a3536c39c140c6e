//! The `haft` program: parses the command line, runs one command, exits with its code.
//!
//! Read next: `args.rs` for the commands, `exit.rs` for the exit codes. `haft-host` turns
//! configuration into a runtime.

mod args;
mod commands;
mod exit;
mod interrupt;
mod live;
mod prompt;
mod scope;
mod stop;
mod terminal;
mod view;
mod watch;

use std::{process::ExitCode, time::Duration};

use clap::Parser as _;
use haft_contract::surface::Surface;
use haft_host::config::{Env, env::directories};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{
    args::{Cli, Color},
    commands::App,
    exit::Exit,
    stop::Stop,
    terminal::{ColorChoice, Format, JsonLists, Output, Page, hint},
};

/// How long work that was told to stop may delay the end of the program.
const SHUTDOWN_WAIT: Duration = Duration::from_millis(200);

/// The hint for an invalid command line.
const TRY_HELP: &str = "`haft COMMAND --help` shows what a command takes";

fn main() -> ExitCode {
    // First of all: a helper has one thread, and its arguments are not a command line.
    if let Some(ended) = haft_backends::helper::run_if_asked() {
        return ended;
    }
    Surface::is_the_program();
    keep_environment_private();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let env = Env::read();
    let format = if cli.global.json || cli.global.jsonl {
        Format::Json
    } else {
        Format::Text
    };
    let colours = match cli.global.color {
        Color::Always => ColorChoice::Always,
        Color::Auto if !env.no_colour => ColorChoice::OnTerminal,
        Color::Auto | Color::Never => ColorChoice::Never,
    };
    let lists = if cli.global.jsonl {
        JsonLists::Lines
    } else {
        JsonLists::Array
    };
    let output = Output::new(format, colours).with_lists(lists);
    log_to_stderr(&env);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let stop = Stop::new(
                Exit::Failed,
                format!("the program cannot start its threads: {error}"),
                "check the limits on processes and memory",
            );
            output.stop(&stop);
            return stop.exit().into();
        }
    };
    let app = App {
        env,
        agent_directories: directories(haft_agent_settings::VARIABLES),
        global: cli.global,
        output,
    };
    let ended = runtime.block_on(commands::run(cli.command, &app));
    runtime.shutdown_timeout(SHUTDOWN_WAIT);
    match ended {
        Ok(exit) => exit.into(),
        Err(stop) => {
            output.stop(&stop);
            stop.exit().into()
        }
    }
}

/// Keeps commands from reading the environment and the memory of the program that started them,
/// which hold secrets the commands were not given. It does not stop root; a sandbox does.
fn keep_environment_private() {
    // Fails only on systems without it, and then nothing more can be done here.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Help and version are results; everything else is a mistake on the command line, whose words are
/// untrusted.
fn usage(error: &clap::Error) -> ExitCode {
    let output = Output::new(Format::Text, ColorChoice::Never);
    let text = error.render().to_string();
    if error.use_stderr() {
        let text = text.replace("For more information, try '--help'.", "");
        if std::env::args_os().any(|word| word == "--json" || word == "--jsonl") {
            let text = text.trim();
            let stop = Stop::usage(text.strip_prefix("error: ").unwrap_or(text), TRY_HELP);
            Output::new(Format::Json, ColorChoice::Never).stop(&stop);
            return Exit::Usage.into();
        }
        let page = Page::new().block(text.trim_end()).end();
        output.note(&page.page(hint(TRY_HELP)));
        return Exit::Usage.into();
    }
    match output.content(&text) {
        Ok(()) => Exit::Ok.into(),
        Err(stop) => stop.exit().into(),
    }
}

fn log_to_stderr(env: &Env) {
    use tracing_subscriber::EnvFilter;
    let filter = env.log.as_deref().unwrap_or("error");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("error"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .finish();
    // Fails only if one is already set, and then that one is used.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
