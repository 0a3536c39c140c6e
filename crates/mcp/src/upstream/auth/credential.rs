//! One user's credential for one server. It supplies the token to send, gets the next one before it
//! expires, and knows when only a person can help.
//!
//! A refresh runs in its own task: its caller may go away, but a refresh token that was used up
//! must not be lost with it. Many callers, in many processes, make one refresh: each takes its
//! turn, and checks again before it asks.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    TenantId, UserId,
    egress::Resolve,
    future::BoxFuture,
    host::{Clock, Timestamp},
};
use rmcp::transport::auth::WWWAuthenticateParams;
use tokio::sync::Mutex;
use url::Url;

use super::{
    fault::LoginError,
    flow::{LoginRequest, Oauth, OauthOptions},
    person::Person,
    record::Record,
    vault::{Key, Vault},
};
use crate::upstream::authorize::{Authorize, BearerToken, RefusalResponse, Unauthorized};

/// How long a token is handed out before checking whether another process replaced or removed it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a failed refresh before the next, so that its waiters do not each start
/// another.
const REST: Duration = Duration::from_secs(5);

/// The most extra scopes a server can ask for over time.
const MAX_WANTED: usize = 64;

/// The most times a person is asked for more scopes in the life of the process: a server that is
/// never satisfied must not keep them logging in.
const MAX_STEP_UPS: u32 = 3;

/// The largest challenge that is parsed, in bytes.
const MAX_CHALLENGE_BYTES: usize = 8 * 1024;

/// Everything [`Credential::new`] needs.
pub struct CredentialParts {
    /// The server, as configured.
    pub server: Url,
    /// The user's tenant.
    pub tenant: TenantId,
    /// The user who logs in.
    pub user: UserId,
    /// Login settings beyond what the server publishes.
    pub options: OauthOptions,
    /// Where tokens are kept.
    pub vault: Arc<dyn Vault>,
    /// Resolves host names.
    pub resolver: Arc<dyn Resolve>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Who logs in when the server requires it. Without one, calls fail until somebody logs in
    /// elsewhere.
    pub person: Option<Arc<dyn Person>>,
}

/// Whether somebody is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Somebody is logged in.
    In {
        /// The authorization server.
        issuer: String,
        /// The granted scopes.
        scopes: Vec<String>,
    },
    /// Nobody is logged in, or the server wants more than was granted.
    Needed {
        /// The scopes the server wanted that were not granted.
        wanted: Vec<String>,
    },
}

/// The tokens of one user for one server, refreshed when needed.
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    oauth: Oauth,
    key: Key,
    vault: Arc<dyn Vault>,
    clock: Arc<dyn Clock>,
    person: Option<Arc<dyn Person>>,
    held: RwLock<Option<CachedToken>>,
    /// Held while checking, refreshing or logging in, so that other tasks of this process wait.
    turn: Mutex<()>,
    /// How often a person was asked for more scopes.
    stepped_up: AtomicU32,
    /// Until when no refresh is tried after one that failed.
    rest_until: RwLock<Option<Timestamp>>,
}

/// The token being handed out, until the next check.
#[derive(Clone)]
struct CachedToken {
    token: Option<BearerToken>,
    look_at: Timestamp,
}

impl Credential {
    /// Fails if nobody should log in at the server's address.
    pub fn new(parts: CredentialParts) -> Result<Self, LoginError> {
        let key = Key::new(&parts.server, &parts.tenant, &parts.user);
        let clock = Arc::clone(&parts.clock);
        let oauth = Oauth::new(parts.server, parts.options, parts.resolver, parts.clock)?;
        Ok(Self(Arc::new(Inner {
            oauth,
            key,
            vault: parts.vault,
            clock,
            person: parts.person,
            held: RwLock::new(None),
            turn: Mutex::new(()),
            stepped_up: AtomicU32::new(0),
            rest_until: RwLock::new(None),
        })))
    }

    /// Whether somebody is logged in, according to the vault; nobody is asked.
    pub async fn state(&self) -> Result<Login, LoginError> {
        let inner = &self.0;
        let Some(record) = inner.load().await? else {
            return Ok(Login::Needed { wanted: Vec::new() });
        };
        if !record.is_logged_in(inner.clock.now()) || !record.wanted.is_empty() {
            let wanted = record.wanted;
            return Ok(Login::Needed { wanted });
        }
        Ok(Login::In {
            issuer: record.issuer,
            scopes: record.granted,
        })
    }

