//! The real runtime, ready for a test: the production pipeline, on operations, policy, ledger and
//! approver that the test chooses. Tools are never run any other way.

use std::sync::Arc;

use haft_contract::{
    CallRequest, Outcome, Principal, ProviderId,
    erased::{ErasedTool, IntoTool},
    host::{Approver, Hook, Ledger, Policy},
    ops::{Operations, SandboxMode},
};
use haft_runtime::{DryRun, Limits, Runtime, RuntimeBuilder};
use serde_json::Value;

use crate::{
    EventLog, FixedPolicy, MemoryLedger, ScriptedApprover,
    memory::{self, MemoryTree},
    principal,
};

/// Builds a [`Harness`].
pub struct HarnessBuilder {
    builder: RuntimeBuilder,
    tree: Option<MemoryTree>,
    ledger: MemoryLedger,
    own_ledger: Option<Arc<dyn Ledger>>,
    events: EventLog,
    principal: Arc<Principal>,
}

/// A runtime and its surroundings, for a test to inspect.
pub struct Harness {
    /// The runtime.
    pub runtime: Runtime,
    /// The in-memory workspace, unless the test brought its own operations.
    pub tree: MemoryTree,
    /// The in-memory ledger, unless the test brought its own.
    pub ledger: MemoryLedger,
    /// Every event so far.
    pub events: EventLog,
    /// The caller.
    pub principal: Arc<Principal>,
}

impl Harness {
    /// A harness over an empty in-memory workspace. Everything is allowed, child processes run
    /// unconfined, and there is nobody to ask.
    pub fn memory() -> HarnessBuilder {
        let (operations, tree) = memory::operations();
        HarnessBuilder {
            tree: Some(tree),
            ..Self::on(operations)
        }
    }

    /// A harness over these operations.
    pub fn on(operations: Operations) -> HarnessBuilder {
        let events = EventLog::new();
        let builder = Runtime::builder()
            .operations(operations)
            .policy(Arc::new(FixedPolicy::allow_all()))
            .events(Arc::new(events.clone()));
        HarnessBuilder {
            builder,
            tree: None,
            ledger: MemoryLedger::new(),
            own_ledger: None,
            events,
            principal: principal(),
        }
    }

    /// A request by the harness's principal.
    pub fn request(&self, tool: &str, arguments: Value) -> CallRequest {
        CallRequest::new(tool, arguments, Arc::clone(&self.principal))
    }

    /// Runs one call.
    pub async fn call(&self, tool: &str, arguments: Value) -> Arc<Outcome> {
        self.runtime.call(self.request(tool, arguments)).await
    }

    /// What a call would do and what would be decided; nothing runs and nothing is recorded.
    pub async fn plan(&self, tool: &str, arguments: Value) -> DryRun {
        let foreseen = self.runtime.plan(self.request(tool, arguments)).await;
        foreseen.unwrap_or_else(|ended| {
            panic!("{tool} ends before it is decided: {}", ended.model_text())
        })
    }

    /// Runs one call that must succeed, and returns its outcome.
    pub async fn succeed(&self, tool: &str, arguments: Value) -> Arc<Outcome> {
        let outcome = self.call(tool, arguments).await;
        assert!(
            outcome.succeeded(),
            "{tool}: {:?} {}",
            outcome.terminal,
            outcome.model_text()
        );
        outcome
    }

    /// Runs one call that must not succeed, and returns its outcome.
    pub async fn fail(&self, tool: &str, arguments: Value) -> Arc<Outcome> {
        let outcome = self.call(tool, arguments).await;
        assert!(
            !outcome.succeeded(),
            "{tool} succeeded: {}",
            outcome.model_text()
        );
        outcome
    }
}

impl HarnessBuilder {
    /// Adds your own tool: a [`Tool`](haft_contract::Tool), or what `tool_fn` makes. The harness has
    /// nothing to confine commands with, so its commands run as they are, in the memory's own shell.
    #[must_use]
    pub fn tool(self, tool: impl IntoTool) -> Self {
        let tool = tool.into_tool().expect("a tool with a good name");
        let name = tool.name().as_str().to_owned();
        self.configure(|builder| {
            let builder = builder.sandbox(name, SandboxMode::Off);
            builder.provider(ProviderId::embedded(), vec![tool])
        })
    }

    /// Adds tools under the provider `builtin`.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Arc<dyn ErasedTool>>) -> Self {
        for tool in &tools {
            self.builder = self.builder.sandbox(tool.name().as_str(), SandboxMode::Off);
        }
        self.builder = self.builder.provider(ProviderId::builtin(), tools);
        self
    }

    /// Replaces the policy.
    #[must_use]
    pub fn policy(self, policy: impl Policy + 'static) -> Self {
        self.configure(|builder| builder.policy(Arc::new(policy)))
    }

    /// Replaces the approver.
    #[must_use]
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|builder| builder.approver(approver))
    }

    /// Uses a person who answers from a script.
    #[must_use]
    pub fn person(self, person: &ScriptedApprover) -> Self {
        self.approver(person.clone())
    }

    /// Replaces the ledger.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.own_ledger = Some(ledger);
        self
    }

    /// Adds a hook.
    #[must_use]
    pub fn hook(self, hook: impl Hook + 'static) -> Self {
        self.configure(|builder| builder.hook(Arc::new(hook)))
    }

    /// Sets the caps.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.configure(|builder| builder.limits(limits))
    }

    /// Sets the confinement a tool needs.
    #[must_use]
    pub fn sandbox(self, tool: &str, mode: SandboxMode) -> Self {
        self.configure(|builder| builder.sandbox(tool, mode))
    }

    /// Calls as another principal.
    #[must_use]
    pub fn principal(mut self, principal: Arc<Principal>) -> Self {
        self.principal = principal;
        self
    }

    /// Changes the runtime's builder directly.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Builds the harness.
    pub fn build(self) -> Harness {
        let ledger = self
            .own_ledger
            .unwrap_or_else(|| Arc::new(self.ledger.clone()));
        Harness {
            runtime: self.builder.ledger(ledger).build().expect("a runtime"),
            tree: self.tree.unwrap_or_default(),
            ledger: self.ledger,
            events: self.events,
            principal: self.principal,
        }
    }
}
