//! One operation of an API, checked when the configuration is read: where it goes, what stands where,
//! and nothing that a call could still get wrong by itself.
//!
//! INVARIANT: scheme, host and port come from the configuration alone, as [`Url`](url::Url) reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use haft_contract::{
    Access, Deadline, Effects,
    egress::{AddressClass, Host, HostRule, classify, is_metadata_name, is_private_name},
    ops::WebScheme,
    secret::SecretReference,
    spec::DEFAULT_TIMEOUT,
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

pub use super::method::HttpMethod;
use super::{
    body::BodyTemplate,
    encode,
    schema::{self, ArgumentPlace},
    secret_places,
    settings::HttpSettings,
    template::Template,
};
use crate::web::address::PageAddress;

/// The longest URL as it is configured, in bytes.
const MAX_URL: usize = 2048;

/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 8 * 1024;

/// The most parameters of a query, and the most headers.
const MAX_ENTRIES: usize = 64;

/// The longest a call may take.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The largest answer, unless `max_bytes` says otherwise.
const DEFAULT_BYTES: usize = 2 * 1024 * 1024;

/// The most that `max_bytes` can say.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Headers that HTTP itself needs, or that say who is asked or by which method: `method` alone says that.
const RESERVED_HEADERS: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// An operation of an API.
#[derive(Debug, Clone)]
pub struct HttpOperation {
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) method: HttpMethod,
    pub(super) scheme: WebScheme,
    pub(super) host: Host,
    pub(super) port: u16,
    /// What is between the slashes of the path.
    pub(super) path: Vec<Template>,
    pub(super) query: Vec<(String, Template)>,
    /// Names are in lower case.
    pub(super) headers: Vec<(String, Template)>,
    pub(super) body: Option<BodyTemplate>,
    pub(super) input: Value,
    pub(super) secrets: BTreeMap<String, SecretReference>,
    pub(super) deadline: Deadline,
    pub(super) max_bytes: usize,
    /// Of everything that is configured.
    pub(super) digest: [u8; 32],
    private: bool,
    /// The path as it is written.
    shown_path: String,
}

impl HttpOperation {
    /// Reads the `config` of a tool.
    pub fn parse(config: &Map<String, Value>) -> Result<Self, String> {
        let config = Value::Object(config.clone());
        let digest = Sha256::digest(config.to_string()).into();
        let settings: HttpSettings =
            serde_json::from_value(config).map_err(|error| error.to_string())?;
        Self::checked(settings, digest)
    }

    fn checked(settings: HttpSettings, digest: [u8; 32]) -> Result<Self, String> {
        let description = settings.description.trim();
        if description.is_empty() || description.len() > MAX_DESCRIPTION {
            return Err(format!(
                "`description` must say what the tool does and when to use it, in at most {MAX_DESCRIPTION} \
                 bytes"
            ));
        }
        let method = HttpMethod::parse(&settings.method)
            .ok_or("`method` must be GET, HEAD, POST, PUT, PATCH or DELETE")?;
        let url = settings.url.as_str().unwrap_or_default();
        let (address, shown_path) = address(url)?;
        let path = path(&shown_path)?;
        let query = query(&settings.query)?;
        let headers = headers(&settings.headers)?;
        let body = settings.body.as_ref().map(BodyTemplate::parse).transpose();
        let body = body.map_err(|why| format!("`body`: {why}"))?;
        if body.is_some() && !method.takes_a_body() {
            return Err(format!("a {} request has no body", method.as_str()));
        }
        let secrets = secret_places::references(&settings.secrets)?;
        let used = used_secrets(&query, &headers, body.as_ref());
        secret_places::check_used(&secrets, &used)?;
        let input = schema::checked(
            settings.input,
            &used_arguments(&path, &query, &headers, body.as_ref()),
        )?;
        let operation = Self {
            title: settings.title,
            description: description.to_owned(),
            method,
            scheme: address.scheme,
            host: address.host,
            port: address.port,
            path,
            query,
            headers,
            body,
            input,
            secrets,
            deadline: deadline(settings.timeout_ms)?,
            max_bytes: settings.max_bytes.unwrap_or(DEFAULT_BYTES),
            digest,
            private: settings.private,
            shown_path,
        };
        if operation.max_bytes == 0 || operation.max_bytes > MAX_BYTES {
            return Err(format!("`max_bytes` must be between 1 and {MAX_BYTES}"));
        }
        operation.check_host()?;
        Ok(operation)
    }

