//! One login or one refresh: the SDK does the protocol, and wherever it leaves a choice we are
//! strict.
//!
//! Nothing is sent to an authorization server that was not discovered from the configured server;
//! guessed endpoints, as old clients used, are not used. PKCE must be announced. The state of a
//! redirect is compared before anything else in it is read.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{
    egress::{HostRule, Resolve},
    host::Clock,
};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore as _,
    InMemoryCredentialStore, OAuthClientConfig, StoredCredentials,
};
use tokio::time::timeout;
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};
use url::Url;

use super::{
    fault::LoginError,
    guard::{Guard, printable},
    record::{Client, Record},
    web::Web,
};

/// How long all requests of one step (up to the page, from the redirect to the token, or a refresh)
/// may take together.
const STEP_WITHIN: Duration = Duration::from_mins(1);

/// The client name Haft registers under.
const CLIENT_NAME: &str = "Haft";

/// The scope that makes OpenID authorization servers issue refresh tokens.
const OFFLINE: &str = "offline_access";

/// A secret, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A manually registered client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The client id.
    pub id: String,
    /// The client secret, if there is one.
    pub secret: Option<Secret>,
}

/// How to log in to one server, beyond what it publishes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OauthOptions {
    /// A manually registered client; without one Haft registers itself.
    pub client: Option<ClientIdentity>,
    /// The authorization server for this server; by default, whichever the server names. Required
    /// with a client secret: otherwise the server would choose who gets the secret.
    pub issuer: Option<String>,
    /// The URL of a document that describes the client, for authorization servers that accept it as
    /// the client id.
    pub client_metadata_url: Option<Url>,
    /// The scopes to request; if empty, those the server names.
    pub scopes: Vec<String>,
    /// Hosts in the operator's own network that a login may contact.
    pub private_hosts: Vec<HostRule>,
}

pub(super) struct Oauth {
    server: Url,
    options: OauthOptions,
    guard: Arc<Guard>,
    clock: Arc<dyn Clock>,
}

/// The scopes and challenge of one login.
#[derive(Debug, Default)]
pub(super) struct LoginRequest<'a> {
    /// The server's challenge, if there was one.
    pub(super) challenge: Option<&'a str>,
    /// Scopes beyond those in the configuration and the server's metadata.
    pub(super) scopes: Vec<String>,
}

/// A login waiting for the redirect.
pub(super) struct Flow {
    manager: AuthorizationManager,
    web: Arc<Web>,
    client: Client,
    issuer: String,
    page: Url,
    state: String,
    clock: Arc<dyn Clock>,
    server: Url,
}

