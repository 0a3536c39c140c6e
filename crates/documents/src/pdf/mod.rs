//! The text of a PDF: in the order in which people read it, page by page.
//!
//! A PDF says where each sign stands, and nothing about words, lines or columns. `file.rs` finds its
//! objects, `pages.rs` its pages, `content.rs` the signs that each draws, `font.rs` what they stand for;
//! `rows.rs`, `columns.rs` and `paragraphs.rs` make text of their places. Work and memory are bounded for
//! the whole document (`work.rs`), and what was left out is said.
//!
//! It must not run anything a file brings, nor guess at characters: what a font does not say is `�`.

mod cmap;
mod columns;
mod content;
mod direction;
mod encodings;
mod file;
mod filters;
mod font;
mod glyph_names;
mod lexer;
mod matrix;
mod object;
mod pages;
mod paint;
mod paragraphs;
mod rows;
mod signs;
mod standard_widths;
mod tables;
mod work;

use std::collections::BTreeMap;

use encoding_rs::{UTF_8, UTF_16BE, WINDOWS_1252};

use self::{
    content::FontShelf, file::PdfFile, object::Object, paragraphs::TextBlock, work::WorkBudget,
};
use crate::{
    Cut, Document, Extractor, Form, MAX_PAGES, MAX_TEXT_BYTES, ReadableText, hidden_text,
    writer::Writer,
};

/// The longest title.
const MAX_TITLE: usize = 300;

/// The longest heading, in characters, and the most lines it has.
const MAX_HEADING: (usize, usize) = (160, 3);

/// How much larger than the rest of the text a heading is.
const HEADING: f64 = 1.15;

/// With more pages than this, only they are listed as headings, so that all of them are.
const MANY_PAGES: usize = 60;

/// Reads a PDF.
pub(crate) fn read(document: &Document<'_>) -> ReadableText {
    let budget = WorkBudget::default();
    let start = tables::find(
        document
            .bytes
            .get(..1024.min(document.bytes.len()))
            .unwrap_or_default(),
        b"%PDF-",
    );
    let bytes = document.bytes.get(start.unwrap_or(0)..).unwrap_or_default();
    let mut file = PdfFile::open(bytes, &budget);
    let mut reading = ReadableText {
        text: String::new(),
        title: None,
        language: language(&mut file),
        extractor: Extractor::PdfText,
        kept_ratio: 1.0,
        charset: UTF_8.name(),
        headings: Vec::new(),
        cut: Vec::new(),
        is_shell: false,
        hidden_characters: 0,
    };
    if file
        .trailer
        .get(b"Encrypt")
        .is_some_and(|entry| *entry != Object::Null)
    {
        reading.cut.push(Cut::Encrypted);
        return reading;
    }
    reading.title = title(&mut file);
    let mut pages = PageTexts::default();
    let (entries, has_more) = pages::of(&mut file);
    if entries.is_empty() {
        reading.cut.push(Cut::NoPages);
        return reading;
    }
    let (mut shelf, total) = (FontShelf::default(), entries.len());
    for page in &entries {
        let signs = content::read(&mut file, &mut shelf, page);
        if budget.is_spent() && !pages.all.is_empty() {
            break;
        }
        pages.add(signs);
        if budget.is_spent() || pages.bytes > MAX_TEXT_BYTES {
            break;
        }
    }
    reading.cut.extend(file.is_damaged.then_some(Cut::Damaged));
    if budget.is_spent() {
        reading.cut.push(Cut::Work(pages.all.len()));
    } else if has_more && pages.all.len() == total {
        reading.cut.push(Cut::Pages);
    }
    pages.write(document.form, &mut reading);
    reading
}

/// A page as text.
#[derive(Debug)]
struct PageText {
    blocks: Vec<TextBlock>,
    /// What is said of it in the place of text.
    remark: Option<&'static str>,
}

/// The pages that were read.
#[derive(Default)]
struct PageTexts {
    all: Vec<PageText>,
    bytes: usize,
    /// How many pages are pictures, and the first of them.
    pictures: (usize, usize),
    /// How many signs nobody knows the meaning of, and the first page with one.
    unknown: (usize, usize),
    hidden: usize,
}

