//! Where login requests may go. Untrusted parties name these addresses (the server, its metadata, a
//! redirect), so they are checked like any untrusted address: https, public, never a metadata
//! address. There are two exceptions, both set by the operator: the configured server's host and
//! the hosts listed with it may be private, and a server on this machine may use this machine.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::egress::{AddressClass, Host, HostRule, MAX_ADDRESSES, Resolve};
use haft_egress::{Admission, AdmissionScope, Denial, OwnHosts, Reason, is_this_machine};
use url::Url;

/// How long a name lookup may take, and again how long connecting to one of its addresses may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Why a request was not made, or its answer not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Not https, and not a loopback connection.
    Scheme(String),
    /// There is no valid host, or it comes with a user name.
    Host(String),
    /// The host is, or resolves to, a forbidden address.
    Address {
        /// The host.
        host: String,
        /// The kind of address it is.
        class: AddressClass,
    },
    /// A private network name that the operator did not list.
    PrivateName(String),
    /// The name has more addresses than are checked.
    TooManyAddresses(String),
    /// A redirect to another origin.
    Redirect {
        /// Where the redirect came from.
        from: String,
        /// Where the redirect leads.
        to: String,
    },
    /// The answer is too large.
    TooLarge {
        /// The host that sent it.
        host: String,
        /// The largest accepted answer, in bytes.
        limit: usize,
    },
    /// One login needed more requests than allowed.
    TooManyRequests(u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(at) => write!(f, "`{at}` is not https"),
            Self::Host(at) => write!(f, "`{at}` does not name a host that can be reached"),
            Self::Address { host, class } => write!(f, "`{host}` is {}", class.as_str()),
            Self::PrivateName(host) => {
                write!(
                    f,
                    "`{host}` is a name of a private network; `oauth.private_hosts` can name it"
                )
            }
            Self::TooManyAddresses(host) => {
                write!(f, "`{host}` has more than {MAX_ADDRESSES} addresses")
            }
            Self::Redirect { from, to } => write!(f, "`{from}` redirects to another place, `{to}`"),
            Self::TooLarge { host, limit } => {
                write!(f, "`{host}` answered with more than {limit} bytes")
            }
            Self::TooManyRequests(limit) => write!(f, "it led to more than {limit} requests"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Decides which addresses the login to one server may reach.
pub(super) struct Guard {
    admission: Arc<Admission>,
    at_home: bool,
}

impl Guard {
    /// None if the server's address has no usable host.
    pub(super) fn new(
        server: &Url,
        private: Vec<HostRule>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, Refusal> {
        let own = OwnHosts {
            server: Some(host_of(server)?),
            private,
            exact: Vec::new(),
        };
        let at_home = own.is_at_home();
        let guard = Self {
            admission: Arc::new(Admission::new(
                AdmissionScope::Public(own),
                resolver,
                CONNECT_WITHIN,
            )),
            at_home,
        };
        guard.admit(server)?;
        Ok(guard)
    }

    /// The check on where requests lead.
    pub(super) fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.admission)
    }

    /// Checks what an address shows without a lookup.
    pub(super) fn admit(&self, url: &Url) -> Result<(), Refusal> {
        let host = host_of(url)?;
        let port = url.port_or_known_default().unwrap_or_default();
        match url.scheme() {
            "https" => {}
            "http" if self.at_home && is_this_machine(&host) => {}
            _ => return Err(Refusal::Scheme(shown(url))),
        }
        self.admission.judge(&host, port).map_err(Refusal::from)
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        let host = denial.host().map(Host::to_string).unwrap_or_default();
        match denial.reason() {
            Reason::Metadata => Self::Address {
                host,
                class: AddressClass::Metadata,
            },
            Reason::Unspecified => Self::Address {
                host,
                class: AddressClass::Unspecified,
            },
            Reason::NotPublic(_, class) => Self::Address {
                host,
                class: *class,
            },
            Reason::PrivateName => Self::PrivateName(host),
            Reason::TooManyAddresses => Self::TooManyAddresses(host),
            _ => Self::Host(host),
        }
    }
}

/// An address as errors show it: without path and query, which may hold secrets.
pub(super) fn shown(url: &Url) -> String {
    match url.host_str() {
        Some(host) => match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        },
        None => format!("{}:", url.scheme()),
    }
}

