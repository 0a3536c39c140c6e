//! What a call shows while it runs: items of its result as the tool has them, and the latest line of
//! its output.
//!
//! Nothing here is needed for the outcome, which has the whole result. So whoever watches may miss
//! some of it, and a tool never waits for a watcher.

use std::{fmt, sync::Arc};

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

/// One part of a result: a row, a match, a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedItem {
    /// Its number within the call, from 1.
    pub number: u64,
    /// The item in one line, for a person.
    pub line: String,
    /// The item itself.
    pub value: Value,
}

/// What a tool says about the items it streams.
#[derive(Debug, Clone, Copy)]
pub struct ItemSpec {
    /// What one item is called: `match`, `row`, `file`.
    pub name: &'static str,
    schema: fn() -> Schema,
}

impl ItemSpec {
    /// Items of this type, called by this name.
    pub const fn of<T: JsonSchema>(name: &'static str) -> Self {
        Self {
            name,
            schema: || schemars::schema_for!(T),
        }
    }

    /// JSON Schema (2020-12) of one item.
    pub fn schema(&self) -> Value {
        (self.schema)().to_value()
    }
}

/// Takes the items of one call. Implemented by the runtime, which caps and forwards them.
pub trait TakeItems: Send + Sync {
    /// Whether anybody watches; if not, there is no need to render an item.
    fn wanted(&self) -> bool;
    /// Takes one item: in a line for a person, and as JSON. Must not block.
    fn take(&self, line: String, value: Value);
}

/// The handle a tool emits items to.
#[derive(Clone)]
pub struct ItemSink(Arc<dyn TakeItems>);

impl ItemSink {
    /// A sink that renders each item and passes it on.
    pub fn new(to: Arc<dyn TakeItems>) -> Self {
        Self(to)
    }

    /// Emits an item, if anybody watches. A person sees it as its [`Display`](fmt::Display) says.
    /// Never waits; an item that JSON cannot hold is left out.
    pub fn emit<T: Serialize + fmt::Display>(&self, item: &T) {
        if self.0.wanted()
            && let Ok(value) = serde_json::to_value(item)
        {
            self.0.take(item.to_string(), value);
        }
    }
}

impl fmt::Debug for ItemSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ItemSink")
    }
}

/// Something that is told what an operation finds, as it finds it.
pub struct Tell<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Tell<T> {
    /// Tells this function, which must not block.
    pub fn new(told: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// Tells what was found.
    pub fn tell(&self, found: T) {
        (self.0)(found);
    }
}

impl<T> Clone for Tell<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Tell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// The most bytes of a line that [`LatestLine`] keeps.
pub const LATEST_LINE_BYTES: usize = 512;

/// The latest line of a text that arrives in pieces: the last that is not blank, complete or not.
/// A long line is cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatestLine {
    /// The last line that ended and was not blank.
    ended: String,
    /// What there is of the line that has not ended.
    open: String,
}

impl LatestLine {
    /// Takes the next piece.
    pub fn push(&mut self, text: &str) {
        let Some((before, open)) = text.rsplit_once('\n') else {
            append(&mut self.open, text);
            return;
        };
        let (first, more) = match before.split_once('\n') {
            Some((first, more)) => (first, Some(more)),
            None => (before, None),
        };
        append(&mut self.open, first);
        let mut newest = more.into_iter().flat_map(|more| more.rsplit('\n'));
        if let Some(line) = newest.find(|line| !line.trim().is_empty()) {
            self.ended.clear();
            append(&mut self.ended, line);
            self.open.clear();
        } else if self.open.trim().is_empty() {
            self.open.clear();
        } else {
            self.ended = std::mem::take(&mut self.open);
        }
        append(&mut self.open, open);
    }

    /// The line, without the white space around it; empty as long as there is none.
    pub fn get(&self) -> &str {
        match self.open.trim() {
            "" => self.ended.trim(),
            open => open,
        }
    }
}

/// Appends as much as the line may hold.
fn append(line: &mut String, text: &str) {
    let room = LATEST_LINE_BYTES.saturating_sub(line.len());
    let end = text.floor_char_boundary(room);
    line.push_str(text.get(..end).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(pieces: &[&str]) -> String {
        let mut latest = LatestLine::default();
        for piece in pieces {
            latest.push(piece);
        }
        latest.get().to_owned()
    }

    #[test]
    fn the_latest_line_is_the_last_that_says_something() {
        assert_eq!(latest(&[]), "");
        assert_eq!(latest(&["one\n"]), "one");
        assert_eq!(latest(&["one\ntwo\n\n  \n"]), "two");
        assert_eq!(latest(&["compi", "ling\n", "\n"]), "compiling");
        assert_eq!(latest(&["one\nwait "]), "wait");
        assert_eq!(latest(&[&"x".repeat(2_000)]).len(), LATEST_LINE_BYTES);
    }

    #[test]
    fn it_does_not_matter_how_the_text_is_cut() {
        for text in [
            "a\nb",
            "a\n\n b \n",
            "\n\na",
            "a b\n \nc\n\n",
            "a\nb\nc\n  ",
        ] {
            for cut in 0..=text.len() {
                let (before, after) = text.split_at(cut);
                assert_eq!(
                    latest(&[before, after]),
                    latest(&[text]),
                    "{text:?} cut at {cut}"
                );
            }
        }
    }
}
