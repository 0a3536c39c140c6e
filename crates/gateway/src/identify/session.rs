//! People at the console: a one-time code begins a session, a cookie carries it, and the record knows both,
//! so that every process of a platform does.
//!
//! A cookie is sent by a browser whoever asked it to, so whatever changes something also has to come from a
//! page of ours: by what the browser says of its origin, and with a token that only our pages know.

use std::{collections::BTreeSet, time::Duration};

use axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Redirect, Response},
};
use haft_contract::{
    TenantId, UserId, WorkspaceId,
    host::{Clock as _, LedgerError},
    identity::Scope,
};
use haft_host::random::NoRandomness;
use haft_ledger::{Credential, CredentialId, CredentialKind};
use haft_runtime::SystemClock;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{COOKIE, HOST, ORIGIN, SET_COOKIE},
    request::Parts,
};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{ADMIN, Identified, SCOPES, key};
use crate::{
    Gateway,
    problem::{Problem, ProblemKind},
};

/// The cookie of a session. Its prefix has browsers refuse it from anybody else.
const SESSION_COOKIE: &str = "__Host-haft";

/// How long a session lasts without a request.
pub(crate) const SESSION_IDLE: Duration = Duration::from_hours(12);

/// A session is extended once this much of its time has passed, so that not every request writes.
const EXTENDED_AFTER: Duration = Duration::from_hours(1);

/// How long a one-time code can be used.
pub(crate) const CODE_LASTS: Duration = Duration::from_mins(15);

/// How many characters of chance a code or a session has: 160 bits.
const SECRET_CHARS: usize = 32;

/// How many characters a token against forged requests has.
const TOKEN_CHARS: usize = 32;

/// A one-time code or the value of a session's cookie: the credential's id and a secret.
#[derive(Clone)]
struct SecretText {
    id: CredentialId,
    text: String,
}

impl SecretText {
    fn make() -> Result<Self, NoRandomness> {
        let id = CredentialId::random().map_err(|_| NoRandomness)?;
        let text = format!("{id}{}", key::random(SECRET_CHARS)?);
        Ok(Self { id, text })
    }

    fn parse(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (id, secret) = text.split_at_checked(haft_ledger::CREDENTIAL_ID_CHARS)?;
        (is_plain && secret.len() == SECRET_CHARS).then_some(())?;
        Some(Self {
            id: CredentialId::parse(id)?,
            text: text.to_owned(),
        })
    }

    fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// What a page of this session sends along with whatever changes something.
    fn token(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"haft-form-token-1");
        hash.update(&self.text);
        let hex = hash
            .finalize()
            .iter()
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        hex.chars().take(TOKEN_CHARS).collect()
    }
}

/// A person at the console.
#[derive(Clone)]
pub(crate) struct ConsoleUser {
    pub(crate) who: Identified,
    /// What forms of this session carry.
    pub(crate) token: String,
    session: CredentialId,
}

/// What somebody who logs in may do.
struct LoginRights {
    tenant: TenantId,
    user: UserId,
    name: String,
    scopes: BTreeSet<Scope>,
    workspaces: Vec<WorkspaceId>,
    made_by: String,
}

/// A person who has just logged in.
pub(crate) struct NewSession {
    cookie: HeaderValue,
}

impl NewSession {
    /// Sets the cookie and leads to the first page.
    pub(crate) fn welcome(self) -> Response {
        let mut answer = Redirect::to("/").into_response();
        answer.headers_mut().insert(SET_COOKIE, self.cookie);
        answer
    }
}

impl Gateway {
    /// A one-time code for the first administrator of the host's own tenant, if nobody has a credential
    /// there yet.
    pub async fn first_login(&self) -> Result<Option<String>, LedgerError> {
        let (tenant, credentials) = (self.host().tenant(), self.ledger().credentials());
        for kind in [CredentialKind::ApiKey, CredentialKind::ConsoleSession] {
            if !credentials.list(tenant, kind, 1).await?.is_empty() {
                return Ok(None);
            }
        }
        self.administrator_login().await
    }

    /// A one-time code for an administrator of the host's own tenant, for whoever runs the server.
    pub async fn administrator_login(&self) -> Result<Option<String>, LedgerError> {
        let scopes = SCOPES.iter().filter_map(|scope| Scope::parse(scope).ok());
        self.login_code(LoginRights {
            tenant: self.host().tenant().clone(),
            user: UserId::local(),
            name: "administrator".to_owned(),
            scopes: scopes.collect(),
            workspaces: Vec::new(),
            made_by: "haft serve".to_owned(),
        })
        .await
    }

