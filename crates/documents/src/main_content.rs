//! Which part of a page holds what it is about.
//!
//! What a reader cannot see is dropped first, then what is there on every page of a site: navigation,
//! footers, banners. Of the rest, prose is counted: blocks of text that are more than links. The main
//! content is what the page itself names as such, or the smallest element that holds nearly all prose.
//! A page where that leaves next to nothing is kept whole, and the result says so.

use std::collections::HashSet;

use crate::{
    Extractor,
    actions::drop_actions,
    table::{holds_more, rows},
    tag::Tag,
    tree::{Attribute, NodeContent, NodeId, Tree},
    unseen::is_hidden,
};

/// A block of text with fewer characters than this is no prose. Characters of scripts that write a
/// word with one or two of them count twice.
const PROSE_CHARACTERS: usize = 25;

/// The share of all prose that the main content holds, in hundredths.
const MOST_PROSE: usize = 85;

/// The share of all prose that makes the page's own word for its main content believable.
const NAMED_PROSE: usize = 40;

/// The fewest characters of a main content that the page does not name as such.
const FEWEST_CHARACTERS: usize = 120;

/// What is kept of a page.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Where reading starts; everywhere, if that is nowhere in particular.
    pub(crate) root: Option<NodeId>,
    /// The heading of the page, where that stands before what is kept.
    pub(crate) heading: Option<NodeId>,
    /// Which nodes are left out, each with all below it.
    dropped: Vec<bool>,
    pub(crate) extractor: Extractor,
    /// How many visible characters the page has.
    pub(crate) total: usize,
    /// How many of them are kept.
    pub(crate) kept: usize,
}

impl Selection {
    pub(crate) fn drops(&self, id: NodeId) -> bool {
        self.dropped.get(id).copied().unwrap_or(true)
    }
}

/// Chooses what to keep.
pub(crate) fn select(tree: &Tree) -> Selection {
    let unseen = unseen(tree);
    let seen = Counts::of(tree, &unseen);
    let total = seen.total(tree);
    let mut dropped = unseen.clone();
    drop_furniture(tree, &seen, &mut dropped);
    drop_comments(tree, &mut dropped);
    drop_actions(tree, &mut dropped);
    let counts = Counts::of(tree, &dropped);
    let named = named_root(tree, &counts);
    if let Some(root) = named.or_else(|| densest(tree, &counts)) {
        drop_link_lists(tree, &counts, root, &mut dropped);
        let kept = Counts::of(tree, &dropped);
        let kept = at(&kept.text, root);
        let fewest = if named.is_some() {
            1
        } else {
            FEWEST_CHARACTERS
        };
        if kept >= fewest && kept * 10 >= total {
            return Selection {
                root: Some(root),
                heading: heading_before(tree, &unseen, root, &mut dropped),
                dropped,
                extractor: Extractor::MainContent,
                total,
                kept,
            };
        }
    }
    Selection {
        root: None,
        heading: None,
        dropped: unseen,
        extractor: Extractor::WholePage,
        total,
        kept: total,
    }
}

/// Everything of a page, also what is not seen where scripts run.
pub(crate) fn all_of(tree: &Tree, root: NodeId) -> Selection {
    Selection {
        root: Some(root),
        heading: None,
        dropped: vec![false; tree.len()],
        extractor: Extractor::EmbeddedText,
        total: 0,
        kept: 0,
    }
}

/// The heading that names the page, if what is kept begins behind it. It is not dropped any more.
fn heading_before(
    tree: &Tree,
    unseen: &[bool],
    root: NodeId,
    dropped: &mut [bool],
) -> Option<NodeId> {
    let is = |marks: &[bool], id: NodeId| marks.get(id).copied().unwrap_or(true);
    let is_heading = |id: &NodeId| tree.tag(*id) == Some(Tag::Heading(1));
    let below = top_down(tree, |id| id == root);
    let has_own = (0..tree.len())
        .filter(is_heading)
        .any(|id| is(&below, id) && !is(dropped, id));
    if has_own {
        return None;
    }
    let title = words_of(&tree.text_of(tree.first(Tag::Title)?));
    let names_page = |id: &NodeId| {
        let words = words_of(&tree.text_of(*id));
        !is(unseen, *id) && !words.is_empty() && title.contains(&words)
    };
    let heading = (0..root).filter(is_heading).find(names_page)?;
    let within = top_down(tree, |id| id == heading);
    for (id, mark) in dropped.iter_mut().enumerate() {
        *mark &= !is(&within, id) || is(unseen, id);
    }
    Some(heading)
}

