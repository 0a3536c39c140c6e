//! `haft approve` and `haft deny`: one answer to one question, from a terminal other than the one
//! it was asked in. The whole question is shown before a yes counts.

use clap::Args;
use haft_contract::TenantId;
use haft_contract::host::{
    AnswerError, AnswerPlace, Answerer, Approval, ApprovalState, Clock as _, GivenAnswer,
    GivenVerdict, GrantRequest,
};
use haft_host::asked_again;
use haft_runtime::SystemClock;
use serde_json::json;

use super::{RecordedQuestions, always, find, may_answer};
use crate::{
    commands::App,
    exit::Exit,
    prompt::{ask_for_wish, somebody_is_there, typed_after},
    stop::Stop,
    terminal::{Format, Page, Style, visible},
    view::{question, time},
};

/// The fewest digits of a digest that identify a plan.
const MIN_DIGEST_CHARS: usize = 12;

/// Allow one call that waits for an answer
#[derive(Debug, Args)]
#[command(after_help = "\
Shows the whole question, then asks you. A script that has already shown it passes the digest
of what it showed: haft approve ID --yes --digest 1f0c55a8e9d2")]
pub(crate) struct ApproveArgs {
    /// The question's id, or the beginning of it
    id: String,
    /// Do not ask again; needs `--digest`
    #[arg(long, requires = "digest", conflicts_with = "always")]
    yes: bool,
    /// Allow calls like it from now on too: choose a rule, where it holds and how long
    #[arg(long)]
    always: bool,
    /// The beginning of the digest of the plan that was shown
    #[arg(long, value_name = "SHA256")]
    digest: Option<String>,
}

/// Refuse one call that waits for an answer
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The question's id, or the beginning of it
    id: String,
    /// Why, for the agent
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs `haft approve`.
pub(crate) async fn approve(args: &ApproveArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let desk = RecordedQuestions::open(app).await?;
    let question = open_question(&desk, &args.id).await?;
    if let Some(digest) = &args.digest {
        same_plan(&question, digest)?;
    }
    let (page, details) = shown(&question, desk.why(&question).await, app)?;
    if !args.yes && !somebody_is_there() {
        app.output.note(&page.page(details));
        return Err(Stop::usage(
            "there is nobody at a terminal to say yes",
            format!(
                "after a person has seen it: haft approve {} --yes --digest {}",
                question.id,
                digest_of(&question)
            ),
        ));
    }
    app.output.note(&page.fitting_stderr());
    let yes = match (args.yes, args.always) {
        (true, _) => Some(None),
        (false, false) => says_yes(app, &details).await.then_some(None),
        (false, true) => chosen_rule(&question, app).await?.map(Some),
    };
    let Some(wish) = yes else {
        app.output.note(&Page::new().text("left open").end());
        desk.close().await;
        return Ok(Exit::NotAnswered);
    };
    let answered = approve_and_keep(&desk, &question, wish, app).await;
    desk.close().await;
    report(&answered?, app)
}

/// Answers yes and only then stores the rule, so that an answer that came too late grants nothing.
async fn approve_and_keep(
    desk: &RecordedQuestions,
    question: &Approval,
    wish: Option<GrantRequest>,
    app: &App,
) -> Result<Approval, Stop> {
    let answered = answer(desk, question, GivenVerdict::Approve).await?;
    if let Some(wish) = wish {
        for grant in always::keep(desk, question, &wish).await? {
            let page = Page::new()
                .styled(Style::Good, "allowed from now on")
                .text(format!(
                    "  {}  (grant {})",
                    visible::line(&grant.rule),
                    grant.id
                ))
                .end();
            app.output.note(&page);
        }
    }
    Ok(answered)
}

/// Runs `haft deny`. Refusing needs no confirmation: it can only prevent something.
pub(crate) async fn deny(args: &DenyArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let desk = RecordedQuestions::open(app).await?;
    let question = open_question(&desk, &args.id).await?;
    let verdict = GivenVerdict::Refuse {
        reason: args
            .reason
            .clone()
            .filter(|reason| !reason.trim().is_empty()),
    };
    let answered = answer(&desk, &question, verdict).await;
    desk.close().await;
    report(&answered?, app)
}

async fn open_question(desk: &RecordedQuestions, id: &str) -> Result<Approval, Stop> {
    let question = find::question(desk, id).await?;
    match question.state {
        ApprovalState::Pending => Ok(question),
        state => Err(refused(&AnswerError::NotOpen { state })),
    }
}

