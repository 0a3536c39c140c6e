//! A person whose answers the test scripts in advance.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    PlanDigest, Principal,
    host::{
        AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver,
        GrantRequest,
    },
};

/// The name a [`ScriptedApprover`] answers under.
pub const PERSON: &str = "person";

/// One scripted answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedAnswer {
    /// Yes, to the plan that was shown.
    Approve,
    /// No, with a reason.
    Refuse(String),
    /// There is nobody to ask.
    Nobody,
    /// The question expired.
    Expire,
    /// No answer ever comes.
    NeverAnswer,
    /// Yes, but to a different plan.
    WrongDigest,
    /// Yes, and with a grant for later calls.
    Always(GrantRequest),
    /// Not here: the question stays open for someone else.
    Elsewhere,
}

/// Answers from a queue and records what was asked. When the queue is empty, nobody is there.
/// Clones share the queue.
#[derive(Debug, Clone, Default)]
pub struct ScriptedApprover(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    answers: VecDeque<ScriptedAnswer>,
    then: Option<ScriptedAnswer>,
    asked: Vec<ApprovalRequest>,
    /// What is said to questions of agents; none if nobody answers them.
    says: Option<VecDeque<AgentQuestionAnswer>>,
    questions: Vec<AgentQuestionRequest>,
}

impl ScriptedApprover {
    /// Gives these answers, one per question. After them, nobody is there.
    pub fn new(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let approver = Self::default();
        approver.with(|inner| inner.answers.extend(answers));
        approver
    }

    /// Gives the same answer to every question.
    pub fn always(answer: ScriptedAnswer) -> Self {
        let approver = Self::default();
        approver.with(|inner| inner.then = Some(answer));
        approver
    }

    /// Adds an answer to the end of the queue.
    pub fn then(&self, answer: ScriptedAnswer) {
        self.with(|inner| inner.answers.push_back(answer));
    }

    /// The questions asked so far, in order.
    pub fn asked(&self) -> Vec<ApprovalRequest> {
        self.with(|inner| inner.asked.clone())
    }

    /// Says this to agents' questions, one for each. After them, no answer ever comes.
    pub fn says(&self, answers: impl IntoIterator<Item = AgentQuestionAnswer>) {
        self.with(|inner| inner.says.get_or_insert_default().extend(answers));
    }

    /// The questions that agents asked so far, in order.
    pub fn questions(&self) -> Vec<AgentQuestionRequest> {
        self.with(|inner| inner.questions.clone())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Approver for ScriptedApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let answer = self.with(|inner| {
            inner.asked.push(request.clone());
            inner.answers.pop_front().or_else(|| inner.then.clone())
        });
        match answer.unwrap_or(ScriptedAnswer::Nobody) {
            ScriptedAnswer::Approve => request.approve(PERSON),
            ScriptedAnswer::Refuse(reason) => request.refuse(PERSON, Some(reason)),
            ScriptedAnswer::Nobody => ApprovalAnswer::NobodyThere {
                reason: "the test has nobody to ask".to_owned(),
            },
            ScriptedAnswer::Expire => ApprovalAnswer::Expired,
            ScriptedAnswer::NeverAnswer => std::future::pending().await,
            ScriptedAnswer::Elsewhere => ApprovalAnswer::Elsewhere,
            ScriptedAnswer::Always(wish) => ApprovalAnswer::Approved {
                by: PERSON.to_owned(),
                digest: request.digest,
                grant: Some(wish),
            },
            ScriptedAnswer::WrongDigest => ApprovalAnswer::Approved {
                by: PERSON.to_owned(),
                digest: PlanDigest(request.digest.0.map(|byte| !byte)),
                grant: None,
            },
        }
    }

    fn nobody_replies(&self, _: &Principal) -> Option<String> {
        let nobody = self.with(|inner| inner.says.is_none());
        nobody.then(|| "the test has nobody to answer".to_owned())
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        let said = self.with(|inner| {
            inner.questions.push(request);
            inner.says.as_mut().and_then(VecDeque::pop_front)
        });
        match said {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }
}
