//! Haft's upstream edge as a program, for the client half of the official conformance suite: opens a
//! connection to the address it is given, fetches what the server offers, and uses all of it.
//!
//! ```sh
//! conformance client --command target/debug/examples/conformance_client --requirements 2026-07-28
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for the suite, which speaks to it through variables"
)]

mod person;
mod use_all;

use std::{env, error::Error, sync::Arc, time::Duration};

use haft_contract::{TenantId, UserId, egress::HostRule};
use haft_egress::SystemResolver;
use haft_mcp::upstream::{
    ClientIntroduction,
    auth::{ClientIdentity, Credential, CredentialParts, OauthOptions, Secret, vault::MemoryVault},
    connection::Connect as _,
    http::{HttpConnector, ServerAddress},
};
use haft_runtime::SystemClock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::person::Visitor;

/// How long everything may take: as long as the suite is told to wait. Every scenario runs at once, so
/// that on a slow machine an answer takes longer than any server should.
pub(crate) const WITHIN: Duration = Duration::from_mins(10);

/// The document that describes the client, as the suite wants it named.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: conformance_client URL")?;
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut address = ServerAddress::parse(&url)?;
    if scenario.starts_with("auth/") {
        address = address.authorize(Arc::new(credential(&url, &context).await?));
    }
    let introduction = ClientIntroduction {
        probe: WITHIN,
        patience: WITHIN,
        listening: WITHIN,
        ..ClientIntroduction::default()
    };
    let connector = HttpConnector::new(address, introduction)?;
    tokio::time::timeout(WITHIN, converse(&connector, &context)).await?
}

async fn converse(connector: &HttpConnector, context: &Value) -> Result<(), Box<dyn Error>> {
    let cancel = CancellationToken::new();
    let connection = connector.connect(&cancel).await?;
    let definitions = connection.definitions(&cancel).await?;
    let used = use_all::of(&connection, &definitions, context, &cancel).await;
    connection.close().await;
    for refused in &used {
        eprintln!("{refused}");
    }
    if used.is_empty() {
        Ok(())
    } else {
        Err("not everything worked".into())
    }
}

async fn credential(url: &str, context: &Value) -> Result<Credential, Box<dyn Error>> {
    let given = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let client = given("client_id").map(|id| ClientIdentity {
        id,
        secret: given("client_secret").map(Secret::new),
    });
    let has_secret = |client: &ClientIdentity| client.secret.is_some();
    let issuer = match &client {
        Some(client) if has_secret(client) => Some(issuer_of(url).await?),
        Some(_) | None => None,
    };
    let options = OauthOptions {
        client,
        issuer,
        client_metadata_url: Some(CLIENT_METADATA.parse()?),
        scopes: Vec::new(),
        private_hosts: vec![HostRule::parse("localhost")?, HostRule::parse("127.0.0.1")?],
    };
    let parts = CredentialParts {
        server: url.parse()?,
        tenant: TenantId::parse("local")?,
        user: UserId::parse("tester")?,
        options,
        vault: Arc::new(MemoryVault::default()),
        resolver: Arc::new(SystemResolver::default()),
        clock: Arc::new(SystemClock),
        person: Some(Arc::new(Visitor::new()?)),
    };
    Ok(Credential::new(parts)?)
}

/// The authorization server a server names, which an operator writes down with the secret.
async fn issuer_of(server: &str) -> Result<String, Box<dyn Error>> {
    let server: url::Url = server.parse()?;
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
    ] {
        let said = reqwest::get(server.join(path)?).await?.bytes().await?;
        let said: Value = serde_json::from_slice(&said).unwrap_or_default();
        let first = said.pointer("/authorization_servers/0");
        if let Some(issuer) = first.and_then(Value::as_str) {
            return Ok(issuer.to_owned());
        }
    }
    Err("the server names no authorization server".into())
}
