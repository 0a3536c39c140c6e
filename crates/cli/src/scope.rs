//! Which workspaces a command means that looks at the record: those of this directory, unless every one is
//! asked for.
//! Whatever is printed of several names each.

use clap::Args;
use haft_contract::{
    TenantId, WorkspaceId,
    host::{CallFilter, StoredCall},
};
use haft_host::{config::ConfigPlaces, this_workspace::RecordedWorkspaces};
use haft_ledger::StoredLedger;

/// Which workspaces.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WorkspaceArgs {
    /// Every workspace in the record, not only this one
    #[arg(long)]
    pub(crate) all_workspaces: bool,
}

/// The workspaces of the record, and which of them are meant.
pub(crate) struct RecordScope {
    pub(crate) workspaces: RecordedWorkspaces,
    is_everywhere: bool,
}

impl RecordScope {
    /// Finds which workspace this is.
    pub(crate) async fn find(
        args: WorkspaceArgs,
        ledger: &StoredLedger,
        places: ConfigPlaces,
    ) -> Self {
        Self {
            workspaces: RecordedWorkspaces::read(ledger, &TenantId::local(), places).await,
            is_everywhere: args.all_workspaces,
        }
    }

    /// Whether what is printed may come from another workspace.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }

    /// Whether several are meant, so that it has to be said which one something is of.
    pub(crate) fn has_several(&self) -> bool {
        self.is_everywhere || self.workspaces.here().len() > 1
    }

    /// The workspaces that are meant; none if all are.
    pub(crate) fn only(&self) -> &[WorkspaceId] {
        if self.is_everywhere {
            &[]
        } else {
            self.workspaces.here()
        }
    }

    /// The calls that are meant.
    pub(crate) fn filter(&self) -> CallFilter {
        CallFilter {
            workspaces: self.only().to_vec(),
            ..CallFilter::default()
        }
    }

    /// What is meant, for the middle of a sentence.
    pub(crate) fn in_words(&self) -> String {
        if self.is_everywhere {
            "in any workspace".to_owned()
        } else {
            format!("in {}", self.workspaces.here_in_words())
        }
    }

    /// The workspace of a call, where it has to be said.
    pub(crate) fn said_of(&self, call: &StoredCall) -> Option<String> {
        let several = self.has_several();
        several.then(|| self.workspaces.of_call(call))
    }
}
