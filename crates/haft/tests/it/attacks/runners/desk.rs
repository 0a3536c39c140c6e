//! A desk for cases about approvals: a Haft where what changes something asks, nobody answers by
//! itself, and the record is where questions are answered.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haft::{
    Haft, HaftBuilder, Limits,
    contract::{
        CallEvent, PlanDigest, TenantId,
        host::{
            AnswerError, AnswerPlace, Answerer, Approval, ApprovalId, ApprovalQuestion,
            ApprovalState, ApprovalStore, Clock as _, GivenAnswer, GivenVerdict, Ledger as _,
            LedgerErrorKind, Timestamp,
        },
    },
    prelude::*,
    runtime::SystemClock,
};
use tokio::task::JoinHandle;

use crate::attacks::{attempt::check, corpus::Case, scene::Scene};

/// How long anything that must come about is waited for, on however slow a machine.
pub(super) const PATIENCE: Duration = haft_testkit::PATIENCE;

/// How long between two looks.
const A_MOMENT: Duration = Duration::from_millis(10);

/// Somebody who never answers here.
pub(super) struct Elsewhere;

impl Approver for Elsewhere {
    async fn ask(&self, _: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::Elsewhere
    }
}

pub(super) struct Desk {
    pub(super) scene: Arc<Scene>,
    pub(super) haft: Haft,
    /// The question of every call that was about to wait for one, in order; identical calls share
    /// theirs.
    asked: Arc<Mutex<Vec<ApprovalId>>>,
}

impl Desk {
    /// A desk on a file system in memory, because questions are synced to disk.
    pub(super) async fn new(case: &Case) -> Self {
        let scene = Scene::in_memory(case);
        Self::again(scene, |builder| builder).await
    }

    /// The next process over the same workspace and record.
    pub(super) async fn again(
        scene: Arc<Scene>,
        change: impl FnOnce(HaftBuilder) -> HaftBuilder,
    ) -> Self {
        let asked: Arc<Mutex<Vec<ApprovalId>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let builder = Haft::open(&scene.workspace)
            .data_dir(&scene.data)
            .preset(Preset::Careful)
            .sandbox("bash", SandboxMode::Off)
            .session("desk", SessionKind::Main)
            .approver(Elsewhere)
            .on_event(move |happened| {
                if let CallEvent::ApprovalAsked { id, .. } = happened.event {
                    heard.lock().unwrap().push(id);
                }
            });
        let haft = change(builder).build().await.unwrap();
        Self { scene, haft, asked }
    }

    pub(super) fn store(&self) -> Arc<dyn ApprovalStore> {
        self.haft.ledger().approvals()
    }

    pub(super) fn tenant(&self) -> TenantId {
        self.haft.principal().tenant.clone()
    }

    pub(super) fn begin(&self, tool: &str, arguments: Value) -> JoinHandle<Arc<Outcome>> {
        let (haft, tool) = (self.haft.clone(), tool.to_owned());
        tokio::spawn(async move { haft.call(tool, arguments).await })
    }

    /// A call that leaves a line behind when it runs.
    pub(super) fn mark(&self, word: &str) -> JoinHandle<Arc<Outcome>> {
        self.begin("bash", marking(word))
    }

    /// How often a mark was made, as the world saw it.
    pub(super) fn marks(&self, word: &str) -> usize {
        let text = std::fs::read_to_string(self.scene.workspace.join("effects"));
        let lines = text.unwrap_or_default();
        lines.lines().filter(|line| *line == word).count()
    }

