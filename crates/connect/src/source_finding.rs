//! What looking at a source found.

/// What is wrong with a source, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFinding {
    /// Whether no statement runs there because of it.
    pub refused: bool,
    /// What it is, and what to do.
    pub text: String,
}
