//! Where an answer says to ask instead. Only the server that was asked is asked again: a secret goes to
//! nobody else, and another server is another plan.

use haft_contract::ops::FetchResponse;
use url::Url;

use super::operation::HttpOperation;
use crate::web::answer::header;

/// The longest address that is looked at.
const MAX_LOCATION: usize = 8 * 1024;

/// Where a redirect leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// To another path of the same server.
    Here(String),
    /// To another server, or to something that is not asked.
    Elsewhere(String),
    /// Nowhere.
    Nowhere,
}

/// Whether an answer is one.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where the answer to a request leads.
pub(super) fn follow(
    operation: &HttpOperation,
    target: &str,
    response: &FetchResponse,
) -> Redirect {
    let location = header(response, "location").filter(|location| location.len() <= MAX_LOCATION);
    let Some(location) = location else {
        return Redirect::Nowhere;
    };
    let scheme = operation.scheme.as_str();
    let asked = format!("{scheme}://{}:{}{target}", operation.host, operation.port);
    let Ok(asked) = Url::parse(&asked) else {
        return Redirect::Nowhere;
    };
    let Ok(mut to) = asked.join(location) else {
        return Redirect::Nowhere;
    };
    to.set_fragment(None);
    let credentials = !to.username().is_empty() || to.password().is_some();
    if to.origin() != asked.origin() || credentials {
        return Redirect::Elsewhere(to.into());
    }
    Redirect::Here(match to.query() {
        Some(query) => format!("{}?{query}", to.path()),
        None => to.path().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_same_server_is_asked_again() {
        let config = json!({"description": "x", "method": "GET", "url": "https://a.example/b/c"});
        let operation = HttpOperation::parse(config.as_object().unwrap()).unwrap();
        let to = |location: &str| {
            let response = FetchResponse {
                status: 302,
                headers: vec![("location".to_owned(), location.to_owned())],
                body: Vec::new(),
                kept: None,
            };
            follow(&operation, "/b/c?k=v", &response)
        };
        for (location, here) in [
            ("/x?y#z", "/x?y"),
            ("d", "/b/d"),
            ("https://a.example:443/x", "/x"),
            ("//A.example/x", "/x"),
        ] {
            assert_eq!(to(location), Redirect::Here(here.to_owned()), "{location}");
        }
        for location in [
            "https://b.example/",
            "//b.example/x",
            "http://a.example/",
            "https://a.example:8443/",
            "https://a.example.b.example/",
            "https://u:p@a.example/",
            "file:///etc/passwd",
        ] {
            assert!(matches!(to(location), Redirect::Elsewhere(_)), "{location}");
        }
        assert_eq!(to("https://"), Redirect::Nowhere);
        assert_eq!(to(&"x".repeat(9000)), Redirect::Nowhere);
    }
}
