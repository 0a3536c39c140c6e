//! A file of numbered objects: where each is, from the file's own tables, and its bytes unpacked.
//!
//! Tables that are wrong are made anew from the objects themselves (`tables.rs`). An object that is
//! not there, or refers to itself, is nothing.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    filters,
    lexer::{Item, Lexer},
    object::{Dictionary, Object, Stream},
    tables::{self, Entry},
    work::WorkBudget,
};

/// The most objects that are kept once read, counted with what is in them.
const MAX_KEPT_PARTS: usize = 1_000_000;

/// The most bytes of unpacked streams of objects that are kept.
const MAX_KEPT_BYTES: usize = 24 * 1024 * 1024;

/// How many objects may need each other to be read.
const MAX_NEEDED: usize = 12;

/// The most objects of one stream of objects.
const MAX_PACKED: usize = 100_000;

/// A file.
pub(super) struct PdfFile<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) budget: &'a WorkBudget,
    pub(super) entries: BTreeMap<u32, Entry>,
    pub(super) trailer: Dictionary,
    /// Whether its tables were wrong.
    pub(super) is_damaged: bool,
    objects: BTreeMap<u32, Rc<Object>>,
    kept_parts: usize,
    packed: BTreeMap<u32, Rc<PackedObjects>>,
    kept_bytes: usize,
    needed: usize,
}

/// A stream of objects, unpacked.
struct PackedObjects {
    bytes: Vec<u8>,
    /// The number of each and where it is.
    places: Vec<(u32, usize)>,
}

impl<'a> PdfFile<'a> {
    pub(super) fn open(bytes: &'a [u8], budget: &'a WorkBudget) -> Self {
        let mut file = Self {
            bytes,
            budget,
            entries: BTreeMap::new(),
            trailer: Dictionary::default(),
            is_damaged: false,
            objects: BTreeMap::new(),
            kept_parts: 0,
            packed: BTreeMap::new(),
            kept_bytes: 0,
            needed: 0,
        };
        tables::load(&mut file);
        if file.catalog().dictionary().is_none() {
            file.rebuild();
        }
        file
    }

    /// The object with the list of pages.
    pub(super) fn catalog(&mut self) -> Rc<Object> {
        let root = self.trailer.get(b"Root").cloned();
        root.map_or_else(nothing, |root| self.resolve(&root))
    }

    /// Makes the tables anew, once.
    pub(super) fn rebuild(&mut self) {
        if self.is_damaged {
            return;
        }
        self.is_damaged = true;
        self.objects.clear();
        self.packed.clear();
        (self.kept_parts, self.kept_bytes) = (0, 0);
        tables::rebuild(self);
    }

    /// What is behind a reference; anything else is itself.
    pub(super) fn resolve(&mut self, object: &Object) -> Rc<Object> {
        if let Object::Reference(number) = object {
            return self.object(*number);
        }
        Rc::new(object.clone())
    }

    /// An entry of a dictionary, behind its reference.
    pub(super) fn get(&mut self, dictionary: &Dictionary, name: &[u8]) -> Rc<Object> {
        match dictionary.get(name) {
            Some(object) => self.resolve(object),
            None => nothing(),
        }
    }

    /// An entry of a dictionary that is one itself.
    pub(super) fn get_dictionary(&mut self, dictionary: &Dictionary, name: &[u8]) -> Dictionary {
        let object = self.get(dictionary, name);
        object.dictionary().cloned().unwrap_or_default()
    }

    /// An object by its number.
    pub(super) fn object(&mut self, number: u32) -> Rc<Object> {
        if let Some(object) = self.objects.get(&number) {
            return Rc::clone(object);
        }
        if self.needed >= MAX_NEEDED || !self.budget.spend(16) {
            return nothing();
        }
        self.needed += 1;
        let mut object = self.load(number);
        if object.is_none() && self.entries.contains_key(&number) && !self.is_damaged {
            self.rebuild();
            object = self.load(number);
        }
        let (object, parts) = object.unwrap_or((Object::Null, 1));
        let object = match object {
            Object::Reference(other) if other != number => self.object(other),
            object => Rc::new(object),
        };
        self.needed -= 1;
        if self.kept_parts + parts > MAX_KEPT_PARTS {
            self.objects.clear();
            self.kept_parts = 0;
        }
        self.kept_parts += parts;
        self.objects.insert(number, Rc::clone(&object));
        object
    }

