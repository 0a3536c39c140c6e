//! `haft policy replay` and `haft policy test`: other rules on recorded calls, rules on their own
//! examples.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    Access, AgentId, CallEvent, CallId, CallRequest, Effects, Labels, Outcome, PlanParts,
    Principal, ProviderId, SessionId, Terminal, ToolKey, ToolName, UserId, WorkPath,
    event::RecordedEvent,
    host::{Decision, Ledger as _, PolicyVersion, Timestamp, Verdict},
    ops::{BackendId, Tier},
    outcome::Facts,
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_runtime::SystemClock;
use serde_json::{Value, json};

use crate::support::Stage;

/// What a replay of the large record may take on two cores that do nothing else. The goal is for the
/// program people run; tests are built without optimisation.
const REPLAY_LIMIT: Duration = if cfg!(debug_assertions) {
    Duration::from_mins(1)
} else {
    Duration::from_secs(20)
};

/// How many calls a record has: more than are read at a time, or very many.
const FEW: usize = 2_500;
const MANY: usize = 100_000;

const NEW: &str = "[policy]\nallow = [\n  \"bash(mkdir *)\",\n]\ndeny = [\"read(a.txt)\"]\n";

#[test]
#[ignore = "ci: needs bubblewrap"]
fn replay_says_what_other_rules_would_change() {
    let stage = Stage::with_config("[policy]\npreset = \"careful\"\n[agents.cli]\n");
    stage.write("a.txt", "a");
    stage.write("b.txt", "b");
    stage.write("new.toml", NEW);
    for args in [
        &["call", "read", "a.txt"][..],
        &["call", "read", "b.txt"],
        &["call", "bash", "mkdir one"],
        &["call", "bash", "mkdir two"],
        &["call", "bash", "git push"],
        &["call", "nothing"],
        &["call", "bash", "curl -u ada:hunter22 http://localhost"],
    ] {
        stage.haft(args);
    }
    let view = stage.json(&["policy", "replay", "new.toml", "--json"]);
    let number = |view: &Value, key: &str| view[key].as_u64().unwrap();
    assert_eq!(number(&view, "calls"), 7, "{view:#}");
    assert_eq!(number(&view, "changed"), 3, "{view:#}");
    assert_eq!(number(&view, "unchanged"), 2, "{view:#}");
    let why: Vec<&str> = view["why_not"]
        .as_array()
        .unwrap()
        .iter()
        .map(because)
        .collect();
    assert_eq!(
        why,
        [
            "ended before they had a plan",
            "a secret was taken out of what they would touch"
        ]
    );
    let [looser, stricter] = &view["changes"].as_array().unwrap()[..] else {
        panic!("{view:#}");
    };
    assert_eq!(
        (&looser["was"], &looser["now"]),
        (&json!("ask"), &json!("allow"))
    );
    let group = &looser["groups"][0];
    assert_eq!(
        (&group["tool"], &group["program"]),
        (&json!("bash"), &json!("mkdir"))
    );
    assert_eq!(group["rule"]["line"], 3);
    assert_eq!(group["calls"], 2, "{view:#}");
    let example = group["examples"][0]["call"].as_str().unwrap();
    assert!(stage.haft(&["show", example]).ok().contains("mkdir one"));
    assert_eq!(
        (&stricter["was"], &stricter["now"]),
        (&json!("allow"), &json!("deny"))
    );

    let text = stage.haft(&["policy", "replay", "new.toml"]).ok();
    for line in [
        "ask → allow  2 calls",
        "2  bash mkdir        by `bash(mkdir *)` at new.toml:3",
        "command mkdir one",
        "3 of 7 calls would be decided differently from what was recorded, 2 would not",
        "1 call not decided again: ended before they had a plan",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // The rules in force say what they said.
    let view = stage.json(&[
        "policy",
        "replay",
        "new.toml",
        "--against",
        "current",
        "--json",
    ]);
    assert_eq!(number(&view, "changed"), 3, "{view:#}");
    let same = stage.json(&["policy", "replay", "haft.toml", "--json"]);
    assert_eq!(number(&same, "changed"), 0, "{same:#}");
    let none = stage.json(&["policy", "replay", "new.toml", "--since", "0s", "--json"]);
    assert_eq!(number(&none, "calls"), 0);
    let ran = stage.haft(&["policy", "replay", "new.toml", "--since", "soon"]);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(
        ran.stderr.contains("90s, 10m, 2h, 7d or 4w"),
        "{}",
        ran.all()
    );
}

/// What a new rule hides, a sandboxed command cannot read, so there is nothing to ask.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn replay_knows_that_the_sandbox_holds_deny_rules() {
    let rules = "[policy]\npreset = \"sandboxed\"\n";
    let stage = Stage::with_config(&format!("{rules}[agents.cli]\n"));
    stage.write("run.py", "print('ran')");
    stage.haft(&["call", "bash", "python3 -c 'print(1)'"]).ok();
    stage.haft(&["call", "bash", "cat .e* run.py"]);
    stage.write("new.toml", format!("{rules}deny = [\"read(**/.env)\"]\n"));
    let view = stage.json(&["policy", "replay", "new.toml", "--json"]);
    assert_eq!(
        (&view["calls"], &view["changed"]),
        (&json!(2), &json!(0)),
        "{view:#}"
    );
    // A rule about what is plainly named is another matter.
    stage.write("new.toml", format!("{rules}deny = [\"read(run.py)\"]\n"));
    let view = stage.json(&["policy", "replay", "new.toml", "--json"]);
    assert_eq!(view["changed"], 1, "{view:#}");
}

