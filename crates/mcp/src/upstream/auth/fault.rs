//! Why somebody is not logged in.

use std::time::Duration;

use rmcp::transport::auth::AuthError;

use super::{
    guard::{Refusal, printable},
    vault::VaultError,
    web::SeenFaults,
};

/// Why somebody is not logged in. No variant holds a token, a code or a secret, nor text of the
/// server that has seen one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Something on the way must not be reached, or answered with too much.
    #[error("logging in leads where it must not: {0}")]
    Refused(Refusal),
    /// Somebody on the way did not answer.
    #[error("`{0}` does not answer")]
    Unreachable(String),
    /// The server says nowhere how to log in.
    #[error("the server does not say how to log in to it")]
    NotOffered,
    /// What is published about logging in cannot be used.
    #[error("what the server publishes about logging in cannot be used: {0}")]
    Metadata(String),
    /// The metadata is for another server: a token for it would be another server's.
    #[error("the server's metadata is about another server, so that a token would be for that one")]
    WrongResource,
    /// The authorization server does not do PKCE with S256, or does not say so.
    #[error("the authorization server does not offer PKCE with S256")]
    NoPkce,
    /// Somebody else than the expected authorization server speaks.
    #[error("the answer is of issuer `{received}`, expected was `{expected}`")]
    WrongIssuer {
        /// Who was asked.
        expected: String,
        /// Who answered.
        received: String,
    },
    /// There is a secret for a client, and nobody said whose client it is.
    #[error(
        "the client has a secret, and `oauth.issuer` does not say which authorization server may have it"
    )]
    SecretForAnybody,
    /// The authorization server does not say who it is, but should.
    #[error("the answer does not say of which issuer it is, expected was `{0}`")]
    NoIssuer(String),
    /// There is no way to become a client of the authorization server.
    #[error("the authorization server registers nobody by itself")]
    NoRegistration,
    /// The page to log in on is not one to send a person to.
    #[error("the page to log in on is not one to open: {0}")]
    Page(Refusal),
    /// What came back is not what the page sends back.
    #[error("what came back is no answer to this login: {0}")]
    Callback(&'static str),
    /// The person, or the authorization server, said no.
    #[error("logging in was refused: {0}")]
    Denied(String),
    /// The authorization server answered with an error.
    #[error("the authorization server answered with `{0}`")]
    Answered(String),
    /// The exchange gave no token, and no reason that can be shown.
    #[error("the authorization server gave no usable token")]
    NoToken,
    /// A token of a kind that cannot be sent.
    #[error("the token is not a bearer token")]
    TokenType,
    /// Nobody is logged in, or no longer.
    #[error("somebody has to log in first")]
    LoginNeeded,
    /// It took too long.
    #[error("nobody finished logging in within {} s", .0.as_secs())]
    Slow(Duration),
    /// Stopped from our side.
    #[error("logging in was stopped")]
    Cancelled,
    /// The place where tokens are kept cannot be used.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl LoginError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Refused(_) | Self::Page(_) => {
                "check the server's address; hosts of your own network are named in `oauth.private_hosts`"
            }
            Self::Unreachable(_) | Self::NoToken | Self::Answered(_) => "try again later",
            Self::NotOffered => "if the server takes a fixed token, set it under `headers`",
            Self::Metadata(_)
            | Self::WrongResource
            | Self::NoPkce
            | Self::WrongIssuer { .. }
            | Self::NoIssuer(_)
            | Self::TokenType => "tell whoever runs the server; nothing was sent to it",
            Self::SecretForAnybody => {
                "set `oauth.issuer` to the address of the authorization server that gave the secret"
            }
            Self::NoRegistration => {
                "register a client with the authorization server and set `oauth.client_id`"
            }
            Self::Callback(_) | Self::Denied(_) | Self::Slow(_) | Self::Cancelled => {
                "start again with `haft mcp login`"
            }
            Self::LoginNeeded => "`haft mcp login` does that",
            Self::Vault(_) => "check that the data directory is yours and has room",
        }
    }

    /// From the SDK's words and what was seen on the way, which has types.
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
            // The SDK has no type for it; a test holds these words.
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
