//! What a server answered, sorted: a page or PDF with its text, a picture as it is, an address to ask
//! instead, or why it is none of these. The source of a PDF is the PDF.

use std::time::Duration;

use haft_contract::{
    CallContext, ErrorKind, NoProgress, ToolError,
    host::ArtifactId,
    ops::{
        DocumentForm, DocumentKind, DocumentText, Fetch, FetchResponse, OpsError, UntrustedDocument,
    },
};

use super::{
    address::PageAddress,
    media_type::{content_type, document_kind, document_type, other_type},
};
use crate::{
    files::media::{Media, MediaClass},
    text::untrusted,
};

/// The most redirects within one server that are followed.
const MAX_REDIRECTS: usize = 5;

/// What is asked for, in this order: Markdown, a page, text, anything.
const ACCEPT: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// Time that is left for reading a page once it has arrived.
const READING_TIME: Duration = Duration::from_secs(6);

/// The longest text in bytes that a result surely has whole; the runtime may cut a longer one.
const SHOWN_WHOLE: usize = 40_000;

/// When the bytes of a page are kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeepBytes {
    /// Always, because the operator wants it.
    Always,
    /// When the result does not have all of the text: it is recorded, and what it leaves out is not.
    UnlessWhole {
        /// How many characters the result has, from the beginning.
        shown: usize,
    },
}

impl KeepBytes {
    fn of_text(self, text: &str) -> bool {
        match self {
            Self::Always => true,
            Self::UnlessWhole { shown } => {
                text.len() > SHOWN_WHOLE || text.chars().nth(shown).is_some()
            }
        }
    }

    fn of_media(self) -> bool {
        matches!(self, Self::Always)
    }

    /// Whether a copy of a page has what this call wants kept.
    pub(super) fn is_met_by(self, page: &Page) -> bool {
        page.kept.is_some()
            || !match &page.body {
                PageBody::Text(text) => self.of_text(&text.text),
                PageBody::Media { .. } => self.of_media(),
            }
    }
}

/// A page that was fetched.
#[derive(Debug)]
pub(super) struct Page {
    /// Where it was found in the end.
    pub(super) url: String,
    pub(super) media_type: &'static str,
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
    keep: KeepBytes,
) -> Result<FetchResult, ToolError> {
    let mut address = start.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = request(cx, &address, form, max_bytes).await?;
        if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
            let page = page(cx, &address, form, keep, response).await?;
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
        // Whether they are needed shows once they are read.
        keep: false,
    };
    let response = tokio::select! {
        biased;
        () = cx.cancel().cancelled() => {
            return Err(ToolError::new(ErrorKind::Cancelled, "fetching the page was stopped"));
        }
        response = cx.net().fetch(request) => response,
    };
    response.map_err(|error| match error.kind() {
        ErrorKind::LimitExceeded => said_plainly(&error)
            .hint("fetch a part of it, or download it with `bash` where that may reach the host"),
        ErrorKind::Denied => {
            said_plainly(&error).hint("another address of that kind is refused too")
        }
        // Nor is it asked for again here: a request that was lost may have been seen, and what a GET does
        // is up to its server. Another request is another call, which rules judge and the record has.
        ErrorKind::Lost => said_plainly(&error).hint(
            "the server may have seen the request; fetch it again if asking twice does no harm",
        ),
        _ => said_plainly(&error),
    })
}

/// Why it went wrong. A server has a part in that: its certificate names hosts.
pub(in crate::web) fn said_plainly(error: &OpsError) -> ToolError {
    ToolError::new(error.kind(), untrusted::in_sentence(error.message()))
}

async fn page(
    cx: &CallContext<NoProgress>,
    address: &PageAddress,
    form: DocumentForm,
    keep: KeepBytes,
    response: FetchResponse,
) -> Result<Page, ToolError> {
    if !(200..300).contains(&response.status) {
        return Err(refused(address, &response));
    }
    let named = header(&response, "content-type").unwrap_or_default();
    let (essence, charset) = content_type(named);
    let (url, bytes) = (address.as_str().to_owned(), response.body.len() as u64);
    let kind = document_kind(&essence, &response.body);
    let is_read = kind == Some(DocumentKind::Pdf) && form != DocumentForm::Raw;
    if let Some(media) = Media::sniff(&response.body).filter(|_| !is_read) {
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
            media_type: media.mime,
            bytes,
            kept: kept(cx, keep.of_media(), &response.body).await,
            body: PageBody::Media {
                data: response.body,
                class: media.class,
                name: address.name(),
            },
        });
    }
    let Some(kind) = kind else {
        let shown = other_type(&essence);
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
        let is_too_much = matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::TimedOut);
        let error = said_plainly(&error);
        match (form, kind) {
            (DocumentForm::Markdown | DocumentForm::Text, DocumentKind::Pdf) => {
                error.hint("`mode` raw returns the PDF itself, for models that read them")
            }
            (DocumentForm::Markdown | DocumentForm::Text, _) if is_too_much => {
                error.hint("`mode` raw returns its source, which need not be understood")
            }
            _ => error,
        }
    })?;
    Ok(Page {
        media_type: document_type(&essence, kind),
        url,
        bytes,
        kept: kept(cx, keep.of_text(&text.text), &response.body).await,
        body: PageBody::Text(text),
    })
}

async fn kept(cx: &CallContext<NoProgress>, is_wanted: bool, body: &[u8]) -> Option<ArtifactId> {
    if !is_wanted {
        return None;
    }
    cx.net().keep(body).await
}

pub(in crate::web) fn header<'r>(response: &'r FetchResponse, wanted: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_str())
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
    let answered = format!("`{}` answered with status {status}", address.host);
    // A number, or nothing: a date would be a sentence of the server's.
    let wait = header(response, "retry-after").and_then(|wait| wait.trim().parse::<u32>().ok());
    let message = match wait {
        Some(seconds) => format!("{answered}, and to come back after {seconds} s"),
        None => answered,
    };
    ToolError::new(kind, message).at("/url").hint(hint)
}

fn failed(address: &PageAddress, why: &str) -> ToolError {
    let message = format!("nothing can be shown from `{}`: {why}", address.host);
    ToolError::new(ErrorKind::Unavailable, message).at("/url")
}
