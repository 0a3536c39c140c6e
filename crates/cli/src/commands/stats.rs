//! `haft stats`: how many calls there were, how many were asked about and denied, how long they ran and how
//! much they said, by day, tool and agent. The store counts.

use clap::Args;
use haft_contract::{
    TenantId, WorkspaceId,
    host::{
        CallFilter, Clock as _, History as _, StatsGroup, StatsKey, StatsQuery, StatsRow, Timestamp,
    },
};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use jiff::civil;
use serde::Serialize;

use super::{App, log, scope::RecordScope};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        bars::{bar, bytes, sparkline},
        moment::{self, Moment},
        table::{self, Cell, Fit},
        time,
    },
};

/// The most days and the most names that are counted.
const MAX_DAYS: usize = 366;
const MAX_NAMES: usize = 100;

/// The most names of each kind that a person is shown.
const MAX_SHOWN: usize = 10;

/// The days that are shown when no time is named.
const DAYS: i64 = 13;

/// The microseconds of a day.
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// How wide the longest bar is, in columns.
const BAR_COLUMNS: u64 = 20;

/// The widest column of a name on a terminal.
const MAX_NAME_COLUMNS: usize = 30;

/// Count calls by day, tool and agent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft stats
  haft stats --since 30d --all-workspaces
  haft stats --since today --agent claude-code --json
Without --since, it counts the last 14 days.")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    calls: log::CallArgs,
}

/// Everything that was counted, for programs.
#[derive(Debug, Serialize)]
struct StatsView {
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    total: CountView,
    days: Vec<NamedCount>,
    tools: Vec<NamedCount>,
    agents: Vec<NamedCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspaces: Option<Vec<NamedCount>>,
}

#[derive(Debug, Serialize)]
struct NamedCount {
    name: String,
    #[serde(flatten)]
    count: CountView,
}

/// The numbers of a group of calls.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct CountView {
    calls: u64,
    asked: u64,
    denied: u64,
    failed: u64,
    ran_us: u64,
    waited_us: u64,
    bytes: u64,
}

impl CountView {
    fn of(row: &StatsRow) -> Self {
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            calls: row.calls,
            asked: row.asked,
            denied: row.denied,
            failed: row.failed,
            ran_us: micros(row.ran),
            waited_us: micros(row.waited),
            bytes: row.bytes,
        }
    }

    fn in_words(self) -> String {
        let mut parts = vec![match self.calls {
            1 => "1 call".to_owned(),
            more => format!("{more} calls"),
        }];
        for (number, what) in [
            (self.asked, "asked"),
            (self.denied, "denied"),
            (self.failed, "failed"),
        ] {
            if number > 0 {
                parts.push(format!("{number} {what}"));
            }
        }
        if self.ran_us > 0 {
            parts.push(format!("ran {}", time::duration(self.ran_us)));
        }
        if self.waited_us > 0 {
            parts.push(format!("waited {}", time::duration(self.waited_us)));
        }
        if self.bytes > 0 {
            parts.push(bytes(self.bytes));
        }
        parts.join(" · ")
    }
}

/// Runs the command.
pub(crate) async fn run(args: &StatsArgs, app: &App) -> Result<Exit, Stop> {
    let (ledger, scope) = app.record_of(args.calls.workspaces).await?;
    let now = SystemClock.now();
    let mut filter = args.calls.filter(&scope);
    let since = filter
        .since
        .unwrap_or_else(|| Moment::DaysAgo(DAYS).begin(now));
    filter.since = Some(since);
    let offset_us = i64::from(moment::zoned(now).offset().seconds()) * 1_000_000;
    let by_day = StatsKey::Day { offset_us };
    let total = count(&ledger, &filter, StatsKey::All, 1).await?;
    let total = total.first().map(CountView::of).unwrap_or_default();
    let days = count(&ledger, &filter, by_day, MAX_DAYS).await?;
    let tools = count(&ledger, &filter, StatsKey::Tool, MAX_NAMES).await?;
    let agents = count(&ledger, &filter, StatsKey::Agent, MAX_NAMES).await?;
    let workspaces = if scope.has_several() {
        Some(count(&ledger, &filter, StatsKey::Workspace, MAX_NAMES).await?)
    } else {
        None
    };
    let is_for_people = app.output.format() == Format::Text;
    let named = |rows: &[StatsRow], by: StatsKey| -> Vec<NamedCount> {
        let named = rows.iter().map(|row| named(row, by, &scope, is_for_people));
        named.collect()
    };
    let view = StatsView {
        since: time::rfc3339(since),
        until: filter.until.map(time::rfc3339),
        total,
        tools: named(&tools, StatsKey::Tool),
        agents: named(&agents, StatsKey::Agent),
        workspaces: workspaces.map(|rows| named(&rows, StatsKey::Workspace)),
        days: named(&days, by_day),
    };
    match app.output.format() {
        Format::Json => app.output.json(&view)?,
        Format::Text if total.calls == 0 => {
            let text = format!("no calls {} since {}", scope.in_words(), time::local(since));
            app.output.note(&Page::new().text(text).end());
        }
        Format::Text => {
            let until = filter.until.unwrap_or(now).min(now);
            let range = (day_of(since, offset_us), day_of(until, offset_us));
            app.output.page(&view.page(&scope, since, &days, range))?;
        }
    }
    Ok(Exit::Ok)
}