    /// A one-time code by which somebody logs in, with no more rights than whoever invites them has.
    pub(crate) async fn invite(
        &self,
        who: &Identified,
        user: UserId,
        scopes: Vec<String>,
    ) -> Result<String, Problem> {
        who.needs(ADMIN)?;
        let scopes: Result<BTreeSet<Scope>, _> =
            scopes.iter().map(|scope| Scope::parse(scope)).collect();
        let scopes =
            scopes.map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))?;
        if let Some(more) = scopes.iter().find(|scope| !who.scopes().contains(*scope)) {
            let more = format!("`{more}` is more than you have yourself");
            return Err(Problem::new(ProblemKind::Forbidden, more).denied_by("scope"));
        }
        let code = self
            .login_code(LoginRights {
                tenant: who.tenant().clone(),
                name: format!("invitation of {user}"),
                user,
                scopes,
                workspaces: who.only_workspaces().clone(),
                made_by: who.user().to_string(),
            })
            .await?;
        code.ok_or_else(|| Problem::new(ProblemKind::Internal, "the link could not be made"))
    }

    /// A one-time code by which a person logs in.
    async fn login_code(&self, rights: LoginRights) -> Result<Option<String>, LedgerError> {
        let Ok(code) = SecretText::make() else {
            tracing::error!("the system has no randomness, so nobody can log in");
            return Ok(None);
        };
        let now = SystemClock.now();
        let credential = Credential {
            id: code.id.clone(),
            kind: CredentialKind::LoginCode,
            tenant: rights.tenant,
            user: rights.user,
            agent: None,
            name: rights.name,
            scopes: rights.scopes,
            workspaces: rights.workspaces,
            made_by: rights.made_by,
            made: now,
            expires: Some(now.after(CODE_LASTS)),
            revoked: None,
        };
        self.ledger()
            .credentials()
            .add(credential, code.hash())
            .await?;
        Ok(Some(code.text))
    }

    /// Begins a session with a one-time code, which is used up by it.
    pub(crate) async fn log_in(&self, code: &str) -> Result<NewSession, Problem> {
        let refused = || {
            Problem::new(
                ProblemKind::Unauthorized,
                "this link was used, or is too old",
            )
            .hint("start `haft serve` again for another, or ask an administrator")
        };
        let code = SecretText::parse(code).ok_or_else(refused)?;
        let credentials = self.ledger().credentials();
        let now = SystemClock.now();
        let used = credentials.use_once(&code.id, &code.hash(), now).await?;
        let used = used.ok_or_else(refused)?;
        let session = SecretText::make().map_err(|error| {
            tracing::error!(%error, "a session could not begin");
            Problem::new(ProblemKind::Internal, "the session could not begin")
        })?;
        let credential = Credential {
            id: session.id.clone(),
            kind: CredentialKind::ConsoleSession,
            made: now,
            expires: Some(now.after(SESSION_IDLE)),
            revoked: None,
            name: format!("console of {}", used.user),
            ..used
        };
        credentials.add(credential, session.hash()).await?;
        let cookie = format!(
            "{SESSION_COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={}",
            session.text,
            SESSION_IDLE.as_secs()
        );
        let cookie = HeaderValue::from_str(&cookie)
            .map_err(|_| Problem::new(ProblemKind::Internal, "the session could not begin"))?;
        Ok(NewSession { cookie })
    }

    /// Ends a session for every process.
    pub(crate) async fn log_out(&self, user: &ConsoleUser) -> Result<Response, Problem> {
        let credentials = self.ledger().credentials();
        credentials
            .revoke(user.who.tenant(), &user.session, SystemClock.now())
            .await?;
        let mut answer = Redirect::to("/login").into_response();
        let gone = format!("{SESSION_COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0");
        if let Ok(gone) = HeaderValue::from_str(&gone) {
            answer.headers_mut().insert(SET_COOKIE, gone);
        }
        Ok(answer)
    }

    async fn session(&self, headers: &HeaderMap) -> Result<Option<ConsoleUser>, Problem> {
        let Some(session) = cookie(headers).and_then(|text| SecretText::parse(&text)) else {
            return Ok(None);
        };
        let credentials = self.ledger().credentials();
        let now = SystemClock.now();
        let found = credentials
            .verify(&session.id, &session.hash(), now)
            .await?;
        let Some(found) = found.filter(|found| found.kind == CredentialKind::ConsoleSession) else {
            return Ok(None);
        };
        let ends = now.after(SESSION_IDLE);
        if found
            .expires
            .is_some_and(|expires| ends.since(expires) > EXTENDED_AFTER)
        {
            credentials.extend(&found.tenant, &found.id, ends).await?;
        }
        Ok(Some(ConsoleUser {
            token: session.token(),
            session: session.id,
            who: Identified::of(found)?,
        }))
    }
}

