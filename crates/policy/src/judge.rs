//! One evaluation: a case and the few policies that can match it, given to Cedar twice, first as if
//! nobody had approved, then as if somebody had. Allowed at once is *allow*, allowed with approval
//! is *ask*, neither is *deny*. A policy that fails to evaluate makes it *deny*.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cedar_policy::{
    Authorizer, Context, Decision as Answer, Entities, Entity, EntityId, EntityTypeName, EntityUid,
    PolicySet, Request, Response, RestrictedExpression,
};
use haft_contract::{
    Access, ActionName, AgentId, Labels, PathMode, PathScope, Principal, SessionKind, ToolKey,
    host::{ToolFacts, Verdict},
    identity::ChannelId,
};

use crate::{
    after_reading::read_from,
    audience::NamedPrincipal,
    cache::Generations,
    compile::{CompileError, Compiled, Origin, pattern_type},
    facts::{Action, CallFacts, CommandPart, Item, groups},
    pattern::{Pattern, PatternScope},
    pattern_index::PatternId,
    preset::Preset,
    protected::{protecting_rule, puts_git_back},
    shell::Refusal,
};

/// How many compiled policy sets are cached.
const POLICY_SETS: usize = 512;
/// How many evaluations are cached.
const EVALUATIONS: usize = 2048;

/// Everything one evaluation depends on.
pub(crate) struct EvaluationCase<'q> {
    pub(crate) principal: &'q Principal,
    /// What rules name of the caller: tenant, user, scopes, and whether another agent started it.
    pub(crate) named: NamedPrincipal,
    /// The agent it is judged for: the asking one, or one that started it.
    pub(crate) agent: &'q AgentId,
    /// Whether that agent has a section, or no agent has.
    pub(crate) listed: bool,
    pub(crate) tool: ToolFacts<'q>,
    /// The action that the call plans, if one of the rules asks.
    pub(crate) tool_action: Option<&'q ActionName>,
    pub(crate) call: CallFacts,
    pub(crate) item: Item<'q>,
    /// What is known about a command.
    pub(crate) shell: ShellFacts,
    /// The patterns the item matches.
    pub(crate) patterns: Vec<(PatternId, &'q Pattern)>,
    /// What the session has read from.
    pub(crate) read_from: &'q Labels,
    /// Whether one of the rules has `after`.
    pub(crate) labelled: bool,
    /// The rules that can match.
    pub(crate) rules: Vec<usize>,
}

/// What is known about one command, or something it touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one attribute of the Cedar context, read by name in the policies"
)]
pub(crate) struct ShellFacts {
    /// A deny or ask rule may apply, and the command is not understood well enough to tell.
    pub(crate) unclear: bool,
    /// The table of commands knows it, in every word.
    pub(crate) ordinary: bool,
    /// It is such a command, and only reads.
    pub(crate) looks: bool,
    /// The command's words name it, so what allows the command allows it.
    pub(crate) named: bool,
    /// It shows which programs run.
    pub(crate) legible: bool,
    /// A person should be asked about it even where the sandbox holds it.
    pub(crate) concerning: bool,
    /// It deletes or rewrites something, even if that can be taken back.
    pub(crate) loses: bool,
    /// It builds, tests, checks, looks or commits, and is not there to change files.
    pub(crate) routine: bool,
}

/// An answer and why.
#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) cause: DecidingCause,
    /// Whether a rule with `after` is among what decided.
    pub(crate) labelled: bool,
}

/// What decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecidingCause {
    /// A rule.
    Rule(usize),
    /// The path is protected.
    Protected {
        /// The built-in rule, in rule notation.
        rule: String,
        /// Why it is protected.
        why: String,
    },
    /// Some agents have sections, and this one has none.
    UnlistedAgent,
    /// It is not understood, and a rule may apply to it.
    Unclear,
    /// It was refused without analysis.
    Refused(Refusal),
    /// No rule applied, so the preset decided.
    Preset,
    /// An error occurred.
    Broken(String),
}