fn words_of(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

fn at(counts: &[usize], id: NodeId) -> usize {
    counts.get(id).copied().unwrap_or_default()
}

/// Which nodes no reader of the page sees.
fn unseen(tree: &Tree) -> Vec<bool> {
    top_down(tree, |id| {
        tree.tag(id)
            .is_some_and(|tag| tag.is_silent() || is_hidden(tree, id))
    })
}

/// For each node whether this is true of it or of one above it.
pub(crate) fn top_down(tree: &Tree, is_it: impl Fn(NodeId) -> bool) -> Vec<bool> {
    let mut marks: Vec<bool> = Vec::with_capacity(tree.len());
    for id in 0..tree.len() {
        let above = tree.node(id).and_then(|node| node.parent);
        let inherited = above.is_some_and(|above| marks.get(above).copied().unwrap_or(false));
        marks.push(inherited || is_it(id));
    }
    marks
}

/// Words in a class or an id of what is on every page of a site.
const FURNITURE: [&str; 40] = [
    "ad",
    "ads",
    "advert",
    "advertisement",
    "breadcrumb",
    "breadcrumbs",
    "catlinks",
    "consent",
    "cookie",
    "cookies",
    "crumb",
    "crumbs",
    "editsection",
    "footer",
    "gdpr",
    "masthead",
    "modal",
    "navbar",
    "navbox",
    "newsletter",
    "overlay",
    "pager",
    "pagination",
    "popup",
    "portlet",
    "printfooter",
    "promo",
    "recommendations",
    "recommended",
    "related",
    "share",
    "sharing",
    "sidebar",
    "sidenav",
    "skiplink",
    "social",
    "sponsor",
    "sponsored",
    "subscribe",
    "toc",
];

/// Words of the same that name other things, too: what has them is left out if it is mostly links.
const NAVIGATION: [&str; 6] = ["banner", "menu", "nav", "navigation", "skip", "toolbar"];

/// Words in a class or an id of what readers of a page wrote below it.
const COMMENTS: [&str; 5] = ["comment", "comments", "disqus", "respond", "webmentions"];

/// The same of what stands beside a heading for who may change the page.
const EDITING: [&str; 2] = ["editsection", "headerlink"];

/// Roles of the same.
const FURNITURE_ROLES: [&str; 9] = [
    "navigation",
    "banner",
    "contentinfo",
    "complementary",
    "search",
    "dialog",
    "alertdialog",
    "menu",
    "menubar",
];

fn drop_furniture(tree: &Tree, seen: &Counts, dropped: &mut [bool]) {
    let all_prose = seen.all_prose(tree);
    let held = top_down(tree, |id| {
        matches!(tree.tag(id), Some(Tag::Main | Tag::Article))
    });
    let in_code = top_down(tree, |id| tree.tag(id) == Some(Tag::Pre));
    let is_furniture = |id: NodeId| {
        let Some(tag) = tree.tag(id) else {
            return false;
        };
        let is_part = matches!(
            tag,
            Tag::Html | Tag::Body | Tag::Main | Tag::Article | Tag::Pre
        );
        if is_part || in_code.get(id).copied().unwrap_or(false) {
            return false;
        }
        let is_links = at(&seen.links, id) * 2 >= at(&seen.text, id);
        if tag == Tag::Table {
            let names = names(tree, id, &FURNITURE) || names(tree, id, &NAVIGATION);
            return names && is_links && at(&seen.prose, id) == 0;
        }
        if tag.is_inline() {
            return names(tree, id, &EDITING);
        }
        // What most of the text is in is the page, whatever it is called.
        if at(&seen.prose, id) * 2 > all_prose {
            return false;
        }
        let role = tree.attribute(id, Attribute::Role).unwrap_or_default();
        match tag {
            Tag::Nav | Tag::Footer | Tag::Aside => true,
            Tag::Header if !held.get(id).copied().unwrap_or(false) => {
                is_links || at(&seen.prose, id) == 0 && !has_title(tree, id)
            }
            _ => {
                FURNITURE_ROLES.contains(&role)
                    || names(tree, id, &FURNITURE)
                    || is_links && names(tree, id, &NAVIGATION)
            }
        }
    };
    let furniture = top_down(tree, is_furniture);
    for (mark, is_furniture) in dropped.iter_mut().zip(furniture) {
        *mark |= is_furniture;
    }
}

fn has_title(tree: &Tree, id: NodeId) -> bool {
    tree.children(id).any(|child| {
        tree.tag(child) == Some(Tag::Heading(1))
            || tree
                .children(child)
                .any(|inner| tree.tag(inner) == Some(Tag::Heading(1)))
    })
}

/// Whether a class or the id of an element has one of these words.
fn names(tree: &Tree, id: NodeId, known: &[&str]) -> bool {
    [Attribute::Class, Attribute::Id].into_iter().any(|name| {
        let value = tree.attribute(id, name).unwrap_or_default();
        let mut words = value.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| known.iter().any(|known| word.eq_ignore_ascii_case(known)))
    })
}

