//! A page as a tree.
//!
//! The words of HTML are read by `html5gum`, as browsers do. The tree is built by fewer rules than a
//! browser has: those by which people leave out end tags, and none that moves an element to another
//! place. Each step costs at most the depth of the tree, which is limited, so the whole costs what
//! the page is long.

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};

use crate::{Cut, MAX_DEPTH, MAX_NODES, tag::Tag};

/// The most bytes of an attribute that are kept.
const MAX_ATTRIBUTE: usize = 4096;

/// A place in the tree.
pub(crate) type NodeId = usize;

/// The page: its nodes in the order they begin, so that every child comes after its parent.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// What was left out.
    pub(crate) cut: Vec<Cut>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<NodeId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
    next: Option<NodeId>,
    pub(crate) content: NodeContent,
}

#[derive(Debug)]
pub(crate) enum NodeContent {
    Text(String),
    Element(Tag, Vec<(Attribute, String)>),
}

/// The attributes that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Alt,
    AriaHidden,
    Checked,
    Class,
    Content,
    DataLang,
    Hidden,
    Href,
    HttpEquiv,
    Id,
    Lang,
    Name,
    Property,
    Role,
    Src,
    Start,
    Style,
    Type,
}

impl Attribute {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"alt" => Self::Alt,
            b"aria-hidden" => Self::AriaHidden,
            b"checked" => Self::Checked,
            b"class" => Self::Class,
            b"content" => Self::Content,
            b"data-lang" | b"data-language" => Self::DataLang,
            b"hidden" => Self::Hidden,
            b"href" => Self::Href,
            b"http-equiv" => Self::HttpEquiv,
            b"id" => Self::Id,
            b"lang" | b"xml:lang" => Self::Lang,
            b"name" => Self::Name,
            b"property" => Self::Property,
            b"role" => Self::Role,
            b"src" => Self::Src,
            b"start" => Self::Start,
            b"style" => Self::Style,
            b"type" => Self::Type,
            _ => return None,
        })
    }
}

impl Tree {
    /// Reads a page.
    pub(crate) fn parse(html: &str) -> Self {
        let mut builder = TreeBuilder::default();
        let mut emitter = DefaultEmitter::default();
        // So that what is in a script is no markup.
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter) {
            let Ok(token) = token;
            let room = match token {
                Token::StartTag(start) => builder.start(&start),
                Token::EndTag(end) => {
                    builder.end(Tag::of(&end.name));
                    true
                }
                Token::String(text) => builder.text(&text),
                Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => true,
            };
            if !room {
                builder.tree.cut.push(Cut::Nodes);
                break;
            }
        }
        if builder.was_too_deep {
            builder.tree.cut.insert(0, Cut::Depth);
        }
        builder.tree
    }

    /// How many nodes there are; they are numbered from 0.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(crate) fn tag(&self, id: NodeId) -> Option<Tag> {
        match self.nodes.get(id)?.content {
            NodeContent::Element(tag, _) => Some(tag),
            NodeContent::Text(_) => None,
        }
    }

    pub(crate) fn attribute(&self, id: NodeId, wanted: Attribute) -> Option<&str> {
        match &self.nodes.get(id)?.content {
            NodeContent::Element(_, attributes) => {
                let found = attributes.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| value.as_str())
            }
            NodeContent::Text(_) => None,
        }
    }

    /// Whether an element's class or id has a word, as a whole.
    pub(crate) fn has_class(&self, id: NodeId, word: &str) -> bool {
        let classes = self.attribute(id, Attribute::Class).unwrap_or_default();
        classes.split_ascii_whitespace().any(|class| class == word)
    }

    /// The children of a node.
    pub(crate) fn children(&self, id: NodeId) -> Children<'_> {
        Children {
            tree: self,
            next: self.nodes.get(id).and_then(|node| node.first),
        }
    }

    /// The nodes without a parent.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeId> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.parent.is_none())
            .map(|(id, _)| id)
    }

    /// The first element with this tag.
    pub(crate) fn first(&self, tag: Tag) -> Option<NodeId> {
        (0..self.len()).find(|id| self.tag(*id) == Some(tag))
    }

    /// All text below a node, as it is.
    pub(crate) fn text_of(&self, id: NodeId) -> String {
        let mut text = String::new();
        self.add_text(id, &mut text);
        text
    }

    fn add_text(&self, id: NodeId, to: &mut String) {
        match self.nodes.get(id).map(|node| &node.content) {
            Some(NodeContent::Text(text)) => to.push_str(text),
            Some(NodeContent::Element(Tag::Br, _)) => to.push('\n'),
            Some(NodeContent::Element(_, _)) => {
                for child in self.children(id) {
                    self.add_text(child, to);
                }
            }
            None => {}
        }
    }
}

