//! Finds tools by words, through an index built at the first search of a snapshot.
//!
//! Every word of a tool's name, title, groups, description and parameters points to the tools that
//! have it. A query word matches a tool's word when it is a prefix of it, so `comm` finds
//! `command`. Results are ranked by BM25 with weighted fields: a rare word counts more than a
//! frequent one, a word in the name more than one in the description, the tenth mention hardly more
//! than the third. It uses integers only, so that the same tools and words give the same order
//! everywhere.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    ops::Bound,
};

use super::{
    Entry,
    words::{name_words, parameters, query_words, words},
};

/// How much one mention counts, by field.
const NAME_WEIGHT: u32 = 8;
const TITLE_WEIGHT: u32 = 4;
const DESCRIPTION_WEIGHT: u32 = 2;
const PARAMETER_WEIGHT: u32 = 2;
const PARAMETER_DESCRIPTION_WEIGHT: u32 = 1;

/// The most words indexed per tool, so that one description cannot make the index large.
const MAX_TOOL_WORDS: usize = 4_096;

/// How deep parameters are indexed.
const MAX_PARAMETER_DEPTH: usize = 4;

/// The most query words used.
const MAX_QUERY_WORDS: usize = 32;

/// A shorter query word ranks only tools that contain it as a whole word; as a prefix it would rank
/// nearly all.
const MIN_PREFIX_CHARS: usize = 3;

/// BM25's `b`, in thousandths: how much a long description counts against a tool.
const LENGTH_MATTERS: u64 = 600;

/// BM25's `k1`, in tenths of a mention in a description: how soon further mentions stop counting.
const MENTIONS_MATTER: u64 = 12 * DESCRIPTION_WEIGHT as u64;

/// The fixed-point value of 1 in the index.
const SCALE: u64 = 1_000;

/// An inverted index over a snapshot's tools.
#[derive(Debug, Default)]
pub(super) struct SearchIndex {
    /// Sorted, so that prefixes are a range; each list is sorted by position.
    words: BTreeMap<String, Vec<Posting>>,
    tools: usize,
}

/// The position of a tool, and the weight of a word for it: BM25's saturated frequency.
type Posting = (u32, u32);

impl SearchIndex {
    pub(super) fn build<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut vocabulary = Vocabulary::default();
        let mut postings: Vec<Vec<Posting>> = Vec::new();
        let mut lengths: Vec<u32> = Vec::new();
        for (position, entry) in entries.enumerate() {
            let Ok(position) = u32::try_from(position) else {
                break;
            };
            let mentions = vocabulary.mentions_of(entry);
            lengths.push(mentions.iter().map(|(_, weight)| weight).sum());
            postings.resize_with(vocabulary.numbers.len(), Vec::new);
            for (word, weight) in mentions {
                if let Some(postings) = postings.get_mut(word) {
                    postings.push((position, weight));
                }
            }
        }
        let average = average(&lengths);
        for (position, weight) in postings.iter_mut().flatten() {
            let length = lengths.get(*position as usize).copied();
            *weight = saturated(*weight, length.unwrap_or_default(), average);
        }
        let mut postings_of = |number: usize| postings.get_mut(number).map(std::mem::take);
        let words = vocabulary.numbers.into_iter();
        Self {
            words: words
                .filter_map(|(word, number)| Some((word, postings_of(number)?)))
                .collect(),
            tools: lengths.len(),
        }
    }

    /// Positions of the tools that have every query word, in order.
    pub(super) fn having_all(&self, query: &str) -> Vec<usize> {
        let mut gathered = GatheredTools::new(self.tools);
        let mut had: Vec<usize> = vec![0; self.tools];
        let mut wanted = 0;
        for word in words(query).take(MAX_QUERY_WORDS) {
            wanted += 1;
            self.gather(&word, 0, &mut gathered);
            gathered.drain(|position, _| {
                if let Some(had) = had.get_mut(position) {
                    *had += 1;
                }
            });
        }
        let has_all = |had: usize| wanted > 0 && had == wanted;
        let had = had.into_iter().enumerate();
        had.filter_map(|(position, had)| has_all(had).then_some(position))
            .collect()
    }

    /// Positions of the tools that have any query word, best first.
    pub(super) fn ranked(&self, query: &str) -> impl Iterator<Item = usize> + use<> {
        let mut gathered = GatheredTools::new(self.tools);
        let mut scores = vec![0_u32; self.tools];
        let mut found = Vec::new();
        for word in query_words(query).into_iter().take(MAX_QUERY_WORDS) {
            self.gather(&word, MIN_PREFIX_CHARS, &mut gathered);
            let rarity = rarity(gathered.positions.len(), self.tools);
            gathered.drain(|position, weight| {
                if let Some(score) = scores.get_mut(position) {
                    if *score == 0 {
                        found.push(position);
                    }
                    *score = score.saturating_add(weight.saturating_mul(rarity));
                }
            });
        }
        let score = |position: usize| scores.get(position).copied().unwrap_or_default();
        // Entries are sorted by name, so the position breaks ties by name. A heap, because only a
        // few of the best are usually read.
        let mut heap: BinaryHeap<_> = found
            .into_iter()
            .map(|position| (score(position), Reverse(position)))
            .collect();
        std::iter::from_fn(move || heap.pop().map(|(_, Reverse(position))| position))
    }

    /// Collects the tools that have this word, or one that starts with it, each with its best
    /// weight. A prefix match counts half.
    fn gather(&self, word: &str, min_prefix: usize, gathered: &mut GatheredTools) {
        for (position, weight) in self.words.get(word).into_iter().flatten() {
            gathered.add(*position, *weight);
        }
        if word.chars().count() < min_prefix {
            return;
        }
        let after = (Bound::Excluded(word), Bound::Unbounded);
        let longer = self.words.range::<str, _>(after);
        let longer = longer.take_while(|(key, _)| key.starts_with(word));
        for (position, weight) in longer.flat_map(|(_, postings)| postings) {
            gathered.add(*position, (weight / 2).max(1));
        }
    }
}

