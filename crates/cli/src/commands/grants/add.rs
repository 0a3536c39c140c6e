//! `haft grants add`: shows a rule, its meaning, where and how long it would apply, and stores it
//! once a person says yes.

use std::time::Duration;

use clap::{ArgGroup, Args};
use haft_contract::{
    AgentId, SessionId,
    host::{Grant, GrantId, GrantScope, GrantedWorkspace, Ledger as _, Timestamp},
};
use haft_host::{Assembly, HostBuilder, WorkspaceSource, config::Settings, error::chain, problem};
use haft_policy::{CedarPolicy, GrantRule, PolicySource};
use haft_runtime::registry::Snapshot;

use super::{App, Exit, Stop, now};
use crate::commands::approvals::may_answer;
use crate::{
    args::IdentityArgs,
    commands::call,
    prompt::confirm,
    terminal::{Format, Page, Style},
    view::grant::{GrantView, lasting, place},
};

/// The most rules one command creates.
const MAX_RULES: usize = 64;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("where").args(["session", "project", "agent"]),
    group = ArgGroup::new("end").args(["lasts", "until"]),
    after_help = "\
A standing approval answers where the rules ask; it never opens what they deny. Shells, interpreters
and wrappers (`bash -c`, `python -c`, `env`) can be granted only word for word.

