//! Determines which era a server speaks: the stateless one is tried first, and anything but a
//! proper answer means the older one.

use std::sync::{Arc, atomic::AtomicU64};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Session,
    envelope::{self, ClientIntroduction},
    notices::Notices,
    unsolicited,
};
use crate::upstream::{
    connection::{ConnectError, ProtocolEra, RequestError},
    wire::{Event, Outgoing, RequestPurpose, Wire, message},
};

/// The ids of the opening requests.
const DISCOVER: u64 = 1;
const INITIALIZE: u64 = 2;
const DISCOVER_AGAIN: u64 = 3;
const FIRST_FREE: u64 = 4;

/// The server does not speak the requested revision.
const UNSUPPORTED_VERSION: i64 = -32022;

/// What was negotiated with a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NegotiatedSession {
    pub(super) era: ProtocolEra,
    /// The revision of the protocol.
    pub(super) version: String,
    /// The server's self-description.
    pub(super) server: Value,
    pub(super) capabilities: Value,
    pub(super) instructions: Option<String>,
}

impl NegotiatedSession {
    /// Whether the server has a capability, or a flag of one.
    pub(super) fn offers(&self, pointer: &str) -> bool {
        match self.capabilities.pointer(pointer) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) => true,
        }
    }
}

/// Opens a session on pipes. A server that does not answer the newer era's probe is also sent
/// `initialize`, because it may only be slow to start.
pub(crate) async fn open_pipe<W: Wire>(
    wire: W,
    notices: Arc<Notices>,
    introduction: &ClientIntroduction,
    known: Option<ProtocolEra>,
) -> Result<Session<W>, ConnectError> {
    let agreed = match (introduction.only, known) {
        (Some(ProtocolEra::Legacy), _) | (None, Some(ProtocolEra::Legacy)) => {
            initialize(&wire, introduction).await?
        }
        (Some(ProtocolEra::Modern), _) => {
            discover(&wire, introduction).await.map_err(connect_error)?
        }
        (None, Some(ProtocolEra::Modern) | None) => probe_pipe(&wire, introduction).await?,
    };
    finish(wire, agreed, notices, introduction).await
}

async fn probe_pipe<W: Wire>(
    wire: &W,
    introduction: &ClientIntroduction,
) -> Result<NegotiatedSession, ConnectError> {
    let mut discovering = std::pin::pin!(discover(wire, introduction));
    match timeout(introduction.probe, &mut discovering).await {
        Ok(Ok(agreed)) => return Ok(agreed),
        Ok(Err(error @ (RequestError::Lost(_) | RequestError::NotSent(_)))) => {
            return Err(connect_error(error));
        }
        Ok(Err(_)) => return initialize(wire, introduction).await,
        Err(_) => {}
    }
    // A server of both eras treats a connection with `initialize` as the older era.
    match initialize(wire, introduction).await {
        Ok(agreed) => Ok(agreed),
        Err(error) => discovering.await.map_err(|_| error),
    }
}

/// Opens a session over HTTP.
pub(crate) async fn open_http<W: Wire>(
    wire: W,
    notices: Arc<Notices>,
    introduction: &ClientIntroduction,
    known: Option<ProtocolEra>,
) -> Result<Session<W>, ConnectError> {
    let agreed = match (introduction.only, known) {
        (Some(ProtocolEra::Legacy), _) | (None, Some(ProtocolEra::Legacy)) => {
            initialize(&wire, introduction).await?
        }
        (Some(ProtocolEra::Modern), _) => {
            discover(&wire, introduction).await.map_err(connect_error)?
        }
        (None, Some(ProtocolEra::Modern) | None) => match discover(&wire, introduction).await {
            Ok(agreed) => agreed,
            Err(RequestError::LoginNeeded) => return Err(ConnectError::LoginNeeded),
            Err(_) => initialize(&wire, introduction).await?,
        },
    };
    finish(wire, agreed, notices, introduction).await
}

async fn finish<W: Wire>(
    wire: W,
    agreed: NegotiatedSession,
    notices: Arc<Notices>,
    introduction: &ClientIntroduction,
) -> Result<Session<W>, ConnectError> {
    wire.agreed(agreed.era, &agreed.version);
    if agreed.era == ProtocolEra::Legacy {
        let initialized = message::notification("notifications/initialized", &json!({}));
        wire.send(initialized).await.map_err(connect_error)?;
    }
    let ids = AtomicU64::new(FIRST_FREE);
    Ok(Session::start(wire, agreed, introduction, notices, ids))
}

