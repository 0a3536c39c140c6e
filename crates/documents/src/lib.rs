//! From the bytes of a document that a stranger wrote to text that a model can read.
//!
//! Pure: no file, no network, no process, no clock. It is meant to run where it can do no harm, in a
//! helper process that can neither open nor send anything (`haft-sandbox`), because a document may be
//! made to hurt whoever reads it. What it costs grows with the size of the document and with nothing
//! else: elements nest to a fixed depth, there is a fixed number of them, and whatever is left out is
//! reported.
//!
//! Read next: `page.rs` for the order of steps, `tree.rs` for the parser, `main_content.rs` for what
//! is kept of a page, `markdown.rs` for how it is written, `pdf/mod.rs` for PDFs.
//!
//! ```
//! use haft_documents::{Document, Extractor, Form, read};
//!
//! let reading = read(&Document {
//!     bytes: b"<title>Tea</title><h1>Tea</h1><p>Boil <b>fresh</b> water.",
//!     kind: haft_documents::Kind::Html,
//!     charset: None,
//!     url: "https://example.com/tea",
//!     form: Form::Markdown,
//! });
//! assert_eq!(reading.text, "# Tea\n\nBoil **fresh** water.\n");
//! assert_eq!(reading.extractor, Extractor::WholePage);
//! ```

mod actions;
mod charset;
mod embedded_text;
mod hidden_text;
mod inline;
mod main_content;
mod markdown;
mod outline;
mod page;
mod pdf;
mod table;
mod tag;
mod tree;
mod unseen;
mod writer;

pub use outline::Heading;
pub use page::read;

/// The most elements and texts that are read of a page.
pub const MAX_NODES: usize = 50_000;

/// How deep elements may nest. What is deeper is read as if it stood in the last one.
pub const MAX_DEPTH: usize = 256;

/// The most bytes of text that a document becomes.
pub const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

/// The most headings that are listed.
pub const MAX_HEADINGS: usize = 500;

/// The most pages of a PDF that are read.
pub const MAX_PAGES: usize = 2000;

/// A document as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// The charset that whoever sent it named.
    pub charset: Option<&'a str>,
    /// Where it came from, for links that are relative.
    pub url: &'a str,
    /// What it is to become.
    pub form: Form,
}

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A page.
    Html,
    /// Text that is Markdown already.
    Markdown,
    /// Any other text.
    Plain,
    /// A PDF, whose text is read by where it stands on its pages.
    Pdf,
}

/// What a document is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its main content as Markdown.
    Markdown,
    /// Its main content as text without markup.
    Text,
    /// Its source, decoded and nothing else. That of a PDF is no text: it is read as for [`Form::Text`].
    Raw,
}

/// How the text was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extractor {
    /// The server sent Markdown.
    ServerMarkdown,
    /// The part of the page that holds its text.
    MainContent,
    /// The whole page, because no part of it stood out.
    WholePage,
    /// What a page that scripts build carries for them, or for who has none.
    EmbeddedText,
    /// The document's own text, as it is.
    Source,
    /// The text of a PDF, page by page.
    PdfText,
}

/// A document as text.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadableText {
    /// The text.
    pub text: String,
    /// The title of a page.
    pub title: Option<String>,
    /// The language a page says it is in.
    pub language: Option<String>,
    /// How the text was made.
    pub extractor: Extractor,
    /// How much of the text of the page was kept, from 0 to 1.
    pub kept_ratio: f64,
    /// The charset it was decoded from.
    pub charset: &'static str,
    /// Its headings, in order.
    pub headings: Vec<Heading>,
    /// What was left out, and why.
    pub cut: Vec<Cut>,
    /// Whether the page has next to no text of its own and is built by scripts.
    pub is_shell: bool,
    /// How many characters that show nothing and could hide text were removed.
    pub hidden_characters: usize,
}

/// What was left out of a document, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Elements nest deeper than [`MAX_DEPTH`]; their text was kept, where they end was not.
    Depth,
    /// It has more than [`MAX_NODES`] elements and texts; what follows was not read.
    Nodes,
    /// It has more text than [`MAX_TEXT_BYTES`].
    Text,
    /// A PDF is encrypted; nothing of it was read.
    Encrypted,
    /// No pages were found in what should be a PDF.
    NoPages,
    /// A PDF does not say rightly where its objects are; those that were found were read.
    Damaged,
    /// A PDF has more pages than [`MAX_PAGES`].
    Pages,
    /// Reading more of a PDF than so many pages takes too much work.
    Work(usize),
    /// Pages of a PDF are pictures.
    Pictures {
        /// How many.
        pages: usize,
        /// The number of the first of them.
        first: usize,
    },
    /// Fonts of a PDF do not say what their characters are.
    UnknownCharacters {
        /// How many characters that are.
        characters: usize,
        /// The number of the first page with one.
        first: usize,
    },
}

impl Extractor {
    /// The name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServerMarkdown => "server_markdown",
            Self::MainContent => "main_content",
            Self::WholePage => "whole_page",
            Self::EmbeddedText => "embedded_text",
            Self::Source => "source",
            Self::PdfText => "pdf_text",
        }
    }
}

impl Cut {
    /// What happened, for whoever reads the text.
    pub fn describe(self) -> String {
        match self {
            Self::Depth => format!(
                "elements nest deeper than {MAX_DEPTH}; the structure below that is lost, its text is not"
            ),
            Self::Nodes => format!("only the first {MAX_NODES} elements and texts were read"),
            Self::Text => format!("only the first {MAX_TEXT_BYTES} bytes of text were kept"),
            Self::Encrypted => "it is encrypted, and nothing of it was read".to_owned(),
            Self::NoPages => "no pages were found in it: it is damaged, or no PDF".to_owned(),
            Self::Damaged => "it is damaged; what could be found of it was read".to_owned(),
            Self::Pages => format!("only the first {MAX_PAGES} pages were read"),
            Self::Work(pages) => format!(
                "reading all of it takes more work than is done for one document; pages read: {pages}"
            ),
            Self::Pictures { pages: 1, first } => {
                format!("page {first} is a picture without text")
            }
            Self::Pictures { pages, first } => {
                format!(
                    "{pages} pages, of which page {first} is the first, are pictures without text"
                )
            }
            Self::UnknownCharacters { characters, first } => format!(
                "{characters} characters, the first of them on page {first}, are in fonts that do not \
                 say what they stand for"
            ),
        }
    }
}
