//! Asks a public registry which version a tag means. One request for each package, over TLS, to
//! the registry's own host and nowhere else; a redirect is not followed, the answer has a cap, and
//! whatever goes wrong means that no version is known.

use std::{sync::Arc, time::Duration};

use haft_egress::{ClientOptions, HttpClient, HttpRequest, Redirects, SystemResolver};
use http::{Method, StatusCode};
use serde_json::Value;
use tracing::debug;
use url::Url;

use crate::config::launcher::{PackageIndex, UnpinnedPackage};

/// How long connecting may take.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// How long one request may take in total.
const REQUEST_WAIT: Duration = Duration::from_secs(8);
/// The largest answer that is read. Python's lists every file of every release.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

const NPM: &str = "registry.npmjs.org";
const PYTHON: &str = "pypi.org";

/// A registry of packages.
pub(super) struct Registry {
    index: PackageIndex,
    host: &'static str,
    base: String,
}

impl Registry {
    /// The public registry of a kind of package.
    pub(super) fn of(index: PackageIndex) -> Self {
        let host = match index {
            PackageIndex::Npm => NPM,
            PackageIndex::Python => PYTHON,
        };
        Self {
            index,
            host,
            base: format!("https://{host}"),
        }
    }

    /// Its host.
    pub(super) fn host(&self) -> &'static str {
        self.host
    }

    /// The version that a package's tag means today; `None` if the registry does not say.
    pub(super) async fn version_of(&self, package: &UnpinnedPackage) -> Option<String> {
        let url = self.url(package)?;
        let options = ClientOptions {
            connect_within: CONNECT_WAIT,
            request_within: Some(REQUEST_WAIT),
            redirects: Redirects::None,
            ..ClientOptions::default()
        };
        let resolver = Arc::new(SystemResolver::default());
        let client = HttpClient::for_endpoint(&url, resolver, options).ok()?;
        let request = HttpRequest::new(Method::GET, url);
        let sent = client.send(request).await;
        let mut response = sent
            .inspect_err(|error| debug!(host = self.host, %error, "no version from a registry"))
            .ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = response.body(MAX_ANSWER_BYTES).await.ok()?;
        let answer: Value = serde_json::from_slice(&body).ok()?;
        let version = match self.index {
            PackageIndex::Npm => answer.get("version")?,
            PackageIndex::Python => answer.get("info")?.get("version")?,
        };
        version.as_str().map(str::to_owned)
    }

    /// Where it describes a version of a package. Names have been checked, so that they are parts
    /// of a path; the `/` of a scope is written as such a part too.
    fn url(&self, package: &UnpinnedPackage) -> Option<Url> {
        let (base, name) = (&self.base, package.name.replace('/', "%2f"));
        let text = match self.index {
            PackageIndex::Npm => format!("{base}/{name}/{}", package.tag),
            PackageIndex::Python => format!("{base}/pypi/{name}/json"),
        };
        Url::parse(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// A registry that answers one request, and the version it is understood to name.
    async fn asked(
        index: PackageIndex,
        name: &str,
        answer: &'static str,
    ) -> (String, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            let head = String::from_utf8(head).unwrap();
            head.lines().next().unwrap().to_owned()
        });
        let registry = Registry {
            index,
            host: "registry.test",
            base,
        };
        let package = UnpinnedPackage {
            index,
            name: name.to_owned(),
            tag: "latest".to_owned(),
        };
        let version = registry.version_of(&package).await;
        (served.await.unwrap(), version)
    }

    #[tokio::test]
    async fn a_registry_names_the_version_or_nothing_is_known() {
        let npm = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"version\": \"1.2.3\"}";
        let (line, version) = asked(PackageIndex::Npm, "@scope/server", npm).await;
        assert_eq!(line, "GET /@scope%2fserver/latest HTTP/1.1");
        assert_eq!(version.as_deref(), Some("1.2.3"));
        let python =
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"info\": {\"version\": \"2.0\"}}";
        let (line, version) = asked(PackageIndex::Python, "server", python).await;
        assert_eq!(line, "GET /pypi/server/json HTTP/1.1");
        assert_eq!(version.as_deref(), Some("2.0"));
        for other in [
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n{\"version\": \"1.2.3\"}",
            "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"version\": 3}",
        ] {
            let (_, version) = asked(PackageIndex::Npm, "server", other).await;
            assert_eq!(version, None, "{other}");
        }
    }
}