/// Drops what readers wrote below a page: one place for all of it, with less prose than the page has.
/// Where each part of a page has its own, or there is little else, it is what the page is about.
fn drop_comments(tree: &Tree, dropped: &mut [bool]) {
    let counts = Counts::of(tree, dropped);
    let is_place = |id: NodeId| {
        tree.tag(id)
            .is_some_and(|tag| !tag.is_inline() && tag != Tag::Body)
            && names(tree, id, &COMMENTS)
            && at(&counts.text, id) > 0
    };
    let within = top_down(tree, is_place);
    let is_within = |id: NodeId| within.get(id).copied().unwrap_or(false);
    let above = |id: &NodeId| tree.node(*id).and_then(|node| node.parent);
    let mut places =
        (0..tree.len()).filter(|id| is_within(*id) && !above(id).is_some_and(is_within));
    let (Some(place), None) = (places.next(), places.next()) else {
        return;
    };
    if at(&counts.prose, place) * 2 <= counts.all_prose(tree) {
        for (mark, is_within) in dropped.iter_mut().zip(within) {
            *mark |= is_within;
        }
    }
}

/// The element that the page itself names as its main content, if it holds enough of the prose.
fn named_root(tree: &Tree, counts: &Counts) -> Option<NodeId> {
    let all = counts.all_prose(tree);
    let believable = |id: &NodeId, share: usize| {
        at(&counts.prose, *id) * 100 >= all * share && at(&counts.text, *id) > 0
    };
    let main = |id: &NodeId| {
        tree.tag(*id) == Some(Tag::Main) || tree.attribute(*id, Attribute::Role) == Some("main")
    };
    let largest = |of: &dyn Fn(&NodeId) -> bool| {
        (0..tree.len()).filter(of).max_by_key(|id| {
            (
                at(&counts.prose, *id),
                at(&counts.text, *id),
                usize::MAX - id,
            )
        })
    };
    let main = largest(&main).filter(|id| believable(id, NAMED_PROSE));
    // An article that has nearly all of it is closer than the main element around it.
    let article = largest(&|id| tree.tag(*id) == Some(Tag::Article));
    let article = article.filter(|id| believable(id, MOST_PROSE));
    article.or(main)
}

/// The smallest element that holds nearly all prose.
fn densest(tree: &Tree, counts: &Counts) -> Option<NodeId> {
    let all = counts.all_prose(tree);
    if all == 0 {
        return None;
    }
    let holds =
        |id: &NodeId| tree.tag(*id).is_some() && at(&counts.prose, *id) * 100 >= all * MOST_PROSE;
    let mut here = tree.roots().find(holds)?;
    while let Some(child) = tree.children(here).find(holds) {
        // A paragraph alone lost its heading.
        if matches!(
            tree.tag(child),
            Some(Tag::P | Tag::Pre | Tag::Table | Tag::Ul | Tag::Ol | Tag::Blockquote | Tag::Li)
        ) {
            break;
        }
        here = child;
    }
    // What stands beside it and holds code or a table belongs to it.
    while let Some(above) = tree.node(here).and_then(|node| node.parent) {
        let mut beside = tree.children(above).filter(|id| *id != here);
        if tree.tag(above) == Some(Tag::Tr)
            || !beside.any(|id| at(&counts.prose, id) > 0 && holds_data(tree, id))
        {
            break;
        }
        here = above;
    }
    Some(here)
}

/// Whether there is code, or a table with data, in an element.
fn holds_data(tree: &Tree, id: NodeId) -> bool {
    tree.tag(id) == Some(Tag::Pre)
        || tree.tag(id) == Some(Tag::Table) && rows(tree, id).len() > 2
        || tree.children(id).any(|child| holds_data(tree, child))
}