/// The children of one node.
pub(crate) struct Children<'t> {
    tree: &'t Tree,
    next: Option<NodeId>,
}

impl Iterator for Children<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let here = self.next?;
        self.next = self.tree.nodes.get(here).and_then(|node| node.next);
        Some(here)
    }
}

/// What of the page was read so far.
#[derive(Default)]
struct TreeBuilder {
    tree: Tree,
    /// The elements that are open, outermost first.
    open: Vec<(NodeId, Tag)>,
    /// How many elements are open that were too deep to become nodes.
    too_deep: usize,
    was_too_deep: bool,
}

impl TreeBuilder {
    /// Takes a start tag. Returns whether there is room for more.
    fn start(&mut self, start: &StartTag<()>) -> bool {
        let tag = Tag::of(&start.name);
        if matches!(tag, Tag::Html | Tag::Body) && self.open.iter().any(|(_, open)| *open == tag) {
            return true;
        }
        self.close_before(tag);
        let ends_here = tag.is_void() || (start.self_closing && tag == Tag::Svg);
        if !ends_here && self.open.len() >= MAX_DEPTH {
            self.too_deep += 1;
            self.was_too_deep = true;
            return true;
        }
        let attributes = start
            .attributes
            .iter()
            .filter_map(|(name, value)| Some((Attribute::of(name)?, shortened(&value.value))));
        let content = NodeContent::Element(tag, attributes.collect());
        let Some(id) = self.add(content) else {
            return false;
        };
        if !ends_here {
            self.open.push((id, tag));
        }
        true
    }

    /// Closes what a start tag ends without saying so.
    fn close_before(&mut self, tag: Tag) {
        if tag.ends_paragraph() {
            self.close_within(
                |open| open == Tag::P,
                |open| open.is_boundary() || open == Tag::Button,
            );
        }
        let list = |open: Tag| open.is_boundary() || matches!(open, Tag::Ul | Tag::Ol | Tag::Dl);
        let row = |open: Tag| matches!(open, Tag::Table);
        match tag {
            Tag::Body => self.close_within(|open| open == Tag::Head, |_| false),
            Tag::Li => self.close_within(|open| open == Tag::Li, list),
            Tag::Dd | Tag::Dt => self.close_within(|open| matches!(open, Tag::Dd | Tag::Dt), list),
            Tag::Opt => self.close_within(|open| open == Tag::Opt, |open| open == Tag::Select),
            Tag::A => self.close_within(|open| open == Tag::A, Tag::is_boundary),
            Tag::Heading(_) => {
                let is_last = self
                    .open
                    .last()
                    .is_some_and(|(_, open)| matches!(open, Tag::Heading(_)));
                if is_last {
                    self.open.pop();
                }
            }
            Tag::Td | Tag::Th => self.close_within(
                |open| matches!(open, Tag::Td | Tag::Th),
                |open| matches!(open, Tag::Tr | Tag::Table),
            ),
            Tag::Tr => self.close_within(|open| open == Tag::Tr, row),
            Tag::Thead | Tag::Tbody | Tag::Tfoot => {
                self.close_within(
                    |open| matches!(open, Tag::Thead | Tag::Tbody | Tag::Tfoot),
                    row,
                );
            }
            _ => {}
        }
        // The first thing that belongs into a body ends a head that has no end tag.
        let in_head = matches!(self.open.last(), Some((_, Tag::Head)));
        let of_head = matches!(
            tag,
            Tag::Title
                | Tag::Meta
                | Tag::Link
                | Tag::Style
                | Tag::Script
                | Tag::Noscript
                | Tag::Template
                | Tag::OtherVoid
        );
        if in_head && !of_head {
            self.open.pop();
        }
    }

    /// Closes the innermost open element of a kind and what is in it, unless another kind is in
    /// between.
    fn close_within(&mut self, wanted: impl Fn(Tag) -> bool, unless: impl Fn(Tag) -> bool) {
        if self.too_deep > 0 {
            return;
        }
        for (index, (_, open)) in self.open.iter().enumerate().rev() {
            if wanted(*open) {
                self.open.truncate(index);
                return;
            }
            if unless(*open) {
                return;
            }
        }
    }

    fn end(&mut self, tag: Tag) {
        if tag.is_void() {
            if tag == Tag::Br {
                let _ = self.add(NodeContent::Element(Tag::Br, Vec::new()));
            }
            return;
        }
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        // Text after these still belongs to the page.
        if matches!(tag, Tag::Body | Tag::Html) {
            return;
        }
        let same =
            |open: Tag| open == tag || matches!((open, tag), (Tag::Heading(_), Tag::Heading(_)));
        let through = matches!(
            tag,
            Tag::Table
                | Tag::Tr
                | Tag::Td
                | Tag::Th
                | Tag::Tbody
                | Tag::Thead
                | Tag::Tfoot
                | Tag::Caption
                | Tag::Template
        );
        self.close_within(same, |open| match open {
            Tag::Table => true,
            other => !through && other.is_boundary(),
        });
    }

