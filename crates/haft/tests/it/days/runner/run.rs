//! Goes through a day: each call is judged under every preset where it stands, then run in the
//! sandbox and outside.
//!
//! Outside, a command is a plain process. Everything else (file tools, processes that stay) is the
//! same call to a Haft that confines nothing. Where a command works outside and fails in the
//! sandbox, it is taken back and done in that workspace from outside, so that one failure is not counted again by
//! the calls that build on it.

use std::sync::Arc;

use haft::{Haft, Preset, contract::ErrorKind, sandbox::helper::Helper};
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    corpus::{Call, Day, EVERYWHERE},
    ground::{Ground, process_of},
    report::{Answer, CallReport, DayReport, Report, Run},
};

/// Days that are gone through at once.
const AT_ONCE: usize = 2;

/// Goes through the days.
pub(crate) async fn run(days: Vec<Day>, helper: &Helper) -> Report {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for day in days {
        let (places, helper) = (Arc::clone(&places), helper.clone());
        tasks.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            run_day(day, &helper).await
        });
    }
    let mut days = tasks.join_all().await;
    days.sort_by(|one, other| one.day.name.cmp(&other.day.name));
    Report { days }
}

async fn run_day(day: Day, helper: &Helper) -> DayReport {
    let (inside, outside) = (Arc::new(Ground::new(&day)), Arc::new(Ground::new(&day)));
    let missing = outside.missing(&EVERYWHERE);
    assert!(
        missing.is_empty(),
        "these programs are not installed: {missing:?}; `.ci/run` as root installs them"
    );
    let mut judges = Vec::new();
    for preset in Preset::ALL {
        judges.push((preset, inside.judge(preset, helper).await));
    }
    let mut confined = Session::new(Arc::clone(&inside), inside.confined(helper).await);
    let mut unconfined = Session::new(Arc::clone(&outside), outside.unconfined(helper).await);
    let mut calls = Vec::new();
    for call in &day.calls {
        let mut answers = Vec::new();
        for (preset, (judge, process)) in &judges {
            let arguments = inside.arguments(call, Some(process));
            answers.push((*preset, answer(judge, call, arguments).await));
        }
        let is_malformed = answers
            .iter()
            .any(|(_, answer)| matches!(answer, Ok(Answer::Malformed)));
        let run = match call.command() {
            _ if !call.is_run() || !call.runs_everywhere() => Run::Not,
            // The sandbox is not to blame.
            Some(command) if is_malformed => {
                let _ = confined.command(call, command).await;
                let _ = unconfined.command(call, command).await;
                Run::Not
            }
            None if is_malformed => Run::Not,
            _ => compare(call, &mut confined, &mut unconfined).await,
        };
        calls.push(CallReport {
            call: call.clone(),
            answers,
            run,
        });
    }
    // What takes other programs comes last, so that nothing that is counted depends on it.
    for report in &mut calls {
        let call = &report.call;
        let is_other = call.is_run() && !call.runs_everywhere();
        let needs: Vec<&str> = call.needs.iter().map(String::as_str).collect();
        if is_other && outside.missing(&needs).is_empty() {
            let run = compare(call, &mut confined, &mut unconfined).await;
            report.run = Run::Uncounted(Box::new(run));
        }
    }
    for (_, (judge, _)) in judges {
        judge.close().await.unwrap();
    }
    confined.haft.close().await.unwrap();
    unconfined.haft.close().await.unwrap();
    DayReport { day, calls }
}

/// What would be answered now. A call that ends before it is decided is a fault of the data, unless
/// it ends because of where it leads, or because of how it is written.
async fn answer(haft: &Haft, call: &Call, arguments: Value) -> Result<Answer, String> {
    let request = haft.request(call.tool.as_str(), arguments);
    match haft.runtime().plan(request).await {
        Ok(foreseen) => Ok(foreseen.decision.verdict.into()),
        Err(outcome) => match outcome.error.as_ref().map(|failure| failure.kind) {
            Some(ErrorKind::Denied | ErrorKind::OutsideWorkspace | ErrorKind::Protected) => {
                Ok(Answer::Deny)
            }
            Some(ErrorKind::InvalidInput | ErrorKind::UnknownTool) => Ok(Answer::Malformed),
            _ => Err(format!("{}: {}", call.id, outcome.model_text())),
        },
    }
}

/// One side of the comparison.
struct Session {
    ground: Arc<Ground>,
    haft: Haft,
    /// The process that was started last and stayed.
    process: Option<String>,
}

impl Session {
    fn new(ground: Arc<Ground>, haft: Haft) -> Self {
        Self {
            ground,
            haft,
            process: None,
        }
    }

    async fn call(&mut self, call: &Call) -> Result<(), String> {
        let arguments = self.ground.arguments(call, self.process.as_deref());
        let outcome = self.haft.call(call.tool.as_str(), arguments).await;
        if let Some(process) = process_of(&outcome) {
            self.process = Some(process.to_owned());
        }
        let text = outcome.model_text();
        match outcome.error.as_ref().map(|failure| failure.kind) {
            None | Some(ErrorKind::CommandFailed) => {
                as_expected(call, outcome.facts.exit_code.unwrap_or(0), &text)
            }
            Some(kind) => Err(format!("{kind}\n{text}")),
        }
    }

    /// The same as a plain process.
    async fn command(&self, call: &Call, command: &str) -> Result<(), String> {
        let ground = Arc::clone(&self.ground);
        let script = ground.expand(command, self.process.as_deref());
        let run = tokio::task::spawn_blocking(move || ground.run(&script));
        match run.await.unwrap() {
            (Some(code), text) => as_expected(call, code, &text),
            (None, text) => Err(format!("ended by a signal\n{text}")),
        }
    }
}

/// Whether a call ended as it does where it works. The first line of an error is the same on every
/// machine.
fn as_expected(call: &Call, code: i32, text: &str) -> Result<(), String> {
    if code != call.exit {
        return Err(format!("exit code {code}, not {}\n{text}", call.exit));
    }
    match &call.shows {
        Some(shows) if !text.contains(shows) => {
            Err(format!("does not print `{}`\n{text}", shows.trim()))
        }
        _ => Ok(()),
    }
}

async fn compare(call: &Call, confined: &mut Session, unconfined: &mut Session) -> Run {
    if call.command().is_some() {
        confined.ground.save();
    }
    let inside = confined.call(call);
    let outside = async {
        match call.command() {
            Some(command) => unconfined.command(call, command).await,
            None => unconfined.call(call).await,
        }
    };
    let (inside, outside) = tokio::join!(inside, outside);
    match (inside, outside) {
        (_, Err(error)) => Run::FailedOutside(error),
        (Ok(()), Ok(())) => Run::Same,
        (Err(error), Ok(())) => {
            if let Some(command) = call.command() {
                confined.ground.restore();
                let _ = confined.command(call, command).await;
            }
            Run::FailedInside(error)
        }
    }
}

impl Ground {
    /// The arguments of a call here.
    fn arguments(&self, call: &Call, process: Option<&str>) -> Value {
        let mut arguments = call.arguments.clone();
        let texts = arguments.as_object_mut().into_iter().flatten();
        for (_, value) in texts {
            if let Value::String(text) = value {
                *text = self.expand(text, process);
            }
        }
        arguments
    }
}