/// Untrusted text for an error: one line, bounded, with nothing a terminal acts on.
pub(super) fn printable(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 200;
    text.chars()
        .take(MAX_SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect()
}

fn host_of(url: &Url) -> Result<Host, Refusal> {
    let unusable = || Refusal::Host(shown(url));
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable());
    }
    Host::parse(url.host_str().unwrap_or_default()).map_err(|_| unusable())
}

#[cfg(test)]
mod tests {
    use std::{io, net::IpAddr};

    use haft_contract::future::BoxFuture;
    use haft_egress::ConnectError;

    use super::*;

    /// Resolves each name to what its first label says: `x-10-0-0-1.example` is 10.0.0.1.
    struct SpelledResolver;

    impl Resolve for SpelledResolver {
        fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            let label = name.split('.').next().unwrap_or_default();
            let address = label.trim_start_matches("x-").replace('-', ".");
            let parsed = address.parse().map_err(io::Error::other);
            Box::pin(async move { Ok(vec![parsed?]) })
        }
    }

    fn guard(server: &str, private: &[&str]) -> Guard {
        let private = private.iter().map(|rule| HostRule::parse(rule).unwrap());
        let server = Url::parse(server).unwrap();
        Guard::new(&server, private.collect(), Arc::new(SpelledResolver)).unwrap()
    }

    fn admits(guard: &Guard, url: &str) -> bool {
        guard.admit(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn ss_23_a_public_server_leads_to_public_hosts_over_https() {
        let guard = guard("https://mcp.example.com/mcp", &["sso.corp.internal"]);
        assert!(admits(&guard, "https://as.example.com/x"));
        assert!(admits(&guard, "https://sso.corp.internal/x"));
        for url in [
            "http://as.example.com/",
            "http://127.0.0.1/",
            "https://127.0.0.1/",
            "https://localhost/",
            "https://10.0.0.1/",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://[::ffff:169.254.169.254]/",
            "https://metadata.google.internal/",
            "https://db.corp.internal/",
            "https://user@as.example.com/",
            "https://user:pw@as.example.com/",
            "ftp://as.example.com/",
            "file:///etc/passwd",
            "javascript:alert(1)",
        ] {
            assert!(!admits(&guard, url), "{url}");
        }
    }

    #[test]
    fn a_server_on_this_machine_leads_to_this_machine_too() {
        for server in ["http://127.0.0.1:8080/mcp", "http://localhost:8080/mcp"] {
            let guard = guard(server, &[]);
            assert!(admits(&guard, "http://127.0.0.1:9/"));
            assert!(admits(&guard, "http://localhost:9/"));
            assert!(admits(&guard, "https://as.example.com/"));
            assert!(!admits(&guard, "http://as.example.com/"));
            assert!(!admits(&guard, "http://169.254.169.254/"));
            assert!(!admits(&guard, "https://10.0.0.1/"));
        }
        let plain = Url::parse("http://mcp.example.com/mcp").unwrap();
        assert!(Guard::new(&plain, Vec::new(), Arc::new(SpelledResolver)).is_err());
    }

    #[tokio::test]
    async fn ss_23_every_address_of_a_name_is_judged() {
        let guard = guard("https://mcp.example.com/mcp", &["x-10-0-0-1.internal"]);
        let admission = guard.admission();
        let resolve = async |name| admission.resolve(&Host::parse(name).unwrap(), 443).await;
        assert!(resolve("x-8-8-8-8.example.com").await.is_ok());
        assert!(resolve("x-10-0-0-1.internal").await.is_ok());
        for name in [
            "x-10-0-0-1.example.com",
            "x-127-0-0-1.example.com",
            "x-169-254-169-254.example.com",
            "x-169-254-169-254.internal",
            "x-0-0-0-0.example.com",
        ] {
            let Err(ConnectError::Denied(denial)) = resolve(name).await else {
                panic!("{name}");
            };
            let refusal = Refusal::from(denial);
            let expected = matches!(refusal, Refusal::Address { .. } | Refusal::PrivateName(_));
            assert!(expected, "{name}: {refusal}");
        }
    }
}
