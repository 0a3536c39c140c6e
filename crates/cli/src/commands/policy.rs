//! `haft policy`: the rules in force, what they would decide about a call, and mistakes in them.
//! `policy/replay.rs` tries other rules on recorded calls, `policy/test.rs` tries the rules' own
//! examples.

mod replay;
mod test;

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Subcommand};
use haft_contract::{
    Label,
    host::{Policy as _, Question, Verdict},
};
use haft_host::{
    HostBuilder,
    advice::{Advice, AdviceContext},
    config::Settings,
    problem,
};
use haft_policy::{Finding, Preset, explain::Step};
use serde::Serialize;
use serde_json::json;

use super::{App, arguments, call, grants};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        decision::{DecisionView, RuleView, verdict_style},
        outcome::OutcomeView,
    },
};

/// Show, try out and check the rules
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print the rules in force and where each is defined
    Show(ShowArgs),
    /// Show what the rules say about a call, without running it
    Check(CheckArgs),
    /// Look for rules that do nothing
    Lint(LintArgs),
    /// Try the examples that rules carry
    Test(test::TestArgs),
    /// Decide recorded calls again under other rules, and print what would change
    Replay(replay::ReplayArgs),
}

#[derive(Debug, Args)]
struct LintArgs {
    /// The file to check, trusted or not [default: the configuration in force]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Print the Cedar policies the rules become
    #[arg(long)]
    cedar: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 allowed, 9 a person would be asked, 3 denied.

Example:
  haft policy check bash 'git push'")]
struct CheckArgs {
    /// The tool's name or alias
    tool: String,
    /// Its arguments, as for `haft call`
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// What the session has read from, such as `mcp:github`; may be repeated
    #[arg(long = "read-from", value_name = "SOURCE")]
    read_from: Vec<Label>,
    #[command(flatten)]
    identity: IdentityArgs,
}

/// Runs the command.
pub(crate) async fn run(args: PolicyArgs, app: &App) -> Result<Exit, Stop> {
    match args.command {
        PolicyCommand::Show(args) => show(&args, app),
        PolicyCommand::Check(args) => check(args, app).await,
        PolicyCommand::Lint(args) => lint(args, app).await,
        PolicyCommand::Test(args) => test::run(args, app),
        PolicyCommand::Replay(args) => Box::pin(replay::run(args, app)).await,
    }
}

#[derive(Debug, Serialize)]
struct PolicyView {
    preset: &'static str,
    version: String,
    sources: Vec<String>,
    rules: Vec<PolicyRuleView>,
}

#[derive(Debug, Serialize)]
struct PolicyRuleView {
    verdict: &'static str,
    /// The section it is in, unless it applies to everyone.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    holds_for: Option<String>,
    #[serde(flatten)]
    rule: RuleView,
}

fn show(args: &ShowArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    app.notes(&settings.notes);
    let policy = &settings.policy;
    if args.cedar {
        if app.output.format() == Format::Json {
            app.output.json(&json!({"cedar": policy.cedar_text()}))?;
        } else {
            app.output.content(&policy.cedar_text())?;
        }
        return Ok(Exit::Ok);
    }
    let view = PolicyView {
        preset: preset(&settings).as_str(),
        version: policy.version().0,
        sources: settings
            .sources
            .iter()
            .map(|source| source.name.clone())
            .collect(),
        rules: policy
            .rules()
            .map(|rule| PolicyRuleView {
                verdict: rule.verdict().as_str(),
                holds_for: rule.holds_for(),
                rule: RuleView::of(rule.origin()),
            })
            .collect(),
    };
    if app.output.format() == Format::Json {
        app.output.json(&view)?;
        return Ok(Exit::Ok);
    }
    let sources = if view.sources.is_empty() {
        "none; built-in defaults (`haft init` makes a haft.toml)".to_owned()
    } else {
        view.sources.join(", ")
    };
    let mut page = Page::new()
        .field("preset", view.preset)
        .field("files", sources)
        .field("version", &view.version);
    for rule in &view.rules {
        page = page
            .styled(verdict_style(rule.verdict), format!("{:<10}", rule.verdict))
            .text(rule.rule.to_string());
        if let Some(holds_for) = &rule.holds_for {
            page = page.styled(Style::Dim, format!("  for {holds_for}"));
        }
        page = page.end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// The preset for everyone: the strictest of the files.
fn preset(settings: &Settings) -> Preset {
    let named = |text: &str| {
        let file: toml::Table = text.parse().ok()?;
        Preset::parse(file.get("policy")?.get("preset")?.as_str()?)
    };
    let presets = settings
        .sources
        .iter()
        .filter_map(|source| named(&source.text));
    presets.max().unwrap_or(Preset::Careful)
}

#[derive(Debug, Serialize)]
struct CheckView {
    #[serde(flatten)]
    decision: DecisionView,
    steps: Vec<StepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_allow: Option<String>,
}

#[derive(Debug, Serialize)]
struct StepView {
    agent: String,
    preset: &'static str,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<String>,
    verdict: &'static str,
    reason: String,
    considered: Vec<PolicyRuleView>,
}

async fn check(args: CheckArgs, app: &App) -> Result<Exit, Stop> {
    let principal = args.identity.principal(&app.env)?;
    let settings = app.settings()?.used_by(&principal)?;
    let place = AdviceContext::new(&settings, &app.env.current_dir);
    let builder = HostBuilder::from_settings(settings)?;
    app.notes(builder.notes());
    let (suggest, mounts) = (builder.suggest(), builder.mounts());
    let assembly = builder.assemble().await?;
    assembly.mount_to_look()?;
    let tools = assembly.runtime.registry().snapshot();
    let arguments = arguments::for_tool(&tools, &args.tool, &args.arguments)?;
    let request = call::request(args.tool.clone(), arguments, &principal, None);
    let plan = match assembly.runtime.plan(request).await {
        Ok(foreseen) => {
            let plan = Arc::unwrap_or_clone(foreseen.plan);
            plan.with_read_from(args.read_from.into_iter().collect())
        }
        Err(outcome) => {
            // It would not even get as far as policy; that is the answer.
            let advice = Advice::new(place, suggest, principal, mounts);
            let view = OutcomeView::of(&outcome).hinting(advice.hint(&args.tool, &outcome));
            match app.output.format() {
                Format::Json => app.output.json(&view)?,
                Format::Text => app.output.note(&view.refusal()),
            }
            return Ok(Exit::of_call(&outcome));
        }
    };
    let Some(entry) = tools.get(plan.tool().tool.as_str()) else {
        return Err(Stop::new(
            Exit::NotFound,
            "the tool is gone",
            "`haft tools` lists the tools",
        ));
    };
    let mut question = Question {
        principal: &principal,
        tool: entry.facts(),
        plan: &plan,
        grants: &[],
    };
    let grants = grants::holding(app, &*assembly.policy, question).await?;
    question.grants = &grants;
    let explanation = assembly.policy.explain(&question);
    let verdict = explanation.decision.verdict;
    let exit = Exit::of_verdict(verdict);
    let to_allow = match verdict {
        Verdict::Allow => None,
        Verdict::Ask => Some(suggest.sentence(&principal, &plan)),
        Verdict::Deny => suggest.to_allow(&principal, &plan),
    };
    let view = CheckView {
        decision: DecisionView::of(&explanation.decision),
        steps: explanation.steps.iter().map(step).collect(),
        to_allow,
    };
    if app.output.format() == Format::Json {
        app.output.json(&view)?;
        return Ok(exit);
    }
    let mut page = view.decision.page();
    for step in &view.steps {
        let about = step.access.as_deref().unwrap_or("use of the tool itself");
        page = page
            .styled(Style::Dim, "judged    ")
            .styled(verdict_style(step.verdict), format!("{:<6}", step.verdict))
            .text(about)
            .styled(Style::Dim, format!("  {}", step.reason))
            .end();
    }
    if let Some(to_allow) = &view.to_allow {
        page = page.styled(Style::Warn, "hint: ").text(to_allow).end();
    }
    app.output.page(&page)?;
    Ok(exit)
}

fn step(step: &Step) -> StepView {
    StepView {
        agent: step.agent.to_string(),
        preset: step.preset.as_str(),
        action: step.action.as_str(),
        access: step.access.clone(),
        verdict: step.verdict.as_str(),
        reason: step.reason.clone(),
        considered: step
            .considered
            .iter()
            .map(|(verdict, rule)| PolicyRuleView {
                verdict: verdict.as_str(),
                holds_for: None,
                rule: RuleView::of(rule),
            })
            .collect(),
    }
}

async fn lint(args: LintArgs, app: &App) -> Result<Exit, Stop> {
    let settings = match args.file {
        Some(file) => app.places()?.settings_of(app.env.current_dir.join(file))?,
        None => app.settings()?,
    };
    let builder = HostBuilder::to_look(settings)?;
    app.notes(builder.notes());
    let assembly = builder.assemble_for_lint().await?;
    let findings = assembly.findings();
    let rules = assembly.policy.rules().count();
    if app.output.format() == Format::Json {
        let found = |finding: &Finding| {
            json!({
                "rule": RuleView::of(&finding.rule),
                "problem": problem(finding),
                "hint": finding.hint(),
            })
        };
        let findings: Vec<_> = findings.iter().map(found).collect();
        app.output
            .json(&json!({"rules": rules, "findings": findings}))?;
    } else if findings.is_empty() {
        let page = Page::new()
            .styled(Style::Good, "no mistakes")
            .text(format!(" in {rules} rules"));
        app.output.page(&page.end())?;
    } else {
        for finding in &findings {
            let page = Page::new()
                .styled(Style::Bad, "error: ")
                .text(problem(finding))
                .end()
                .styled(Style::Warn, "hint: ")
                .text(finding.hint())
                .end();
            app.output.page(&page)?;
        }
    }
    Ok(if findings.is_empty() {
        Exit::Ok
    } else {
        Exit::Config
    })
}
