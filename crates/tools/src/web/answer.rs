//! What a server answered, sorted: a page with its text, a picture or PDF as it is, an address to ask
//! instead, or why it is none of these.

use std::time::Duration;

use haft_contract::{
    CallContext, ErrorKind, NoProgress, ToolError,
    host::ArtifactId,
    ops::{DocumentForm, DocumentKind, DocumentText, Fetch, FetchResponse, UntrustedDocument},
};

use super::address::PageAddress;
use crate::{
    files::media::{Media, MediaClass},
    text::encoding,
};

/// The most redirects within one server that are followed.
const MAX_REDIRECTS: usize = 5;

/// What is asked for, in this order: Markdown, a page, text, anything.
const ACCEPT: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// Time that is left for reading a page once it has arrived.
const READING_TIME: Duration = Duration::from_secs(6);

/// How much of what a server sent an error shows.
const SHOWN: usize = 80;

/// A page that was fetched.
#[derive(Debug)]
pub(super) struct Page {
    /// Where it was found in the end.
    pub(super) url: String,
    pub(super) media_type: String,
    pub(super) body: PageBody,
    /// How many bytes were fetched.
    pub(super) bytes: u64,
    /// Where these bytes are kept.
    pub(super) kept: Option<ArtifactId>,
}

#[derive(Debug)]
pub(super) enum PageBody {
    Text(DocumentText),
    /// As it is.
    Media {
        data: Vec<u8>,
        class: MediaClass,
        name: String,
    },
}

/// What a request led to.
#[derive(Debug)]
pub(super) enum FetchResult {
    Page(Box<Page>),
    /// Another server is named. Nothing was asked of it.
    Elsewhere {
        status: u16,
        to: String,
    },
}

impl Page {
    pub(super) fn size(&self) -> usize {
        match &self.body {
            PageBody::Text(text) => text.text.len(),
            PageBody::Media { data, .. } => data.len(),
        }
    }
}

/// Fetches an address and reads what is there.
pub(super) async fn fetch(
    cx: &CallContext<NoProgress>,
    start: &PageAddress,
    form: DocumentForm,
    max_bytes: usize,
) -> Result<FetchResult, ToolError> {
    let mut address = start.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = request(cx, &address, form, max_bytes).await?;
        if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
            let page = page(cx, &address, form, response).await?;
            return Ok(FetchResult::Page(Box::new(page)));
        }
        let Some(location) = header(&response, "location") else {
            return Err(failed(&address, "it redirects without saying where"));
        };
        let to = address
            .join(location)
            .map_err(|why| failed(&address, why))?;
        if !to.is_same_origin(&address) {
            return Ok(FetchResult::Elsewhere {
                status: response.status,
                to: to.as_str().to_owned(),
            });
        }
        address = to;
    }
    Err(failed(&address, "it redirects in circles"))
}

async fn request(
    cx: &CallContext<NoProgress>,
    address: &PageAddress,
    form: DocumentForm,
    max_bytes: usize,
) -> Result<FetchResponse, ToolError> {
    let accept = match form {
        DocumentForm::Markdown | DocumentForm::Text => ACCEPT,
        DocumentForm::Raw => "*/*",
    };
    let headers = [("accept".to_owned(), accept.to_owned())];
    let target = address.target();
    let request = Fetch {
        method: "GET",
        scheme: address.scheme,
        host: &address.host,
        port: address.port,
        target: &target,
        headers: &headers,
        body: &[],
        max_bytes,
        within: cx
            .remaining()
            .saturating_sub(READING_TIME)
            .max(cx.remaining() / 2),
        keep: true,
    };
    // A connection that was kept open may have been closed by its server in the meantime. A page can be
    // asked for twice.
    let fetching = async {
        match cx.net().fetch(request.clone()).await {
            Err(error) if error.kind() == ErrorKind::Lost => cx.net().fetch(request).await,
            other => other,
        }
    };
    let response = tokio::select! {
        biased;
        () = cx.cancel().cancelled() => {
            return Err(ToolError::new(ErrorKind::Cancelled, "fetching the page was stopped"));
        }
        response = fetching => response,
    };
    response.map_err(|error| match error.kind() {
        ErrorKind::LimitExceeded => ToolError::from(error)
            .hint("fetch a part of it, or download it with `bash` where that may reach the host"),
        ErrorKind::Denied => {
            ToolError::from(error).hint("another address of that kind is refused too")
        }
        _ => ToolError::from(error),
    })
}

