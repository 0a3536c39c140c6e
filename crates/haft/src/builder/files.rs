//! What a builder says of the workspace's files and commands.

use std::path::Path;

use haft_backends::{ChangeOptions, LocalOptions};

use super::HaftBuilder;

impl<W> HaftBuilder<W> {
    /// How the workspace behaves.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// use haft::{LocalOptions, sandbox::Profile};
    ///
    /// // Commands see one more directory, which they cannot change.
    /// let mut options = LocalOptions::default();
    /// options.sandbox.profile = Profile { read_only: vec!["/srv/models".into()], ..Profile::default() };
    /// let builder = Haft::open("work").local(options);
    /// ```
    pub fn local(mut self, options: LocalOptions) -> Self {
        self.local = options;
        self
    }

    /// Does not compare the workspace before and after sandboxed commands: what they change is then
    /// not on record and cannot be undone. It is compared unless this says otherwise, within the limits
    /// of [`LocalOptions::changes`] or of [`ChangeOptions::new`](haft_backends::ChangeOptions::new).
    ///
    /// ```
    /// # let directory = std::path::Path::new("/nonexistent");
    /// let haft = haft::Haft::open(directory).without_comparison();
    /// ```
    pub fn without_comparison(mut self) -> Self {
        self.compares_commands = false;
        self
    }
}

/// How the workspace is compared around commands: as said, or as usual, which keeps what it read
/// in the data directory and so needs one.
pub(super) fn compared(
    mut local: LocalOptions,
    compares: bool,
    data_dir: Option<&Path>,
) -> LocalOptions {
    let said = local.changes.take();
    let wanted = said.or_else(|| data_dir.map(ChangeOptions::new));
    local.changes = wanted.filter(|_| compares);
    local
}
