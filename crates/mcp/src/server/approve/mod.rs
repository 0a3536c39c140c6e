//! Approvals through the protocol, and the questions of mounted servers, which use the same
//! channels.
//!
//! A call that asks keeps running while its client is asked, in one of four ways, depending on what
//! the client declared: a request of ours on its stream, a question that it takes back and answers
//! with its next request, a task that it polls, or, for a client that cannot be asked, heartbeats
//! for a while and then instructions for how a person answers.
//!
//! `approver` is what the runtime asks; `serve_wait` serves one request for one call; `parked`
//! keeps the calls that no request waits for; `seal` makes the states with which clients claim
//! them.

mod agent_question;
mod approver;
mod for_person;
mod open;
mod parked;
mod question;
mod seal;
mod serve;
mod serve_wait;
mod tasks;
mod wire;

pub use self::{
    approver::{DrawQuestion, Elicitation, ProtocolApprover},
    for_person::ForPerson,
    parked::{KEPT, PARKED_CALLS},
    question::{GrantChoice, QuestionText, Window},
    serve::APPROVAL_WAIT,
};
pub(super) use self::{
    open::UnansweredQuestion,
    seal::{CallOwner, RequestDigest},
    serve::{Approvals, CallReply, Request, WaitingForPerson},
    serve_wait::{Caller, QuestionChannel},
};
