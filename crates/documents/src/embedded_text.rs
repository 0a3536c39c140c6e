//! The text of a page that has none: pages that scripts build often carry it all the same, for who has
//! no scripts, or as the data that the scripts show.
//!
//! Only for pages without text of their own, because nobody sees it who looks at the page. It becomes
//! a page again, and is read as one.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{
    tag::Tag,
    tree::{Attribute, Tree},
};

/// The fewest characters of a text that is worth reading.
const FEWEST: usize = 200;

/// The fewest characters of one text in the data.
const FEWEST_OF_ONE: usize = 80;

/// The most bytes of data that are looked at: read, they take many times as much memory.
const MAX_DATA: usize = 1024 * 1024;

/// The most texts that are taken.
const MAX_TEXTS: usize = 500;

/// The names of a title beside a text.
const TITLES: [&str; 3] = ["headline", "title", "name"];

/// What a page carries, as a page.
pub(crate) fn of(tree: &Tree) -> Option<String> {
    // What is in these is read as text, as a browser with scripts does: it is the source of a page.
    let all = (0..tree.len()).filter(|id| tree.tag(*id) == Some(Tag::Noscript));
    let fallback: String = all.map(|id| tree.text_of(id)).collect();
    if visible(&fallback) >= FEWEST {
        return Some(format!("<div>{fallback}</div>"));
    }
    let mut texts = Texts::default();
    let scripts = (0..tree.len()).filter(|id| tree.tag(*id) == Some(Tag::Script));
    for script in scripts {
        let kind = tree.attribute(script, Attribute::Type).unwrap_or_default();
        let data = tree.text_of(script);
        if !kind.contains("json") || data.len() > MAX_DATA {
            continue;
        }
        if let Ok(value) = serde_json::from_str::<Value>(&data) {
            texts.add(&value, None);
        }
    }
    (visible(&texts.page) >= FEWEST).then(|| format!("<div>{}</div>", texts.page))
}

/// How many characters a person would see of this.
fn visible(html: &str) -> usize {
    let (mut count, mut in_tag) = (0, false);
    for c in html.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag && !c.is_whitespace() => count += 1,
            _ => {}
        }
    }
    count
}

#[derive(Default)]
struct Texts {
    page: String,
    taken: Vec<String>,
}

impl Texts {
    /// Adds the texts in a value; `title` stands beside it. As deep as `serde_json` reads, 128.
    fn add(&mut self, value: &Value, title: Option<&str>) {
        match value {
            Value::String(text) => self.text(text, title),
            Value::Array(values) => {
                for value in values {
                    self.add(value, None);
                }
            }
            Value::Object(members) => {
                let named = TITLES.iter().find_map(|name| members.get(*name)?.as_str());
                for value in members.values() {
                    self.add(value, named);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, title: Option<&str>) {
        // An address or a key is one long word.
        let has_words = text.split_whitespace().nth(5).is_some() || !text.is_ascii();
        let is_prose = visible(text) >= FEWEST_OF_ONE && has_words;
        let is_known = self.taken.iter().any(|taken| taken == text);
        if !is_prose || is_known || self.taken.len() >= MAX_TEXTS {
            return;
        }
        self.taken.push(text.to_owned());
        if let Some(title) = title {
            let _ = write!(self.page, "<h1>{}</h1>", escaped(title));
        }
        if text.contains("</") {
            let _ = write!(self.page, "<div>{text}</div>");
            return;
        }
        for paragraph in text.split("\n\n") {
            let _ = write!(self.page, "<p>{}</p>", escaped(paragraph));
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
