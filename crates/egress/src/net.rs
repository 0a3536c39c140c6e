//! The network operations of a workspace, for tools whose plan names a host. The runtime has
//! already checked the call against its plan; what remains is the admission of addresses.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use haft_contract::{
    BoxFuture, ErrorKind,
    egress::{Host, Resolve},
    ops::{Fetch, FetchResponse, NetOps, NetStream, OpsError},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use url::Url;

use crate::{
    admission::{Admission, AdmissionScope, ConnectError},
    client::{ClientOptions, HttpClient, HttpError, HttpRequest, HttpResponse},
    decompress::{BodyReader, Encoding, RestOfBody},
};

/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The largest answer accepted, whatever a tool asks for.
const MAX_FETCH_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes that one read returns.
const MAX_READ_BYTES: usize = 1024 * 1024;

/// Network access within an admission.
pub struct Network {
    admission: Arc<Admission>,
    client: HttpClient,
}

impl Network {
    /// Access to what `reach` allows.
    pub fn new(reach: AdmissionScope, resolver: Arc<dyn Resolve>) -> Self {
        let admission = Arc::new(Admission::new(reach, resolver, CONNECT_WITHIN));
        let options = ClientOptions {
            connect_within: CONNECT_WITHIN,
            // Each request has its own limit.
            request_within: None,
            ..ClientOptions::default()
        };
        Self {
            client: HttpClient::new(Arc::clone(&admission), options),
            admission,
        }
    }

    async fn request(
        &self,
        denied: &[IpAddr],
        request: &Fetch<'_>,
    ) -> Result<FetchResponse, OpsError> {
        let sent = self.client.send_unless(denied.into(), prepared(request)?);
        let mut answer = sent.await.map_err(|error| refused(request.host, error))?;
        let status = answer.status().as_u16();
        let headers = answer.headers().iter().filter_map(|(name, value)| {
            let value = value.to_str().ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        });
        let headers = headers.collect();
        let most = request.max_bytes.min(MAX_FETCH_BYTES);
        let body = if asks_for_encodings(request) {
            // The tool decodes what it asked for.
            answer
                .body(most)
                .await
                .map_err(|error| refused(request.host, error))?
        } else {
            decompressed(&mut answer, request, most).await?
        };
        Ok(FetchResponse {
            status,
            headers,
            body,
            kept: None,
        })
    }
}

impl NetOps for Network {
    fn connect<'a>(
        &'a self,
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        self.connect_unless(&[], host, port)
    }

    fn connect_unless<'a>(
        &'a self,
        denied: &'a [IpAddr],
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        Box::pin(async move {
            let admission = self.admission.without(denied.into());
            match admission.connect(host, port).await {
                Ok(stream) => Ok(Box::new(Connection(stream)) as Box<dyn NetStream>),
                Err(ConnectError::Denied(denial)) => {
                    Err(OpsError::new(ErrorKind::Denied, denial.to_string()))
                }
                Err(ConnectError::Unreachable(error)) => {
                    let message = format!("`{host}:{port}` cannot be reached: {error}");
                    Err(OpsError::new(ErrorKind::Unavailable, message))
                }
            }
        })
    }

    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        self.fetch_unless(&[], request)
    }

    fn fetch_unless<'a>(
        &'a self,
        denied: &'a [IpAddr],
        request: Fetch<'a>,
    ) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        Box::pin(async move {
            let answered = tokio::time::timeout(request.within, self.request(denied, &request));
            answered.await.unwrap_or_else(|_| {
                let (host, within) = (request.host, request.within);
                let message = format!("`{host}` did not answer within {within:?}");
                Err(OpsError::new(ErrorKind::TimedOut, message))
            })
        })
    }
}

/// Whether a tool says itself which encodings it takes.
fn asks_for_encodings(request: &Fetch<'_>) -> bool {
    let mut names = request.headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(http::header::ACCEPT_ENCODING.as_str()))
}

/// The body as it was before it was compressed, up to this many bytes. No more than that is ever in
/// memory, however small the compressed body is.
async fn decompressed(
    answer: &mut HttpResponse,
    request: &Fetch<'_>,
    most: usize,
) -> Result<Vec<u8>, OpsError> {
    let mut named = answer
        .headers()
        .get_all(http::header::CONTENT_ENCODING)
        .iter();
    let encoding = match (named.next(), named.next()) {
        (None, _) => Encoding::Identity,
        (Some(named), None) => Encoding::of(named.as_bytes()).ok_or_else(|| {
            let named = String::from_utf8_lossy(named.as_bytes())
                .escape_debug()
                .to_string();
            let named: String = named.chars().take(40).collect();
            let message = format!(
                "`{}` compressed its answer as `{named}`, which nobody asked for",
                request.host
            );
            OpsError::new(ErrorKind::Unavailable, message)
        })?,
        (Some(_), Some(_)) => {
            let message = format!("`{}` compressed its answer more than once", request.host);
            return Err(OpsError::new(ErrorKind::Unavailable, message));
        }
    };
    let mut body = BodyReader::new(encoding, most);
    let lost = |error| refused(request.host, error);
    while let Some(chunk) = answer.chunk().await.map_err(lost)? {
        // What follows the end is not read: there may be no end to it.
        if body.add(&chunk)? == RestOfBody::Ignored {
            break;
        }
        // What takes long to unpack must not keep others waiting.
        tokio::task::yield_now().await;
    }
    // An answer to HEAD, or one without content, has an encoding and no body.
    body.finish()
}

