//! `haft mcp login` and `haft mcp logout`: a person logs in to a mounted server once; Haft keeps
//! the token and renews it. The login page's address is printed; no part of it ever reaches a
//! shell.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
    time::Duration,
};

use clap::Args;
use haft_contract::future::BoxFuture;
use haft_host::mount::{LoginOwner, credential, known_definitions::configured};
use haft_mcp::upstream::auth::{
    Credential, Login, LoginError,
    person::{Loopback, Person, VISIT_WITHIN},
};
use serde_json::json;
use url::Url;

use super::super::{App, approvals::may_answer};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Output, Page, Style},
};

/// The longest pasted address, in bytes.
const MAX_PASTED_BYTES: u64 = 32 * 1024;

/// Log in to a mounted server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft mcp login github            prints the page to log in on, and waits until you have
  haft mcp login github --open     opens it in your browser
  haft mcp login github --paste    where your browser is on another machine: paste the address that
                                   it ends up at, even if it shows an error there")]
pub(crate) struct LoginArgs {
    /// The server, as `[[mcp.servers]]` calls it
    #[arg(value_name = "SERVER")]
    server: String,
    /// Open the page with `xdg-open`
    #[arg(long, conflicts_with = "paste")]
    open: bool,
    /// Read the address the page leads back to from standard input
    #[arg(long)]
    paste: bool,
    /// The port on 127.0.0.1 the page leads back to, for clients registered with a fixed one
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// How long to wait until you have logged in
    #[arg(long, value_name = "SECONDS", default_value_t = VISIT_WITHIN.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
}

/// Forget the login to a mounted server
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server, as `[[mcp.servers]]` calls it
    #[arg(value_name = "SERVER")]
    server: String,
}

/// Logs in.
pub(super) async fn log_in(args: &LoginArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let credential = credential_of(&args.server, app)?;
    let listener = Loopback::bind(args.port).await.map_err(|error| {
        Stop::new(
            Exit::Failed,
            format!("cannot listen on 127.0.0.1:{}: {error}", args.port),
            "choose another port with `--port`",
        )
    })?;
    let person = AtTerminal {
        listener,
        output: app.output,
        way: match (args.open, args.paste) {
            (_, true) => LoginMethod::Paste,
            (true, false) => LoginMethod::Open,
            (false, false) => LoginMethod::Print,
        },
        wait: Duration::from_secs(args.wait),
    };
    let login = credential
        .log_in(&person)
        .await
        .map_err(|error| failed(&error))?;
    let Login::In { issuer, scopes } = login else {
        return Err(failed(&LoginError::LoginNeeded));
    };
    match app.output.format() {
        Format::Json => app.output.json(
            &json!({"server": args.server, "login": "in", "issuer": issuer, "scopes": scopes}),
        )?,
        Format::Text => {
            let mut page = Page::new()
                .styled(Style::Good, "logged in")
                .text(format!(" to {} with {issuer}", args.server))
                .end();
            if !scopes.is_empty() {
                page = page.field("scopes", scopes.join(" "));
            }
            app.output.page(&page)?;
        }
    }
    Ok(Exit::Ok)
}

/// Logs out.
pub(super) async fn log_out(args: &LogoutArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let there = credential_of(&args.server, app)?
        .log_out()
        .await
        .map_err(|error| failed(&error))?;
    let word = if there {
        "logged out"
    } else {
        "was not logged in"
    };
    match app.output.format() {
        Format::Json => app
            .output
            .json(&json!({"server": args.server, "login": word}))?,
        Format::Text => {
            let page = Page::new().text(format!("{}: {word}", args.server)).end();
            app.output.page(&page)?;
        }
    }
    Ok(Exit::Ok)
}

/// The current user's credential for a configured server.
fn credential_of(id: &str, app: &App) -> Result<Credential, Stop> {
    let settings = app.settings()?;
    let server = configured(&settings, id)?;
    let places = &settings.places;
    let owner = LoginOwner::local(places.user.clone());
    let found = credential(server, &places.data_dir, &owner).map_err(|why| {
        let hint = "check the server's entry in haft.toml";
        Stop::config(format!("nobody can log in to `{id}`: {why}"), hint)
    })?;
    found.ok_or_else(|| {
        Stop::usage(
            format!("`{id}` does not take a login"),
            "only a server with a `url` and without an `Authorization` header takes a login",
        )
    })
}

fn failed(error: &LoginError) -> Stop {
    let exit = match error {
        LoginError::Denied(_) => Exit::Denied,
        LoginError::Slow(_) => Exit::TimedOut,
        LoginError::Cancelled => Exit::Cancelled,
        _ => Exit::Failed,
    };
    Stop::new(exit, error.to_string(), error.hint())
}

/// How the page reaches the person, and how the answer reaches Haft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginMethod {
    Print,
    Open,
    Paste,
}

/// The person at this terminal.
struct AtTerminal {
    listener: Loopback,
    output: Output,
    way: LoginMethod,
    wait: Duration,
}

impl Person for AtTerminal {
    fn redirect(&self) -> Url {
        self.listener.redirect().clone()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, LoginError>> {
        Box::pin(async move {
            let what = match self.way {
                LoginMethod::Print | LoginMethod::Open => "Log in on this page:",
                LoginMethod::Paste => "Log in on this page, then paste the address it ends up at:",
            };
            let shown = Page::new().styled(Style::Strong, what).end();
            self.output.note(&shown.text(page.as_str()).end());
            if self.way == LoginMethod::Open && !open(page) {
                let page = Page::new().styled(Style::Warn, "note: ");
                let page = page.text("`xdg-open` cannot be started; open the page yourself");
                self.output.note(&page.end());
            }
            let heard = self.listener.wait(page, self.wait);
            if self.way != LoginMethod::Paste {
                return heard.await;
            }
            tokio::select! {
                heard = heard => heard,
                pasted = tokio::task::spawn_blocking(pasted) => {
                    pasted.unwrap_or(Err(LoginError::Cancelled))
                }
            }
        })
    }
}

/// Reads the address from standard input.
fn pasted() -> Result<Url, LoginError> {
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin().take(MAX_PASTED_BYTES));
    input
        .read_line(&mut line)
        .map_err(|_| LoginError::Cancelled)?;
    Url::parse(line.trim()).map_err(|_| LoginError::Callback("it is not an address"))
}

/// Opens a page with the desktop's opener: a program and one argument. The argument begins with
/// `https:` or `http:`, so that it is neither an option nor anything but a page.
#[expect(
    clippy::disallowed_methods,
    reason = "started by the person at the terminal, for themselves; no tool is involved"
)]
fn open(page: &Url) -> bool {
    let started = std::process::Command::new("xdg-open")
        .arg(page.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}
