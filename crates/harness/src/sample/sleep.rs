//! `sleep`: waits, reports progress, and stops when told.

use std::time::Duration;

use haft_contract::{
    CallContext, Effects, ErrorKind, NoProgress, Plan, PlanContext, Progress, Tool, ToolError,
    ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most reports it makes.
const REPORTS: u64 = 20;

/// The `sleep` tool.
#[derive(Debug, Clone, Copy)]
pub struct Sleep;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// How long to wait, in milliseconds.
    ms: u64,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// How long it waited, in milliseconds.
    slept_ms: u64,
}

impl Tool for Sleep {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "sleep";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Sleep",
            "Waits for a number of milliseconds. Use it to test deadlines; do not use it to wait for something to happen.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, cx: CallContext<NoProgress>) -> Result<Output, ToolError> {
        let step = (input.ms / REPORTS).max(1);
        let mut slept = 0;
        while slept < input.ms {
            cx.report(Progress::of(slept, Some(input.ms), "sleeping"));
            let next = step.min(input.ms - slept);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(next)) => slept += next,
                () = cx.cancel().cancelled() => {
                    return Err(ToolError::new(ErrorKind::Cancelled, "the sleep was stopped"));
                }
            }
        }
        cx.report(Progress::of(slept, Some(input.ms), "awake"));
        Ok(Output { slept_ms: slept })
    }
}
