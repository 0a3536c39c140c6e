//! Finding tools by words, through an index built at the first search of a snapshot.
//!
//! Every word of a tool's name, title, groups and description points at the tools that have it.
//! A query word matches a tool's word when it is a prefix of it, so `comm` finds `command`.

use std::collections::{BTreeMap, HashMap};

use super::Entry;

/// A word in the name counts more than one in the description.
const NAME_WEIGHT: u32 = 8;
const TITLE_WEIGHT: u32 = 4;
const DESCRIPTION_WEIGHT: u32 = 1;

/// The most query words looked at.
const MAX_QUERY_WORDS: usize = 16;

/// An inverted index over a snapshot's tools.
#[derive(Debug, Default)]
pub(super) struct SearchIndex {
    /// Sorted, so that prefixes are a range.
    words: BTreeMap<String, Vec<(u32, u32)>>,
}

impl SearchIndex {
    pub(super) fn build<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut index = Self::default();
        for (position, entry) in entries.enumerate() {
            let Ok(position) = u32::try_from(position) else {
                break;
            };
            let mut weights: HashMap<String, u32> = HashMap::new();
            let spec = entry.spec();
            let mut add = |text: &str, weight: u32| {
                for word in words(text) {
                    let best = weights.entry(word).or_default();
                    *best = (*best).max(weight);
                }
            };
            add(entry.key().tool.as_str(), NAME_WEIGHT);
            add(entry.key().provider.as_str(), TITLE_WEIGHT);
            add(&spec.title, TITLE_WEIGHT);
            spec.groups
                .iter()
                .for_each(|group| add(group, TITLE_WEIGHT));
            add(&spec.description, DESCRIPTION_WEIGHT);
            for (word, weight) in weights {
                index
                    .words
                    .entry(word)
                    .or_default()
                    .push((position, weight));
            }
        }
        index
    }

    /// Positions of the tools that have every query word, best first, at most `limit`.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut found: Option<HashMap<u32, u32>> = None;
        for word in words(query).take(MAX_QUERY_WORDS) {
            let mut scores: HashMap<u32, u32> = HashMap::new();
            let longer = self.words.range(word.clone()..);
            for (_, postings) in longer.take_while(|(key, _)| key.starts_with(&word)) {
                for (position, weight) in postings {
                    let wanted = found
                        .as_ref()
                        .is_none_or(|found| found.contains_key(position));
                    if wanted {
                        let score = scores.entry(*position).or_default();
                        *score = (*score).max(*weight);
                    }
                }
            }
            if let Some(earlier) = &found {
                for (position, score) in &mut scores {
                    *score += earlier.get(position).copied().unwrap_or(0);
                }
            }
            found = Some(scores);
        }
        let mut ranked: Vec<(u32, u32)> = found.unwrap_or_default().into_iter().collect();
        // Entries are sorted by name, so the position breaks ties by name.
        let order = |a: &(u32, u32), b: &(u32, u32)| b.1.cmp(&a.1).then(a.0.cmp(&b.0));
        if limit < ranked.len() {
            ranked.select_nth_unstable_by(limit, order);
            ranked.truncate(limit);
        }
        ranked.sort_unstable_by(order);
        ranked
            .into_iter()
            .map(|(position, _)| position as usize)
            .collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