fn because(view: &Value) -> &str {
    view["because"].as_str().unwrap()
}

#[test]
fn rules_are_tested_on_their_own_examples() {
    let good = "[policy]\nallow = [\n  \"read\",\n  { rule = \"bash(cargo test *)\", matches = [\"cargo test -q\"], not_matches = [\"cargo run\"] },\n]\n";
    let stage = Stage::with_config(good);
    let ran = stage.haft(&["policy", "test"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(
        ran.stdout
            .contains("0 of 2 examples failed; 1 of 2 rules have none"),
        "{}",
        ran.all()
    );
    stage.write(
        "new.toml",
        good.replace("\"cargo run\"", "\n    \"cargo test x\""),
    );
    let ran = stage.haft(&["policy", "test", "new.toml"]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    insta::assert_snapshot!("policy_test", stage.normal(&ran.stdout));
    let view: Value =
        serde_json::from_str(&stage.haft(&["policy", "test", "new.toml", "--json"]).stdout)
            .unwrap();
    assert_eq!(view["failed"], 1);
    assert_eq!(view["tested"][0]["holds"], false);
    assert_eq!(view["tested"][0]["examples"][1]["line"], 5);
    stage.write("broken.toml", "[policy]\nallow = [\"read(\"]\n");
    assert_eq!(stage.haft(&["policy", "test", "broken.toml"]).code, 7);
}

/// A call as an agent would have made it: reads, writes, searches and commands, hardly two alike.
fn made_up(number: usize) -> (&'static str, Value, Vec<Access>, Effects, Verdict) {
    let path = |text: String| WorkPath::relative(&text).unwrap();
    let shell = |script: String| {
        (
            "bash",
            json!({"command": script}),
            vec![Access::shell(script, WorkPath::root())],
            Effects::UNKNOWN,
            Verdict::Ask,
        )
    };
    let module = number % 977;
    match number % 10 {
        0 => shell(format!("cargo test -p crate{module} test_{number}")),
        1 => shell(format!("git log --oneline -n {number} -- src/m{module}.rs")),
        2 => shell(format!(
            "cd src/m{module} && grep -rn 'item {number}' . | head -20"
        )),
        3 => shell(format!(
            "npm run build -- --target {number} > out/{module}.log 2>&1"
        )),
        4 => shell(format!("git push origin feature-{number}")),
        5 => {
            let at = format!("src/m{module}/f{number}.rs");
            let input = json!({"path": at, "content": "fn main() {}\n"});
            let accesses = vec![Access::write(path(at))];
            ("write", input, accesses, Effects::REPLACES, Verdict::Ask)
        }
        6 => {
            let at = format!("docs/{module}/.env");
            let accesses = vec![Access::read(path(at.clone()))];
            (
                "read",
                json!({"path": at}),
                accesses,
                Effects::READ_ONLY,
                Verdict::Allow,
            )
        }
        7 => {
            let input = json!({"pattern": format!("item {number}")});
            let accesses = vec![Access::read_tree(WorkPath::root())];
            ("grep", input, accesses, Effects::READ_ONLY, Verdict::Allow)
        }
        _ => {
            let at = format!("src/m{module}/f{number}.rs");
            let accesses = vec![Access::read(path(at.clone()))];
            (
                "read",
                json!({"path": at}),
                accesses,
                Effects::READ_ONLY,
                Verdict::Allow,
            )
        }
    }
}

/// The events of a call, as the runtime records them.
fn events(call: CallId, number: usize, at: Timestamp) -> Vec<RecordedEvent> {
    let (tool, input, accesses, effects, verdict) = made_up(number);
    let tool = ToolKey::new(ProviderId::builtin(), ToolName::parse(tool).unwrap());
    let tier = match &accesses[0] {
        Access::Command(_) => Tier::T2,
        _ => Tier::InProcess,
    };
    let decision = Arc::new(Decision {
        verdict,
        rule: None,
        reason: "preset `careful` says so".to_owned(),
        access: None,
        withheld: Vec::new(),
        policy: PolicyVersion("sha256:0123456789ab".to_owned()),
        grants: Vec::new(),
    });
    let plan = PlanParts {
        tool: tool.clone(),
        action: None,
        input,
        accesses,
        effects,
        backend: BackendId::new("local"),
        workspace_id: haft_contract::WorkspaceId::local(),
        workspace: "/work".into(),
        tier,
        egress: None,
        deadline: Duration::from_mins(2),
        read_from: Labels::NONE,
    };
    let plan = Arc::new(plan.seal());
    let mut facts = Facts::default();
    facts.decision = Some(Arc::clone(&decision));
    let outcome = Arc::new(Outcome {
        call,
        tool: Some(tool.clone()),
        terminal: Terminal::Succeeded,
        content: Vec::new(),
        structured: None,
        error: None,
        facts,
    });
    [
        CallEvent::Resolved { tool },
        CallEvent::Planned { plan },
        CallEvent::Decided { decision },
        CallEvent::Settled { outcome },
    ]
    .map(|event| RecordedEvent { call, at, event })
    .into()
}

/// Records many calls of several agents.
async fn record(stage: &Stage, calls: usize) {
    let directory = stage.home.join("data").join("record");
    let options = LedgerOptions::new(directory, Arc::new(SystemClock));
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let principals: Vec<Arc<Principal>> = (0..8)
        .map(|number| {
            Arc::new(Principal::local(
                UserId::parse("ada").unwrap(),
                AgentId::parse(&format!("agent-{number}")).unwrap(),
                SessionId::parse(&format!("s{number}")).unwrap(),
            ))
        })
        .collect();
    for number in 0..calls {
        let (tool, input, ..) = made_up(number);
        let principal = &principals[number / 7 % principals.len()];
        let request = CallRequest::new(tool, input, Arc::clone(principal));
        let at = Timestamp(1_000_000 + i64::try_from(number).unwrap());
        let record = ledger.open(&request, at).await.unwrap();
        record.settle(events(request.id, number, at));
        if number % 4096 == 0 {
            ledger.flush().await.unwrap();
        }
    }
    ledger.flush().await.unwrap();
    ledger.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_many_calls_is_replayed_whole() {
    replay(FEW).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak: 100,000 calls, and the time of their replay"]
async fn a_hundred_thousand_calls_are_replayed_in_time() {
    let took = replay(MANY).await;
    println!("replayed {MANY} calls in {took:?}");
    assert!(took < REPLAY_LIMIT, "{took:?}");
}

/// Records so many calls and replays them under other rules; how long the replay took.
async fn replay(calls: usize) -> Duration {
    let stage = Stage::with_config("[policy]\npreset = \"careful\"\n");
    record(&stage, calls).await;
    stage.write(
        "new.toml",
        "[policy]\npreset = \"workspace\"\nallow = [\"bash(cargo test *)\", \"bash(git log *)\"]\nask = [\"bash(git push *)\"]\ndeny = [\"read(**/.env)\"]\n",
    );
    let data = stage.home.join("data");
    let begun = Instant::now();
    let args = [
        "--data-dir",
        data.to_str().unwrap(),
        "policy",
        "replay",
        "new.toml",
        "--all-workspaces",
        "--json",
    ];
    let view = stage.json(&args);
    let took = begun.elapsed();
    assert_eq!(view["calls"], calls);
    assert_eq!(view["not_decided"], 0, "{view:#}");
    let change = |was: &str, now: &str| {
        let changes = view["changes"].as_array().unwrap();
        let found = changes
            .iter()
            .find(|change| change["was"] == was && change["now"] == now);
        found.map_or(0, |change| change["calls"].as_u64().unwrap())
    };
    // Tests, logs, what is ordinary, and writing files; then what nobody may read.
    assert!(change("ask", "allow") >= 3 * calls as u64 / 10, "{view:#}");
    assert_eq!(change("allow", "deny"), calls as u64 / 10, "{view:#}");
    took
}
