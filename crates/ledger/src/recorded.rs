//! Reads recorded plans and decisions back into contract types, so that a call can be decided
//! again.
//!
//! Nothing is guessed: a plan whose secrets were removed, or that was too large to be kept whole,
//! is [`UnreadableRecord`]. `convert.rs` wrote these bodies.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{
    Access, ActionName, Effects, Label, Masks, PathMode, PathScope, PlanParts, ProviderId,
    SealedPlan, ToolKey, ToolName, WorkPath, WorkspaceId,
    access::{Command, CommandAccess, PathAccess, ProcessAccess, ProcessAct, RunningCommand},
    background::ProcessId,
    egress::{EgressRules, HostRule},
    host::{RuleRef, Verdict},
    ops::{BackendId, ProcessSignal, TerminalSize, Tier},
};
use serde::Deserialize;
use serde_json::Value;

use crate::redact::REDACTED;

/// Why a recorded plan or decision cannot be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreadableRecord {
    /// What it touches held a secret, which is not in the record.
    Redacted,
    /// What it touches was too large to be kept whole.
    Omitted,
    /// It was written by another version, or is damaged.
    Unknown,
}

/// A decision, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedDecision {
    /// The answer.
    pub verdict: Verdict,
    /// The rule that decided.
    pub rule: Option<RuleRef>,
    /// How many standing approvals turned *ask* into *allow*.
    pub grants: usize,
}

/// The plan in the body of a recorded `planned` event.
pub fn plan(body: Value) -> Result<SealedPlan, UnreadableRecord> {
    let accesses = body.get("accesses").ok_or(UnreadableRecord::Unknown)?;
    if accesses.get("omitted_bytes").is_some() {
        return Err(UnreadableRecord::Omitted);
    }
    if holds_mark(accesses) {
        return Err(UnreadableRecord::Redacted);
    }
    let body: PlanOnRecord = serde_json::from_value(body).map_err(|_| UnreadableRecord::Unknown)?;
    body.plan().ok_or(UnreadableRecord::Unknown)
}

/// The decision in the body of a recorded `decided` event.
pub fn decision(body: Value) -> Result<RecordedDecision, UnreadableRecord> {
    let body: DecisionOnRecord =
        serde_json::from_value(body).map_err(|_| UnreadableRecord::Unknown)?;
    Ok(RecordedDecision {
        verdict: Verdict::parse(&body.verdict).ok_or(UnreadableRecord::Unknown)?,
        rule: body.rule.map(|rule| RuleRef {
            text: rule.text,
            source: rule.source,
            line: rule.line,
        }),
        grants: body.grants.len(),
    })
}

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redacted => "a secret was taken out of what they would touch",
            Self::Omitted => "what they would touch was too large to be recorded",
            Self::Unknown => "their record cannot be understood",
        })
    }
}

