//! From a document to its reading: decode, parse, select, write.

use url::Url;

use crate::{
    Cut, Document, Extractor, Form, Heading, Kind, MAX_TEXT_BYTES, ReadableText,
    charset::decode,
    embedded_text, hidden_text,
    main_content::{Selection, all_of, select},
    markdown::PageWriter,
    outline, pdf,
    tag::Tag,
    tree::{Attribute, Tree},
};

/// The longest title.
const MAX_TITLE: usize = 300;

/// A page with fewer visible characters than this that loads scripts is built by them.
const SHELL_CHARACTERS: usize = 200;

/// Reads a document.
pub fn read(document: &Document<'_>) -> ReadableText {
    if document.kind == Kind::Pdf {
        return completed(pdf::read(document));
    }
    let (text, charset) = decode(
        document.bytes,
        document.charset,
        document.kind == Kind::Html,
    );
    let mut reading = match (document.kind, document.form) {
        (Kind::Html, Form::Markdown | Form::Text) => page(&text, document),
        (Kind::Markdown, _) => {
            let headings = outline::of_markdown(&text);
            source(text, headings, Extractor::ServerMarkdown)
        }
        (Kind::Plain | Kind::Pdf, _) | (Kind::Html, Form::Raw) => {
            source(text, Vec::new(), Extractor::Source)
        }
    };
    reading.charset = charset;
    completed(reading)
}

/// The same with its headings placed by characters, and a title if the first of them is one.
fn completed(mut reading: ReadableText) -> ReadableText {
    let mut headings = std::mem::take(&mut reading.headings);
    outline::in_characters(&reading.text, &mut headings);
    if reading.title.is_none() {
        let first = headings.first().filter(|first| first.level == 1);
        reading.title = first.map(|first| first.text.clone());
    }
    reading.headings = headings;
    reading
}

fn page(html: &str, document: &Document<'_>) -> ReadableText {
    let tree = Tree::parse(html);
    let selection = select(&tree);
    let is_shell = selection.total < SHELL_CHARACTERS && has_scripts(&tree);
    if let (true, Some(embedded)) = (is_shell, embedded_text::of(&tree)) {
        let inner = Tree::parse(&embedded);
        let reading = written(&inner, &all_of(&inner, 0), false, document);
        return ReadableText {
            title: title(&tree),
            language: language(&tree),
            ..reading
        };
    }
    written(&tree, &selection, is_shell, document)
}

/// What is selected of a page, as text.
fn written(
    tree: &Tree,
    selection: &Selection,
    is_shell: bool,
    document: &Document<'_>,
) -> ReadableText {
    let base = Url::parse(document.url).ok();
    let is_plain = document.form == Form::Text;
    let mut writer = PageWriter::new(tree, selection, base.as_ref(), is_plain);
    writer.write(selection.root);
    let mut cut = tree.cut.clone();
    cut.extend(writer.writer.cut());
    let ratio = |kept: usize, of: usize| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share for people and models, of numbers far below the limit"
        )]
        let ratio = kept as f64 / of.max(1) as f64;
        ratio.min(1.0)
    };
    ReadableText {
        title: title(tree),
        language: language(tree),
        extractor: selection.extractor,
        kept_ratio: if selection.total == 0 {
            1.0
        } else {
            ratio(selection.kept, selection.total)
        },
        charset: "",
        headings: writer.writer.headings,
        is_shell,
        hidden_characters: writer.hidden,
        text: writer.writer.text,
        cut,
    }
}

/// A text as it is, up to the limit.
fn source(mut text: String, headings: Vec<Heading>, extractor: Extractor) -> ReadableText {
    let mut cut = Vec::new();
    if text.len() > MAX_TEXT_BYTES {
        let mut end = MAX_TEXT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        cut.push(Cut::Text);
    }
    let mut hidden_characters = 0;
    let is_suspect = text.chars().any(hidden_text::is_suspect);
    if is_suspect {
        let mut shown = String::with_capacity(text.len());
        hidden_text::push_shown(&mut shown, &text, &mut hidden_characters);
        text = shown;
    }
    ReadableText {
        headings: if is_suspect {
            outline_again(&text, extractor)
        } else {
            headings
        },
        text,
        title: None,
        language: None,
        extractor,
        kept_ratio: 1.0,
        charset: "",
        cut,
        is_shell: false,
        hidden_characters,
    }
}

/// The headings of a text that was changed.
fn outline_again(text: &str, extractor: Extractor) -> Vec<Heading> {
    match extractor {
        Extractor::ServerMarkdown => outline::of_markdown(text),
        Extractor::MainContent
        | Extractor::WholePage
        | Extractor::EmbeddedText
        | Extractor::Source
        | Extractor::PdfText => Vec::new(),
    }
}

fn title(tree: &Tree) -> Option<String> {
    let shown = |text: &str| {
        let mut shown = String::new();
        hidden_text::push_shown(&mut shown, text, &mut 0);
        let words: Vec<&str> = shown.split_whitespace().collect();
        let title: String = words.join(" ").chars().take(MAX_TITLE).collect();
        (!title.is_empty()).then_some(title)
    };
    // That of a page stands before any drawing, which may have titles too.
    let own = tree
        .first(Tag::Title)
        .and_then(|id| shown(&tree.text_of(id)));
    own.or_else(|| {
        let is_title = |id: &usize| {
            tree.tag(*id) == Some(Tag::Meta)
                && tree.attribute(*id, Attribute::Property) == Some("og:title")
        };
        let meta = (0..tree.len()).find(is_title)?;
        shown(tree.attribute(meta, Attribute::Content)?)
    })
}

fn language(tree: &Tree) -> Option<String> {
    let html = tree.first(Tag::Html)?;
    let language = tree.attribute(html, Attribute::Lang)?.trim();
    let is_code = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let fits = (2..=35).contains(&language.len()) && language.chars().all(is_code);
    fits.then(|| language.to_owned())
}

fn has_scripts(tree: &Tree) -> bool {
    (0..tree.len()).any(|id| {
        tree.tag(id) == Some(Tag::Script)
            && (tree.attribute(id, Attribute::Src).is_some() || tree.children(id).next().is_some())
    })
}
