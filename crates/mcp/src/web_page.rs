//! Which web pages a mounted server may send a person to.

use url::{Host, Url};

/// The address of a page that a person may be asked to open: over TLS, or on this machine, as
/// sign-ins of local servers use. Parsed the way a browser does, so that look-alike letters show.
/// An address with a user before the host, which is only there to deceive, is refused.
pub(crate) fn to_open(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let may = match (url.scheme(), url.host()?) {
        ("https", _) => true,
        ("http", Host::Domain(name)) => name == "localhost",
        ("http", Host::Ipv4(address)) => address.is_loopback(),
        ("http", Host::Ipv6(address)) => address.is_loopback(),
        _ => false,
    };
    let plain = url.username().is_empty() && url.password().is_none();
    (may && plain).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_13_a_person_is_sent_to_safe_addresses_alone() {
        for (url, opened) in [
            ("https://example.com/login", true),
            ("http://127.0.0.1:8080/login", true),
            ("http://[::1]/login", true),
            ("http://localhost:3000", true),
            ("http://example.com/login", false),
            ("http://localhost.example.com/", false),
            ("https://bank.example@evil.example/", false),
            ("https://bank.example:pass@evil.example/", false),
            ("javascript:alert(1)", false),
            ("file:///etc/passwd", false),
            ("data:text/html,x", false),
            ("vscode://x", false),
            ("https:", false),
            ("", false),
            ("//example.com", false),
            ("not an address", false),
        ] {
            assert_eq!(to_open(url).is_some(), opened, "{url}");
        }
        let looks_alike = to_open("https://ex\u{430}mple.com/").unwrap();
        assert_eq!(looks_alike.as_str(), "https://xn--exmple-4nf.com/");
    }
}