/// The value of the session's cookie; none if there are several.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get_all(COOKIE).iter();
    let sent = sent.filter_map(|cookies| cookies.to_str().ok());
    let pairs = sent.flat_map(|cookies| cookies.split(';'));
    let mut ours = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == SESSION_COOKIE).then(|| value.to_owned())
    });
    let first = ours.next();
    first.filter(|_| ours.next().is_none())
}

/// Whether a request that changes something comes from one of our own pages, as far as the browser says.
pub(crate) fn is_of_our_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    // An older browser. It says where the page is from, or at least that there was none.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.and_then(|origin| Url::parse(origin).ok());
    let authority = origin.and_then(|origin| {
        let named = origin.host_str()?.to_owned();
        Some(
            origin
                .port()
                .map_or(named.clone(), |port| format!("{named}:{port}")),
        )
    });
    authority.is_some() && authority.as_deref() == host
}

/// Nobody is logged in: people are led to where they can.
pub(crate) enum NoSession {
    LogIn,
    Failed(Problem),
}

impl IntoResponse for NoSession {
    fn into_response(self) -> Response {
        match self {
            Self::LogIn => Redirect::to("/login").into_response(),
            Self::Failed(problem) => problem.into_response(),
        }
    }
}

impl FromRequestParts<Gateway> for ConsoleUser {
    type Rejection = NoSession;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Self, NoSession> {
        let changes = parts.method != Method::GET && parts.method != Method::HEAD;
        if changes && !is_of_our_page(&parts.headers) {
            return Err(NoSession::Failed(Problem::new(
                ProblemKind::Forbidden,
                "this did not come from a page of the console",
            )));
        }
        let found = gateway.session(&parts.headers).await;
        found.map_err(NoSession::Failed)?.ok_or(NoSession::LogIn)
    }
}

impl ConsoleUser {
    /// Fails unless a form carries this session's token.
    pub(crate) fn check(&self, token: &str) -> Result<(), Problem> {
        let (ours, theirs) = (Sha256::digest(&self.token), Sha256::digest(token));
        let differing = ours.iter().zip(theirs.iter());
        if differing.fold(0, |found, (a, b)| found | (a ^ b)) == 0 {
            return Ok(());
        }
        Err(
            Problem::new(ProblemKind::Forbidden, "this form is of another session")
                .hint("load the page again"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(http::HeaderName, HeaderValue)>>()
            .into_iter()
            .collect()
    }

    #[test]
    fn a_cookie_is_one_of_ours_or_none() {
        for (sent, expect) in [
            ("__Host-haft=abc", Some("abc")),
            ("a=b; __Host-haft=abc; c=d", Some("abc")),
            ("haft=abc", None),
            ("__Host-haft=a; __Host-haft=b", None),
            ("", None),
        ] {
            assert_eq!(
                cookie(&headers(&[("cookie", sent)])).as_deref(),
                expect,
                "{sent}"
            );
        }
    }

    #[test]
    fn a_request_of_another_page_is_not_ours() {
        for (sent, expect) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("host", "h:1"), ("origin", "http://h:1")], true),
            (&[("host", "h"), ("origin", "https://h")], true),
            (&[("host", "h:1"), ("origin", "http://h:2")], false),
            (&[("host", "h:1"), ("origin", "http://evil:1")], false),
            (&[("host", "h:1"), ("origin", "null")], false),
            (&[("host", "h:1")], false),
        ] {
            assert_eq!(is_of_our_page(&headers(sent)), expect, "{sent:?}");
        }
    }

    #[test]
    fn a_secret_is_read_as_it_was_made() {
        let made = SecretText::make().unwrap();
        let read = SecretText::parse(&made.text).unwrap();
        assert_eq!((read.hash(), read.token()), (made.hash(), made.token()));
        assert!(SecretText::parse(&made.text[1..]).is_none());
        assert!(SecretText::parse("").is_none());
    }
}
