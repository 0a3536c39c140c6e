//! Whether a command is routine: it builds, tests, checks, looks or commits, and is not there to change
//! files. The forms are in `routine.toml`, and each lists every option it allows: a list of options that
//! write would always miss one. What the operands must be is in `routine_check.rs`.

use std::{collections::HashMap, sync::LazyLock};

use toml::{Table, Value as Toml};

use super::{
    command_form::{alternatives, is_given},
    concern::CommandPlace,
    options::has,
    routine_check::RoutineCheck,
    segment::family,
    word::{Value, Word},
};

/// Options before a subcommand that change nothing about what it does.
const LEADING: [(&str, &str); 4] = [
    ("git", "-C -P --no-pager --no-optional-locks"),
    (
        "cargo",
        "-q -v --quiet --verbose --offline --locked --frozen",
    ),
    ("npm pnpm yarn", "-s --silent"),
    ("go", "-C"),
];

/// The forms of every program.
#[derive(Debug, Default)]
struct RoutineForms {
    by_program: HashMap<String, Vec<RoutineForm>>,
}

/// One form of a routine command.
#[derive(Debug, Default)]
struct RoutineForm {
    /// What each operand may be, in their order.
    operands: Vec<Vec<String>>,
    /// Of each of these, one must be given.
    required: Vec<Vec<String>>,
    /// None of these may be given.
    absent: Vec<String>,
    check: Option<RoutineCheck>,
    allowed: Vec<AllowedOption>,
}

/// An entry of the options that a form allows.
#[derive(Debug, PartialEq, Eq)]
enum AllowedOption {
    /// This word.
    Flag(String),
    /// It and a value.
    Value(String),
    /// It and a place that is temporary or made again by a build.
    Place(String),
    /// Every word that begins so and has no comma.
    Prefix(String),
    /// A number: `-20`.
    Number,
    /// `--`, and what follows is for something else.
    End,
    /// `--`, and what follows is read like the rest.
    Separator,
    /// Everything after the first operand is for something else.
    FirstOperand,
    /// Any option.
    Any,
}

/// What was found of a command that has a form.
#[derive(Debug, Default)]
struct ScannedWords {
    /// The indexes of the operands.
    operands: Vec<usize>,
    /// The index from which words are for something else.
    rest: Option<usize>,
}

/// Parsed when the first command is judged. `None` if the table has an error, so that nothing is
/// routine; a test parses it strictly.
static FORMS: LazyLock<Option<RoutineForms>> =
    LazyLock::new(|| read(include_str!("routine.toml")).ok());

/// The indexes of the words whose effect a form of this command knows; `None` if it has no form. The
/// subcommand is at `subcommand` at the latest.
pub(super) fn known_words(
    command: &CommandPlace<'_>,
    name: &str,
    words: &[Word],
    subcommand: usize,
) -> Option<Vec<usize>> {
    let forms = FORMS.as_ref()?;
    let versionless = Some(family(name)).filter(|family| *family != name);
    std::iter::once(name)
        .chain(versionless)
        .filter_map(|name| forms.by_program.get(name))
        .flatten()
        .find_map(|form| form.known_words(command, name, words, subcommand))
}

impl RoutineForm {
    fn known_words(
        &self,
        command: &CommandPlace<'_>,
        name: &str,
        words: &[Word],
        subcommand: usize,
    ) -> Option<Vec<usize>> {
        let literals = || words.iter().skip(1).filter_map(Word::text);
        let is_absent = |word: &String| !literals().any(|text| text == word);
        let is_required = |any: &Vec<String>| {
            any.iter()
                .any(|option| literals().any(|text| is_given(option, text)))
        };
        if !self.absent.iter().all(is_absent) || !self.required.iter().all(is_required) {
            return None;
        }
        let (start, named) = self.after_operands(name, words, subcommand)?;
        let scanned = self.scan(command, words, start)?;
        if let Some(check) = self.check {
            let operands: Vec<&Word> = named
                .iter()
                .chain(&scanned.operands)
                .filter_map(|place| words.get(*place))
                .collect();
            if !check.holds(command, &operands) {
                return None;
            }
            return Some((0..words.len()).collect());
        }
        // A literal operand may have a meaning that only its program knows: `@file` of gcc.
        let is_known = |place: &usize| {
            let literal = words.get(*place).is_some_and(|word| word.text().is_some());
            !literal
                || named.contains(place)
                || !scanned.operands.contains(place)
                || scanned.rest.is_some_and(|rest| *place >= rest)
        };
        Some((0..words.len()).filter(is_known).collect())
    }

