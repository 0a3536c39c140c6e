//! How the questions of a turn's calls come to its reader: the approver that each of its calls brings.

use haft_contract::host::{ApprovalAnswer, ApprovalRequest, Approver};
use tokio::sync::{mpsc, oneshot};

/// What would let a call pass whose question nobody reads.
const NOBODY_READS: &str =
    "read the turn with `next`, add a rule that allows this call, or give Haft an approver";

/// A question on its way to the reader, and where its answer goes.
pub(crate) struct AskedRequest {
    pub(crate) request: ApprovalRequest,
    pub(crate) answer: oneshot::Sender<ApprovalAnswer>,
}

/// Sends questions to the reader of a turn. A call waits for room; its time does not run.
pub(crate) struct TurnAsker(mpsc::Sender<AskedRequest>);

/// Questions on their way, with room for this many.
pub(crate) fn question_channel(holds: usize) -> (TurnAsker, mpsc::Receiver<AskedRequest>) {
    let (sender, receiver) = mpsc::channel(holds.max(1));
    (TurnAsker(sender), receiver)
}

impl Approver for TurnAsker {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let (answer, answered) = oneshot::channel();
        if self.0.send(AskedRequest { request, answer }).await.is_err() {
            return nobody_reads();
        }
        // A question that was put away unanswered can still be answered from the record.
        answered.await.unwrap_or(ApprovalAnswer::Elsewhere)
    }
}

/// Answers the questions that nobody will read.
pub(crate) fn close(questions: &mut mpsc::Receiver<AskedRequest>) {
    questions.close();
    while let Ok(asked) = questions.try_recv() {
        // The call may have ended meanwhile.
        let _ = asked.answer.send(nobody_reads());
    }
}

fn nobody_reads() -> ApprovalAnswer {
    ApprovalAnswer::NobodyThere {
        reason: NOBODY_READS.to_owned(),
    }
}
