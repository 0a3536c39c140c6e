//! A command pattern as words: what `bash(git push *)` means for one parsed command.
//!
//! In `allow` it covers a command only if every word is literal and matched, in place. A star
//! matches one word, or at the end any number of words, but never a word that makes the program do
//! something else (`git log --output=f`): such a word must be written out. No spelling, wrapping or
//! joining of a command can make an allow reach further.
//!
//! In `deny` and `ask` it reaches every spelling: by program name wherever the program is, with
//! options before the subcommand, in clusters and in any order, and with more words after it. If it
//! is uncertain whether it reaches, it may, and that asks.

mod words;

use self::words::{CommandWords, OptionName, PatternWords, literal};
use crate::{
    shell::{Class, Segment, Value, Word, family, name_of},
    text_pattern::TextPattern,
};

/// A pattern as words.
#[derive(Debug, Clone)]
pub(crate) struct CommandPattern {
    words: Vec<TextPattern>,
    /// Whether further words may follow, in `allow`.
    rest: bool,
}

/// Whether a pattern in `deny` or `ask` reaches a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PatternReach {
    /// It does not.
    No,
    /// It is uncertain.
    Maybe,
    /// It does.
    Yes,
}

impl CommandPattern {
    /// Parses a pattern as the words of one command; `None` if it is not that.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut written = split(text)?;
        let rest = written.len() > 1 && written.last().is_some_and(|word| word == "*");
        if rest {
            written.pop();
        }
        let words: Vec<TextPattern> = written
            .iter()
            .map(|word| TextPattern::parse(word))
            .collect();
        (!words.is_empty()).then_some(Self { words, rest })
    }

    /// The name of the program, unless it is a wildcard.
    pub(crate) fn program(&self) -> Option<&str> {
        match self.words.first()? {
            TextPattern::Literal(program) => Some(name_of(program)),
            TextPattern::Wild(_) => None,
        }
    }

    /// Its words joined to a key, if it is one command without wildcards.
    pub(crate) fn literal_key(&self) -> Option<String> {
        if self.rest {
            return None;
        }
        let words: Option<Vec<&str>> = self.words.iter().map(literal).collect();
        words.map(|words| words.join("\0"))
    }

    /// Its words before the first wildcard. A command that an `allow` covers starts with them.
    pub(crate) fn leading_words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map_while(literal)
    }

    /// Whether an `allow` covers this command. Unless the kernel limits whatever it may do
    /// (`held`), a star covers only words that are known to be harmless.
    pub(crate) fn covers(&self, segment: &Segment, held: bool) -> bool {
        if !segment.unclear.is_empty() || segment.words.len() < self.words.len() {
            return false;
        }
        let named = |place: usize| self.words.get(place).and_then(literal).is_some();
        if !segment.hazards.iter().all(|hazard| named(hazard.place)) {
            return false;
        }
        if !held && !segment.unlisted.iter().all(|place| named(*place)) {
            return false;
        }
        let in_place = self.words.iter().zip(&segment.words).all(|(pattern, word)| {
            let Some(text) = word.text() else {
                return false;
            };
            // A star that is a whole word does not match an option.
            let whole = matches!(pattern, TextPattern::Wild(pieces) if pieces.iter().all(String::is_empty));
            pattern.matches(text) && !(whole && text.starts_with('-'))
        });
        let further = segment.words.get(self.words.len()..).unwrap_or_default();
        in_place
            && (further.is_empty()
                || (self.rest
                    && further.iter().all(|word| match &word.value {
                        Value::Literal(_) => true,
                        Value::Glob(_) => !word.may_be_option(),
                        Value::Given | Value::Unknown => false,
                    })))
    }

    /// Whether a `deny` or `ask` reaches this command.
    pub(crate) fn reaches(&self, segment: &Segment) -> PatternReach {
        let reaches = self.reaches_words(&segment.words);
        let Some(program) = self.program() else {
            return reaches;
        };
        if reaches == PatternReach::Yes || segment.class() != Class::Unknown {
            return reaches;
        }
        // An unknown program may run what its words say: `chrt 1 git push`.
        let later = (1..segment.words.len()).filter_map(|place| segment.words.get(place..));
        let named = later.filter(|words| {
            let first = words.first().and_then(Word::text);
            first.is_some_and(|first| family(first) == family(program))
        });
        let inside = named.map(|words| self.reaches_words(words)).max();
        reaches.max(inside.unwrap_or(PatternReach::No).min(PatternReach::Maybe))
    }

    fn reaches_words(&self, words: &[Word]) -> PatternReach {
        let Some(program) = words.first().and_then(Word::text) else {
            // The program is unknown, and the command itself is marked as unclear.
            return PatternReach::No;
        };
        let name = name_of(program);
        let Some((first, rest)) = self.words.split_first() else {
            return PatternReach::No;
        };
        let by_name = match first {
            TextPattern::Literal(written) => family(written) == family(name),
            TextPattern::Wild(_) => first.matches(name) || first.matches(program),
        };
        if !by_name {
            // `git-push` is `git push`.
            let Some(subcommand) = name.strip_prefix("git-") else {
                return PatternReach::No;
            };
            let mut apart = vec![Word::literal("git"), Word::literal(subcommand)];
            apart.extend(words.iter().skip(1).cloned());
            return self.reaches_words(&apart);
        }
        let words = words.get(1..).unwrap_or_default();
        // Spelled exactly like the pattern, as in `allow`: no need to classify the words.
        let in_place = rest.len() <= words.len()
            && rest
                .iter()
                .zip(words)
                .all(|(pattern, word)| word.text().is_some_and(|text| pattern.matches(text)));
        if in_place {
            return PatternReach::Yes;
        }
        let given = CommandWords::of(name, words);
        let wanted = PatternWords::of(name, rest);
        let known = words.iter().all(|word| word.text().is_some());
        let spelt = |option: &OptionName<'_>| given.has(option, name);
        let options = wanted.options.iter().all(spelt);
        // An unknown option may have taken the word after it.
        let operands = (0..=given.skippable).any(|skipped| {
            let operands = given.operands.get(skipped..).unwrap_or_default();
            wanted.operands.len() <= operands.len()
                && wanted
                    .operands
                    .iter()
                    .zip(operands)
                    .all(|(pattern, operand)| names(name, pattern, operand))
        });
        if options && operands {
            return PatternReach::Yes;
        }
        let subcommand_differs = given.certain
            && match (wanted.operands.first(), given.operands.first()) {
                (Some(pattern), Some(operand)) => !names(name, pattern, operand),
                (Some(_), None) => known,
                (None, _) => false,
            };
        if subcommand_differs {
            return PatternReach::No;
        }
        if !known {
            return PatternReach::Maybe;
        }
        // An option may have taken an operand as its value, or the pattern names an option's value.
        let somewhere = wanted.operands.iter().all(|pattern| {
            let mut texts = given.operands.iter().chain(&given.names);
            texts.any(|text| names(name, pattern, text))
        });
        if options && somewhere && given.any_option {
            return PatternReach::Maybe;
        }
        // The long form of a short option, or the reverse, of an unknown program.
        let akin = |option: &OptionName<'_>| spelt(option) || given.has_akin(option);
        if operands && wanted.options.iter().all(akin) {
            return PatternReach::Maybe;
        }
        PatternReach::No
    }
}