impl Oauth {
    pub(super) fn new(
        server: Url,
        options: OauthOptions,
        resolver: Arc<dyn Resolve>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LoginError> {
        let has_secret = |client: &ClientIdentity| client.secret.is_some();
        if options.client.as_ref().is_some_and(has_secret) && options.issuer.is_none() {
            return Err(LoginError::SecretForAnybody);
        }
        let guard = Guard::new(&server, options.private_hosts.clone(), resolver);
        Ok(Self {
            server,
            options,
            guard: Arc::new(guard.map_err(LoginError::Refused)?),
            clock,
        })
    }

    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Discovers the authorization server, becomes its client, and builds the URL of the login
    /// page.
    pub(super) async fn begin(
        &self,
        redirect: &Url,
        wish: LoginRequest<'_>,
    ) -> Result<Flow, LoginError> {
        within(STEP_WITHIN, async {
            let web = self.web();
            let begun = self.begin_over(&web, redirect, wish).await;
            begun.map_err(|fault| fault.typed(&web))
        })
        .await
    }

    async fn begin_over(
        &self,
        web: &Arc<Web>,
        redirect: &Url,
        wish: LoginRequest<'_>,
    ) -> Result<Flow, FlowFault> {
        let (mut manager, metadata) = self.discover(web, wish.challenge).await?;
        let page_at = Url::parse(&metadata.authorization_endpoint)
            .map_err(|error| LoginError::Metadata(error.to_string()))?;
        self.guard.admit(&page_at).map_err(LoginError::Page)?;
        let scopes = self.scopes(&manager, &metadata, wish.scopes).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = self
            .become_client(&mut manager, &metadata, redirect, &scopes)
            .await?;
        let page = manager.get_authorization_url(&scopes).await?;
        let page = Url::parse(&page).map_err(|error| LoginError::Metadata(error.to_string()))?;
        self.guard.admit(&page).map_err(LoginError::Page)?;
        let state = only(&page, "state").map_err(LoginError::Callback)?;
        let state = state.ok_or(LoginError::Callback("the page has no state"))?;
        Ok(Flow {
            manager,
            web: Arc::clone(web),
            client,
            issuer: metadata.issuer.unwrap_or_default(),
            page,
            state,
            clock: Arc::clone(&self.clock),
            server: self.server.clone(),
        })
    }

    /// Refreshes a login's token at the issuer it came from.
    pub(super) async fn refresh(&self, record: &Record) -> Result<Record, LoginError> {
        within(STEP_WITHIN, async {
            let web = self.web();
            let renewed = self.refresh_over(&web, record).await;
            renewed.map_err(|fault| fault.typed(&web))
        })
        .await
    }

    async fn refresh_over(&self, web: &Arc<Web>, record: &Record) -> Result<Record, FlowFault> {
        let (mut manager, metadata) = self.discover(web, None).await?;
        let issuer = metadata.issuer.unwrap_or_default();
        if issuer != record.issuer {
            // No other issuer may see the refresh token, and it is worthless elsewhere.
            return Err(LoginError::WrongIssuer {
                expected: printable(&record.issuer),
                received: printable(&issuer),
            }
            .into());
        }
        let client = &record.client;
        let mut config = OAuthClientConfig::new(&client.id, &client.redirect);
        config.client_secret = self.secret_of(client);
        manager.configure_client(config)?;
        let token = record.for_sdk().ok_or(LoginError::LoginNeeded)?;
        let store = InMemoryCredentialStore::new();
        let granted = record.granted.clone();
        let stored = StoredCredentials::new(client.id.clone(), Some(token), granted, None);
        store.save(stored.with_issuer(Some(issuer))).await?;
        manager.set_credential_store(store);
        let token = manager.refresh_token().await?;
        let granted = manager.get_current_scopes().await;
        Ok(record.renewed(&token, granted, self.clock.now())?)
    }

    fn web(&self) -> Arc<Web> {
        Arc::new(Web::new(Arc::clone(&self.guard)))
    }

    async fn discover(
        &self,
        web: &Arc<Web>,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadata), FlowFault> {
        let http = Arc::clone(web) as Arc<_>;
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.server.clone(), http).await?;
        let found = manager.resolve_metadata_from_challenge(challenge).await?;
        if !found.source.is_discovered() {
            return Err(LoginError::NotOffered.into());
        }
        let metadata = found.metadata;
        let methods = metadata.code_challenge_methods_supported.as_deref();
        if !methods.is_some_and(|methods| methods.iter().any(|method| method == "S256")) {
            return Err(LoginError::NoPkce.into());
        }
        let Some(issuer) = metadata.issuer.as_deref() else {
            return Err(LoginError::NoIssuer(printable(self.server.as_str())).into());
        };
        self.check_issuer(web, issuer)?;
        manager.set_metadata(metadata.clone());
        Ok((manager, metadata))
    }

    /// Checks that the answering authorization server is the configured one, if one is. Its name
    /// alone proves nothing: the metadata has to come from where the name leads.
    fn check_issuer(&self, web: &Web, issuer: &str) -> Result<(), LoginError> {
        let Some(expected) = &self.options.issuer else {
            return Ok(());
        };
        let at = |url: Option<Url>| url.map(|url| url.origin());
        let home = at(Url::parse(expected).ok());
        if issuer == expected && home.is_some() && at(web.answered_last()) == home {
            return Ok(());
        }
        Err(LoginError::WrongIssuer {
            expected: printable(expected),
            received: printable(issuer),
        })
    }

