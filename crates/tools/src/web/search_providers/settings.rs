//! The settings of `web_search`: which providers are asked, in which order, where they are, and where
//! their keys are kept.

use std::fmt;

use haft_contract::{
    Access,
    egress::{Host, HostRule},
    ops::WebScheme,
    secret::SecretReference,
};
use serde::Deserialize;

use crate::web::address::PageAddress;

/// The most providers.
const MAX_PROVIDERS: usize = 8;

/// The settings of `web_search`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSearchConfig {
    /// Who is asked, in this order: the next one only if those before it gave no results.
    #[serde(default)]
    pub providers: Vec<SearchProviderConfig>,
}

/// A provider as it is configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchProviderConfig {
    /// `brave`, `searxng` or `tavily`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is, unless that is known: `https://search.example.com`. What it names may be on a
    /// private network.
    #[serde(default)]
    pub url: Option<String>,
    /// Where its key is kept: `env:NAME` or `file:/absolute/path`.
    #[serde(default)]
    pub key: Option<String>,
}

/// A provider as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredProvider {
    /// Whose interface it has and where it is.
    pub line: String,
    /// Where its key is kept.
    pub key: Option<SecretReference>,
}

impl fmt::Display for ConfiguredProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        match &self.key {
            Some(key) => write!(f, " with the key in {key}"),
            None => Ok(()),
        }
    }
}

/// A provider that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::web) struct SearchProvider {
    pub(in crate::web) kind: ProviderKind,
    pub(in crate::web) scheme: WebScheme,
    pub(in crate::web) host: Host,
    pub(in crate::web) port: u16,
    /// What comes before the path that is documented, without a slash at the end.
    pub(super) path: String,
    pub(in crate::web) key: Option<SecretReference>,
}

/// Whose interface it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::web) enum ProviderKind {
    Brave,
    Searxng,
    Tavily,
}

impl ProviderKind {
    pub(in crate::web) fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Searxng => "searxng",
            Self::Tavily => "tavily",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let all = [Self::Brave, Self::Searxng, Self::Tavily];
        all.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Where it is for everybody.
    fn public_url(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Searxng => None,
        }
    }

    fn takes_a_key(self) -> bool {
        match self {
            Self::Brave | Self::Tavily => true,
            Self::Searxng => false,
        }
    }
}

impl WebSearchConfig {
    /// What is wrong with the settings, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.providers.is_empty() {
            return Err(
                "there is no provider; write `providers = [{ type = \"brave\", key = \"env:NAME\" }]`"
                    .to_owned(),
            );
        }
        self.parsed().map(drop)
    }

    /// The hosts that the settings name themselves. They may be on a private network.
    pub fn named_hosts(&self) -> Vec<HostRule> {
        let named = self.providers.iter().filter(|one| one.url.is_some());
        let named = named.filter_map(|one| SearchProvider::parse(one).ok());
        named
            .map(|one| HostRule::exact(one.host, one.port))
            .collect()
    }

    /// The providers that can be asked, in order, without any key.
    pub fn configured(&self) -> Vec<ConfiguredProvider> {
        let parsed = self.providers.iter().map(SearchProvider::parse);
        let line = |one: SearchProvider| ConfiguredProvider {
            line: format!("{} at {}", one.kind.as_str(), one.place()),
            key: one.key,
        };
        parsed.filter_map(Result::ok).map(line).collect()
    }

    pub(in crate::web) fn parsed(&self) -> Result<Vec<SearchProvider>, String> {
        if self.providers.len() > MAX_PROVIDERS {
            return Err(format!("it names more than {MAX_PROVIDERS} providers"));
        }
        self.providers.iter().map(SearchProvider::parse).collect()
    }
}

