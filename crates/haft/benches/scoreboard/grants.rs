//! Row 15: a call that a standing approval allows, with many of them beside one alone.

use haft::prelude::*;
use haft_contract::{
    WorkPath,
    host::{Grant, GrantId, GrantScope, Ledger as _, Timestamp},
};

use crate::{
    Scale,
    measure::{MeasuredPair, ResourcesUsed, used},
    report::{Goal, Row, time},
    setting::{self, Setting},
};

/// More than any row uses.
const USES: u32 = 1_000_000;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let [unlimited, counted] = [None, Some(USES)].map(|uses| measure(scale, uses));
    let cpu = |used: &ResourcesUsed| used.process;
    vec![Row {
        number: 15,
        metric: format!(
            "a call that a grant allows, with {} grants ÷ with one (CPU of all threads)",
            scale.grants
        ),
        ours: time(unlimited.ours(cpu)),
        bare: time(unlimited.bare(cpu)),
        figure: unlimited.ratio(cpu).max(counted.ratio(cpu)),
        goal: Goal::RatioUpTo(1.3),
        beside: format!(
            "the worse of two ratios: {:.2} × for grants that are not counted, {:.2} × where every \
             use is ({})",
            unlimited.ratio(cpu),
            counted.ratio(cpu),
            time(counted.ours(cpu)),
        ),
        limits: "a larger table to find the grant in, in memory and in the database",
    }]
}

fn measure(scale: Scale, uses: Option<u32>) -> MeasuredPair {
    let runtime = setting::one_thread();
    let calls = scale.calls / 4;
    let [many, one] = [scale.grants, 1].map(|grants| runtime.block_on(granted(grants, uses)));
    let round = |setting: &Setting| {
        let work = || {
            runtime.block_on(async {
                for number in 0..calls {
                    let path = format!("dir0/{number}.txt");
                    setting.call("mark", json!({ "path": path })).await;
                }
            });
        };
        used(work).per(calls)
    };
    let pair = MeasuredPair::measure(scale.rounds, || round(&many), || round(&one));
    for setting in [many, one] {
        runtime.block_on(setting.haft.close()).unwrap();
    }
    pair
}

/// A setting with as many grants for one tool, each for another directory.
async fn granted(grants: usize, uses_left: Option<u32>) -> Setting {
    let setting = Setting::open().await;
    let who = setting.haft.principal();
    let mut adding = tokio::task::JoinSet::new();
    for number in 0..grants {
        let grant = Grant {
            id: GrantId::new(),
            tenant: who.tenant.clone(),
            user: who.user.clone(),
            rule: format!("mark(dir{number}/**)"),
            scope: GrantScope::Agent(who.agent.clone()),
            until: None,
            uses_left,
            made_by: "bench".to_owned(),
            made_at: Timestamp(0),
            cause: None,
        };
        let store = setting.haft.ledger().grants();
        adding.spawn(async move { store.add(grant).await.unwrap() });
    }
    adding.join_all().await;
    setting
}

/// Says that it writes a file and does not, so that nothing but the call is measured.
pub(crate) struct Mark;

/// What [`Mark`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkInput {
    /// A file.
    path: String,
}

/// What [`Mark`] gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MarkOutput {
    /// Whether it is done.
    done: bool,
}

impl Tool for Mark {
    type Input = MarkInput;
    type Output = MarkOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "mark";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Mark a file", "Does nothing to a file.").effects(Effects::CHANGES)
    }

    fn plan(&self, input: &MarkInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let path = WorkPath::relative(&input.path).unwrap();
        Ok(Plan::new(Effects::CHANGES).access(Access::write(path)))
    }

    async fn run(&self, _: MarkInput, _: CallContext<NoProgress>) -> Result<MarkOutput, ToolError> {
        Ok(MarkOutput { done: true })
    }
}
