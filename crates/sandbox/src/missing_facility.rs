//! What a tier needs and a machine may lack, and what to do about it.

/// Something a tier needs and this machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFacility {
    /// No program that answers as a helper.
    Helper,
    /// The helper lies in the workspace, where a command could replace it.
    HelperInWorkspace,
    /// No private directory from which the helper's copy can be started.
    PlaceForHelper,
    /// Bubblewrap is not installed where only root could have put it.
    Bubblewrap,
    /// gVisor is not installed where only root could have put it.
    Gvisor,
    /// The kernel does not let users make user namespaces.
    UserNamespaces,
    /// The kernel's Landlock is absent or too old.
    Landlock {
        /// The version found.
        found: i32,
        /// The version needed.
        needed: i32,
    },
    /// The kernel cannot hand system calls over to a supervisor.
    Seccomp,
}

impl MissingFacility {
    /// What is missing, as a sentence without a full stop.
    pub fn reason(self) -> String {
        match self {
            Self::Helper => {
                "this program does not set up sandboxes, and none that does is installed".to_owned()
            }
            Self::HelperInWorkspace => {
                "the program that sets up sandboxes lies in the workspace".to_owned()
            }
            Self::PlaceForHelper => {
                "no program can be started from the directory for temporary files, where the program \
                 that sets up sandboxes is copied to"
                    .to_owned()
            }
            Self::Bubblewrap => "bubblewrap is not installed".to_owned(),
            Self::Gvisor => "gVisor's `runsc` is not installed".to_owned(),
            Self::UserNamespaces => "this kernel does not let users create namespaces".to_owned(),
            Self::Landlock { found: 0, needed } => {
                format!("this kernel has no Landlock, and version {needed} is needed")
            }
            Self::Landlock { found, needed } => {
                format!("this kernel has Landlock version {found}, and version {needed} is needed")
            }
            Self::Seccomp => "this kernel cannot filter system calls".to_owned(),
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Helper => {
                "add the line `haft::helper::exit_if_asked();` as the first of a `main` that is not \
                 `async`, before any thread is started; or, for tests, have a `haft` of the same \
                 version on `PATH`, or name it in `HAFT_HELPER`"
            }
            Self::HelperInWorkspace => "name a helper outside the workspace",
            Self::PlaceForHelper => {
                "install this program where only root can replace it, as in `/usr/local/bin`, or mount \
                 `/tmp` or the user's runtime directory without `noexec`"
            }
            Self::Bubblewrap => "apt-get install bubblewrap",
            Self::Gvisor => "apt-get install runsc",
            Self::UserNamespaces => {
                "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Self::Landlock { .. } => {
                "boot with `lsm=landlock,…`, or use a newer kernel (5.19 for T2, 6.12 for T1)"
            }
            Self::Seccomp => "use a kernel with CONFIG_SECCOMP_FILTER, 5.19 or newer",
        }
    }
}
