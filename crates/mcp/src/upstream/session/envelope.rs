//! What the protocol adds to a request's own parameters.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value, json};

use super::negotiate::NegotiatedSession;
use crate::{
    client::{Client, ClientAbilities},
    upstream::{
        connection::ProtocolEra,
        limits::{LISTENING, OWN_REQUEST, PROBE},
    },
};

/// The newest revision with `initialize`.
pub(super) const NEWEST_LEGACY: &str = "2025-11-25";

/// Every revision with `initialize`.
pub(super) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// The stateless revision.
pub(super) const MODERN: &str = "2026-07-28";

/// The server's view of the headers differs from ours.
pub(super) const HEADER_MISMATCH: i64 = -32020;

/// The server needs a capability that the call's client did not declare.
pub(super) const MISSING_CAPABILITY: i64 = -32021;

/// The header that names the revision.
pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";

/// The `_meta` key.
const META: &str = "_meta";

/// How Haft introduces itself to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIntroduction {
    /// The name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What an `initialize` server is told it may ask, for the whole connection. A call whose
    /// client cannot be asked refuses. A stateless server is told with every request.
    pub abilities: ClientAbilities,
    /// How long a process may take to show that it speaks the stateless era before the older one is
    /// tried in parallel.
    pub probe: Duration,
    /// How long a server may take to answer its first request at all: it may have to download
    /// itself first.
    pub patience: Duration,
    /// How long the first call to an older server waits until the server's own stream is open.
    pub listening: Duration,
    /// The only era to speak, if the operator configured it; otherwise it is probed.
    pub only: Option<ProtocolEra>,
}

impl Default for ClientIntroduction {
    fn default() -> Self {
        Self {
            name: "haft".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            abilities: ClientAbilities {
                elicit_form: true,
                elicit_url: true,
                sample: true,
                roots: false,
            },
            probe: PROBE,
            patience: OWN_REQUEST,
            listening: LISTENING,
            only: None,
        }
    }
}

impl ClientIntroduction {
    fn implementation(&self) -> Value {
        json!({ "name": self.name, "version": self.version })
    }

    /// The parameters of `initialize`.
    pub(super) fn initialize(&self) -> Value {
        json!({
            "protocolVersion": NEWEST_LEGACY,
            "capabilities": capabilities(self.abilities),
            "clientInfo": self.implementation(),
        })
    }

    /// `_meta` of a stateless request.
    pub(super) fn meta(&self, version: &str, abilities: ClientAbilities) -> Map<String, Value> {
        let key = |name: &str| format!("io.modelcontextprotocol/{name}");
        let mut meta = Map::new();
        meta.insert(key("protocolVersion"), json!(version));
        meta.insert(key("clientInfo"), self.implementation());
        meta.insert(key("clientCapabilities"), capabilities(abilities));
        meta
    }
}

fn capabilities(abilities: ClientAbilities) -> Value {
    let mut capabilities = Map::new();
    let mut elicitation = Map::new();
    if abilities.elicit_form {
        elicitation.insert("form".to_owned(), json!({}));
    }
    if abilities.elicit_url {
        elicitation.insert("url".to_owned(), json!({}));
    }
    if !elicitation.is_empty() {
        capabilities.insert("elicitation".to_owned(), Value::Object(elicitation));
    }
    if abilities.sample {
        capabilities.insert("sampling".to_owned(), json!({}));
    }
    if abilities.roots {
        capabilities.insert("roots".to_owned(), json!({}));
    }
    Value::Object(capabilities)
}

/// A request's parameters plus what the protocol adds. Borrowed, because they may be large and are
/// only serialized.
pub(super) struct RequestEnvelope<'a> {
    own: Option<&'a Map<String, Value>>,
    meta: Map<String, Value>,
}

impl<'a> RequestEnvelope<'a> {
    pub(super) fn new(
        own: &'a Value,
        id: u64,
        agreed: &NegotiatedSession,
        introduction: &ClientIntroduction,
        client: Option<&Arc<dyn Client>>,
    ) -> Self {
        let mut meta = match own.get(META) {
            Some(Value::Object(meta)) => meta.clone(),
            _ => Map::new(),
        };
        if agreed.era == ProtocolEra::Modern {
            let abilities = client.map(|client| client.abilities()).unwrap_or_default();
            meta.extend(introduction.meta(&agreed.version, abilities));
            if let Some(level) = client.and_then(|client| client.log_level()) {
                meta.insert("io.modelcontextprotocol/logLevel".to_owned(), json!(level));
            }
        }
        meta.insert("progressToken".to_owned(), json!(id));
        Self {
            own: own.as_object(),
            meta,
        }
    }
}

impl Serialize for RequestEnvelope<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let own = self.own.into_iter().flatten();
        let mut map = to.serialize_map(None)?;
        for (key, value) in own.filter(|(key, _)| *key != META) {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry(META, &self.meta)?;
        map.end()
    }
}

/// The header that names a revision.
pub(super) fn version_header(version: &str) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_str(version).ok()?;
    Some((HeaderName::from_static(VERSION_HEADER), value))
}
