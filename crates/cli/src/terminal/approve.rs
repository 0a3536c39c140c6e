//! Asks the person at the terminal. The whole plan is shown, escaped and not cut; only what is
//! typed after the question appeared counts as an answer.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _},
    sync::{Arc, Mutex as StdMutex, PoisonError},
};

use haft_contract::{
    Access, PathScope, Principal, SealedPlan,
    access::Command,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
    ops::Tier,
};
use tokio::sync::{Mutex, mpsc};

use super::{Output, Page, Style, Watcher, hint};
use crate::suggest::Suggest;

/// The longest answer that is looked at.
const MAX_ANSWERS_WAITING: usize = 1;

/// Whether there is a person who sees questions and can answer them.
pub(crate) fn somebody_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Puts questions to the person at the terminal, or says truthfully that there is none.
pub(crate) struct TerminalApprover {
    output: Output,
    suggest: Suggest,
    watcher: Arc<Watcher>,
    user: String,
    /// Whether somebody is there, and what they type. One question at a time.
    answers: Option<Mutex<Answers>>,
}

impl TerminalApprover {
    /// An approver for this process. `somebody` says whether a person can answer.
    pub(crate) fn new(
        output: Output,
        suggest: Suggest,
        watcher: Arc<Watcher>,
        user: String,
        somebody: bool,
    ) -> Self {
        Self {
            output,
            suggest,
            watcher,
            user,
            answers: somebody.then(|| Mutex::new(Answers::default())),
        }
    }
}

impl Approver for TerminalApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let sentence = self.suggest.sentence(&request.principal, &request.plan);
        let Some(answers) = &self.answers else {
            return ApprovalAnswer::NobodyThere { reason: sentence };
        };
        let mut answers = answers.lock().await;
        let _quiet = self.watcher.quiet();
        self.output.note(&question(&request).page(hint(&sentence)));
        answers.forget_what_was_typed();
        loop {
            self.output
                .note(&Page::new().styled(Style::Strong, "Allow this one call? [y/N] "));
            let Some(line) = answers.next().await else {
                return ApprovalAnswer::NobodyThere { reason: sentence };
            };
            match line.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => return request.approve(&self.user),
                "" | "n" | "no" => return request.refuse(&self.user, None),
                _ => self
                    .output
                    .note(&Page::new().text("Please answer y or n.").end()),
            }
        }
    }
}

/// Lines typed at the terminal, read by a thread of its own: a read cannot be interrupted, and the
/// program must be able to end while one waits.
#[derive(Default)]
struct Answers {
    lines: Option<StdMutex<mpsc::Receiver<String>>>,
}

impl Answers {
    /// Drops what was typed before the question was there to be read.
    fn forget_what_was_typed(&mut self) {
        // If the terminal cannot do it, an early answer still has to be one of the known words.
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        if let Some(lines) = &mut self.lines {
            let lines = lines.get_mut().unwrap_or_else(PoisonError::into_inner);
            while lines.try_recv().is_ok() {}
        }
    }

    async fn next(&mut self) -> Option<String> {
        let lines = self
            .lines
            .get_or_insert_with(|| StdMutex::new(read_lines()));
        lines
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .recv()
            .await
    }
}

fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(MAX_ANSWERS_WAITING);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Everything an approval binds, for a person. What matters most comes last, next to the question.
fn question(request: &ApprovalRequest) -> Page {
    let plan = &request.plan;
    let input = serde_json::to_string_pretty(&plan.input).unwrap_or_default();
    let mut page = Page::new()
        .end()
        .styled(Style::Warn, "Haft asks you about a call")
        .end()
        .field("call", request.call.to_string())
        .field("by", who(&request.principal))
        .field("workspace", &plan.workspace)
        // JSON escapes once more what a terminal could act on, so nothing looks like something else.
        .field_block("input", &super::sanitise::json(&input))
        .field("plan", format!("sha256 {}", request.digest))
        .field(
            "deadline",
            format!("{} s after it starts", plan.deadline.as_secs_f64()),
        )
        .field("effects", plan.effects.to_string())
        .field("confined", confinement(plan))
        .field("why", &request.decision.reason)
        .styled(Style::Dim, "tool      ")
        .styled(Style::Strong, plan.tool.to_string())
        .end();
    for access in &plan.accesses {
        let (verb, what) = in_words(access);
        page = page
            .styled(Style::Dim, format!("{:<10}", "will"))
            .styled(Style::Warn, format!("{verb} "))
            .styled(Style::Strong, what)
            .end();
    }
    page
}

fn who(principal: &Principal) -> String {
    let mut text = format!(
        "agent {} for {} in session {} ({})",
        principal.agent, principal.user, principal.session, principal.session_kind
    );
    for ancestor in &principal.ancestors {
        let _ = write!(text, ", started by {ancestor}");
    }
    text
}

fn confinement(plan: &SealedPlan) -> &'static str {
    match plan.tier {
        Tier::Host => "host: no sandbox; it can do whatever you can",
        Tier::T1 => "t1: Landlock, seccomp and resource limits",
        Tier::T2 => "t2: namespaces, Landlock, seccomp and cgroup",
        Tier::T3 => "t3: gVisor",
        Tier::InProcess => "in_process: files of this workspace only, no child process",
    }
}

/// An access as a verb and what it is about.
pub(crate) fn in_words(access: &Access) -> (&'static str, String) {
    match access {
        Access::Path(path) => {
            let verb = access.kind();
            let mut what = path.path.to_string();
            if path.scope == PathScope::Tree {
                what.push_str(" and everything beneath it");
            }
            if let Some(resolved) = path.resolved.as_ref().filter(|to| **to != path.path) {
                let _ = write!(what, " (which leads to {resolved})");
            }
            if let Some(why) = &path.protected {
                let _ = write!(what, " (protected: {why})");
            }
            (verb, what)
        }
        Access::Command(command) => {
            let text = match &command.command {
                Command::Shell(script) => script.clone(),
                Command::Argv(_) => command.command.text(),
            };
            let place = if command.cwd.is_root() {
                String::new()
            } else {
                format!("   (in {})", command.cwd)
            };
            ("run", format!("{text}{place}"))
        }
        Access::Host { host, port } => ("connect to", format!("{host}:{port}")),
        Access::Database { source, writes } => (
            if *writes { "change" } else { "query" },
            format!("database {source}"),
        ),
        Access::Message { channel, target } => ("send to", format!("{target} on {channel}")),
        Access::RemoteTool { provider, tool } => ("call", format!("{tool} at {provider}")),
    }
}