/// Probes for the stateless era; any error means that the server does not speak it.
async fn discover<W: Wire>(
    wire: &W,
    introduction: &ClientIntroduction,
) -> Result<NegotiatedSession, RequestError> {
    let meta = introduction.meta(envelope::MODERN, introduction.abilities);
    let parameters = json!({ "_meta": meta });
    let result = match ask(wire, introduction, DISCOVER, "server/discover", &parameters).await {
        Err(error) if names_our_revision(&error) => {
            ask(
                wire,
                introduction,
                DISCOVER_AGAIN,
                "server/discover",
                &parameters,
            )
            .await?
        }
        result => result?,
    };
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    let speaks = |version: &Value| version.as_str() == Some(envelope::MODERN);
    if !versions.is_some_and(|versions| versions.iter().any(speaks)) {
        let why = "it does not speak a stateless revision we know".to_owned();
        return Err(RequestError::Protocol(why));
    }
    let server = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
    Ok(NegotiatedSession {
        era: ProtocolEra::Modern,
        version: envelope::MODERN.to_owned(),
        server: server.cloned().unwrap_or_default(),
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        instructions: words(&result, "instructions"),
    })
}

/// Whether a server refused a revision that it also lists as supported. It may have been replaced
/// at that moment, so it is asked once more.
fn names_our_revision(error: &RequestError) -> bool {
    let RequestError::Answered { code, data, .. } = error else {
        return false;
    };
    let named = data.as_ref().and_then(|data| data.get("supported"));
    let ours = |version: &Value| version.as_str() == Some(envelope::MODERN);
    *code == UNSUPPORTED_VERSION
        && named
            .and_then(Value::as_array)
            .is_some_and(|named| named.iter().any(ours))
}

/// Negotiates with `initialize`.
async fn initialize<W: Wire>(
    wire: &W,
    introduction: &ClientIntroduction,
) -> Result<NegotiatedSession, ConnectError> {
    let parameters = introduction.initialize();
    let result = ask(wire, introduction, INITIALIZE, "initialize", &parameters).await;
    let result = result.map_err(connect_error)?;
    let version = words(&result, "protocolVersion").unwrap_or_default();
    if !envelope::LEGACY.contains(&version.as_str()) {
        let shown: String = version
            .chars()
            .take(32)
            .flat_map(char::escape_debug)
            .collect();
        let why =
            format!("it answered `initialize` with revision `{shown}`, which Haft does not know");
        return Err(ConnectError::Protocol(why));
    }
    Ok(NegotiatedSession {
        era: ProtocolEra::Legacy,
        version,
        server: result.get("serverInfo").cloned().unwrap_or_default(),
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        instructions: words(&result, "instructions"),
    })
}

fn words(result: &Value, key: &str) -> Option<String> {
    result.get(key)?.as_str().map(str::to_owned)
}

/// Sends one of the opening requests and waits for its result.
async fn ask<W: Wire>(
    wire: &W,
    introduction: &ClientIntroduction,
    id: u64,
    method: &str,
    parameters: &Value,
) -> Result<Value, RequestError> {
    let mut headers = Vec::new();
    if wire.has_headers() && id != INITIALIZE {
        headers = super::headers::ParameterHeaders::default().of(method, parameters);
        headers.extend(envelope::version_header(envelope::MODERN));
    }
    let outgoing = Outgoing {
        id,
        purpose: RequestPurpose::Own,
        message: message::request(id, method, parameters)?,
        headers,
    };
    let answered = async {
        let mut exchange = wire.open(outgoing).await?;
        loop {
            match exchange.next().await? {
                Event::Answer(answer) => return answer,
                Event::Asked { id, method, .. } => {
                    wire.send(message::answer(&id, unsolicited(&method)))
                        .await?;
                }
                Event::Progress(_) | Event::Log(_) | Event::Notice { .. } => {}
            }
        }
    };
    let allowed = introduction.patience;
    let answered = timeout(allowed, answered).await;
    answered.unwrap_or(Err(RequestError::Slow(allowed)))
}

fn connect_error(error: RequestError) -> ConnectError {
    match error {
        RequestError::LoginNeeded => ConnectError::LoginNeeded,
        RequestError::Cancelled => ConnectError::Cancelled,
        RequestError::Slow(allowed) => ConnectError::Slow(allowed),
        RequestError::Lost(why) | RequestError::NotSent(why) => ConnectError::Unreachable(why),
        RequestError::Protocol(why) => ConnectError::Protocol(why),
        error @ (RequestError::Answered { .. }
        | RequestError::Outdated(_)
        | RequestError::Busy(_)
        | RequestError::Down { .. }
        | RequestError::Withheld(_)
        | RequestError::OtherOwner(_)) => ConnectError::Protocol(error.to_string()),
    }
}
