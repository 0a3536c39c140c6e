//! What this machine has for the sandboxes of a workspace, looked up once, and what each command
//! gets from it: a private directory, a control group, a watch.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, Spawn, Tier},
};

use crate::{
    cgroup::{Cgroup, CgroupError, CgroupParent},
    detect::{Facilities, MissingFacility},
    helper::needs_copy,
    jail::Jail,
    limits::Limits,
    loopback::{HeldLoopback, Loopbacks},
    options::SandboxOptions,
    orphans::{BaseDirectories, DirectoryPurpose, PrivateDirectory, RuntimeDirectory},
    own_copy,
    profile::HostView,
    protected_watch::{Deep, ProtectedWatch, Quarantine},
};

/// What this machine has for a workspace's sandboxes, looked up once.
#[derive(Debug)]
pub(crate) struct Sandbox {
    facilities: Facilities,
    view: HostView,
    limits: Limits,
    groups: Result<Option<Arc<CgroupParent>>, CgroupError>,
    quarantine: Arc<Quarantine>,
    /// Where private directories are made.
    bases: BaseDirectories,
    /// For sockets and the like; made on first use.
    control: OnceLock<Arc<RuntimeDirectory>>,
    /// For files of commands; made on first use.
    files: OnceLock<Arc<RuntimeDirectory>>,
    /// A copy of this program, if its file lies in a workspace; made on first use.
    own_copy: OnceLock<(PathBuf, PrivateDirectory)>,
    /// Whether that copy would lie where no command of the workspace can replace it.
    copies_lie_apart: bool,
    loopbacks: Loopbacks,
}

impl Sandbox {
    /// Finds out what this machine has for a workspace.
    pub(crate) fn look(options: &SandboxOptions, root: &Path, temporary: &Path) -> Self {
        let bases = BaseDirectories::new(options.runtime.as_deref(), temporary);
        bases.sweep();
        Self {
            facilities: Facilities::look(options, root),
            view: HostView::look(&options.profile),
            limits: options.limits.clone(),
            groups: CgroupParent::detect(&options.cgroup),
            quarantine: Arc::new(quarantine(options)),
            bases,
            control: OnceLock::new(),
            files: OnceLock::new(),
            own_copy: OnceLock::new(),
            copies_lie_apart: lies_apart(temporary, root),
            loopbacks: Loopbacks::default(),
        }
    }

    /// Whether what was found for one workspace applies to another at this root: everything does,
    /// except where the helper lies, or would be copied to.
    pub(crate) fn serves(&self, root: &Path, temporary: &Path) -> bool {
        let same_helper = match &self.facilities.helper {
            Ok(helper) => !helper.starts_with(root),
            Err(missing) => *missing == MissingFacility::Helper,
        };
        same_helper && self.copies_lie_apart == lies_apart(temporary, root)
    }

    /// What this machine has.
    pub(crate) fn facilities(&self) -> &Facilities {
        &self.facilities
    }

    /// Which parts of the profile this machine has.
    pub(crate) fn view(&self) -> &HostView {
        &self.view
    }

    /// The helper.
    pub(crate) fn helper(&self) -> Result<PathBuf, OpsError> {
        let helper = self.facilities.helper.clone();
        let helper = helper.map_err(|missing| unavailable(&[missing]))?;
        if needs_copy(&helper) {
            if !self.copies_lie_apart {
                return Err(unavailable(&[MissingFacility::HelperInWorkspace]));
            }
            return self.own_copy();
        }
        Ok(helper)
    }

    /// A copy of this program, made when it is first needed.
    fn own_copy(&self) -> Result<PathBuf, OpsError> {
        if let Some((path, _)) = self.own_copy.get() {
            return Ok(path.clone());
        }
        let directory = self.private_directory(DirectoryPurpose::Files)?;
        let copied = own_copy::copy_to(directory.path()).map_err(|error| {
            let why = error.kind();
            OpsError::new(
                ErrorKind::TierUnavailable,
                format!("the program that sets up sandboxes lies in a workspace, and cannot be copied: {why}"),
            )
        })?;
        // If two were made at once, the second is dropped and thereby removed.
        let (path, _) = self.own_copy.get_or_init(|| (copied, directory));
        Ok(path.clone())
    }

