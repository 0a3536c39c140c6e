//! What a person sees before they answer: what will happen, according to the plan itself.
//!
//! A preview is complete or does not exist: what is too large to show cannot be approved. It is
//! part of the canonical form an approval binds, so what is shown and what is approved cannot
//! differ.

use crate::{host::Verdict, path::WorkPath};

/// The most bytes of text in one preview.
pub const MAX_PREVIEW_BYTES: usize = 512 * 1024;

/// What will happen, in parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// The parts, in the order they will happen.
    pub parts: Vec<PreviewPart>,
}

/// One thing that will happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviewPart {
    /// A file changes.
    Diff(FileDiff),
    /// A command runs.
    Command(CommandPreview),
    /// A connection is made to a host.
    Host {
        /// Its name.
        host: String,
        /// The port.
        port: u16,
    },
    /// Rows of a database change.
    Rows {
        /// The configured source.
        source: String,
        /// How many, if known beforehand.
        affected: Option<u64>,
    },
    /// Anything without its own variant, in words.
    Note(String),
}

/// How one file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The file.
    pub path: WorkPath,
    /// What happens to it.
    pub change: FileChangeKind,
    /// The whole change as a unified diff; empty if the content is not text, and then
    /// [`FileDiff::note`] says what it is.
    pub text: String,
    /// What the diff cannot show: encodings, binary content with its size.
    pub note: Option<String>,
}

/// What happens to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChangeKind {
    /// It is created.
    Create,
    /// Its content changes.
    Change,
    /// It is removed.
    Remove,
    /// It is renamed, and perhaps its content changes.
    Move {
        /// The new name.
        to: WorkPath,
    },
}

impl FileChangeKind {
    /// The name used in output.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Remove => "remove",
            Self::Move { .. } => "move",
        }
    }
}

/// One simple command of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPreview {
    /// The command as parsed, words quoted for reading.
    pub text: String,
    /// What it may touch, as far as its words show.
    pub touches: Vec<TouchTarget>,
    /// Every path its words may name, absolute and in any position. Not shown: the files among them
    /// are bound to the answer.
    pub may_name: Vec<String>,
    /// Why it is not fully understood, if it is not.
    pub opaque: Option<String>,
    /// What about it is not bound to the answer, if anything.
    pub unbound: Option<String>,
    /// Policy's verdict on this command.
    pub verdict: Verdict,
}

/// Something a command may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchTarget {
    /// How.
    pub how: TouchKind,
    /// What, as the command names it.
    pub what: String,
}

/// How a command touches something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TouchKind {
    /// Reads it.
    Reads,
    /// Creates, changes or removes it.
    Writes,
    /// Reaches it over the network.
    Connects,
    /// Runs it.
    Runs,
}

impl TouchKind {
    /// The name used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Connects => "connects",
            Self::Runs => "runs",
        }
    }
}

impl Preview {
    /// The bytes of text in the preview.
    pub fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                PreviewPart::Diff(diff) => {
                    diff.text.len() + diff.note.as_ref().map_or(0, String::len)
                }
                PreviewPart::Command(command) => {
                    let touched = command.touches.iter().map(|touched| touched.what.len());
                    command.text.len() + touched.sum::<usize>()
                }
                PreviewPart::Host { host, .. } => host.len(),
                PreviewPart::Rows { source, .. } => source.len(),
                PreviewPart::Note(note) => note.len(),
            })
            .sum()
    }
}
