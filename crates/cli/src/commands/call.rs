//! `haft call`: one call through the whole pipeline, with its outcome printed and its exit code.

use std::{sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use haft_contract::{Arguments, CallRequest, Outcome, Principal};
use haft_host::{
    FirstAnswer, Host, HostBuilder, OtherPlaces, WorkspaceSource,
    advice::{Advice, AdviceContext},
    config::Settings,
};
use tokio_util::sync::CancellationToken;

use super::{App, arguments};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    interrupt,
    live::{LiveFormat, LivePrinter, rest_of},
    prompt::{AnswerSource, TerminalApprover, somebody_is_there},
    stop::Stop,
    terminal::{Format, JsonLists, Watcher},
    view::{event::SettledView, outcome::OutcomeView},
};

/// How often to check whether the spinner should appear.
const LOOK: Duration = Duration::from_millis(100);

/// Run one tool
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft call read README.md
  haft call grep pattern=TODO path=src limit=5
  haft call edit path=a.txt edits:='[{\"old\": \"x\", \"new\": \"y\"}]'
  haft call bash --json '{\"command\": \"cargo test\"}'
  echo '{\"path\": \"README.md\"}' | haft call read -")]
pub(crate) struct CallArgs {
    /// The tool's name or alias
    tool: String,
    /// key=value, key:=JSON, a value for the next required parameter, one JSON object, or - for a JSON object on standard input
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Stop the call after this long (such as 500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    asking: AskArgs,
    #[command(flatten)]
    identity: IdentityArgs,
}

/// Who is asked.
#[derive(Debug, Default, Args)]
pub(crate) struct AskArgs {
    /// Who answers if a person must be asked [default: here on a terminal, else never]
    #[arg(long, value_name = "WHERE")]
    ask: Option<AskWhere>,
}

/// Where a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AskWhere {
    /// At this terminal, or from elsewhere, whoever is first
    Here,
    /// With `haft approve`, `haft deny` or `haft approvals --watch`; the call waits
    Elsewhere,
    /// Nobody: what would ask is denied at once
    Never,
}

impl AskArgs {
    /// Who answers the questions of this process.
    pub(crate) fn asking(&self) -> Result<AnswerSource, Stop> {
        match (self.ask, somebody_is_there()) {
            (Some(AskWhere::Here) | None, true) => Ok(AnswerSource::Here),
            (Some(AskWhere::Here), false) => Err(Stop::usage(
                "`--ask here` needs a person at a terminal, and there is none",
                "use `--ask elsewhere` and answer with `haft approvals --watch` in a terminal",
            )),
            (Some(AskWhere::Elsewhere), _) => Ok(AnswerSource::Elsewhere),
            (Some(AskWhere::Never), _) | (None, false) => Ok(AnswerSource::Never),
        }
    }
}

/// Printed when a call left something in the background.
const LEFT_RUNNING: &str = "the background process ended with this command: only a \
     session that continues keeps one (an agent, `haft batch`, a program with Haft inside)";

/// Runs the command.
pub(crate) async fn run(args: CallArgs, app: &App) -> Result<Exit, Stop> {
    let ready = ready(app, &args.identity, &args.asking, 1).await?;
    let arguments = ready.arguments(&args.tool, &args.arguments)?;
    let tool = args.tool.clone();
    let request = request(tool, arguments, &ready.principal, args.timeout);
    ready.print_live(app);
    let outcome = ready.call(request).await;
    let printed = ready.live.finish().await;
    let left = ready.host.runtime().processes();
    ready.close().await;
    print(&outcome, &printed, ready.hint(&args.tool, &outcome), app)?;
    if left > 0 {
        app.notes(&[LEFT_RUNNING.to_owned()]);
    }
    Ok(Exit::of_call(&outcome))
}

/// A host, an approver, and a token that Ctrl-C cancels.
pub(crate) struct CallSetup {
    pub(crate) host: Host,
    pub(crate) principal: Arc<Principal>,
    watcher: Arc<Watcher>,
    live: Arc<LivePrinter>,
    /// How much of the beginning of its output every result has.
    head_bytes: usize,
    advice: Arc<Advice>,
    cancel: CancellationToken,
}

/// Prepares to run a number of calls.
pub(crate) async fn ready(
    app: &App,
    identity: &IdentityArgs,
    asking: &AskArgs,
    calls: usize,
) -> Result<CallSetup, Stop> {
    let asking = asking.asking()?;
    let settings = app.settings()?;
    let principal = identity.principal(&app.env)?;
    let settings = settings.used_by(&principal)?;
    CallSetup::new(app, settings, None, principal, asking, calls).await
}

