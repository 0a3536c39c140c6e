//! What a PDF is made of: numbers, names, texts, lists, dictionaries, streams and references.

use std::{collections::BTreeMap, rc::Rc};

/// The largest number that is taken; what is larger is no place on a page.
const MAX_NUMBER: f64 = 1e9;

/// One object. To copy one costs little, whatever is in it: files make their reader do that often.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Object {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
    Array(Rc<Vec<Object>>),
    Dictionary(Dictionary),
    Stream(Rc<Stream>),
    /// The number of another object.
    Reference(u32),
}

/// Named objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Dictionary(Rc<BTreeMap<Vec<u8>, Object>>);

/// A dictionary with bytes, which are a part of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    pub(super) dictionary: Dictionary,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Object {
    pub(super) fn dictionary(&self) -> Option<&Dictionary> {
        match self {
            Self::Dictionary(dictionary) => Some(dictionary),
            Self::Stream(stream) => Some(&stream.dictionary),
            Self::Null
            | Self::Boolean(_)
            | Self::Integer(_)
            | Self::Real(_)
            | Self::Name(_)
            | Self::Text(_)
            | Self::Array(_)
            | Self::Reference(_) => None,
        }
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        if let Self::Stream(stream) = self {
            return Some(stream);
        }
        None
    }

    pub(super) fn array(&self) -> Option<&[Object]> {
        if let Self::Array(items) = self {
            return Some(items);
        }
        None
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        if let Self::Name(name) = self {
            return Some(name);
        }
        None
    }

    pub(super) fn text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self {
            return Some(text);
        }
        None
    }

    /// A whole number, also where it is written with a point.
    pub(super) fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self {
            return Some(*number);
        }
        let real = self.number()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is between two numbers that fit"
        )]
        Some(real as i64)
    }

    /// A number that is not negative and can be a place in the file or a count.
    pub(super) fn size(&self) -> Option<usize> {
        usize::try_from(self.integer()?).ok()
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => {
                let near = i32::try_from(*number);
                let far = if *number < 0 { -MAX_NUMBER } else { MAX_NUMBER };
                Some(near.map_or(far, f64::from).clamp(-MAX_NUMBER, MAX_NUMBER))
            }
            Self::Real(number) if number.is_finite() => Some(number.clamp(-MAX_NUMBER, MAX_NUMBER)),
            Self::Real(_)
            | Self::Null
            | Self::Boolean(_)
            | Self::Name(_)
            | Self::Text(_)
            | Self::Array(_)
            | Self::Dictionary(_)
            | Self::Stream(_)
            | Self::Reference(_) => None,
        }
    }
}

impl Dictionary {
    pub(super) fn new(entries: BTreeMap<Vec<u8>, Object>) -> Self {
        Self(Rc::new(entries))
    }

    /// Sets an entry.
    pub(super) fn set(&mut self, name: &[u8], value: Object) {
        Rc::make_mut(&mut self.0).insert(name.to_vec(), value);
    }

    /// Takes the entries of another that this one has not.
    pub(super) fn fill(&mut self, other: &Self) {
        let own = Rc::make_mut(&mut self.0);
        for (name, value) in other.0.iter() {
            own.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Object> {
        self.0.get(name)
    }

    /// Whether an entry is this name.
    pub(super) fn is_named(&self, entry: &[u8], name: &[u8]) -> bool {
        self.get(entry).and_then(Object::name) == Some(name)
    }
}
