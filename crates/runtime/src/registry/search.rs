//! Finding tools by words, through an index built at the first search of a snapshot.
//!
//! Every word of a tool's name, title, groups and description points at the tools that have it.
//! A query word matches a tool's word when it is a prefix of it, so `comm` finds `command`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

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
    /// Sorted, so that prefixes are a range; each list is sorted by position.
    words: BTreeMap<String, Vec<Posting>>,
}

/// The position of a tool, and how much a word says about it.
type Posting = (u32, u32);

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
        let mut lists: Vec<_> = words(query)
            .take(MAX_QUERY_WORDS)
            .map(|word| self.with_word(&word))
            .collect();
        // The rarest word leaves the fewest tools to look for in the other lists.
        lists.sort_by_key(|list| list.len());
        let mut lists = lists.into_iter();
        let mut ranked = lists.next().map(Cow::into_owned).unwrap_or_default();
        for list in lists {
            let mut rest: &[Posting] = &list;
            ranked.retain_mut(|(position, score)| {
                let before = rest.partition_point(|(other, _)| other < position);
                rest = rest.get(before..).unwrap_or_default();
                match rest.first() {
                    Some((other, weight)) if other == position => {
                        *score += weight;
                        true
                    }
                    Some(_) | None => false,
                }
            });
        }
        // Entries are sorted by name, so the position breaks ties by name.
        let order = |a: &Posting, b: &Posting| b.1.cmp(&a.1).then(a.0.cmp(&b.0));
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

    /// The tools that have a word starting like this, by position, each with its best weight.
    fn with_word(&self, word: &str) -> Cow<'_, [Posting]> {
        let from = (Bound::Included(word), Bound::Unbounded);
        let longer = self.words.range::<str, _>(from);
        let mut found = longer
            .take_while(|(key, _)| key.starts_with(word))
            .map(|(_, postings)| postings);
        let (Some(first), second) = (found.next(), found.next()) else {
            return Cow::default();
        };
        let Some(second) = second else {
            return Cow::Borrowed(first);
        };
        let mut all = [first.as_slice(), second].concat();
        all.extend(found.flatten());
        // The best weight of a tool first, which is the one that stays.
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        all.dedup_by_key(|(position, _)| *position);
        Cow::Owned(all)
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