    /// Where it may not go, and what it may not take there.
    fn check_host(&self) -> Result<(), String> {
        let is_unspecified = self
            .host
            .address()
            .is_some_and(|address| classify(address) == AddressClass::Unspecified);
        if is_unspecified {
            return Err(format!(
                "`{}` is not the address of a host; for this machine write `127.0.0.1` or `[::1]`",
                self.host
            ));
        }
        let (is_metadata, is_public) = match &self.host {
            Host::Address(address) => {
                let class = classify(*address);
                (
                    class == AddressClass::Metadata,
                    class == AddressClass::Public,
                )
            }
            Host::Name(name) => (is_metadata_name(name), !is_private_name(name)),
        };
        if is_metadata {
            return Err(
                "credentials are handed out at the host of `url`, so nothing reaches it".to_owned(),
            );
        }
        if !is_public && !self.private {
            return Err(format!(
                "`{}` is not on the public Internet; add `private = true` (`--private` when you import it) if you want it reached",
                self.place()
            ));
        }
        let this_machine = match &self.host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        };
        if !self.secrets.is_empty() && self.scheme == WebScheme::Plain && !this_machine {
            return Err(
                "`url` must begin with `https://`, so that nobody on the way reads the secret"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What a call may do to the world.
    pub fn effects(&self) -> Effects {
        self.method.effects()
    }

    /// The host that every call asks.
    pub fn access(&self) -> Access {
        Access::Host {
            host: self.host.to_string(),
            port: self.port,
        }
    }

    /// The host, if the operator said that it may be on a private network.
    pub fn private_host(&self) -> Option<HostRule> {
        let rule = || HostRule::exact(self.host.clone(), self.port);
        self.private.then(rule)
    }

    /// Its secrets, by name.
    pub fn secrets(&self) -> &BTreeMap<String, SecretReference> {
        &self.secrets
    }

    /// The host, with its port where that is not the usual one.
    pub(super) fn place(&self) -> String {
        match (self.scheme, self.port) {
            (WebScheme::Tls, 443) | (WebScheme::Plain, 80) => self.host.to_string(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// What it asks for, as it is configured: `POST https://api.example.com/items/{id}`.
    pub fn line(&self) -> String {
        let (method, scheme) = (self.method.as_str(), self.scheme.as_str());
        format!("{method} {scheme}://{}{}", self.place(), self.shown_path)
    }
}

/// The server of a URL, and the path as it is written.
fn address(url: &str) -> Result<(PageAddress, String), String> {
    let whole = "`url` must be a whole address, such as \"https://api.example.com/items/{id}\"";
    if url.is_empty() || url.len() > MAX_URL {
        return Err(whole.to_owned());
    }
    let (scheme, rest) = url.split_once("://").ok_or(whole)?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (server, path) = rest.split_at(end);
    if [scheme, server]
        .iter()
        .any(|part| part.contains(['{', '}', '$']))
    {
        return Err(
            "the host of `url` is always the same: it has no arguments and no secrets".to_owned(),
        );
    }
    // What it says is not repeated: it may have a password in it.
    let address = PageAddress::parse(&format!("{scheme}://{server}/"))
        .map_err(|_| format!("{whole}, without a name or password"))?;
    let path = if path.is_empty() { "/" } else { path };
    Ok((address, path.to_owned()))
}

/// What is between the slashes of a path.
fn path(written: &str) -> Result<Vec<Template>, String> {
    if written.contains(['?', '#']) {
        return Err("`url` has no query and no fragment; write the query under `query`".to_owned());
    }
    let segments = written.strip_prefix('/').unwrap_or(written).split('/');
    let segments = segments.map(|segment| {
        let template = Template::parse(segment).map_err(|why| format!("`url`: {why}"))?;
        if template.secrets().next().is_some() {
            return Err(
                "`url` cannot have a secret in its path, which is logged on the way; put it into a header"
                    .to_owned(),
            );
        }
        for text in template.literals() {
            if !is_path_text(text) {
                return Err(
                    "the path of `url` has characters that must be percent-encoded".to_owned(),
                );
            }
            if encode::climbs(&encode::decoded(text)) {
                return Err("the path of `url` has a `.` or `..` in it".to_owned());
            }
        }
        Ok(template)
    });
    segments.collect()
}

/// Whether a text can stand in a path as it is.
fn is_path_text(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'%' => {
                let code = [bytes.next(), bytes.next()];
                code.iter()
                    .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte),
        };
        if !fits {
            return false;
        }
    }
    true
}

fn query(written: &Value) -> Result<Vec<(String, Template)>, String> {
    entries(written, "query", |name, template| {
        secret_places::check_parameter(name, template)?;
        Ok(name.to_owned())
    })
}

fn headers(written: &Value) -> Result<Vec<(String, Template)>, String> {
    entries(written, "headers", |name, template| {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return Err(format!(
                "`{}` is not the name of a header",
                name.escape_debug()
            ));
        }
        let name = name.to_ascii_lowercase();
        if RESERVED_HEADERS.contains(&name.as_str()) || name.starts_with("proxy-") {
            return Err(format!("the header `{name}` cannot be set"));
        }
        secret_places::check_header(&name, template)?;
        if !template.literals().all(encode::is_header_text) {
            return Err(format!(
                "the header `{name}` must be one line of plain ASCII text"
            ));
        }
        Ok(name)
    })
}

/// The entries of a table of texts.
fn entries(
    written: &Value,
    table: &str,
    check: impl Fn(&str, &Template) -> Result<String, String>,
) -> Result<Vec<(String, Template)>, String> {
    let fields = match written {
        Value::Null => return Ok(Vec::new()),
        Value::Object(fields) => fields,
        _ => return Err(format!("`{table}` must be a table")),
    };
    if fields.len() > MAX_ENTRIES {
        return Err(format!("`{table}` has more than {MAX_ENTRIES} entries"));
    }
    let read = fields.iter().map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(format!("an entry of `{table}` must be a text"));
            }
        };
        let template = Template::parse(&text).map_err(|why| format!("`{table}`: {why}"))?;
        Ok((check(name, &template)?, template))
    });
    let read: Vec<_> = read.collect::<Result<_, String>>()?;
    let entries = read.len();
    // By name, so that a request is the same however the file was read.
    let read: BTreeMap<String, Template> = read.into_iter().collect();
    if read.len() < entries {
        return Err(format!("`{table}` has the same entry twice"));
    }
    Ok(read.into_iter().collect())
}