/// Everything a judgement depends on. The name of the resource is not included: policies read only
/// which patterns it matches, so a new path or command that matches the same rules needs no new
/// evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Evaluation {
    places: Vec<usize>,
    agent: AgentId,
    session_kind: SessionKind,
    channel: Option<ChannelId>,
    named: NamedPrincipal,
    action: Action,
    listed: bool,
    call: CallFacts,
    shell: ShellFacts,
    tool: ToolKey,
    tool_action: Option<ActionName>,
    groups: Vec<&'static str>,
    patterns: Vec<PatternId>,
    /// Empty if no rule depends on it.
    read_from: Labels,
    protection: Option<(String, String)>,
}

/// The compiled policies and Cedar.
#[derive(Debug)]
pub(crate) struct PolicyJudge {
    compiled: Vec<Compiled>,
    protected: Vec<usize>,
    unlisted: Vec<usize>,
    unclear: Vec<usize>,
    named: Vec<usize>,
    presets: HashMap<(Preset, Action), Vec<usize>>,
    /// The index of the first rule among the compiled policies.
    first_rule: usize,
    types: Types,
    authorizer: Authorizer,
    sets: Mutex<Generations<Vec<usize>, Arc<PolicySet>>>,
    evaluations: Mutex<Generations<Evaluation, Judgement>>,
}

/// Entity type names, parsed once.
#[derive(Debug)]
struct Types {
    agent: EntityTypeName,
    action: EntityTypeName,
    resources: HashMap<Action, EntityTypeName>,
    pattern: EntityTypeName,
    exact_pattern: EntityTypeName,
}

impl PolicyJudge {
    pub(crate) fn new(compiled: Vec<Compiled>) -> Result<Self, CompileError> {
        let mut judge = Self {
            protected: Vec::new(),
            unlisted: Vec::new(),
            unclear: Vec::new(),
            named: Vec::new(),
            presets: HashMap::new(),
            first_rule: compiled.len(),
            types: Types::new()?,
            authorizer: Authorizer::new(),
            sets: Mutex::new(Generations::new(POLICY_SETS)),
            evaluations: Mutex::new(Generations::new(EVALUATIONS)),
            compiled: Vec::new(),
        };
        for (place, policy) in compiled.iter().enumerate() {
            match policy.origin {
                Origin::Protected => judge.protected.push(place),
                Origin::UnlistedAgent => judge.unlisted.push(place),
                Origin::Unclear => judge.unclear.push(place),
                Origin::Named => judge.named.push(place),
                Origin::Preset(preset, action) => {
                    let actions = Action::ALL
                        .into_iter()
                        .filter(|known| action.is_none_or(|action| action == *known));
                    for action in actions {
                        let places = judge.presets.entry((preset, action)).or_default();
                        places.push(place);
                    }
                }
                Origin::Rule(_) => judge.first_rule = judge.first_rule.min(place),
            }
        }
        judge.compiled = compiled;
        Ok(judge)
    }

    /// The policies, in the order of their numbers.
    pub(crate) fn compiled(&self) -> &[Compiled] {
        &self.compiled
    }

    /// Judges a case under one preset.
    pub(crate) fn judge(&self, case: &EvaluationCase<'_>, preset: Preset) -> Judgement {
        if let CommandPart::Refused(refusal) = case.item.part {
            return Judgement {
                verdict: Verdict::Deny,
                cause: DecidingCause::Refused(refusal),
                labelled: false,
            };
        }
        let puts_back = puts_git_back(case.tool.key, case.item.access);
        let protection = protection(case.item).filter(|_| !puts_back);
        let mut places = Vec::new();
        if protection.is_some() {
            places.extend_from_slice(&self.protected);
        }
        if !case.listed {
            places.extend_from_slice(&self.unlisted);
        }
        if case.shell.unclear {
            places.extend_from_slice(&self.unclear);
        }
        if case.shell.named {
            places.extend_from_slice(&self.named);
        }
        if let Some(preset) = self.presets.get(&(preset, case.item.action)) {
            places.extend_from_slice(preset);
        }
        places.extend(case.rules.iter().map(|rule| self.first_rule + rule));
        let evaluation = Evaluation {
            places,
            agent: case.agent.clone(),
            session_kind: case.principal.session_kind,
            channel: case.principal.channel.clone(),
            named: case.named.clone(),
            action: case.item.action,
            listed: case.listed,
            call: case.call,
            shell: case.shell,
            tool: case.tool.key.clone(),
            tool_action: case.tool_action.cloned(),
            groups: groups(&case.tool),
            patterns: case.patterns.iter().map(|(id, _)| *id).collect(),
            read_from: if case.labelled {
                case.read_from.clone()
            } else {
                Labels::NONE
            },
            protection,
        };
        if let Some(judgement) = self.evaluations().get(&evaluation) {
            return judgement;
        }
        match self.evaluate(case, &evaluation.places, evaluation.protection.clone()) {
            Ok(judgement) => {
                self.evaluations().insert(evaluation, judgement.clone());
                judgement
            }
            Err(error) => Judgement {
                verdict: Verdict::Deny,
                cause: DecidingCause::Broken(error),
                labelled: false,
            },
        }
    }

