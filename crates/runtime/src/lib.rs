//! Registry and pipeline: everything between "the model asked" and "the result is recorded".
//!
//! A [`Runtime`] holds what guards calls, and finds the [`Workspace`] that a call names.
//! [`Runtime::call`] takes one request through the pipeline and returns its one outcome;
//! [`Runtime::batch`] does so for many at once.
//!
//! INVARIANT: there is no other way to run a tool. This crate opens no file, spawns no process and
//! knows no policy engine and no store; it sees them through `haft-contract`.

mod acceptance;
mod background;
mod builder;
mod call_stage;
mod capture;
mod change_history;
mod clock;
mod contained_approver;
mod contained_listener;
mod deadline;
mod digest;
mod engine;
mod event_channel;
mod first_answer;
mod grant_finder;
mod guard;
mod halt;
mod host_events;
mod in_flight;
mod input;
mod labels;
mod limits;
mod locks;
mod loops;
mod no_record;
mod nobody;
mod outgoing;
mod pending_questions;
#[doc(hidden)]
pub mod pipeline;
mod preview;
mod receive_events;
mod record;
pub mod registry;
mod rules;
mod runtime;
mod session_key;
mod todo_list;
mod workspace;

pub use self::{
    builder::{BuildError, RuntimeBuilder},
    call_stage::CallStage,
    clock::SystemClock,
    digest::digest_of,
    event_channel::{EVENTS_HELD, EventQueue, EventReceiver, event_channel},
    first_answer::first_answer,
    grant_finder::PolicyGrantFinder,
    host_events::{EventFilter, EventsFromRecord, HostEvent, HostEvents, MissedEvents},
    in_flight::{InFlightCall, ShutdownReport},
    limits::{Limits, OPEN_APPROVALS, OutputLimits, ProcessLimits},
    loops::{LOOP_GUARD, LoopGuard},
    nobody::NobodyToAsk,
    outgoing::OUTGOING_BUDGET,
    pipeline::DryRun,
    rules::{RulesInForce, WorkspaceRules},
    runtime::Runtime,
    todo_list::{TODO_TOOL, list_set_by},
    workspace::{
        HostAccess, OneWorkspace, Workspace, WorkspaceBuilder, WorkspaceError, WorkspaceErrorKind,
        Workspaces,
    },
};
