//! Whose resource a URI is: `mcp+<server>:<uri>`, with the server's own URI unchanged behind it.

use crate::name::{ServerId, ToolNaming};

/// What stands before the server in a scheme.
const PREFIX: &str = "mcp+";

/// What stands before URIs of Haft itself.
const OWN_SCHEME: &str = "haft:";

/// How the URIs of one server are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uris {
    /// What is put before a URI; nothing where the server is the only one.
    scheme: Option<String>,
}

impl Uris {
    /// The URIs of a server whose tools are named in this way.
    pub fn of(server: &ServerId, naming: ToolNaming) -> Self {
        let scheme = match naming {
            // A scheme has no `_`, and an id has no `.`.
            ToolNaming::Prefixed => Some(format!("{PREFIX}{}:", server.as_str().replace('_', "."))),
            ToolNaming::Plain => None,
        };
        Self { scheme }
    }

    /// How a URI of the server is shown.
    pub fn shown(&self, uri: &str) -> String {
        match &self.scheme {
            Some(scheme) => format!("{scheme}{uri}"),
            None => uri.to_owned(),
        }
    }

    /// The server's own URI; none if what is shown is another server's.
    pub fn own<'a>(&self, shown: &'a str) -> Option<&'a str> {
        let Some(scheme) = &self.scheme else {
            // Another server's URIs, and Haft's own, are never those of a server without a prefix.
            let lower = shown.to_ascii_lowercase();
            let taken = lower.starts_with(PREFIX) || lower.starts_with(OWN_SCHEME);
            return (!taken).then_some(shown);
        };
        // Schemes are the same in any case.
        let (before, own) = shown.split_at_checked(scheme.len())?;
        before.eq_ignore_ascii_case(scheme).then_some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_says_whose_it_is_and_finds_its_way_back() {
        let of = |id: &str| Uris::of(&ServerId::parse(id).unwrap(), ToolNaming::Prefixed);
        let shown = of("my_server").shown("file:///a?b#c");
        assert_eq!(shown, "mcp+my.server:file:///a?b#c");
        assert_eq!(of("my_server").own(&shown), Some("file:///a?b#c"));
        assert_eq!(of("My_Server").own(&shown), Some("file:///a?b#c"));
        assert_eq!(of("my").own(&shown), None);
        assert_eq!(of("other").own(&shown), None);
        assert_eq!(of("s").own("é"), None);
        let plain = Uris::of(&ServerId::parse("s").unwrap(), ToolNaming::Plain);
        assert_eq!(plain.own(&plain.shown("a:b")), Some("a:b"));
        assert_eq!(plain.own("MCP+other:a:b"), None);
        assert_eq!(plain.own("haft://output/x"), None);
    }
}
