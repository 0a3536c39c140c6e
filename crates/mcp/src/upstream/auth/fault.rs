//! Why a login failed.

use std::{borrow::Cow, time::Duration};

use haft_contract::surface::NextStep;
use rmcp::transport::auth::AuthError;

use super::{
    guard::{Refusal, printable},
    vault::VaultError,
    web::SeenFaults,
};

/// Why a login failed. No variant holds a token, a code or a secret, or text from a server that has
/// seen one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// A request that must not be made, or an answer that is too large.
    #[error("the login led to something that is not allowed: {0}")]
    Refused(Refusal),
    /// A server did not answer.
    #[error("`{0}` does not answer")]
    Unreachable(String),
    /// The server does not publish how to log in.
    #[error("the server does not say how to log in to it")]
    NotOffered,
    /// The published login metadata is unusable.
    #[error("what the server publishes about logging in cannot be used: {0}")]
    Metadata(String),
    /// The metadata is for another server, so a token obtained with it would be, too.
    #[error("the server's metadata describes another server, so a token would be for that server")]
    WrongResource,
    /// The authorization server does not support PKCE with S256, or does not announce it.
    #[error("the authorization server does not offer PKCE with S256")]
    NoPkce,
    /// An authorization server other than the expected one answered.
    #[error("the answer came from issuer `{received}`, expected `{expected}`")]
    WrongIssuer {
        /// The one that was asked.
        expected: String,
        /// The one that answered.
        received: String,
    },
    /// A client secret is configured without the issuer it belongs to.
    #[error(
        "the client has a secret, but `oauth.issuer` does not say which authorization server may have it"
    )]
    SecretForAnybody,
    /// The authorization server does not name itself, but must.
    #[error("the answer does not name its issuer, expected `{0}`")]
    NoIssuer(String),
    /// The authorization server offers no way to register a client.
    #[error("the authorization server does not support client registration")]
    NoRegistration,
    /// The login page is not safe to send a person to.
    #[error("the login page is not safe to open: {0}")]
    Page(Refusal),
    /// The redirect is not a valid answer to this login.
    #[error("the redirect does not belong to this login: {0}")]
    Callback(&'static str),
    /// The person, or the authorization server, said no.
    #[error("logging in was refused: {0}")]
    Denied(String),
    /// The authorization server answered with an error.
    #[error("the authorization server answered with `{0}`")]
    Answered(String),
    /// The exchange returned no token, and no reason that can be shown.
    #[error("the authorization server gave no usable token")]
    NoToken,
    /// The token is of a type that cannot be sent.
    #[error("the token is not a bearer token")]
    TokenType,
    /// Nobody is logged in, or the login has ended.
    #[error("somebody has to log in first")]
    LoginNeeded,
    /// The login took too long.
    #[error("nobody finished logging in within {} s", .0.as_secs())]
    Slow(Duration),
    /// Cancelled from our side.
    #[error("logging in was stopped")]
    Cancelled,
    /// The token store is unusable.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl LoginError {
    /// What to do next.
    pub fn hint(&self) -> Cow<'static, str> {
        let hint = match self {
            Self::Refused(_) | Self::Page(_) => {
                "check the server's address; hosts of your own network are named in `oauth.private_hosts`"
            }
            Self::Unreachable(_) | Self::NoToken | Self::Answered(_) => "try again later",
            Self::NotOffered => "if the server takes a fixed token, set it under `headers`",
            Self::Metadata(_)
            | Self::WrongResource
            | Self::NoPkce
            | Self::WrongIssuer { .. }
            | Self::NoIssuer(_) => {
                "tell whoever runs the server; it was sent no code, token or secret"
            }
            Self::TokenType => {
                "tell whoever runs the authorization server; the token was not kept or used"
            }
            Self::SecretForAnybody => {
                "set `oauth.issuer` to the address of the authorization server that gave the secret"
            }
            Self::NoRegistration => {
                "register a client with the authorization server and set `oauth.client_id`"
            }
            Self::Callback(_)
            | Self::Denied(_)
            | Self::Slow(_)
            | Self::Cancelled
            | Self::LoginNeeded => return NextStep::LogInAgain.words(),
            Self::Vault(_) => "check that the data directory is yours and has room",
        };
        hint.into()
    }

    /// Combines the SDK's error text with the typed faults seen on the way.
    pub(super) fn of(error: &AuthError, seen: SeenFaults) -> Self {
        if let Some(refusal) = seen.refusal {
            return Self::Refused(refusal);
        }
        match error {
            AuthError::PkceUnsupported => Self::NoPkce,
            AuthError::AuthorizationServerMismatch {
                expected_issuer,
                received_issuer,
            } => Self::WrongIssuer {
                expected: printable(expected_issuer),
                received: printable(received_issuer),
            },
            AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
                Self::NoIssuer(printable(expected_issuer))
            }
            AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired => {
                Self::LoginNeeded
            }
            _ if seen.unreachable.is_some() => {
                Self::Unreachable(seen.unreachable.unwrap_or_default())
            }
            // The SDK has no type for this; a test pins these words.
            AuthError::MetadataError(why) if why.contains("resource mismatch") => {
                Self::WrongResource
            }
            AuthError::MetadataError(why) => Self::Metadata(printable(why)),
            AuthError::NoAuthorizationSupport => Self::NotOffered,
            AuthError::RegistrationFailed(_) => match seen.code {
                Some(code) => Self::Answered(code),
                None => Self::NoRegistration,
            },
            _ => match seen.code {
                Some(code) => Self::Answered(code),
                None => Self::NoToken,
            },
        }
    }
}
