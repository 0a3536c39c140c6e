//! From a host and a port to a connection, or to a denial. The one way out: whatever the proxy
//! speaks, it gets a connection only from here.
//!
//! The order: rules on the name, one lookup, every address, then a connection to one of exactly
//! those addresses.

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

use crate::denial::{Denial, Reason};

/// Judges hosts, resolves them and connects.
pub(crate) struct Admission {
    rules: Arc<EgressRules>,
    resolver: Arc<dyn Resolve>,
    connect_within: Duration,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Turned {
    /// It is not allowed.
    Denied(Denial),
    /// It is allowed, and did not work.
    Unreachable(io::Error),
}

/// A connection, and how closely what is said over it must be watched.
pub(crate) struct Admitted {
    pub(crate) stream: TcpStream,
    pub(crate) watch: Watch,
}

/// How closely a connection is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A public server may serve many hosts: what is asked for inside must be the host of the
    /// connection.
    Host,
    /// An address that is not public and that a rule names: there is no other host to front for.
    Nothing,
}

impl From<Denial> for Turned {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl Admission {
    pub(crate) fn new(
        rules: Arc<EgressRules>,
        resolver: Arc<dyn Resolve>,
        connect_within: Duration,
    ) -> Self {
        Self {
            rules,
            resolver,
            connect_within,
        }
    }

    /// Connects to a host if the rules allow it and everything it resolves to.
    pub(crate) async fn connect(&self, host: &Host, port: u16) -> Result<Admitted, Turned> {
        let private = self.judge_host(host, port)?;
        let addresses = self.resolve(host).await.map_err(Turned::Unreachable)?;
        if addresses.len() > MAX_ADDRESSES {
            return Err(Denial::of(host, port, Reason::TooManyAddresses).into());
        }
        for address in &addresses {
            self.judge_address(host, port, *address, private)?;
        }
        let stream = self.first_to_answer(&addresses, port).await;
        let public = addresses
            .iter()
            .any(|at| classify(*at) == AddressClass::Public);
        Ok(Admitted {
            stream: stream.map_err(Turned::Unreachable)?,
            watch: if public { Watch::Host } else { Watch::Nothing },
        })
    }

    /// Whether the host itself may be reached, and if so, what it may resolve to.
    fn judge_host(&self, host: &Host, port: u16) -> Result<Private, Denial> {
        let deny = |reason| Err(Denial::of(host, port, reason));
        let name = match host {
            Host::Name(name) => Some(name.as_str()),
            Host::Address(_) => None,
        };
        if name.is_some_and(is_metadata_name) {
            return deny(Reason::Metadata);
        }
        if let Host::Address(at) = host
            && classify(*at) == AddressClass::Metadata
        {
            return deny(Reason::Metadata);
        }
        let private_name = name.is_some_and(is_private_name);
        match self.rules.judge(host, port) {
            Ruling::Denied(rule) => deny(Reason::Rule(rule.clone())),
            Ruling::OtherPort(rule) => deny(Reason::OtherPort(rule.clone())),
            Ruling::Silent => deny(Reason::NoRule),
            Ruling::Covered if private_name => deny(Reason::PrivateName),
            Ruling::Named if private_name => Ok(Private::Expected),
            Ruling::Covered | Ruling::Named => Ok(Private::Unexpected),
        }
    }

    /// Whether an address a host resolves to may be connected to.
    fn judge_address(
        &self,
        host: &Host,
        port: u16,
        address: IpAddr,
        private: Private,
    ) -> Result<(), Denial> {
        let deny = |reason| Err(Denial::of(host, port, reason));
        let class = classify(address);
        if class == AddressClass::Metadata {
            return deny(Reason::Metadata);
        }
        let inner = carried(address).map(IpAddr::V4);
        for form in [Some(address), inner].into_iter().flatten() {
            if let Ruling::Denied(rule) = self.rules.judge(&Host::Address(form), port) {
                return deny(Reason::RuleOnAddress(rule.clone(), address));
            }
        }
        let named = self.rules.judge(&Host::Address(address), port) == Ruling::Named;
        match (class, private) {
            (AddressClass::Public, _) | (_, Private::Expected) => Ok(()),
            _ if named => Ok(()),
            _ => deny(Reason::NotPublic(address, class)),
        }
    }

    async fn resolve(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
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
    async fn first_to_answer(&self, addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
        let until = Instant::now() + self.connect_within;
        let share = self.connect_within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut failed = io::Error::from(io::ErrorKind::TimedOut);
        for (index, address) in addresses.iter().enumerate() {
            let last = index + 1 == addresses.len();
            let end = if last { until } else { Instant::now() + share };
            let connecting = TcpStream::connect(SocketAddr::new(*address, port));
            match timeout_at(end, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed)
    }
}

/// Whether a host may resolve to an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Private {
    /// A rule names exactly this name of a private network.
    Expected,
    /// Only an address that a rule names. The name alone is not enough: whoever runs a public
    /// domain decides what it resolves to.
    Unexpected,
}

/// Whether a rule asks for what is never granted, so that a configuration can say so when it is
/// read.
pub fn never_granted(rule: &HostRule) -> bool {
    match rule.host() {
        Some(Host::Name(name)) => is_metadata_name(name),
        Some(Host::Address(at)) => classify(*at) == AddressClass::Metadata,
        None => false,
    }
}
