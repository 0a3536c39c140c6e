//! Tools of an embedder, for tests.

use std::sync::Arc;

use haft::prelude::*;
use tokio::sync::Barrier;

/// Counts to a number and says where it is.
pub(crate) struct CountTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Count {
    to: u64,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) counted: u64,
}

impl Tool for CountTool {
    type Input = Count;
    type Output = Counted;
    type Progress = Counted;
    const NAME: &'static str = "count";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Count", "Counts to a number.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Count, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Count, cx: CallContext<Counted>) -> Result<Counted, ToolError> {
        for counted in 0..=input.to {
            let at = Progress::of(counted, Some(input.to), format!("at {counted}"));
            cx.report(at.detail(Counted { counted }));
        }
        Ok(Counted { counted: input.to })
    }
}

/// Returns only when as many calls are inside as it was made for: it shows that they run side by
/// side.
pub(crate) struct MeetTool(pub(crate) Arc<Barrier>);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Meet {
    name: String,
}

impl Tool for MeetTool {
    type Input = Meet;
    type Output = String;
    type Progress = NoProgress;
    const NAME: &'static str = "meet";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Meet", "Waits for the others.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Meet, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Meet, _: CallContext<NoProgress>) -> Result<String, ToolError> {
        self.0.wait().await;
        Ok(input.name)
    }
}

/// Returns an image.
pub(crate) struct PictureTool;

/// The bytes of the picture; what matters is that they come through.
pub(crate) const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0picture";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Picture {}

impl Tool for PictureTool {
    type Input = Picture;
    type Output = ();
    type Progress = NoProgress;
    const NAME: &'static str = "picture";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Picture", "Shows a picture.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Picture, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Picture, _: CallContext<NoProgress>) -> Result<(), ToolError> {
        Ok(())
    }

    fn render(&self, (): &()) -> Vec<Content> {
        vec![
            Content::text("a picture"),
            Content::Image {
                data: PICTURE.to_vec(),
                media_type: "image/png".to_owned(),
            },
        ]
    }
}
