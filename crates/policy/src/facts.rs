//! A question in the form rules are applied to: one item for the tool itself and one for each
//! access of the plan. Borrows everything; decides nothing.

use std::fmt;

use haft_contract::{
    Access, PathMode, PathScope,
    access::CommandAccess,
    host::{Question, ToolFacts},
    ops::Tier,
};

use crate::shell::{self, Analysis, CommandTouch, Refusal, Segment, TouchOrigin};

/// The longest access text shown in a decision.
const MAX_SHOWN_CHARS: usize = 200;

/// Providers whose declared effects are trusted. Any other can only tighten.
const TRUSTED_PROVIDERS: [&str; 3] = ["builtin", "embedded", "script"];

/// What is done: an access kind, or the use of the tool itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Use the tool at all.
    Use,
    /// Read a path.
    Read,
    /// Write a path.
    Write,
    /// Run a command.
    Command,
    /// Open a network connection.
    Connect,
    /// Query a database.
    Database,
    /// Send a message.
    Message,
    /// Call a tool elsewhere.
    RemoteTool,
    /// Touch something of a kind that only the tool knows.
    Custom,
}

impl Action {
    /// Every action, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::Use,
        Self::Read,
        Self::Write,
        Self::Command,
        Self::Connect,
        Self::Database,
        Self::Message,
        Self::RemoteTool,
        Self::Custom,
    ];

    /// The action of an access.
    pub fn of(access: &Access) -> Self {
        match access {
            Access::Path(path) => match path.mode {
                PathMode::Read => Self::Read,
                PathMode::Write => Self::Write,
            },
            // Typing into a running command is as powerful as the command.
            Access::Command(_) | Access::Process(_) => Self::Command,
            Access::Host { .. } => Self::Connect,
            Access::Database { .. } => Self::Database,
            Access::Message { .. } => Self::Message,
            Access::RemoteTool { .. } => Self::RemoteTool,
            Access::Custom(_) => Self::Custom,
        }
    }

    /// Its name as a Cedar action.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Read => "read",
            Self::Write => "write",
            Self::Command => "command",
            Self::Connect => "connect",
            Self::Database => "database",
            Self::Message => "message",
            Self::RemoteTool => "remote_tool",
            Self::Custom => "custom",
        }
    }
}

/// One thing to judge: the tool itself (`None`) or one of its accesses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'q> {
    pub(crate) action: Action,
    pub(crate) access: Option<&'q Access>,
    pub(crate) part: CommandPart<'q>,
}

/// Which part of a command an item is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CommandPart<'q> {
    /// Not a command.
    Whole,
    /// One command of the parsed script.
    Segment(&'q Segment, &'q CommandReading),
    /// Something that command touches.
    Touch(&'q Segment, &'q CommandReading, &'q CommandTouch),
    /// A command that is refused without analysis.
    Refused(Refusal),
}

/// A question with its commands parsed.
#[derive(Debug)]
pub(crate) struct ReadQuestion<'q> {
    pub(crate) question: Question<'q>,
    /// One for each access; `None` if it is not a command.
    commands: Vec<Option<Result<CommandReading, Refusal>>>,
}

#[derive(Debug)]
pub(crate) struct CommandReading {
    /// The command as one text.
    pub(crate) text: String,
    pub(crate) analysis: Analysis,
}

impl<'q> ReadQuestion<'q> {
    pub(crate) fn new(question: &Question<'q>) -> Self {
        let plan = question.plan;
        let read = |access: &Access| match access {
            Access::Command(CommandAccess {
                command,
                cwd,
                stays: _,
            }) => {
                let analysis = shell::analyse(command, cwd, plan.workspace());
                Some(analysis.map(|analysis| CommandReading {
                    text: command.text(),
                    analysis,
                }))
            }
            Access::Path(_)
            | Access::Process(_)
            | Access::Host { .. }
            | Access::Database { .. }
            | Access::Message { .. }
            | Access::RemoteTool { .. }
            | Access::Custom(_) => None,
        };
        Self {
            question: *question,
            commands: plan.accesses().iter().map(read).collect(),
        }
    }

    /// The items of the question: the tool first, then its accesses, and for a command each command
    /// in it with what that touches.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let tool = Item {
            action: Action::Use,
            access: None,
            part: CommandPart::Whole,
        };
        let accesses = self.question.plan.accesses().iter().zip(&self.commands);
        let items = accesses.flat_map(|(access, command)| {
            let whole = |part| Item {
                action: Action::of(access),
                access: Some(access),
                part,
            };
            match command {
                None => vec![whole(CommandPart::Whole)],
                Some(Err(refusal)) => vec![whole(CommandPart::Refused(*refusal))],
                Some(Ok(reading)) => {
                    let mut items = Vec::new();
                    for segment in reading.analysis.segments() {
                        items.push(whole(CommandPart::Segment(segment, reading)));
                        let touches = segment
                            .touches
                            .iter()
                            .filter(|t| t.how != TouchOrigin::Maybe);
                        items.extend(touches.map(|touch| Item {
                            action: Action::of(&touch.access),
                            access: Some(&touch.access),
                            part: CommandPart::Touch(segment, reading, touch),
                        }));
                    }
                    items
                }
            }
        });
        std::iter::once(tool).chain(items)
    }
}

impl<'q> Item<'q> {
    /// What is touched, as a decision names it.
    pub(crate) fn text(&self) -> Option<String> {
        let access = self.access?;
        Some(match self.part {
            CommandPart::Segment(segment, _) => {
                format!("{} {}", access.kind(), cut(segment.text()))
            }
            CommandPart::Whole | CommandPart::Touch(..) | CommandPart::Refused(_) => {
                access_text(access)
            }
        })
    }

