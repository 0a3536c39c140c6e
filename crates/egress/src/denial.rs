//! Why a connection was refused, in words that name the host and the setting that would allow it.
//!
//! A denial is reported three times in the same words: to the program that tried, as the proxy's
//! answer; to the caller, as a [`Refusal`] of the child; and to the log.

use std::{fmt, net::IpAddr};

use haft_contract::{
    egress::{AddressClass, Host, HostError, HostRule},
    ops::{Layer, Refusal},
};

/// The setting that lists the hosts a child may reach, unless the operator of that child uses
/// another.
pub const SETTING: &str = "sandbox.network.allow";

/// Why `0.0.0.0` and `[::]` are never reached.
pub(crate) const UNSPECIFIED: &str = "it is not the address of a host, and no setting allows it; for this machine write `127.0.0.1` or `[::1]`";

/// How many characters of what a program asked for are shown.
const SHOWN_CHARACTERS: usize = 160;

/// A refused connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What it tried to reach, safe to display.
    target: String,
    host: Option<Host>,
    reason: Reason,
}

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The host is malformed.
    Host(HostError),
    /// The port is malformed.
    Port,
    /// Only `http://` is forwarded.
    Scheme,
    /// The host hands out credentials.
    Metadata,
    /// It is no address of a host, and connects to this machine all the same.
    Unspecified,
    /// A rule denies it.
    Rule(HostRule),
    /// A rule denies the address it resolves to.
    RuleOnAddress(HostRule, IpAddr),
    /// The call's rules deny the address it resolves to.
    DeniedAddress(IpAddr),
    /// A rule allows the host on other ports.
    OtherPort(HostRule),
    /// No rule covers it.
    NoRule,
    /// It is not the host and port that the operator configured.
    OtherEndpoint,
    /// A private name must be named exactly.
    PrivateName,
    /// It resolves to an address that is not public and that no rule names.
    NotPublic(IpAddr, AddressClass),
    /// It resolves to too many addresses to check.
    TooManyAddresses,
    /// The TLS hello asks for a different server than the connection.
    OtherServerName(String),
    /// The TLS hello names no server.
    NoServerName,
    /// The TLS hello hides which server it asks for.
    HiddenServerName,
    /// The request inside names a different host than the connection.
    OtherHostHeader(String),
    /// The proxy does not let this protocol through there.
    Protocol(&'static str),
}

impl Denial {
    /// Refuses a host and a port that were parsed.
    pub(crate) fn of(host: &Host, port: u16, reason: Reason) -> Self {
        Self {
            target: format!("{host}:{port}"),
            host: Some(host.clone()),
            reason,
        }
    }

    /// Refuses something that could not be parsed.
    pub(crate) fn of_text(text: &[u8], reason: Reason) -> Self {
        let text = String::from_utf8_lossy(text);
        let shown = text.chars().flat_map(char::escape_debug);
        Self {
            target: format!("`{}`", shown.take(SHOWN_CHARACTERS).collect::<String>()),
            host: None,
            reason,
        }
    }

    /// The host, if one could be parsed.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Why it was refused.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What was refused.
    pub(crate) fn what(&self) -> String {
        format!("connect to {}", self.target)
    }

    /// Why, and which setting would allow it: its name, and where it is.
    pub(crate) fn why(&self, setting: &str) -> String {
        let target = &self.target;
        match &self.reason {
            Reason::Host(error) => format!("not a valid host: {error}"),
            Reason::Port => "a port is a number from 1 to 65535".to_owned(),
            Reason::Scheme => {
                "only `http://` addresses and CONNECT go through the proxy".to_owned()
            }
            Reason::Metadata => {
                "it hands out the machine's credentials; no setting allows it".to_owned()
            }
            Reason::Unspecified => UNSPECIFIED.to_owned(),
            Reason::Rule(rule) => {
                format!("the rule `{rule}` in `sandbox.network.deny` of haft.toml denies it")
            }
            Reason::RuleOnAddress(rule, address) => format!(
                "it resolves to {address}, which the rule `{rule}` in `sandbox.network.deny` of \
                 haft.toml denies"
            ),
            Reason::DeniedAddress(address) => {
                format!("it leads to {address}, which a rule in `deny` of haft.toml names")
            }
            Reason::OtherPort(rule) => format!(
                "the rule `{rule}` does not cover this port; add `{target}` to {setting} to \
                 allow it"
            ),
            Reason::NoRule => {
                format!("no rule allows it; add `{target}` to {setting} to allow it")
            }
            Reason::OtherEndpoint => "it is not the address that was configured".to_owned(),
            Reason::PrivateName => format!(
                "a name of a private network must be named exactly; add `{target}` to {setting} \
                 to allow it"
            ),
            Reason::NotPublic(address, class) => format!(
                "it leads to {address}, {}, which no rule names; add that address with its port to \
                 {setting} to allow it",
                class.as_str()
            ),
            Reason::TooManyAddresses => "it resolves to too many addresses to check".to_owned(),
            Reason::OtherServerName(name) => format!(
                "the TLS connection asks for `{name}` instead; only the host that {setting} \
                 allows may be asked for"
            ),
            Reason::NoServerName => {
                "the TLS connection does not say which server it asks for (SNI)".to_owned()
            }
            Reason::HiddenServerName => {
                "the TLS connection hides which server it asks for (ECH)".to_owned()
            }
            Reason::OtherHostHeader(name) => format!(
                "the request inside asks for `{name}` instead; only the host that {setting} \
                 allows may be asked for"
            ),
            Reason::Protocol(why) => (*why).to_owned(),
        }
    }

    /// One line for the program that tried.
    pub(crate) fn line(&self, setting: &str) -> String {
        format!("haft refused to {}: {}", self.what(), self.why(setting))
    }

    /// The refusal to report when the child ends.
    pub(crate) fn refusal(&self, setting: &str) -> Refusal {
        Refusal {
            layer: Layer::Egress,
            what: self.what(),
            why: self.why(setting),
        }
    }
}

/// Without a setting: the code that supplied the URL knows which one applies.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.reason {
            Reason::Metadata => write!(f, "`{target}` hands out the machine's credentials"),
            Reason::Unspecified => write!(f, "`{target}` cannot be reached: {UNSPECIFIED}"),
            Reason::NotPublic(address, class) => {
                write!(f, "`{target}` leads to {address}, {}", class.as_str())
            }
            Reason::PrivateName => write!(f, "`{target}` is a name of a private network"),
            Reason::TooManyAddresses => {
                write!(f, "`{target}` resolves to too many addresses to check")
            }
            Reason::OtherEndpoint => write!(f, "`{target}` is not the address that was configured"),
            Reason::Rule(rule) | Reason::RuleOnAddress(rule, _) => {
                write!(f, "`{target}` is denied by the rule `{rule}`")
            }
            Reason::DeniedAddress(address) => {
                write!(f, "`{target}` leads to {address}, which a rule denies")
            }
            Reason::OtherPort(rule) => {
                write!(f, "the rule `{rule}` does not cover the port of `{target}`")
            }
            Reason::NoRule => write!(f, "no rule allows `{target}`"),
            Reason::Host(error) => write!(f, "{target} is not a valid host: {error}"),
            Reason::Port
            | Reason::Scheme
            | Reason::OtherServerName(_)
            | Reason::NoServerName
            | Reason::HiddenServerName
            | Reason::OtherHostHeader(_)
            | Reason::Protocol(_) => write!(f, "{target} cannot be reached like this"),
        }
    }
}

impl std::error::Error for Denial {}
