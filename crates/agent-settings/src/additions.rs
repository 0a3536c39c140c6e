//! What Haft added to somebody else's file, and how it is removed when the file has changed in the
//! meantime: only what Haft added is removed, and a table or list that Haft created goes with it
//! once it is empty. Text in, text out; `files/installed.rs` stores it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{self, EditRefusal, Format};

/// A setting of an agent, in its desired state.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// It has this value.
    Is {
        /// The keys that lead to it.
        path: &'static [&'static str],
        /// The value.
        value: Value,
    },
    /// It is a list that includes these.
    Includes {
        /// The keys that lead to it.
        path: &'static [&'static str],
        /// What it includes.
        items: &'static [&'static str],
    },
}

/// One thing Haft added to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Addition {
    /// Haft's own entry. Removed whatever it says by then.
    Entry {
        /// The keys that lead to it.
        path: Vec<String>,
        /// How many of them existed before.
        kept: usize,
    },
    /// A value. Removed if it is still the same.
    Value {
        /// The keys that lead to it.
        path: Vec<String>,
        /// How many of them existed before.
        kept: usize,
        /// The value that was written.
        is: Value,
        /// The value it replaced.
        #[serde(skip_serializing_if = "Option::is_none")]
        was: Option<Value>,
    },
    /// Items of a list. Those still there are removed.
    Items {
        /// The keys that lead to the list.
        path: Vec<String>,
        /// How many of them existed before.
        kept: usize,
        /// The items that were added.
        items: Vec<String>,
    },
}

impl Addition {
    /// Haft's entry in a table, before it is added.
    pub fn entry(
        format: Format,
        text: &str,
        table: &[String],
        name: &str,
    ) -> Result<Self, EditRefusal> {
        let path: Vec<String> = table.iter().cloned().chain([name.to_owned()]).collect();
        let kept = there(format, text, &path)?.min(table.len());
        Ok(Self::Entry { path, kept })
    }

    /// Whether it is a setting rather than the entry.
    pub fn is_setting(&self) -> bool {
        match self {
            Self::Entry { .. } => false,
            Self::Value { .. } | Self::Items { .. } => true,
        }
    }

    fn path(&self) -> &[String] {
        match self {
            Self::Entry { path, .. } | Self::Value { path, .. } | Self::Items { path, .. } => path,
        }
    }

    /// The text without it.
    fn undone(&self, format: Format, text: &str) -> Result<String, EditRefusal> {
        let path = self.path();
        let Some((name, table)) = path.split_last() else {
            return Ok(text.to_owned());
        };
        match self {
            Self::Entry { kept, .. } => {
                let text = document::without_entry(format, text, table, name)?;
                document::without_empty(format, &text, table, *kept)
            }
            Self::Value { kept, is, was, .. } => {
                if document::value_at(format, text, path)?.as_ref() != Some(is) {
                    return Ok(text.to_owned());
                }
                if let Some(was) = was {
                    return document::with_value(format, text, path, was);
                }
                let text = document::without_entry(format, text, table, name)?;
                document::without_empty(format, &text, table, *kept)
            }
            Self::Items { kept, items, .. } => {
                let text = document::without_items(format, text, path, items)?;
                document::without_empty(format, &text, path, *kept)
            }
        }
    }
}

/// The text with a setting applied. What was added for it is recorded in the additions. What the
/// file's owner has already set is left alone.
pub fn with_setting(
    format: Format,
    text: &str,
    setting: &Setting,
    additions: &mut Vec<Addition>,
) -> Result<String, EditRefusal> {
    let (Setting::Is { path, .. } | Setting::Includes { path, .. }) = setting;
    let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    let kept = there(format, text, &path)?;
    let now = document::value_at(format, text, &path)?;
    match setting {
        Setting::Is { value, .. } => {
            if now.as_ref() == Some(value) {
                return Ok(text.to_owned());
            }
            let written = document::with_value(format, text, &path, value)?;
            let mut known = additions.iter_mut().filter_map(|addition| match addition {
                Addition::Value { path: of, is, .. } if *of == path => Some(is),
                Addition::Value { .. } | Addition::Entry { .. } | Addition::Items { .. } => None,
            });
            match known.next() {
                // Removal restores what was there before the first addition.
                Some(is) => is.clone_from(value),
                None => additions.push(Addition::Value {
                    path,
                    kept,
                    is: value.clone(),
                    was: now,
                }),
            }
            Ok(written)
        }
        Setting::Includes { items, .. } => {
            let there = now.as_ref().and_then(Value::as_array);
            let missing = |item: &&&str| {
                !there.is_some_and(|list| list.iter().any(|value| value.as_str() == Some(**item)))
            };
            let missing: Vec<String> = items
                .iter()
                .filter(missing)
                .map(|item| (*item).to_owned())
                .collect();
            if missing.is_empty() {
                return Ok(text.to_owned());
            }
            let written = document::with_items(format, text, &path, &missing)?;
            let mut lists = additions.iter_mut().filter_map(|addition| match addition {
                Addition::Items {
                    path: of, items, ..
                } if *of == path => Some(items),
                Addition::Items { .. } | Addition::Entry { .. } | Addition::Value { .. } => None,
            });
            match lists.next() {
                Some(known) => {
                    for item in missing {
                        if !known.contains(&item) {
                            known.push(item);
                        }
                    }
                }
                None => additions.push(Addition::Items {
                    path,
                    kept,
                    items: missing,
                }),
            }
            Ok(written)
        }
    }
}

/// The text without the additions, undone in reverse order.
pub fn undone(format: Format, text: &str, additions: &[Addition]) -> Result<String, EditRefusal> {
    let mut text = text.to_owned();
    for addition in additions.iter().rev() {
        text = addition.undone(format, &text)?;
    }
    Ok(text)
}

/// How many keys of a path exist.
fn there(format: Format, text: &str, path: &[String]) -> Result<usize, EditRefusal> {
    let mut count = 0;
    for length in 1..=path.len() {
        let way = path.get(..length).unwrap_or(path);
        if document::value_at(format, text, way)?.is_none() {
            break;
        }
        count = length;
    }
    Ok(count)
}
