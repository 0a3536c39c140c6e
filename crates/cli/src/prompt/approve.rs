//! Asks the person at the terminal that made the call. The whole question is shown, escaped and
//! uncut (`haft_host::question` draws it); only what is typed after it appeared counts as an answer.
//! The same question may be answered from elsewhere meanwhile, and then this one ends.

use std::{
    io::{IsTerminal as _, Stdin},
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    Principal, SealedPlan,
    host::{
        AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver,
        Clock as _, GivenReply, GrantProposal, GrantRequest, GrantScope, GrantedWorkspace,
    },
};
use haft_host::{
    question::{QuestionDrawing, answer_keys},
    suggest::Suggest,
};
use haft_runtime::SystemClock;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    termios::{QueueSelector, tcflush},
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::grant_choice::{self, GrantDuration};
use crate::{
    terminal::{Output, Page, Style, Watcher, visible},
    view::question,
};

/// The longest answer that is read; valid ones are far shorter.
const MAX_ANSWER_BYTES: usize = 4096;

/// How long a plan is shown before it can be answered. Keys already on their way when it appeared
/// have arrived by then, and are dropped.
const TIME_TO_LOOK: Duration = Duration::from_millis(300);

/// How often the terminal is polled for an answer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Whether a person can see questions and answer them.
pub(crate) fn somebody_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Who answers the questions of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerSource {
    /// The person at this terminal, or anyone from elsewhere.
    Here,
    /// Anyone, from elsewhere.
    Elsewhere,
    /// Nobody: calls that would ask are denied at once.
    Never,
}

/// Puts questions to the person at the terminal, leaves them to others, or reports truthfully that
/// nobody is there.
pub(crate) struct TerminalApprover {
    output: Output,
    suggest: Suggest,
    watcher: Arc<Watcher>,
    user: String,
    home: Option<String>,
    asking: AnswerSource,
    /// Cancelled when the person stops the program, which is not an answer.
    cancel: CancellationToken,
    /// Held while a question is open, so that there is one at a time.
    turn: Mutex<()>,
}