    /// The command it is part of, unless it is the whole.
    pub(crate) fn segment(&self) -> Option<&'q Segment> {
        match self.part {
            CommandPart::Segment(segment, _) | CommandPart::Touch(segment, ..) => Some(segment),
            CommandPart::Whole | CommandPart::Refused(_) => None,
        }
    }
}

/// Facts about the whole call, for the conditions of presets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one attribute of the Cedar context, read by name in the policies"
)]
pub(crate) struct CallFacts {
    /// Whether the provider's declarations are trusted.
    pub(crate) trusted: bool,
    /// Whether its accesses, which are judged one by one, name everything the call changes.
    pub(crate) accounted: bool,
    /// Whether it only reads, and reaches nothing outside.
    pub(crate) harmless: bool,
    /// Whether its child processes are confined.
    pub(crate) sandboxed: bool,
    /// Whether the kernel limits whatever its child processes may do: they have no network, leave
    /// no process behind and cannot change a protected name.
    pub(crate) held: bool,
    /// Whether a command of it may still run when the call has ended.
    pub(crate) stays: bool,
    /// Whether it acts on a mounted server after the session has read from another one.
    pub(crate) crosses: bool,
}

impl CallFacts {
    pub(crate) fn of(question: &Question<'_>) -> Self {
        let plan = question.plan;
        let changes = plan.accesses().iter().any(|access| match access {
            Access::Path(path) => path.mode == PathMode::Write,
            Access::Command(_)
            | Access::Process(_)
            | Access::Host { .. }
            | Access::Database { .. }
            | Access::Message { .. }
            | Access::RemoteTool { .. }
            | Access::Custom(_) => true,
        });
        let trusted = is_trusted(&question.tool);
        let harmless = plan.effects().read_only && !plan.effects().open_world;
        let stays = plan
            .accesses()
            .iter()
            .any(|access| matches!(access, Access::Command(command) if command.stays));
        let mut others = plan.read_from().others(&question.tool.key.provider);
        Self {
            trusted,
            accounted: !plan.accesses().is_empty() && (plan.effects().read_only || changes),
            harmless,
            stays,
            crosses: !trusted && !harmless && others.next().is_some(),
            sandboxed: match plan.tier() {
                Tier::T1 | Tier::T2 | Tier::T3 => true,
                Tier::Host | Tier::InProcess => false,
            },
            held: match plan.tier() {
                Tier::T2 | Tier::T3 => plan.egress().is_none(),
                Tier::Host | Tier::InProcess | Tier::T1 => false,
            },
        }
    }
}

/// Whether this tool's provider is trusted about its declarations.
pub(crate) fn is_trusted(tool: &ToolFacts<'_>) -> bool {
    TRUSTED_PROVIDERS.contains(&tool.key.provider.as_str())
}

/// Every group a tool is in: its own and those implied by its effects.
pub(crate) fn groups(tool: &ToolFacts<'_>) -> Vec<&'static str> {
    let mut groups = tool.groups.to_vec();
    groups.push(if tool.effects.read_only && is_trusted(tool) {
        "read-only"
    } else {
        "changes"
    });
    if tool.effects.destructive {
        groups.push("destructive");
    }
    if tool.effects.open_world {
        groups.push("open-world");
    }
    groups
}

/// The groups based on effects, which exist whatever tools there are, and the usual families.
pub(crate) const BUILT_IN_GROUPS: [&str; 8] = [
    "all",
    "read-only",
    "changes",
    "destructive",
    "open-world",
    "files",
    "search",
    "process",
];

/// An item in words: reading `x`, running `y`.
pub(crate) struct InWords<'q>(pub(crate) Item<'q>, pub(crate) &'q str);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(item, tool) = self;
        let Some(access) = item.access else {
            return write!(f, "using `{tool}`");
        };
        let verb = match item.action {
            Action::Use | Action::Custom => "using",
            Action::Read => "reading",
            Action::Write => "writing",
            Action::Command if matches!(access, Access::Process(_)) => "acting on a process:",
            Action::Command => "running",
            Action::Connect => "connecting to",
            Action::Database => "querying",
            Action::Message => "sending to",
            Action::RemoteTool => "calling",
        };
        match item.part {
            CommandPart::Segment(segment, _) => {
                write!(f, "{verb} `{}`", cut(segment.text()))?;
                let Some(outer) = segment.inside().first() else {
                    return Ok(());
                };
                write!(f, " (inside `{outer}`)")
            }
            CommandPart::Touch(segment, ..) => {
                let text = cut(segment.text());
                write!(f, "{verb} `{}` (by `{text}`)", shown(access))
            }
            CommandPart::Whole | CommandPart::Refused(_) => write!(f, "{verb} `{}`", shown(access)),
        }
    }
}

/// An access as a decision names it: its kind and what it touches.
pub(crate) fn access_text(access: &Access) -> String {
    format!("{} {}", access.kind(), shown(access))
}

fn shown(access: &Access) -> String {
    let text = match access {
        Access::Path(path) => match &path.resolved {
            Some(resolved) if *resolved != path.path => {
                format!("{} (which is {resolved})", path.path)
            }
            Some(_) | None if path.scope == PathScope::Tree => format!("{}/**", path.path),
            Some(_) | None => path.path.to_string(),
        },
        Access::Command(command) => command.command.text(),
        Access::Process(process) => process.text(),
        Access::Host { host, port } => format!("{host}:{port}"),
        Access::Database { source, .. } => source.clone(),
        Access::Message { channel, target } => format!("{channel}:{target}"),
        Access::RemoteTool { provider, tool } => format!("{provider}/{tool}"),
        Access::Custom(custom) => custom.to_string(),
    };
    cut(&text)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
