//! The path of a call, from request to recorded outcome.
//!
//! ```text
//! request ─▶ resolve ─▶ validate ─▶ plan ─▶ decide ─▶ approve ─▶ admit ─▶ start ─▶ run ─▶ settle
//! ```
//!
//! Each stage is one file and one function that *consumes* one state and returns the next. The
//! states have private fields and no constructors, so the only way to get an [`AdmittedCall`] is to
//! have been authorized. `run_call`, below, and `prepare` and `run_authorized` after it are the
//! whole order, on one screen. Order is a security property: nothing can be inserted between
//! stages. `foresee` goes through the same stages and stops once the call is decided.
//!
//! Starting a call that was planned but never authorized does not compile:
//!
//! ```compile_fail,E0308
//! use haft_runtime::pipeline::{HaltedCall, PlannedCall, StartedCall, start};
//! async fn skip_the_decision(planned: PlannedCall) -> Result<StartedCall, HaltedCall> {
//!     start(planned).await
//! }
//! ```
//!
//! while the same function compiles once the call has been admitted:
//!
//! ```
//! use haft_runtime::pipeline::{AdmittedCall, HaltedCall, StartedCall, start};
//! async fn start_what_was_admitted(admitted: AdmittedCall) -> Result<StartedCall, HaltedCall> {
//!     start(admitted).await
//! }
//! ```
//!
//! and no state can be constructed from outside:
//!
//! ```compile_fail,E0451
//! use haft_runtime::pipeline::{Authorized, PlannedCall};
//! fn forge(planned: PlannedCall) -> Authorized {
//!     Authorized { planned }
//! }
//! ```

mod admit;
mod approval_form;
mod approve;
mod ask_person;
mod await_answer;
mod call_state;
mod decide;
mod denied_addresses;
mod foreign;
mod hooks;
mod keep_grant;
mod left_out;
mod plan;
mod reports;
mod resolve;
mod run;
mod settle;
mod start;
mod validate;

use std::sync::Arc;

use haft_contract::Outcome;

pub use self::{
    admit::{AdmittedCall, admit},
    approve::{Authorized, approve},
    decide::{DecidedCall, DryRun, decide},
    hooks::{HookOutcome, consult_hooks},
    plan::{PlannedCall, plan},
    resolve::{OpenedCall, ResolvedCall, resolve},
    run::{FinishedCall, run},
    settle::settle,
    start::{StartedCall, start},
    validate::{ValidatedCall, validate},
};
pub(crate) use self::{call_state::CallState, settle::settle_halt};
pub use crate::halt::HaltedCall;

/// Takes a call through all stages. Every exit is an outcome: a stage that stops a call says why
/// in its [`HaltedCall`], and the caller of this function settles that too.
pub(crate) async fn run_call(opened: OpenedCall) -> Result<Arc<Outcome>, HaltedCall> {
    let planned = prepare(opened).await?;
    let decided = decide(planned).await?;
    let authorized = approve(decided).await?;
    // Boxed, so that a call waiting for a person does not hold room for what comes after.
    Box::pin(run_authorized(authorized)).await
}

/// Takes a call as far as its decision, and no further: nobody is asked and nothing runs.
pub(crate) async fn foresee(opened: OpenedCall) -> Result<DryRun, HaltedCall> {
    let planned = prepare(opened).await?;
    decide::foresee(planned).await
}

/// From a request to the plan to be decided about, including changes by hooks.
async fn prepare(opened: OpenedCall) -> Result<PlannedCall, HaltedCall> {
    let mut resolved = resolve(opened)?;
    loop {
        let validated = validate(resolved)?;
        let planned = plan(validated).await?;
        match consult_hooks(planned).await? {
            HookOutcome::Unchanged(planned) => return Ok(planned),
            HookOutcome::Rewritten(again) => resolved = again,
        }
    }
}

/// The remaining stages, for a call that may run.
async fn run_authorized(authorized: Authorized) -> Result<Arc<Outcome>, HaltedCall> {
    let admitted = admit(authorized).await?;
    let started = start(admitted).await?;
    let finished = run(started).await;
    Ok(settle(finished).await)
}