Examples:
  haft grants add 'bash(cargo test *)'
  haft grants add 'write(src/**)' --session main --for 2h"
)]
pub(super) struct AddArgs {
    /// What to allow, in the notation of `allow` lists
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<String>,
    /// Only in this conversation
    #[arg(long, value_name = "NAME")]
    session: Option<SessionId>,
    /// In this workspace, for every agent [the default]
    #[arg(long)]
    project: bool,
    /// For this agent, in every workspace
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentId>,
    /// For this long: `30m`, `2h`
    #[arg(long = "for", value_name = "TIME", value_parser = call::duration)]
    lasts: Option<Duration>,
    /// Until this moment: `2030-01-31T18:00:00Z`, or local time without a zone
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    until: Option<Timestamp>,
    /// For this many calls
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    uses: Option<u32>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub(super) async fn run(args: AddArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    if args.rules.len() > MAX_RULES {
        return Err(Stop::usage(
            format!("{} rules are too many at once", args.rules.len()),
            format!("give at most {MAX_RULES}"),
        ));
    }
    let rules = read(&args.rules)?;
    let settings = app.settings()?;
    let settings = settings.used_by(&*IdentityArgs::default().principal(&app.env)?)?;
    app.notes(&settings.notes);
    let sources = settings.sources.clone();
    let scope = scope(&args, &settings).await?;
    let assembly = HostBuilder::to_look(settings)?.assemble_for_lint().await?;
    assembly.mount_to_look()?;
    lint(&args.rules, sources, &assembly)?;
    let tools = assembly.runtime.registry().snapshot();
    let meanings: Vec<String> = rules.iter().map(|rule| meaning(rule, &tools)).collect();
    let grants = grants(&args, &scope, app)?;
    if !args.yes {
        ask(&meanings, &grants, app).await?;
    }
    let ledger = app.record().await?;
    let store = ledger.grants();
    for grant in &grants {
        let kept = store.add(grant.clone()).await;
        kept.map_err(|error| Stop::ledger(&error))?;
    }
    super::close(&ledger).await?;
    if app.output.format() == Format::Json {
        let views: Vec<GrantView> = grants.iter().map(GrantView::of).collect();
        app.output.json(&views)?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for (meaning, grant) in meanings.iter().zip(&grants) {
        page = page
            .styled(Style::Good, "granted")
            .text(format!(": {meaning}"))
            .styled(
                Style::Dim,
                format!("  {}, {}", place(&grant.scope), lasting(grant)),
            )
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// Parses the rules as grants, or says why one is not valid.
fn read(rules: &[String]) -> Result<Vec<GrantRule>, Stop> {
    rules
        .iter()
        .map(|rule| {
            GrantRule::parse(rule)
                .map_err(|refusal| Stop::usage(refusal.to_string(), refusal.hint()))
        })
        .collect()
}

/// What granting a rule means with the tools that there are.
fn meaning(rule: &GrantRule, tools: &Snapshot) -> String {
    let entries = tools.page(0, tools.len()).iter();
    let named = entries.filter(|entry| rule.names_tool(entry.key().tool.as_str()));
    let mut touched = named.map(|entry| entry.spec().touches);
    let first = touched.next().flatten();
    rule.meaning_for(first.filter(|first| touched.all(|other| other == Some(*first))))
}

async fn scope(args: &AddArgs, settings: &Settings) -> Result<GrantScope, Stop> {
    Ok(match (&args.session, &args.agent) {
        (Some(session), _) => GrantScope::Session(session.clone()),
        (None, Some(agent)) => GrantScope::Agent(agent.clone()),
        (None, None) => {
            let operations = WorkspaceSource::of(settings).open().await?;
            GrantScope::Project(GrantedWorkspace::of_operations(&operations))
        }
    })
}

/// Checks the rules against the existing tools, as if they were in an `allow` list.
fn lint(rules: &[String], mut sources: Vec<PolicySource>, assembly: &Assembly) -> Result<(), Stop> {
    const NAME: &str = "grant";
    let list = rules.iter().cloned().map(toml::Value::String).collect();
    let list = toml::Value::Array(list);
    sources.push(PolicySource::new(
        NAME,
        format!("[policy]\nallow = {list}\n"),
    ));
    let policy = CedarPolicy::load(&sources)
        .map_err(|error| Stop::usage(chain(&error), "correct the rule"))?;
    let findings = assembly.findings_in(&policy);
    match findings.iter().find(|finding| finding.rule.source == NAME) {
        Some(finding) => Err(Stop::usage(problem(finding), finding.hint())),
        None => Ok(()),
    }
}

fn grants(args: &AddArgs, scope: &GrantScope, app: &App) -> Result<Vec<Grant>, Stop> {
    let principal = IdentityArgs::default().principal(&app.env)?;
    let now = now();
    let until = args
        .until
        .or_else(|| args.lasts.map(|lasts| now.after(lasts)));
    if until.is_some_and(|until| until <= now) {
        return Err(Stop::usage(
            "it would have ended already",
            "name a time in the future",
        ));
    }
    let grant = |rule: &String| Grant {
        id: GrantId::new(),
        tenant: principal.tenant.clone(),
        user: principal.user.clone(),
        rule: rule.clone(),
        scope: scope.clone(),
        until,
        uses_left: args.uses,
        made_by: principal.user.to_string(),
        made_at: now,
        cause: None,
    };
    Ok(args.rules.iter().map(grant).collect())
}

/// Shows what would be stored and asks for confirmation.
async fn ask(meanings: &[String], grants: &[Grant], app: &App) -> Result<(), Stop> {
    let mut page = Page::new();
    for (meaning, grant) in meanings.iter().zip(grants) {
        page = page
            .field("rule", &grant.rule)
            .field("allows", meaning)
            .field("where", place(&grant.scope))
            .field("how long", lasting(grant));
    }
    let question = "Allow this from now on?";
    confirm::confirmed(app.output, &page, question, "nothing was granted").await
}

/// A moment, with a time zone or in local time.
fn moment(text: &str) -> Result<Timestamp, String> {
    let zoned = text.parse::<jiff::Timestamp>();
    let local = || {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        let zone = jiff::tz::TimeZone::system();
        Some(zone.to_zoned(local).ok()?.timestamp())
    };
    let at = zoned.ok().or_else(local);
    at.map(|at| Timestamp(at.as_microsecond()))
        .ok_or_else(|| "write a moment such as 2030-01-31T18:00:00Z or 2030-01-31 18:00".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_with_and_without_a_zone() {
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(Timestamp(1_000_000)));
        assert!(moment("2030-01-31 18:00").is_ok());
        assert!(moment("tomorrow").is_err());
    }
}
