//! Which server a resource URI belongs to: `mcp+<server>:<uri>`, with the server's own URI
//! unchanged.

use crate::name::{ServerId, ToolNaming};

/// The scheme prefix before the server.
const PREFIX: &str = "mcp+";

/// The scheme of Haft's own URIs.
const OWN_SCHEME: &str = "haft:";

/// How the URIs of one server are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uris {
    /// The prefix of shown URIs; none if the server is the only one.
    scheme: Option<String>,
}

impl Uris {
    /// The mapping for a server with this tool naming.
    pub fn of(server: &ServerId, naming: ToolNaming) -> Self {
        let scheme = match naming {
            // A scheme has no `_`, and an id has no `.`.
            ToolNaming::Prefixed => Some(format!("{PREFIX}{}:", server.as_str().replace('_', "."))),
            ToolNaming::Plain => None,
        };
        Self { scheme }
    }

    /// A server's URI as it is shown.
    pub fn shown(&self, uri: &str) -> String {
        match &self.scheme {
            Some(scheme) => format!("{scheme}{uri}"),
            None => uri.to_owned(),
        }
    }

    /// The server's own URI; none if the shown one belongs to another server.
    pub fn own<'a>(&self, shown: &'a str) -> Option<&'a str> {
        let Some(scheme) = &self.scheme else {
            // Another server's URIs, and Haft's own, never belong to a server without a prefix.
            let lower = shown.to_ascii_lowercase();
            let taken = lower.starts_with(PREFIX) || lower.starts_with(OWN_SCHEME);
            return (!taken).then_some(shown);
        };
        // Schemes are case-insensitive.
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
