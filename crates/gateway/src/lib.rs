//! The engine over HTTP: an API with live events, MCP and a console, for many people and agents.
//!
//! A face on the engine and nothing else: no stage, rule or query of its own. A request is identified
//! (`identify/`), turned into what `host`, the runtime or the record already offer (`api/`), and what they
//! say is written as JSON. The console (`console/`) shows what the API says and has no second way to it.
//!
//! The only crate that names axum. Read next: `gateway.rs`, then `api/calls.rs`.

mod api;
mod body;
mod console;
mod events;
mod gateway;
mod identify;
mod limits;
mod mcp;
mod open_streams;
mod openapi;
mod problem;
mod request_rates;
mod router;
mod server;
mod time;

pub use self::{
    gateway::{Gateway, RecordUse},
    identify::key::{ApiKeyText, KeyEnvironment},
    limits::Limits,
    openapi::document as openapi_document,
    server::serve,
};
