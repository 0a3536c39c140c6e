//! Markdown as what is compared of it: words, lines of code, cells, headings and addresses.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use url::Url;

use super::ADDRESS;

/// Between the rows of tables.
pub(super) const ROW: &str = "\n";

/// Tags that an extractor left in its Markdown; they are no words.
const TAGS: [&str; 18] = [
    "a", "br", "caption", "center", "del", "div", "figure", "img", "ins", "p", "span", "sub",
    "sup", "table", "tbody", "td", "th", "tr",
];

/// What there is in a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) words: Vec<String>,
    pub(super) code: Vec<String>,
    /// The cells that are not empty, in the order of rows, each row behind a [`ROW`].
    pub(super) cells: Vec<String>,
    pub(super) headings: Vec<String>,
    pub(super) links: Vec<String>,
}

impl Parts {
    pub(super) fn of(markdown: &str) -> Self {
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut parts = Self::default();
        // The text of the block that is open, and how many pictures are around it.
        let (mut text, mut pictures) = (String::new(), 0);
        for event in Parser::new_ext(markdown, options) {
            match event {
                Event::Start(Tag::Image { .. }) => pictures += 1,
                Event::End(TagEnd::Image) => pictures -= 1,
                Event::Start(Tag::Link { dest_url, .. }) => parts.link(&dest_url),
                Event::Start(Tag::CodeBlock(
                    CodeBlockKind::Fenced(_) | CodeBlockKind::Indented,
                )) => {
                    parts.end(&mut text);
                }
                Event::End(TagEnd::CodeBlock) => {
                    let lines = text.lines().map(str::trim_end);
                    let lines = lines.filter(|line| !line.is_empty());
                    parts.code.extend(lines.map(str::to_owned));
                    parts.end(&mut text);
                }
                Event::End(TagEnd::Heading(_)) => {
                    parts.headings.push(words(&text).join(" "));
                    parts.end(&mut text);
                }
                Event::Start(Tag::TableHead | Tag::TableRow) => parts.cells.push(ROW.to_owned()),
                Event::End(TagEnd::TableCell) => {
                    let cell = words(&text).join(" ");
                    parts.cells.extend((!cell.is_empty()).then_some(cell));
                    parts.end(&mut text);
                }
                Event::Text(_) | Event::Code(_) if pictures > 0 => {}
                Event::Text(said) | Event::Code(said) => text.push_str(&said),
                Event::Html(said) | Event::InlineHtml(said) if !is_tag(&said) => {
                    text.push_str(&said);
                }
                Event::SoftBreak | Event::HardBreak => text.push('\n'),
                Event::Start(
                    Tag::Paragraph
                    | Tag::Heading { .. }
                    | Tag::Item
                    | Tag::TableCell
                    | Tag::List(_),
                )
                | Event::End(TagEnd::Paragraph | TagEnd::Item) => parts.end(&mut text),
                _ => {}
            }
        }
        parts.end(&mut text);
        parts
    }

    /// Ends the block that is open.
    fn end(&mut self, text: &mut String) {
        self.words.extend(words(text));
        text.clear();
    }

    fn link(&mut self, address: &str) {
        let base = Url::parse(ADDRESS).unwrap();
        let Ok(mut url) = base.join(address) else {
            return;
        };
        url.set_fragment(None);
        if url != base {
            self.links.push(url.to_string());
        }
    }
}

fn is_tag(html: &str) -> bool {
    let inner = html.trim().trim_start_matches(['<', '/']);
    let name: String = inner
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    TAGS.contains(&name.to_ascii_lowercase().as_str())
}

/// The words of a text. Each sign is one in scripts that put no space between words.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        let is_sign = matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}');
        let is_mark =
            matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{65f}');
        if !is_sign && (c.is_alphanumeric() || is_mark) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_sign && c.is_alphanumeric() {
            words.push(c.to_string());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[test]
fn what_markdown_has_is_found() {
    let parts = Parts::of(
        "# A [b](/c#d)\n\nOne *two* `x_y` ![no](/p.png) 漢字かな نَهر <B> <br>\n\n\
         | h | i |\n| --- | --- |\n|  | [j](k) |\n\n- l\n\n      m\n\n```rust\n  n  \n\no\n```\n",
    );
    assert_eq!(
        parts.words.join(" "),
        "A b One two x y 漢 字 か な نَهر B h i j l m n o"
    );
    assert_eq!(parts.code, ["m", "  n", "o"]);
    assert_eq!(parts.cells, [ROW, "h", "i", ROW, "j"]);
    assert_eq!(parts.headings, ["A b"]);
    assert_eq!(
        parts.links,
        ["https://site.example/c", "https://site.example/section/k"]
    );
}
