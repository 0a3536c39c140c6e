//! Asks the person at the client a call came from. Others may answer elsewhere at the same time.
//!
//! The question goes out on the call's line; the request that serves the client delivers it
//! (`serve_wait.rs`). If no request serves the call, the question is left to be answered elsewhere.

use std::sync::Arc;

use haft_contract::{
    Principal, SessionKind,
    host::{AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver},
};

use super::{
    agent_question::QuestionForm,
    for_person::ForPerson,
    question::{Form, PersonAnswer, QuestionText, Window},
};
use crate::{
    client::Client as _,
    server::{line::CallLine, live::LiveCalls},
};

/// Renders a question for the person at a client: everything they need to judge it, escaped, from
/// the form that the answer binds, sized for a window. `None` if the form does not match the
/// digest. The host has the only renderer of questions, so it is passed in.
pub type DrawQuestion = Arc<dyn Fn(&ApprovalRequest, Window) -> Option<QuestionText> + Send + Sync>;

/// Whether clients are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Elicitation {
    /// Ask every client that can show a form to a person.
    #[default]
    Ask,
    /// Never: questions are answered elsewhere only.
    Never,
}

/// An approver that asks the person at the client.
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
    /// message or a scheduled job, it is somebody else, if anybody.
    fn asks_at_the_client(&self, principal: &Principal) -> bool {
        match (self.elicitation, principal.session_kind) {
            (Elicitation::Ask, SessionKind::Main) => true,
            (Elicitation::Ask | Elicitation::Never, _) => false,
        }
    }

    /// Asks at the client until there is an answer or none can come.
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
        let about = (ForPerson::Approval(request.id), request.expires);
        let answers = line.put(vec![form.question()], Some(about)).await.ok()?;
        let by = name_at(line);
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
        // Nobody answers at the client. The request that serves it is notified anyway, because the
        // client should know what its call waits for. The runtime drops this future once there is
        // an answer.
        let about = (ForPerson::Approval(request.id), request.expires);
        let _ = line.put(Vec::new(), Some(about)).await;
        ApprovalAnswer::Elsewhere
    }

    fn nobody_replies(&self, _: &Principal) -> Option<String> {
        None
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        let Some(line) = self.calls.line(request.call) else {
            return AgentQuestionAnswer::Elsewhere;
        };
        let about = (ForPerson::Question(request.id), request.expires);
        if line.abilities().elicit_form && self.asks_at_the_client(&request.principal) {
            let agent = request.principal.agent.as_str();
            let form = QuestionForm::new(&request.question, agent, line.window());
            let answers = line.put(vec![form.question()], Some(about)).await;
            let reply = answers.ok().and_then(|answers| form.read(answers.first()?));
            if let Some(reply) = reply {
                let by = name_at(&line);
                return AgentQuestionAnswer::Said { by, reply };
            }
        }
        let _ = line.put(Vec::new(), Some(about)).await;
        AgentQuestionAnswer::Elsewhere
    }
}

/// The name of whoever answers at a client. It is only the client's claim, and is used for its person.
fn name_at(line: &CallLine) -> String {
    match line.client() {
        Some(client) => format!("mcp:{client}"),
        None => "mcp".to_owned(),
    }
}

impl std::fmt::Debug for ProtocolApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProtocolApprover")
            .field("elicitation", &self.elicitation)
            .finish_non_exhaustive()
    }
}
