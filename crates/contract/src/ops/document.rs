//! Documents that strangers wrote, as text. Reading one may go wrong in every way a parser can, so a
//! host reads them where that harms nobody.

use std::time::Duration;

use super::OpsError;
use crate::future::BoxFuture;

/// Turns documents into text, confined.
pub trait DocumentOps: Send + Sync {
    /// Reads a document. Fails, and harms nothing else, if that takes more than it may.
    fn read<'a>(
        &'a self,
        document: UntrustedDocument<'a>,
    ) -> BoxFuture<'a, Result<DocumentText, OpsError>>;
}

/// A document as it arrived.
#[derive(Debug, Clone)]
pub struct UntrustedDocument<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What it is.
    pub kind: DocumentKind,
    /// The charset that whoever sent it named.
    pub charset: Option<&'a str>,
    /// Where it came from, for relative links.
    pub url: &'a str,
    /// What it is to become.
    pub form: DocumentForm,
    /// The longest time it may take.
    pub within: Duration,
}

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// A page.
    Html,
    /// Markdown.
    Markdown,
    /// Any other text.
    Plain,
    /// A PDF.
    Pdf,
}

/// What a document is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentForm {
    /// Its main content as Markdown.
    Markdown,
    /// Its main content as text without marks.
    Text,
    /// Its source, decoded. That of a PDF is no text: it becomes what [`DocumentForm::Text`] is.
    Raw,
}

/// A document as text.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentText {
    /// The text.
    pub text: String,
    /// Its title.
    pub title: Option<String>,
    /// The language it says it is in.
    pub language: Option<String>,
    /// How the text was made: `server_markdown`, `main_content`, `whole_page`, `embedded_text`,
    /// `source` or `pdf_text`.
    pub extractor: String,
    /// How much of the page's text was kept, from 0 to 1.
    pub kept_ratio: f64,
    /// The charset it was decoded from.
    pub charset: String,
    /// Its headings, in order.
    pub headings: Vec<DocumentHeading>,
    /// What was left out, and why.
    pub cut: Vec<String>,
    /// Whether it has next to no text because scripts build it.
    pub is_shell: bool,
    /// How many characters that show nothing were removed.
    pub hidden_characters: u64,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHeading {
    /// From 1 to 6.
    pub level: u8,
    /// Its words.
    pub text: String,
    /// How many characters of the text come before it.
    pub offset: u64,
}
