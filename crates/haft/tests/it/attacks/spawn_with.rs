//! A tool of an embedder that lets its caller choose variables of a child. The built-in tools
//! have no such parameter; a tool that has one must not become a way around the rules.

use std::collections::BTreeMap;

use haft::{
    contract::{
        WorkPath,
        access::Command,
        ops::{Spawn, Stream},
    },
    prelude::*,
};

pub(crate) struct SpawnWith;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpawnWithInput {
    /// Variables to add.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// This many variables more.
    #[serde(default)]
    many: usize,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SpawnWithOutput {
    /// The child's environment, one variable a line.
    environment: String,
}

fn argv() -> Vec<String> {
    vec!["env".to_owned()]
}

impl Tool for SpawnWith {
    type Input = SpawnWithInput;
    type Output = SpawnWithOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "spawn_with";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Spawn", "Prints a child's environment.")
    }

    fn plan(&self, _: &Self::Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::UNKNOWN).access(Access::argv(argv(), WorkPath::root())))
    }

    async fn run(
        &self,
        input: Self::Input,
        cx: CallContext<NoProgress>,
    ) -> Result<Self::Output, ToolError> {
        let mut spawn = Spawn::new(Command::Argv(argv()), WorkPath::root(), cx.tier());
        spawn.environment = input.environment;
        let more = (0..input.many).map(|number| (format!("V{number}"), "x".to_owned()));
        spawn.environment.extend(more);
        let mut child = cx.processes().spawn(spawn).await?;
        let mut printed = Vec::new();
        while let Some(chunk) = child.next_chunk().await {
            if chunk.stream == Stream::Stdout {
                printed.extend(chunk.bytes);
            }
        }
        Ok(SpawnWithOutput {
            environment: String::from_utf8_lossy(&printed).into_owned(),
        })
    }
}