impl CallSetup {
    /// Opens the host in this workspace or in those of the settings, with this approver.
    pub(crate) async fn new(
        app: &App,
        settings: Settings,
        workspace: Option<WorkspaceSource>,
        principal: Arc<Principal>,
        asking: AnswerSource,
        calls: usize,
    ) -> Result<Self, Stop> {
        let place = AdviceContext::new(&settings, &app.env.current_dir);
        let (places, notes) = match asking {
            AnswerSource::Here | AnswerSource::Elsewhere => {
                OtherPlaces::of(&settings.asking.places, &app.env)
            }
            AnswerSource::Never => (OtherPlaces::default(), Vec::new()),
        };
        app.notes(&notes);
        let head_bytes = settings.limits.output.head_bytes;
        let mut builder = HostBuilder::from_settings(settings)?;
        if let Some(workspace) = workspace {
            builder = builder.workspace(workspace);
        }
        app.notes(builder.notes());
        let watcher = Arc::new(Watcher::new(calls, app.output.stderr_is_terminal()));
        let live = Arc::<LivePrinter>::default();
        let cancel = CancellationToken::new();
        let approver = TerminalApprover::new(
            app.output,
            builder.suggest(),
            Arc::clone(&watcher),
            principal.user.to_string(),
            asking,
            cancel.clone(),
        )
        .home(app.env.home_text());
        let (suggest, mounts) = (builder.suggest(), builder.mounts());
        let advice = Advice::new(place, suggest, Arc::clone(&principal), mounts);
        let advice = Arc::new(advice);
        let builder = builder
            .events(Arc::clone(&watcher) as _)
            .events(Arc::clone(&advice) as _)
            .events(Arc::clone(&live) as _)
            .approver(FirstAnswer::new(approver, places));
        // Boxed, because it is opened once and its future is large.
        let host = Box::pin(Host::open(builder)).await?;
        app.recovered(host.recovery());
        interrupt::cancels(&cancel, app.output);
        Ok(Self {
            host,
            principal,
            watcher,
            live,
            head_bytes,
            advice,
            cancel,
        })
    }

    /// Command-line words as arguments of a tool.
    pub(crate) fn arguments(&self, tool: &str, words: &[String]) -> Result<Arguments, Stop> {
        let tools = self.host.runtime().registry().snapshot();
        arguments::for_tool(&tools, tool, words)
    }

    /// Prints the next call while it runs, if that is wanted.
    fn print_live(&self, app: &App) {
        if let Some(format) = LiveFormat::of(app.output, self.head_bytes) {
            self.live.start(app.output, format);
        }
    }

    /// Runs one call to its end.
    pub(crate) async fn call(&self, request: CallRequest) -> Arc<Outcome> {
        let runtime = self.host.runtime();
        self.watched(runtime.call_until(request, self.cancel.clone()))
            .await
    }

    /// Runs calls to their ends, in order.
    pub(crate) async fn batch(&self, requests: Vec<CallRequest>) -> Vec<Arc<Outcome>> {
        let runtime = self.host.runtime();
        self.watched(runtime.batch_until(requests, self.cancel.clone()))
            .await
    }

    /// What a person can do about a call that did not succeed.
    pub(crate) fn hint(&self, tool: &str, outcome: &Outcome) -> Option<String> {
        self.advice.hint(tool, outcome)
    }

    /// Ends processes that calls left running, makes everything durable and closes the record.
    pub(crate) async fn close(&self) {
        if let Err(error) = self.host.close().await {
            tracing::warn!(%error, "not everything could be recorded");
        }
    }

    async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut look = tokio::time::interval(LOOK);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                _ = look.tick() => self.watcher.look(),
            }
        };
        self.watcher.finish();
        done
    }
}

pub(crate) fn request(
    tool: String,
    arguments: Arguments,
    principal: &Arc<Principal>,
    timeout: Option<Duration>,
) -> CallRequest {
    let principal = Arc::clone(principal);
    let request = match arguments {
        Arguments::Text(text) => CallRequest::from_text(tool, text, principal),
        Arguments::Value(value) => CallRequest::new(tool, value, principal),
    };
    match timeout {
        Some(timeout) => request.timeout(timeout),
        None => request,
    }
}

/// Prints an outcome, without what was printed of its text while the call ran.
fn print(outcome: &Outcome, printed: &str, hint: Option<String>, app: &App) -> Result<(), Stop> {
    let view = OutcomeView::of(outcome).hinting(hint);
    match app.output.format() {
        Format::Json => match app.output.lists() {
            JsonLists::Lines => app.output.json_line(&SettledView::of(view)),
            JsonLists::Array => app.output.json(&view),
        },
        Format::Text => {
            // If a hook changed the text, all of it is printed again.
            let text = rest_of(outcome, printed).unwrap_or_else(|| outcome.text());
            if !text.is_empty() {
                app.output.content(&text)?;
            } else if !printed.is_empty() && !printed.ends_with('\n') {
                app.output.piece("\n")?;
            }
            app.output
                .note(&view.epilogue(app.output.stderr_is_terminal()));
            Ok(())
        }
    }
}

/// A number and a unit: `500ms`, `30s`, `2m`, `1h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let number: u64 = digits
        .parse()
        .map_err(|_| "write a number and a unit, such as 30s".to_owned())?;
    let milliseconds = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let milliseconds = milliseconds.and_then(|unit: u64| number.checked_mul(unit));
    match milliseconds {
        Some(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
        Some(_) | None => Err("write a number and a unit: ms, s, m, h or d".to_owned()),
    }
}
