//! Approvals from your own user interface: questions go over a channel to whatever shows them, and
//! the answer comes back. The call waits; its deadline is stopped meanwhile.
//!
//! Run it with `cargo run -p haft --example approvals`. The rules are in
//! `examples/approvals/haft.toml`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use haft::prelude::*;
use tokio::sync::{mpsc, oneshot};

/// How many questions may wait to be shown; further calls wait for room.
const MAX_OPEN_QUESTIONS: usize = 16;

/// A question on its way to the screen, and where its answer goes.
struct Question {
    request: ApprovalRequest,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// Sends questions to the user interface.
struct AskOnScreen {
    screen: mpsc::Sender<Question>,
}

impl Approver for AskOnScreen {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let (answer, answered) = oneshot::channel();
        let question = Question { request, answer };
        let nobody = |reason: &str| ApprovalAnswer::NobodyThere {
            reason: reason.to_owned(),
        };
        if self.screen.send(question).await.is_err() {
            return nobody("the window was closed");
        }
        answered
            .await
            .unwrap_or_else(|_| nobody("the window was closed"))
    }
}

/// Plays the screen and the person in front of it: shows the plan, and says yes to new files and no
/// to commands. `approve` binds the hash of the plan that was shown; nothing else can run.
async fn user_interface(mut questions: mpsc::Receiver<Question>) -> Vec<String> {
    let mut shown = Vec::new();
    while let Some(Question { request, answer }) = questions.recv().await {
        let plan = &request.plan;
        shown.push(format!("asked about `{}`:", plan.tool().tool));
        let mut commands = false;
        for access in plan.accesses() {
            match access {
                Access::Path(path) => shown.push(format!("  {} {}", access.kind(), path.target())),
                Access::Command(command) => {
                    commands = true;
                    shown.push(format!("  run {}", command.command.text()));
                }
                Access::Process(process) => {
                    commands = true;
                    shown.push(format!("  {}", process.text()));
                }
                Access::Host { .. }
                | Access::Database { .. }
                | Access::Message { .. }
                | Access::RemoteTool { .. }
                | Access::Custom(_) => shown.push(format!("  {}", access.kind())),
            }
        }
        shown.push(format!("  because: {}", request.decision.reason));
        let decided = if commands {
            request.refuse("ada", Some("no commands today".to_owned()))
        } else {
            request.approve("ada")
        };
        // The call may have been cancelled meanwhile; then nobody waits for the answer.
        let _ = answer.send(decided);
    }
    shown
}

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let (screen, questions) = mpsc::channel(MAX_OPEN_QUESTIONS);
    let interface = tokio::spawn(user_interface(questions));

    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/approvals/haft.toml"),
        )
        .approver(AskOnScreen { screen })
        .build()
        .await?;

    let note = json!({"path": "notes.txt", "content": "remember the milk\n"});
    let noted = haft.call("write", note).await;
    let deploy = haft.call("bash", json!({"command": "make deploy"})).await;
    let read = haft.call("read", json!({"path": "notes.txt"})).await;
    haft.close().await?;
    drop(haft);

    let mut said = interface.await?;
    said.push(format!("write: {}", noted.terminal));
    said.push(format!(
        "bash: {}: {}",
        deploy.terminal,
        deploy.model_text()
    ));
    said.push(format!("read, not asked: {}", read.text().trim_end()));
    Ok(said)
}

#[tokio::main]
#[allow(dead_code, reason = "tests run the example without `main`")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
