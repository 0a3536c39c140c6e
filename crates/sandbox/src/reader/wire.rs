//! What crosses the pipes to a reader and back: a line of JSON and the document, and JSON.

use haft_contract::ops::{
    DocumentForm, DocumentHeading, DocumentKind, DocumentText, UntrustedDocument,
};
use haft_documents::{Cut, Document, Form, Kind, ReadableText};
use serde::{Deserialize, Serialize};

/// The longest answer that is taken: the longest text, with every character escaped.
pub(super) const MAX_ANSWER: usize = 6 * haft_documents::MAX_TEXT_BYTES + 1024 * 1024;

/// The longest request that a reader takes.
pub(super) const MAX_REQUEST: usize = 64 * 1024 * 1024 + 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadRequest {
    kind: WireKind,
    form: WireForm,
    charset: Option<String>,
    url: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireKind {
    Html,
    Markdown,
    Plain,
    Pdf,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireForm {
    Markdown,
    Text,
    Raw,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadAnswer {
    text: String,
    title: Option<String>,
    language: Option<String>,
    extractor: String,
    kept_ratio: f64,
    charset: String,
    headings: Vec<(u8, String, u64)>,
    cut: Vec<String>,
    is_shell: bool,
    hidden_characters: u64,
}

impl ReadRequest {
    pub(super) fn of(document: &UntrustedDocument<'_>) -> Self {
        Self {
            kind: match document.kind {
                DocumentKind::Html => WireKind::Html,
                DocumentKind::Markdown => WireKind::Markdown,
                DocumentKind::Plain => WireKind::Plain,
                DocumentKind::Pdf => WireKind::Pdf,
            },
            form: match document.form {
                DocumentForm::Markdown => WireForm::Markdown,
                DocumentForm::Text => WireForm::Text,
                DocumentForm::Raw => WireForm::Raw,
            },
            charset: document.charset.map(str::to_owned),
            url: document.url.to_owned(),
        }
    }

    /// The request with its document, as bytes.
    pub(super) fn bytes(&self, document: &[u8]) -> Result<Vec<u8>, String> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        bytes.extend_from_slice(document);
        if bytes.len() > MAX_REQUEST {
            return Err("it is too large".to_owned());
        }
        Ok(bytes)
    }

    /// Reads a request and its document.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let request = serde_json::from_slice(bytes.get(..end)?).ok()?;
        Some((request, bytes.get(end + 1..)?))
    }

    pub(super) fn document<'a>(&'a self, bytes: &'a [u8]) -> Document<'a> {
        Document {
            bytes,
            kind: match self.kind {
                WireKind::Html => Kind::Html,
                WireKind::Markdown => Kind::Markdown,
                WireKind::Plain => Kind::Plain,
                WireKind::Pdf => Kind::Pdf,
            },
            charset: self.charset.as_deref(),
            url: &self.url,
            form: match self.form {
                WireForm::Markdown => Form::Markdown,
                WireForm::Text => Form::Text,
                WireForm::Raw => Form::Raw,
            },
        }
    }
}

impl From<ReadableText> for ReadAnswer {
    fn from(reading: ReadableText) -> Self {
        let headings = reading.headings.into_iter();
        Self {
            text: reading.text,
            title: reading.title,
            language: reading.language,
            extractor: reading.extractor.as_str().to_owned(),
            kept_ratio: reading.kept_ratio,
            charset: reading.charset.to_owned(),
            headings: headings
                .map(|heading| (heading.level, heading.text, heading.offset as u64))
                .collect(),
            cut: reading.cut.into_iter().map(Cut::describe).collect(),
            is_shell: reading.is_shell,
            hidden_characters: reading.hidden_characters as u64,
        }
    }
}

impl From<ReadAnswer> for DocumentText {
    fn from(answer: ReadAnswer) -> Self {
        let headings = answer.headings.into_iter();
        Self {
            text: answer.text,
            title: answer.title,
            language: answer.language,
            extractor: answer.extractor,
            kept_ratio: answer.kept_ratio,
            charset: answer.charset,
            headings: headings
                .map(|(level, text, offset)| DocumentHeading {
                    level,
                    text,
                    offset,
                })
                .collect(),
            cut: answer.cut,
            is_shell: answer.is_shell,
            hidden_characters: answer.hidden_characters,
        }
    }
}
