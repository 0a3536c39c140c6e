//! The three classes of effects. Each has a separate tool for calling, so that a client that asks
//! its user by annotation still asks about the right calls.

use haft_contract::Effects;

/// The worst that calls of a tool may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectClass {
    /// Only reads.
    Read,
    /// Changes something but destroys nothing.
    Write,
    /// May remove or overwrite something. Also used when nothing is known.
    Destructive,
}

impl EffectClass {
    /// All classes, mildest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// The class of a tool with these effects.
    pub fn of(effects: Effects) -> Self {
        match effects {
            Effects {
                destructive: true, ..
            } => Self::Destructive,
            Effects {
                read_only: true, ..
            } => Self::Read,
            Effects { .. } => Self::Write,
        }
    }

    /// Its name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The tool that calls tools of this class.
    pub fn call_tool(self) -> &'static str {
        match self {
            Self::Read => "call_tool_read",
            Self::Write => "call_tool_write",
            Self::Destructive => "call_tool_destructive",
        }
    }

    /// The class of tools that the tool with this name calls.
    pub fn of_call_tool(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|class| class.call_tool() == name)
    }

    /// The most that a tool of this class may do.
    pub(super) fn effects(self) -> Effects {
        let outside = |effects: Effects| Effects {
            open_world: true,
            ..effects
        };
        match self {
            Self::Read => outside(Effects::READ_ONLY),
            Self::Write => outside(Effects::CHANGES),
            Self::Destructive => Effects::UNKNOWN,
        }
    }
}
