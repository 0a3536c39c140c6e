//! A mounted server at a URL: Streamable HTTP of both eras. Every body and event is bounded before
//! it is parsed, and no request follows a redirect to another origin.

mod deliver;
mod exchange;
#[cfg(test)]
mod fuzz;
mod listen;
mod server_questions;
mod sse;

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use haft_contract::future::BoxFuture;
use haft_egress::{ClientOptions, HttpClient, Redirects, SystemResolver};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::{deliver::Address, exchange::HttpExchange};
use super::{
    authorize::Authorize,
    connection::{Connect, ConnectError, Connection, ProtocolEra, RequestError},
    limits::{CLOSING, OWN_REQUEST, REDIRECTS},
    session::{self, ClientIntroduction, notices::Notices},
    wire::{DroppedMessages, Exchange, Outgoing, RequestPurpose, Wire},
};

/// How long connecting may take.
const REACHING: Duration = Duration::from_secs(10);

/// Headers reserved for the protocol or the transport.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A server's URL, and what every request to it carries.
#[derive(Clone)]
pub struct ServerAddress {
    url: Url,
    headers: HeaderMap,
    authorize: Option<Arc<dyn Authorize>>,
}

/// Why an address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Not a usable server URL.
    #[error("`{0}` is not an http or https address")]
    Url(String),
    /// A header the operator may not set.
    #[error("the header `{0}` belongs to the protocol")]
    Reserved(String),
    /// Not a valid header.
    #[error("the header `{0}` is not one HTTP can carry")]
    Header(String),
    /// The address has no reachable host.
    #[error("no request can go there: {0}")]
    Client(String),
}

impl ServerAddress {
    /// Parses a URL.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let refuse = || AddressError::Url(url.to_owned());
        let parsed = Url::parse(url).map_err(|_| refuse())?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(refuse());
        }
        Ok(Self {
            url: parsed,
            headers: HeaderMap::new(),
            authorize: None,
        })
    }

    /// Adds a header to every request. Its value is never printed.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, AddressError> {
        let refuse = || AddressError::Header(name.escape_debug().to_string());
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        let belongs = header.as_str();
        if RESERVED.contains(&belongs) || belongs.starts_with("mcp-") {
            return Err(AddressError::Reserved(belongs.to_owned()));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| refuse())?;
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(self)
    }

    /// Asks for a token before every request.
    #[must_use]
    pub fn authorize(mut self, authorize: Arc<dyn Authorize>) -> Self {
        self.authorize = Some(authorize);
        self
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl std::fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerAddress")
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

/// Opens connections to a server at a URL.
pub struct HttpConnector {
    client: Arc<HttpClient>,
    address: ServerAddress,
    introduction: ClientIntroduction,
    dropped: Arc<DroppedMessages>,
    /// The era of the last connection, so that an old server is not probed twice.
    era: Mutex<Option<ProtocolEra>>,
}

impl HttpConnector {
    /// A connector for one address.
    pub fn new(
        address: ServerAddress,
        introduction: ClientIntroduction,
    ) -> Result<Self, AddressError> {
        let options = ClientOptions {
            user_agent: format!("{}/{}", introduction.name, introduction.version),
            connect_within: REACHING,
            // Events may arrive for as long as the server has any; their reader has limits.
            request_within: None,
            redirects: Redirects::SameOrigin(REDIRECTS),
        };
        let resolver = Arc::new(SystemResolver::default());
        let client = HttpClient::for_endpoint(&address.url, resolver, options);
        let client = client.map_err(|error| AddressError::Client(error.to_string()))?;
        Ok(Self {
            client: Arc::new(client),
            address,
            introduction,
            dropped: Arc::default(),
            era: Mutex::new(None),
        })
    }

    /// Tries this era first.
    #[must_use]
    pub fn knowing(self, era: Option<ProtocolEra>) -> Self {
        Self {
            era: Mutex::new(era),
            ..self
        }
    }

    /// Counts of the messages that were dropped, over all connections.
    pub fn dropped(&self) -> &DroppedMessages {
        &self.dropped
    }

    async fn open(
        &self,
        known: Option<ProtocolEra>,
    ) -> Result<session::Session<HttpWire>, ConnectError> {
        let notices = Arc::new(Notices::new());
        let address = Arc::new(Address {
            client: Arc::clone(&self.client),
            url: self.address.url.clone(),
            headers: self.address.headers.clone(),
            authorize: self.address.authorize.clone(),
            notices: Arc::clone(&notices),
            dropped: Arc::clone(&self.dropped),
            beside: Arc::default(),
            agreed: OnceLock::new(),
            session: Mutex::new(None),
            listening: CancellationToken::new(),
            gone: CancellationToken::new(),
            why: OnceLock::new(),
        });
        let wire = HttpWire {
            address,
            listening: self.introduction.listening,
        };
        session::open_http(wire, notices, &self.introduction, known).await
    }
}

impl Connect for HttpConnector {
    fn connect<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            let known = *self.era.lock().unwrap_or_else(PoisonError::into_inner);
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ConnectError::Cancelled),
                opened = self.open(known) => opened,
            };
            let mut era = self.era.lock().unwrap_or_else(PoisonError::into_inner);
            // If a server is replaced by one of the other era, the next connection finds out.
            *era = opened.as_ref().ok().map(Connection::era);
            drop(era);
            opened.map(|session| Arc::new(session) as Arc<dyn Connection>)
        })
    }

    fn known_era(&self) -> Option<ProtocolEra> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for HttpConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpConnector")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The connection to one address. Dropping it ends its listener.
