//! Lines that are there to be clicked and not to be read: "Reply", "Read more", counts of votes.
//!
//! A line is left out if all of it is links that lead nowhere else or say only what they do, or if it
//! is a number alone, outside lists and tables. Must not look at what a link says within a sentence.

use crate::{
    main_content::top_down,
    tag::Tag,
    tree::{Attribute, NodeContent, NodeId, Tree},
};

/// The most characters of such a line.
const MAX_LINE: usize = 60;

/// What links say that do something.
const ACTIONS: [&str; 44] = [
    "add a comment",
    "ask question",
    "collapse",
    "copy",
    "copy link",
    "delete",
    "download",
    "edit",
    "edit this page",
    "embed",
    "expand",
    "favorite",
    "flag",
    "follow",
    "hide",
    "improve this answer",
    "improve this question",
    "jump to recipe",
    "like",
    "link",
    "log in",
    "login",
    "next",
    "parent",
    "permalink",
    "pin it",
    "post reply",
    "previous",
    "print",
    "print recipe",
    "quote",
    "raw",
    "read more",
    "register",
    "reply",
    "report",
    "save",
    "share",
    "show source",
    "sign in",
    "sign up",
    "source",
    "subscribe",
    "top",
];

/// Where the text of a line begins and ends, and what it is.
#[derive(Clone, Default)]
struct Line {
    texts: Vec<NodeId>,
    characters: usize,
    /// Characters outside links that are letters or digits.
    outside: usize,
    /// Whether each link so far does something.
    acts: bool,
    /// Whether there is a digit, and nothing else but signs.
    is_number: bool,
}

/// Drops the lines of a page that are only to be clicked.
pub(crate) fn drop_actions(tree: &Tree, dropped: &mut [bool]) {
    let size = tree.len();
    // What a number alone may be the whole of.
    let is_data = top_down(tree, |id| {
        matches!(
            tree.tag(id),
            Some(Tag::Table | Tag::Pre | Tag::Li | Tag::Dl | Tag::Heading(_) | Tag::P)
        )
    });
    let in_code = top_down(tree, |id| tree.tag(id) == Some(Tag::Pre));
    let is = |marks: &[bool], id: NodeId| marks.get(id).copied().unwrap_or(false);
    let (mut block, mut link) = (vec![0; size], vec![None; size]);
    let mut lines: Vec<Option<Box<Line>>> = vec![None; size];
    for id in 0..size {
        let Some(node) = tree.node(id) else { continue };
        let parent = node.parent.unwrap_or(id);
        let is_inline = tree.tag(parent).is_some_and(Tag::is_inline);
        let own = if is_inline {
            block.get(parent).copied().unwrap_or(parent)
        } else {
            parent
        };
        let around = link.get(parent).copied().flatten();
        let around = if tree.tag(id) == Some(Tag::A) {
            Some(id)
        } else {
            around
        };
        set(&mut block, id, own);
        set(&mut link, id, around);
        let NodeContent::Text(text) = &node.content else {
            continue;
        };
        if is(dropped, id) || is(&in_code, id) || text.trim().is_empty() {
            continue;
        }
        let Some(slot) = lines.get_mut(own) else {
            continue;
        };
        let entry = slot.get_or_insert_with(|| {
            Box::new(Line {
                acts: true,
                is_number: true,
                ..Line::default()
            })
        });
        entry.texts.push(id);
        entry.characters += text.trim().chars().count();
        entry.is_number &= text
            .chars()
            .all(|c| c.is_ascii_digit() || " .,\n\t".contains(c));
        match around {
            Some(link) => entry.acts &= acts(tree, link, text),
            None => entry.outside += text.chars().filter(|c| c.is_alphanumeric()).count(),
        }
    }
    for line in lines.iter().flatten() {
        let has_link = line
            .texts
            .iter()
            .any(|id| link.get(*id).copied().flatten().is_some());
        let is_to_click = has_link && line.acts && line.outside == 0;
        let is_count = line.is_number && !line.texts.iter().any(|id| is(&is_data, *id));
        if line.characters <= MAX_LINE && (is_to_click || is_count) {
            for id in &line.texts {
                set(dropped, *id, true);
            }
        }
    }
}

/// Whether a link with this text is there to do something.
fn acts(tree: &Tree, link: NodeId, text: &str) -> bool {
    let address = tree
        .attribute(link, Attribute::Href)
        .unwrap_or_default()
        .trim();
    let words = text
        .trim()
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_lowercase();
    let is_action = ACTIONS.contains(&words.as_str());
    let leads_nowhere = address == "#" || address.starts_with("javascript:");
    is_action || leads_nowhere || words.is_empty()
}

fn set<T>(of: &mut [T], id: NodeId, value: T) {
    if let Some(slot) = of.get_mut(id) {
        *slot = value;
    }
}
