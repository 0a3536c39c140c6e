//! Text within a line: runs of spaces become one, what hides is removed, and emphasis, code, links and
//! pictures get their marks.

use url::Url;

use crate::{
    hidden_text::push_shown,
    main_content::Selection,
    tag::Tag,
    tree::{Attribute, NodeContent, NodeId, Tree},
    unseen::seen_text,
};

/// The longest address of a link that is written.
const MAX_ADDRESS: usize = 2048;

/// What links to a heading from beside it.
const ANCHOR_SIGNS: [&str; 6] = ["¶", "#", "§", "🔗", "[link]", "permalink"];

/// What inline text is made with.
pub(crate) struct InlineContext<'p> {
    pub(crate) tree: &'p Tree,
    pub(crate) selection: &'p Selection,
    pub(crate) base: Option<&'p Url>,
    /// Whether marks are left out.
    pub(crate) is_plain: bool,
}

/// A line of text as it grows.
#[derive(Debug, Default)]
pub(crate) struct InlineText {
    pub(crate) text: String,
    pub(crate) hidden: usize,
}

impl InlineText {
    /// Adds text as a page has it.
    fn push(&mut self, text: &str) {
        let mut shown = String::with_capacity(text.len());
        push_shown(&mut shown, text, &mut self.hidden);
        for (number, word) in shown.split([' ', '\t', '\n', '\r', '\u{c}']).enumerate() {
            if number > 0 {
                self.space();
            }
            self.text.push_str(word);
        }
    }

    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }

    /// The text on one line.
    pub(crate) fn one_line(&self) -> String {
        self.text.trim().replace('\n', " ")
    }
}

