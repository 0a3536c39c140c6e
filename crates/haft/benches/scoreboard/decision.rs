//! Row 2: what a decision costs as rules become many, beside Cedar given all of them.

use std::{fmt::Write as _, hint::black_box, time::Duration};

use cedar_policy::{Authorizer, Context, Entities, PolicySet, Request, RestrictedExpression};
use haft_contract::{
    Access, AgentId, Effects, Labels, PlanParts, Principal, ProviderId, SealedPlan, SessionId,
    ToolKey, ToolName, UserId, WorkPath,
    host::{Policy as _, Question, ToolFacts},
    ops::{BackendId, Tier},
};
use haft_policy::{CedarPolicy, PolicySource};

use crate::{
    Scale,
    measure::{MeasuredPair, ResourcesUsed, repeated},
    report::{Goal, Row, time},
};

/// Rules of the short policy.
const FEW: usize = 10;

/// Different questions, more than are remembered.
const QUESTIONS: usize = 20_000;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let (mut few, mut many) = (World::new(FEW), World::new(scale.rules));
    let pair = MeasuredPair::measure(
        scale.rounds,
        || repeated(scale.slice, || many.ask()),
        || repeated(scale.slice, || few.ask()),
    );
    let bare = MeasuredPair::measure(
        scale.rounds.min(3),
        || repeated(scale.slice, || many.bare()),
        || repeated(scale.slice, || few.bare()),
    );
    let thread = |used: &ResourcesUsed| used.thread;
    vec![Row {
        number: 2,
        metric: format!("a new decision, {FEW} → {} rules", scale.rules),
        ours: format!("{} → {}", time(pair.bare(thread)), time(pair.ours(thread))),
        bare: format!(
            "{} → {} (Cedar over all rules, {:.0} ×)",
            time(bare.bare(thread)),
            time(bare.ours(thread)),
            bare.ratio(thread)
        ),
        figure: pair.ratio(thread),
        goal: Goal::RatioUpTo(1.5),
        beside: String::new(),
        limits: "finding the candidates among the patterns",
    }]
}

struct World {
    policy: CedarPolicy,
    all: PolicySet,
    principal: Principal,
    key: ToolKey,
    plans: Vec<SealedPlan>,
    next: usize,
}

impl World {
    fn new(rules: usize) -> Self {
        let source = PolicySource::new("haft.toml", rules_text(rules));
        let policy = CedarPolicy::load(&[source]).unwrap();
        let key = ToolKey::new(ProviderId::builtin(), ToolName::parse("read").unwrap());
        let plan = |number: usize| PlanParts {
            tool: key.clone(),
            action: None,
            input: serde_json::Value::Null,
            accesses: vec![Access::read(
                WorkPath::relative(&format!("src/part{}/file{number}.rs", number % 7)).unwrap(),
            )],
            effects: Effects::READ_ONLY,
            backend: BackendId::new("local"),
            workspace_id: haft_contract::WorkspaceId::local(),
            workspace: "/w".into(),
            tier: Tier::InProcess,
            egress: None,
            deadline: Duration::from_secs(30),
            read_from: Labels::NONE,
        };
        Self {
            all: policy.cedar_text().parse().unwrap(),
            policy,
            principal: Principal::local(
                UserId::parse("ada").unwrap(),
                AgentId::parse("main").unwrap(),
                SessionId::parse("s1").unwrap(),
            ),
            plans: (0..QUESTIONS).map(|number| plan(number).seal()).collect(),
            key,
            next: 0,
        }
    }

    /// Asks something that was not asked lately.
    fn ask(&mut self) {
        self.next = (self.next + 1) % QUESTIONS;
        black_box(self.policy.decide(&Question {
            principal: &self.principal,
            tool: ToolFacts {
                key: &self.key,
                groups: &["files"],
                actions: &[],
                effects: Effects::READ_ONLY,
                touches: None,
            },
            plan: &self.plans[self.next],
            grants: &[],
        }));
    }

    /// One evaluation by Cedar over all policies, as if there were no index.
    fn bare(&self) {
        let flags = [
            "approved",
            "trusted",
            "accounted",
            "harmless",
            "sandboxed",
            "unclear",
            "ordinary",
            "named",
            "protected",
            "listed",
            "crosses",
        ]
        .map(|name| (name.to_owned(), RestrictedExpression::new_bool(true)));
        let texts = ["tool", "provider"].map(|name| {
            let value = RestrictedExpression::new_string("read".to_owned());
            (name.to_owned(), value)
        });
        let groups = ("groups".to_owned(), RestrictedExpression::new_set([]));
        let pairs = flags.into_iter().chain(texts).chain([groups]);
        let request = Request::new(
            r#"Agent::"main""#.parse().unwrap(),
            r#"Action::"read""#.parse().unwrap(),
            r#"Path::"src/file1.rs""#.parse().unwrap(),
            Context::from_pairs(pairs).unwrap(),
            None,
        )
        .unwrap();
        black_box(Authorizer::new().is_authorized(&request, &self.all, &Entities::empty()));
    }
}

/// A mix of what people write: literal commands, path globs, directories, tool names.
fn rules_text(rules: usize) -> String {
    let mut lists = [String::new(), String::new(), String::new()];
    let [allow, ask, deny] = &mut lists;
    for number in 0..rules {
        // Writing to a `String` cannot fail.
        let _ = match number % 5 {
            0 => write!(allow, "\"bash(cargo test -p crate{number})\","),
            1 => write!(deny, "\"read(**/secret{number}.pem)\","),
            2 => write!(ask, "\"write(module{number}/**)\","),
            3 => write!(allow, "\"mcp__server{number}__*\","),
            _ => write!(deny, "\"bash(tool{number} *)\","),
        };
    }
    format!("[policy]\nallow = [\"read\",{allow}]\nask = [{ask}]\ndeny = [{deny}]\n")
}