impl SearchProvider {
    fn parse(config: &SearchProviderConfig) -> Result<Self, String> {
        let kind = ProviderKind::parse(&config.kind).ok_or_else(|| {
            let shown: String = config.kind.chars().take(40).collect();
            format!("there is no provider `{shown}`; write \"brave\", \"searxng\" or \"tavily\"")
        })?;
        let name = kind.as_str();
        let key = match (&config.key, kind.takes_a_key()) {
            // What is written is never repeated: it may be the key itself.
            (Some(text), true) => Some(SecretReference::parse(text).ok_or_else(|| {
                format!(
                    "`key` of `{name}` must say where the key is: \"env:NAME\" or \"file:/absolute/path\""
                )
            })?),
            (None, true) => {
                return Err(format!(
                    "`{name}` needs a key; write `key = \"env:NAME\"` or `key = \"file:/absolute/path\"`"
                ));
            }
            (Some(_), false) => return Err(format!("`{name}` takes no key")),
            (None, false) => None,
        };
        let url = config.url.as_deref().or_else(|| kind.public_url());
        let url = url.ok_or_else(|| {
            format!("`{name}` needs `url`, such as \"https://search.example.com\"")
        })?;
        // It is not repeated either: it may have a password in it.
        let address = PageAddress::parse(url).map_err(|_| {
            format!(
                "`url` of `{name}` must be the whole address of a server, without a name or password, \
                 such as \"https://search.example.com\""
            )
        })?;
        let target = address.target();
        if target.contains('?') {
            return Err(format!("`url` of `{name}` must have no query"));
        }
        let encrypted = address.scheme == WebScheme::Tls;
        if key.is_some() && !encrypted && !is_this_machine(&address.host) {
            return Err(format!(
                "`url` of `{name}` must begin with `https://`, so that nobody on the way reads the key"
            ));
        }
        Ok(Self {
            kind,
            scheme: address.scheme,
            host: address.host,
            port: address.port,
            path: target.trim_end_matches('/').to_owned(),
            key,
        })
    }

    /// Where it is, in short.
    pub(in crate::web) fn place(&self) -> String {
        match (self.scheme, self.port) {
            (WebScheme::Tls, 443) | (WebScheme::Plain, 80) => self.host.to_string(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// What asking it touches.
    pub(in crate::web) fn access(&self) -> Access {
        Access::Host {
            host: self.host.to_string(),
            port: self.port,
        }
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Address(address) => address.is_loopback(),
        Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(provider: serde_json::Value) -> WebSearchConfig {
        serde_json::from_value(json!({ "providers": [provider] })).unwrap()
    }

    #[test]
    fn a_provider_is_where_it_is_known_to_be_or_configured() {
        let line = |provider| config(provider).configured()[0].to_string();
        assert_eq!(
            line(json!({ "type": "brave", "key": "env:BRAVE" })),
            "brave at api.search.brave.com with the key in env:BRAVE"
        );
        assert_eq!(
            line(json!({ "type": "searxng", "url": "http://search.lan:8888/x/" })),
            "searxng at search.lan:8888"
        );
        let own = config(json!({ "type": "tavily", "key": "file:/k", "url": "https://t.example" }));
        assert_eq!(
            own.named_hosts(),
            [HostRule::parse("t.example:443").unwrap()]
        );
        let known = config(json!({ "type": "tavily", "key": "file:/k" }));
        assert_eq!(known.named_hosts(), [], "a public host stays one");
        let parsed = config(json!({ "type": "searxng", "url": "https://a.example/s/" }));
        assert_eq!(parsed.parsed().unwrap()[0].path, "/s");
    }

    #[test]
    fn what_cannot_be_asked_is_told_without_repeating_a_key() {
        let check = |provider: serde_json::Value, expect: &str| {
            let said = config(provider.clone()).check().unwrap_err();
            assert!(said.contains(expect), "{provider}: {said}");
            assert!(!said.contains("hunter2"), "{said}");
        };
        check(json!({ "type": "google" }), "there is no provider `google`");
        check(json!({ "type": "brave" }), "needs a key");
        check(
            json!({ "type": "brave", "key": "hunter2-hunter2" }),
            "must say where the key is",
        );
        check(json!({ "type": "searxng" }), "needs `url`");
        check(
            json!({ "type": "searxng", "url": "https://a.example", "key": "env:A" }),
            "takes no key",
        );
        check(
            json!({ "type": "searxng", "url": "https://u:hunter2@a.example" }),
            "without a name or password",
        );
        check(
            json!({ "type": "searxng", "url": "https://a.example/?q=1" }),
            "no query",
        );
        check(
            json!({ "type": "brave", "key": "env:A", "url": "http://proxy.example" }),
            "must begin with `https://`",
        );
        assert!(
            config(json!({ "type": "brave", "key": "env:A", "url": "http://127.0.0.1:1" }))
                .check()
                .is_ok()
        );
        assert!(WebSearchConfig::default().check().is_err());
    }
}
