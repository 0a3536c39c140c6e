//! A pattern about commands, as words: what `bash(git push *)` says about one parsed command.
//!
//! In `allow` it covers a command only if every word is literal and matched, in place; a star stands
//! for one word, or at the end for any number of them, but never for a word that makes the program
//! do something else (`git log --output=f`): such a word must be written out. Nothing about how a
//! command is spelt, wrapped or joined can make an allow reach further.
//!
//! In `deny` and `ask` it reaches every spelling: by program name wherever the program is, with
//! options before the subcommand, in clusters and in any order, and with more words after it. Where
//! it cannot be told whether it reaches, it may, and that asks.

use crate::{
    pattern::TextPattern,
    shell::{Segment, Value, Word, name_of},
};

/// Options that take the next word, before the subcommand of programs that have subcommands. For
/// these programs the first word that is neither is certainly the subcommand.
const GLOBAL_VALUES: &[(&str, &str)] = &[
    (
        "git",
        "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source",
    ),
    (
        "docker",
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    ),
    (
        "podman",
        "-c --connection --log-level --root --runroot --url",
    ),
    (
        "kubectl",
        "-n --namespace --context --kubeconfig --cluster -s --server --user --token --as",
    ),
    (
        "npm",
        "--prefix -C -w --workspace --registry --cache --userconfig",
    ),
    ("pnpm", "-C --dir --filter -F"),
    ("yarn", "--cwd"),
    ("cargo", "-C --config -Z --color --manifest-path"),
    ("gh", "-R --repo --hostname"),
    ("go", "-C"),
    ("systemctl", "-H --host -M --machine -t --type --root"),
    (
        "aws",
        "--profile --region --output --endpoint-url --query --color",
    ),
    ("gcloud", "--project --account --configuration --format"),
    ("terraform", "-chdir"),
    (
        "pip",
        "--proxy --timeout --retries --cache-dir --log --python",
    ),
    ("apt-get", "-o -c -t --option --config-file"),
    ("apt", "-o -c -t --option --config-file"),
];

/// Whether a program is known to do what the word after it says.
pub(crate) fn has_subcommands(program: &str) -> bool {
    GLOBAL_VALUES.iter().any(|(name, _)| *name == program)
}

/// Whether an option before the subcommand takes the next word.
fn takes_value(program: &str, option: &str) -> bool {
    let known = GLOBAL_VALUES.iter().find(|(name, _)| *name == program);
    known.is_some_and(|(_, options)| options.split(' ').any(|known| known == option))
}

/// A pattern as words.
#[derive(Debug, Clone)]
pub(crate) struct CommandPattern {
    words: Vec<TextPattern>,
    /// Whether any further words may follow, in `allow`.
    rest: bool,
}

/// Whether a pattern in `deny` or `ask` reaches a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reaches {
    /// No.
    No,
    /// It cannot be told.
    Maybe,
    /// Yes.
    Yes,
}

impl CommandPattern {
    /// Reads a pattern as the words of one command; `None` where it is not that.
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

    /// Its words joined to a key, where it is one command without wildcards.
    pub(crate) fn literal_key(&self) -> Option<String> {
        if self.rest {
            return None;
        }
        let words: Option<Vec<&str>> = self.words.iter().map(literal).collect();
        words.map(|words| words.join("\0"))
    }

