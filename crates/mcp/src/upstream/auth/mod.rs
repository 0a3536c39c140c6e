//! Logging in to mounted servers: OAuth 2.1 as the protocol profiles it.
//!
//! The SDK knows the protocol: discovery, registration, the code and its exchange. This module
//! decides the rest: where its requests may go (`guard`), what an authorization server must offer
//! and what a redirect must carry (`flow`), where tokens live and who refreshes them
//! ([`credential`]). The SDK logs codes and parts of tokens, so it runs with logging off.
//!
//! A token is for one server, one user and one issuer. It is never printed, never part of an error,
//! and sent only in requests to that server. What an agent presents to Haft is never passed on:
//! nothing here can even see it.

pub mod credential;
mod fault;
mod flow;
mod guard;
pub mod person;
mod record;
pub mod vault;
mod web;

pub use credential::{Credential, CredentialParts, Login};
pub use fault::LoginError;
pub use flow::{ClientIdentity, OauthOptions, Secret};
pub use guard::Refusal;
