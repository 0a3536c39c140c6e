//! `haft policy replay`: decides the recorded calls again under other rules, and shows what would
//! change.

use haft_contract::TenantId;
use std::{path::PathBuf, sync::Arc};

use clap::{Args, ValueEnum};
use haft_contract::host::{CallFilter, Clock as _};
use haft_host::{
    Assembly, HostBuilder,
    config::Settings,
    relative_time::RelativeTime,
    replay::{self, Change, Group, ReplayBaseline, ReplayJudge, Report},
};
use haft_runtime::SystemClock;
use serde::Serialize;

use crate::{
    commands::{App, scope::WorkspaceArgs},
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, bar},
    view::decision::{RuleView, verdict_style},
};

/// How many groups of one change a person is shown.
const MAX_SHOWN: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
It runs nothing, writes nothing and ignores grants.
It decides the calls of this workspace, or of every workspace with `--all-workspaces`, as if these
rules applied there too.

Example:
  haft policy replay new.toml --since 7d")]
pub(super) struct ReplayArgs {
    /// The rules to try, in a file like haft.toml, trusted or not
    file: PathBuf,
    /// Only calls made within this time: 90s, 10m, 2h, 7d, 4w [default: all that is recorded]
    #[arg(long, value_name = "AGO")]
    since: Option<RelativeTime>,
    /// What the new answers are compared with
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ComparisonBasis::Recorded)]
    against: ComparisonBasis,
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// What the new answers are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ComparisonBasis {
    /// What was decided then
    Recorded,
    /// What the rules in force would decide
    Current,
}

#[derive(Debug, Serialize)]
struct ReplayView {
    calls: u64,
    unchanged: u64,
    changed: u64,
    not_decided: u64,
    why_not: Vec<NotDecidedView>,
    changes: Vec<ChangeView>,
}

#[derive(Debug, Serialize)]
struct NotDecidedView {
    calls: u64,
    /// Why these calls were not decided.
    because: String,
}

#[derive(Debug, Serialize)]
struct ChangeView {
    was: &'static str,
    now: &'static str,
    calls: u64,
    groups: Vec<GroupView>,
}

#[derive(Debug, Serialize)]
struct GroupView {
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    /// The rule that decides now; `None` if the preset does.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleView>,
    calls: u64,
    /// How many of them a person refused then.
    refused: u64,
    examples: Vec<ExampleView>,
}

#[derive(Debug, Serialize)]
struct ExampleView {
    call: String,
    /// The access that decided, in words.
    what: String,
}

/// Runs the command.
pub(super) async fn run(args: ReplayArgs, app: &App) -> Result<Exit, Stop> {
    let places = app.places()?;
    let new = assembly(places.settings_of(app.env.current_dir.join(&args.file))?).await?;
    let current = app.settings();
    // Only the current rules' tools are needed, unless their answers are too.
    let current = match args.against {
        ComparisonBasis::Recorded => match current {
            Ok(settings) => assembly(settings).await.ok(),
            Err(_) => None,
        },
        ComparisonBasis::Current => Some(assembly(current?).await?),
    };
    let tools = [Some(&new), current.as_ref()].into_iter().flatten();
    let judge = Arc::new(ReplayJudge {
        tools: tools
            .map(|assembly| assembly.runtime.registry().snapshot())
            .collect(),
        against: match (args.against, &current) {
            (ComparisonBasis::Current, Some(current)) => {
                ReplayBaseline::Policy(Arc::clone(&current.policy))
            }
            (ComparisonBasis::Recorded | ComparisonBasis::Current, _) => ReplayBaseline::Recorded,
        },
        policy: new.policy,
    });
    let since = args.since.map(|ago| ago.before(SystemClock.now()));
    let ledger = app.record().await?;
    let of_workspace = if args.workspaces.all_workspaces {
        CallFilter::default()
    } else {
        let scope = app.scope_of(args.workspaces, &ledger).await?;
        scope.filter()
    };
    let calls = CallFilter {
        since,
        ..of_workspace
    };
    let bar = bar(app.output, None, "{spinner} {msg} {elapsed}");
    let report = replay::replay(&ledger, &TenantId::local(), &calls, judge, |read| {
        bar.set_message(format!("{read} calls"));
    })
    .await
    .map_err(|error| Stop::ledger(&error))?;
    bar.finish_and_clear();
    let view = ReplayView::of(&report);
    match app.output.format() {
        Format::Json => app.output.json(&view)?,
        Format::Text => app.output.page(&view.page(args.against))?,
    }
    Ok(Exit::Ok)
}

