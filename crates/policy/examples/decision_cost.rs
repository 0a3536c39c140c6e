//! What a decision costs with 10 and with 10,000 rules: cold (every question new), remembered, and
//! by Cedar alone over all the policies. Run with `--profile bench`.
#![expect(
    clippy::unwrap_used,
    reason = "a measuring program ends at the first surprise"
)]

use std::{
    fmt::Write as _,
    hint::black_box,
    io::Write as _,
    time::{Duration, Instant},
};

use cedar_policy::{Authorizer, Context, Entities, PolicySet, Request, RestrictedExpression};
use haft_contract::{
    Access, AgentId, Effects, Principal, ProviderId, SealedPlan, SessionId, ToolKey, ToolName,
    UserId, WorkPath,
    host::{Policy as _, Question, ToolFacts},
    ops::{BackendId, Tier},
};
use haft_policy::{CedarPolicy, PolicySource};

/// How many different questions are asked.
const QUESTIONS: usize = 2_000;

fn main() -> std::io::Result<()> {
    // One mode of one size alone, for counting instructions: `decision_cost 10 cached 1000`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [rules, mode, rounds] = arguments.as_slice() {
        let rules: usize = rules.parse().unwrap();
        let rounds: usize = rounds.parse().unwrap();
        let world = World::new(rules);
        for round in 0..rounds {
            let place = match mode.as_str() {
                "cached" => 0,
                _ => round,
            };
            let plan = world.plans.get(place % QUESTIONS).unwrap();
            black_box(world.decide(plan));
        }
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "rules    load      cold ns  cached ns  bare Cedar ns")?;
    for rules in [10, 100, 1_000, 10_000] {
        let start = Instant::now();
        let world = World::new(rules);
        let load = start.elapsed();
        let cold = world.cold();
        let cached = world.cached();
        let bare = world.bare();
        writeln!(
            out,
            "{rules:6}  {load:8.1?}  {:8}  {:8}  {:8}",
            cold.as_nanos(),
            cached.as_nanos(),
            bare.as_nanos(),
        )?;
    }
    Ok(())
}

struct World {
    policy: CedarPolicy,
    principal: Principal,
    key: ToolKey,
    plans: Vec<SealedPlan>,
}

impl World {
    fn new(rules: usize) -> Self {
        let source = PolicySource::new("haft.toml", rules_text(rules));
        let key = ToolKey::new(ProviderId::builtin(), ToolName::parse("read").unwrap());
        let plan = |number: usize| SealedPlan {
            tool: key.clone(),
            action: None,
            input: serde_json::Value::Null,
            accesses: vec![Access::read(
                WorkPath::relative(&format!("src/part{}/file{number}.rs", number % 7)).unwrap(),
            )],
            effects: Effects::READ_ONLY,
            backend: BackendId::new("local"),
            workspace: "/w".to_owned(),
            tier: Tier::InProcess,
            deadline: Duration::from_secs(30),
            withheld: Vec::new(),
        };
        Self {
            policy: CedarPolicy::load(&[source]).unwrap(),
            principal: Principal::local(
                UserId::parse("ada").unwrap(),
                AgentId::parse("main").unwrap(),
                SessionId::parse("s1").unwrap(),
            ),
            plans: (0..QUESTIONS).map(plan).collect(),
            key,
        }
    }

    fn decide(&self, plan: &SealedPlan) -> haft_contract::host::Decision {
        self.policy.decide(&Question {
            principal: &self.principal,
            tool: ToolFacts {
                key: &self.key,
                groups: &["files"],
                effects: Effects::READ_ONLY,
            },
            plan,
        })
    }

    fn cold(&self) -> Duration {
        let start = Instant::now();
        for plan in &self.plans {
            black_box(self.decide(plan));
        }
        average(start, QUESTIONS)
    }

    fn cached(&self) -> Duration {
        let rounds = 100_000;
        let start = Instant::now();
        for plan in self.plans.iter().take(100).cycle().take(rounds) {
            black_box(self.decide(plan));
        }
        average(start, rounds)
    }

    /// Cedar over all policies at once, one evaluation, as if there were no index.
    fn bare(&self) -> Duration {
        let policies: PolicySet = self.policy.cedar_text().parse().unwrap();
        let rounds = 20;
        let pairs = || {
            let flags = [
                "approved",
                "trusted",
                "accounted",
                "harmless",
                "sandboxed",
                "command_rules",
                "protected",
                "listed",
            ];
            let flags = flags.map(|name| (name.to_owned(), RestrictedExpression::new_bool(true)));
            let texts = ["tool", "provider"].map(|name| {
                let value = RestrictedExpression::new_string("read".to_owned());
                (name.to_owned(), value)
            });
            let groups = RestrictedExpression::new_set([]);
            flags
                .into_iter()
                .chain(texts)
                .chain([("groups".to_owned(), groups)])
        };
        let start = Instant::now();
        for _ in 0..rounds {
            let request = Request::new(
                r#"Agent::"main""#.parse().unwrap(),
                r#"Action::"read""#.parse().unwrap(),
                r#"Path::"src/file1.rs""#.parse().unwrap(),
                Context::from_pairs(pairs()).unwrap(),
                None,
            )
            .unwrap();
            let entities = Entities::empty();
            black_box(Authorizer::new().is_authorized(&request, &policies, &entities));
        }
        average(start, rounds)
    }
}

/// A mix of what people write: literal commands, path globs, directories, tool names.
fn rules_text(rules: usize) -> String {
    let mut lists = [String::new(), String::new(), String::new()];
    let [allow, ask, deny] = &mut lists;
    for number in 0..rules {
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

fn average(start: Instant, rounds: usize) -> Duration {
    start.elapsed() / u32::try_from(rounds).unwrap_or(u32::MAX)
}
