//! The forms of commands in `concerns.toml`, and whether a command has one of them. Where a word is
//! known only when it runs, a form that is a reason to ask applies, because the word may be what
//! it names.

use std::{collections::HashMap, sync::LazyLock};

use toml::{Table, Value as Toml};

use super::{
    segment::family,
    word::{Value, Word},
};

/// The forms of every list in the table, by program.
#[derive(Debug, Default)]
pub(super) struct CommandForms {
    by_program: HashMap<String, Vec<(FormList, CommandForm)>>,
    /// Names of what the next build makes again.
    pub(super) remade: Vec<String>,
}

/// A list in `concerns.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FormList {
    Network,
    History,
    Deletes,
    Settings,
    Credentials,
    System,
    Processes,
    Stays,
    Loses,
}

/// One form of a command.
#[derive(Debug, Default)]
struct CommandForm {
    /// What each operand may be, in their order.
    operands: Vec<Vec<String>>,
    /// Of each of these, one must be given.
    options: Vec<Vec<String>>,
    /// None of these may be given.
    absent: Vec<String>,
    check: Option<FormCheck>,
}

/// What else must be true of the words. `concern.rs` looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormCheck {
    Elsewhere,
    Remote,
    Alone,
    Writes,
    Others,
    Kept,
    Lasting,
    Removes,
    Target,
    Overwrites,
    Hidden,
}

/// What a word that is known only when it runs counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownWords {
    /// Anything: the form is a reason to ask.
    Match,
    /// Nothing.
    Miss,
}

/// Parsed when the first command is judged. `None` if the table has an error, so that everything is
/// a concern; a test parses it strictly.
static FORMS: LazyLock<Option<CommandForms>> =
    LazyLock::new(|| read(include_str!("concerns.toml")).ok());

/// The forms of commands; `None` if they could not be read.
pub(super) fn command_forms() -> Option<&'static CommandForms> {
    FORMS.as_ref()
}

impl FormList {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Network, "network"),
        (Self::History, "history"),
        (Self::Deletes, "deletes"),
        (Self::Settings, "settings"),
        (Self::Credentials, "credentials"),
        (Self::System, "system"),
        (Self::Processes, "processes"),
        (Self::Stays, "stays"),
        (Self::Loses, "loses"),
    ];

    fn unknown_words(self) -> UnknownWords {
        match self {
            // What loses something can be taken back, so a message that is not known is no reason.
            Self::Loses => UnknownWords::Miss,
            Self::Network
            | Self::History
            | Self::Deletes
            | Self::Settings
            | Self::Credentials
            | Self::System
            | Self::Processes
            | Self::Stays => UnknownWords::Match,
        }
    }
}

impl CommandForms {
    /// The lists that have a form of this command, whose subcommand is at this place at the latest.
    /// `holds` decides a form's check.
    pub(super) fn lists(
        &self,
        program: &str,
        words: &[Word],
        place: usize,
        holds: impl Fn(FormCheck) -> bool,
    ) -> Vec<FormList> {
        let mut found: Vec<FormList> = Vec::new();
        let versionless = Some(family(program)).filter(|name| *name != program);
        let names = std::iter::once(program).chain(versionless);
        let forms = names.filter_map(|name| self.by_program.get(name));
        for (list, form) in forms.flatten() {
            let applies = !found.contains(list)
                && form.fits(words, place, list.unknown_words())
                && form.check.is_none_or(&holds);
            if applies {
                found.push(*list);
            }
        }
        found
    }
}

impl CommandForm {
    fn fits(&self, words: &[Word], place: usize, unknown: UnknownWords) -> bool {
        let literal = |word: &String| {
            let mut texts = words.iter().skip(1).filter_map(Word::text);
            texts.any(|text| is_given(word, text))
        };
        if self.absent.iter().any(literal) {
            return false;
        }
        // A form that names `--` is about what follows it, too.
        let through = self.options.iter().flatten().any(|option| option == "--");
        let options_after = |start: usize| {
            let given = |option: &String| {
                let words = words.iter().skip(start);
                let mut options = words.take_while(|word| through || word.text() != Some("--"));
                options.any(|word| match word.text() {
                    Some(text) => is_given(option, text),
                    None => unknown == UnknownWords::Match && word.may_be_option(),
                })
            };
            self.options.iter().all(|any| any.iter().any(given))
        };
        if self.operands.is_empty() {
            return options_after(1);
        }
        // Behind an option that is not listed, any word may be the subcommand.
        let mut starts = if place < words.len() {
            place..place + 1
        } else {
            1..words.len()
        };
        starts.any(|start| self.has_operands(words, start, unknown) && options_after(start))
    }

