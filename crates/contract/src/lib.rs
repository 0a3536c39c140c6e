//! The vocabulary of Haft and the traits that hold it together.
//!
//! Everything that two crates must agree on is here, and nothing else: what a [`Tool`] is, what a
//! [`Plan`] says, which [`Access`]es it names, how a call ends ([`Outcome`]), which facts leave it
//! ([`CallEvent`]), through which [`ops`] a tool touches the world, and what a [`host`] supplies.
//!
//! INVARIANT: this crate performs no I/O, starts no task and reads no clock. It compiles in
//! seconds and almost never changes, because every other crate depends on it.
//!
//! Read next: [`tool`] to write a tool, [`plan`] for what a tool promises, `docs/ARCHITECTURE.md`
//! for how a call travels.

pub mod access;
pub mod agent_question;
mod artifact;
pub mod background;
pub mod call;
pub mod content;
pub mod context;
pub mod custom_access;
pub mod displayed;
pub mod effects;
pub mod egress;
pub mod erased;
pub mod error;
pub mod event;
pub mod future;
pub mod host;
pub mod identity;
pub mod label;
mod ledger_error;
pub mod masks;
pub mod memory;
pub mod name;
pub mod ops;
pub mod outcome;
pub mod path;
pub mod plan;
pub mod preview;
mod process_id;
pub mod progress;
pub mod protected;
pub mod secret;
pub mod spec;
pub mod streamed;
pub mod surface;
pub mod todo;
pub mod tool;
pub mod tool_fn;
pub mod url_secrets;
mod uuid_id;

pub use access::{Access, PathAccess, PathMode, PathScope};
pub use call::{Arguments, CallId, CallRequest, ModelCallId};
pub use content::Content;
pub use context::{CallContext, PlanContext};
pub use effects::Effects;
pub use error::{ErrorKind, ToolError};
pub use event::CallEvent;
pub use future::BoxFuture;
pub use identity::{AgentId, Principal, SessionId, SessionKind, TenantId, UserId, WorkspaceId};
pub use label::{Label, Labels};
pub use masks::Masks;
pub use name::{ActionName, ProviderId, ToolKey, ToolName};
pub use outcome::{DeniedBy, Facts, Outcome, Terminal};
pub use path::WorkPath;
pub use plan::{CommandHosts, PathsTogether, Plan, PlanDigest, PlanParts, SealedPlan};
pub use progress::{NoProgress, Progress, ProgressSink};
pub use spec::{ActionSpec, Audience, Deadline, ToolSpec};
pub use tool::Tool;
