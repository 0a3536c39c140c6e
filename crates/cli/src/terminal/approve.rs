//! Asks the person at the terminal. The whole plan is shown, escaped and not cut; only what is
//! typed after the question appeared counts as an answer.

use std::{
    fmt::Write as _,
    io::{IsTerminal as _, Stdin},
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    Access, PathScope, Principal, SealedPlan,
    access::Command,
    egress::EgressRules,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
    ops::Tier,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    termios::{QueueSelector, tcflush},
};
use tokio::sync::Mutex;

use super::{Output, Page, Style, Watcher, sanitise};
use crate::suggest::Suggest;

/// The longest answer that is looked at; the known ones are far shorter.
const MAX_ANSWER_BYTES: usize = 4096;

/// How long a plan is shown before it can be answered. Keys that were on their way when it appeared
/// have arrived by then, and are dropped.
const TIME_TO_LOOK: Duration = Duration::from_millis(300);

/// How often the terminal is asked whether there is an answer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

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
    /// Held while a question stands, so that there is one at a time; `None` if nobody is there.
    turn: Option<Mutex<()>>,
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
            turn: somebody.then(|| Mutex::new(())),
        }
    }
}

impl Approver for TerminalApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let sentence = self.suggest.sentence(&request.principal, &request.plan);
        let Some(turn) = &self.turn else {
            return ApprovalAnswer::NobodyThere { reason: sentence };
        };
        let _turn = turn.lock().await;
        let _quiet = self.watcher.quiet();
        self.output.note(&question(&request, &sentence));
        tokio::time::sleep(TIME_TO_LOOK).await;
        forget_what_was_typed();
        loop {
            self.output
                .note(&Page::new().styled(Style::Strong, "Allow this one call? [y/N] "));
            let Some(line) = next_line().await else {
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

/// Drops what was typed before the question was there to be read.
fn forget_what_was_typed() {
    // If the terminal cannot do it, an early answer still has to be one of the known words.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// The next line typed at the terminal, or `None` once there will be none.
///
/// Nothing is read unless somebody waits for it: a line read ahead would answer the next question,
/// which nobody has seen yet. What is not read stays with the terminal, where it can be dropped.
async fn next_line() -> Option<String> {
    let stdin = std::io::stdin();
    let mut line = Vec::new();
    let mut buffer = [0; MAX_ANSWER_BYTES];
    loop {
        while !has_input(&stdin) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let read = match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) => return None,
            Ok(read) => buffer.get(..read)?,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return None,
        };
        line.extend_from_slice(read);
        if line.contains(&b'\n') || line.len() >= MAX_ANSWER_BYTES {
            return Some(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

/// Whether a read would return at once.
fn has_input(stdin: &Stdin) -> bool {
    let mut waiting = [PollFd::new(stdin, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut waiting, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Everything an approval binds, for a person. What matters most comes last, next to the question,
/// and every line below the heading starts with a word of ours.
fn question(request: &ApprovalRequest, to_allow: &str) -> Page {
    let plan = &request.plan;
    let input = serde_json::to_string_pretty(&plan.input).unwrap_or_default();
    let mut page = Page::new()
        .end()
        .styled(Style::Warn, "Haft asks you about a call")
        .end()
        .styled(Style::Warn, "hint: ")
        .text(to_allow)
        .end()
        .field("call", request.call.to_string())
        .field("by", who(&request.principal))
        .field("workspace", sanitise::exact(&plan.workspace))
        // JSON escapes once more what a terminal could act on, so nothing looks like something else.
        .field_block("input", &sanitise::json(&input))
        .field("plan", format!("sha256 {}", request.digest))
        .field(
            "deadline",
            format!("{} s after it starts", plan.deadline.as_secs_f64()),
        )
        .field("effects", plan.effects.to_string())
        .field("confined", confinement(plan))
        .field("why", &request.decision.reason);
    let accesses: Vec<(&str, String)> = plan.accesses.iter().map(in_words).collect();
    if accesses.iter().any(|(_, what)| what.contains('\\')) {
        page = page.field("escapes", r"`\\` is one backslash, `\n` a line end");
    }
    page = page
        .styled(Style::Dim, "tool      ")
        .styled(Style::Strong, plan.tool.to_string())
        .end();
    for (verb, what) in accesses {
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

fn confinement(plan: &SealedPlan) -> String {
    let tier = match plan.tier {
        Tier::Host => return "host: no sandbox; it can do whatever you can".to_owned(),
        Tier::InProcess => {
            return "in_process: files of this workspace only, no child process".to_owned();
        }
        Tier::T1 => "t1: a sandbox of Landlock and seccomp",
        Tier::T2 => "t2: a sandbox of namespaces, Landlock and seccomp",
        Tier::T3 => "t3: a sandbox with a kernel of its own, gVisor",
    };
    format!("{tier}; {}", network(plan.egress.as_deref()))
}

/// The hosts a sandboxed command may reach, every one of them: they are part of what is approved.
fn network(rules: Option<&EgressRules>) -> String {
    let allowed = rules
        .map(|rules| rules.allow.as_slice())
        .unwrap_or_default();
    if allowed.is_empty() {
        return "no network".to_owned();
    }
    let hosts: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let denied = rules.map(|rules| rules.deny.as_slice()).unwrap_or_default();
    let but: Vec<String> = denied.iter().map(ToString::to_string).collect();
    if but.is_empty() {
        return format!("of the network {}", hosts.join(", "));
    }
    format!(
        "of the network {}, but not {}",
        hosts.join(", "),
        but.join(", ")
    )
}

/// An access as a verb and what it is about, spelt so that no two accesses look alike.
fn in_words(access: &Access) -> (&'static str, String) {
    let (verb, what) = in_plain_words(access);
    (verb, sanitise::exact(&what))
}

fn in_plain_words(access: &Access) -> (&'static str, String) {
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
        Access::Process(process) => process.in_words(),
        Access::Host { host, port } => ("connect to", format!("{host}:{port}")),
        Access::Database { source, writes } => (
            if *writes { "change" } else { "query" },
            format!("database {source}"),
        ),
        Access::Message { channel, target } => ("send to", format!("{target} on {channel}")),
        Access::RemoteTool { provider, tool } => ("call", format!("{tool} at {provider}")),
    }
}