    fn evaluations(&self) -> MutexGuard<'_, Generations<Evaluation, Judgement>> {
        self.evaluations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn evaluate(
        &self,
        case: &EvaluationCase<'_>,
        places: &[usize],
        protection: Option<(String, String)>,
    ) -> Result<Judgement, String> {
        let policies = self.policy_set(places)?;
        let resource = self.types.resource(case.item, &case.tool);
        let entities = self.entities(case, &resource)?;
        let is_protected = protection.is_some();
        let ask = |approved: bool| -> Result<Response, String> {
            let context = context(case, is_protected, approved)?;
            let request = Request::new(
                uid(&self.types.agent, case.agent.as_str()),
                uid(&self.types.action, case.item.action.as_str()),
                resource.clone(),
                context,
                None,
            )
            .map_err(|error| error.to_string())?;
            let response = self
                .authorizer
                .is_authorized(&request, &policies, &entities);
            // Cedar skips a policy that fails; a skipped `forbid` must not allow anything.
            let failed = response
                .diagnostics()
                .errors()
                .next()
                .map(ToString::to_string);
            failed.map_or(Ok(response), Err)
        };
        let unasked = ask(false)?;
        if unasked.decision() == Answer::Allow {
            return Ok(self.judgement(Verdict::Allow, &unasked, None));
        }
        let approved = ask(true)?;
        let (verdict, deciding) = match approved.decision() {
            Answer::Allow => (Verdict::Ask, &unasked),
            Answer::Deny => (Verdict::Deny, &approved),
        };
        let judgement = self.judgement(verdict, deciding, protection.clone());
        if verdict == Verdict::Deny && judgement.cause == DecidingCause::Preset {
            // Asking is not possible. Name what would have asked, if anything would.
            return Ok(self.judgement(Verdict::Deny, &unasked, protection));
        }
        Ok(judgement)
    }

    /// Names the policy that decided: built-in before rule before preset; among rules the
    /// strictest, and among these the first.
    fn judgement(
        &self,
        verdict: Verdict,
        response: &Response,
        protection: Option<(String, String)>,
    ) -> Judgement {
        let mut places: Vec<usize> = response
            .diagnostics()
            .reason()
            .filter_map(|id| AsRef::<str>::as_ref(id).parse().ok())
            .collect();
        places.sort_unstable();
        let deciding = || places.iter().filter_map(|place| self.compiled.get(*place));
        let origins = || deciding().map(|compiled| compiled.origin);
        let rule = origins().find_map(|origin| match origin {
            Origin::Rule(number) => Some(number),
            Origin::Preset(..)
            | Origin::Protected
            | Origin::UnlistedAgent
            | Origin::Unclear
            | Origin::Named => None,
        });
        let cause = match (protection, rule) {
            (Some((rule, why)), _) if origins().any(|origin| origin == Origin::Protected) => {
                DecidingCause::Protected { rule, why }
            }
            (_, Some(rule)) => DecidingCause::Rule(rule),
            (_, None) if origins().any(|origin| origin == Origin::UnlistedAgent) => {
                DecidingCause::UnlistedAgent
            }
            (_, None) if origins().any(|origin| origin == Origin::Unclear) => {
                DecidingCause::Unclear
            }
            (_, None) => DecidingCause::Preset,
        };
        Judgement {
            verdict,
            cause,
            labelled: deciding().any(|compiled| compiled.labelled),
        }
    }

