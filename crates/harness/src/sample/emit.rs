//! `emit`: writes the given bytes to the output sink, chunk by chunk, as a command would.

use haft_contract::{
    CallContext, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec, ops::Stream,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `emit` tool.
#[derive(Debug, Clone, Copy)]
pub struct Emit;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The chunks, in order.
    chunks: Vec<Chunk>,
    /// How often to push all of them.
    #[serde(default = "once")]
    repeat: u64,
}

/// One chunk.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Chunk {
    /// The raw bytes.
    bytes: Vec<u8>,
    /// Where they go; standard output unless said otherwise.
    #[serde(default)]
    to: EmitStream,
}

/// A stream, as an input names it.
#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EmitStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Bytes pushed.
    bytes: u64,
}

impl Tool for Emit {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "emit";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Emit",
            "Pushes raw bytes as command output. Use it to test cleaning and capping; do not use it to write files.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, cx: CallContext<NoProgress>) -> Result<Output, ToolError> {
        let mut bytes = 0;
        for _ in 0..input.repeat {
            for chunk in &input.chunks {
                let stream = match chunk.to {
                    EmitStream::Stdout => Stream::Stdout,
                    EmitStream::Stderr => Stream::Stderr,
                };
                cx.output().push(stream, &chunk.bytes).await;
                bytes += chunk.bytes.len() as u64;
            }
        }
        Ok(Output { bytes })
    }
}

fn once() -> u64 {
    1
}