fn used_secrets<'o>(
    query: &'o [(String, Template)],
    headers: &'o [(String, Template)],
    body: Option<&'o BodyTemplate>,
) -> BTreeSet<&'o str> {
    let named = query.iter().chain(headers);
    let mut used: BTreeSet<&str> = named.flat_map(|(_, one)| one.secrets()).collect();
    used.extend(body.into_iter().flat_map(BodyTemplate::secrets));
    used
}

fn used_arguments<'o>(
    path: &'o [Template],
    query: &'o [(String, Template)],
    headers: &'o [(String, Template)],
    body: Option<&'o BodyTemplate>,
) -> BTreeSet<(&'o str, ArgumentPlace)> {
    let mut used = BTreeSet::new();
    let in_path = path.iter().flat_map(Template::arguments);
    used.extend(in_path.map(|name| (name, ArgumentPlace::Path)));
    for (_, template) in query {
        match template.as_argument() {
            Some(name) => used.extend([(name, ArgumentPlace::Query)]),
            None => used.extend(
                template
                    .arguments()
                    .map(|name| (name, ArgumentPlace::QueryPart)),
            ),
        }
    }
    let in_headers = headers.iter().flat_map(|(_, one)| one.arguments());
    used.extend(in_headers.map(|name| (name, ArgumentPlace::Header)));
    let in_body = body.into_iter().flat_map(BodyTemplate::arguments);
    used.extend(in_body.map(|name| (name, ArgumentPlace::Body)));
    used
}

