//! From a host and a port to addresses that may be connected to, or to a denial. Everything that
//! connects goes through here: a sandbox's proxy, tools, MCP over HTTP, logins and webhooks.
//!
//! The order: check the name, look it up once, check every address, then connect to one of exactly
//! those addresses. A metadata address is never reached, whatever the rules say, nor is the unspecified
//! one: `0.0.0.0` connects to this machine, and no rule about this machine's addresses would hold.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use haft_contract::egress::{
    AddressClass, EgressRules, Host, HostRule, MAX_ADDRESSES, Resolve, Ruling, carried, classify,
    is_metadata_name, is_private_name,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

use crate::denial::{Denial, Reason, UNSPECIFIED};

/// What may be reached, and who decides.
#[derive(Debug, Clone)]
pub enum AdmissionScope {
    /// What the rules of a child allow; what no rule covers is denied.
    Rules(Arc<EgressRules>),
    /// One host and port that the operator configured, wherever it is, except where credentials are
    /// handed out.
    Endpoint {
        /// The host, matched exactly.
        host: Host,
        /// The port.
        port: u16,
    },
    /// Whatever a stranger names, as long as it is public; and what the operator named.
    Public(OwnHosts),
}

/// The hosts that the operator named in addition to public ones.
#[derive(Debug, Clone, Default)]
pub struct OwnHosts {
    /// The host of the operator's own server. If it is this machine, other ports of this machine
    /// may be reached too.
    pub server: Option<Host>,
    /// Hosts that may have private addresses.
    pub private: Vec<HostRule>,
    /// Hosts, each with its port, that may be anywhere: on this machine too.
    pub exact: Vec<HostRule>,
}

/// Checks hosts, resolves them and connects.
#[derive(Clone)]
pub struct Admission {
    reach: AdmissionScope,
    /// Addresses that rules deny, by whatever name they are reached.
    denied: Arc<[IpAddr]>,
    resolver: Arc<dyn Resolve>,
    connect_within: Duration,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// It is not allowed.
    Denied(Denial),
    /// It is allowed, but the connection failed.
    Unreachable(io::Error),
}

/// A connection, and how closely its traffic must be inspected.
pub(crate) struct AdmittedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) inspect: Inspect,
}

/// How closely a connection is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inspect {
    /// A public server may serve many hosts: requests inside must be for the host of the
    /// connection.
    Host,
    /// A non-public address that a rule names: there is no other host to front for.
    None,
}

impl From<Denial> for ConnectError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl Admission {
    /// Looking a name up and connecting to one of its addresses may each take `connect_within`.
    pub fn new(
        reach: AdmissionScope,
        resolver: Arc<dyn Resolve>,
        connect_within: Duration,
    ) -> Self {
        Self {
            reach,
            denied: Arc::default(),
            resolver,
            connect_within,
        }
    }

    /// The same, without these addresses.
    #[must_use]
    pub fn without(&self, denied: Arc<[IpAddr]>) -> Self {
        Self {
            denied,
            ..self.clone()
        }
    }

    /// Checks a host and a port without looking anything up.
    pub fn judge(&self, host: &Host, port: u16) -> Result<(), Denial> {
        let expected = self.judge_host(host, port)?;
        match host {
            Host::Address(address) => self.judge_address(host, port, *address, expected),
            Host::Name(_) => Ok(()),
        }
    }

    /// The addresses of a host, looked up once, if all of them may be connected to.
    pub async fn resolve(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let expected = self.judge_host(host, port)?;
        let addresses = self
            .look_up(host)
            .await
            .map_err(ConnectError::Unreachable)?;
        if addresses.len() > MAX_ADDRESSES {
            return Err(Denial::of(host, port, Reason::TooManyAddresses).into());
        }
        for address in &addresses {
            self.judge_address(host, port, *address, expected)?;
        }
        let with_port = addresses.into_iter().map(|at| SocketAddr::new(at, port));
        Ok(with_port.collect())
    }