/// The whole question, if the record has all of it, unchanged; and its details.
fn shown(asked: &Approval, why: Option<String>, app: &App) -> Result<(Page, Page), Stop> {
    let form = asked.form.as_ref();
    let form = form.ok_or_else(|| refused(&AnswerError::NotShown))?;
    let home = app.env.home_text();
    let drawn = question::draw(form, asked.digest, why.as_deref(), home.as_deref());
    let drawn = drawn.map_err(|question::FormMismatch| {
        Stop::new(
            Exit::Ledger,
            "the question on record is not the one that was asked",
            "refuse it with `haft deny`, and run `haft log verify`",
        )
    })?;
    let details = Page::new()
        .field("call", asked.call.to_string())
        .field("question", asked.id.to_string())
        .field("lapses", time::local(asked.expires))
        .page(question::details(&drawn));
    Ok((question::page(&drawn), details))
}

fn digest_of(question: &Approval) -> String {
    let digest = question.digest.to_string();
    digest.chars().take(MIN_DIGEST_CHARS).collect()
}

/// Checks that a digest prefix is that of the question.
fn same_plan(question: &Approval, digest: &str) -> Result<(), Stop> {
    let wanted = digest.to_ascii_lowercase();
    if wanted.len() < MIN_DIGEST_CHARS {
        return Err(Stop::usage(
            format!("`--digest {digest}` is too short to identify a plan"),
            format!("give at least {MIN_DIGEST_CHARS} digits of the sha256 that was shown"),
        ));
    }
    if question.digest.to_string().starts_with(&wanted) {
        return Ok(());
    }
    Err(refused(&AnswerError::OtherPlan))
}

async fn says_yes(app: &App, details: &Page) -> bool {
    let prompt = "Allow this one call? [y/N] (d details) ";
    loop {
        let prompt = Page::new().styled(Style::Strong, prompt);
        let typed = typed_after(app.output, &prompt).await;
        match typed.map(|typed| typed.to_ascii_lowercase()).as_deref() {
            Some("y" | "yes") => return true,
            Some("d" | "details") => app.output.note(&details.clone().fitting_stderr()),
            Some(_) | None => return false,
        }
    }
}

/// The rule, place and duration the person chooses, if any.
async fn chosen_rule(question: &Approval, app: &App) -> Result<Option<GrantRequest>, Stop> {
    let proposals = always::proposals(question, app).await?;
    let Some(workspace) = asked_again::workspace(question) else {
        return Ok(None);
    };
    let scopes = haft_host::grant_choice::scopes(&question.principal, &workspace);
    Ok(ask_for_wish(app.output, &proposals, scopes).await.flatten())
}

async fn answer(
    desk: &RecordedQuestions,
    question: &Approval,
    verdict: GivenVerdict,
) -> Result<Approval, Stop> {
    let given = GivenAnswer {
        verdict,
        digest: question.digest,
        by: Answerer::Person {
            name: desk.name.clone(),
            place: AnswerPlace::Elsewhere,
        },
    };
    let answered = desk
        .store
        .answer(&TenantId::local(), question.id, given, SystemClock.now())
        .await;
    answered.map_err(|error| refused(&error))
}

/// Why an answer was not accepted, with its exit code and what to do next.
pub(crate) fn refused(error: &AnswerError) -> Stop {
    let (exit, hint) = match error {
        AnswerError::Unknown => (Exit::NotFound, "`haft approvals` lists the open questions"),
        AnswerError::NotOpen { .. } => (
            Exit::NotAnswered,
            "only the first answer counts; `haft log` shows how the call ended",
        ),
        AnswerError::NotYours => (Exit::Denied, "have somebody else answer"),
        AnswerError::OtherPlan => (
            Exit::NotAnswered,
            "look at the question again: `haft approvals`, then `haft approve ID`",
        ),
        AnswerError::NotShown => (Exit::NotAnswered, "`haft deny` refuses it from here"),
        AnswerError::Store(error) => return Stop::ledger(error),
    };
    Stop::new(exit, error.to_string(), hint)
}

fn report(answered: &Approval, app: &App) -> Result<Exit, Stop> {
    if app.output.format() == Format::Json {
        app.output.json(&json!({
            "question": answered.id.to_string(),
            "call": answered.call.to_string(),
            "state": answered.state.as_str(),
        }))?;
        return Ok(Exit::Ok);
    }
    let style = match answered.state {
        ApprovalState::Approved { .. } | ApprovalState::Used { .. } => Style::Good,
        ApprovalState::Pending
        | ApprovalState::Refused { .. }
        | ApprovalState::Lapsed
        | ApprovalState::Withdrawn => Style::Bad,
    };
    let page = Page::new()
        .styled(style, answered.state.as_str())
        .text(format!("  {}", visible::line(&answered.summary)))
        .end();
    app.output.note(&page);
    Ok(Exit::Ok)
}
