//! What a program needs to write tools and run calls, in one import.
//!
//! Only names that are clear without their crate. The derives are included, but their macros need
//! `serde` and `schemars` in your own dependencies.

pub use crate::{Haft, Host, Preset, model};
#[doc(inline)]
pub use haft_contract::{
    Access, AgentId, Arguments, CallContext, CallEvent, CallId, CallRequest, Content, Effects,
    ErrorKind, NoProgress, Outcome, Plan, PlanContext, Principal, Progress, SessionId, SessionKind,
    Terminal, Tool, ToolError, ToolSpec, UserId,
    event::RecordedEvent,
    host::{ApprovalAnswer, ApprovalRequest, Approver, CallQuery, History},
    ops::SandboxMode,
    spec::Deadline,
};
pub use haft_runtime::registry::Format;
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};
