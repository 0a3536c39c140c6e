//! The pages of a file, in order, with what each inherits.

use std::{collections::BTreeSet, rc::Rc};

use super::{
    MAX_PAGES,
    file::PdfFile,
    object::{Dictionary, Object},
};

/// How deep the tree of pages may be.
const MAX_DEPTH: usize = 64;

/// A page.
#[derive(Debug)]
pub(super) struct PageEntry {
    pub(super) dictionary: Rc<Object>,
    /// What its names stand for.
    pub(super) resources: Option<Object>,
    /// What of it is shown.
    pub(super) area: Option<Object>,
}

/// What pages have from what they are in.
#[derive(Debug, Clone, Default)]
struct Inherited {
    resources: Option<Object>,
    media: Option<Object>,
    crop: Option<Object>,
}

impl Inherited {
    fn with(&self, dictionary: &Dictionary) -> Self {
        let own = |name: &[u8], inherited: &Option<Object>| {
            dictionary.get(name).cloned().or_else(|| inherited.clone())
        };
        Self {
            resources: own(b"Resources", &self.resources),
            media: own(b"MediaBox", &self.media),
            crop: own(b"CropBox", &self.crop),
        }
    }
}

/// The pages, and whether there are more than are read.
pub(super) fn of(file: &mut PdfFile<'_>) -> (Vec<PageEntry>, bool) {
    let found = in_tree(file);
    if !found.0.is_empty() {
        return found;
    }
    file.rebuild();
    let found = in_tree(file);
    if !found.0.is_empty() {
        return found;
    }
    loose(file)
}

fn in_tree(file: &mut PdfFile<'_>) -> (Vec<PageEntry>, bool) {
    let catalog = file.catalog();
    let root = catalog
        .dictionary()
        .and_then(|catalog| catalog.get(b"Pages"));
    let mut next = Vec::from_iter(root.map(|root| (root.clone(), Inherited::default(), 0)));
    let (mut pages, mut visited) = (Vec::new(), BTreeSet::new());
    while let Some((object, inherited, depth)) = next.pop() {
        if let Object::Reference(number) = object
            && !visited.insert(number)
        {
            continue;
        }
        if !file.budget.spend(16) {
            break;
        }
        let node = file.resolve(&object);
        let Some(dictionary) = node.dictionary() else {
            continue;
        };
        let inherited = inherited.with(dictionary);
        let children = file.get(dictionary, b"Kids");
        let Some(children) = children.array() else {
            if pages.len() >= MAX_PAGES {
                return (pages, true);
            }
            pages.push(PageEntry {
                resources: inherited.resources,
                area: inherited.crop.or(inherited.media),
                dictionary: node,
            });
            continue;
        };
        if depth < MAX_DEPTH && file.budget.spend(children.len()) {
            // No more than are read, however many it names.
            let children = children.iter().take(MAX_PAGES + 1).rev();
            next.extend(children.map(|child| (child.clone(), inherited.clone(), depth + 1)));
        }
    }
    (pages, false)
}

/// All objects that say they are a page, where no tree leads to any.
fn loose(file: &mut PdfFile<'_>) -> (Vec<PageEntry>, bool) {
    let numbers: Vec<u32> = file.entries.keys().copied().collect();
    let mut pages = Vec::new();
    for number in numbers {
        let object = file.object(number);
        let Some(dictionary) = object.dictionary() else {
            continue;
        };
        if !dictionary.is_named(b"Type", b"Page") {
            continue;
        }
        if pages.len() >= MAX_PAGES {
            return (pages, true);
        }
        let own = Inherited::default().with(dictionary);
        pages.push(PageEntry {
            resources: own.resources,
            area: own.crop.or(own.media),
            dictionary: Rc::clone(&object),
        });
    }
    (pages, false)
}