    fn policy_set(&self, places: &[usize]) -> Result<Arc<PolicySet>, String> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = sets.get(places) {
            return Ok(set);
        }
        let policies = places
            .iter()
            .filter_map(|place| self.compiled.get(*place))
            .map(|compiled| compiled.policy.clone());
        let set = PolicySet::from_policies(policies).map_err(|error| error.to_string())?;
        let set = Arc::new(set);
        sets.insert(places.to_vec(), Arc::clone(&set));
        Ok(set)
    }

    /// The principal and the resource. Built-in policies read only the context, so without rules
    /// there is nothing to build.
    fn entities(
        &self,
        case: &EvaluationCase<'_>,
        resource: &EntityUid,
    ) -> Result<Entities, String> {
        if case.rules.is_empty() {
            return Ok(Entities::empty());
        }
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let principal = case.principal;
        let kinds = principal.session_kinds().map(|kind| text(kind.as_str()));
        let mut attributes = HashMap::from([
            (
                "session_kind".to_owned(),
                text(principal.session_kind.as_str()),
            ),
            (
                "session_kinds".to_owned(),
                RestrictedExpression::new_set(kinds),
            ),
        ]);
        if let Some(channel) = &principal.channel {
            attributes.insert("channel".to_owned(), text(channel.as_str()));
        }
        if let Some(tenant) = &case.named.tenant {
            attributes.insert("tenant".to_owned(), text(tenant.as_str()));
        }
        if let Some(user) = &case.named.user {
            attributes.insert("user".to_owned(), text(user.as_str()));
        }
        let scopes = case.named.scopes.iter().map(|scope| text(scope.as_str()));
        let scopes = RestrictedExpression::new_set(scopes);
        attributes.insert("scopes".to_owned(), scopes);
        let is_subagent = RestrictedExpression::new_bool(case.named.is_subagent);
        attributes.insert("is_subagent".to_owned(), is_subagent);
        let agent = uid(&self.types.agent, case.agent.as_str());
        let agent =
            Entity::new(agent, attributes, HashSet::new()).map_err(|error| error.to_string())?;
        let patterns = case
            .patterns
            .iter()
            .map(|(_, pattern)| match pattern.reach {
                PatternScope::Exact => uid(&self.types.exact_pattern, &pattern.text),
                PatternScope::Wide => uid(&self.types.pattern, &pattern.text),
            });
        let resource = Entity::new_no_attrs(resource.clone(), patterns.collect());
        Entities::from_entities([agent, resource], None).map_err(|error| error.to_string())
    }
}

impl Types {
    fn new() -> Result<Self, CompileError> {
        let parse = |name: &str| -> Result<EntityTypeName, CompileError> {
            name.parse()
                .map_err(|error: cedar_policy::ParseErrors| CompileError::of_type(name, &error))
        };
        let mut resources = HashMap::new();
        for action in Action::ALL {
            let name = match action {
                Action::Use => "Tool",
                Action::Read | Action::Write => "Path",
                Action::Command => "Command",
                Action::Connect => "Host",
                Action::Database => "Database",
                Action::Message => "Recipient",
                Action::RemoteTool => "RemoteTool",
                Action::Custom => "Custom",
            };
            resources.insert(action, parse(name)?);
        }
        Ok(Self {
            agent: parse("Agent")?,
            action: parse("Action")?,
            resources,
            pattern: parse(pattern_type(PatternScope::Wide))?,
            exact_pattern: parse(pattern_type(PatternScope::Exact))?,
        })
    }