async fn count(
    ledger: &StoredLedger,
    filter: &CallFilter,
    by: StatsKey,
    limit: usize,
) -> Result<Vec<StatsRow>, Stop> {
    let query = StatsQuery {
        filter: filter.clone(),
        by,
        limit,
    };
    let rows = ledger.stats(&TenantId::local(), &query).await;
    rows.map_err(|error| Stop::ledger(&error))
}

fn named(row: &StatsRow, by: StatsKey, scope: &RecordScope, is_for_people: bool) -> NamedCount {
    let name = match (by, &row.group) {
        (_, StatsGroup::All) => String::new(),
        (_, StatsGroup::Day(day)) => date(*day),
        (StatsKey::Workspace, StatsGroup::Name(name)) => match WorkspaceId::parse(name) {
            Ok(id) if is_for_people => scope.workspaces.name(&id),
            Ok(id) => scope.workspaces.root(&id),
            Err(_) => name.clone(),
        },
        (StatsKey::Tool, StatsGroup::Name(name)) => {
            name.strip_prefix("builtin/").unwrap_or(name).to_owned()
        }
        (StatsKey::All | StatsKey::Day { .. } | StatsKey::Agent, StatsGroup::Name(name)) => {
            name.clone()
        }
    };
    NamedCount {
        name,
        count: CountView::of(row),
    }
}

/// The day with this number since 1970.
fn date(day: i64) -> String {
    let epoch = civil::date(1970, 1, 1);
    let date = epoch.checked_add(jiff::Span::new().days(day));
    date.map_or_else(|_| day.to_string(), |date| date.to_string())
}

impl StatsView {
    fn page(
        &self,
        scope: &RecordScope,
        since: Timestamp,
        days: &[StatsRow],
        (first, last): (i64, i64),
    ) -> Page {
        let mut page = Page::new()
            .styled(Style::Strong, self.total.in_words())
            .styled(
                Style::Dim,
                format!("  {} since {}", scope.in_words(), time::local(since)),
            )
            .end();
        let line = calls_of_days(days, first, last);
        if line.len() > 1 {
            page = page
                .styled(Style::Dim, "each day  ")
                .text(sparkline(&line))
                .styled(Style::Dim, format!("  {} to {}", date(first), date(last)))
                .end();
        }
        for (title, counts) in [
            ("by day", Some(&self.days)),
            ("by tool", Some(&self.tools)),
            ("by agent", Some(&self.agents)),
            ("by workspace", self.workspaces.as_ref()),
        ] {
            let Some(counts) = counts else { continue };
            page = page.end().styled(Style::Strong, title).end();
            page = page.page(bars(counts));
        }
        page
    }
}

/// Each day's calls, with the days that have none.
fn calls_of_days(rows: &[StatsRow], first: i64, last: i64) -> Vec<u64> {
    let calls = |day: i64| {
        let row = rows.iter().find(|row| row.group == StatsGroup::Day(day));
        row.map_or(0, |row| row.calls)
    };
    let most = i64::try_from(MAX_DAYS).unwrap_or(i64::MAX);
    (first.max(last.saturating_sub(most))..=last)
        .map(calls)
        .collect()
}

/// The number of a day since 1970, cut as the store cuts days: where the clock is ahead of UTC by as much
/// as it is now, even if it was not at that moment.
fn day_of(at: Timestamp, offset_us: i64) -> i64 {
    at.0.saturating_add(offset_us).div_euclid(DAY_US)
}

fn bars(counts: &[NamedCount]) -> Page {
    let greatest = counts.iter().map(|one| one.count.calls).max().unwrap_or(0);
    let lines: Vec<Vec<Cell>> = counts
        .iter()
        .take(MAX_SHOWN)
        .map(|one| {
            let drawn = bar(one.count.calls, greatest, BAR_COLUMNS);
            let columns = usize::try_from(BAR_COLUMNS).unwrap_or(0);
            vec![
                Cell::new(Style::Plain, format!("  {}", one.name)),
                Cell::new(Style::Good, format!("{drawn:<columns$}")),
                Cell::new(Style::Dim, one.count.in_words()),
            ]
        })
        .collect();
    let fits = [Fit::AtMost(MAX_NAME_COLUMNS), Fit::Whole, Fit::Rest];
    let mut page = table::table(&fits, &lines, table::screen_width());
    if counts.len() > MAX_SHOWN {
        let text = format!(
            "  … and {} more; `--json` has them",
            counts.len() - MAX_SHOWN
        );
        page = page.styled(Style::Dim, text).end();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_in_the_day_that_the_store_counts_it_in() {
        const HOUR_US: i64 = 60 * 60 * 1_000_000;
        // Midnight of a day in summer where the clock is two hours ahead of UTC, seen in winter.
        let midnight = Timestamp(20_000 * DAY_US - 2 * HOUR_US);
        assert_eq!(day_of(midnight, HOUR_US), 19_999);
        assert_eq!(day_of(midnight, 2 * HOUR_US), 20_000);
        let row = |day, calls| StatsRow {
            calls,
            ..StatsRow::empty(StatsGroup::Day(day))
        };
        let rows = [row(20_001, 3), row(19_999, 2)];
        let first = day_of(midnight, HOUR_US);
        assert_eq!(calls_of_days(&rows, first, 20_001), [2, 0, 3]);
    }
}