    fn has_operands(&self, words: &[Word], start: usize, unknown: UnknownWords) -> bool {
        let is_one = |names: &[String], word: &Word| match &word.value {
            Value::Literal(text) => names.contains(text),
            Value::Glob(_) | Value::Given | Value::Unknown => unknown == UnknownWords::Match,
        };
        let words = words.iter().skip(start).enumerate();
        let mut operands = words
            .filter(|(at, word)| *at == 0 || !word.shown().starts_with('-'))
            .map(|(_, word)| word);
        self.operands
            .iter()
            .all(|names| operands.next().is_some_and(|word| is_one(names, word)))
    }
}

/// Whether a word is this option or word: `-x` in any cluster, `--name` abbreviated or with a value.
pub(super) fn is_given(option: &str, text: &str) -> bool {
    if option == "--" {
        return text == option;
    }
    if let Some(name) = option.strip_prefix("--") {
        let given = text.strip_prefix("--").unwrap_or_default();
        let given = given.split_once('=').map_or(given, |(given, _)| given);
        return !given.is_empty() && name.starts_with(given);
    }
    match option.strip_prefix('-') {
        // `-diff` of Go, not letters. Go takes two dashes as well, and a value.
        Some(name) if name.len() > 1 => {
            let given = text.strip_prefix("--").or_else(|| text.strip_prefix('-'));
            given.is_some_and(|given| given.split('=').next() == Some(name))
        }
        Some(letter) if !letter.is_empty() => {
            text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
        }
        Some(_) | None => text == option,
    }
}

fn read(text: &str) -> Result<CommandForms, String> {
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let mut forms = CommandForms::default();
    match table.remove("remade") {
        Some(Toml::String(names)) => {
            forms.remade = names.split_ascii_whitespace().map(str::to_owned).collect();
        }
        other => return Err(format!("`remade` is {other:?}")),
    }
    for (list, name) in FormList::ALL {
        let Some(Toml::Array(lines)) = table.remove(name) else {
            return Err(format!("there is no list `{name}`"));
        };
        for line in lines {
            let line = line.as_str().ok_or("a form is not a string")?;
            for program in alternatives(line.split(' ').next().unwrap_or_default()) {
                let here = forms.by_program.entry(program).or_default();
                here.push((list, form(line)?));
            }
        }
    }
    match table.keys().next() {
        Some(other) => Err(format!("unknown list `{other}`")),
        None => Ok(forms),
    }
}

fn form(line: &str) -> Result<CommandForm, String> {
    let mut form = CommandForm::default();
    for token in line.split(' ').skip(1) {
        if let Some(check) = token.strip_prefix('@') {
            form.check = Some(match check {
                "elsewhere" => FormCheck::Elsewhere,
                "remote" => FormCheck::Remote,
                "alone" => FormCheck::Alone,
                "writes" => FormCheck::Writes,
                "others" => FormCheck::Others,
                "kept" => FormCheck::Kept,
                "lasting" => FormCheck::Lasting,
                "removes" => FormCheck::Removes,
                "target" => FormCheck::Target,
                "overwrites" => FormCheck::Overwrites,
                "hidden" => FormCheck::Hidden,
                other => return Err(format!("unknown check `{other}`")),
            });
        } else if let Some(word) = token.strip_prefix('!') {
            form.absent.push(word.to_owned());
        } else if token.starts_with('-') {
            form.options.push(alternatives(token));
        } else {
            form.operands.push(alternatives(token));
        }
    }
    Ok(form)
}

pub(super) fn alternatives(token: &str) -> Vec<String> {
    token.split('|').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::star::subcommand_place;

    #[test]
    fn the_table_can_be_read() {
        let forms = read(include_str!("concerns.toml")).unwrap();
        assert!(forms.by_program.len() > 200, "{}", forms.by_program.len());
    }

    #[test]
    fn a_form_names_operands_in_their_order_and_options_anywhere() {
        let forms = read(include_str!("concerns.toml")).unwrap();
        let lists = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
            let program = words[0].shown().to_owned();
            forms.lists(&program, &words, subcommand_place(&program, &words), |_| {
                false
            })
        };
        let history = |text: &str| lists(text).contains(&FormList::History);
        assert!(history("git branch -D topic"));
        assert!(history("git -C sub branch topic -D"));
        assert!(history("git reset --har HEAD~1"));
        assert!(history("git branch $x"));
        assert!(history("git $x topic"));
        assert!(history("git --unlisted gc"));
        assert!(!history("git branch -d topic"));
        assert!(!history("git reset --soft HEAD~1"));
        assert!(!history("git log --grep gc"));
        let network = |text: &str| lists(text).contains(&FormList::Network);
        assert!(network("npm ci"));
        assert!(network("pip3 install x"));
        assert!(network("go mod tidy"));
        assert!(!network("npm ci --offline"));
        assert!(!network("go mod tidy -diff"));
        assert!(!lists("git $x").contains(&FormList::Loses));
    }
}
