//! The files that pages load: one style sheet, one mark, htmx with its extension for events, and a few
//! keys. They are part of the program, so a console needs no other server and no build.

use std::fmt::Write as _;

use axum::{
    Router,
    extract::Path,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::{Gateway, problem::Problem};

/// A file of the console.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    text: &'static str,
}

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 4] = [
    Asset {
        name: "console.css",
        media_type: STYLE,
        text: include_str!("../../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: SCRIPT,
        text: include_str!("../../assets/console.js"),
    },
    Asset {
        name: "htmx.js",
        media_type: SCRIPT,
        // In one file: htmx begins as soon as its script has ended, with or without its extension.
        text: concat!(
            include_str!("../../assets/htmx-4.0.0.min.js"),
            "\n",
            include_str!("../../assets/hx-sse-4.0.0.min.js")
        ),
    },
    Asset {
        name: "mark.svg",
        media_type: "image/svg+xml",
        text: include_str!("../../assets/mark.svg"),
    },
];

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/assets/{name}", get(asset))
}

/// A file. A browser keeps it and asks each time whether it is still the same, so that a new version of
/// the program is never shown in the clothes of the old one.
async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Problem::not_found("file").into_response();
    };
    let tag = tag(asset.text);
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut answer = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let media_type = HeaderValue::from_static(asset.media_type);
        ([(header::CONTENT_TYPE, media_type)], asset.text).into_response()
    };
    let sent = answer.headers_mut();
    sent.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        sent.insert(header::ETAG, tag);
    }
    answer
}

/// What a browser compares to learn whether a file has changed.
fn tag(text: &str) -> String {
    let mut tag = String::from("\"");
    for byte in Sha256::digest(text).iter().take(16) {
        // Writing to a `String` cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}