    /// Logs a person in, including the scopes the server asked for earlier.
    pub async fn log_in(&self, person: &dyn Person) -> Result<Login, LoginError> {
        let wished = match self.0.load().await {
            Ok(Some(record)) => record.asked_for(),
            // A damaged record is replaced by logging in.
            Ok(None) | Err(_) => Vec::new(),
        };
        self.0.log_in(person, None, wished).await?;
        self.state().await
    }

    /// Deletes the tokens; returns whether there were any.
    pub async fn log_out(&self) -> Result<bool, LoginError> {
        let _turn = self.0.vault.turn(&self.0.key).await?;
        let there = self.0.vault.remove(&self.0.key).await?;
        self.0.hold(None);
        Ok(there)
    }
}

impl Authorize for Credential {
    fn token(&self) -> BoxFuture<'_, Option<BearerToken>> {
        Box::pin(async move {
            let inner = &self.0;
            if let Some(held) = inner.held() {
                return held.token;
            }
            let _turn = inner.turn.lock().await;
            if let Some(held) = inner.held() {
                return held.token;
            }
            match inner.load().await {
                Ok(Some(record)) => match record.usable(inner.clock.now()) {
                    Some(token) => {
                        inner.hold(Some(token.clone()));
                        Some(token)
                    }
                    None => inner.renew(None).await,
                },
                Ok(None) => {
                    inner.hold(None);
                    None
                }
                Err(error) => {
                    tracing::warn!(%error, "the login of a mounted server cannot be used");
                    None
                }
            }
        })
    }

    fn on_unauthorized(&self, refusal: Unauthorized) -> BoxFuture<'_, RefusalResponse> {
        Box::pin(async move {
            let _turn = self.0.turn.lock().await;
            if self.0.help(&refusal).await {
                RefusalResponse::TryAgain
            } else {
                RefusalResponse::LoginNeeded
            }
        })
    }
}