/// Whether a secret was removed anywhere in a value.
fn holds_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(REDACTED),
        Value::Array(items) => items.iter().any(holds_mark),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| name.contains(REDACTED) || holds_mark(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[derive(Debug, Deserialize)]
struct DecisionOnRecord {
    verdict: String,
    rule: Option<Rule>,
    #[serde(default)]
    grants: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    text: String,
    source: String,
    line: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct PlanOnRecord {
    tool: String,
    action: Option<String>,
    input: Value,
    accesses: Vec<StoredAccess>,
    effects: StoredEffects,
    backend: String,
    workspace_id: String,
    workspace: String,
    tier: String,
    egress: Option<StoredEgress>,
    deadline_ms: u64,
    /// Absent if nothing was read, and in older records.
    #[serde(default)]
    read_from: Vec<String>,
    /// Absent if nothing was masked, and in older records.
    masks: Option<StoredMasks>,
}

#[derive(Debug, Deserialize)]
struct StoredMasks {
    hidden: Vec<String>,
    read_only: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct StoredEgress {
    allow: Vec<String>,
    deny: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent flags, as the contract names them"
)]
struct StoredEffects {
    read_only: bool,
    idempotent: bool,
    destructive: bool,
    open_world: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "access", rename_all = "snake_case")]
enum StoredAccess {
    Read(StoredPath),
    Write(StoredPath),
    Shell {
        script: String,
        cwd: String,
        #[serde(default)]
        stays: bool,
    },
    Argv {
        argv: Vec<String>,
        cwd: String,
        #[serde(default)]
        stays: bool,
    },
    Process(StoredProcess),
    Connect {
        host: String,
        port: u16,
    },
    Database {
        source: String,
        writes: bool,
    },
    Message {
        channel: String,
        target: String,
    },
    RemoteTool {
        provider: String,
        tool: String,
    },
    Custom {
        kind: String,
        target: String,
    },
}

#[derive(Debug, Deserialize)]
struct StoredPath {
    scope: String,
    path: String,
    resolved: Option<String>,
    protected: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StoredProcess {
    id: String,
    act: String,
    typed: Option<String>,
    signal: Option<String>,
    size: Option<(u16, u16)>,
    command: Option<String>,
    argv: Option<Vec<String>>,
    cwd: Option<String>,
    tier: Option<String>,
}

impl PlanOnRecord {
    fn plan(self) -> Option<SealedPlan> {
        let tool = tool_key(&self.tool)?;
        let tier = Tier::parse(&self.tier)?;
        let labels = self.read_from.iter().map(|label| Label::parse(label).ok());
        let backend = BackendId::new(&self.backend);
        let workspace_id = WorkspaceId::parse(&self.workspace_id).ok()?;
        let accesses = self.accesses.into_iter().map(|stored| stored.access(tier));
        let parts = PlanParts {
            action: self.action.map(ActionName::from),
            input: self.input,
            accesses: accesses.collect::<Option<_>>()?,
            effects: Effects {
                read_only: self.effects.read_only,
                idempotent: self.effects.idempotent,
                destructive: self.effects.destructive,
                open_world: self.effects.open_world,
            },
            backend,
            workspace_id,
            workspace: self.workspace.into(),
            tier,
            egress: match self.egress {
                Some(stored) => Some(Arc::new(EgressRules {
                    allow: host_rules(&stored.allow)?,
                    deny: host_rules(&stored.deny)?,
                })),
                None => None,
            },
            deadline: Duration::from_millis(self.deadline_ms),
            read_from: labels.collect::<Option<_>>()?,
            tool,
        };
        let masks = self.masks.map_or(Masks::NONE, |stored| Masks {
            hidden: stored.hidden,
            read_only: stored.read_only,
        });
        Some(parts.seal().with_masks(masks))
    }
}

impl StoredAccess {
    fn access(self, tier: Tier) -> Option<Access> {
        Some(match self {
            Self::Read(path) => Access::Path(path.access(PathMode::Read)?),
            Self::Write(path) => Access::Path(path.access(PathMode::Write)?),
            Self::Shell { script, cwd, stays } => command(Command::Shell(script), &cwd, stays)?,
            Self::Argv { argv, cwd, stays } => command(Command::Argv(argv), &cwd, stays)?,
            Self::Process(process) => Access::Process(process.access(tier)?),
            Self::Connect { host, port } => Access::Host { host, port },
            Self::Database { source, writes } => Access::Database { source, writes },
            Self::Message { channel, target } => Access::Message { channel, target },
            Self::RemoteTool { provider, tool } => Access::RemoteTool { provider, tool },
            Self::Custom { kind, target } => Access::custom(&kind, &target).ok()?,
        })
    }
}

impl StoredPath {
    fn access(self, mode: PathMode) -> Option<PathAccess> {
        Some(PathAccess {
            mode,
            scope: match self.scope.as_str() {
                "file" => PathScope::File,
                "tree" => PathScope::Tree,
                _ => return None,
            },
            path: path(&self.path)?,
            resolved: match &self.resolved {
                Some(resolved) => Some(path(resolved)?),
                None => None,
            },
            protected: self.protected,
        })
    }
}

impl StoredProcess {
    fn access(self, tier: Tier) -> Option<ProcessAccess> {
        let act = match self.act.as_str() {
            "write" => ProcessAct::Write(self.typed?),
            "close_input" => ProcessAct::CloseInput,
            "resize" => {
                let (rows, columns) = self.size?;
                ProcessAct::Resize(TerminalSize { rows, columns })
            }
            "signal" => {
                let word = self.signal?;
                let mut known = ProcessSignal::ALL.into_iter();
                ProcessAct::Signal(known.find(|signal| signal.as_str() == word)?)
            }
            "kill" => ProcessAct::Kill,
            _ => return None,
        };
        let command = match (self.argv, self.command) {
            (Some(argv), _) => Some(Command::Argv(argv)),
            (None, Some(text)) => Some(Command::Shell(text)),
            (None, None) => None,
        };
        let running = match (command, self.cwd) {
            (Some(command), Some(cwd)) => Some(RunningCommand {
                command,
                cwd: path(&cwd)?,
                // Older records have it only in the plan.
                tier: match self.tier {
                    Some(word) => Tier::parse(&word)?,
                    None => tier,
                },
            }),
            (_, _) => None,
        };
        Some(ProcessAccess {
            id: ProcessId::parse(&self.id)?,
            act,
            running,
        })
    }
}

fn command(command: Command, cwd: &str, stays: bool) -> Option<Access> {
    Some(Access::Command(CommandAccess {
        command,
        cwd: path(cwd)?,
        stays,
    }))
}

fn path(text: &str) -> Option<WorkPath> {
    WorkPath::relative(text).ok()
}

fn tool_key(text: &str) -> Option<ToolKey> {
    let (provider, tool) = text.split_once('/')?;
    Some(ToolKey::new(
        ProviderId::parse(provider).ok()?,
        ToolName::parse(tool).ok()?,
    ))
}

fn host_rules(texts: &[String]) -> Option<Vec<HostRule>> {
    texts
        .iter()
        .map(|text| HostRule::parse(text).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use haft_contract::{
        CallEvent, CallId, Labels,
        event::RecordedEvent,
        host::{Decision, PolicyVersion, Timestamp},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        body::{self, Events},
        convert,
        redact::Redactor,
    };

    /// Shared by all tests: its patterns take a while to compile.
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new([]));

    fn at(text: &str) -> WorkPath {
        WorkPath::relative(text).expect("a path")
    }

    fn label(text: &str) -> Label {
        Label::parse(text).expect("a label")
    }

    fn sealed(accesses: Vec<Access>) -> SealedPlan {
        parts(accesses).seal()
    }

    fn parts(accesses: Vec<Access>) -> PlanParts {
        PlanParts {
            tool: ToolKey::new(
                ProviderId::builtin(),
                ToolName::parse("sample").expect("a name"),
            ),
            action: Some("download".into()),
            input: json!({"n": 1, "text": "x"}),
            accesses,
            effects: Effects {
                read_only: false,
                idempotent: true,
                destructive: false,
                open_world: true,
            },
            backend: BackendId::new("local"),
            workspace_id: WorkspaceId::local(),
            workspace: "/w".into(),
            tier: Tier::T2,
            egress: Some(Arc::new(EgressRules {
                allow: vec![HostRule::parse("docs.rs:443").expect("a rule")],
                deny: vec![HostRule::parse("*.example.com").expect("a rule")],
            })),
            deadline: Duration::from_millis(1500),
            read_from: ["mcp:a", "mcp:b-2"].map(label).into_iter().collect(),
        }
    }

    fn body(plan: &SealedPlan) -> Value {
        let event = CallEvent::Planned {
            plan: Arc::new(plan.clone()),
        };
        written(event)
    }

    /// The stored form of an event, read back.
    fn written(event: CallEvent) -> Value {
        let happened = RecordedEvent {
            call: CallId::new(),
            at: Timestamp(0),
            event,
        };
        let mut events = Events::default();
        convert::event(&mut events, happened.event.kind(), &happened, &REDACTOR);
        let (form, bytes) = events.body();
        let mut read = body::events(form.number(), Timestamp(0), &bytes).expect("events");
        read.pop().expect("it is recorded").body
    }

    fn check(plan: &SealedPlan) {
        assert_eq!(super::plan(body(plan)).as_ref(), Ok(plan));
    }

    /// One access of each kind; a new kind does not compile until it is added here.
    fn accesses() -> Vec<Access> {
        let path = |mode, scope| {
            Access::Path(PathAccess {
                mode,
                scope,
                path: at("link/a"),
                resolved: Some(at("real/a")),
                protected: Some("git obeys it".to_owned()),
            })
        };
        let process = |act, command: Command| {
            Access::Process(ProcessAccess {
                id: ProcessId::new(7),
                act,
                running: Some(RunningCommand {
                    command,
                    cwd: at("src"),
                    tier: Tier::Host,
                }),
            })
        };
        let shell = || Command::Shell("cat 'a b'".to_owned());
        let argv = || Command::Argv(vec!["cat".to_owned(), "a b".to_owned()]);
        let mut all = vec![
            path(PathMode::Read, PathScope::File),
            path(PathMode::Write, PathScope::Tree),
            Access::write(WorkPath::root()),
            Access::shell("cd src && make 2>&1 | tail", at("src")),
            Access::argv(vec!["cargo".to_owned(), "a b".to_owned()], WorkPath::root()),
            process(ProcessAct::Write("y\n".to_owned()), shell()),
            process(ProcessAct::CloseInput, argv()),
            process(
                ProcessAct::Resize(TerminalSize {
                    rows: 24,
                    columns: 80,
                }),
                shell(),
            ),
            process(ProcessAct::Kill, shell()),
            Access::process(ProcessId::new(1), ProcessAct::Kill),
            Access::Host {
                host: "docs.rs".to_owned(),
                port: 443,
            },
            Access::Database {
                source: "main".to_owned(),
                writes: true,
            },
            Access::Message {
                channel: "mail".to_owned(),
                target: "ada".to_owned(),
            },
            Access::RemoteTool {
                provider: "github".to_owned(),
                tool: "search".to_owned(),
            },
            Access::custom("payment", "eur/120 to acme").unwrap(),
        ];
        for signal in ProcessSignal::ALL {
            all.push(process(ProcessAct::Signal(signal), shell()));
        }
        for access in &all {
            match access {
                Access::Path(_)
                | Access::Command(_)
                | Access::Process(_)
                | Access::Host { .. }
                | Access::Database { .. }
                | Access::Message { .. }
                | Access::RemoteTool { .. }
                | Access::Custom(_) => {}
            }
        }
        all
    }

    #[test]
    fn every_kind_of_plan_comes_back_as_it_was() {
        check(&sealed(accesses()));
        for access in accesses() {
            check(&sealed(vec![access]));
        }
        for tier in Tier::ALL {
            let parts = PlanParts {
                tier,
                egress: None,
                action: None,
                read_from: Labels::NONE,
                ..parts(Vec::new())
            };
            check(&parts.seal());
        }
    }

    #[test]
    fn what_is_not_whole_is_not_guessed() {
        let read = |body| plan(body).map(|_| ());
        let secret = Access::shell("curl -u ada:hunter22 http://x", WorkPath::root());
        assert_eq!(
            read(body(&sealed(vec![secret]))),
            Err(UnreadableRecord::Redacted)
        );
        let large = Access::shell("x".repeat(5 * 1024 * 1024), WorkPath::root());
        assert_eq!(
            read(body(&sealed(vec![large]))),
            Err(UnreadableRecord::Omitted)
        );
        let whole = || body(&sealed(accesses()));
        assert_eq!(read(whole()), Ok(()));
        for (field, value) in [
            ("tier", json!("t9")),
            ("tool", json!("sample")),
            ("accesses", json!([{"access": "teleport"}])),
            (
                "accesses",
                json!([{"access": "custom", "kind": "read", "target": "x"}]),
            ),
            (
                "accesses",
                json!([{"access": "read", "scope": "file", "path": "../x"}]),
            ),
        ] {
            let mut body = whole();
            body[field] = value;
            assert_eq!(read(body), Err(UnreadableRecord::Unknown), "{field}");
        }
        // A secret in the input alone does not affect what is touched.
        let mut plan = parts(vec![Access::write(at("a"))]);
        plan.input = json!({"password": "hunter22"});
        let plan = plan.seal();
        assert_eq!(read(body(&plan)), Ok(()));
        // An action is just a name, even if the tool no longer has it.
        let mut whole = whole();
        whole["action"] = json!("teleport");
        let plan = super::plan(whole).expect("a plan");
        assert_eq!(plan.action().map(ActionName::as_str), Some("teleport"));
    }

    #[test]
    fn a_decision_comes_back_with_its_rule() {
        let rule = RuleRef {
            text: "bash(git *)".to_owned(),
            source: "haft.toml".to_owned(),
            line: Some(3),
        };
        let event = CallEvent::Decided {
            decision: Arc::new(Decision {
                verdict: Verdict::Ask,
                rule: Some(rule.clone()),
                reason: "because".to_owned(),
                access: None,
                withheld: Vec::new(),
                policy: PolicyVersion("v".to_owned()),
                grants: Vec::new(),
            }),
        };
        let recorded = decision(written(event)).expect("it is readable");
        assert_eq!(
            recorded,
            RecordedDecision {
                verdict: Verdict::Ask,
                rule: Some(rule),
                grants: 0,
            }
        );
    }
}