async fn page(
    cx: &CallContext<NoProgress>,
    address: &PageAddress,
    form: DocumentForm,
    response: FetchResponse,
) -> Result<Page, ToolError> {
    if !(200..300).contains(&response.status) {
        return Err(refused(address, &response));
    }
    let named = header(&response, "content-type").unwrap_or_default();
    let (essence, charset) = content_type(named);
    let (url, bytes) = (address.as_str().to_owned(), response.body.len() as u64);
    if let Some(media) = Media::sniff(&response.body) {
        if response.body.len() > media.max_bytes {
            let most = media.max_bytes / 1024 / 1024;
            let why = format!(
                "it is larger than the {most} MiB that are shown of {}",
                media.mime
            );
            return Err(failed(address, &why));
        }
        return Ok(Page {
            url,
            media_type: media.mime.to_owned(),
            bytes,
            kept: response.kept,
            body: PageBody::Media {
                data: response.body,
                class: media.class,
                name: address.name(),
            },
        });
    }
    let Some(kind) = document_kind(&essence, &response.body) else {
        let shown = if essence.is_empty() { "data" } else { &essence };
        return Err(failed(address, &format!("it is {shown}, not text"))
            .hint("download it with `bash` where that may reach the host"));
    };
    let document = UntrustedDocument {
        bytes: &response.body,
        kind,
        charset: charset.as_deref(),
        url: &url,
        form,
        within: cx.remaining().min(READING_TIME),
    };
    let text = cx.documents().read(document).await.map_err(|error| {
        let kind = error.kind();
        let error = ToolError::from(error);
        match (kind, form) {
            (
                ErrorKind::LimitExceeded | ErrorKind::TimedOut,
                DocumentForm::Markdown | DocumentForm::Text,
            ) => error.hint("`mode` raw returns its source, which need not be understood"),
            _ => error,
        }
    })?;
    Ok(Page {
        media_type: if essence.is_empty() {
            "text/html".to_owned()
        } else {
            essence
        },
        url,
        bytes,
        kept: response.kept,
        body: PageBody::Text(text),
    })
}

fn header<'r>(response: &'r FetchResponse, wanted: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_str())
}

/// The media type and the charset of a `content-type`.
fn content_type(value: &str) -> (String, Option<String>) {
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_type = |c: char| c.is_ascii_alphanumeric() || "/+-._".contains(c);
    let essence = if essence.len() <= SHOWN && essence.chars().all(is_type) {
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
fn document_kind(essence: &str, bytes: &[u8]) -> Option<DocumentKind> {
    match essence {
        "text/html" | "application/xhtml+xml" => Some(DocumentKind::Html),
        "text/markdown" | "text/x-markdown" => Some(DocumentKind::Markdown),
        _ if essence.starts_with("text/") => Some(DocumentKind::Plain),
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/ecmascript"
        | "application/toml"
        | "application/yaml"
        | "application/x-yaml"
        | "application/sql"
        | "application/x-sh"
        | "image/svg+xml"
        | "application/x-ndjson" => Some(DocumentKind::Plain),
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

/// Why an answer is no page.
fn refused(address: &PageAddress, response: &FetchResponse) -> ToolError {
    let status = response.status;
    let (kind, hint) = match status {
        404 | 410 => (
            ErrorKind::NotFound,
            "check the address, or look for it from the site's first page",
        ),
        401 | 403 | 407 => (
            ErrorKind::AccessDenied,
            "the site wants a login or refuses programs",
        ),
        429 | 503 => (ErrorKind::Unavailable, "wait before asking this site again"),
        _ => (
            ErrorKind::Unavailable,
            "try again later, or another address",
        ),
    };
    let mut message = format!("`{}` answered with status {status}", address.host);
    if let Some(wait) = header(response, "retry-after") {
        let wait: String = wait
            .chars()
            .filter(char::is_ascii_graphic)
            .take(SHOWN)
            .collect();
        message.push_str(", and to come back after ");
        message.push_str(&wait);
    }
    ToolError::new(kind, message).at("/url").hint(hint)
}

fn failed(address: &PageAddress, why: &str) -> ToolError {
    let message = format!("nothing can be shown from `{}`: {why}", address.host);
    ToolError::new(ErrorKind::Unavailable, message).at("/url")
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
        assert_eq!(kind("a b\r\nc: d", b"\0"), None);
        let (_, charset) = content_type("text/html; x=y; Charset=\"Shift_JIS\"");
        assert_eq!(charset.as_deref(), Some("\"Shift_JIS\""));
    }
}
