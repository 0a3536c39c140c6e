//! A workspace, a record and a runtime for a row to measure, all thrown away afterwards.

use std::{path::Path, sync::Arc, time::Duration};

use haft::prelude::*;
use tempfile::TempDir;

use crate::grants::Mark;

/// A Haft in temporary directories.
pub(crate) struct Setting {
    /// Whose calls are measured.
    pub(crate) haft: Haft,
    workspace: TempDir,
    _record: TempDir,
}

impl Setting {
    /// Opens one whose policy allows what the rows call. Every call still meets Cedar.
    pub(crate) async fn open() -> Self {
        let (workspace, record) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let haft = Haft::open(workspace.path())
            .data_dir(record.path())
            .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
            .allow("noop")
            .allow("sleep")
            .allow("copy")
            .allow("bash")
            .sandbox("bash", SandboxMode::Off)
            .tool(Noop)
            .tool(Sleep)
            .tool(Mark)
            .build()
            .await
            .unwrap();
        Self {
            haft,
            workspace,
            _record: record,
        }
    }

    /// The workspace's directory.
    pub(crate) fn path(&self) -> &Path {
        self.workspace.path()
    }

    /// Makes a call that must succeed.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Arc<Outcome> {
        let outcome = self.haft.call(tool, arguments).await;
        assert_eq!(outcome.terminal, Terminal::Succeeded, "{outcome:?}");
        outcome
    }
}

/// Does nothing with a small typed input.
pub(crate) struct Noop;

/// What [`Noop`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoopInput {
    /// Some text.
    text: String,
    /// Some number.
    #[serde(default)]
    #[schemars(range(max = 100))]
    number: u64,
}

/// What [`Noop`] gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NoopOutput {
    /// Whether it is done.
    done: bool,
}

impl Tool for Noop {
    type Input = NoopInput;
    type Output = NoopOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "noop";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Do nothing", "Does nothing.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &NoopInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: NoopInput,
        _: CallContext<NoProgress>,
    ) -> Result<NoopOutput, ToolError> {
        Ok(NoopOutput {
            done: input.number <= 100 && !input.text.is_empty(),
        })
    }
}

/// Waits, as a call to somebody else's service does.
pub(crate) struct Sleep;

/// What [`Sleep`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SleepInput {
    /// How long, in milliseconds.
    ms: u64,
}

/// What [`Sleep`] gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SleepOutput {
    /// How long it was, in milliseconds.
    ms: u64,
}

impl Tool for Sleep {
    type Input = SleepInput;
    type Output = SleepOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "sleep";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Sleep", "Waits for a while.")
            .effects(Effects::READ_ONLY)
            .deadline(Deadline::new(
                Duration::from_mins(5),
                Duration::from_mins(5),
            ))
    }

    fn plan(&self, _: &SleepInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: SleepInput,
        _: CallContext<NoProgress>,
    ) -> Result<SleepOutput, ToolError> {
        tokio::time::sleep(Duration::from_millis(input.ms)).await;
        Ok(SleepOutput { ms: input.ms })
    }
}

/// An async runtime whose only thread is the caller's, so that a thread's clock is a call's.
pub(crate) fn one_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// An async runtime as programs use it.
pub(crate) fn many_threads() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().unwrap()
}