impl Inner {
    /// The cached token, or none when it is time to check again.
    fn held(&self) -> Option<CachedToken> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let current = |held: &&CachedToken| self.clock.now() < held.look_at;
        held.as_ref().filter(current).cloned()
    }

    fn hold(&self, token: Option<BearerToken>) {
        let held = CachedToken {
            token,
            look_at: self.clock.now().after(LOOK_EVERY),
        };
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(held);
    }

    async fn load(&self) -> Result<Option<Record>, LoginError> {
        let Some(bytes) = self.vault.load(&self.key).await? else {
            return Ok(None);
        };
        Ok(Some(Record::read(&bytes, self.oauth.server())?))
    }

    async fn save(&self, record: &Record) -> Result<(), LoginError> {
        Ok(self.vault.save(&self.key, record.write()?).await?)
    }

    /// Gets a new token without a person, in a task that outlives its caller.
    async fn renew(self: &Arc<Self>, refused: Option<BearerToken>) -> Option<BearerToken> {
        let rest_until = *self
            .rest_until
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if rest_until.is_some_and(|until| self.clock.now() < until) {
            return None;
        }
        let this = Arc::clone(self);
        let renewing = tokio::spawn(async move { this.renew_in_turn(refused).await });
        match renewing.await {
            Ok(Ok(token)) => Some(token),
            Ok(Err(error)) => {
                let until = self.clock.now().after(REST);
                *self
                    .rest_until
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Some(until);
                tracing::warn!(%error, "the token of a mounted server could not be refreshed");
                None
            }
            // The runtime shut down.
            Err(_) => None,
        }
    }

    async fn renew_in_turn(&self, refused: Option<BearerToken>) -> Result<BearerToken, LoginError> {
        let _turn = self.vault.turn(&self.key).await?;
        let record = self.load().await?.ok_or(LoginError::LoginNeeded)?;
        // Another task may have refreshed first.
        let replaced = |token: &BearerToken| refused.as_ref() != Some(token);
        if let Some(token) = record.usable(self.clock.now()).filter(replaced) {
            self.hold(Some(token.clone()));
            return Ok(token);
        }
        if !record.can_refresh() {
            self.hold(None);
            return Err(LoginError::LoginNeeded);
        }
        let renewed = match self.oauth.refresh(&record).await {
            Ok(renewed) => renewed,
            Err(error @ (LoginError::LoginNeeded | LoginError::WrongIssuer { .. })) => {
                self.save(&record.spent()).await?;
                self.hold(None);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        self.save(&renewed).await?;
        let token = renewed
            .usable(self.clock.now())
            .ok_or(LoginError::NoToken)?;
        self.hold(Some(token.clone()));
        Ok(token)
    }

    /// Whether another attempt might succeed.
    async fn help(self: &Arc<Self>, refusal: &Unauthorized) -> bool {
        let challenge = refusal.www_authenticate.as_deref();
        let challenge = challenge.filter(|text| text.len() <= MAX_CHALLENGE_BYTES);
        let server = self.oauth.server();
        let parsed = challenge.map(|text| WWWAuthenticateParams::parse(text, server));
        let parsed = parsed.unwrap_or_default();
        let wanted = parsed.scope.as_deref().unwrap_or_default();
        let wanted: Vec<String> = wanted.split_whitespace().map(str::to_owned).collect();
        let record = self.load().await.ok().flatten();
        if refusal.status == 403 {
            // A refusal unrelated to scopes is not fixed by a new token.
            return parsed.is_insufficient_scope() && self.step_up(record, challenge, wanted).await;
        }
        if let Some(record) = &record {
            let sent = refusal.sent.as_ref();
            let other = |token: &BearerToken| sent != Some(token);
            if let Some(token) = record.usable(self.clock.now()).filter(other) {
                // Somebody refreshed it, or logged in, while the request was on its way.
                self.hold(Some(token));
                return true;
            }
            if let Some(sent) = sent
                && record.can_refresh()
                && self.renew(Some(sent.clone())).await.is_some()
            {
                return true;
            }
        }
        let Some(person) = &self.person else {
            self.hold(None);
            return false;
        };
        let asked = record.map(|record| record.asked_for()).unwrap_or_default();
        tell(self.log_in(person.as_ref(), challenge, asked).await)
    }

    /// Saves the extra scopes for the next login, or asks for them at once if a person is present.
    /// Scopes that were already requested and not granted are not requested again.
    async fn step_up(
        self: &Arc<Self>,
        record: Option<Record>,
        challenge: Option<&str>,
        wanted: Vec<String>,
    ) -> bool {
        let Some(mut record) = record else {
            return false;
        };
        let known =
            |scope: &String| record.granted.contains(scope) || record.wanted.contains(scope);
        let new: Vec<String> = wanted.into_iter().filter(|scope| !known(scope)).collect();
        if new.is_empty() || record.wanted.len() + new.len() > MAX_WANTED {
            return false;
        }
        record.wanted.extend(new);
        let asked = record.asked_for();
        let kept = async {
            let _turn = self.vault.turn(&self.key).await?;
            self.save(&record).await
        };
        if !tell(kept.await) {
            return false;
        }
        let Some(person) = &self.person else {
            return false;
        };
        if self.stepped_up.fetch_add(1, Ordering::Relaxed) >= MAX_STEP_UPS {
            return false;
        }
        tell(self.log_in(person.as_ref(), challenge, asked).await)
    }

    async fn log_in(
        &self,
        person: &dyn Person,
        challenge: Option<&str>,
        scopes: Vec<String>,
    ) -> Result<(), LoginError> {
        let wish = LoginRequest { challenge, scopes };
        let flow = self.oauth.begin(&person.redirect(), wish).await?;
        let back = person.visit(flow.page()).await?;
        let record = flow.finish(&back).await?;
        let _turn = self.vault.turn(&self.key).await?;
        self.save(&record).await?;
        self.hold(record.usable(self.clock.now()));
        *self
            .rest_until
            .write()
            .unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// Logs why a login failed; returns whether it succeeded.
fn tell(done: Result<(), LoginError>) -> bool {
    match done {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "nobody could be logged in to a mounted server");
            false
        }
    }
}
