//! Approvals through the protocol, and the questions of mounted servers, which take the same doors.
//!
//! A call that asks goes on running while its client is asked, in one of four ways, chosen from what
//! the client declared: a request of ours on its stream, a question it takes back and answers with
//! its next request, a task it polls, or, for a client that can be asked nothing, signs of life for a
//! while and then word of how a person answers.
//!
//! `approver` is what the runtime asks; `serve_wait` serves one request for one call; `parked` keeps
//! the calls that no request waits for; `seal` makes the states by which clients claim them.

mod approver;
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
