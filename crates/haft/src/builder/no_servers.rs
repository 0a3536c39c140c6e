//! What takes the place of mounted servers in a build without the feature `mcp`.

use std::path::Path;

use haft_contract::UserId;
use haft_host::{DirectoryOptions, HostBuilder};

#[derive(Default)]
pub(super) struct ServersToMount;

impl ServersToMount {
    pub(super) fn is_empty(&self) -> bool {
        true
    }

    pub(super) fn with_defaults(self, _: &DirectoryOptions, _: &Path, _: &UserId) -> Self {
        self
    }

    pub(super) fn mount_on(self, builder: HostBuilder) -> HostBuilder {
        builder
    }
}