/// Drops lists that are only links, unless they are most of what the page has.
fn drop_link_lists(tree: &Tree, counts: &Counts, root: NodeId, dropped: &mut [bool]) {
    let arranging = arranging_cells(tree);
    let is_link_list = |id: NodeId| {
        let is_list = matches!(
            tree.tag(id),
            Some(Tag::Ul | Tag::Ol | Tag::Div | Tag::Section)
        );
        // A cell with a list of links beside one with the page.
        let is_list = is_list || tree.tag(id) == Some(Tag::Td) && arranging.contains(&id);
        let (text, links) = (at(&counts.text, id), at(&counts.links, id));
        is_list && id != root && at(&counts.prose, id) == 0 && links * 100 > text * 60 && text > 40
    };
    let lists = top_down(tree, is_link_list);
    let mut would = dropped.to_vec();
    for (mark, is_list) in would.iter_mut().zip(&lists) {
        *mark |= *is_list;
    }
    let left = Counts::of(tree, &would);
    if at(&left.text, root) * 2 >= at(&counts.text, root) {
        dropped.copy_from_slice(&would);
    }
}

/// The cells of tables that only arrange a page.
fn arranging_cells(tree: &Tree) -> HashSet<NodeId> {
    let tables = (0..tree.len()).filter(|id| tree.tag(*id) == Some(Tag::Table));
    let tables = tables.map(|table| rows(tree, table));
    let tables = tables.filter(|rows| rows.iter().flatten().any(|cell| holds_more(tree, *cell)));
    tables.flatten().flatten().collect()
}

/// How much of what each node holds, without what is dropped.
struct Counts {
    /// Characters that are no spaces.
    text: Vec<usize>,
    /// Those in links.
    links: Vec<usize>,
    /// Those of prose.
    prose: Vec<usize>,
}

impl Counts {
    fn of(tree: &Tree, dropped: &[bool]) -> Self {
        let (size, in_link) = (
            tree.len(),
            top_down(tree, |id| tree.tag(id) == Some(Tag::A)),
        );
        let in_code = top_down(tree, |id| tree.tag(id) == Some(Tag::Pre));
        let mut counts = Self {
            text: vec![0; size],
            links: vec![0; size],
            prose: vec![0; size],
        };
        let is = |marks: &[bool], id: NodeId| marks.get(id).copied().unwrap_or(false);
        // Each text counts for the block it stands in.
        let (mut block, mut weight, mut linked) = (vec![0; size], vec![0; size], vec![0; size]);
        for id in 0..size {
            let Some(node) = tree.node(id) else { continue };
            let parent = node.parent.unwrap_or(id);
            let own = match tree.tag(parent) {
                Some(tag) if tag.is_inline() => block.get(parent).copied().unwrap_or(parent),
                _ => parent,
            };
            set(&mut block, id, own);
            let NodeContent::Text(text) = &node.content else {
                continue;
            };
            if is(dropped, id) {
                continue;
            }
            let (characters, weighted) = weigh(text);
            add(&mut counts.text, id, characters);
            add(&mut weight, own, weighted);
            if is(&in_link, id) {
                add(&mut counts.links, id, characters);
                add(&mut linked, own, weighted);
            }
        }
        for id in 0..size {
            let (all, links) = (at(&weight, id), at(&linked, id));
            let is_heading = matches!(tree.tag(id), Some(Tag::Heading(_)));
            let is_prose = all >= PROSE_CHARACTERS && links * 2 <= all && !is_heading;
            if is_prose || (all > 0 && is(&in_code, id)) {
                add(&mut counts.prose, id, all - links.min(all));
            }
        }
        for id in (0..size).rev() {
            if let Some(parent) = tree.node(id).and_then(|node| node.parent) {
                for of in [&mut counts.text, &mut counts.links, &mut counts.prose] {
                    let amount = at(of, id);
                    add(of, parent, amount);
                }
            }
        }
        counts
    }

    fn total(&self, tree: &Tree) -> usize {
        tree.roots().map(|id| at(&self.text, id)).sum()
    }

    fn all_prose(&self, tree: &Tree) -> usize {
        tree.roots().map(|id| at(&self.prose, id)).sum()
    }
}

fn set(of: &mut [usize], id: NodeId, value: usize) {
    if let Some(slot) = of.get_mut(id) {
        *slot = value;
    }
}

fn add(of: &mut [usize], id: NodeId, amount: usize) {
    if let Some(slot) = of.get_mut(id) {
        *slot += amount;
    }
}

/// How many characters a text has that are no spaces, and the same with those of dense scripts twice.
fn weigh(text: &str) -> (usize, usize) {
    let (mut characters, mut weighted) = (0, 0);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        characters += 1;
        let is_dense = matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}');
        weighted += if is_dense { 2 } else { 1 };
    }
    (characters, weighted)
}