    /// Reads an object, and says of how many it is made.
    fn load(&mut self, number: u32) -> Option<(Object, usize)> {
        match *self.entries.get(&number)? {
            Entry::At(at) => self.object_at(at, Some(number)),
            Entry::Packed { stream, index } => {
                let packed = self.packed_objects(stream)?;
                let place = packed.places.get(index).filter(|place| place.0 == number);
                let place = place.or_else(|| packed.places.iter().find(|place| place.0 == number));
                let mut lexer = Lexer::of_file(&packed.bytes, place?.1, self.budget);
                let object = lexer.object();
                Some((object, lexer.parts))
            }
        }
    }

    /// The object that begins at a place in the file, if it has that number.
    pub(super) fn object_at(&mut self, at: usize, number: Option<u32>) -> Option<(Object, usize)> {
        let mut lexer = Lexer::of_file(self.bytes, at, self.budget);
        let own = lexer.number()?;
        if number.is_some_and(|number| u32::try_from(own) != Ok(number)) {
            return None;
        }
        lexer.number()?;
        if !lexer.takes(b"obj") {
            return None;
        }
        let object = lexer.object();
        let parts = lexer.parts.max(1);
        let Object::Dictionary(dictionary) = object else {
            return Some((object, parts));
        };
        if !lexer.takes(b"stream") {
            return Some((Object::Dictionary(dictionary), parts));
        }
        let start = match self.bytes.get(lexer.at..) {
            Some([b'\r', b'\n', ..]) => lexer.at + 2,
            Some([b'\n' | b'\r', ..]) => lexer.at + 1,
            _ => lexer.at,
        };
        let end = self.end_of_stream(&dictionary, start);
        let stream = Stream {
            dictionary,
            start,
            end,
        };
        Some((Object::Stream(Rc::new(stream)), parts))
    }

    /// Where a stream ends: where its length says, if its end is there, or else at the next end.
    fn end_of_stream(&mut self, dictionary: &Dictionary, start: usize) -> usize {
        const END: &[u8] = b"endstream";
        let length = self.get(dictionary, b"Length").size();
        if let Some(end) = length.and_then(|length| start.checked_add(length))
            && end <= self.bytes.len()
            && Lexer::of_file(self.bytes, end, self.budget).takes(END)
        {
            return end;
        }
        let rest = self.bytes.get(start..).unwrap_or_default();
        let found = tables::find(rest, END).unwrap_or(rest.len());
        self.budget.spend(found / 4);
        start + found
    }

    fn packed_objects(&mut self, number: u32) -> Option<Rc<PackedObjects>> {
        if let Some(packed) = self.packed.get(&number) {
            return Some(Rc::clone(packed));
        }
        // One that is packed itself would need itself.
        if !matches!(self.entries.get(&number), Some(Entry::At(_))) {
            return None;
        }
        let object = self.object(number);
        let stream = object.stream()?;
        let count = self.get(&stream.dictionary, b"N").size()?.min(MAX_PACKED);
        let first = self.get(&stream.dictionary, b"First").size()?;
        let bytes = filters::unpacked(self, stream);
        let mut lexer = Lexer::of_file(&bytes, 0, self.budget);
        let mut places = Vec::new();
        for _ in 0..count {
            let (Some(number), Some(at)) = (lexer.number(), lexer.number()) else {
                break;
            };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            places.push((number, first.saturating_add(at)));
        }
        if self.kept_bytes + bytes.len() > MAX_KEPT_BYTES {
            self.packed.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += bytes.len();
        let packed = Rc::new(PackedObjects { bytes, places });
        self.packed.insert(number, Rc::clone(&packed));
        Some(packed)
    }

    /// The numbers of the objects in a stream of objects.
    pub(super) fn packed_numbers(&mut self, number: u32) -> Vec<u32> {
        let packed = self.packed_objects(number);
        packed.map_or_else(Vec::new, |packed| {
            packed.places.iter().map(|place| place.0).collect()
        })
    }

    /// The bytes of a stream as they are in the file.
    pub(super) fn raw(&self, stream: &Stream) -> &'a [u8] {
        self.bytes.get(stream.start..stream.end).unwrap_or_default()
    }

    /// A dictionary behind the word at a place, if there is one.
    pub(super) fn dictionary_at(&self, at: usize) -> Option<Dictionary> {
        let mut lexer = Lexer::of_file(self.bytes, at, self.budget);
        match lexer.item() {
            Item::Object(Object::Dictionary(dictionary)) => Some(dictionary),
            Item::Object(_) | Item::Keyword(_) | Item::End => None,
        }
    }
}

pub(super) fn nothing() -> Rc<Object> {
    Rc::new(Object::Null)
}