    /// Takes text. Returns whether there is room for more.
    fn text(&mut self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        if text.is_empty() {
            return true;
        }
        let in_head = matches!(self.open.last(), Some((_, Tag::Head)));
        if in_head && !text.trim().is_empty() {
            self.open.pop();
        }
        // Text that comes in pieces is one text.
        let last = match self.open.last() {
            Some((parent, _)) => self.tree.nodes.get(*parent).and_then(|node| node.last),
            None => self.tree.nodes.len().checked_sub(1),
        };
        let parent = self.open.last().map(|(id, _)| *id);
        let last = last.and_then(|id| self.tree.nodes.get_mut(id));
        if let Some(last) = last
            && last.parent == parent
            && let NodeContent::Text(known) = &mut last.content
        {
            known.push_str(&text);
            return true;
        }
        self.add(NodeContent::Text(text.into_owned())).is_some()
    }

    fn add(&mut self, content: NodeContent) -> Option<NodeId> {
        let id = self.tree.nodes.len();
        if id >= MAX_NODES {
            return None;
        }
        let parent = self.open.last().map(|(id, _)| *id);
        self.tree.nodes.push(Node {
            parent,
            first: None,
            last: None,
            next: None,
            content,
        });
        let before = parent
            .and_then(|parent| self.tree.nodes.get_mut(parent))
            .and_then(|parent| {
                if parent.first.is_none() {
                    parent.first = Some(id);
                }
                parent.last.replace(id)
            });
        if let Some(before) = before.and_then(|before| self.tree.nodes.get_mut(before)) {
            before.next = Some(id);
        }
        Some(id)
    }
}

fn shortened(value: &HtmlString) -> String {
    let value = value
        .get(..value.len().min(MAX_ATTRIBUTE))
        .unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as one line: `div(p(a),b)`.
    fn shown(tree: &Tree, ids: impl Iterator<Item = NodeId>) -> String {
        let each = ids.map(|id| match &tree.node(id).unwrap().content {
            NodeContent::Text(text) => text.trim().to_owned(),
            NodeContent::Element(tag, _) => {
                let name = format!("{tag:?}").to_lowercase();
                let inner = shown(tree, tree.children(id));
                if inner.is_empty() {
                    name
                } else {
                    format!("{name}({inner})")
                }
            }
        });
        each.filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(",")
    }

    fn check(html: &str, expect: &str) {
        let tree = Tree::parse(html);
        assert_eq!(shown(&tree, tree.roots()), expect, "{html}");
    }

    #[test]
    fn end_tags_that_people_leave_out() {
        check("<p>a<p>b<div>c</div>", "p(a),p(b),div(c)");
        check(
            "<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e",
            "ul(li(a),li(b,ul(li(c))),li(d)),e",
        );
        check(
            "<table><tr><td>a<td>b<tr><td>c</table>d",
            "table(tr(td(a),td(b)),tr(td(c))),d",
        );
        check(
            "<dl><dt>a<dd>b<dt>c<dd>d</dl>",
            "dl(dt(a),dd(b),dt(c),dd(d))",
        );
        check("<title>t</title><p>a", "title(t),p(a)");
        check(
            "<html><head><meta charset=x>text<body>b",
            "html(head(meta),text,body(b))",
        );
    }

    #[test]
    fn end_tags_that_close_nothing() {
        check("</p></div>a</b>", "a");
        check("<td>x</p></table>y", "td(xy)");
        check(
            "<p>a<table><tr><td>b</p>c</table>d",
            "p(a),table(tr(td(bc))),d",
        );
        check("<b>a<i>b</b>c</i>d", "b(a,i(b)),cd");
        check(
            "<script>if (a < b) { '</p>' }</script>x",
            "script(if (a < b) { '</p>' }),x",
        );
    }

    #[test]
    fn nesting_and_length_are_limited_and_said() {
        let deep = "<div>".repeat(5000) + "text" + &"</div>".repeat(5000) + "<p>after";
        let tree = Tree::parse(&deep);
        assert_eq!(tree.cut, [Cut::Depth]);
        assert!(tree.len() < MAX_DEPTH + 5);
        assert!(shown(&tree, tree.roots()).ends_with("p(after)"));
        let long = "<b>x</b>".repeat(MAX_NODES);
        let tree = Tree::parse(&long);
        assert_eq!(
            (tree.cut.as_slice(), tree.len()),
            (&[Cut::Nodes][..], MAX_NODES)
        );
    }
}