fn deadline(timeout_ms: Option<u64>) -> Result<Deadline, String> {
    let timeout = timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        let most = MAX_TIMEOUT.as_millis();
        return Err(format!("`timeout_ms` must be between 1 and {most}"));
    }
    Ok(Deadline::new(timeout, timeout))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(more: Value) -> Result<HttpOperation, String> {
        let mut config = json!({"description": "does x", "method": "GET",
            "url": "https://api.example.com/v1/x"});
        let fields = config.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        fields.retain(|_, value| !value.is_null());
        HttpOperation::parse(fields)
    }

    fn check(more: Value, expect: &str) {
        let said = parse(more.clone()).unwrap_err();
        assert!(said.contains(expect), "{more}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn an_operation_says_where_it_goes() {
        let operation = parse(
            json!({"method": "post", "url": "https://API.example.com:8443/a/{id}",
            "input": {"type": "object", "required": ["id"], "properties": {"id": {}}},
            "headers": {"X-Key": "${KEY}"}, "secrets": {"KEY": "env:KEY"}}),
        );
        let operation = operation.unwrap();
        assert_eq!(operation.line(), "POST https://api.example.com:8443/a/{id}");
        assert!(!operation.effects().read_only);
        assert_eq!(operation.private_host(), None);
        assert!(parse(json!({})).unwrap().effects().read_only);
        assert_ne!(
            parse(json!({"title": "a"})).unwrap().digest,
            operation.digest
        );
    }

    #[test]
    fn the_host_is_never_an_argument() {
        for url in [
            "https://{host}/x",
            "https://api.{tenant}.example.com/x",
            "https://example.com{path}",
            "https://example.com:{port}/",
            "{scheme}://example.com/",
            "https://${HOST}/",
            "https://user:hunter2@example.com/",
            "https://example.com@evil.example/",
            "ftp://example.com/",
            "example.com/x",
            "https://",
            "https:///x",
            "https://exa mple.com/",
            "https://example.com\\@evil.example/",
        ] {
            let input = json!({"type": "object"});
            assert!(parse(json!({"url": url, "input": input})).is_err(), "{url}");
        }
        check(json!({"url": "https://{host}/x"}), "always the same");
        check(json!({"url": 1}), "whole address");
    }

    #[test]
    fn a_path_is_plain_and_stays_below_where_it_begins() {
        for (path, expect) in [
            ("a?b=c", "under `query`"),
            ("a#b", "no fragment"),
            ("../a", "`..`"),
            ("a/%2e%2e/b", "`..`"),
            ("a b", "percent-encoded"),
            ("a%2", "percent-encoded"),
            ("\u{e9}", "percent-encoded"),
            ("{a", "`{` without a `}`"),
            ("${KEY}", "secret in its path"),
        ] {
            check(json!({"url": format!("https://a.example/{path}")}), expect);
        }
    }

    #[test]
    fn private_hosts_and_plain_connections_are_named_as_such() {
        for url in [
            "http://127.0.0.1:8080/",
            "https://10.0.0.1/",
            "https://wiki.internal/",
            "https://[::1]/",
            "http://localhost/",
            "http://2130706433/",
        ] {
            check(json!({"url": url}), "add `private = true`");
            let named = parse(json!({"url": url, "private": true})).unwrap();
            assert!(named.private_host().is_some(), "{url}");
        }
        for url in [
            "http://169.254.169.254/",
            "http://metadata.google.internal/",
        ] {
            check(json!({"url": url, "private": true}), "handed out");
        }
        for url in ["http://0.0.0.0:8080/", "http://[::]/", "http://0/"] {
            check(json!({"url": url, "private": true}), "write `127.0.0.1`");
        }
        let secret = json!({"url": "http://api.example.com/", "headers": {"x": "${K}"},
            "secrets": {"K": "env:K"}});
        check(secret, "must begin with `https://`");
    }

    #[test]
    fn secrets_are_references_and_where_they_belong() {
        let key = json!({"KEY": "env:KEY"});
        check(
            json!({"secrets": {"KEY": "hunter2"}}),
            "`secrets.KEY` must say where",
        );
        check(json!({"secrets": "hunter2"}), "table of references");
        check(
            json!({"secrets": {"KEY": ["hunter2"]}}),
            "`secrets.KEY` must say where",
        );
        check(json!({"secrets": key}), "`KEY` is used nowhere");
        check(
            json!({"headers": {"x": "${OTHER}"}}),
            "`secrets` does not name",
        );
        check(
            json!({"headers": {"Authorization": "Bearer hunter2"}}),
            "`authorization` is a credential",
        );
        check(
            json!({"query": {"api_key": "hunter2"}}),
            "`api_key` is a credential",
        );
        check(
            json!({"headers": {"Authorization": "Bearer {token}"}}),
            "cannot be an argument",
        );
        check(json!({"headers": "hunter2"}), "`headers` must be a table");
        check(
            json!({"headers": {"x": {"a": "hunter2"}}}),
            "must be a text",
        );
    }

    #[test]
    fn what_else_is_wrong_is_told() {
        check(json!({"description": " "}), "`description` must say");
        check(json!({"description": null}), "missing field `description`");
        check(json!({"method": "BREW"}), "`method` must be");
        check(json!({"colour": 1}), "unknown field `colour`");
        check(json!({"body": {"a": 1}}), "a GET request has no body");
        check(
            json!({"method": "POST", "body": "x{a}"}),
            "`body`: an argument",
        );
        check(json!({"timeout_ms": 0}), "`timeout_ms` must be");
        check(json!({"max_bytes": 99_999_999}), "`max_bytes` must be");
        check(json!({"headers": {"a b": "x"}}), "not the name of a header");
        check(json!({"headers": {"Host": "x"}}), "`host` cannot be set");
        check(json!({"headers": {"proxy-x": "x"}}), "cannot be set");
        let overridden = json!({"headers": {"X-HTTP-Method-Override": "DELETE"}});
        check(overridden, "`x-http-method-override` cannot be set");
        check(json!({"headers": {"A": "1", "a": "2"}}), "same entry twice");
        check(
            json!({"headers": {"a": "x\r\ny"}}),
            "one line of plain ASCII",
        );
        check(json!({"query": {"q": "{q}"}}), "`{q}` is not an argument");
    }
}