impl PageTexts {
    fn add(&mut self, mut signs: signs::PageSigns) {
        let number = self.all.len() + 1;
        signs.settle_searched();
        self.hidden += signs.hidden;
        if signs.unknown > 0 {
            let first = if self.unknown.0 == 0 {
                number
            } else {
                self.unknown.1
            };
            self.unknown = (self.unknown.0 + signs.unknown, first);
        }
        let is_unknown = signs.unknown * 2 > signs.signs.len();
        let mut blocks = Vec::new();
        if !is_unknown {
            for rows in rows::of(&signs) {
                for stretch in columns::stretches(rows) {
                    blocks.extend(paragraphs::of(&stretch));
                }
            }
        }
        let remark = if !blocks.is_empty() {
            None
        } else if is_unknown {
            Some("(the fonts of this page do not say which characters they show)")
        } else if signs.pictures > 0 {
            let first = if self.pictures.0 == 0 {
                number
            } else {
                self.pictures.1
            };
            self.pictures = (self.pictures.0 + 1, first);
            Some("(this page is a picture without text)")
        } else {
            Some("(this page has no text)")
        };
        self.bytes += blocks.iter().map(|block| block.text.len()).sum::<usize>();
        self.all.push(PageText { blocks, remark });
    }

    /// The size of most of the text.
    fn usual_size(&self) -> f64 {
        let mut sizes: BTreeMap<i32, usize> = BTreeMap::new();
        for block in self.all.iter().flat_map(|page| &page.blocks) {
            *sizes.entry(tenths(block.size)).or_default() += block.text.len();
        }
        let most = sizes.into_iter().max_by_key(|(_, length)| *length);
        most.map_or(0.0, |(size, _)| f64::from(size) / 10.0)
    }

    fn write(&self, form: Form, reading: &mut ReadableText) {
        let usual = self.usual_size();
        let (page_mark, mark) = match form {
            Form::Markdown => ("## ", "### "),
            Form::Text | Form::Raw => ("", ""),
        };
        let (mut writer, mut hidden) = (Writer::default(), self.hidden);
        for (index, page) in self.all.iter().enumerate() {
            writer.heading(2, &format!("Page {}", index + 1), page_mark);
            writer.block(page.remark.unwrap_or_default());
            for block in &page.blocks {
                let text = shown(&block.text, &mut hidden);
                if is_heading(block, &text, usual) && self.all.len() <= MANY_PAGES {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    writer.heading(3, &words.join(" "), mark);
                } else {
                    writer.block(&text);
                }
            }
        }
        writer.finish();
        let (pages, first) = self.pictures;
        if pages > 0 {
            reading.cut.push(Cut::Pictures { pages, first });
        }
        let (characters, first) = self.unknown;
        if characters > 0 {
            reading
                .cut
                .push(Cut::UnknownCharacters { characters, first });
        }
        reading.cut.extend(writer.cut());
        reading.headings = writer.headings;
        reading.text = writer.text;
        reading.hidden_characters = hidden;
    }
}

fn is_heading(block: &TextBlock, text: &str, usual: f64) -> bool {
    let (longest, rows) = MAX_HEADING;
    block.size > HEADING * usual
        && block.rows <= rows
        && text.chars().count() <= longest
        && text.chars().any(char::is_alphabetic)
}

/// Text without characters that show nothing, and with one mark for all unknown ones in a row.
fn shown(text: &str, hidden: &mut usize) -> String {
    let mut shown = String::with_capacity(text.len());
    hidden_text::push_shown(&mut shown, text, hidden);
    if !shown.contains("\u{fffd}\u{fffd}") {
        return shown;
    }
    let mut short = String::with_capacity(shown.len());
    for c in shown.chars() {
        if !(c == '\u{fffd}' && short.ends_with(c)) {
            short.push(c);
        }
    }
    short
}

fn tenths(size: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "sizes are below a million")]
    let tenths = (size * 10.0).round() as i32;
    tenths
}

/// What the file says it is called.
fn title(file: &mut PdfFile<'_>) -> Option<String> {
    let trailer = file.trailer.clone();
    let info = file.get_dictionary(&trailer, b"Info");
    let title = file.get(&info, b"Title");
    let bytes = title.text()?;
    let text = match bytes {
        [0xfe, 0xff, rest @ ..] => UTF_16BE.decode_without_bom_handling(rest).0,
        [0xef, 0xbb, 0xbf, rest @ ..] => UTF_8.decode_without_bom_handling(rest).0,
        _ => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    };
    let mut visible = String::new();
    hidden_text::push_shown(&mut visible, &text, &mut 0);
    let words: Vec<&str> = visible.split_whitespace().collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE).collect();
    (!title.is_empty()).then_some(title)
}

/// The language that the file says it is in.
fn language(file: &mut PdfFile<'_>) -> Option<String> {
    let catalog = file.catalog();
    let language = file.get(catalog.dictionary()?, b"Lang");
    let language = std::str::from_utf8(language.text()?).ok()?.trim();
    let is_code = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let fits = (2..=35).contains(&language.len()) && language.chars().all(is_code);
    fits.then(|| language.to_owned())
}
