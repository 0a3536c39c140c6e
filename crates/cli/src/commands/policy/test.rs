//! `haft policy test`: tries every rule's own examples.

use std::path::PathBuf;

use clap::Args;
use haft_policy::{ExpectedMatch, PolicyFile, TestedRule};
use serde::Serialize;

use crate::{
    commands::App,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::decision::RuleView,
};

#[derive(Debug, Args)]
#[command(after_help = "\
A rule carries examples like this:
  { rule = \"bash(cargo test *)\", matches = [\"cargo test -q\"], not_matches = [\"cargo run\"] }

Exit code: 0 if every example holds, 1 if one does not.")]
pub(super) struct TestArgs {
    /// The file to check, trusted or not [default: the configuration in force]
    file: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct TestView {
    rules: usize,
    examples: usize,
    failed: usize,
    without_examples: usize,
    tested: Vec<RuleTestView>,
}

#[derive(Debug, Serialize)]
struct RuleTestView {
    verdict: &'static str,
    rule: RuleView,
    holds: bool,
    examples: Vec<ExampleTestView>,
}

#[derive(Debug, Serialize)]
struct ExampleTestView {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    must_match: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: TestArgs, app: &App) -> Result<Exit, Stop> {
    let places = app.places()?;
    let sources = match args.file {
        Some(file) => places.sources_of(&app.env.current_dir.join(file))?,
        None => places.sources()?,
    };
    let tested = PolicyFile::test(&sources).map_err(|error| {
        Stop::config(error.to_string(), "correct it first, then try its examples")
    })?;
    let view = TestView::of(&tested);
    match app.output.format() {
        Format::Json => app.output.json(&view)?,
        Format::Text => app.output.page(&view.page())?,
    }
    Ok(if view.failed == 0 {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

impl TestView {
    fn of(tested: &[TestedRule]) -> Self {
        let examples = tested.iter().map(|rule| rule.examples.len());
        let failures = tested.iter().map(|rule| rule.failures().count());
        let bare = |rule: &&TestedRule| rule.examples.is_empty();
        Self {
            rules: tested.len(),
            examples: examples.sum(),
            failed: failures.sum(),
            without_examples: tested.iter().filter(bare).count(),
            tested: tested
                .iter()
                .filter(|rule| !bare(rule))
                .map(RuleTestView::of)
                .collect(),
        }
    }

    fn page(&self) -> Page {
        let mut page = Page::new();
        for rule in &self.tested {
            let (style, word) = if rule.holds {
                (Style::Good, "ok    ")
            } else {
                (Style::Bad, "failed")
            };
            let examples = match rule.examples.len() {
                1 => "1 example".to_owned(),
                more => format!("{more} examples"),
            };
            page = page
                .styled(style, word)
                .text(format!("  {} {}", rule.verdict, rule.rule))
                .styled(Style::Dim, format!("  {examples}"))
                .end();
            let failed = |example: &&ExampleTestView| example.problem.is_some();
            for example in rule.examples.iter().filter(failed) {
                let line = example
                    .line
                    .map_or_else(String::new, |line| format!("{line}: "));
                let problem = example.problem.as_deref().unwrap_or_default();
                page = page.text(format!("        {line}{problem}")).end();
            }
        }
        let text = format!(
            "{} of {} examples failed; {} of {} rules have none",
            self.failed, self.examples, self.without_examples, self.rules
        );
        page.styled(Style::Strong, text).end()
    }
}

impl RuleTestView {
    fn of(tested: &TestedRule) -> Self {
        Self {
            verdict: tested.verdict.as_str(),
            rule: RuleView::of(&tested.rule),
            holds: tested.holds(),
            examples: tested
                .examples
                .iter()
                .map(|example| ExampleTestView {
                    text: example.text.clone(),
                    line: example.line,
                    must_match: example.wanted == ExpectedMatch::Match,
                    problem: example.failure().map(|problem| problem.message.clone()),
                })
                .collect(),
        }
    }
}