    /// The configured scopes, or those the server names, plus what the server asked for since.
    async fn scopes(
        &self,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        wanted: Vec<String>,
    ) -> Vec<String> {
        let mut scopes = self.options.scopes.clone();
        if scopes.is_empty() && wanted.is_empty() {
            return manager.select_initial_scopes(&[]).await;
        }
        for scope in wanted {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let offered = metadata.scopes_supported.as_deref().unwrap_or_default();
        let offline = offered.iter().any(|scope| scope == OFFLINE);
        if offline && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        scopes
    }

    /// In the protocol's order: a manually registered client, a client metadata document,
    /// registration.
    async fn become_client(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        redirect: &Url,
        scopes: &[&str],
    ) -> Result<Client, FlowFault> {
        let takes_documents = metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .and_then(serde_json::Value::as_bool)
            .unwrap_or_default();
        let document = self.options.client_metadata_url.as_ref();
        let document = document.filter(|_| takes_documents);
        let known = match (&self.options.client, document) {
            (Some(client), _) => Some(client.id.clone()),
            (None, Some(document)) => Some(document.to_string()),
            (None, None) => None,
        };
        let redirect = redirect.to_string();
        let Some(id) = known else {
            let made = manager
                .register_client(CLIENT_NAME, &redirect, scopes)
                .await?;
            return Ok(Client {
                id: made.client_id,
                secret: made.client_secret,
                redirect,
            });
        };
        let client = Client {
            id,
            secret: None,
            redirect,
        };
        let mut config = OAuthClientConfig::new(&client.id, &client.redirect);
        config.client_secret = self.secret_of(&client);
        manager.configure_client(config)?;
        Ok(client)
    }

    /// The client secret: from the configuration for a configured client, from its record for a
    /// registered one.
    fn secret_of(&self, client: &Client) -> Option<String> {
        let configured = self.options.client.as_ref();
        match configured.filter(|configured| configured.id == client.id) {
            Some(configured) => configured.secret.as_ref().map(|secret| secret.0.clone()),
            None => client.secret.clone(),
        }
    }
}

impl Flow {
    /// The login page.
    pub(super) fn page(&self) -> &Url {
        &self.page
    }

    /// Exchanges the redirect's code for the token.
    pub(super) async fn finish(self, back: &Url) -> Result<Record, LoginError> {
        within(STEP_WITHIN, async {
            let code = self.code_of(back)?;
            let issuer = only(back, "iss").map_err(LoginError::Callback)?;
            let answer = self
                .manager
                .exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref())
                .await;
            let token = answer.map_err(|error| LoginError::of(&error, self.web.seen()))?;
            let granted = self.manager.get_current_scopes().await;
            let now = self.clock.now();
            Record::new(&self.server, self.issuer, self.client, &token, granted, now)
        })
        .await
    }

    /// The code in the redirect, if it answers this login.
    fn code_of(&self, back: &Url) -> Result<String, LoginError> {
        let only = |name| only(back, name).map_err(LoginError::Callback);
        let expected = Url::parse(&self.client.redirect).ok();
        let same_place = expected.is_some_and(|expected| {
            expected.origin() == back.origin() && expected.path() == back.path()
        });
        if !same_place {
            return Err(LoginError::Callback(
                "its address differs from the one given",
            ));
        }
        if only("state")?.as_deref() != Some(self.state.as_str()) {
            return Err(LoginError::Callback("its state is that of another login"));
        }
        if let Some(error) = only("error")? {
            if let Some(issuer) = only("iss")?
                && issuer != self.issuer
            {
                return Err(LoginError::WrongIssuer {
                    expected: printable(&self.issuer),
                    received: printable(&issuer),
                });
            }
            let more = only("error_description")?;
            let said = more.map_or_else(|| error.clone(), |more| format!("{error}: {more}"));
            return Err(LoginError::Denied(printable(&said)));
        }
        only("code")?.ok_or(LoginError::Callback("it has no code"))
    }
}

/// A fault before it is combined with what the client saw.
enum FlowFault {
    Ours(LoginError),
    Sdk(AuthError),
}

impl FlowFault {
    fn typed(self, web: &Web) -> LoginError {
        match self {
            Self::Ours(error) => error,
            Self::Sdk(error) => LoginError::of(&error, web.seen()),
        }
    }
}

impl From<LoginError> for FlowFault {
    fn from(error: LoginError) -> Self {
        Self::Ours(error)
    }
}

impl From<AuthError> for FlowFault {
    fn from(error: AuthError) -> Self {
        Self::Sdk(error)
    }
}

/// The value of a parameter that may occur once; a second one is an attempt to be read two ways.
fn only(url: &Url, name: &str) -> Result<Option<String>, &'static str> {
    let mut values = url.query_pairs().filter(|(key, _)| key == name);
    let first = values.next().map(|(_, value)| value.into_owned());
    match values.next() {
        Some(_) => Err("a parameter occurs twice"),
        None => Ok(first),
    }
}

/// Runs a step under a deadline, with the SDK's logging off because it includes codes.
async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, LoginError>>,
) -> Result<T, LoginError> {
    let step = step.with_subscriber(NoSubscriber::default());
    timeout(limit, step)
        .await
        .unwrap_or(Err(LoginError::Slow(limit)))
}
