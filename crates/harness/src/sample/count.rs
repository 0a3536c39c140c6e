//! `count`: counts to a number with typed progress, one report per step.

use std::time::Duration;

use haft_contract::{
    CallContext, Effects, ErrorKind, Plan, PlanContext, Progress, Tool, ToolError, ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `count` tool.
#[derive(Debug, Clone, Copy)]
pub struct Count;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The number to count to.
    to: u64,
    /// How long to wait after each number, in milliseconds.
    #[serde(default)]
    pause_ms: u64,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The last number.
    counted: u64,
}

/// The typed part of its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CountProgress {
    /// The current number.
    pub number: u64,
}

impl Tool for Count {
    type Input = Input;
    type Output = Output;
    type Progress = CountProgress;
    const NAME: &'static str = "count";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Count",
            "Counts to a number and reports each step. Use it to watch progress; do not use it for arithmetic.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, cx: CallContext<CountProgress>) -> Result<Output, ToolError> {
        for number in 1..=input.to {
            if cx.cancel().is_cancelled() {
                return Err(ToolError::new(
                    ErrorKind::Cancelled,
                    "the counting was stopped",
                ));
            }
            let progress = Progress::of(number, Some(input.to), format!("{number}"));
            cx.report(progress.detail(CountProgress { number }));
            tokio::time::sleep(Duration::from_millis(input.pause_ms)).await;
        }
        Ok(Output { counted: input.to })
    }
}
