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
    shell::{
        Class, Leading, Segment, Value, Word, family, has_subcommands, leading, name_of,
        one_name_each, reads_clusters, spellings,
    },
};

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

    /// Whether an `allow` covers this command. Unless the kernel holds whatever it may do (`held`), a
    /// star covers only words that are known to be harmless.
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
        let reaches = self.reaches_words(&segment.words);
        let Some(program) = self.program() else {
            return reaches;
        };
        if reaches == Reaches::Yes || segment.class() != Class::Unknown {
            return reaches;
        }
        // A program that is not known may run what its words say: `chrt 1 git push`.
        let later = (1..segment.words.len()).filter_map(|place| segment.words.get(place..));
        let named = later.filter(|words| {
            let first = words.first().and_then(Word::text);
            first.is_some_and(|first| family(first) == family(program))
        });
        let inside = named.map(|words| self.reaches_words(words)).max();
        reaches.max(inside.unwrap_or(Reaches::No).min(Reaches::Maybe))
    }

    fn reaches_words(&self, words: &[Word]) -> Reaches {
        let Some(program) = words.first().and_then(Word::text) else {
            // Nobody knows which program it is; the command says so itself.
            return Reaches::No;
        };
        let name = name_of(program);
        let Some((first, rest)) = self.words.split_first() else {
            return Reaches::No;
        };
        let by_name = match first {
            TextPattern::Literal(written) => family(written) == family(name),
            TextPattern::Wild(_) => first.matches(name) || first.matches(program),
        };
        if !by_name {
            // `git-push` is `git push`.
            let Some(subcommand) = name.strip_prefix("git-") else {
                return Reaches::No;
            };
            let mut apart = vec![Word::literal("git"), Word::literal(subcommand)];
            apart.extend(words.iter().skip(1).cloned());
            return self.reaches_words(&apart);
        }
        let words = words.get(1..).unwrap_or_default();
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
        let spelt = |option: &Letter<'_>| given.has(option, name);
        let options = wanted.options.iter().all(spelt);
        // An option nobody knows may have taken the word after it.
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
            return Reaches::Yes;
        }
        let subcommand_differs = given.certain
            && match (wanted.operands.first(), given.operands.first()) {
                (Some(pattern), Some(operand)) => !names(name, pattern, operand),
                (Some(_), None) => known,
                (None, _) => false,
            };
        if subcommand_differs {
            return Reaches::No;
        }
        if !known {
            return Reaches::Maybe;
        }
        // An option may have taken an operand for its value, or the pattern names a value of one.
        let somewhere = wanted.operands.iter().all(|pattern| {
            let mut texts = given.operands.iter().chain(&given.names);
            texts.any(|text| names(name, pattern, text))
        });
        if options && somewhere && given.any_option {
            return Reaches::Maybe;
        }
        // The long form of a short option, or the other way round, of a program nobody knows.
        let akin = |option: &Letter<'_>| spelt(option) || given.has_akin(option);
        if operands && wanted.options.iter().all(akin) {
            return Reaches::Maybe;
        }
        Reaches::No
    }
}

