//! What a running child needs from the leader of its tree: a plain child process on the host, or
//! the init of a sandbox. `handle.rs` is the same for both.

use std::{future::Future, sync::Arc};

use haft_contract::ops::{ExitStatus, Limit, OpsError, Refusal};

use super::controls::ChildControl;

/// The leader of a child's tree. Dropping it ends the whole tree.
pub(super) trait ChildLeader: Send + 'static {
    /// How the child is reached from elsewhere.
    type Control: ChildControl;

    /// A handle on the child for code that does not own it.
    fn reach(&self) -> Arc<Self::Control>;

    /// Waits until the child itself has ended. Dropping the future loses nothing.
    fn ended(&mut self) -> impl Future<Output = Result<ExitStatus, OpsError>> + Send;

    /// Asks everything to end, with SIGTERM.
    fn terminate(&self) -> impl Future<Output = Result<(), OpsError>> + Send;

    /// Whether everything has ended.
    fn is_gone(&self) -> impl Future<Output = Result<bool, OpsError>> + Send;

    /// Kills everything; returns when it is gone.
    fn kill(&self) -> impl Future<Output = Result<(), OpsError>> + Send;

    /// Whether the child has been reaped already.
    fn is_finished(&self) -> bool;

    /// Reaps the child, which has ended, if nothing else of its tree is left. Otherwise the tree
    /// must be killed first.
    fn finish_if_alone(&mut self) -> TreeEnd;

    /// Reaps the child, which has ended.
    fn finish(&mut self);

    /// What confinement did to the child. Complete once it is finished.
    fn confinement(&mut self) -> impl Future<Output = Confinement> + Send;
}

/// Whether a child left anything behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeEnd {
    /// Nothing; the child is reaped.
    Over,
    /// Perhaps; the child is not reaped yet.
    MayHaveLeftSome,
}

/// What confinement did to a child.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Confinement {
    /// The limit it exceeded.
    pub(super) exceeded: Option<Limit>,
    /// What it was refused.
    pub(super) refusals: Vec<Refusal>,
}