impl TerminalApprover {
    /// An approver for this process.
    pub(crate) fn new(
        output: Output,
        suggest: Suggest,
        watcher: Arc<Watcher>,
        user: String,
        asking: AnswerSource,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            output,
            suggest,
            watcher,
            user,
            home: None,
            asking,
            cancel,
            turn: Mutex::new(()),
        }
    }

    /// Sets the person's home directory, which questions write as `~`.
    pub(crate) fn home(mut self, home: Option<String>) -> Self {
        self.home = home;
        self
    }

    /// Says where a question left open here can be answered.
    fn leave_open(&self, request: &ApprovalRequest) -> ApprovalAnswer {
        let _quiet = self.watcher.quiet();
        let page = Page::new()
            .styled(Style::Warn, "waits for an answer: ")
            .text(format!(
                "`haft approve {}`, `haft deny {0}`, or `haft approvals --watch`",
                request.id
            ))
            .end();
        self.output.note(&page);
        ApprovalAnswer::Elsewhere
    }

    async fn ask_here(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let sentence = self.suggest.sentence(&request.principal, &request.plan);
        let why = Some(request.decision.reason.as_str());
        let home = self.home.as_deref();
        let Ok(drawn) = question::draw(&request.form, request.digest, why, home) else {
            let reason = "what would be shown is not what would run".to_owned();
            return ApprovalAnswer::NobodyThere { reason };
        };
        let _turn = self.turn.lock().await;
        let _quiet = self.watcher.quiet();
        let page = Page::new().end().page(question::page(&drawn));
        self.output.note(&page.fitting_stderr());
        let standing = OpenPrompt(self);
        tokio::time::sleep(TIME_TO_LOOK).await;
        forget_what_was_typed();
        let details = details(&request, &drawn, &sentence);
        let answer = self.answer(&request, &details).await;
        standing.answered();
        answer.unwrap_or(ApprovalAnswer::NobodyThere { reason: sentence })
    }

    /// Asks until there is an answer; `None` once there can be none.
    async fn answer(&self, request: &ApprovalRequest, details: &Page) -> Option<ApprovalAnswer> {
        let prompt = format!("{} [y/N] ", answer_keys());
        loop {
            let typed = self.line(&prompt);
            match typed.await?.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Some(request.approve(&self.user)),
                "" | "n" | "no" => return Some(request.refuse(&self.user, None)),
                "r" | "reason" => {
                    let reason = self.line("Why not? ").await?;
                    let reason = Some(reason).filter(|reason| !reason.is_empty());
                    return Some(request.refuse(&self.user, reason));
                }
                "a" | "always" => {
                    let scopes = haft_host::grant_choice::scopes(
                        &request.principal,
                        &GrantedWorkspace::of_plan(&request.plan),
                    );
                    let wish = ask_for_wish(self.output, &request.proposals, scopes);
                    if let Some(wish) = wish.await? {
                        return Some(ApprovalAnswer::Approved {
                            by: self.user.clone(),
                            digest: request.digest,
                            grant: Some(wish),
                        });
                    }
                }
                "d" | "details" => self.output.note(details),
                _ => self.say("Please answer y, a, n, r or d."),
            }
        }
    }

    /// Puts an agent's question. It has no key and no sentence of an approval, and what is typed is kept as
    /// text, whatever it says.
    async fn put_here(&self, request: &AgentQuestionRequest) -> AgentQuestionAnswer {
        let _turn = self.turn.lock().await;
        let _quiet = self.watcher.quiet();
        let lines = request.question.lines(request.principal.agent.as_str());
        let page = lines
            .into_iter()
            .fold(Page::new().end(), |page, line| page.text(line).end());
        self.output.note(&page.fitting_stderr());
        let standing = OpenPrompt(self);
        tokio::time::sleep(TIME_TO_LOOK).await;
        forget_what_was_typed();
        let reply = loop {
            let Some(typed) = self.line("Your answer (empty: none): ").await else {
                break None;
            };
            if typed.is_empty() {
                break Some(GivenReply::Decline);
            }
            if let Some(meant) = request.question.meant(&typed) {
                break Some(GivenReply::Text(meant));
            }
            self.say("Please type one of the answers above, or its number.");
        };
        standing.answered();
        match reply {
            Some(reply) => AgentQuestionAnswer::Said {
                by: self.user.clone(),
                reply,
            },
            None => AgentQuestionAnswer::NobodyThere {
                reason: "the terminal was closed".to_owned(),
            },
        }
    }

    fn say(&self, text: &str) {
        self.output.note(&Page::new().text(text).end());
    }

    async fn line(&self, prompt: &str) -> Option<String> {
        line(self.output, prompt).await
    }
}

/// Lets the person compose a grant at the terminal, and shows it exactly before it counts.
/// `Some(None)` if the person changed their mind, `None` once nothing more can be typed.
pub(crate) async fn ask_for_wish(
    output: Output,
    proposals: &[GrantProposal],
    scopes: [GrantScope; 3],
) -> Option<Option<GrantRequest>> {
    let say = |text: &str| output.note(&Page::new().text(text).end());
    if proposals.is_empty() {
        say("No rule would allow only calls like this one; y allows this call.");
        return Some(None);
    }
    output.note(&grant_choice::proposals(proposals).fitting_stderr());
    let chosen = numbered(output, "Which one? (a number; leave empty to go back) ").await?;
    let Some(proposal) = chosen.and_then(|index| proposals.get(index)) else {
        return Some(None);
    };
    output.note(&grant_choice::scopes_in_words(&scopes).fitting_stderr());
    let chosen = numbered(output, "Where? (a number; leave empty to go back) ").await?;
    let Some(scope) = chosen.and_then(|index| scopes.into_iter().nth(index)) else {
        return Some(None);
    };
    let lasting = loop {
        let prompt = "How long? (30m, 12h, 7d; 10x for ten calls; leave empty: until revoked) ";
        match GrantDuration::read(&line(output, prompt).await?) {
            Ok(lasting) => break lasting,
            Err(why) => say(&why),
        }
    };
    let wish = grant_choice::wish(proposal, scope, lasting, SystemClock.now());
    output.note(&grant_choice::exactly(&wish).fitting_stderr());
    let typed = line(output, "Allow this call and keep exactly that? [y/N] ").await?;
    Some(matches!(typed.to_ascii_lowercase().as_str(), "y" | "yes").then_some(wish))
}

