//! Proving a quotation: that a page which a call fetched says these words, from the record and from the
//! bytes that were kept, without asking the page again.
//!
//! The call's outcome is in the record, whose chain shows any change. If it names the bytes by their hash,
//! what is kept under that hash is read again, and the words are looked for in it. If not, the outcome has
//! the page whole, and the words are looked for there.

use std::{path::Path, time::Duration};

use haft_contract::{
    TenantId,
    host::{ArtifactId, ArtifactStore, History, LedgerErrorKind, StoredCall},
    ops::{DocumentForm, DocumentKind, DocumentOps as _, UntrustedDocument},
};
use haft_sandbox::{helper::Helper, reader::ConfinedReader};
use serde_json::Value;

use crate::error::{HostError, HostErrorKind, unreadable_record};

/// The most bytes of a page that are read again.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How much is read at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

/// How long reading the page may take.
const READING_TIME: Duration = Duration::from_secs(10);

/// Whose tools fetch pages. Configuration may call one what it likes.
const PROVIDER: &str = "builtin/";

/// What stands around the page in an outcome: the lines of `haft_tools::text::untrusted`.
const ENVELOPE: (&str, &str) = ("⟦untrusted ", "\n⟦end of untrusted ");

/// What the record and the kept bytes say about a quotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// Where the page was.
    pub url: String,
    /// How many bytes were fetched.
    pub size: u64,
    /// Where these bytes are kept; absent if the record has the page whole.
    pub bytes: Option<ArtifactId>,
    /// Where in the page's text the words begin, in characters; absent if the page does not say them.
    pub found_at: Option<usize>,
    /// What the words were found in: `markdown`, `text` or `source`, or `result`, the text that the call
    /// returned.
    pub found_in: Option<&'static str>,
}

/// Looks for words in the page that a call fetched.
pub async fn cite(
    history: &impl History,
    artifacts: &dyn ArtifactStore,
    call: &StoredCall,
    quotation: &str,
) -> Result<Citation, HostError> {
    let wanted = words_of(quotation);
    if wanted.is_empty() {
        return Err(HostError::new(
            HostErrorKind::Invalid,
            "the quotation is empty",
            "give the words to look for",
        ));
    }
    let page = fetched_by(history, call).await?;
    let mut citation = Citation {
        url: page.url,
        size: page.size,
        bytes: page.bytes,
        found_at: None,
        found_in: None,
    };
    let Some(id) = page.bytes else {
        citation.found_at = place_of(&page.shown, &wanted);
        citation.found_in = citation.found_at.map(|_| "result");
        return Ok(citation);
    };
    let bytes = kept(artifacts, id).await?;
    let reader = ConfinedReader::new(Helper::default(), Path::new("/proc"));
    let forms = [
        ("markdown", DocumentForm::Markdown),
        ("text", DocumentForm::Text),
        ("source", DocumentForm::Raw),
    ];
    for (name, form) in forms {
        let document = UntrustedDocument {
            bytes: &bytes,
            kind: page.kind,
            charset: Some(page.charset.as_str()),
            url: &citation.url,
            form,
            within: READING_TIME,
        };
        let text = reader.read(document).await.map_err(|error| {
            let hint = "`haft doctor` says what is missing to read pages here";
            HostError::new(HostErrorKind::Unavailable, error.to_string(), hint)
        })?;
        if let Some(at) = place_of(&text.text, &wanted) {
            citation.found_at = Some(at);
            citation.found_in = Some(name);
            break;
        }
    }
    Ok(citation)
}

/// A page that a call fetched.
struct FetchedPage {
    url: String,
    size: u64,
    bytes: Option<ArtifactId>,
    /// What the call returned of its text.
    shown: String,
    kind: DocumentKind,
    charset: String,
}