/// The tools that one query word finds. Has a slot for every tool, so that no sorting is needed.
struct GatheredTools {
    best: Vec<u32>,
    positions: Vec<usize>,
}

impl GatheredTools {
    fn new(tools: usize) -> Self {
        Self {
            best: vec![0; tools],
            positions: Vec::new(),
        }
    }

    /// `weight` is never zero.
    fn add(&mut self, position: u32, weight: u32) {
        let position = position as usize;
        if let Some(best) = self.best.get_mut(position) {
            if *best == 0 {
                self.positions.push(position);
            }
            *best = weight.max(*best);
        }
    }

    /// Yields what was collected and resets.
    fn drain(&mut self, mut take: impl FnMut(usize, u32)) {
        for position in self.positions.drain(..) {
            if let Some(best) = self.best.get_mut(position) {
                take(position, std::mem::take(best));
            }
        }
    }
}

/// Numbers the words, because most words occur many times.
#[derive(Default)]
struct Vocabulary {
    numbers: HashMap<String, usize>,
}

impl Vocabulary {
    /// The words of a tool, by number, and how often each is mentioned, weighted by field.
    fn mentions_of(&mut self, entry: &Entry) -> Vec<(usize, u32)> {
        let mut mentions: Vec<(usize, u32)> = Vec::new();
        let mut add = |found: &mut dyn Iterator<Item = Cow<'_, str>>, weight: u32| {
            let left = MAX_TOOL_WORDS - mentions.len();
            mentions.extend(found.take(left).map(|word| (self.number(&word), weight)));
        };
        let spec = entry.spec();
        add(&mut name_words(entry.key().tool.as_str()), NAME_WEIGHT);
        add(&mut words(entry.key().provider.as_str()), TITLE_WEIGHT);
        add(&mut words(&spec.title), TITLE_WEIGHT);
        for group in &spec.groups {
            add(&mut words(group), TITLE_WEIGHT);
        }
        add(&mut words(&spec.description), DESCRIPTION_WEIGHT);
        parameters(entry.input_schema(), MAX_PARAMETER_DEPTH, |name, text| {
            add(&mut name_words(name), PARAMETER_WEIGHT);
            add(&mut words(text), PARAMETER_DESCRIPTION_WEIGHT);
        });
        mentions.sort_unstable_by_key(|(word, _)| *word);
        mentions.dedup_by(|next, first| {
            let same = next.0 == first.0;
            first.1 += if same { next.1 } else { 0 };
            same
        });
        mentions
    }

    fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.numbers.len();
        self.numbers.insert(word.to_owned(), number);
        number
    }
}

fn average(lengths: &[u32]) -> u64 {
    let sum: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    (sum / (lengths.len() as u64).max(1)).max(1)
}

/// BM25's frequency: grows with the mentions, ever more slowly, and more slowly in a long text.
fn saturated(mentions: u32, length: u32, average: u64) -> u32 {
    let mentions = u64::from(mentions) * 10;
    let length = SCALE - LENGTH_MATTERS + LENGTH_MATTERS * u64::from(length) / average;
    let half = MENTIONS_MATTER * length / SCALE;
    let weight = SCALE * mentions / (mentions + half).max(1);
    u32::try_from(weight).unwrap_or(u32::MAX).max(1)
}

/// BM25's inverse document frequency of a word that `having` of `all` tools have, in hundredths.
fn rarity(having: usize, all: usize) -> u32 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let without = number(all.saturating_sub(having)) + 0.5;
    let rarity = (without / (number(having) + 0.5)).ln_1p() * 100.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm of at most two hundred thousand, and never negative"
    )]
    let rarity = rarity as u32;
    rarity.max(1)
}
