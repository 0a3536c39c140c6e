//! `haft serve`: serves the API, MCP and the console until it is told to end.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use haft_gateway::{Gateway, RecordUse};
use haft_host::serving::ServedHostBuilder;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::App;
use crate::{
    exit::Exit,
    interrupt,
    stop::Stop,
    terminal::{Page, Style},
};

/// Where it listens if nobody says.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8930);

/// How long calls may go on once serving ends.
const GRACE: Duration = Duration::from_secs(30);

/// Serve the API, MCP and the console to people and agents
#[derive(Debug, Args)]
#[command(after_help = "\
What is served is in [serve] of your own haft.toml; `haft docs configuration` lists the keys.
On the first start it prints a link for the first administrator; nothing is open before.

Example:
  haft serve --listen 127.0.0.1:8930")]
pub(crate) struct ServeArgs {
    /// The address and port to listen on [default: as haft.toml says, else 127.0.0.1:8930]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Another name by which people and programs call this server; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Print a link by which an administrator logs in, also if there was one before
    #[arg(long)]
    login: bool,
    /// Check the configuration, the record and the workspaces, and end
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) async fn run(args: ServeArgs, app: &App) -> Result<Exit, Stop> {
    let cancel = CancellationToken::new();
    interrupt::cancels(&cancel, app.output);
    let settings = app.settings()?;
    let (mut serve, root) = (settings.serve.clone(), settings.places.workspace.clone());
    let record = match settings.places.database {
        Some(_) => RecordUse::Shared,
        None => RecordUse::Own,
    };
    let names = args.names.iter().map(|name| name.to_ascii_lowercase());
    serve.names.extend(names);
    let address = args.listen.or(serve.listen).unwrap_or(LISTEN);
    if !address.ip().is_unspecified() {
        serve.names.push(address.ip().to_string());
    }
    let builder = ServedHostBuilder::from_settings(settings, &app.env)?.takes_workspaces();
    app.notes(builder.notes());
    let served = builder.open(&app.env, &app.global.overrides()).await?;
    app.recovered(served.host().recovery());
    let gateway = Gateway::open(served, &root, record, &serve).await?;
    let served = if args.check {
        checked(app);
        Ok(())
    } else {
        listen(&gateway, address, &args, app, &cancel).await
    };
    if let Err(error) = gateway.close(GRACE).await {
        tracing::warn!(%error, "not everything could be recorded");
    }
    served.map(|()| Exit::Ok)
}

fn checked(app: &App) {
    let page = Page::new()
        .styled(Style::Good, "ready")
        .text("  the configuration, the record and the workspaces are as they should be")
        .end();
    app.output.note(&page);
}

async fn listen(
    gateway: &Gateway,
    address: SocketAddr,
    args: &ServeArgs,
    app: &App,
    cancel: &CancellationToken,
) -> Result<(), Stop> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Stop::new(
            Exit::Failed,
            format!("nothing can listen on {address}: {error}"),
            "choose another port, or end what listens there",
        )
    })?;
    let address = listener.local_addr().unwrap_or(address);
    let page = Page::new()
        .styled(Style::Strong, "serving ")
        .text(format!("http://{address}"))
        .end();
    app.output.note(&page);
    let code = if args.login {
        gateway.administrator_login().await
    } else {
        gateway.first_login().await
    };
    if let Some(code) = code.map_err(|error| Stop::ledger(&error))? {
        let page = Page::new()
            .styled(Style::Strong, "log in as administrator: ")
            .text(format!("http://{address}/login?code={code}"))
            .end()
            .text("the link works once, within 15 minutes; `haft keys create` makes keys for programs")
            .end();
        app.output.note(&page);
    }
    if !address.ip().is_loopback() {
        let warning = "others can reach this address, and credentials travel unencrypted; put a proxy \
                       with TLS in front";
        app.notes([&warning.to_owned()]);
    }
    haft_gateway::serve(gateway, listener, cancel).await;
    Ok(())
}