pub(crate) struct HttpWire {
    address: Arc<Address>,
    /// How long the first call waits for the server's own stream.
    listening: Duration,
}

impl HttpWire {
    /// Waits, once at most, until an older server can be heard outside of its answers.
    async fn listening(&self) {
        let address = &self.address;
        if address.era() == Some(ProtocolEra::Legacy)
            && timeout(self.listening, address.listening.cancelled())
                .await
                .is_err()
        {
            address.listening.cancel();
        }
    }

    async fn post(address: &Address, message: &Value) -> Result<(), RequestError> {
        let response = address.post(message.to_string(), &[]).await?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(address.failure(response).await)
        }
    }
}

impl Wire for HttpWire {
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Box<dyn Exchange>, RequestError>> {
        Box::pin(async move {
            let id = outgoing.id;
            let place = if outgoing.purpose == RequestPurpose::Call {
                self.listening().await;
                Some(self.address.beside.begin(id))
            } else {
                None
            };
            let response = self
                .address
                .post(outgoing.message, &outgoing.headers)
                .await?;
            let address = Arc::clone(&self.address);
            let exchange = HttpExchange::new(id, address, place, response).await?;
            Ok(Box::new(exchange) as Box<dyn Exchange>)
        })
    }

    fn send(&self, message: Value) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move {
            let sent = timeout(OWN_REQUEST, Self::post(&self.address, &message)).await;
            sent.unwrap_or(Err(RequestError::Slow(OWN_REQUEST)))
        })
    }

    fn tell(&self, message: Value) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let address = Arc::clone(&self.address);
        runtime.spawn(async move {
            let _ = timeout(CLOSING, Self::post(&address, &message)).await;
        });
    }

    fn under_way(&self) -> usize {
        self.address.beside.len()
    }

    fn closing_cancels(&self) -> bool {
        true
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn agreed(&self, era: ProtocolEra, version: &str) {
        let _ = self.address.agreed.set((era, version.to_owned()));
        if era == ProtocolEra::Legacy {
            tokio::spawn(listen::listen(Arc::clone(&self.address)));
        }
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            self.address.gone.cancelled().await;
            let why = self
                .address
                .why
                .get()
                .map_or("it was closed", String::as_str);
            why.to_owned()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.address.session().is_some() && !self.address.gone.is_cancelled() {
                let _ = timeout(CLOSING, self.address.delete()).await;
            }
            self.address.end("it was closed");
        })
    }
}

impl Drop for HttpWire {
    fn drop(&mut self) {
        self.address.end("it was closed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_its_headers_are_the_operators() {
        for url in [
            "ftp://x",
            "file:///etc/passwd",
            "x",
            "http://",
            "javascript:1",
        ] {
            assert!(ServerAddress::parse(url).is_err(), "{url}");
        }
        let address = ServerAddress::parse("https://example.com/mcp").unwrap();
        for name in ["Host", "mcp-session-id", "Mcp-Method", "Content-Type"] {
            let refused = address.clone().header(name, "x").unwrap_err();
            assert!(matches!(refused, AddressError::Reserved(_)), "{name}");
        }
        assert!(address.clone().header("x\r\ny", "x").is_err());
        assert!(address.clone().header("x-key", "a\r\nb").is_err());
        assert!(address.header("X-Api-Key", "secret").is_ok());
    }
}
