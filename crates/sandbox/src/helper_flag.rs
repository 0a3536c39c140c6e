//! How the program that sets up sandboxes is told apart from others, and found.

/// The first argument that asks for a helper mode.
pub const FLAG: &str = "__haft-helper";

/// The variable that names a helper; empty for none.
pub(crate) const VARIABLE: &str = "HAFT_HELPER";

/// The program that is running, whatever became of its file.
pub(crate) const RUNNING: &str = "/proc/self/exe";
