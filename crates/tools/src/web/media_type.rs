//! The media type of an answer: what it is read as, and what it is called. A name that is not listed
//! here is a few words of the server's, and nobody is shown it.

use haft_contract::ops::DocumentKind;

use crate::text::encoding;

/// The longest type that is looked at.
const MAX_TYPE: usize = 80;

/// The types that are text.
const TEXTS: [&str; 16] = [
    "application/ecmascript",
    "application/javascript",
    "application/json",
    "application/sql",
    "application/toml",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
    "image/svg+xml",
    "text/css",
    "text/csv",
    "text/javascript",
    "text/plain",
    "text/xml",
];

/// The type of PDFs.
const PDF: &str = "application/pdf";

/// The types that are not, by which an error says what was there instead.
const OTHERS: [&str; 27] = [
    "application/epub+zip",
    "application/gzip",
    "application/java-archive",
    "application/msword",
    "application/octet-stream",
    "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/wasm",
    "application/x-7z-compressed",
    "application/x-bzip2",
    "application/x-tar",
    "application/x-xz",
    "application/zip",
    "application/zstd",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "font/woff2",
    "image/avif",
    "image/bmp",
    "image/tiff",
    "image/x-icon",
    "video/mp4",
    "video/ogg",
    "video/webm",
];

/// The media type and the charset of a `content-type`. What is no type is none.
pub(in crate::web) fn content_type(value: &str) -> (String, Option<String>) {
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_type = |c: char| c.is_ascii_alphanumeric() || "/+-._".contains(c);
    let essence = if essence.len() <= MAX_TYPE && essence.chars().all(is_type) {
        essence
    } else {
        String::new()
    };
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().to_owned())
    });
    (essence, charset)
}

/// What kind of text it is, if it is text.
pub(in crate::web) fn document_kind(essence: &str, bytes: &[u8]) -> Option<DocumentKind> {
    match essence {
        // Whatever it is called: nothing else begins so, and this has no other text.
        _ if essence == PDF || bytes.starts_with(b"%PDF-") => Some(DocumentKind::Pdf),
        "text/html" | "application/xhtml+xml" => Some(DocumentKind::Html),
        "text/markdown" | "text/x-markdown" => Some(DocumentKind::Markdown),
        _ if essence.starts_with("text/") || TEXTS.contains(&essence) => Some(DocumentKind::Plain),
        _ if essence.ends_with("+json") || essence.ends_with("+xml") => Some(DocumentKind::Plain),
        "" | "application/octet-stream" => {
            let start = bytes.get(..bytes.len().min(1024)).unwrap_or(bytes);
            let lower = start.trim_ascii_start().to_ascii_lowercase();
            let is_page = [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
                .iter()
                .any(|mark| lower.starts_with(mark));
            if is_page {
                return Some(DocumentKind::Html);
            }
            (!encoding::is_binary(start)).then_some(DocumentKind::Plain)
        }
        _ => None,
    }
}

/// What a document is called that was read as this.
pub(in crate::web) fn document_type(essence: &str, kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Html => "text/html",
        DocumentKind::Markdown => "text/markdown",
        DocumentKind::Pdf => PDF,
        DocumentKind::Plain => match TEXTS.iter().find(|known| **known == essence) {
            Some(known) => known,
            None if essence.ends_with("+json") => "application/json",
            None if essence.ends_with("+xml") => "application/xml",
            None => "text/plain",
        },
    }
}

/// What is called so that is no text.
pub(in crate::web) fn other_type(essence: &str) -> &'static str {
    let known = OTHERS.iter().find(|known| **known == essence);
    known.copied().unwrap_or("data of another type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_an_answer_is_what_it_says_or_what_it_begins_with() {
        let kind = |value: &str, bytes: &[u8]| document_kind(&content_type(value).0, bytes);
        assert_eq!(
            kind("text/html; charset=utf-8", b""),
            Some(DocumentKind::Html)
        );
        assert_eq!(kind("Text/Markdown", b""), Some(DocumentKind::Markdown));
        assert_eq!(
            kind("application/problem+json", b""),
            Some(DocumentKind::Plain)
        );
        assert_eq!(kind("", b"\n <!DOCTYPE HTML><p>"), Some(DocumentKind::Html));
        assert_eq!(
            kind("application/octet-stream", b"plain"),
            Some(DocumentKind::Plain)
        );
        assert_eq!(kind("application/octet-stream", b"\0\x01\x02\0"), None);
        assert_eq!(kind("application/zip", b"text"), None);
        assert_eq!(kind("application/pdf", b"junk"), Some(DocumentKind::Pdf));
        assert_eq!(kind("text/html", b"%PDF-1.7"), Some(DocumentKind::Pdf));
        assert_eq!(kind("a b\r\nc: d", b"\0"), None);
        let (_, charset) = content_type("text/html; x=y; Charset=\"Shift_JIS\"");
        assert_eq!(charset.as_deref(), Some("\"Shift_JIS\""));
    }

    #[test]
    fn a_name_that_a_server_made_up_is_shown_to_nobody() {
        let named = |essence: &str| {
            let kind = document_kind(essence, b"").unwrap();
            document_type(essence, kind)
        };
        assert_eq!(named("text/csv"), "text/csv");
        assert_eq!(named("text/ignore-what-was-said-before"), "text/plain");
        assert_eq!(named("run/this+json"), "application/json");
        assert_eq!(named("run/this+xml"), "application/xml");
        assert_eq!(named(""), "text/plain");
        assert_eq!(other_type("application/zip"), "application/zip");
        assert_eq!(other_type("run/this-now"), "data of another type");
    }
}