    /// The open questions, as soon as the record is not too busy to say.
    async fn pending(&self) -> Vec<Approval> {
        loop {
            match self.store().pending(&self.tenant(), now(), 20_000).await {
                Ok(pending) => return pending,
                Err(error) if error.kind() == LedgerErrorKind::Unavailable => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The open questions, once there are as many.
    pub(super) async fn open(&self, count: usize) -> Vec<Approval> {
        for _ in 0..3_000 {
            let pending = self.pending().await;
            if pending.len() == count {
                return pending;
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        panic!("there were never {count} open questions");
    }

    /// The open question of a session, once there is one.
    pub(super) async fn open_in(&self, session: &str) -> Approval {
        for _ in 0..3_000 {
            let mut pending = self.pending().await.into_iter();
            if let Some(asked) = pending.find(|asked| asked.principal.session.as_str() == session) {
                return asked;
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        panic!("the session {session} never had an open question");
    }

    /// Waits until as many calls have found their question, whether it is theirs alone or not.
    pub(super) async fn asked(&self, calls: usize) -> Vec<ApprovalId> {
        for _ in 0..3_000 {
            let asked = self.asked.lock().unwrap().clone();
            if asked.len() >= calls {
                return asked;
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        panic!("there were never {calls} calls with a question");
    }

    /// The first question that was asked here, once its time is over.
    pub(super) async fn lapsed(&self) -> Approval {
        let first = self.asked(1).await.remove(0);
        for _ in 0..3_000 {
            let found = self.store().get(&self.tenant(), first).await.unwrap();
            let asked = found.unwrap();
            if asked.state == ApprovalState::Lapsed {
                return asked;
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        panic!("the first question never lapsed");
    }

    pub(super) async fn answer(
        &self,
        asked: &Approval,
        verdict: GivenVerdict,
    ) -> Result<Approval, AnswerError> {
        self.answer_as(asked, verdict, asked.digest, person()).await
    }

    pub(super) async fn answer_as(
        &self,
        asked: &Approval,
        verdict: GivenVerdict,
        digest: PlanDigest,
        by: Answerer,
    ) -> Result<Approval, AnswerError> {
        let given = GivenAnswer {
            verdict,
            digest,
            by,
        };
        let tenant = self.tenant();
        self.store().answer(&tenant, asked.id, given, now()).await
    }

    pub(super) async fn approve(&self, asked: &Approval) {
        self.answer(asked, GivenVerdict::Approve).await.unwrap();
    }

    pub(super) async fn state(&self, asked: &Approval) -> ApprovalState {
        let found = self.store().get(&self.tenant(), asked.id).await.unwrap();
        found.unwrap().state
    }

    /// A yes to a call that nobody has used: as after a crash between the answer and the start.
    pub(super) async fn unused(&self, tool: &str, arguments: Value) -> Approval {
        let call = self.begin(tool, arguments);
        let asked = self.open(1).await.remove(0);
        call.abort();
        let _ = call.await;
        self.open(0).await;
        let question = ApprovalQuestion {
            call: asked.call,
            principal: Arc::clone(&asked.principal),
            digest: asked.digest,
            form: asked.form.clone().unwrap(),
            summary: asked.summary.clone(),
            asked: now(),
            expires: now().after(Duration::from_mins(10)),
            most_open: 100,
        };
        let again = self.store().ask(question).await.unwrap();
        self.approve(&again).await;
        again
    }

    /// Whether a call waits for a person, or was denied; one that waits is then taken back. Before
    /// it no question may be open: the one that opens is the call's.
    ///
    /// Any other ending, and neither a question nor an ending in time, is a fault.
    pub(super) async fn waits(&self, call: JoinHandle<Arc<Outcome>>) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if call.is_finished() {
                let outcome = call.await.unwrap();
                return check(outcome.terminal == Terminal::Denied, || {
                    format!("it {}: {:.400}", outcome.terminal, outcome.model_text())
                });
            }
            if !self.pending().await.is_empty() {
                call.abort();
                if let Ok(outcome) = call.await {
                    // It ended in the very moment, and not because somebody had answered.
                    return Err(format!("it {} unanswered", outcome.terminal));
                }
                self.open(0).await;
                return Ok(());
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        call.abort();
        Err(format!("it neither asked nor ended within {PATIENCE:?}"))
    }

    /// Whether a call is refused for its input, before there is a plan to ask about.
    pub(super) async fn is_invalid(&self, call: JoinHandle<Arc<Outcome>>) -> Result<(), String> {
        let ended = tokio::time::timeout(PATIENCE, call).await;
        let outcome = ended.map_err(|_| "it did not end".to_owned())?.unwrap();
        let kind = outcome.error.as_ref().map(|failure| failure.kind);
        check(kind == Some(ErrorKind::InvalidInput), || {
            format!("it {}: {:.400}", outcome.terminal, outcome.model_text())
        })
    }
}

pub(super) fn marking(word: &str) -> Value {
    json!({ "command": format!("echo {word} >> effects") })
}

pub(super) fn now() -> Timestamp {
    SystemClock.now()
}

pub(super) fn person() -> Answerer {
    Answerer::Person {
        name: "ada".to_owned(),
        place: AnswerPlace::Elsewhere,
    }
}

/// Limits with other bounds on questions.
pub(super) fn asking(open_approvals: usize, approval_wait: Duration) -> Limits {
    Limits {
        open_approvals,
        approval_wait,
        ..Limits::default()
    }
}

/// The control of most cases: a yes that is remembered as a rule, and the same calls.
pub(super) async fn allowed(scene: Arc<Scene>) -> Desk {
    Desk::again(scene, |builder| {
        builder.preset(Preset::Workspace).allow("@all")
    })
    .await
}
