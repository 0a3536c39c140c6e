//! One user's credential for one server: hands the transport the token to send, gets the next one
//! before it expires, and knows when only a person can help.
//!
//! A refresh runs in a task of its own: whoever waited for it may go away, but a refresh token that
//! was used up must not be lost with it. Many callers, in many processes, make one refresh: each takes
//! its turn, and looks again before it asks.

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

/// How long a token is handed out without looking whether another process has replaced or removed it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long no refresh is tried after one that failed, so that those who waited for it do not each wait
/// for one of their own.
const REST: Duration = Duration::from_secs(5);

/// The most scopes a server can ask for on top, over time.
const MAX_WANTED: usize = 64;

/// The most times a person is asked for more scopes, until the process ends: a server that is never
/// content must not keep them logging in.
const MAX_STEP_UPS: u32 = 3;

/// The largest challenge that is read, in bytes.
const MAX_CHALLENGE_BYTES: usize = 8 * 1024;

/// What a credential is made of.
pub struct CredentialParts {
    /// The server, as configured.
    pub server: Url,
    /// Whose tenant.
    pub tenant: TenantId,
    /// Whose credential.
    pub user: UserId,
    /// How to log in, beyond what the server publishes.
    pub options: OauthOptions,
    /// Where tokens are kept.
    pub vault: Arc<dyn Vault>,
    /// Looks up names.
    pub resolver: Arc<dyn Resolve>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Who logs in when the server asks for it; none: calls fail until somebody logs in elsewhere.
    pub person: Option<Arc<dyn Person>>,
}

/// Whether somebody is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Somebody is.
    In {
        /// With whom.
        issuer: String,
        /// What for.
        scopes: Vec<String>,
    },
    /// Nobody is, or the server wants more than was granted.
    Needed {
        /// What the server wanted that was not granted.
        wanted: Vec<String>,
    },
}

/// One user's credential for one server.
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    oauth: Oauth,
    key: Key,
    vault: Arc<dyn Vault>,
    clock: Arc<dyn Clock>,
    person: Option<Arc<dyn Person>>,
    held: RwLock<Option<CachedToken>>,
    /// Held by whoever looks, refreshes or logs in, so that the others of this process wait.
    turn: Mutex<()>,
    /// How often a person was asked for more scopes.
    stepped_up: AtomicU32,
    /// Until when no refresh is tried after one that failed.
    rest_until: RwLock<Option<Timestamp>>,
}

/// The token that is handed out, until it is time to look again.
#[derive(Clone)]
struct CachedToken {
    token: Option<BearerToken>,
    look_at: Timestamp,
}

impl Credential {
    /// Makes one. Fails if the server is at an address where nobody should log in.
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

    /// Whether somebody is logged in, from what is kept; nobody is asked.
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

    /// Logs a person in, asking also for what the server wanted before.
    pub async fn log_in(&self, person: &dyn Person) -> Result<Login, LoginError> {
        let wished = match self.0.load().await {
            Ok(Some(record)) => record.asked_for(),
            // A damaged record is replaced by logging in.
            Ok(None) | Err(_) => Vec::new(),
        };
        self.0.log_in(person, None, wished).await?;
        self.state().await
    }

    /// Forgets the tokens; whether there were any.
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
    /// What is handed out now; none when it is time to look.
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

    /// Gets a new token without a person, in a task that nobody's leaving ends.
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
            // Ended with the runtime.
            Err(_) => None,
        }
    }

    async fn renew_in_turn(&self, refused: Option<BearerToken>) -> Result<BearerToken, LoginError> {
        let _turn = self.vault.turn(&self.key).await?;
        let record = self.load().await?.ok_or(LoginError::LoginNeeded)?;
        // Somebody else may have been first.
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

    /// Whether another try can end better.
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
            // A refusal that has nothing to do with scopes is not helped by a token.
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

    /// More scopes: kept for the next login, or asked for at once where a person is there. What was
    /// asked for already and not granted is not asked for again.
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

/// Says why, if somebody could not be logged in; whether they were.
fn tell(done: Result<(), LoginError>) -> bool {
    match done {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "nobody could be logged in to a mounted server");
            false
        }
    }
}
