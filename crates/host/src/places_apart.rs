//! Haft's own files, which lie in no workspace: whoever could write the record or the configuration
//! could allow itself anything.

use std::path::{Path, PathBuf};

use crate::{
    config::{
        ConfigPlaces,
        leads_through::{leads_through, real},
    },
    error::{HostError, HostErrorKind},
};

/// Where a host's own files are.
#[derive(Debug, Default)]
pub(crate) struct PlacesApart(Vec<PathBuf>);

impl PlacesApart {
    /// Those of a host with these places.
    pub(crate) fn of(places: &ConfigPlaces) -> Self {
        let configured = [&places.only_config, &places.user_config];
        let configured = configured.into_iter().flatten();
        let own = std::iter::once(&places.data_dir).chain(configured);
        Self(own.cloned().collect())
    }

    /// Refuses a workspace in which some of them lie.
    pub(crate) fn check(&self, root: &Path) -> Result<(), HostError> {
        let real = real(root);
        match self.0.iter().find(|own| leads_through(own, &real)) {
            None => Ok(()),
            Some(own) => Err(HostError::new(
                HostErrorKind::Refused,
                format!(
                    "the workspace `{}` contains Haft's own files (`{}`), which no tool may reach",
                    root.display(),
                    own.display()
                ),
                "choose a directory that does not contain them",
            )),
        }
    }
}
