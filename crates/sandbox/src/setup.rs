//! What this machine has for the sandboxes of a workspace, looked up once, and what each command
//! gets from it: a private directory, a control group, a watch.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, Spawn, Tier},
};

use crate::{
    cgroup::{Cgroup, CgroupError, CgroupParent},
    detect::Facilities,
    helper_flag::RUNNING,
    helper_program::{self, HelperProgram},
    jail::Jail,
    limits::Limits,
    loopback::{HeldLoopback, Loopbacks},
    missing_facility::MissingFacility,
    options::SandboxOptions,
    orphans::{BaseDirectories, DirectoryPurpose, PrivateDirectory, RuntimeDirectory},
    own_copy::{CopyError, HelperCopy},
    profile::HostView,
    protected_watch::{Deep, ProtectedWatch, Quarantine},
};

/// What this machine has for a workspace's sandboxes, looked up once.
#[derive(Debug)]
pub(crate) struct Sandbox {
    facilities: Facilities,
    /// The program that is the helper, and its copy, if it is started from one.
    program: Option<HelperProgram>,
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
    /// A copy of this program, made on first use.
    own_copy: OnceLock<Arc<HelperCopy>>,
    /// Whether a copy would lie where no command of the workspace can replace it.
    copies_lie_apart: bool,
    loopbacks: Loopbacks,
}

impl Sandbox {
    /// Finds out what this machine has for a workspace.
    pub(crate) fn look(options: &SandboxOptions, root: &Path, temporary: &Path) -> Self {
        let bases = BaseDirectories::new(options.runtime.as_deref(), temporary);
        bases.sweep();
        let view = HostView::look(&options.profile);
        let copies_lie_apart = lie_apart(&bases, &view, root);
        let (facilities, program) = Facilities::with_helper(options, root, &bases);
        Self {
            facilities,
            program,
            view,
            limits: options.limits.clone(),
            groups: CgroupParent::detect(&options.cgroup),
            quarantine: Arc::new(quarantine(options)),
            bases,
            control: OnceLock::new(),
            files: OnceLock::new(),
            own_copy: OnceLock::new(),
            copies_lie_apart,
            loopbacks: Loopbacks::default(),
        }
    }

    /// Whether what was found for one workspace applies to another at this root: everything does,
    /// except where the helper lies, or would be copied to.
    pub(crate) fn serves(&self, root: &Path) -> bool {
        let same_helper = match (&self.program, &self.facilities.helper) {
            (Some(program), _) => !program.source().starts_with(root),
            (None, Ok(_)) => true,
            (None, Err(missing)) => *missing == MissingFacility::Helper,
        };
        same_helper && self.copies_lie_apart == lie_apart(&self.bases, &self.view, root)
    }

    /// What this machine has.
    pub(crate) fn facilities(&self) -> &Facilities {
        &self.facilities
    }

    /// Which parts of the profile this machine has.
    pub(crate) fn view(&self) -> &HostView {
        &self.view
    }

    /// The helper, as a file that no command of any workspace can replace.
    pub(crate) fn helper(&self) -> Result<PathBuf, OpsError> {
        let helper = self.unconfined_helper();
        let helper = helper.map_err(|missing| unavailable(&[missing]))?;
        let is_copy = self.program.as_ref().is_some_and(HelperProgram::is_copy);
        if is_copy && !self.copies_lie_apart {
            return Err(unavailable(&[MissingFacility::HelperInWorkspace]));
        }
        if helper != Path::new(RUNNING) {
            return Ok(helper.to_owned());
        }
        if let Some(installed) = helper_program::installed_by_root() {
            return Ok(installed);
        }
        if let Some(copy) = self.own_copy.get() {
            return Ok(copy.path().to_owned());
        }
        if !self.copies_lie_apart {
            return Err(unavailable(&[MissingFacility::HelperInWorkspace]));
        }
        let copy = File::open(RUNNING).map_err(CopyError::Io);
        let copy = copy.and_then(|program| HelperCopy::of(&program, helper, &self.bases));
        let copy = copy.map_err(|error| match error {
            CopyError::NoPlace => unavailable(&[MissingFacility::PlaceForHelper]),
            CopyError::Io(error) => cannot_copy(&error),
        })?;
        Ok(self.own_copy.get_or_init(|| copy).path().to_owned())
    }

    /// The helper, for what is started outside every sandbox and needs no path of its file.
    pub(crate) fn unconfined_helper(&self) -> Result<&Path, MissingFacility> {
        let helper = self.facilities.helper.as_ref();
        helper.map(PathBuf::as_path).map_err(|missing| *missing)
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

/// Whether copies of programs would lie where no command of a workspace at this root can replace them.
fn lie_apart(bases: &BaseDirectories, view: &HostView, root: &Path) -> bool {
    let writable = view.writable.iter().map(PathBuf::as_path);
    writable.chain([root]).all(|open| bases.lie_apart(open))
}

fn cannot_copy(error: &io::Error) -> OpsError {
    let why = error.kind();
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!("the program that sets up sandboxes cannot be copied: {why}"),
    )
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
