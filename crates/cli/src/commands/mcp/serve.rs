//! `haft mcp`: serves the workspace's tools over MCP until the agent is gone, to one agent over
//! pipes or to several over HTTP. Standard output carries only the protocol.

use std::{net::SocketAddr, sync::Arc};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use haft_contract::Principal;
use haft_host::{
    config::Env,
    error::chain,
    orphans,
    serving::{ServedHost, ServedHostBuilder},
    state::http_token::HttpToken,
};
use haft_mcp::{
    catalog::Mode,
    server::{Endpoint, SessionScope, http, stdio},
};
use tokio_util::sync::CancellationToken;

use super::{super::App, pipes};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    interrupt,
    stop::Stop,
    terminal::{Page, Style},
};

/// The agent's name if nobody gave one.
pub(super) const AGENT: &str = "mcp";

/// How to serve.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Serve over HTTP on this address instead of pipes
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,
    /// Another name by which clients may call this server over HTTP; may be repeated
    #[arg(long = "allow-host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    /// The origin of a web page that may use this server over HTTP; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    origins: Vec<String>,
    /// Whether every tool is listed, or those that find and call the others, or which of the two fits `catalog_budget` [default: as haft.toml says, else auto]
    #[arg(long, value_name = "MODE", value_parser = modes())]
    catalog: Option<Mode>,
    #[command(flatten)]
    identity: IdentityArgs,
}

impl ServeArgs {
    /// The caller.
    pub(super) fn principal(&self, env: &Env) -> Result<Arc<Principal>, Stop> {
        let new_session = orphans::session_of_one_client;
        self.identity.principal_or(env, AGENT, new_session)
    }
}

/// An address to listen on; a name or a port alone is too little.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().unwrap_or_default();
        let port = port.parse::<u16>().unwrap_or(8931);
        format!("write an address and a port, such as 127.0.0.1:{port}")
    })
}

fn modes() -> impl clap::builder::TypedValueParser<Value = Mode> {
    let words = PossibleValuesParser::new(Mode::ALL.map(Mode::as_str));
    // The parser has already refused any other word.
    words.map(|word| Mode::parse(&word).unwrap_or_default())
}

/// Runs the command.
pub(super) async fn run(args: ServeArgs, app: &App) -> Result<Exit, Stop> {
    let principal = args.principal(&app.env)?;
    let cancel = CancellationToken::new();
    match args.http {
        None => interrupt::cancels_for_agent(&cancel),
        Some(_) => interrupt::cancels(&cancel, app.output),
    }
    let serving = ServeSetup::new(app, principal, args.catalog).await?;
    let served = match args.http {
        None => serving.over_pipes(&cancel).await,
        Some(address) => serving.over_http(app, address, &args, &cancel).await,
    };
    serving.close().await;
    served.map(|()| Exit::Ok)
}

/// A host, ready to serve.
struct ServeSetup {
    served: ServedHost,
    principal: Arc<Principal>,
}

impl ServeSetup {
    async fn new(
        app: &App,
        principal: Arc<Principal>,
        catalog: Option<Mode>,
    ) -> Result<Self, Stop> {
        let settings = app.settings()?.used_by(&principal)?;
        let mut builder = ServedHostBuilder::from_settings(settings, &app.env)?;
        if let Some(mode) = catalog {
            builder = builder.catalog(mode);
        }
        app.notes(builder.notes());
        let served = builder.open(&app.env, &app.global.overrides()).await?;
        app.recovered(served.host().recovery());
        Ok(Self { served, principal })
    }

    fn endpoint(&self, sessions: SessionScope) -> Arc<Endpoint> {
        self.served.endpoint(Arc::clone(&self.principal), sessions)
    }

    async fn over_pipes(&self, cancel: &CancellationToken) -> Result<(), Stop> {
        let failed = |error: std::io::Error| {
            Stop::new(
                Exit::Failed,
                format!("the program cannot start its threads: {error}"),
                "check the limits on processes and memory",
            )
        };
        let input = pipes::input().map_err(failed)?;
        let (output, writer) = pipes::output().map_err(failed)?;
        let endpoint = self.endpoint(SessionScope::OfEndpoint);
        let served = stdio::serve(endpoint, input, output, cancel).await;
        writer.finish().await;
        served.map_err(|error| {
            Stop::new(
                Exit::Failed,
                chain(&error),
                "`haft mcp` is started by an agent and speaks MCP, one message a line",
            )
        })
    }

    async fn over_http(
        &self,
        app: &App,
        address: SocketAddr,
        args: &ServeArgs,
        cancel: &CancellationToken,
    ) -> Result<(), Stop> {
        let kept = HttpToken::kept(&app.places()?.data_dir)?;
        let mut guard = http::Guard::new(kept.token);
        if !address.ip().is_unspecified() {
            guard = guard.host(&address.ip().to_string());
        }
        for host in &args.hosts {
            guard = guard.host(host);
        }
        for origin in &args.origins {
            guard = guard.origin(origin).map_err(|error| {
                Stop::usage(error.to_string(), "write `--allow-origin https://HOST`")
            })?;
        }
        let listener = http::listen(address).await.map_err(|error| {
            Stop::new(
                Exit::Failed,
                format!("nothing can listen on {address}: {error}"),
                "choose another port, or end what listens there",
            )
        })?;
        let address = listener.local_addr().unwrap_or(address);
        let page = Page::new()
            .styled(Style::Strong, "serving MCP on ")
            .text(format!("http://{address}{}", http::PATH))
            .end()
            .text(format!("the token is in {}", kept.path.display()))
            .end();
        app.output.note(&page);
        if !address.ip().is_loopback() {
            let warning = "others can reach this address, and the token travels unencrypted; put a \
                           proxy with TLS in front";
            app.notes([&warning.to_owned()]);
        }
        let endpoint = self.endpoint(SessionScope::OfConnection);
        http::serve(endpoint, listener, guard, cancel).await;
        Ok(())
    }

    /// Ends processes that calls left running, makes everything durable and closes the record.
    async fn close(&self) {
        let host = self.served.host();
        host.runtime().end_session(&self.principal).await;
        if let Err(error) = host.close().await {
            tracing::warn!(%error, "not everything could be recorded");
        }
    }
}