    /// Where the options of the subcommand begin, and which words name it.
    fn after_operands(
        &self,
        name: &str,
        words: &[Word],
        start: usize,
    ) -> Option<(usize, Vec<usize>)> {
        if self.operands.is_empty() {
            return Some((1, Vec::new()));
        }
        let harmless = LEADING
            .iter()
            .filter(|(programs, _)| has(programs, name))
            .map(|(_, options)| *options)
            .next()
            .unwrap_or_default();
        let mut leading = words.iter().take(start).skip(1);
        if !leading.all(|word| !word.may_be_option() || has(harmless, word.shown())) {
            return None;
        }
        let mut named = Vec::new();
        let mut place = start;
        for names in &self.operands {
            let text = words.get(place).and_then(Word::text)?;
            if !names.iter().any(|known| known == text) {
                return None;
            }
            named.push(place);
            place += 1;
        }
        Some((place, named))
    }

    /// Sorts the words from `start` on; `None` if one of them may be an option that is not allowed.
    fn scan(
        &self,
        command: &CommandPlace<'_>,
        words: &[Word],
        start: usize,
    ) -> Option<ScannedWords> {
        let mut scanned = ScannedWords::default();
        let mut place = start;
        while let Some(word) = words.get(place) {
            let here = place;
            place += 1;
            let text = match &word.value {
                Value::Literal(text) => text.as_str(),
                Value::Glob(_) | Value::Given | Value::Unknown if self.is_listed(&word.raw) => {
                    continue;
                }
                Value::Glob(_) | Value::Given | Value::Unknown => {
                    if word.may_be_option() && !begins_plainly(word) && !self.allows_any() {
                        return None;
                    }
                    ""
                }
            };
            if text == "--" {
                if self.allowed.contains(&AllowedOption::End) || self.allows_any() {
                    scanned.rest = Some(place);
                    scanned.operands.extend(place..words.len());
                    return Some(scanned);
                }
                if self.allowed.contains(&AllowedOption::Separator) {
                    continue;
                }
                return None;
            }
            if !text.starts_with('-') || text == "-" {
                scanned.operands.push(here);
                if self.allowed.contains(&AllowedOption::FirstOperand) {
                    scanned.rest = Some(here);
                    scanned.operands.extend(place..words.len());
                    return Some(scanned);
                }
                continue;
            }
            if self.allows_any() {
                continue;
            }
            if self.option(command, text, words.get(place))? == TakenValue::Next {
                place += 1;
            }
        }
        Some(scanned)
    }

    fn allows_any(&self) -> bool {
        self.allowed.contains(&AllowedOption::Any)
    }

    /// Whether exactly this is written in the list: `-j$(nproc)`.
    fn is_listed(&self, raw: &str) -> bool {
        let is_it =
            |option: &AllowedOption| matches!(option, AllowedOption::Flag(text) if text == raw);
        self.allowed.iter().any(is_it)
    }

    /// Whether an option is allowed, and whether it takes the next word.
    fn option(
        &self,
        command: &CommandPlace<'_>,
        text: &str,
        next: Option<&Word>,
    ) -> Option<TakenValue> {
        let number =
            |text: &str| text.len() > 1 && text.chars().skip(1).all(|c| c.is_ascii_digit());
        for allowed in &self.allowed {
            let taken = match allowed {
                AllowedOption::Flag(flag) if flag == text => Some(TakenValue::None),
                AllowedOption::Prefix(prefix) => (text.starts_with(prefix.as_str())
                    && !text.contains(','))
                .then_some(TakenValue::None),
                AllowedOption::Number if number(text) => Some(TakenValue::None),
                AllowedOption::Value(name) | AllowedOption::Place(name) => {
                    let anywhere = matches!(allowed, AllowedOption::Value(_));
                    let fits = |value: &str| anywhere || command.is_temporary(value);
                    match text.strip_prefix(name.as_str()) {
                        Some("") => follows(next, fits),
                        Some(rest) => rest
                            .strip_prefix('=')
                            .filter(|value| fits(value))
                            .map(|_| TakenValue::None),
                        None => None,
                    }
                }
                AllowedOption::Flag(_)
                | AllowedOption::Number
                | AllowedOption::End
                | AllowedOption::Separator
                | AllowedOption::FirstOperand
                | AllowedOption::Any => None,
            };
            if taken.is_some() {
                return taken;
            }
        }
        self.cluster(command, text, next)
    }

