//! Splits the words after a program into options and operands. Patterns and commands use the same
//! rules, so that a pattern spelled like a command reaches it.
//!
//! The parent module decides which pattern reaches which command.

use crate::{
    shell::{
        LeadingOption, Word, has_subcommands, leading, one_name_each, reads_clusters, spellings,
    },
    text_pattern::TextPattern,
};

/// The classified words of a pattern.
pub(super) struct PatternWords<'p> {
    pub(super) options: Vec<OptionName<'p>>,
    pub(super) operands: Vec<TextPattern>,
}

/// The words of a command, classified as far as possible.
pub(super) struct CommandWords<'s> {
    letters: Vec<char>,
    pub(super) names: Vec<&'s str>,
    pub(super) operands: Vec<&'s str>,
    /// Whether the first operand is certain: no option before it can have taken it, and every word
    /// up to it is known before the command runs.
    pub(super) certain: bool,
    pub(super) any_option: bool,
    /// How many of the first operands may be values of unknown options.
    pub(super) skippable: usize,
}

/// An option: a letter in a cluster, or a name.
pub(super) enum OptionName<'p> {
    Short(char),
    Long(&'p str),
    Like(&'p TextPattern),
}

impl<'p> PatternWords<'p> {
    /// Classifies the words after the program like those of a command: a pattern spelled like the
    /// command must reach it.
    pub(super) fn of(program: &str, words: &'p [TextPattern]) -> Self {
        let mut wanted = Self {
            options: Vec::new(),
            operands: Vec::new(),
        };
        let clusters = reads_clusters(program);
        let mut words = words.iter();
        let mut ended = false;
        while let Some(word) = words.next() {
            match word {
                _ if ended => wanted.operands.push(word.clone()),
                // `tar xf`.
                TextPattern::Literal(text) if clusters && wanted.is_empty() && is_cluster(text) => {
                    wanted.options.extend(text.chars().map(OptionName::Short));
                }
                TextPattern::Literal(text) if text == "--" => ended = true,
                TextPattern::Literal(text) => match text.strip_prefix('-') {
                    Some(name) if name.starts_with('-') => {
                        wanted.options.push(OptionName::Long(text));
                    }
                    Some(cluster) if is_cluster(cluster) => {
                        wanted
                            .options
                            .extend(cluster.chars().map(OptionName::Short));
                    }
                    Some(rest) if !rest.is_empty() => wanted.options.push(OptionName::Long(text)),
                    Some(_) | None => wanted.operands.push(word.clone()),
                },
                TextPattern::Wild(pieces) if pieces.first().is_some_and(|p| p.starts_with('-')) => {
                    wanted.options.push(OptionName::Like(word));
                }
                TextPattern::Wild(_) => wanted.operands.push(word.clone()),
            }
            let takes_value = literal(word)
                .filter(|text| text.starts_with('-'))
                .is_some_and(|text| leading(program, text) == LeadingOption::TakesNext);
            if takes_value && !ended && wanted.operands.is_empty() {
                wanted.options.extend(words.next().map(OptionName::Like));
            }
        }
        let texts: Option<Vec<&str>> = wanted.operands.iter().map(literal).collect();
        if let Some(named) = texts.and_then(|texts| one_name_each(program, &texts)) {
            wanted.operands = named.iter().map(|name| TextPattern::parse(name)).collect();
        }
        wanted
    }

    fn is_empty(&self) -> bool {
        self.options.is_empty() && self.operands.is_empty()
    }
}

impl<'s> CommandWords<'s> {
    pub(super) fn of(program: &str, words: &'s [Word]) -> Self {
        let mut given = Self {
            letters: Vec::new(),
            names: Vec::new(),
            operands: Vec::new(),
            certain: true,
            any_option: false,
            skippable: 0,
        };
        // `tar xf`.
        let cluster = words.first().filter(|_| reads_clusters(program));
        let cluster = cluster
            .map(Word::shown)
            .filter(|text| !text.starts_with('-'));
        given.letters.extend(cluster.unwrap_or_default().chars());
        let mut words = words.iter().skip(usize::from(cluster.is_some()));
        let mut ended = false;
        while let Some(word) = words.next() {
            let text = word.shown();
            // A glob depends on the file names: `pus?` can be `push`.
            if given.operands.is_empty() && word.text().is_none() {
                given.certain = false;
            }
            if ended || !text.starts_with('-') || text == "-" {
                // A single dash is not a subcommand, so the next word may be.
                if text == "-" && given.operands.is_empty() && has_subcommands(program) {
                    given.certain = false;
                    given.skippable += 1;
                }
                given.operands.push(text);
                continue;
            }
            if text == "--" {
                ended = true;
                continue;
            }
            given.any_option = true;
            given.names.push(text);
            if let Some((name, value)) = text.split_once('=') {
                given.names.extend([name, value]);
            }
            if !text.starts_with("--") {
                given.letters.extend(text.chars().skip(1));
                // `-nprod`: the value may be attached to the option.
                given
                    .names
                    .extend(text.get(2..).filter(|value| !value.is_empty()));
            }
            if given.operands.is_empty() {
                match leading(program, text) {
                    LeadingOption::TakesNext => {
                        let value = words.next();
                        // A glob can expand to the value and the operand after it.
                        given.certain &= value.is_none_or(|value| value.text().is_some());
                        given.names.extend(value.map(Word::shown));
                    }
                    LeadingOption::Alone => given.certain &= has_subcommands(program),
                    LeadingOption::Unlisted => {
                        given.certain = false;
                        given.skippable += usize::from(has_subcommands(program));
                    }
                }
            }
        }
        if let Some(named) = one_name_each(program, &given.operands) {
            given.operands = named;
        }
        given
    }

    /// Whether an option was given, in any spelling.
    pub(super) fn has(&self, option: &OptionName<'_>, program: &str) -> bool {
        let mut buffer = [0; 4];
        let name = match option {
            OptionName::Short(letter) => {
                if self.letters.contains(letter) {
                    return true;
                }
                &*letter.encode_utf8(&mut buffer)
            }
            OptionName::Long(name) => {
                if self.names.iter().any(|given| is_shortened(given, name)) {
                    return true;
                }
                name.trim_start_matches('-')
            }
            OptionName::Like(pattern) => {
                return self.names.iter().any(|name| pattern.matches(name));
            }
        };
        spellings(program, &self.operands, name)
            .into_iter()
            .any(|spelling| self.is_spelt(spelling))
    }

    /// Whether one spelling of an option was given: a letter, a name, or a sign before an operand.
    fn is_spelt(&self, spelling: &str) -> bool {
        let mut characters = spelling.chars();
        match (characters.next(), characters.next()) {
            (Some(sign @ ('+' | ':')), None) => self
                .operands
                .iter()
                .any(|operand| operand.starts_with(sign)),
            (Some(letter), None) => self.letters.contains(&letter),
            // Two options that mean one when combined: `d+f`.
            _ if spelling.contains('+') => spelling.split('+').all(|part| self.is_spelt(part)),
            _ => {
                let name = format!("--{spelling}");
                self.names.iter().any(|given| is_shortened(given, &name))
            }
        }
    }

    /// Whether an option was given that may be another spelling of this one.
    pub(super) fn has_akin(&self, option: &OptionName<'_>) -> bool {
        match option {
            OptionName::Short(letter) => self.names.iter().any(|name| {
                let long = name.strip_prefix("--");
                long.is_some_and(|long| long.starts_with(letter.to_ascii_lowercase()))
            }),
            OptionName::Long(name) => {
                let first = name.trim_start_matches('-').chars().next();
                first.is_some_and(|first| {
                    let akin = |letter: &char| letter.eq_ignore_ascii_case(&first);
                    self.letters.iter().any(akin)
                })
            }
            OptionName::Like(_) => false,
        }
    }
}

/// Whether a long option is this one, or an unambiguous abbreviation.
fn is_shortened(given: &str, name: &str) -> bool {
    const SHORTEST: usize = "--f".len();
    let given = given.split_once('=').map_or(given, |(name, _)| name);
    let bare = |text: &str| text.trim_start_matches('-').to_owned();
    // Programs with single-dash long options treat `-auto-approve` and `--auto-approve` as one.
    let same = given.starts_with('-') && bare(name).len() > 1 && bare(given) == bare(name);
    same || given == name
        || (given.len() >= SHORTEST && given.starts_with("--") && name.starts_with(given))
}

/// The text of a pattern without wildcards.
pub(super) fn literal(pattern: &TextPattern) -> Option<&str> {
    match pattern {
        TextPattern::Literal(text) => Some(text),
        TextPattern::Wild(_) => None,
    }
}

fn is_cluster(text: &str) -> bool {
    let length = text.chars().count();
    (1..=4).contains(&length) && text.chars().all(|c| c.is_ascii_alphabetic())
}
