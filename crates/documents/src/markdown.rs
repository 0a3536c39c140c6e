//! Writes what was selected of a page, as Markdown or as plain text.

use url::Url;

use crate::{
    inline::{InlineContext, InlineText, longest_run},
    main_content::Selection,
    tag::Tag,
    tree::{Attribute, NodeContent, NodeId, Tree},
    unseen::is_hidden,
    writer::{Gap, Writer},
};

/// Classes of the numbers beside lines of code.
const LINE_NUMBERS: [&str; 8] = [
    "lineno",
    "linenos",
    "linenodiv",
    "line-number",
    "line-numbers",
    "gutter",
    "blob-num",
    "rouge-gutter",
];

/// Names of languages that stand alone as a class.
const LANGUAGES: [&str; 28] = [
    "bash",
    "c",
    "cpp",
    "csharp",
    "css",
    "diff",
    "go",
    "haskell",
    "html",
    "java",
    "javascript",
    "js",
    "json",
    "kotlin",
    "php",
    "python",
    "ruby",
    "rust",
    "scala",
    "sh",
    "shell",
    "sql",
    "swift",
    "toml",
    "ts",
    "typescript",
    "xml",
    "yaml",
];

/// The longest name of a language.
const MAX_LANGUAGE: usize = 24;

/// Writes a page.
pub(crate) struct PageWriter<'p> {
    pub(crate) inline: InlineContext<'p>,
    pub(crate) writer: Writer,
    pub(crate) hidden: usize,
    /// Which nodes have a block in them.
    has_block: Vec<bool>,
}

impl<'p> PageWriter<'p> {
    pub(crate) fn new(
        tree: &'p Tree,
        selection: &'p Selection,
        base: Option<&'p Url>,
        is_plain: bool,
    ) -> Self {
        let mut has_block = vec![false; tree.len()];
        for id in (0..tree.len()).rev() {
            let is_block = tree.tag(id).is_some_and(|tag| !tag.is_inline());
            let holds = is_block || has_block.get(id).copied().unwrap_or(false);
            let parent = tree.node(id).and_then(|node| node.parent);
            if let (true, Some(mark)) = (holds, parent.and_then(|parent| has_block.get_mut(parent)))
            {
                *mark = true;
            }
        }
        Self {
            inline: InlineContext {
                tree,
                selection,
                base,
                is_plain,
            },
            writer: Writer::default(),
            hidden: 0,
            has_block,
        }
    }

    /// Writes a node, or all of the page.
    pub(crate) fn write(&mut self, root: Option<NodeId>) {
        let roots: Vec<NodeId> = match root {
            Some(root) => self
                .inline
                .selection
                .heading
                .into_iter()
                .chain([root])
                .collect(),
            None => self.inline.tree.roots().collect(),
        };
        self.nodes(roots.into_iter());
        self.writer.finish();
    }

    /// Writes what is in a node.
    pub(crate) fn children(&mut self, id: NodeId) {
        let tree = self.inline.tree;
        self.nodes(tree.children(id));
    }

    fn nodes(&mut self, nodes: impl Iterator<Item = NodeId>) {
        let mut line = InlineText::default();
        for id in nodes {
            if !self.writer.has_room() {
                break;
            }
            if self.inline.selection.drops(id) {
                continue;
            }
            match self.inline.tree.node(id).map(|node| &node.content) {
                Some(NodeContent::Element(tag, _))
                    if !tag.is_inline() || self.has_block.get(id) == Some(&true) =>
                {
                    self.paragraph(&mut line);
                    self.block(id, *tag);
                }
                Some(_) => self.inline.add(id, &mut line),
                None => {}
            }
        }
        self.paragraph(&mut line);
    }

    fn paragraph(&mut self, line: &mut InlineText) {
        let line = std::mem::take(line);
        self.hidden += line.hidden;
        self.writer.block(line.text.trim());
    }

    fn block(&mut self, id: NodeId, tag: Tag) {
        match tag {
            Tag::Heading(level) => {
                let words = self.one_line(id);
                let words = self.inline.linked(id, words);
                let mark = format!("{} ", "#".repeat(level.into()));
                let mark = if self.inline.is_plain { "" } else { &mark };
                self.writer.heading(level, &words, mark);
            }
            Tag::Ul => self.list(id, None),
            Tag::Ol => {
                let start = self.inline.tree.attribute(id, Attribute::Start);
                let start = start.and_then(|start| start.trim().parse().ok());
                self.list(id, Some(start.unwrap_or(1)));
            }
            Tag::Li => self.item(id, "- "),
            Tag::Pre => self.code(id),
            Tag::Blockquote => {
                let mark = if self.inline.is_plain { "" } else { "> " };
                self.writer.indent(mark, mark);
                self.children(id);
                self.writer.outdent();
            }
            Tag::Table => self.table(id),
            Tag::Hr if !self.inline.is_plain => self.writer.block("---"),
            Tag::Summary if holds_heading(self.inline.tree, id) => self.children(id),
            Tag::Dt | Tag::Summary | Tag::Caption => {
                let words = self.one_line(id);
                if !words.is_empty() {
                    let words = if self.inline.is_plain || words.contains("**") {
                        words
                    } else {
                        format!("**{words}**")
                    };
                    self.writer.block(&words);
                }
            }
            Tag::Dd => {
                let first = if self.inline.is_plain { "  " } else { ": " };
                self.writer.next_gap(Gap::Line);
                self.writer.indent(first, "  ");
                self.children(id);
                self.writer.outdent();
            }
            _ => self.children(id),
        }
    }

