//! The table of commands, parsed from `commands.toml`: what an entry can say about a program or a
//! subcommand.

use std::{collections::HashMap, sync::LazyLock};

use toml::{Table, Value as Toml};

use super::{
    options::{Options, has},
    segment::family,
};

/// What a known command does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It only reads.
    #[default]
    Looks,
    /// It changes the files its words name, and nothing else.
    Changes,
    /// It runs what files in the workspace say: builds, tests, formatters, hooks.
    Runs,
    /// Nothing is known about it.
    Unknown,
}

/// A program or subcommand in the table.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of `commands.toml`"
)]
pub(super) struct Entry {
    /// The options of a known command.
    pub(super) listed: Lists,
    /// Those, and the further ones a star in a rule may match.
    pub(super) starred: Lists,
    /// Further options that take the next word, by letter or name: for finding the subcommand.
    pub(super) other_values: String,
    /// Spellings of the same option, separated by `;`: `r R recursive; f force`. `+` and `:` mean
    /// operands that start with them.
    pub(super) same: String,
    /// Whether only a rule can allow it; the preset does not.
    pub(super) by_rule: bool,
    /// Whether options end at the first operand.
    pub(super) ends: bool,
    /// Whether the first operand is a cluster of options, as in `tar xf a`.
    pub(super) old_style: bool,
    /// Whether `--` does not end options.
    pub(super) no_end: bool,
    /// Other names of subcommands: `i=install`, `container run=run`; separated by `;`.
    pub(super) other_names: String,
    /// Options whose value is a file mode.
    pub(super) mode_options: String,
    /// Whether a star may match any operands, even if a known command has none or few.
    pub(super) more_operands: bool,
    pub(super) pattern_options: String,
    pub(super) path_options: String,
    pub(super) changes_with: String,
    pub(super) writes: Writes,
    pub(super) numbers: bool,
    pub(super) fits: OptionFit,
    pub(super) class: Class,
    pub(super) operands: Operands,
    pub(super) max: Option<usize>,
    pub(super) check: Check,
    pub(super) subcommands: HashMap<String, Entry>,
}

/// Options in the form of [`Options`].
#[derive(Debug, Default, Clone)]
pub(super) struct Lists {
    pub(super) short: String,
    pub(super) short_values: String,
    pub(super) short_maybe: String,
    pub(super) long: String,
    pub(super) long_values: String,
    pub(super) dash: String,
    pub(super) dash_values: String,
}

/// Which options a command may have and still fit the entry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionFit {
    /// Only those listed.
    #[default]
    Listed,
    /// Only those listed, and at least one: without any it interprets its input.
    Some,
    /// Any options.
    Any,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    #[default]
    None,
    Paths,
    Text,
    /// The first is text, not a path.
    Pattern,
}

/// Which of its paths a command writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    #[default]
    Nothing,
    All,
    /// The last of at least two.
    Last,
    /// All; and all but the last are read too, because their content then exists elsewhere.
    Moved,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    #[default]
    Nothing,
    Sed,
    Awk,
    Jq,
    /// Every operand starts with `+`.
    Plus,
    /// The first operand is a format that assigns nothing.
    Printf,
    /// Only options of the shell that change how it fails and what it shows.
    Set,
    /// The first operand is a mode without set-user-id and set-group-id bits.
    Mode,
    /// Every operand after the first is a statement that runs and writes nothing else.
    Sqlite,
    /// The first operand is the name of a remote or an address, not a directory.
    Remote,
    /// No word names another machine: `host:file`.
    Local,
    /// What follows the first operand is never an option.
    Host,
}

pub(super) enum Order {
    /// Options end at the first operand.
    First,
    /// Options may be anywhere.
    Any,
}

/// Parsed once, when the first command is judged. An error in the table makes it empty, so that
/// everything asks; a test parses it strictly.
static TABLE: LazyLock<HashMap<String, Entry>> =
    LazyLock::new(|| read(include_str!("commands.toml")).unwrap_or_default());

/// The entry of a program, named without a directory.
pub(super) fn entry_of(program: &str) -> Option<&'static Entry> {
    let versions = || Some(family(program)).filter(|family| has(VERSIONED, family));
    TABLE.get(program).or_else(|| TABLE.get(versions()?))
}

/// Programs often installed in several versions at once: `pip3`, `gcc-12`.
const VERSIONED: &str = "pip python gcc g++ clang clang++ perl ruby php lua";

impl Lists {
    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "short" => &mut self.short,
            "short_values" => &mut self.short_values,
            "short_maybe" => &mut self.short_maybe,
            "long" => &mut self.long,
            "long_values" => &mut self.long_values,
            "dash" => &mut self.dash,
            "dash_values" => &mut self.dash_values,
            _ => return None,
        })
    }
}