async fn assembly(settings: Settings) -> Result<Assembly, Stop> {
    let assembly = HostBuilder::to_look(settings)?.assemble_for_lint().await?;
    assembly.mount_to_look()?;
    Ok(assembly)
}

impl ReplayView {
    fn of(report: &Report) -> Self {
        Self {
            calls: report.calls(),
            unchanged: report.unchanged,
            changed: report.changed(),
            not_decided: report.skipped.values().sum(),
            why_not: report
                .skipped
                .iter()
                .map(|(why, calls)| NotDecidedView {
                    calls: *calls,
                    because: why.to_string(),
                })
                .collect(),
            changes: report
                .changes()
                .into_iter()
                .map(|(Change { was, now }, groups)| ChangeView {
                    was: was.as_str(),
                    now: now.as_str(),
                    calls: groups.iter().map(|(_, group)| group.calls).sum(),
                    groups: groups
                        .into_iter()
                        .map(|(about, group)| GroupView {
                            tool: about.tool.clone(),
                            program: about.program.clone(),
                            rule: about.rule().as_ref().map(RuleView::of),
                            calls: group.calls,
                            refused: group.refused,
                            examples: examples(group),
                        })
                        .collect(),
                })
                .collect(),
        }
    }

    fn page(&self, against: ComparisonBasis) -> Page {
        let baseline = match against {
            ComparisonBasis::Recorded => "what was recorded",
            ComparisonBasis::Current => "the rules in force",
        };
        let mut page = Page::new();
        for change in &self.changes {
            page = page
                .styled(verdict_style(change.was), change.was)
                .text(" → ")
                .styled(verdict_style(change.now), change.now)
                .text(format!("  {}", calls(change.calls)))
                .end();
            for group in change.groups.iter().take(MAX_SHOWN) {
                page = page.page(group.page());
            }
            let rest = change.groups.iter().skip(MAX_SHOWN);
            if rest.len() > 0 {
                let (more, of) = (rest.len(), rest.map(|group| group.calls).sum());
                let text = format!(
                    "  … and {more} more kinds ({}); `--json` has all",
                    calls(of)
                );
                page = page.styled(Style::Dim, text).end();
            }
        }
        let (of, unchanged) = (calls(self.calls), self.unchanged);
        page = page
            .styled(Style::Strong, self.changed.to_string())
            .text(format!(
                " of {of} would be decided differently from {baseline}, {unchanged} would not"
            ))
            .end();
        for not in &self.why_not {
            let text = format!("{} not decided again: {}", calls(not.calls), not.because);
            page = page.styled(Style::Warn, text).end();
        }
        page
    }
}

impl GroupView {
    fn page(&self) -> Page {
        let what = match &self.program {
            Some(program) => format!("{} {program}", self.tool),
            None => self.tool.clone(),
        };
        let by = match &self.rule {
            Some(rule) => rule.to_string(),
            None => "no rule, so the preset".to_owned(),
        };
        let mut page = Page::new()
            .text(format!("  {:>7}  {what:<16}  ", self.calls))
            .styled(Style::Dim, format!("by {by}"));
        if self.refused > 0 {
            let text = format!("  a person refused {}", self.refused);
            page = page.styled(Style::Warn, text);
        }
        page = page.end();
        for example in &self.examples {
            page = page
                .styled(Style::Dim, format!("           {}  ", example.call))
                .text(&example.what)
                .end();
        }
        page
    }
}

fn examples(group: &Group) -> Vec<ExampleView> {
    let examples = group.examples.iter();
    examples
        .map(|(call, what)| ExampleView {
            call: call.to_string(),
            what: what.clone(),
        })
        .collect()
}

fn calls(number: u64) -> String {
    match number {
        1 => "1 call".to_owned(),
        number => format!("{number} calls"),
    }
}