    /// Whether an `allow` covers this command.
    pub(crate) fn covers(&self, segment: &Segment) -> bool {
        if !segment.unclear.is_empty() || segment.words.len() < self.words.len() {
            return false;
        }
        let named = |place: usize| self.words.get(place).and_then(literal).is_some();
        if !segment.hazards.iter().all(|hazard| named(hazard.place)) {
            return false;
        }
        let in_place = self.words.iter().zip(&segment.words).all(|(pattern, word)| {
            let Some(text) = word.text() else {
                return false;
            };
            // A star that stands for a whole word does not stand for an option.
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
    pub(crate) fn reaches(&self, segment: &Segment) -> Reaches {
        let (Some(program), Some(name)) = (segment.program(), segment.name()) else {
            // Nobody knows which program it is; the command says so itself.
            return Reaches::No;
        };
        let Some((first, rest)) = self.words.split_first() else {
            return Reaches::No;
        };
        let by_name = match first {
            TextPattern::Literal(written) => name_of(written) == name,
            TextPattern::Wild(_) => first.matches(name) || first.matches(program),
        };
        if !by_name {
            return Reaches::No;
        }
        let words = segment.words.get(1..).unwrap_or_default();
        // Spelt as it is written, as an `allow` would have it: no need to tell the words apart.
        let in_place = rest.len() <= words.len()
            && rest
                .iter()
                .zip(words)
                .all(|(pattern, word)| word.text().is_some_and(|text| pattern.matches(text)));
        if in_place {
            return Reaches::Yes;
        }
        let given = Given::of(name, words);
        let wanted = Wanted::of(name, rest);
        let known = words.iter().all(|word| word.text().is_some());
        let options = wanted.options.iter().all(|option| given.has(option));
        let operands = wanted.operands.len() <= given.operands.len()
            && wanted
                .operands
                .iter()
                .zip(&given.operands)
                .all(|(pattern, operand)| pattern.matches(operand));
        if options && operands {
            return Reaches::Yes;
        }
        let subcommand_differs = given.certain
            && match (wanted.operands.first(), given.operands.first()) {
                (Some(pattern), Some(operand)) => !pattern.matches(operand),
                (Some(_), None) => known,
                (None, _) => false,
            };
        if subcommand_differs {
            return Reaches::No;
        }
        if !known {
            return Reaches::Maybe;
        }
        // An option may have taken an operand for its value.
        let somewhere = is_subsequence(&wanted.operands, &given.operands);
        if options && somewhere && given.any_option {
            return Reaches::Maybe;
        }
        Reaches::No
    }
}

/// The words of a pattern, told apart.
struct Wanted<'p> {
    options: Vec<Letter<'p>>,
    operands: Vec<&'p TextPattern>,
}

/// The words of a command, told apart as far as possible.
struct Given<'s> {
    letters: Vec<char>,
    names: Vec<&'s str>,
    operands: Vec<&'s str>,
    /// Whether the first operand is certainly the first and what it says: no option before it can
    /// have taken it, and no word up to it is known only when it runs.
    certain: bool,
    any_option: bool,
}

/// An option: a letter of a cluster, or a name.
enum Letter<'p> {
    Short(char),
    Long(&'p str),
    Like(&'p TextPattern),
}

impl<'p> Wanted<'p> {
    /// The words after the program, told apart as those of a command are: a pattern that is spelt as
    /// the command is must reach it.
    fn of(program: &str, words: &'p [TextPattern]) -> Self {
        let mut wanted = Self {
            options: Vec::new(),
            operands: Vec::new(),
        };
        let mut words = words.iter();
        let mut ended = false;
        while let Some(word) = words.next() {
            match word {
                _ if ended => wanted.operands.push(word),
                TextPattern::Literal(text) if text == "--" => ended = true,
                TextPattern::Literal(text) => match text.strip_prefix('-') {
                    Some(name) if name.starts_with('-') => {
                        wanted.options.push(Letter::Long(text));
                    }
                    Some(cluster) if is_cluster(cluster) => {
                        wanted.options.extend(cluster.chars().map(Letter::Short));
                    }
                    Some(rest) if !rest.is_empty() => wanted.options.push(Letter::Long(text)),
                    Some(_) | None => wanted.operands.push(word),
                },
                TextPattern::Wild(pieces) if pieces.first().is_some_and(|p| p.starts_with('-')) => {
                    wanted.options.push(Letter::Like(word));
                }
                TextPattern::Wild(_) => wanted.operands.push(word),
            }
            let takes_value = literal(word).is_some_and(|text| takes_value(program, text));
            if takes_value && !ended && wanted.operands.is_empty() {
                wanted.options.extend(words.next().map(Letter::Like));
            }
        }
        wanted
    }
}

impl<'s> Given<'s> {
    fn of(program: &str, words: &'s [Word]) -> Self {
        let mut given = Self {
            letters: Vec::new(),
            names: Vec::new(),
            operands: Vec::new(),
            certain: true,
            any_option: false,
        };
        let mut words = words.iter();
        let mut ended = false;
        while let Some(word) = words.next() {
            let text = word.shown();
            // A glob is whatever the names of files make of it: `pus?` can be `push`.
            if given.operands.is_empty() && word.text().is_none() {
                given.certain = false;
            }
            if ended || !text.starts_with('-') || text == "-" {
                given.operands.push(text);
                continue;
            }
            if text == "--" {
                ended = true;
                continue;
            }
            given.any_option = true;
            let name = text.split_once('=').map_or(text, |(name, _)| name);
            given.names.push(text);
            given.names.push(name);
            if !text.starts_with("--") {
                given.letters.extend(text.chars().skip(1));
            }
            if given.operands.is_empty() {
                if takes_value(program, text) {
                    let value = words.next();
                    // A glob can be the value and the operand after it.
                    given.certain &= value.is_none_or(|value| value.text().is_some());
                    given.names.extend(value.map(Word::shown));
                } else {
                    given.certain &= has_subcommands(program);
                }
            }
        }
        given
    }

    fn has(&self, option: &Letter<'_>) -> bool {
        match option {
            Letter::Short(letter) => self.letters.contains(letter),
            Letter::Long(name) => self.names.contains(name),
            Letter::Like(pattern) => self.names.iter().any(|name| pattern.matches(name)),
        }
    }
}

fn literal(pattern: &TextPattern) -> Option<&str> {
    match pattern {
        TextPattern::Literal(text) => Some(text),
        TextPattern::Wild(_) => None,
    }
}

fn is_cluster(text: &str) -> bool {
    let length = text.chars().count();
    (1..=4).contains(&length) && text.chars().all(|c| c.is_ascii_alphabetic())
}

fn is_subsequence(patterns: &[&TextPattern], operands: &[&str]) -> bool {
    let mut operands = operands.iter();
    patterns
        .iter()
        .all(|pattern| operands.any(|operand| pattern.matches(operand)))
}

/// The words of a pattern: blanks part them, quotes hold them together, `\*` stays as it is. `None`
/// where something stands in it that is not part of one command.
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
mod tests {
    use haft_contract::{WorkPath, access::Command};

    use super::*;
    use crate::shell::analyse;

    fn first(script: &str) -> Segment {
        let command = Command::Shell(script.to_owned());
        let analysis = analyse(&command, &WorkPath::root(), "/w").unwrap();
        analysis.segments()[0].clone()
    }

    #[test]
    fn a_deny_reaches_every_spelling() {
        let reaches = |pattern: &str, script: &str| {
            CommandPattern::parse(pattern)
                .unwrap()
                .reaches(&first(script))
        };
        for script in [
            "git push",
            "git push origin main",
            "git -C . push",
            "/usr/bin/git push",
            "git -c a=b push",
            "git --git-dir=x push",
            "git --git-dir x --no-pager push -f",
            "./git push",
            "g\\it push",
        ] {
            assert_eq!(reaches("git push *", script), Reaches::Yes, "{script}");
            assert_eq!(reaches("git push", script), Reaches::Yes, "{script}");
        }
        for script in [
            "git log push",
            "git commit -m push",
            "git status",
            "gitpush",
            "git",
        ] {
            assert_eq!(reaches("git push *", script), Reaches::No, "{script}");
        }
        assert_eq!(
            reaches("git push --force *", "git push origin --force"),
            Reaches::Yes
        );
        assert_eq!(
            reaches("git push --force *", "git push origin"),
            Reaches::No
        );
        assert_eq!(reaches("rm -rf *", "rm -fr x"), Reaches::Yes);
        assert_eq!(reaches("rm -rf *", "rm -r -f x"), Reaches::Yes);
        assert_eq!(reaches("rm -rf *", "rm x"), Reaches::No);
        assert_eq!(reaches("foo apply", "foo --opt val apply"), Reaches::Maybe);
        assert_eq!(reaches("rm -rf *", "rm *"), Reaches::Maybe);
        assert_eq!(reaches("su", "sudo x"), Reaches::No);
        for script in [
            "git pus?",
            "git p[u]sh",
            "git {push,}",
            "git *",
            "git -C * status",
            "git $X push origin",
            "git pus? --force",
        ] {
            assert_ne!(reaches("git push *", script), Reaches::No, "{script}");
        }
        assert_eq!(
            reaches("git push --force", "git push --forc?"),
            Reaches::Maybe
        );
        assert_eq!(reaches("git push *", "git add *"), Reaches::No);
    }

    #[test]
    fn a_deny_reaches_its_own_spelling() {
        for text in [
            "git -C x push",
            "git -c a=b --git-dir d push -f",
            "kubectl -n prod delete pod",
            "npm --prefix a run b",
            "rm -- -x",
            "rm -rf -- -x y",
            "git -C",
        ] {
            let pattern = CommandPattern::parse(text).unwrap();
            assert_eq!(pattern.reaches(&first(text)), Reaches::Yes, "{text}");
        }
        let reaches = |pattern: &str, script: &str| {
            CommandPattern::parse(pattern)
                .unwrap()
                .reaches(&first(script))
        };
        assert_eq!(
            reaches("git -C x push", "git -c a=b -C x push -f"),
            Reaches::Yes
        );
        assert_eq!(reaches("git -C x push", "git -C y push"), Reaches::No);
        assert_eq!(reaches("git -C x push", "git -C x status"), Reaches::No);
        assert_eq!(reaches("rm -r -- -x", "rm -v -r -- -x"), Reaches::Yes);
        assert_eq!(reaches("cargo *r test", "cargo -r test"), Reaches::Yes);
    }

    #[test]
    fn an_allow_covers_what_it_says() {
        let covers = |pattern: &str, script: &str| {
            CommandPattern::parse(pattern)
                .unwrap()
                .covers(&first(script))
        };
        assert!(covers("npm test", "npm test"));
        assert!(covers("npm test", "npm  test"));
        assert!(!covers("npm test", "npm test x"));
        assert!(covers("npm run *", "npm run build --silent"));
        assert!(covers("npm run *", "npm run"));
        assert!(!covers("git log *", "git log --output=f"));
        assert!(covers("git log --output=f *", "git log --output=f x"));
        assert!(!covers("git push *", "git -C . push"));
        assert!(!covers("git push *", "/usr/bin/git push"));
        assert!(!covers("git * main", "git --force main"));
        assert!(!covers("echo *", "echo $X"));
        assert!(!covers("echo *", "echo $(id)"));
        assert!(covers("grep 'a b' *", "grep \"a b\" f"));
        assert!(!covers("python3 *", "python3 -c x"));
        assert!(covers("python3 -c *", "python3 -c x"));
    }

    #[test]
    fn what_is_more_than_one_command_is_no_pattern_of_words() {
        for text in ["a; b", "a | b", "echo $X", "a > f", "'a", "a &"] {
            assert!(CommandPattern::parse(text).is_none(), "{text}");
        }
    }
}