impl Entry {
    /// The options of a known command.
    pub(super) fn options(&self, order: Order) -> Options<'_> {
        self.options_of(&self.listed, order)
    }

    /// The options a star in a rule may match.
    pub(super) fn starred_options(&self, order: Order) -> Options<'_> {
        self.options_of(&self.starred, order)
    }

    fn options_of<'e>(&self, lists: &'e Lists, order: Order) -> Options<'e> {
        Options {
            short: &lists.short,
            short_values: &lists.short_values,
            short_maybe: &lists.short_maybe,
            long: &lists.long,
            long_values: &lists.long_values,
            dash: &lists.dash,
            dash_values: &lists.dash_values,
            numbers: self.numbers,
            no_end: self.no_end,
            anywhere: matches!(order, Order::Any) && !self.ends,
        }
    }
}

fn read(text: &str) -> Result<HashMap<String, Entry>, String> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    table
        .into_iter()
        .map(|(name, value)| match value {
            Toml::Table(table) => Ok((name, entry(table)?)),
            other => Err(format!("`{name}` is {other}, not a table")),
        })
        .collect()
}

fn entry(table: Table) -> Result<Entry, String> {
    let mut entry = Entry::default();
    for (key, value) in table {
        match (key.as_str(), value) {
            ("other_values", Toml::String(text)) => entry.other_values = text,
            ("same", Toml::String(text)) => entry.same = text,
            ("by_rule", Toml::Boolean(flag)) => entry.by_rule = flag,
            ("ends", Toml::Boolean(flag)) => entry.ends = flag,
            ("old_style", Toml::Boolean(flag)) => entry.old_style = flag,
            ("no_end", Toml::Boolean(flag)) => entry.no_end = flag,
            ("other_names", Toml::String(text)) => entry.other_names = text,
            ("mode_options", Toml::String(text)) => entry.mode_options = text,
            ("more_operands", Toml::Boolean(flag)) => entry.more_operands = flag,
            ("pattern_options", Toml::String(text)) => entry.pattern_options = text,
            ("path_options", Toml::String(text)) => entry.path_options = text,
            ("changes_with", Toml::String(text)) => entry.changes_with = text,
            ("writes", Toml::String(text)) => {
                entry.writes = match text.as_str() {
                    "all" => Writes::All,
                    "last" => Writes::Last,
                    "moved" => Writes::Moved,
                    other => return Err(format!("unknown writes `{other}`")),
                };
            }
            ("numbers", Toml::Boolean(flag)) => entry.numbers = flag,
            ("any", Toml::Boolean(true)) => entry.fits = OptionFit::Any,
            ("needs_option", Toml::Boolean(true)) => entry.fits = OptionFit::Some,
            ("runs", Toml::Boolean(true)) => entry.class = Class::Runs,
            ("max", Toml::Integer(max)) => {
                entry.max = Some(usize::try_from(max).map_err(|error| error.to_string())?);
            }
            ("operands", Toml::String(text)) => {
                entry.operands = match text.as_str() {
                    "none" => Operands::None,
                    "paths" => Operands::Paths,
                    "text" => Operands::Text,
                    "pattern" => Operands::Pattern,
                    other => return Err(format!("unknown operands `{other}`")),
                };
            }
            ("check", Toml::String(text)) => {
                entry.check = match text.as_str() {
                    "sed" => Check::Sed,
                    "awk" => Check::Awk,
                    "jq" => Check::Jq,
                    "plus" => Check::Plus,
                    "printf" => Check::Printf,
                    "set" => Check::Set,
                    "mode" => Check::Mode,
                    "sqlite" => Check::Sqlite,
                    "remote" => Check::Remote,
                    "local" => Check::Local,
                    "host" => Check::Host,
                    other => return Err(format!("unknown check `{other}`")),
                };
            }
            (_, Toml::Table(table)) => {
                entry.subcommands.insert(key, self::entry(table)?);
            }
            (key, Toml::String(text)) => {
                let more = key.strip_prefix("more_");
                let unknown = || format!("unknown key `{key}`");
                let starred = entry
                    .starred
                    .field(more.unwrap_or(key))
                    .ok_or_else(unknown)?;
                // Names are separated by a blank; letters are not.
                let between = if key.contains("short") { "" } else { " " };
                *starred = format!("{starred}{between}{text}");
                if more.is_none() {
                    *entry.listed.field(key).ok_or_else(unknown)? = text;
                }
            }
            (other, value) => return Err(format!("unknown key `{other}` = {value}")),
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        let table = read(include_str!("commands.toml")).unwrap();
        assert!(table.len() > 100, "{}", table.len());
    }
}
