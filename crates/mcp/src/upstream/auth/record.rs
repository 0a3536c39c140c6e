//! The stored form of one login: the token, its issuer, and the client it was issued to. Only this
//! file writes and reads it.

use std::time::Duration;

use haft_contract::host::Timestamp;
use rmcp::transport::auth::OAuthTokenResponse;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::{
    fault::LoginError,
    vault::{MAX_RECORD_BYTES, VaultError},
};
use crate::upstream::authorize::BearerToken;

/// A token is replaced this long before it expires, so that it does not expire in transit.
const EARLY: Duration = Duration::from_secs(30);

/// The stored form of one login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    v: u32,
    /// The server the token is for; a record for another server is not used.
    server: Url,
    /// Who issued the token. Only this issuer is asked for the next one.
    pub(super) issuer: String,
    /// The client it was issued to.
    pub(super) client: Client,
    /// The token; none after it was permanently refused.
    token: Option<Token>,
    /// The granted scopes.
    #[serde(default)]
    pub(super) granted: Vec<String>,
    /// Further scopes the server wanted; the next login requests them.
    #[serde(default)]
    pub(super) wanted: Vec<String>,
}

/// The client a token was issued to.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) id: String,
    /// The secret of a client registered during login; a configured client's stays in the
    /// configuration.
    pub(super) secret: Option<String>,
    pub(super) redirect: String,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    access: String,
    refresh: Option<String>,
    /// Seconds since 1970; none if the issuer did not say.
    expires: Option<i64>,
}

/// The fields of a token response that are used. Nothing else in it is kept.
#[derive(Deserialize)]
struct Response {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
}

impl Record {
    /// Makes a record from a new token.
    pub(super) fn new(
        server: &Url,
        issuer: String,
        client: Client,
        token: &OAuthTokenResponse,
        granted: Vec<String>,
        now: Timestamp,
    ) -> Result<Self, LoginError> {
        Ok(Self {
            v: 1,
            server: server.clone(),
            issuer,
            client,
            token: Some(Token::of(token, now)?),
            granted,
            wanted: Vec::new(),
        })
    }

    /// Reads a record; one for another server or version is none.
    pub(super) fn read(bytes: &[u8], server: &Url) -> Result<Self, VaultError> {
        // serde's message could quote the record.
        let record: Self = serde_json::from_slice(bytes).map_err(|_| {
            VaultError("a record of a login is damaged; log out to remove it".into())
        })?;
        if record.v != 1 || record.server != *server {
            let why = "a record of a login is not of this server or version; log out to remove it";
            return Err(VaultError(why.into()));
        }
        Ok(record)
    }

    /// Serializes the record for the vault.
    pub(super) fn write(&self) -> Result<Vec<u8>, VaultError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|_| VaultError("the record of a login cannot be written".into()))?;
        if bytes.len() > MAX_RECORD_BYTES {
            let why = format!("the record of a login has more than {MAX_RECORD_BYTES} bytes");
            return Err(VaultError(why));
        }
        Ok(bytes)
    }

    /// The token, if it can be sent now.
    pub(super) fn usable(&self, now: Timestamp) -> Option<BearerToken> {
        let token = self.token.as_ref()?;
        let fresh = token
            .expires
            .is_none_or(|expires| expires > seconds(now.after(EARLY)));
        fresh.then(|| BearerToken::new(token.access.clone()))
    }

    /// Whether a new token can be obtained without a person.
    pub(super) fn can_refresh(&self) -> bool {
        self.token
            .as_ref()
            .is_some_and(|token| token.refresh.is_some())
    }

    /// Whether there is a token, or a way to get one.
    pub(super) fn is_logged_in(&self, now: Timestamp) -> bool {
        self.can_refresh() || self.usable(now).is_some()
    }

    /// All scopes for the next login, if the server ever wanted more than it first named.
    pub(super) fn asked_for(&self) -> Vec<String> {
        if self.wanted.is_empty() {
            return Vec::new();
        }
        let both = self.granted.iter().chain(&self.wanted);
        both.cloned().collect()
    }

    /// The same login with a new token. A response without a refresh token keeps the old one.
    pub(super) fn renewed(
        &self,
        token: &OAuthTokenResponse,
        granted: Vec<String>,
        now: Timestamp,
    ) -> Result<Self, LoginError> {
        let mut token = Token::of(token, now)?;
        if token.refresh.is_none() {
            token.refresh = self.token.as_ref().and_then(|old| old.refresh.clone());
        }
        Ok(Self {
            token: Some(token),
            granted,
            ..self.clone()
        })
    }

    /// The same login without its token, which is no longer valid.
    pub(super) fn spent(&self) -> Self {
        Self {
            token: None,
            ..self.clone()
        }
    }

    /// The token as the SDK's type.
    pub(super) fn for_sdk(&self) -> Option<OAuthTokenResponse> {
        let token = self.token.as_ref()?;
        let response = json!({
            "access_token": token.access,
            "token_type": "bearer",
            "refresh_token": token.refresh,
        });
        serde_json::from_value(response).ok()
    }
}

impl Token {
    fn of(token: &OAuthTokenResponse, now: Timestamp) -> Result<Self, LoginError> {
        let response = serde_json::to_value(token).map_err(|_| LoginError::NoToken)?;
        let response: Response =
            serde_json::from_value(response).map_err(|_| LoginError::NoToken)?;
        if !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(LoginError::TokenType);
        }
        let sendable = |c: char| c.is_ascii_graphic();
        if response.access_token.is_empty() || !response.access_token.chars().all(sendable) {
            return Err(LoginError::NoToken);
        }
        let lasts = Duration::from_secs;
        Ok(Self {
            access: response.access_token,
            refresh: response.refresh_token,
            expires: response
                .expires_in
                .map(|left| seconds(now.after(lasts(left)))),
        })
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.0 / 1_000_000
}