/// The words of a pattern, told apart.
struct Wanted<'p> {
    options: Vec<Letter<'p>>,
    operands: Vec<TextPattern>,
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
    /// How many of the first operands may be values of options nobody knows.
    skippable: usize,
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
        let clusters = reads_clusters(program);
        let mut words = words.iter();
        let mut ended = false;
        while let Some(word) = words.next() {
            match word {
                _ if ended => wanted.operands.push(word.clone()),
                // `tar xf`.
                TextPattern::Literal(text) if clusters && wanted.is_empty() && is_cluster(text) => {
                    wanted.options.extend(text.chars().map(Letter::Short));
                }
                TextPattern::Literal(text) if text == "--" => ended = true,
                TextPattern::Literal(text) => match text.strip_prefix('-') {
                    Some(name) if name.starts_with('-') => {
                        wanted.options.push(Letter::Long(text));
                    }
                    Some(cluster) if is_cluster(cluster) => {
                        wanted.options.extend(cluster.chars().map(Letter::Short));
                    }
                    Some(rest) if !rest.is_empty() => wanted.options.push(Letter::Long(text)),
                    Some(_) | None => wanted.operands.push(word.clone()),
                },
                TextPattern::Wild(pieces) if pieces.first().is_some_and(|p| p.starts_with('-')) => {
                    wanted.options.push(Letter::Like(word));
                }
                TextPattern::Wild(_) => wanted.operands.push(word.clone()),
            }
            let takes_value = literal(word)
                .filter(|text| text.starts_with('-'))
                .is_some_and(|text| leading(program, text) == Leading::TakesNext);
            if takes_value && !ended && wanted.operands.is_empty() {
                wanted.options.extend(words.next().map(Letter::Like));
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

impl<'s> Given<'s> {
    fn of(program: &str, words: &'s [Word]) -> Self {
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
            // A glob is whatever the names of files make of it: `pus?` can be `push`.
            if given.operands.is_empty() && word.text().is_none() {
                given.certain = false;
            }
            if ended || !text.starts_with('-') || text == "-" {
                // A dash alone is no subcommand, so the next word may be it.
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
                // `-nprod`: the value may be written into the option.
                given
                    .names
                    .extend(text.get(2..).filter(|value| !value.is_empty()));
            }
            if given.operands.is_empty() {
                match leading(program, text) {
                    Leading::TakesNext => {
                        let value = words.next();
                        // A glob can be the value and the operand after it.
                        given.certain &= value.is_none_or(|value| value.text().is_some());
                        given.names.extend(value.map(Word::shown));
                    }
                    Leading::Alone => given.certain &= has_subcommands(program),
                    Leading::Unlisted => {
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

    /// Whether an option was given, in any of its spellings.
    fn has(&self, option: &Letter<'_>, program: &str) -> bool {
        let mut buffer = [0; 4];
        let name = match option {
            Letter::Short(letter) => {
                if self.letters.contains(letter) {
                    return true;
                }
                &*letter.encode_utf8(&mut buffer)
            }
            Letter::Long(name) => {
                if self.names.iter().any(|given| is_shortened(given, name)) {
                    return true;
                }
                name.trim_start_matches('-')
            }
            Letter::Like(pattern) => return self.names.iter().any(|name| pattern.matches(name)),
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
            // Two options that together are one: `d+f`.
            _ if spelling.contains('+') => spelling.split('+').all(|part| self.is_spelt(part)),
            _ => {
                let name = format!("--{spelling}");
                self.names.iter().any(|given| is_shortened(given, &name))
            }
        }
    }

    /// Whether an option was given that may be another spelling of this one.
    fn has_akin(&self, option: &Letter<'_>) -> bool {
        match option {
            Letter::Short(letter) => self.names.iter().any(|name| {
                let long = name.strip_prefix("--");
                long.is_some_and(|long| long.starts_with(letter.to_ascii_lowercase()))
            }),
            Letter::Long(name) => {
                let first = name.trim_start_matches('-').chars().next();
                first.is_some_and(|first| {
                    let akin = |letter: &char| letter.eq_ignore_ascii_case(&first);
                    self.letters.iter().any(akin)
                })
            }
            Letter::Like(_) => false,
        }
    }
}

/// Whether a long option is this one, or a beginning of its name that still says something.
fn is_shortened(given: &str, name: &str) -> bool {
    const SHORTEST: usize = "--f".len();
    let given = given.split_once('=').map_or(given, |(name, _)| name);
    let bare = |text: &str| text.trim_start_matches('-').to_owned();
    // `-auto-approve` and `--auto-approve` are one to the programs that have such.
    let same = given.starts_with('-') && bare(name).len() > 1 && bare(given) == bare(name);
    same || given == name
        || (given.len() >= SHORTEST && given.starts_with("--") && name.starts_with(given))
}

/// Whether an operand of a pattern is one of a command, in another spelling too: `./infra/` is
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
                .covers(&first(script), true)
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
    fn a_deny_means_what_it_says_in_any_spelling() {
        let reaches = |pattern: &str, script: &str| {
            CommandPattern::parse(pattern)
                .unwrap()
                .reaches(&first(script))
        };
        for (pattern, script) in [
            ("rm -rf *", "rm -Rf x"),
            ("rm -rf *", "rm -r -f x"),
            ("rm -rf *", "rm --recursive --force x"),
            ("rm -rf *", "rm --rec -f x"),
            ("rm -rf *", "rm x -fR"),
            ("rm --recursive *", "rm -r x"),
            ("git push --force *", "git push -f"),
            ("git push --force *", "git push origin +main"),
            ("git push --force *", "git -C . push origin --forc main"),
            ("git push -f", "git push --force origin"),
            ("npm publish *", "npm --access public publish"),
            ("kubectl delete *", "kubectl --v 5 delete pod x"),
            ("kubectl delete *", "kubectl --some new delete pod x"),
            ("docker rm -f *", "docker rm --force x"),
            (
                "kubectl --context prod delete *",
                "kubectl --context=prod delete x",
            ),
            ("kubectl -n prod delete *", "kubectl -nprod delete x"),
            (
                "terraform apply -auto-approve *",
                "terraform apply --auto-approve",
            ),
            ("terraform destroy infra", "terraform destroy ./infra/"),
            ("tar -x *", "tar xzf a.tgz"),
            ("tar xf *", "tar -x -f a"),
            ("make deploy *", "make -j deploy"),
            ("make deploy *", "make -j4 deploy"),
            ("npm install *", "npm i x"),
            ("npm i *", "npm install x"),
            ("npm publish *", "npm publ"),
            ("docker run *", "docker container run x"),
            ("docker push *", "docker image push x"),
            ("cargo build *", "cargo b"),
            ("pip install *", "pip3 install x"),
            ("python *", "python3.11 x"),
            ("git branch -D *", "git branch -df x"),
            ("git push origin main", "git push origin HEAD:main"),
            ("git push --force *", "git push --mirror"),
            ("git push *", "git-push origin"),
            ("git push *", "git - push"),
            ("cp -r *", "cp -a x y"),
        ] {
            assert_eq!(
                reaches(pattern, script),
                Reaches::Yes,
                "{pattern}: {script}"
            );
        }
        for (pattern, script) in [
            ("deploy -f *", "deploy --force x"),
            ("deploy --force *", "deploy -f x"),
            ("kubectl delete -n prod *", "kubectl delete pod x -nprod"),
            (
                "kubectl delete -n prod *",
                "kubectl delete pod x --namespace=prod",
            ),
            ("git push *", "chrt 1 git push"),
            ("git push *", "uv run git push"),
            ("git push *", "bwrap --bind / / /usr/bin/git push"),
        ] {
            assert_eq!(
                reaches(pattern, script),
                Reaches::Maybe,
                "{pattern}: {script}"
            );
        }
        for (pattern, script) in [
            ("rm -rf *", "rm -r x"),
            ("rm -rf *", "rm -f x"),
            ("git push --force *", "git push --follow-tags"),
            ("git push --force *", "git push origin main"),
            ("npm publish *", "npm --silent run publish"),
            ("kubectl delete *", "kubectl -n delete get pods"),
            ("git push *", "brew install git"),
            ("git push *", "echo git push"),
            ("git push origin main", "git push origin feature"),
            ("npm install *", "npm ls"),
        ] {
            assert_eq!(reaches(pattern, script), Reaches::No, "{pattern}: {script}");
        }
    }

    #[test]
    fn a_star_covers_only_what_is_listed_where_no_kernel_holds_the_rest() {
        let covers = |pattern: &str, script: &str, held: bool| {
            CommandPattern::parse(pattern)
                .unwrap()
                .covers(&first(script), held)
        };
        for (pattern, script) in [
            ("tar *", "tar xf a.tar --new-option"),
            ("deploy *", "deploy --hook x"),
            ("git *", "git frobnicate"),
            ("git push *", "git push --new-option"),
        ] {
            assert!(covers(pattern, script, true), "{script}");
            assert!(!covers(pattern, script, false), "{script}");
        }
        assert!(covers("deploy --hook *", "deploy --hook x", false));
        assert!(covers("git push *", "git push -u origin main", false));
        assert!(covers("deploy *", "deploy staging", false));
    }

    #[test]
    fn what_is_more_than_one_command_is_no_pattern_of_words() {
        for text in ["a; b", "a | b", "echo $X", "a > f", "'a", "a &"] {
            assert!(CommandPattern::parse(text).is_none(), "{text}");
        }
    }
}