async fn fetched_by(history: &impl History, call: &StoredCall) -> Result<FetchedPage, HostError> {
    let no_page = || {
        HostError::new(
            HostErrorKind::NotFound,
            format!("the call `{}` fetched no page whose text is kept", call.id),
            "give the id of a call of `web_fetch` that brought back a page; `haft log --tool web_fetch` \
             lists them; pictures, and PDFs as they are, are kept with `keep_pages = true`",
        )
    };
    let tool = call.tool.as_deref().unwrap_or_default();
    if !tool.starts_with(PROVIDER) {
        return Err(no_page());
    }
    let events = history.events(&TenantId::local(), call.id).await;
    let events = events.map_err(|error| unreadable_record(&error))?;
    let settled = events.iter().rfind(|event| event.kind == "settled");
    let output = settled
        .and_then(|event| structured(&event.body))
        .ok_or_else(no_page)?;
    let text = |name: &str| output.get(name).and_then(Value::as_str);
    let fetched = output.get("fetched").ok_or_else(no_page)?;
    let size = fetched.get("bytes").and_then(Value::as_u64);
    let size = size.ok_or_else(no_page)?;
    let hash = fetched.get("blake3").and_then(Value::as_str);
    let bytes = hash.and_then(|hash| ArtifactId::from_hex(hash, size));
    let shown = settled.and_then(|event| shown(&event.body));
    if bytes.is_none() && shown.is_none() {
        return Err(no_page());
    }
    let kind = match text("media_type") {
        Some("text/html" | "application/xhtml+xml") => DocumentKind::Html,
        Some("text/markdown" | "text/x-markdown") => DocumentKind::Markdown,
        Some("application/pdf") => DocumentKind::Pdf,
        Some(_) | None => DocumentKind::Plain,
    };
    Ok(FetchedPage {
        url: text("url").ok_or_else(no_page)?.to_owned(),
        size,
        bytes,
        shown: shown.unwrap_or_default(),
        charset: text("charset").unwrap_or("utf-8").to_owned(),
        kind,
    })
}

/// The structured output in a settled call's stored form.
fn structured(body: &Value) -> Option<&Value> {
    match body {
        Value::Object(fields) => fields
            .get("structured")
            .filter(|value| value.is_object())
            .or_else(|| fields.get("outcome").and_then(structured)),
        _ => None,
    }
}

/// What a page says in a settled call's stored form, without its address and title.
fn shown(body: &Value) -> Option<String> {
    let fields = body.as_object()?;
    let Some(content) = fields.get("content").and_then(Value::as_array) else {
        return fields.get("outcome").and_then(shown);
    };
    let text = content.first()?.get("text")?.as_str()?;
    let (start, end) = ENVELOPE;
    let (inside, _) = text.strip_prefix(start)?.rsplit_once(end)?;
    let (_, said) = inside.split_once("\n\n")?;
    Some(said.to_owned())
}

async fn kept(artifacts: &dyn ArtifactStore, id: ArtifactId) -> Result<Vec<u8>, HostError> {
    let gone = "artifacts are kept for a time that [record] in haft.toml sets";
    if id.bytes > MAX_BYTES {
        let message = format!("the page has {} bytes, too many to read again", id.bytes);
        return Err(HostError::new(HostErrorKind::Refused, message, gone));
    }
    let artifact = artifacts
        .open(id)
        .await
        .map_err(|error| match error.kind() {
            LedgerErrorKind::NotFound => {
                let message = format!("the bytes `{id}` are no longer kept");
                HostError::new(HostErrorKind::NotFound, message, gone)
            }
            _ => unreadable_record(&error),
        })?;
    let mut bytes = Vec::new();
    loop {
        let chunk = artifact.read_at(bytes.len() as u64, CHUNK_BYTES).await;
        let chunk = chunk.map_err(|error| unreadable_record(&error))?;
        if chunk.is_empty() || bytes.len() as u64 >= id.bytes {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// A quotation as words, so that line breaks do not matter.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where words begin in a text, in characters of the text; runs of spaces there count as one.
fn place_of(text: &str, wanted: &str) -> Option<usize> {
    let (mut joined, mut places) = (String::with_capacity(text.len()), Vec::new());
    for (place, c) in text.chars().enumerate() {
        if c.is_whitespace() {
            if joined.ends_with(' ') || joined.is_empty() {
                continue;
            }
            joined.push(' ');
        } else {
            joined.push(c);
        }
        places.push(place);
    }
    let at = joined.find(wanted)?;
    let before = joined.get(..at)?.chars().count();
    places.get(before).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_over_line_breaks_and_at_their_place() {
        let text = "# Ä\n\nOne  two\nthree.\n";
        assert_eq!(place_of(text, "two three."), Some(10));
        assert_eq!(place_of(text, &words_of(" One\ttwo ")), Some(5));
        assert_eq!(place_of(text, "two four"), None);
    }
}
