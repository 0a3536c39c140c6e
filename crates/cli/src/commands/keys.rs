//! `haft keys`: the API keys of `haft serve`, for whoever runs it. A key is printed once, when it is made;
//! the record has its hash.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use haft_contract::{AgentId, TenantId, UserId, WorkspaceId, host::Clock as _, identity::Scope};
use haft_gateway::{ApiKeyText, KeyEnvironment};
use haft_host::relative_time::RelativeTime;
use haft_ledger::{Credential, CredentialId, CredentialKind, StoredLedger};
use haft_runtime::SystemClock;
use serde::Serialize;
use serde_json::json;

use super::{App, approvals};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, visible},
    view::time,
};

/// The most keys that are listed.
const MAX_LISTED: usize = 1_000;

/// Make, list and revoke the API keys of `haft serve`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key and print it; it is shown only once
    Create(CreateArgs),
    /// List the keys of a tenant, without their secrets
    List {
        /// Whose keys
        #[arg(long, value_name = "NAME", default_value = "local")]
        tenant: TenantId,
    },
    /// Refuse a key from now on
    Revoke {
        /// The key's id, as `haft keys list` shows it
        id: String,
        /// Whose key
        #[arg(long, value_name = "NAME", default_value = "local")]
        tenant: TenantId,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Scopes: `call` makes calls, `read` reads everything of the tenant, `approve` answers questions and
takes calls back, `admin` makes keys. Others are for rules about tools.

Example:
  haft keys create 'deploy bot' --agent deploy --scope call --for 90d")]
struct CreateArgs {
    /// What people call it
    name: String,
    /// What it may do; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<Scope>,
    /// The agent that uses it
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentId>,
    /// The person it acts for [default: you]
    #[arg(long, value_name = "NAME")]
    user: Option<UserId>,
    /// Whose data and rules apply
    #[arg(long, value_name = "NAME", default_value = "local")]
    tenant: TenantId,
    /// A workspace it may work in, by its id; may be repeated [default: all of the tenant's]
    #[arg(long = "in", value_name = "ID")]
    workspaces: Vec<WorkspaceId>,
    /// How long it lasts: 12h, 90d [default: until it is revoked]
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<RelativeTime>,
    /// Mark it as a key for tests, so that nobody takes it for a real one
    #[arg(long)]
    test: bool,
}

/// A key for programs.
#[derive(Debug, Serialize)]
struct KeyView {
    id: String,
    name: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    scopes: Vec<String>,
    workspaces: Vec<String>,
    made_by: String,
    made: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
}

impl KeyView {
    fn of(key: &Credential) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            user: key.user.to_string(),
            agent: key.agent.as_ref().map(ToString::to_string),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            workspaces: key.workspaces.iter().map(ToString::to_string).collect(),
            made_by: key.made_by.clone(),
            made: time::rfc3339(key.made),
            expires: key.expires.map(time::rfc3339),
            revoked: key.revoked.map(time::rfc3339),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: KeysArgs, app: &App) -> Result<Exit, Stop> {
    // An agent that could make itself a key would approve its own calls with it.
    approvals::may_answer()?;
    let ledger = app.record().await?;
    let done = match args.command {
        KeysCommand::Create(args) => create(args, &ledger, app).await,
        KeysCommand::List { tenant } => list(&tenant, &ledger, app).await,
        KeysCommand::Revoke { id, tenant } => revoke(&id, &tenant, &ledger, app).await,
    };
    if let Err(error) = ledger.close().await {
        tracing::error!(%error, "the record could not be closed");
    }
    done
}

async fn create(args: CreateArgs, ledger: &StoredLedger, app: &App) -> Result<Exit, Stop> {
    let environment = if args.test {
        KeyEnvironment::Test
    } else {
        KeyEnvironment::Live
    };
    let key = ApiKeyText::make(environment).map_err(|error| {
        let hint = "this system cannot make keys";
        Stop::new(Exit::Failed, error.to_string(), hint)
    })?;
    let me = app.env.user_id().map_err(|error| {
        let hint = "set HAFT_USER to a plainer name";
        Stop::new(Exit::Failed, error.to_string(), hint)
    })?;
    let now = SystemClock.now();
    let credential = Credential {
        id: key.id().clone(),
        kind: CredentialKind::ApiKey,
        tenant: args.tenant,
        user: args.user.unwrap_or_else(|| me.clone()),
        agent: args.agent,
        name: args.name.trim().to_owned(),
        scopes: args.scopes.into_iter().collect::<BTreeSet<_>>(),
        workspaces: args.workspaces,
        made_by: me.to_string(),
        made: now,
        expires: args.lasts.map(|lasts| now.after(lasts.period())),
        revoked: None,
    };
    let view = KeyView::of(&credential);
    let added = ledger.credentials().add(credential, key.hash()).await;
    added.map_err(|error| Stop::ledger(&error))?;
    if app.output.format() == Format::Json {
        let mut made = json!(view);
        if let Some(made) = made.as_object_mut() {
            made.insert("key".to_owned(), json!(key.text()));
        }
        app.output.json(&made)?;
        return Ok(Exit::Ok);
    }
    app.output.content(&format!("{}\n", key.text()))?;
    let note = Page::new()
        .styled(Style::Good, "made")
        .text(format!(
            "  {}  it is not shown again",
            visible::line(&view.name)
        ))
        .end();
    app.output.note(&note);
    Ok(Exit::Ok)
}

async fn list(tenant: &TenantId, ledger: &StoredLedger, app: &App) -> Result<Exit, Stop> {
    let credentials = ledger.credentials();
    let keys = credentials.list(tenant, CredentialKind::ApiKey, MAX_LISTED);
    let keys = keys.await.map_err(|error| Stop::ledger(&error))?;
    let views: Vec<KeyView> = keys.iter().map(KeyView::of).collect();
    if app.output.format() == Format::Json {
        app.output.json(&views)?;
        return Ok(Exit::Ok);
    }
    if views.is_empty() {
        let text = format!("tenant `{tenant}` has no keys; `haft keys create` makes one");
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for (key, view) in keys.iter().zip(&views) {
        let (style, state) = if key.revoked.is_some() {
            (Style::Bad, "revoked")
        } else if key.is_live(SystemClock.now()) {
            (Style::Good, "live")
        } else {
            (Style::Warn, "expired")
        };
        page = page
            .text(format!("{}  ", view.id))
            .styled(style, format!("{state:<7}"))
            .text(format!(
                "  {}  {}  {}",
                visible::line(&view.name),
                view.agent.as_deref().unwrap_or(&view.user),
                view.scopes.join(",")
            ))
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

async fn revoke(
    id: &str,
    tenant: &TenantId,
    ledger: &StoredLedger,
    app: &App,
) -> Result<Exit, Stop> {
    let unknown = || {
        Stop::new(
            Exit::NotFound,
            format!("tenant `{tenant}` has no live key with this id"),
            "`haft keys list` lists them",
        )
    };
    let id = CredentialId::parse(id).ok_or_else(unknown)?;
    let revoked = ledger
        .credentials()
        .revoke(tenant, &id, SystemClock.now())
        .await;
    if !revoked.map_err(|error| Stop::ledger(&error))? {
        return Err(unknown());
    }
    app.output
        .note(&Page::new().styled(Style::Good, "revoked").end());
    Ok(Exit::Ok)
}
