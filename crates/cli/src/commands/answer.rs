//! `haft answer`: what agents ask the person they work for. An answer is words for the agent; it approves
//! nothing, and no approval can be given here: the ids are those of another store.

use clap::Args;
use haft_contract::{
    TenantId,
    host::{
        AgentQuestionId, AnswerPlace, Answerer, AskedQuestion, Clock as _, GivenReply, Ledger as _,
        ReplyError,
    },
};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use serde_json::{Value, json};

use super::{App, approvals};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{question::MAX_LISTED, time},
};

/// Answer what an agent asks, or list what agents ask
#[derive(Debug, Args)]
#[command(after_help = "\
An answer is only text for the agent; it allows nothing. `haft approve` allows a call.")]
pub(crate) struct AnswerArgs {
    /// The question's id, or the beginning of it; without one, all open questions are listed
    id: Option<String>,
    /// The answer: your own words, or the number of an answer that is offered
    #[arg(requires = "id")]
    text: Vec<String>,
    /// Give no answer
    #[arg(long, requires = "id", conflicts_with = "text")]
    decline: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &AnswerArgs, app: &App) -> Result<Exit, Stop> {
    // An agent would answer for its person.
    approvals::may_answer()?;
    let ledger = app.record().await?;
    let done = match &args.id {
        None => list(&pending(&ledger).await?, app),
        Some(id) => answer(&ledger, id, args, app).await,
    };
    if let Err(error) = ledger.close().await {
        tracing::error!(%error, "the record could not be closed");
    }
    done
}

async fn pending(ledger: &StoredLedger) -> Result<Vec<AskedQuestion>, Stop> {
    let store = ledger.agent_questions();
    let tenant = TenantId::local();
    let pending = store.pending(&tenant, SystemClock.now(), MAX_LISTED);
    pending.await.map_err(|error| Stop::ledger(&error))
}

fn list(pending: &[AskedQuestion], app: &App) -> Result<Exit, Stop> {
    if app.output.format() == Format::Json {
        let views: Vec<Value> = pending.iter().map(view).collect();
        app.output.json_list(&views)?;
        return Ok(Exit::Ok);
    }
    if pending.is_empty() {
        app.output
            .note(&Page::new().text("no agent asks anything").end());
        return Ok(Exit::Ok);
    }
    let page = pending.iter().fold(Page::new(), |page, asked| {
        let left = time::rough(asked.expires.since(SystemClock.now()));
        page.styled(Style::Strong, asked.id.to_string())
            .styled(Style::Dim, format!("  (lapses in {left})"))
            .end()
            .page(lines(asked))
    });
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// A question as a person sees it.
fn lines(asked: &AskedQuestion) -> Page {
    let lines = asked.question.lines(asked.principal.agent.as_str());
    lines
        .into_iter()
        .fold(Page::new(), |page, line| page.text(line).end())
}

fn view(asked: &AskedQuestion) -> Value {
    json!({
        "question": asked.id.to_string(),
        "call": asked.call.to_string(),
        "state": asked.state.as_str(),
        "agent": asked.principal.agent.to_string(),
        "session": asked.principal.session.to_string(),
        "asked": time::rfc3339(asked.asked),
        "expires": time::rfc3339(asked.expires),
        "text": asked.question.text(),
        "options": asked.question.options(),
        "allow_other": asked.question.allows_other(),
    })
}

async fn answer(
    ledger: &StoredLedger,
    id: &str,
    args: &AnswerArgs,
    app: &App,
) -> Result<Exit, Stop> {
    let id = match AgentQuestionId::parse(id) {
        Some(id) => id,
        None => beginning_with(&pending(ledger).await?, id)?,
    };
    let reply = match (args.decline, args.text.join(" ")) {
        (true, _) => GivenReply::Decline,
        (false, text) if text.trim().is_empty() => {
            return Err(Stop::usage(
                "there is no answer",
                format!("haft answer {id} TEXT, or haft answer {id} --decline"),
            ));
        }
        (false, text) => GivenReply::Text(text),
    };
    let by = Answerer::Person {
        name: IdentityArgs::default()
            .principal(&app.env)?
            .user
            .to_string(),
        place: AnswerPlace::Elsewhere,
    };
    let (tenant, now) = (TenantId::local(), SystemClock.now());
    let store = ledger.agent_questions();
    let answered = store.reply(&tenant, id, reply, by, now).await;
    let answered = answered.map_err(|error| refused(&error))?;
    if app.output.format() == Format::Json {
        app.output.json(&view(&answered))?;
    } else {
        app.output.note(&Page::new().text("answered").end());
    }
    Ok(Exit::Ok)
}

fn beginning_with(pending: &[AskedQuestion], id: &str) -> Result<AgentQuestionId, Stop> {
    let wanted = id.to_ascii_lowercase();
    let mut fits = pending
        .iter()
        .filter(|asked| !wanted.is_empty() && asked.id.to_string().starts_with(&wanted));
    match (fits.next(), fits.count()) {
        (Some(asked), 0) => Ok(asked.id),
        (None, _) => Err(refused(&ReplyError::Unknown)),
        (Some(_), more) => Err(Stop::new(
            Exit::NotFound,
            format!("`{id}` is the beginning of {} ids", more + 1),
            "give more of it: `haft answer` lists them",
        )),
    }
}

fn refused(error: &ReplyError) -> Stop {
    let (exit, hint) = match error {
        ReplyError::Unknown => (
            Exit::NotFound,
            "`haft answer` lists what agents ask; `haft approve` and `haft deny` answer approvals",
        ),
        ReplyError::NotOpen { .. } => (Exit::NotAnswered, "only the first answer counts"),
        ReplyError::NotYours => (Exit::Denied, "have somebody else answer"),
        ReplyError::NotOffered => (
            Exit::NotAnswered,
            "give one of the answers that `haft answer` lists, or its number",
        ),
        ReplyError::Store(error) => return Stop::ledger(error),
    };
    Stop::new(exit, error.to_string(), hint)
}
