//! The program that sets up sandboxes for tests of this crate: a test executable has no `main` of
//! its own that could. It is a binary of the back ends' crate and lies beside the test's own.

use haft::LocalOptions;
use haft_sandbox::helper::Helper;

use crate::attacks::helper;

/// A local workspace whose commands are sandboxed as they would be by the `haft` program.
pub(crate) fn sandboxed() -> LocalOptions {
    let mut options = LocalOptions::default();
    options.sandbox.helper = Helper::Path(helper());
    options
}
