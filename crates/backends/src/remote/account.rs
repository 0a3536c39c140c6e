//! The account that serves a workspace.

/// What children are started with unless the caller says otherwise.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// `HOME`.
    pub home: Option<String>,
    /// `USER`.
    pub user: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<String>,
}