async fn line(output: Output, prompt: &str) -> Option<String> {
    output.note(&Page::new().styled(Style::Strong, prompt));
    next_line().await.map(|line| line.trim().to_owned())
}

/// The position in a numbered list that a person types, if valid.
async fn numbered(output: Output, prompt: &str) -> Option<Option<usize>> {
    let typed = line(output, prompt).await?;
    Some(
        typed
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1)),
    )
}

impl Approver for TerminalApprover {
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        (self.asking == AnswerSource::Never).then(|| self.suggest.sentence(principal, plan))
    }

    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        match self.asking {
            AnswerSource::Here => self.ask_here(request).await,
            AnswerSource::Elsewhere => self.leave_open(&request),
            AnswerSource::Never => ApprovalAnswer::NobodyThere {
                reason: self.suggest.sentence(&request.principal, &request.plan),
            },
        }
    }

    fn nobody_replies(&self, _: &Principal) -> Option<String> {
        (self.asking == AnswerSource::Never).then(|| NOBODY_HERE.to_owned())
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        match self.asking {
            AnswerSource::Here => self.put_here(&request).await,
            AnswerSource::Elsewhere => {
                let _quiet = self.watcher.quiet();
                let page = Page::new()
                    .styled(Style::Warn, "the agent asks a question: ")
                    .text(format!(
                        "`haft answer` shows it, `haft answer {} TEXT` answers it",
                        request.id
                    ))
                    .end();
                self.output.note(&page);
                AgentQuestionAnswer::Elsewhere
            }
            AnswerSource::Never => AgentQuestionAnswer::NobodyThere {
                reason: NOBODY_HERE.to_owned(),
            },
        }
    }
}

/// Why nobody answers an agent's question in a call that asks nobody.
const NOBODY_HERE: &str = "this call was made where nobody is asked";

/// A question open on the terminal. If it is dropped before an answer here, it was answered
/// elsewhere or is no longer asked, and the person is told so.
struct OpenPrompt<'a>(&'a TerminalApprover);

impl OpenPrompt<'_> {
    fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for OpenPrompt<'_> {
    fn drop(&mut self) {
        // What was typed so far was meant for this question, not for a later one.
        forget_what_was_typed();
        if !self.0.cancel.is_cancelled() {
            let page = Page::new()
                .end()
                .styled(Style::Warn, "no longer asked here: ")
                .text("it was answered elsewhere, or it has lapsed")
                .end();
            self.0.output.note(&page);
        }
    }
}

/// What only an auditor needs, with what only this process knows: the call, the question, and the
/// line that would allow it.
fn details(request: &ApprovalRequest, drawn: &QuestionDrawing, to_allow: &str) -> Page {
    Page::new()
        .field("call", request.call.to_string())
        .field("question", request.id.to_string())
        .page(question::details(drawn))
        .styled(Style::Warn, "hint: ")
        .text(visible::line(to_allow))
        .end()
        .fitting_stderr()
}

/// What a person types after a prompt, once they had time to read the text above it.
pub(crate) async fn typed_after(output: Output, prompt: &Page) -> Option<String> {
    tokio::time::sleep(TIME_TO_LOOK).await;
    forget_what_was_typed();
    output.note(prompt);
    next_line().await.map(|line| line.trim().to_owned())
}

/// Drops what was typed before the question appeared.
fn forget_what_was_typed() {
    // If the terminal cannot do it, an early answer still has to be a valid word.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// The next line typed at the terminal, or `None` once there will be none.
///
/// Nothing is read ahead: such a line would answer the next question, which nobody has seen yet.
/// What is not read stays with the terminal, where it can be dropped.
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
