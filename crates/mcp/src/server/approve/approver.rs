//! Asks the person at the client a call came from, and whoever answers elsewhere at the same time.
//!
//! The question goes down the call's line; whoever serves the client carries it there
//! (`serve_wait.rs`). A call that nobody serves is left to be answered elsewhere.

use std::sync::Arc;

use haft_contract::{
    Principal, SessionKind,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
};

use super::question::{Form, PersonAnswer, QuestionText, Window};
use crate::{
    client::Client as _,
    server::{line::CallLine, live::LiveCalls},
};

/// Draws a question for the person at a client: all they need to judge it, escaped, from the form
/// that the answer binds, for a window; nothing where the form is not the one with the digest. There
/// is one drawing of questions, which is the host's, so it is handed in.
pub type DrawQuestion = Arc<dyn Fn(&ApprovalRequest, Window) -> Option<QuestionText> + Send + Sync>;

/// Whether clients are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Elicitation {
    /// A client that can put a form before a person is asked to.
    #[default]
    Ask,
    /// Never: questions are answered elsewhere only.
    Never,
}

/// Puts questions to the person at the client.
pub struct ProtocolApprover {
    calls: Arc<LiveCalls>,
    elicitation: Elicitation,
    draw: DrawQuestion,
}

impl ProtocolApprover {
    /// Asks the clients of these calls.
    pub fn new(calls: Arc<LiveCalls>, elicitation: Elicitation, draw: DrawQuestion) -> Self {
        Self {
            calls,
            elicitation,
            draw,
        }
    }

    /// Whether the person at the client is the operator, whose answer counts. In a group, a direct
    /// message or a scheduled job whoever sits there, if anybody, is somebody else.
    fn asks_at_the_client(&self, principal: &Principal) -> bool {
        match (self.elicitation, principal.session_kind) {
            (Elicitation::Ask, SessionKind::Main) => true,
            (Elicitation::Ask | Elicitation::Never, _) => false,
        }
    }

    /// Asks at the client, until there is an answer or there will be none.
    async fn ask_there(
        &self,
        line: &CallLine,
        request: &ApprovalRequest,
    ) -> Option<ApprovalAnswer> {
        if !line.abilities().elicit_form || !self.asks_at_the_client(&request.principal) {
            return None;
        }
        let window = line.window();
        let form = Form::new((self.draw)(request, window)?, window);
        let boxed = Box::new(request.clone());
        let answers = line.put(vec![form.question()], Some(boxed)).await.ok()?;
        // Whoever calls itself so: the name is the client's claim, and stands for its person.
        let by = match line.client() {
            Some(client) => format!("mcp:{client}"),
            None => "mcp".to_owned(),
        };
        match form.read(answers.first()?) {
            PersonAnswer::Allow(grant) => Some(ApprovalAnswer::Approved {
                by,
                digest: request.digest,
                grant,
            }),
            PersonAnswer::Deny => Some(request.refuse(by, None)),
            PersonAnswer::Nothing => None,
        }
    }
}

impl Approver for ProtocolApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let Some(line) = self.calls.line(request.call) else {
            return ApprovalAnswer::Elsewhere;
        };
        if let Some(answer) = self.ask_there(&line, &request).await {
            return answer;
        }
        // Nobody answers at the client. Whoever serves it is told all the same, because the client
        // should know what its call waits for. The runtime drops this once there is an answer.
        let _ = line.put(Vec::new(), Some(Box::new(request))).await;
        ApprovalAnswer::Elsewhere
    }
}

impl std::fmt::Debug for ProtocolApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProtocolApprover")
            .field("elicitation", &self.elicitation)
            .finish_non_exhaustive()
    }
}
