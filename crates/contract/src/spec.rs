//! A tool's one description of itself. Listings, model renderings, documentation and deadlines are
//! derived from it.

use std::time::Duration;

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::{
    access::SoleAccess, effects::Effects, error::ToolError, identity::Scope, name::ActionName,
    ops::SandboxMode, streamed::ItemSpec,
};

/// The deadline of a tool that names none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A tool's self-description.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolSpec {
    /// A short title for people.
    pub title: String,
    /// What it does, when to use it, when not to, and its key parameters; written for a model.
    pub description: String,
    /// The effects to assume for an input about which nothing more is known.
    pub effects: Effects,
    /// How long a call may run.
    pub deadline: Deadline,
    /// Actions with their own deadlines, if the tool has several.
    pub actions: Vec<ActionSpec>,
    /// Groups that rules and listings can name (`files`, `search`, `process`).
    pub groups: Vec<&'static str>,
    /// The one kind of thing that its plans name, if they never name another.
    pub touches: Option<SoleAccess>,
    /// Other names that resolve to this tool and are not listed.
    pub aliases: Vec<&'static str>,
    /// Tools of other systems whose calls this tool takes, where more than the name differs.
    pub foreign_calls: Vec<ForeignCall>,
    /// Other names for parameters, rewritten before validation and recorded.
    pub parameter_aliases: Vec<ParameterAlias>,
    /// Reshapes a whole input (`old_string` into `edits`); says what it did.
    pub reshape: Option<Reshape>,
    /// Arguments that the operator has fixed. A caller neither sees nor sets them; they are added
    /// before the call is planned.
    pub fixed_arguments: Map<String, Value>,
    /// Scopes the caller's credential must carry.
    pub required_scopes: Vec<Scope>,
    /// The confinement its child processes need unless configuration says otherwise.
    pub sandbox: SandboxMode,
    /// Who it is for.
    pub audience: Audience,
    /// What has to be there for it to work. A host that knows that something is missing withholds
    /// the tool.
    pub requires: Vec<Requirement>,
    /// The items it emits while it runs; `None` if its result comes only at the end. What a tool
    /// emits without saying so here is dropped.
    pub streams: Option<ItemSpec>,
}

/// Something a tool needs where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// Starting commands, in a tier that the tool's confinement accepts.
    Commands,
    /// A program, by its name or its absolute path.
    Program(String),
    /// A person who can be asked something. No session of another agent or of a timer has one.
    Person,
}

/// Who a tool is for. Every call takes the same path, whoever it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Audience {
    /// Models: it is listed and described to them.
    #[default]
    Model,
    /// A host that knows it by name, such as the edge that reads a mounted server's resources.
    /// Never listed.
    Host,
}

/// Rewrites an input object in place and says what it changed, a sentence for each change. Refuses
/// an input that means something this tool does not do.
pub type Reshape = fn(&mut Map<String, Value>) -> Result<Vec<String>, ToolError>;

/// A call of another system's tool, for models that were trained on it. Like an alias it resolves
/// and is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignCall {
    /// The name of the other tool.
    pub name: &'static str,
    /// The parameter and the value that make a call of the other tool one of this tool. It is taken
    /// out of the input.
    pub when: Option<(&'static str, &'static str)>,
    /// A parameter of this tool that is set, unless the call has it.
    pub with: Option<(&'static str, &'static str)>,
    /// No tool takes such a call; this is what to do instead.
    pub instead: Option<&'static str>,
}

impl ForeignCall {
    /// Every call of the other tool.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            when: None,
            with: None,
            instead: None,
        }
    }

    /// Only calls in which a parameter has this value.
    #[must_use]
    pub const fn when(mut self, parameter: &'static str, value: &'static str) -> Self {
        self.when = Some((parameter, value));
        self
    }

    /// Sets a parameter of this tool.
    #[must_use]
    pub const fn with(mut self, parameter: &'static str, value: &'static str) -> Self {
        self.with = Some((parameter, value));
        self
    }

    /// Refuses the call and says what to do instead.
    #[must_use]
    pub const fn instead(mut self, hint: &'static str) -> Self {
        self.instead = Some(hint);
        self
    }
}

/// An action of a tool and its own deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionSpec {
    /// The action's name, as plans name it.
    pub name: ActionName,
    /// Its deadline.
    pub deadline: Deadline,
}

/// How long a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadline {
    /// The run time unless the input or the caller asks for another.
    pub default: Duration,
    /// The limit that no input, caller or progress can exceed.
    pub maximum: Duration,
    /// Ends a call that reports nothing for this long; each report restarts the timer.
    pub idle: Option<Duration>,
}

/// Another name for a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterAlias {
    /// The name models also use.
    pub alias: &'static str,
    /// The real parameter.
    pub parameter: &'static str,
    /// Multiplies a number on the way in (`timeout` in seconds to `timeout_ms`).
    pub scale: Option<u32>,
    /// The largest number in the alias's unit; a larger one is in the parameter's own already.
    pub largest: Option<u32>,
    /// The list whose items have the parameter (`old` in `edits`). Where the list is not given, the
    /// names at the top of the input are its only item.
    pub within: Option<&'static str>,
}