impl InlineContext<'_> {
    /// Adds a node and what is in it.
    pub(crate) fn add(&self, id: NodeId, to: &mut InlineText) {
        if self.selection.drops(id) {
            return;
        }
        match self.tree.node(id).map(|node| &node.content) {
            Some(NodeContent::Text(text)) => to.push(text),
            Some(NodeContent::Element(tag, _)) => self.add_element(id, *tag, to),
            None => {}
        }
    }

    /// Adds what is in a node.
    pub(crate) fn add_children(&self, id: NodeId, to: &mut InlineText) {
        for child in self.tree.children(id) {
            self.add(child, to);
        }
    }

    fn add_element(&self, id: NodeId, tag: Tag, to: &mut InlineText) {
        match tag {
            Tag::B | Tag::Strong => self.marked(id, "**", to),
            Tag::I | Tag::Em => self.marked(id, "*", to),
            Tag::Del | Tag::S => self.marked(id, "~~", to),
            Tag::Code | Tag::Kbd | Tag::Samp | Tag::Tt => self.code(id, to),
            Tag::A => self.link(id, to),
            Tag::Img => self.picture(id, to),
            Tag::Br => {
                let end = to.text.trim_end_matches(' ').len();
                to.text.truncate(end);
                to.text.push('\n');
            }
            Tag::Q => {
                to.text.push('“');
                self.add_children(id, to);
                to.text.push('”');
            }
            Tag::Input => self.box_to_tick(id, to),
            Tag::Wbr => {}
            _ if tag.is_inline() => self.add_children(id, to),
            // A block where only a line fits.
            _ => {
                to.space();
                self.add_children(id, to);
                to.space();
            }
        }
    }

    /// Adds what is in a node between two marks, which stand at its words and not at its spaces.
    fn marked(&self, id: NodeId, mark: &str, to: &mut InlineText) {
        let start = to.text.len();
        self.add_children(id, to);
        if self.is_plain {
            return;
        }
        let inner = to.text.split_off(start);
        surround(&mut to.text, &inner, mark, mark);
    }

    fn code(&self, id: NodeId, to: &mut InlineText) {
        let mut inner = InlineText::default();
        inner.push(&seen_text(self.tree, id));
        to.hidden += inner.hidden;
        if self.is_plain {
            to.text.push_str(&inner.text);
            return;
        }
        let text = inner.text.trim();
        if text.is_empty() {
            return;
        }
        let marks = "`".repeat(longest_run(text, '`') + 1);
        let space = if text.starts_with('`') || text.ends_with('`') {
            " "
        } else {
            ""
        };
        for part in [&marks, space, text, space, &marks] {
            to.text.push_str(part);
        }
    }

    fn link(&self, id: NodeId, to: &mut InlineText) {
        let start = to.text.len();
        self.add_children(id, to);
        let inner = to.text.split_off(start);
        let words = inner.trim();
        if ANCHOR_SIGNS.contains(&words.to_lowercase().as_str()) || words.is_empty() {
            return;
        }
        let address = self.tree.attribute(id, Attribute::Href);
        match address.and_then(|address| self.address(address)) {
            Some(address) if !self.is_plain => {
                surround(
                    &mut to.text,
                    &inner.replace('\n', " "),
                    "[",
                    &format!("]({address})"),
                );
            }
            Some(_) | None => to.text.push_str(&inner),
        }
    }

    /// The words of a block that stands alone in a link, as a link.
    pub(crate) fn linked(&self, id: NodeId, words: String) -> String {
        let parent = self.tree.node(id).and_then(|node| node.parent);
        let link = parent.filter(|parent| self.tree.tag(*parent) == Some(Tag::A));
        let address = link.and_then(|link| self.tree.attribute(link, Attribute::Href));
        match address.and_then(|address| self.address(address)) {
            Some(address) if !self.is_plain && !words.is_empty() && !words.contains("](") => {
                format!("[{words}]({address})")
            }
            Some(_) | None => words,
        }
    }

    fn picture(&self, id: NodeId, to: &mut InlineText) {
        let alt = self.tree.attribute(id, Attribute::Alt).unwrap_or_default();
        let mut words = InlineText::default();
        words.push(alt);
        to.hidden += words.hidden;
        let words = words.one_line();
        if words.is_empty() {
            return;
        }
        let source = self.tree.attribute(id, Attribute::Src);
        match source.and_then(|source| self.address(source)) {
            Some(address) if !self.is_plain => {
                for part in ["![", &words, "](", &address, ")"] {
                    to.text.push_str(part);
                }
            }
            Some(_) | None => to.text.push_str(&words),
        }
    }

    fn box_to_tick(&self, id: NodeId, to: &mut InlineText) {
        if self.tree.attribute(id, Attribute::Type) == Some("checkbox") {
            let is_ticked = self.tree.attribute(id, Attribute::Checked).is_some();
            to.text.push_str(if is_ticked { "[x] " } else { "[ ] " });
        }
    }

    /// Where a link leads, if that is somewhere on the web and not on this page.
    fn address(&self, address: &str) -> Option<String> {
        let address = address.trim();
        if address.is_empty() || address.starts_with('#') || address.len() > MAX_ADDRESS {
            return None;
        }
        let url = match self.base {
            Some(base) => base.join(address).ok()?,
            None => Url::parse(address).ok()?,
        };
        if !matches!(url.scheme(), "http" | "https" | "mailto") {
            return None;
        }
        let text = String::from(url);
        Some(
            text.replace('(', "%28")
                .replace(')', "%29")
                .replace(' ', "%20"),
        )
    }
}

/// Appends a text between marks, with its outer spaces outside them.
fn surround(to: &mut String, inner: &str, before: &str, after: &str) {
    let words = inner.trim();
    if words.is_empty() {
        to.push_str(inner);
        return;
    }
    if inner.starts_with([' ', '\n']) {
        to.push(' ');
    }
    to.push_str(before);
    to.push_str(words);
    to.push_str(after);
    if inner.ends_with([' ', '\n']) {
        to.push(' ');
    }
}

/// The longest run of a character.
pub(crate) fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
