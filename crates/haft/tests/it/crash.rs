//! Promise 4: accepted means recorded, and a call that changes something is started at most once.
//!
//! A child process runs calls for real — local back end, `bash`, Cedar, SQLite — and kills itself
//! with SIGKILL at a named point on their way. The parent then opens the ledger as the next start
//! would, and compares what the record says with what the world saw: each call appends its name
//! to a file, so effects are counted from outside.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    AgentId, CallId, CallRequest, Principal, ProviderId, SessionId, TenantId, Terminal, UserId,
    event::{EventSink, RecordedEvent},
    host::{ApprovalAnswer, ApprovalRequest, Approver, CallQuery, History as _, Verification},
    ops::SandboxMode,
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{Runtime, SystemClock};
use serde_json::json;

/// Where on the path of a call the process dies. Each is an event, except the last: the moment
/// after a result was handed back.
const POINTS: [&str; 14] = [
    "opened",
    "resolved",
    "validated",
    "planned",
    "decided",
    "approval_asked",
    "approval_answered",
    "admitted",
    "started",
    "running",
    "output",
    "run_ended",
    "settled",
    "returned",
];

/// Rounds: every point twice, or for long.
const FEW: usize = 2 * POINTS.len();
const MANY: usize = 200;
const CALLS: usize = 6;

const DIRECTORY: &str = "HAFT_CRASH_DIRECTORY";
const POINT: &str = "HAFT_CRASH_POINT";
const NTH: &str = "HAFT_CRASH_NTH";

fn die() -> ! {
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    unreachable!("SIGKILL cannot be survived")
}

/// Dies at the nth event of one kind.
struct DieAt {
    point: String,
    left: AtomicUsize,
}

impl DieAt {
    fn passed(&self, point: &str) {
        if point == self.point && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            println!("\ndied {point}");
            die();
        }
    }
}

struct Shared(Arc<DieAt>);

impl EventSink for Shared {
    fn happened(&self, happened: &RecordedEvent) {
        self.0.passed(happened.event.kind());
    }
}

struct Yes;

impl Approver for Yes {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        request.approve("person")
    }
}

fn ledger_options(directory: &Path) -> LedgerOptions {
    LedgerOptions::new(directory.join("record"), Arc::new(SystemClock))
}

fn principal() -> Arc<Principal> {
    Arc::new(Principal::local(
        UserId::parse("tester").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse("crash").unwrap(),
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "child: of the tests that kill it, told what to do by its environment"]
#[expect(
    clippy::disallowed_methods,
    reason = "how the parent tells the child what to do"
)]
async fn child_that_dies_on_the_way() {
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let point = std::env::var(POINT).unwrap();
    let nth = std::env::var(NTH).unwrap().parse().unwrap();
    let die_at = Arc::new(DieAt {
        point,
        left: AtomicUsize::new(nth),
    });

    let workspace = directory.join("workspace");
    let backend = LocalBackend::open(&workspace, LocalOptions::default()).unwrap();
    let (ledger, _) = StoredLedger::open(ledger_options(&directory))
        .await
        .unwrap();
    let policy = CedarPolicy::load(&[PolicySource::new("haft.toml", "")]).unwrap();
    let runtime = Runtime::builder()
        .operations(backend.operations())
        .ledger(Arc::new(ledger))
        .policy(Arc::new(policy))
        .approver(Yes)
        .provider(ProviderId::builtin(), haft_tools::builtins())
        .sandbox("bash", SandboxMode::Off)
        .events(Arc::new(Shared(Arc::clone(&die_at))))
        .build()
        .unwrap();
    let requests: Vec<CallRequest> = (0..CALLS).map(request).collect();
    for (n, request) in requests.iter().enumerate() {
        println!("\nsubmitted {n} {}", request.id);
    }
    let mut calls = tokio::task::JoinSet::new();
    for request in requests {
        let (runtime, die_at) = (runtime.clone(), Arc::clone(&die_at));
        calls.spawn(async move {
            let call = request.id;
            let outcome = runtime.call(request).await;
            println!("\nreturned {call} {}", outcome.terminal);
            die_at.passed("returned");
        });
    }
    calls.join_all().await;
    die();
}

/// The first call reads; the others leave a line behind in the world.
fn request(n: usize) -> CallRequest {
    if n == 0 {
        return CallRequest::new("read", json!({"path": "seed"}), principal());
    }
    let script = format!("echo call-{n} >> effects; echo done");
    CallRequest::new("bash", json!({"command": script}), principal())
}

/// What a child said before it died.
#[derive(Default)]
struct Said {
    submitted: HashMap<CallId, usize>,
    returned: HashMap<CallId, Terminal>,
    /// Whether it died at its point, and not at the end of all calls.
    at_its_point: bool,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the parent starts the child it kills"
)]
fn run_child(directory: &Path, point: &str, nth: usize) -> Said {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .args(["crash::child_that_dies_on_the_way", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(POINT, point)
        .env(NTH, nth.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "the child dies");
    let mut said = Said::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["died", at] => said.at_its_point = at == point,
            ["submitted", n, id] => {
                said.submitted
                    .insert(CallId::parse(id).unwrap(), n.parse().unwrap());
            }
            ["returned", id, terminal] => {
                said.returned.insert(
                    CallId::parse(id).unwrap(),
                    Terminal::parse(terminal).unwrap(),
                );
            }
            _ => {}
        }
    }
    assert_eq!(
        said.submitted.len(),
        CALLS,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// How often each call's effect happened, as the world saw it.
#[expect(
    clippy::disallowed_methods,
    reason = "the world is not the tool's to ask about"
)]
fn effects(directory: &Path) -> BTreeMap<usize, usize> {
    let text = std::fs::read_to_string(directory.join("workspace/effects")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let n = line.strip_prefix("call-").unwrap().parse().unwrap();
        *counts.entry(n).or_default() += 1;
    }
    counts
}