impl ParameterAlias {
    /// An alias without a change of unit.
    pub const fn new(alias: &'static str, parameter: &'static str) -> Self {
        Self {
            alias,
            parameter,
            scale: None,
            largest: None,
            within: None,
        }
    }

    /// An alias in another unit.
    pub const fn scaled(alias: &'static str, parameter: &'static str, scale: u32) -> Self {
        Self {
            alias,
            parameter,
            scale: Some(scale),
            largest: None,
            within: None,
        }
    }

    /// Says from which number on nobody means the alias's unit: some models write 120 seconds,
    /// others 120000 milliseconds, under one name.
    #[must_use]
    pub const fn up_to(mut self, largest: u32) -> Self {
        self.largest = Some(largest);
        self
    }

    /// Makes it another name for a parameter of a list's items.
    #[must_use]
    pub const fn within(mut self, list: &'static str) -> Self {
        self.within = Some(list);
        self
    }
}

impl Deadline {
    /// A default and a maximum.
    pub const fn new(default: Duration, maximum: Duration) -> Self {
        Self {
            default,
            maximum,
            idle: None,
        }
    }

    /// Also ends a call that reports nothing for this long.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::new(DEFAULT_TIMEOUT, Duration::from_mins(10))
    }
}

impl ToolSpec {
    /// A spec with a title and a description. Effects are unknown until declared, and child
    /// processes are fully sandboxed.
    pub fn new(title: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            description: description.into(),
            effects: Effects::UNKNOWN,
            deadline: Deadline::default(),
            actions: Vec::new(),
            groups: Vec::new(),
            touches: None,
            aliases: Vec::new(),
            foreign_calls: Vec::new(),
            parameter_aliases: Vec::new(),
            reshape: None,
            fixed_arguments: Map::new(),
            required_scopes: Vec::new(),
            sandbox: SandboxMode::Full,
            audience: Audience::Model,
            requires: Vec::new(),
            streams: None,
        }
    }

    /// Declares the usual effects.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Sets the deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    /// Adds an action with its own deadline.
    #[must_use]
    pub fn action(mut self, name: impl Into<ActionName>, deadline: Deadline) -> Self {
        let name = name.into();
        self.actions.push(ActionSpec { name, deadline });
        self
    }

    /// Says that it emits items of this type while it runs, and what one is called (`match`, `row`).
    #[must_use]
    pub fn streams<T: JsonSchema>(mut self, name: &'static str) -> Self {
        self.streams = Some(ItemSpec::of::<T>(name));
        self
    }

    /// Keeps the tool out of every list.
    #[must_use]
    pub fn for_hosts(mut self) -> Self {
        self.audience = Audience::Host;
        self
    }

    /// Puts the tool into groups.
    #[must_use]
    pub fn groups(mut self, groups: &[&'static str]) -> Self {
        self.groups.extend_from_slice(groups);
        self
    }

    /// Says that plans name accesses of this kind and of no other, so that rules about another kind
    /// are mistakes.
    #[must_use]
    pub fn touches_only(mut self, kind: SoleAccess) -> Self {
        self.touches = Some(kind);
        self
    }

    /// Adds other names for this tool.
    #[must_use]
    pub fn aliases(mut self, aliases: &[&'static str]) -> Self {
        self.aliases.extend_from_slice(aliases);
        self
    }

    /// Takes every call of other systems' tools with these names. Unlike aliases they yield to a
    /// tool that has such a name.
    #[must_use]
    pub fn foreign_names(mut self, names: &[&'static str]) -> Self {
        let calls = names.iter().map(|name| ForeignCall::new(name));
        self.foreign_calls.extend(calls);
        self
    }

    /// Takes calls of other systems' tools.
    #[must_use]
    pub fn foreign_calls(mut self, calls: &[ForeignCall]) -> Self {
        self.foreign_calls.extend_from_slice(calls);
        self
    }

    /// Adds other names for parameters.
    #[must_use]
    pub fn parameter_aliases(mut self, aliases: &[ParameterAlias]) -> Self {
        self.parameter_aliases.extend_from_slice(aliases);
        self
    }

    /// Reshapes inputs before validation.
    #[must_use]
    pub fn reshape(mut self, reshape: Reshape) -> Self {
        self.reshape = Some(reshape);
        self
    }

    /// Fixes arguments, in addition to those that are fixed already.
    #[must_use]
    pub fn fixed_arguments(mut self, arguments: Map<String, Value>) -> Self {
        self.fixed_arguments.extend(arguments);
        self
    }

    /// Requires scopes of the caller's credential.
    #[must_use]
    pub fn required_scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
        self.required_scopes.extend(scopes);
        self
    }

    /// Names what has to be there for it to work.
    #[must_use]
    pub fn requires(mut self, needed: impl IntoIterator<Item = Requirement>) -> Self {
        self.requires.extend(needed);
        self
    }

    /// The deadline of an action, or the tool's own.
    pub fn deadline_of(&self, action: Option<&ActionName>) -> Deadline {
        self.actions
            .iter()
            .find(|spec| Some(&spec.name) == action)
            .map_or(self.deadline, |spec| spec.deadline)
    }
}