    /// Connects to a host if every address it resolves to may be reached.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, ConnectError> {
        self.admit(host, port).await.map(|admitted| admitted.stream)
    }

    /// Like `connect`, for a connection that carries other programs' traffic.
    pub(crate) async fn admit(
        &self,
        host: &Host,
        port: u16,
    ) -> Result<AdmittedConnection, ConnectError> {
        let addresses = self.resolve(host, port).await?;
        let stream = self.first_to_answer(&addresses).await;
        let public = addresses
            .iter()
            .any(|at| classify(at.ip()) == AddressClass::Public);
        Ok(AdmittedConnection {
            stream: stream.map_err(ConnectError::Unreachable)?,
            inspect: if public { Inspect::Host } else { Inspect::None },
        })
    }

    /// Whether the host itself may be reached, and if so, what it may resolve to.
    fn judge_host(&self, host: &Host, port: u16) -> Result<Expected, Denial> {
        let deny = |reason| Err(Denial::of(host, port, reason));
        let name = match host {
            Host::Name(name) => Some(name.as_str()),
            Host::Address(_) => None,
        };
        if name.is_some_and(is_metadata_name) {
            return deny(Reason::Metadata);
        }
        if let Host::Address(at) = host
            && let Some(reason) = never_reached(classify(*at))
        {
            return deny(reason);
        }
        let private_name = name.is_some_and(is_private_name);
        match &self.reach {
            AdmissionScope::Rules(rules) => match rules.judge(host, port) {
                Ruling::Denied(rule) => deny(Reason::Rule(rule.clone())),
                Ruling::OtherPort(rule) => deny(Reason::OtherPort(rule.clone())),
                Ruling::Silent => deny(Reason::NoRule),
                Ruling::Covered if private_name => deny(Reason::PrivateName),
                Ruling::Named if private_name => Ok(Expected::Anything),
                Ruling::Covered | Ruling::Named => Ok(Expected::Public),
            },
            AdmissionScope::Endpoint {
                host: own,
                port: at,
            } => {
                if own != host || *at != port {
                    return deny(Reason::OtherEndpoint);
                }
                Ok(match host {
                    Host::Address(_) => Expected::Anything,
                    Host::Name(_) if is_this_machine(host) => Expected::ThisMachine,
                    Host::Name(_) if private_name => Expected::Nearby,
                    Host::Name(_) => Expected::Private,
                })
            }
            AdmissionScope::Public(own) => {
                if own.names_exactly(host, port) {
                    return Ok(match host {
                        Host::Address(_) => Expected::Anything,
                        Host::Name(_) if is_this_machine(host) => Expected::ThisMachine,
                        Host::Name(_) => Expected::Nearby,
                    });
                }
                if own.is_at_home() && is_this_machine(host) {
                    return Ok(Expected::ThisMachine);
                }
                if private_name && !own.names_at(host, port) {
                    return deny(Reason::PrivateName);
                }
                let named = match host {
                    Host::Address(_) => own.names_at(host, port),
                    Host::Name(_) => own.names(host),
                };
                Ok(if named {
                    Expected::Private
                } else {
                    Expected::Public
                })
            }
        }
    }

    /// Whether an address a host resolves to may be connected to.
    fn judge_address(
        &self,
        host: &Host,
        port: u16,
        address: IpAddr,
        expected: Expected,
    ) -> Result<(), Denial> {
        let deny = |reason| Err(Denial::of(host, port, reason));
        let class = classify(address);
        if let Some(reason) = never_reached(class) {
            return deny(reason);
        }
        self.unless_denied(host, port, address)?;
        if expected.includes(class) {
            return Ok(());
        }
        match &self.reach {
            AdmissionScope::Rules(rules)
                if rules.judge(&Host::Address(address), port) == Ruling::Named =>
            {
                Ok(())
            }
            AdmissionScope::Rules(_)
            | AdmissionScope::Endpoint { .. }
            | AdmissionScope::Public(_) => deny(Reason::NotPublic(address, class)),
        }
    }

    /// A rule that denies an address applies to every name of it, and to addresses that embed it.
    fn unless_denied(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), Denial> {
        let inner = carried(address).map(IpAddr::V4);
        let forms = [Some(address), inner].into_iter().flatten();
        if forms.clone().any(|form| self.denied.contains(&form)) {
            return Err(Denial::of(host, port, Reason::DeniedAddress(address)));
        }
        let AdmissionScope::Rules(rules) = &self.reach else {
            return Ok(());
        };
        for form in forms {
            if let Ruling::Denied(rule) = rules.judge(&Host::Address(form), port) {
                let reason = Reason::RuleOnAddress(rule.clone(), address);
                return Err(Denial::of(host, port, reason));
            }
        }
        Ok(())
    }

    async fn look_up(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let found = timeout(self.connect_within, self.resolver.resolve(name))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if found.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        Ok(found)
    }

    /// Tries the checked addresses in turn; each gets its share of the time.
    async fn first_to_answer(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let until = Instant::now() + self.connect_within;
        let share = self.connect_within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut failed = io::Error::from(io::ErrorKind::TimedOut);
        for (index, address) in addresses.iter().enumerate() {
            let last = index + 1 == addresses.len();
            let end = if last { until } else { Instant::now() + share };
            match timeout_at(end, TcpStream::connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed)
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission")
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

impl OwnHosts {
    /// Whether the operator's own server is on this machine.
    pub fn is_at_home(&self) -> bool {
        self.server.as_ref().is_some_and(is_this_machine)
    }

    /// Whether the operator named exactly this host, on any port.
    fn names(&self, host: &Host) -> bool {
        let exactly = |rule: &HostRule| rule.host() == Some(host);
        self.server.as_ref() == Some(host) || self.private.iter().any(exactly)
    }

    /// Whether the operator named exactly this host with this port, wherever it is.
    fn names_exactly(&self, host: &Host, port: u16) -> bool {
        let exactly = |rule: &HostRule| rule.host() == Some(host) && rule.port() == Some(port);
        self.exact.iter().any(exactly)
    }

    /// Whether the operator named exactly this host with this port.
    fn names_at(&self, host: &Host, port: u16) -> bool {
        let exactly = |rule: &HostRule| rule.host() == Some(host) && rule.allows(host, port);
        self.server.as_ref() == Some(host) || self.private.iter().any(exactly)
    }
}

/// What a host may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Anything: the address itself was named, or a private name was named exactly.
    Anything,
    /// Public addresses, and others only if a rule names them. The name alone is not enough: the
    /// owner of a public domain decides what it resolves to.
    Public,
    /// Public addresses and those of a private network: names often resolve to either.
    Private,
    /// Like `Private`, plus this machine: a short name is often this machine's own.
    Nearby,
    /// Only this machine: a name of this machine that leads elsewhere is refused.
    ThisMachine,
}

impl Expected {
    fn includes(self, class: AddressClass) -> bool {
        use AddressClass::{Carrier, Loopback, Private, Public};
        match self {
            Self::Anything => true,
            Self::Public => class == Public,
            Self::Private => matches!(class, Public | Private | Carrier),
            Self::Nearby => matches!(class, Public | Private | Carrier | Loopback),
            Self::ThisMachine => class == Loopback,
        }
    }
}

/// Whether a host is this machine, judged by its spelling.
pub fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Address(address) => classify(*address) == AddressClass::Loopback,
        Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Why addresses of this class are never reached, if they are not.
fn never_reached(class: AddressClass) -> Option<Reason> {
    use AddressClass as Class;
    match class {
        Class::Metadata => Some(Reason::Metadata),
        Class::Unspecified => Some(Reason::Unspecified),
        Class::Public
        | Class::Loopback
        | Class::Private
        | Class::Carrier
        | Class::LinkLocal
        | Class::Multicast
        | Class::Documentation
        | Class::Reserved
        | Class::Tunnel => None,
    }
}

/// Why what a rule asks for is never granted, if it is not, so that reading the configuration can
/// report it.
pub fn never_granted(rule: &HostRule) -> Option<&'static str> {
    let reason = match rule.host()? {
        Host::Name(name) => is_metadata_name(name).then_some(Reason::Metadata),
        Host::Address(at) => never_reached(classify(*at)),
    };
    match reason? {
        Reason::Unspecified => Some(UNSPECIFIED),
        _ => Some("it hands out the machine's credentials"),
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::future::BoxFuture;

    use super::*;

    /// Resolves every name to this.
    struct FixedResolver(&'static str);

    impl Resolve for FixedResolver {
        fn resolve<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Ok(vec![self.0.parse().unwrap()]) })
        }
    }

    async fn admits(reach: AdmissionScope, host: &str, address: &'static str) -> bool {
        let admission = Admission::new(
            reach,
            Arc::new(FixedResolver(address)),
            Duration::from_secs(1),
        );
        let host = Host::parse(host).unwrap();
        admission.resolve(&host, 443).await.is_ok()
    }

    fn endpoint(host: &str) -> AdmissionScope {
        AdmissionScope::Endpoint {
            host: Host::parse(host).unwrap(),
            port: 443,
        }
    }

    fn public(server: Option<&str>, private: &[&str]) -> AdmissionScope {
        let private = private.iter().map(|rule| HostRule::parse(rule).unwrap());
        AdmissionScope::Public(OwnHosts {
            server: server.map(|server| Host::parse(server).unwrap()),
            private: private.collect(),
            exact: Vec::new(),
        })
    }

    #[tokio::test]
    async fn ss_01_nobodys_word_opens_a_metadata_address() {
        for address in ["169.254.169.254", "100.100.100.200", "fd00:ec2::254"] {
            assert!(!admits(endpoint(address), address, address).await);
            assert!(!admits(endpoint("mcp.internal"), "mcp.internal", address).await);
            assert!(!admits(public(Some("a.example"), &[]), "a.example", address).await);
            assert!(!admits(public(None, &["x.internal"]), "x.internal", address).await);
        }
    }

    #[tokio::test]
    async fn what_the_operator_named_with_its_port_may_be_here_and_nothing_else() {
        let exact = [
            "127.0.0.1:443",
            "app.test:443",
            "localhost:443",
            "metadata.google.internal:443",
        ];
        let scope = AdmissionScope::Public(OwnHosts {
            exact: exact.map(|rule| HostRule::parse(rule).unwrap()).to_vec(),
            ..OwnHosts::default()
        });
        let named = [
            ("127.0.0.1", "127.0.0.1"),
            ("app.test", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
        ];
        for (host, address) in named {
            assert!(admits(scope.clone(), host, address).await, "{host}");
        }
        let others = [
            ("127.0.0.2", "127.0.0.2"),
            ("other.test", "127.0.0.1"),
            ("app.test", "169.254.169.254"),
            ("localhost", "10.0.0.1"),
            ("metadata.google.internal", "1.1.1.1"),
        ];
        for (host, address) in others {
            assert!(
                !admits(scope.clone(), host, address).await,
                "{host} {address}"
            );
        }
        let other_port = Admission::new(
            scope,
            Arc::new(FixedResolver("127.0.0.1")),
            Duration::from_secs(1),
        );
        assert!(
            other_port
                .judge(&Host::parse("127.0.0.1").unwrap(), 80)
                .is_err()
        );
    }

    /// The system connects it to this machine, so a rule about `127.0.0.1` would not hold.
    #[tokio::test]
    async fn the_unspecified_address_is_never_reached() {
        for host in ["0.0.0.0", "::", "::ffff:0.0.0.0", "64:ff9b::", "0.1.2.3"] {
            let written = if host.contains(':') {
                format!("[{host}]:443")
            } else {
                format!("{host}:443")
            };
            let rule = HostRule::parse(&written).unwrap();
            assert!(never_granted(&rule).is_some(), "{host}");
            let own = OwnHosts {
                exact: vec![rule.clone(), HostRule::parse("app.test:443").unwrap()],
                ..OwnHosts::default()
            };
            let rules = EgressRules {
                allow: vec![rule, HostRule::parse("app.test").unwrap()],
                deny: Vec::new(),
            };
            for scope in [
                AdmissionScope::Public(own),
                AdmissionScope::Rules(Arc::new(rules)),
                endpoint(host),
            ] {
                assert!(!admits(scope.clone(), host, "127.0.0.1").await, "{host}");
                assert!(!admits(scope, "app.test", host).await, "app.test at {host}");
            }
            assert!(!admits(endpoint("app.test"), "app.test", host).await);
        }
        assert_eq!(
            never_granted(&HostRule::parse("127.0.0.1:80").unwrap()),
            None
        );
    }

    #[tokio::test]
    async fn an_endpoint_of_the_operator_is_reached_where_it_is() {
        for (host, address) in [
            ("mcp.example.com", "8.8.8.8"),
            ("mcp.example.com", "10.0.0.1"),
            ("mcp.internal", "10.0.0.1"),
            ("workstation", "127.0.1.1"),
            ("localhost", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("192.168.1.4", "192.168.1.4"),
        ] {
            assert!(admits(endpoint(host), host, address).await, "{host}");
        }
    }

    #[tokio::test]
    async fn ss_23_an_endpoint_leads_nowhere_else() {
        // The owner of a public domain must not be able to point it at this machine.
        assert!(!admits(endpoint("mcp.example.com"), "mcp.example.com", "127.0.0.1").await);
        assert!(
            !admits(
                endpoint("mcp.example.com"),
                "mcp.example.com",
                "169.254.1.1"
            )
            .await
        );
        assert!(!admits(endpoint("localhost"), "localhost", "10.0.0.1").await);
        assert!(!admits(endpoint("mcp.example.com"), "other.example.com", "8.8.8.8").await);
        let admission = Admission::new(
            endpoint("mcp.example.com"),
            Arc::new(FixedResolver("8.8.8.8")),
            Duration::from_secs(1),
        );
        let host = Host::parse("mcp.example.com").unwrap();
        assert!(admission.judge(&host, 443).is_ok());
        assert!(admission.judge(&host, 444).is_err());
    }

    #[tokio::test]
    async fn ss_23_a_strangers_word_leads_to_what_is_public() {
        let stranger = || public(None, &["sso.internal"]);
        assert!(admits(stranger(), "a.example", "8.8.8.8").await);
        assert!(admits(stranger(), "sso.internal", "10.0.0.1").await);
        for (host, address) in [
            ("a.example", "10.0.0.1"),
            ("a.example", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
            ("db.internal", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert!(!admits(stranger(), host, address).await, "{host}");
        }
    }
}
