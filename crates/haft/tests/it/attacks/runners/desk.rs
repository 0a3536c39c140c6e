//! A desk for cases about approvals: a Haft where what changes something asks, nobody answers by
//! itself, and the record is where questions are answered.

use std::{sync::Arc, time::Duration};

use haft::{
    Haft, HaftBuilder, Limits,
    contract::{
        PlanDigest, TenantId,
        host::{
            AnswerError, AnswerPlace, Answerer, Approval, ApprovalQuestion, ApprovalState,
            ApprovalStore, Clock as _, GivenAnswer, GivenVerdict, Ledger as _, Timestamp,
        },
    },
    prelude::*,
    runtime::SystemClock,
};
use tokio::task::JoinHandle;

use crate::attacks::{corpus::Case, scene::Scene};

/// How long a call is looked at before it is held to be waiting.
const A_MOMENT: Duration = Duration::from_millis(150);

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
        let builder = Haft::open(&scene.workspace)
            .data_dir(&scene.data)
            .preset(Preset::Careful)
            .sandbox("bash", SandboxMode::Off)
            .session("desk", SessionKind::Main)
            .approver(Elsewhere);
        let haft = change(builder).build().await.unwrap();
        Self { scene, haft }
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

    /// The open questions, once there are as many.
    pub(super) async fn open(&self, count: usize) -> Vec<Approval> {
        for _ in 0..3_000 {
            let pending = self.store().pending(&self.tenant(), now(), 20_000).await;
            let pending = pending.unwrap();
            if pending.len() == count {
                return pending;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there were never {count} open questions");
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

    /// Whether a call waits for a person; it is then taken back.
    pub(super) async fn waits(&self, call: JoinHandle<Arc<Outcome>>) -> Result<(), String> {
        let mut call = call;
        if let Ok(ended) = tokio::time::timeout(A_MOMENT, &mut call).await {
            let outcome = ended.unwrap();
            return match outcome.terminal {
                Terminal::Succeeded => Err("it ran".to_owned()),
                // Refused before anybody could be asked.
                _ => Ok(()),
            };
        }
        call.abort();
        let _ = call.await;
        self.open(0).await;
        Ok(())
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