/// Converts a tool's request for the client.
fn prepared(request: &Fetch<'_>) -> Result<HttpRequest, OpsError> {
    let invalid = |what: &str| OpsError::new(ErrorKind::InvalidInput, what.to_owned());
    let host = match request.host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        other => other.to_string(),
    };
    let (scheme, port) = (request.scheme.as_str(), request.port);
    if !request.target.starts_with('/') {
        return Err(invalid("the path of a request begins with a slash"));
    }
    let url = Url::parse(&format!("{scheme}://{host}:{port}{}", request.target))
        .map_err(|_| invalid("the address of the request cannot be read"))?;
    let mut headers = HeaderMap::new();
    if !asks_for_encodings(request) {
        let gzip = HeaderValue::from_static("gzip");
        headers.insert(http::header::ACCEPT_ENCODING, gzip);
    }
    for (name, value) in request.headers {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        match (name, value) {
            // The host comes from the plan, whatever the tool wants to send.
            (Ok(name), Ok(_)) if name == http::header::HOST => {
                return Err(invalid("a tool may not set the header `host`"));
            }
            (Ok(name), Ok(value)) => {
                headers.append(name, value);
            }
            (_, _) => return Err(invalid("a header of the request is invalid")),
        }
    }
    Ok(HttpRequest {
        method: Method::try_from(request.method).map_err(|_| invalid("there is no such method"))?,
        url,
        headers,
        body: Bytes::copy_from_slice(request.body),
    })
}

/// What the library says around the cause of a request that was not sent. The host says more.
const AROUND_THE_CAUSE: [&str; 4] = [
    "error sending request: ",
    "client error (Connect): ",
    "dns error: ",
    "error resolving DNS: ",
];

/// Why nothing was sent, in words that name the host.
fn not_sent(host: &Host, why: &str) -> String {
    let mut cause = why;
    for words in AROUND_THE_CAUSE {
        cause = cause.strip_prefix(words).unwrap_or(cause);
    }
    match cause.strip_prefix("failed to lookup address information: ") {
        Some(why) => format!("the host `{host}` was not found: {why}"),
        None => format!("`{host}` cannot be reached: {cause}"),
    }
}

fn refused(host: &Host, error: HttpError) -> OpsError {
    let kind = match &error {
        HttpError::Address(_) => ErrorKind::InvalidInput,
        HttpError::Denied(_) => ErrorKind::Denied,
        HttpError::NotSent(_) => ErrorKind::Unavailable,
        HttpError::Lost(_) => ErrorKind::Lost,
        HttpError::TooLarge(_) | HttpError::TooManyHeaders => ErrorKind::LimitExceeded,
    };
    let message = match &error {
        HttpError::NotSent(why) => not_sent(host, why),
        other => other.to_string(),
    };
    OpsError::new(kind, message)
}

/// A connection of a tool.
struct Connection(TcpStream);

impl NetStream for Connection {
    fn read(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, OpsError>> {
        Box::pin(async move {
            let mut bytes = vec![0; limit.min(MAX_READ_BYTES)];
            let read = self.0.read(&mut bytes).await.map_err(lost)?;
            bytes.truncate(read);
            Ok(bytes)
        })
    }

    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move { self.0.write_all(bytes).await.map_err(lost) })
    }
}

fn lost(error: io::Error) -> OpsError {
    OpsError::new(ErrorKind::Lost, format!("the connection broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_names_the_host_and_the_cause() {
        let host = Host::parse("nix.invalid").unwrap();
        let said = |why: &str| refused(&host, HttpError::NotSent(why.to_owned())).to_string();
        assert_eq!(
            said(
                "error sending request: client error (Connect): dns error: error resolving DNS: \
                 failed to lookup address information: Name or service not known"
            ),
            "the host `nix.invalid` was not found: Name or service not known"
        );
        assert_eq!(
            said("error sending request: client error (Connect): timed out"),
            "`nix.invalid` cannot be reached: timed out"
        );
    }
}