    /// What is in a node, on one line.
    pub(crate) fn one_line(&mut self, id: NodeId) -> String {
        let mut line = InlineText::default();
        self.inline.add_children(id, &mut line);
        self.hidden += line.hidden;
        line.one_line()
    }

    fn list(&mut self, id: NodeId, start: Option<u64>) {
        let tree = self.inline.tree;
        let parent = tree.node(id).and_then(|node| node.parent);
        let is_nested = parent.and_then(|parent| tree.tag(parent)) == Some(Tag::Li);
        let (mut number, mut gap) = (start, if is_nested { Gap::Line } else { Gap::EmptyLine });
        for child in tree.children(id) {
            if self.inline.selection.drops(child) || !self.writer.has_room() {
                continue;
            }
            let before = self.writer.text.len();
            self.writer.next_gap(gap);
            match tree.tag(child) {
                Some(Tag::Li) => {
                    let mark = number.map_or("- ".to_owned(), |number| format!("{number}. "));
                    self.item(child, &mark);
                    number = number.map(|number| number.saturating_add(1));
                }
                // A list in a list, without an item around it.
                Some(Tag::Ul | Tag::Ol) => {
                    self.writer.indent("  ", "  ");
                    self.block(child, tree.tag(child).unwrap_or(Tag::Ul));
                    self.writer.outdent();
                }
                Some(_) => self.nodes(std::iter::once(child)),
                None => {}
            }
            if self.writer.text.len() > before {
                gap = Gap::Line;
            }
        }
        self.writer.clear_gap();
    }

    fn item(&mut self, id: NodeId, mark: &str) {
        let indent = " ".repeat(mark.len());
        self.writer.indent(mark, &indent);
        self.children(id);
        self.writer.outdent();
    }

    fn code(&mut self, id: NodeId) {
        self.code_of(std::iter::once(id), id);
    }

    /// Writes code that is in these elements, whose language `id` or what is around it names.
    pub(crate) fn code_of(&mut self, parts: impl Iterator<Item = NodeId>, id: NodeId) {
        let mut text = String::new();
        for part in parts {
            self.code_text(part, &mut text);
        }
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        if self.inline.is_plain {
            self.writer.block(text);
            return;
        }
        let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
        let language = self.language(id);
        self.writer
            .block(&format!("{fence}{language}\n{text}\n{fence}"));
    }

    /// The text of code, in which spaces count.
    fn code_text(&mut self, id: NodeId, to: &mut String) {
        let tree = self.inline.tree;
        match tree.node(id).map(|node| &node.content) {
            Some(NodeContent::Text(text)) => {
                crate::hidden_text::push_shown(to, text, &mut self.hidden);
            }
            Some(NodeContent::Element(tag, _)) => {
                if tag.is_silent() || is_hidden(tree, id) || is_line_number(tree, id) {
                    return;
                }
                if *tag == Tag::Br {
                    to.push('\n');
                }
                for child in tree.children(id) {
                    self.code_text(child, to);
                }
                // Where each line is an element of its own.
                if !tag.is_inline() && !to.ends_with('\n') {
                    to.push('\n');
                }
            }
            None => {}
        }
    }

    /// The language that a block of code, what is in it, or what is around it names.
    fn language(&self, id: NodeId) -> String {
        let tree = self.inline.tree;
        let inner = tree
            .children(id)
            .filter(|child| tree.tag(*child) == Some(Tag::Code));
        let outer = std::iter::successors(Some(id), |id| tree.node(*id)?.parent).take(4);
        for place in inner.chain(outer) {
            if let Some(named) = tree.attribute(place, Attribute::DataLang) {
                return clean_language(named);
            }
            let classes = tree.attribute(place, Attribute::Class).unwrap_or_default();
            for class in classes.split_ascii_whitespace() {
                let named = [
                    "language-",
                    "lang-",
                    "highlight-source-",
                    "highlight-",
                    "brush:",
                ];
                let named = named
                    .into_iter()
                    .find_map(|prefix| class.strip_prefix(prefix));
                let is_pre =
                    tree.tag(place) == Some(Tag::Pre) || tree.tag(place) == Some(Tag::Code);
                if let Some(named) = named {
                    return clean_language(named);
                }
                if is_pre && LANGUAGES.contains(&class) {
                    return class.to_owned();
                }
            }
        }
        String::new()
    }
}

fn holds_heading(tree: &Tree, id: NodeId) -> bool {
    let mut children = tree.children(id);
    children
        .any(|child| matches!(tree.tag(child), Some(Tag::Heading(_))) || holds_heading(tree, child))
}

fn clean_language(name: &str) -> String {
    let is_plain = ["default", "none", "plaintext", "text", "notranslate"].contains(&name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-#_.".contains(c);
    if is_plain || name.len() > MAX_LANGUAGE || !name.chars().all(is_name) {
        return String::new();
    }
    name.to_owned()
}

/// Whether an element holds the numbers beside lines of code.
pub(crate) fn is_line_number(tree: &Tree, id: NodeId) -> bool {
    LINE_NUMBERS.iter().any(|class| tree.has_class(id, class)) && has_no_words(tree, id)
}

/// Whether an element has no letters: some name the code for the numbers beside it.
fn has_no_words(tree: &Tree, id: NodeId) -> bool {
    match tree.node(id).map(|node| &node.content) {
        Some(NodeContent::Text(text)) => !text.chars().any(char::is_alphabetic),
        Some(NodeContent::Element(_, _)) => {
            tree.children(id).all(|child| has_no_words(tree, child))
        }
        None => true,
    }
}