    fn resource(&self, item: Item<'_>, tool: &ToolFacts<'_>) -> EntityUid {
        let id = match item.access {
            None => tool.key.to_string(),
            Some(Access::Path(path)) => path.path.to_string(),
            Some(Access::Command(command)) => match item.segment() {
                Some(segment) => segment.text().to_owned(),
                None => command.command.text(),
            },
            Some(Access::Process(process)) => process.text(),
            Some(Access::Host { host, port }) => format!("{host}:{port}"),
            Some(Access::Database { source, .. }) => source.clone(),
            Some(Access::Message { channel, target }) => format!("{channel}:{target}"),
            Some(Access::RemoteTool { provider, tool }) => format!("{provider}/{tool}"),
            Some(Access::Custom(custom)) => custom.to_string(),
        };
        // Every action has a type; the agent's as a fallback would be a resource no rule matches.
        let kind = self.resources.get(&item.action).unwrap_or(&self.agent);
        uid(kind, &id)
    }
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn context(case: &EvaluationCase<'_>, protected: bool, approved: bool) -> Result<Context, String> {
    let flag = RestrictedExpression::new_bool;
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let call = case.call;
    let mut pairs = vec![
        ("approved".to_owned(), flag(approved)),
        ("trusted".to_owned(), flag(call.trusted)),
        ("accounted".to_owned(), flag(call.accounted)),
        ("harmless".to_owned(), flag(call.harmless)),
        ("sandboxed".to_owned(), flag(call.sandboxed)),
        ("held".to_owned(), flag(call.held)),
        ("stays".to_owned(), flag(call.stays)),
        ("unclear".to_owned(), flag(case.shell.unclear)),
        ("ordinary".to_owned(), flag(case.shell.ordinary)),
        ("looks".to_owned(), flag(case.shell.looks)),
        ("named".to_owned(), flag(case.shell.named)),
        ("legible".to_owned(), flag(case.shell.legible)),
        ("concerning".to_owned(), flag(case.shell.concerning)),
        ("loses".to_owned(), flag(case.shell.loses)),
        ("routine".to_owned(), flag(case.shell.routine)),
        ("protected".to_owned(), flag(protected)),
        ("listed".to_owned(), flag(case.listed)),
    ];
    if !case.rules.is_empty() {
        let groups = groups(&case.tool).into_iter().map(text);
        pairs.extend([
            ("tool".to_owned(), text(case.tool.key.tool.as_str())),
            ("provider".to_owned(), text(case.tool.key.provider.as_str())),
            ("groups".to_owned(), RestrictedExpression::new_set(groups)),
            ("crosses".to_owned(), flag(call.crosses)),
        ]);
    }
    if let Some(action) = case.tool_action {
        pairs.push(("tool_action".to_owned(), text(action.as_str())));
    }
    if case.labelled {
        let provider = &case.tool.key.provider;
        let read_from = read_from(case.read_from, provider).into_iter().map(text);
        let others = || case.read_from.others(provider);
        let servers = others().filter(|label| !label.is_of_host());
        let servers = servers.map(|label| text(label.as_str()));
        let others = others().map(|label| text(label.as_str()));
        pairs.extend([
            (
                "read_from".to_owned(),
                RestrictedExpression::new_set(read_from),
            ),
            ("others".to_owned(), RestrictedExpression::new_set(others)),
            (
                "other_servers".to_owned(),
                RestrictedExpression::new_set(servers),
            ),
        ]);
    }
    Context::from_pairs(pairs).map_err(|error| error.to_string())
}

/// The built-in rule that forbids this item, and why: writes to protected paths, by name or as
/// reported by the back end, for the path as written and its target. A change to a whole tree could
/// reach protected paths inside it, so it counts as one.
fn protection(item: Item<'_>) -> Option<(String, String)> {
    let Some(Access::Path(path)) = item.access else {
        return None;
    };
    if path.mode == PathMode::Read {
        return None;
    }
    if let Some(why) = &path.protected {
        return Some(("write(protected path)".to_owned(), why.clone()));
    }
    let by_name = std::iter::once(&path.path)
        .chain(&path.resolved)
        .find_map(|path| protecting_rule(path.as_str()));
    if let Some(rule) = by_name {
        return Some((rule.text, rule.reason.to_owned()));
    }
    (path.scope == PathScope::Tree).then(|| {
        (
            "write(tree)".to_owned(),
            "a whole directory may hold protected paths".to_owned(),
        )
    })
}
