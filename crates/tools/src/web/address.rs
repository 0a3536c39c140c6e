//! The address of a page: read once, by the rules of browsers, and from then on only its parts are
//! used. So the host that rules judge is the host that is connected to.

use haft_contract::{ErrorKind, ToolError, egress::Host, ops::WebScheme};
use url::{ParseError, Url};

/// The longest address.
const MAX_ADDRESS: usize = 2048;

/// How much of an address an error shows.
const SHOWN: usize = 120;

/// The longest name of what is at an address.
const MAX_NAME: usize = 60;

/// An address that a request can go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::web) struct PageAddress {
    url: Url,
    pub(in crate::web) scheme: WebScheme,
    pub(in crate::web) host: Host,
    pub(in crate::web) port: u16,
}

impl PageAddress {
    /// Reads an address as somebody wrote it.
    pub(in crate::web) fn parse(text: &str) -> Result<Self, ToolError> {
        if text.len() > MAX_ADDRESS {
            let message = format!("the URL is longer than {MAX_ADDRESS} bytes");
            return Err(ToolError::new(ErrorKind::LimitExceeded, message).at("/url"));
        }
        // What browsers leave out or turn around without a word could be read differently by whoever
        // looks at the plan.
        if text
            .chars()
            .any(|c| c.is_control() || c == '\\' || c == ' ')
        {
            return Err(wrong(
                text,
                "it has spaces, backslashes or control characters",
            ));
        }
        let url = Url::parse(text).map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => without_scheme(text),
            other => wrong(text, &other.to_string()),
        })?;
        let scheme = match url.scheme() {
            "http" => WebScheme::Plain,
            "https" => WebScheme::Tls,
            _ => return Err(wrong(text, "only `http` and `https` are fetched")),
        };
        Self::of(url, scheme).map_err(|why| wrong(text, why))
    }

    fn of(mut url: Url, scheme: WebScheme) -> Result<Self, &'static str> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a name or password in a URL is never sent");
        }
        url.set_fragment(None);
        let host = Host::parse(url.host_str().unwrap_or_default())
            .map_err(|_| "it does not name a host that can be reached")?;
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or("it does not name a port")?;
        Ok(Self {
            url,
            scheme,
            host,
            port,
        })
    }

    /// Where a redirect leads; an error says why nowhere.
    pub(super) fn join(&self, location: &str) -> Result<Self, &'static str> {
        if location.len() > MAX_ADDRESS || location.chars().any(char::is_control) {
            return Err("where it leads is not an address");
        }
        let url = self.url.join(location);
        let url = url.map_err(|_| "where it leads is not an address")?;
        match url.scheme() {
            "http" => Self::of(url, WebScheme::Plain),
            "https" => Self::of(url, WebScheme::Tls),
            _ => Err("it leads to something that is neither `http` nor `https`"),
        }
    }

    /// Whether another address is on the same server, spoken to in the same way.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// What is asked of the server: path and query.
    pub(super) fn target(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// The last part of the path, as a name for what is there.
    pub(super) fn name(&self) -> String {
        let last = self
            .url
            .path_segments()
            .and_then(|mut parts| parts.next_back());
        let last = last.unwrap_or_default().chars().take(MAX_NAME);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = last.map(|c| if is_plain(c) { c } else { '_' }).collect();
        if name.is_empty() {
            return "document".to_owned();
        }
        name
    }

    pub(super) fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

fn wrong(text: &str, why: &str) -> ToolError {
    let shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    ToolError::invalid_input(format!("`{shown}` cannot be fetched: {why}"))
        .at("/url")
        .hint("give a whole URL, such as `https://docs.rs/tokio`")
}

/// What has no `https://` before it: most often somebody left that out.
fn without_scheme(text: &str) -> ToolError {
    let error = wrong(text, "it does not begin with `https://`");
    match Url::parse(&format!("https://{text}")) {
        Ok(url) if text.len() <= SHOWN && url.username().is_empty() => {
            error.hint(format!("write `{url}`"))
        }
        Ok(_) | Err(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, host: &str, port: u16, target: &str) {
        let address = PageAddress::parse(text).unwrap();
        assert_eq!(
            (address.host.to_string().as_str(), address.port),
            (host, port),
            "{text}"
        );
        assert_eq!(address.target(), target, "{text}");
    }

    #[test]
    fn an_address_without_its_beginning_is_named_as_it_should_be() {
        let error = PageAddress::parse("docs.rs").unwrap_err();
        assert!(
            error.message().contains("does not begin with `https://`"),
            "{error}"
        );
        assert_eq!(error.hint_text(), Some("write `https://docs.rs/`"));
    }

    #[test]
    fn ss_14_one_reading_for_the_plan_and_the_connection() {
        check("https://Docs.RS", "docs.rs", 443, "/");
        check("http://a.example:8080/b?c=d#e", "a.example", 8080, "/b?c=d");
        check("http://a.example/%0d%0aX:1", "a.example", 80, "/%0d%0aX:1");
        // Browsers read these as addresses, and so do we: admission then refuses them as such.
        check("http://0x7f.1/", "127.0.0.1", 80, "/");
        check("http://2130706433/", "127.0.0.1", 80, "/");
        check("http://１２７．０．０．１/", "127.0.0.1", 80, "/");
        check("http://[::ffff:127.0.0.1]/", "[::ffff:127.0.0.1]", 80, "/");
        check(
            "http://b\u{fc}cher.example/",
            "xn--bcher-kva.example",
            80,
            "/",
        );
    }

    #[test]
    fn ss_13_ss_14_ss_17_what_is_no_address_of_a_page() {
        for text in [
            "file:///etc/passwd",
            "gopher://a/",
            "dict://a/",
            "ftp://a/",
            "ldap://a/",
            "jar:http://a!/",
            "data:text/html,x",
            "javascript:alert(1)",
            "unix:/run/x",
            "netdoc:///x",
            "view-source:http://a/",
            "docs.rs",
            "//docs.rs",
            "",
            "http://",
            "http:///",
            "http://good@evil/",
            "http://u:p@evil/",
            "http://good\\@evil/",
            "http://a\tb/",
            "http://a\nb/",
            "http://a b/",
            " http://a/",
            "http://a:0/",
            "http://a:65536/",
            "http://evil\u{0}.allowed.com/",
            "http://a..b/",
            "http://-a/",
        ] {
            assert!(PageAddress::parse(text).is_err(), "{text:?}");
        }
        assert!(PageAddress::parse(&format!("http://a/{}", "x".repeat(3000))).is_err());
    }

    #[test]
    fn ss_12_ss_21_where_a_redirect_leads() {
        let page = PageAddress::parse("https://a.example/b/c?d").unwrap();
        let to = |location: &str| {
            page.join(location)
                .map(|to| (to.as_str().to_owned(), to.is_same_origin(&page)))
        };
        assert_eq!(to("/x"), Ok(("https://a.example/x".to_owned(), true)));
        assert_eq!(
            to("x?y#z"),
            Ok(("https://a.example/b/x?y".to_owned(), true))
        );
        assert_eq!(
            to("//b.example/"),
            Ok(("https://b.example/".to_owned(), false))
        );
        assert_eq!(
            to("http://a.example/x"),
            Ok(("http://a.example/x".to_owned(), false))
        );
        assert_eq!(
            to("https://a.example:8443/"),
            Ok(("https://a.example:8443/".to_owned(), false))
        );
        for bad in [
            "file:///etc/passwd",
            "javascript:1",
            "https://u:p@a.example/",
            "/x\r\nSet-Cookie: a",
            "data:,x",
        ] {
            assert!(to(bad).is_err(), "{bad:?}");
        }
    }
}