    /// Refuses a tier this machine does not support.
    pub(crate) fn check(&self, tier: Tier) -> Result<(), OpsError> {
        match self.facilities.missing(tier).as_slice() {
            [] => Ok(()),
            missing => Err(unavailable(missing)),
        }
    }

    /// A directory for one command alone. The next Haft removes what a crashed one leaves of it.
    pub(crate) fn private_directory(
        &self,
        purpose: DirectoryPurpose,
    ) -> Result<PrivateDirectory, OpsError> {
        let cannot = |why: String| OpsError::new(ErrorKind::TierUnavailable, why);
        let place = match purpose {
            DirectoryPurpose::Control => &self.control,
            DirectoryPurpose::Files => &self.files,
        };
        let runtime = if let Some(runtime) = place.get() {
            Arc::clone(runtime)
        } else {
            let made = self.bases.open(purpose);
            let made = made.map_err(|error| cannot(error.to_string()))?;
            // If two were made at once, the second is dropped and thereby removed.
            Arc::clone(place.get_or_init(|| made))
        };
        runtime.make().map_err(|error| {
            let kind = error.kind();
            cannot(format!(
                "a private directory for the command cannot be made: {kind}"
            ))
        })
    }

    /// The loopback that a command shares with others. One with a way out shares none, because the
    /// way would be shared too, and a tier other than T2 has another network.
    pub(crate) fn loopback(&self, spawn: &Spawn) -> Result<Option<Arc<HeldLoopback>>, OpsError> {
        let (Some(name), None, Tier::T2) = (&spawn.loopback, &spawn.egress, spawn.tier) else {
            return Ok(None);
        };
        let helper = self.helper()?;
        let bubblewrap = self.facilities.bubblewrap.as_ref().ok();
        Ok(bubblewrap.and_then(|bubblewrap| self.loopbacks.get(name, bubblewrap, &helper)))
    }

    /// A watch over a workspace for one command.
    pub(crate) fn watch(
        &self,
        jail: &Arc<Jail>,
        deep: Option<Deep>,
    ) -> Result<ProtectedWatch, OpsError> {
        ProtectedWatch::begin(jail, &self.quarantine, deep)
            .map_err(|error| OpsError::new(ErrorKind::TierUnavailable, error.to_string()))
    }

    /// A control group for one command, if control groups are available.
    pub(crate) fn group(&self) -> Result<Option<Cgroup>, OpsError> {
        let fail =
            |error: &CgroupError| OpsError::new(ErrorKind::TierUnavailable, error.to_string());
        match &self.groups {
            Ok(None) => Ok(None),
            Ok(Some(parent)) => parent.create(&self.limits).map(Some).map_err(|e| fail(&e)),
            Err(error) => Err(fail(error)),
        }
    }
}

/// Whether a directory does not lie in a workspace.
fn lies_apart(directory: &Path, root: &Path) -> bool {
    let real = std::fs::canonicalize(directory);
    !real.as_deref().unwrap_or(directory).starts_with(root)
}

/// The place for what a command tried to leave under a protected name.
fn quarantine(options: &SandboxOptions) -> Quarantine {
    let opened = options.quarantine.as_deref().map(Quarantine::open);
    opened.and_then(Result::ok).unwrap_or_else(|| {
        if let Some(path) = &options.quarantine {
            tracing::warn!(path = %path.display(), "the quarantine directory is not private; files are renamed in place instead");
        }
        Quarantine::default()
    })
}

fn unavailable(missing: &[MissingFacility]) -> OpsError {
    let reasons: Vec<String> = missing.iter().map(|missing| missing.reason()).collect();
    let remedies: Vec<&str> = missing.iter().map(|missing| missing.remedy()).collect();
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!("{} (fix: {})", reasons.join("; "), remedies.join("; ")),
    )
}