/// What a round found.
#[derive(Debug, Default)]
struct Tally {
    deaths: usize,
    recorded: usize,
    unknown: usize,
    never_started: usize,
    effects: usize,
}

#[expect(
    clippy::disallowed_methods,
    reason = "makes the workspace of one round"
)]
async fn round(point: &str, nth: usize) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    std::fs::create_dir(directory.join("workspace")).unwrap();
    std::fs::write(directory.join("workspace/seed"), "seed\n").unwrap();
    let said = run_child(directory, point, nth);
    // A command that was started lives on for a moment when its runtime is killed; only a pid
    // namespace could end it with its parent, and that comes with the sandbox.
    tokio::time::sleep(Duration::from_millis(30)).await;

    let (ledger, recovery) = StoredLedger::open(ledger_options(directory)).await.unwrap();
    let tenant = TenantId::parse("local").unwrap();
    let query = CallQuery {
        limit: 100,
        ..CallQuery::default()
    };
    let calls = ledger.calls(&tenant, &query).await.unwrap();
    let world = effects(directory);
    let context = format!("{point} {nth}: {calls:?} {world:?}");
    let mut tally = Tally {
        deaths: usize::from(said.at_its_point),
        recorded: calls.len(),
        unknown: recovery.settled_unknown.len(),
        never_started: recovery.never_started.len(),
        effects: world.len(),
    };
    for (n, count) in &world {
        assert_eq!(*count, 1, "call {n} took effect more than once: {context}");
    }
    let mut recorded = HashMap::new();
    for call in &calls {
        let n = said.submitted[&call.id];
        recorded.insert(call.id, call.terminal);
        let kinds: Vec<String> = ledger
            .events(&tenant, call.id)
            .await
            .unwrap()
            .into_iter()
            .map(|event| event.kind)
            .collect();
        let settled = kinds.iter().filter(|kind| *kind == "settled").count();
        assert_eq!(settled, 1, "call {n} settled once: {kinds:?} {context}");
        let started = kinds.iter().any(|kind| kind == "started");
        let happened = world.contains_key(&n);
        match call.terminal.expect("no call is left open") {
            Terminal::Succeeded => assert!(happened || n == 0, "call {n}: {context}"),
            Terminal::Unknown => assert!(started, "call {n} had started: {context}"),
            Terminal::Cancelled => {
                assert!(
                    !started && !happened,
                    "call {n} was never started: {context}"
                );
            }
            other => panic!("call {n} ended {other}: {context}"),
        }
        assert!(
            !happened || started,
            "call {n}: no effect without a recorded intent: {context}"
        );
    }
    for (id, n) in &said.submitted {
        assert!(
            recorded.contains_key(id) || !world.contains_key(n),
            "call {n} took effect and is not on record: {context}"
        );
    }
    for (id, terminal) in &said.returned {
        // The read is not waited for; everything else was durable before it was handed back.
        if said.submitted[id] != 0 {
            assert_eq!(recorded[id], Some(*terminal), "{context}");
        }
    }
    let verified = ledger.verify(&tenant).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?} {context}"
    );
    ledger.close().await.unwrap();
    let (again, recovery) = StoredLedger::open(ledger_options(directory)).await.unwrap();
    assert!(
        recovery.is_empty(),
        "what was settled stays settled: {context}"
    );
    again.close().await.unwrap();
    tally.unknown -= recovery.settled_unknown.len();
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: 28 processes that die, one after the other"]
async fn au_07_kill_9_at_every_point_accounts_for_every_call_and_repeats_none() {
    kill_at_every_point(FEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 200 processes that die, one after the other"]
async fn soak_kill_9_at_every_point() {
    kill_at_every_point(MANY).await;
}

async fn kill_at_every_point(rounds: usize) {
    let mut sum: BTreeMap<&str, Tally> = BTreeMap::new();
    for n in 0..rounds {
        let point = POINTS[n % POINTS.len()];
        let tally = round(point, n / POINTS.len() % CALLS).await;
        let entry = sum.entry(point).or_default();
        entry.deaths += tally.deaths;
        entry.recorded += tally.recorded;
        entry.unknown += tally.unknown;
        entry.never_started += tally.never_started;
        entry.effects += tally.effects;
    }
    // The rounds must have reached what they are about.
    for (point, tally) in &sum {
        println!("{point}: {tally:?}");
        assert!(tally.deaths > 0, "no round died at {point}: {tally:?}");
    }
    let at = |point: &str| &sum[point];
    assert!(
        at("running").unknown > 0,
        "a call that was running ends unknown"
    );
    assert!(
        at("approval_asked").never_started > 0,
        "one that was asked about never started"
    );
    assert!(
        at("run_ended").effects > 0,
        "effects happened before the death"
    );
}