    /// `-qam text`: letters that are allowed, the last of them perhaps with a value.
    fn cluster(
        &self,
        command: &CommandPlace<'_>,
        text: &str,
        next: Option<&Word>,
    ) -> Option<TakenValue> {
        let letters = text.strip_prefix('-')?;
        if letters.starts_with('-') {
            return None;
        }
        for (at, letter) in letters.char_indices() {
            let option = format!("-{letter}");
            let rest = letters.get(at + letter.len_utf8()..)?;
            let is_flag = |allowed: &AllowedOption| matches!(allowed, AllowedOption::Flag(flag) if *flag == option);
            if self.allowed.iter().any(is_flag) {
                continue;
            }
            let takes = self.allowed.iter().find(|allowed| match allowed {
                AllowedOption::Value(name) | AllowedOption::Place(name) => *name == option,
                AllowedOption::Flag(_)
                | AllowedOption::Prefix(_)
                | AllowedOption::Number
                | AllowedOption::End
                | AllowedOption::Separator
                | AllowedOption::FirstOperand
                | AllowedOption::Any => false,
            })?;
            let anywhere = matches!(takes, AllowedOption::Value(_));
            let fits = |value: &str| anywhere || command.is_temporary(value);
            return match rest {
                "" => follows(next, fits),
                value => fits(value).then_some(TakenValue::None),
            };
        }
        Some(TakenValue::None)
    }
}

/// Whether an option takes the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenValue {
    None,
    Next,
}

/// Whether the next word is the value of an option. What may be an option itself is read as one, so
/// that it is allowed in either reading.
fn follows(next: Option<&Word>, fits: impl Fn(&str) -> bool) -> Option<TakenValue> {
    let Some(next) = next else {
        return Some(TakenValue::None);
    };
    match &next.value {
        Value::Literal(text) if text.starts_with('-') && text != "-" => Some(TakenValue::None),
        Value::Literal(text) | Value::Glob(text) => fits(text).then_some(TakenValue::Next),
        // One word in quotes, and not `"$@"`.
        Value::Unknown => {
            let one = next.raw.len() > 1
                && next.raw.starts_with('"')
                && next.raw.ends_with('"')
                && !next.raw.contains("$@")
                && !next.raw.contains("${@")
                && !next.raw.contains("[@]");
            (one && fits("")).then_some(TakenValue::Next)
        }
        Value::Given => None,
    }
}

/// Whether a word that is known only when it runs begins with what no option begins with:
/// `localhost:$port`, `<(sort a)`.
fn begins_plainly(word: &Word) -> bool {
    let raw = word.raw.trim_start_matches(['"', '\'']);
    raw.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/') || raw.starts_with("<(")
}

fn read(text: &str) -> Result<RoutineForms, String> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let sets = table.get("sets").and_then(Toml::as_table);
    let lines = table.get("forms").and_then(Toml::as_array);
    let mut forms = RoutineForms::default();
    for line in lines.ok_or("there are no forms")? {
        let line = line.as_str().ok_or("a form is not a string")?;
        for program in alternatives(line.split(' ').next().unwrap_or_default()) {
            let here = forms.by_program.entry(program).or_default();
            here.push(form(line, sets)?);
        }
    }
    Ok(forms)
}

fn form(line: &str, sets: Option<&Table>) -> Result<RoutineForm, String> {
    let mut form = RoutineForm::default();
    // `$(git rev-list --all)` holds blanks, so the options are everything after `+`.
    let (words, options) = match line.split_once(" +") {
        Some((words, options)) => (words, options),
        None => (line, ""),
    };
    for token in words.split(' ').skip(1) {
        if let Some(check) = token.strip_prefix('@') {
            let check = RoutineCheck::parse(check);
            form.check = Some(check.ok_or_else(|| format!("unknown check in `{line}`"))?);
        } else if let Some(word) = token.strip_prefix('!') {
            form.absent.push(word.to_owned());
        } else if token.starts_with('-') {
            form.required.push(alternatives(token));
        } else {
            form.operands.push(alternatives(token));
        }
    }
    for entry in alternatives(options)
        .iter()
        .filter(|entry| !entry.is_empty())
    {
        match entry.strip_prefix('$').filter(|set| !set.starts_with('(')) {
            Some(set) => {
                let listed = sets.and_then(|sets| sets.get(set)?.as_str());
                let listed = listed.ok_or_else(|| format!("there is no set `{set}`"))?;
                let listed = alternatives(listed);
                form.allowed
                    .extend(listed.iter().map(|entry| allowed(entry)));
            }
            None => form.allowed.push(allowed(entry)),
        }
    }
    Ok(form)
}

fn allowed(entry: &str) -> AllowedOption {
    match entry {
        "..." => AllowedOption::FirstOperand,
        "--" => AllowedOption::End,
        "--:" => AllowedOption::Separator,
        "*" => AllowedOption::Any,
        "-#" => AllowedOption::Number,
        _ => {
            if let Some(name) = entry.strip_suffix("=%") {
                AllowedOption::Place(name.to_owned())
            } else if let Some(name) = entry.strip_suffix('=') {
                AllowedOption::Value(name.to_owned())
            } else if let Some(prefix) = entry.strip_suffix('*') {
                AllowedOption::Prefix(prefix.to_owned())
            } else {
                AllowedOption::Flag(entry.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        let forms = read(include_str!("routine.toml")).unwrap();
        assert!(forms.by_program.len() > 120, "{}", forms.by_program.len());
    }
}