/// Whether an operand of a pattern is one of a command, including other spellings: `./infra/` is
/// `infra`, and to git `HEAD:main` and `+main` are `main`.
fn names(program: &str, pattern: &TextPattern, operand: &str) -> bool {
    let plain = |text: &str| {
        let text = text.strip_prefix("./").unwrap_or(text);
        text.strip_suffix('/').unwrap_or(text).to_owned()
    };
    let same = |text: &str| {
        pattern.matches(text)
            || match pattern {
                TextPattern::Literal(written) => plain(written) == plain(text),
                TextPattern::Wild(_) => pattern.matches(&plain(text)),
            }
    };
    if same(operand) {
        return true;
    }
    program == "git" && {
        let target = operand.rsplit(':').next().unwrap_or(operand);
        let target = target.trim_start_matches('+');
        same(target) || target.strip_prefix("refs/heads/").is_some_and(same)
    }
}

/// The words of a pattern: blanks separate them, quotes join them, `\*` is kept. `None` if it
/// contains something that cannot be part of one command.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_with(String::new);
                loop {
                    match characters.next()? {
                        end if end == character => break,
                        '$' | '`' | '\\' if character == '"' => return None,
                        other => word.push(other),
                    }
                }
            }
            '\\' => {
                let word = word.get_or_insert_with(String::new);
                match characters.next()? {
                    '*' => word.push_str("\\*"),
                    '\n' => return None,
                    other => word.push(other),
                }
            }
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' | '\r' => return None,
            other => word.get_or_insert_with(String::new).push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests;
