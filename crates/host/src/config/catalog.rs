//! The part of `[mcp]` in `haft.toml` that sets how many tools `haft mcp` lists. If several files
//! set it, the one that lists less wins.

use haft_mcp::catalog::{Catalog, DEFAULT_BUDGET, Mode};

use super::file::{Reader, Table, whole_number};

/// The keys of `[mcp]` that are read here.
pub(super) const KEYS: [&str; 2] = ["catalog", "catalog_budget"];

/// The largest budget, in tokens: more than any model reads at once.
const MOST_TOKENS: u64 = 10_000_000;

/// The keys of `[mcp]` about listing tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogSettings {
    mode: Option<Mode>,
    budget: Option<usize>,
}

impl CatalogSettings {
    /// Adds the settings of another file. If both set a key, the one that lists less wins.
    pub fn join(&mut self, other: Self) {
        let modes = self.mode.into_iter().chain(other.mode);
        self.mode = modes.max_by_key(|mode| lists_less(*mode));
        self.budget = self.budget.into_iter().chain(other.budget).min();
    }

    /// What to list. The mode on the command line, if any, overrides the files.
    pub fn catalog(self, asked: Option<Mode>) -> Catalog {
        Catalog {
            mode: asked.or(self.mode).unwrap_or_default(),
            budget: self.budget.unwrap_or(DEFAULT_BUDGET),
            ..Catalog::default()
        }
    }
}

fn lists_less(mode: Mode) -> u8 {
    match mode {
        Mode::Full => 0,
        Mode::Auto => 1,
        Mode::Search => 2,
    }
}

impl Reader<'_> {
    /// Reads the keys of `[mcp]` about listing tools.
    pub(super) fn catalog(&mut self, table: &Table<'_>) -> CatalogSettings {
        let mut settings = CatalogSettings::default();
        if let Some(value) = table.get("catalog") {
            settings.mode = value.get_ref().as_str().and_then(Mode::parse);
            if settings.mode.is_none() {
                self.problem(
                    value.span().start,
                    "`catalog` must be \"auto\", \"full\" or \"search\"",
                    "with \"auto\" every tool is listed while they fit `catalog_budget`, else \
                     they are found with `find_tools`",
                );
            }
        }
        if let Some(value) = table.get("catalog_budget") {
            let budget = whole_number(value).filter(|tokens| *tokens <= MOST_TOKENS);
            settings.budget = budget.and_then(|tokens| usize::try_from(tokens).ok());
            if settings.budget.is_none() {
                self.problem(
                    value.span().start,
                    format!("`catalog_budget` must be a whole number up to {MOST_TOKENS}"),
                    "write how many tokens of definitions are listed in full; `haft mcp cost` \
                     shows what there is",
                );
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_files_the_one_that_lists_less_holds() {
        let says = |mode, budget| CatalogSettings {
            mode: Some(mode),
            budget: Some(budget),
        };
        for (one, other, holds) in [
            (Mode::Full, Mode::Auto, Mode::Auto),
            (Mode::Auto, Mode::Search, Mode::Search),
            (Mode::Full, Mode::Search, Mode::Search),
        ] {
            for (mut first, second) in [
                (says(one, 7), says(other, 9)),
                (says(other, 9), says(one, 7)),
            ] {
                first.join(second);
                assert_eq!(first, says(holds, 7));
                first.join(CatalogSettings::default());
                assert_eq!(first, says(holds, 7));
            }
        }
    }

    #[test]
    fn the_command_line_has_the_last_word_and_silence_means_auto() {
        let mut settings = CatalogSettings::default();
        assert_eq!(settings.catalog(None), Catalog::default());
        settings.mode = Some(Mode::Search);
        assert_eq!(settings.catalog(None).mode, Mode::Search);
        assert_eq!(settings.catalog(Some(Mode::Full)).mode, Mode::Full);
    }
}
