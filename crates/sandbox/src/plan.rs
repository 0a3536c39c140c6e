//! What confines one command, worked out before anything is started.
//!
//! Pure: the same request always gives the same plan; nothing here reads a disk or starts anything.
//! `haft doctor --show-sandbox` prints a plan; `launch.rs` carries it out. Start with
//! [`SandboxPlan::new`].

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use haft_contract::{
    ErrorKind,
    ops::{Layer, OpsError, Tier},
};
use haft_egress::variables;

use crate::{
    jail::FileId,
    landlock::{self, LandlockRules, Tcp},
    limits::Limits,
    mounts::{self, Mount},
    offline::OFFLINE,
    profile::SANDBOX_HOME,
    request::{CoverFile, Egress, HiddenPlace, Program, SandboxRequest, Streams},
    seccomp::{CreateCalls, SeccompRules, Sockets},
};

/// Everything that confines one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlan {
    /// The tier.
    pub tier: Tier,
    /// Its own namespaces, and the file system in them; `None` leaves it in the machine's.
    pub namespaces: Option<Namespaces>,
    /// What Landlock allows.
    pub landlock: Option<LandlockRules>,
    /// Which system calls are allowed.
    pub seccomp: Option<SeccompRules>,
    /// How much of the machine it may use; `None` is no limit.
    pub limits: Option<Limits>,
    /// How it reaches the network.
    pub egress: Option<Egress>,
    /// Files that must still be what they were when the plan was made, checked from inside.
    pub identities: Vec<(PathBuf, FileId)>,
    /// What to run.
    pub program: Program,
    /// Its arguments, starting with its name.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
    /// The root of the workspace.
    pub root: PathBuf,
    /// The directory it starts in, below the root.
    pub cwd: PathBuf,
    /// What its standard streams are.
    pub streams: Streams,
}

/// A command's own namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// The file system it sees, in the order it is mounted.
    pub mounts: Vec<Mount>,
    /// The host name it sees.
    pub hostname: &'static str,
}

impl SandboxPlan {
    /// Works out what confines a command. Fails for a tier that confines nothing, and for a
    /// workspace whose path conflicts with the sandbox's own places.
    pub fn new(request: SandboxRequest<'_>) -> Result<Self, OpsError> {
        let own_namespaces = match request.tier {
            Tier::T2 | Tier::T3 => true,
            Tier::T1 => false,
            Tier::Host | Tier::InProcess => {
                return Err(OpsError::new(
                    ErrorKind::TierUnavailable,
                    format!("tier `{}` has no sandbox", request.tier),
                ));
            }
        };
        let home = mounts::home(request.view, &request.workspace.root);
        check_place(&request.workspace.root, home)?;
        let has = |layer| !request.without.contains(&layer);
        let (view, workspace) = (request.view, &request.workspace);
        let apart = own_namespaces && has(Layer::Namespaces);
        let user = account(&request.environment);
        let namespaces = apart.then(|| Namespaces {
            mounts: mounts::mounts(
                view,
                workspace,
                request.cover.as_ref(),
                request.egress.as_ref(),
                request.limits,
                request.helper,
                user,
            ),
            hostname: "haft",
        });
        let landlock = has(Layer::Landlock).then(|| {
            if apart {
                landlock::behind_mounts(view, workspace, home)
            } else {
                landlock::alone(view, workspace, &request.private)
            }
        });
        let creating = if has(Layer::Protected) {
            CreateCalls::Watched
        } else {
            CreateCalls::Unwatched
        };
        let mut identities = vec![(workspace.root.clone(), workspace.identity)];
        if apart {
            identities.extend(
                workspace
                    .protected
                    .iter()
                    .map(|protected| (workspace.root.join(&protected.path), protected.identity)),
            );
            identities.extend(workspace.hidden.iter().filter_map(|hidden| {
                let found = found_at(hidden, request.tier, request.cover.as_ref())?;
                Some((hidden.path().to_owned(), found))
            }));
        }
        let environment = environment(&request, home, apart);
        Ok(Self {
            tier: request.tier,
            namespaces,
            landlock,
            seccomp: has(Layer::Seccomp).then(|| SeccompRules::of(request.tier, creating)),
            limits: has(Layer::Limits).then(|| request.limits.clone()),
            egress: request.egress,
            identities,
            program: request.program,
            arguments: request.arguments,
            environment,
            root: request.workspace.root,
            cwd: request.cwd,
            streams: request.streams,
        })
    }
}

/// What the init must find at a hidden place: in T2, where it looks from inside, the cover of a
/// file, and an unknown new file system over a directory; in T3, where it looks from outside, still
/// what was to be hidden.
fn found_at(hidden: &HiddenPlace, tier: Tier, cover: Option<&CoverFile>) -> Option<FileId> {
    match (tier, hidden) {
        (
            Tier::T3,
            HiddenPlace::Directory { identity, .. } | HiddenPlace::File { identity, .. },
        ) => Some(*identity),
        (_, HiddenPlace::File { .. }) => cover.map(|cover| cover.identity),
        (_, HiddenPlace::Directory { .. }) => None,
    }
}

/// Fails if a workspace lies above or in the places a sandbox needs for itself.
fn check_place(root: &Path, home: &Path) -> Result<(), OpsError> {
    let mut below = ["/usr", "/etc", "/tmp"].map(Path::new).into_iter();
    let above = below.find(|place| place.starts_with(root));
    // A workspace may lie in the home, as most do, but not contain it.
    let reserved = mounts::reserved(root).map(Path::new);
    let is_home = |place: &&Path| *place == Path::new(SANDBOX_HOME) && !home.starts_with(root);
    let reserved = reserved.filter(|place| !is_home(place));
    match reserved.or(above) {
        None => Ok(()),
        Some(place) => Err(OpsError::new(
            ErrorKind::TierUnavailable,
            format!(
                "a workspace that covers `{}` or lies in it cannot be sandboxed; use a separate \
                 directory",
                place.display()
            ),
        )),
    }
}

/// The name of the command's account: the user's, if it can be written into a list of accounts.
fn account(environment: &BTreeMap<String, String>) -> &str {
    /// The longest name, in bytes, that tools for accounts accept.
    const MAX_BYTES: usize = 32;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let named = environment.get("USER").map(String::as_str);
    named
        .filter(|name| !name.is_empty() && name.len() <= MAX_BYTES && name.bytes().all(is_part))
        .unwrap_or("haft")
}

/// The environment, with the variables that follow from what the sandbox shows.
fn environment(request: &SandboxRequest<'_>, home: &Path, apart: bool) -> BTreeMap<String, String> {
    let mut environment = request.environment.clone();
    let places = request.view.variables.iter();
    let places = places.map(|(name, value)| (name.as_str(), value.as_str()));
    let offline = OFFLINE.into_iter().filter(|_| request.egress.is_none());
    for (name, value) in places.chain(offline) {
        // The operator's own word wins.
        environment
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    let (home, temporary) = if apart {
        (home.to_owned(), PathBuf::from("/tmp"))
    } else {
        (request.private.join("home"), request.private.join("tmp"))
    };
    let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
    set("HOME", home.display().to_string());
    set("TMPDIR", temporary.display().to_string());
    set("PATH", search_path(request));
    if let Some(egress) = &request.egress {
        for (name, value) in variables(egress.port) {
            set(name, value);
        }
    }
    environment
}

/// Where programs are looked for: as the user's own shell does, where that is known. Toolchains
/// that are not on their path come before the system, and what a back end always searches comes
/// last. Nothing in the workspace, where an agent writes.
fn search_path(request: &SandboxRequest<'_>) -> String {
    let (view, root) = (request.view, &request.workspace.root);
    let usual = request.environment.get("PATH").map_or("", String::as_str);
    let is_system = |place: &PathBuf| {
        let links = view.links.iter().map(|(at, _)| at);
        let mut system = view.directories.iter().chain(links);
        system.any(|directory| place.starts_with(directory))
    };
    let first = view.search.iter().position(is_system);
    let (own, system) = view
        .search
        .split_at_checked(first.unwrap_or(view.search.len()))
        .unwrap_or_default();
    let rest = view
        .programs
        .iter()
        .filter(|place| !view.search.contains(place));
    let mut search: Vec<String> = Vec::new();
    let known = own.iter().chain(rest).chain(system);
    let known = known.filter(|place| !place.starts_with(root));
    let texts = known.map(|place| place.display().to_string());
    for place in texts.chain(usual.split(':').map(str::to_owned)) {
        if !place.is_empty() && !search.contains(&place) {
            search.push(place);
        }
    }
    search.join(":")
}

impl fmt::Display for SandboxPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tier {}", self.tier)?;
        writeln!(f, "\nruns")?;
        writeln!(f, "  {}", self.arguments.join(" ").escape_debug())?;
        writeln!(f, "  in {}", self.root.join(&self.cwd).display())?;
        writeln!(f, "\nnamespaces")?;
        match &self.namespaces {
            None => writeln!(f, "  the machine's own")?,
            Some(namespaces) => {
                writeln!(
                    f,
                    "  user, pid, net, ipc, uts, cgroup of its own; host name {}",
                    namespaces.hostname
                )?;
                for mount in &namespaces.mounts {
                    writeln!(f, "  {mount}")?;
                }
            }
        }
        writeln!(f, "\nlandlock")?;
        match &self.landlock {
            None => writeln!(f, "  off")?,
            Some(rules) => {
                for rule in &rules.places {
                    let may = rule.may.to_string();
                    writeln!(f, "  {may:<14} {}", rule.place.display())?;
                }
                match rules.tcp {
                    Tcp::Free => {}
                    Tcp::Denied => writeln!(f, "  no TCP")?,
                }
            }
        }
        writeln!(f, "\nsystem calls")?;
        match self.seccomp {
            None => writeln!(f, "  all")?,
            Some(rules) => {
                writeln!(f, "  {} allowed, all others refused", rules.allowed())?;
                match rules.sockets {
                    Sockets::Pairs => writeln!(f, "  no sockets but connected pairs")?,
                    Sockets::OwnNetwork => {
                        writeln!(f, "  sockets: unix, inet, inet6, netlink route")?;
                    }
                }
                match rules.creating {
                    CreateCalls::Unwatched => {}
                    CreateCalls::Watched => writeln!(f, "  creating a protected name is refused")?,
                }
            }
        }
        writeln!(f, "\nlimits")?;
        match &self.limits {
            None => writeln!(f, "  none")?,
            Some(limits) => writeln!(
                f,
                "  {} processes, {} MiB memory, {} s processor time, {} MiB a file, {} open files",
                limits.processes,
                limits.memory_bytes >> 20,
                limits.cpu_time.as_secs(),
                limits.file_bytes >> 20,
                limits.open_files
            )?,
        }
        writeln!(f, "\nnetwork")?;
        match &self.egress {
            None => writeln!(f, "  none")?,
            Some(egress) => writeln!(f, "  the proxy, at 127.0.0.1:{}", egress.port)?,
        }
        writeln!(f, "\nenvironment")?;
        for (name, value) in &self.environment {
            writeln!(f, "  {name}={}", value.escape_debug())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        profile::HostView,
        request::{CoveredMount, ProtectedPlace, ProtectionHold, Workspace},
    };

    const ID: FileId = FileId {
        device: 1,
        inode: 2,
    };

    fn view() -> HostView {
        HostView {
            directories: vec!["/usr".into()],
            links: vec![("/bin".into(), "usr/bin".into())],
            settings: vec!["/etc/ssl".into()],
            home: Some("/home/me".into()),
            git_settings: Some("[user]\n".to_owned()),
            toolchains: vec!["/home/me/.cargo/bin".into(), "/home/me/.nvm".into()],
            credentials: Vec::new(),
            caches: vec!["/home/me/.npm/_cacache".into()],
            programs: vec!["/home/me/.cargo/bin".into()],
            variables: [("CARGO_HOME".to_owned(), "/home/me/.cargo".to_owned())].into(),
            search: vec!["/home/me/.nvm/bin".into(), "/usr/games".into()],
            read_only: vec!["/data".into()],
            writable: vec!["/cache".into()],
            user: 1000,
            group: 1000,
        }
    }

    fn plan(tier: Tier, root: &str, without: &[Layer]) -> Result<SandboxPlan, OpsError> {
        SandboxPlan::new(SandboxRequest {
            tier,
            view: &view(),
            workspace: Workspace {
                root: root.into(),
                identity: ID,
                protected: vec![
                    ProtectedPlace {
                        path: ".git".into(),
                        identity: ID,
                        hold: ProtectionHold::InPlace,
                    },
                    ProtectedPlace {
                        path: ".git/config".into(),
                        identity: ID,
                        hold: ProtectionHold::ReadOnly,
                    },
                ],
                covered: vec![CoveredMount::Directory("/srv/app/mnt".into())],
                hidden: vec![
                    HiddenPlace::File {
                        at: "/srv/app/.env".into(),
                        identity: ID,
                    },
                    HiddenPlace::Directory {
                        at: "/srv/app/secrets".into(),
                        identity: ID,
                    },
                ],
            },
            cover: Some(CoverFile {
                path: "/run/user/1000/haft/empty".into(),
                identity: ID,
            }),
            private: "/tmp/private".into(),
            egress: None,
            limits: &Limits::default(),
            helper: Path::new("/usr/bin/haft"),
            program: Program::Named("bash".to_owned()),
            arguments: vec!["bash".to_owned(), "-c".to_owned(), "true".to_owned()],
            environment: [("PATH".to_owned(), "/usr/bin".to_owned())].into(),
            cwd: "src".into(),
            streams: Streams::Pipes(3),
            without: &without.iter().copied().collect(),
        })
    }

    fn places(plan: &SandboxPlan) -> Vec<String> {
        let namespaces = plan.namespaces.as_ref().expect("namespaces");
        namespaces.mounts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_protected_lies_on_top_of_the_workspace_and_the_root_is_sealed_last() {
        let plan = plan(Tier::T2, "/srv/app", &[]).unwrap();
        let places = places(&plan);
        let at = |text: &str| {
            places
                .iter()
                .position(|place| place.starts_with(text))
                .unwrap_or_else(|| panic!("{text}: {places:#?}"))
        };
        assert!(at("writable   /cache") < at("writable   /srv/app"));
        assert!(at("in memory  /tmp") < at("writable   /srv/app"));
        assert!(at("writable   /srv/app") < at("writable   /srv/app/.git"));
        assert!(at("writable   /srv/app") < at("in memory  /srv/app/mnt"));
        assert!(at("in memory  /srv/app/mnt") < at("sealed     /srv/app/mnt"));
        assert!(at("writable   /srv/app/.git") < at("in memory  /srv/app/mnt"));
        assert!(at("in memory  /srv/app/mnt") < at("read-only  /srv/app/.env  from /run"));
        assert!(at("in memory  /srv/app/secrets") < at("sealed     /srv/app/secrets"));
        assert!(at("writable   /srv/app/.git") < at("read-only  /srv/app/.git/config"));
        assert_eq!(places.last().unwrap(), "sealed     /");
        assert_eq!(plan.identities.len(), 4);
        let search = "/home/me/.nvm/bin:/home/me/.cargo/bin:/usr/games:/usr/bin";
        assert_eq!(plan.environment["PATH"], search);
        assert_eq!(plan.environment["HOME"], "/home/me");
        assert_eq!(plan.environment["CARGO_HOME"], "/home/me/.cargo");
        assert_eq!(plan.environment["CARGO_NET_OFFLINE"], "true");
    }

    #[test]
    fn only_the_workspace_and_places_in_memory_may_be_changed() {
        let plan = plan(Tier::T2, "/srv/app", &[]).unwrap();
        let changed: Vec<_> = plan
            .landlock
            .unwrap()
            .places
            .into_iter()
            .filter(|rule| rule.may == landlock::PathRights::Change)
            .map(|rule| rule.place.display().to_string())
            .collect();
        assert_eq!(
            changed,
            ["/dev/shm", "/tmp", "/home/me", "/cache", "/srv/app"]
        );
    }

    #[test]
    fn without_namespaces_every_place_is_named_and_there_is_no_network() {
        let plan = plan(Tier::T1, "/srv/app", &[]).unwrap();
        assert_eq!(plan.namespaces, None);
        let rules = plan.landlock.unwrap();
        assert_eq!(rules.tcp, Tcp::Denied);
        assert!(rules.places.iter().all(|rule| rule.place != Path::new("/")));
        assert_eq!(plan.seccomp.unwrap().sockets, Sockets::Pairs);
        assert_eq!(plan.environment["HOME"], "/tmp/private/home");
    }

    #[test]
    fn a_layer_left_out_leaves_the_others() {
        let plan = plan(Tier::T2, "/srv/app", &[Layer::Landlock]).unwrap();
        assert_eq!(plan.landlock, None);
        assert!(plan.namespaces.is_some() && plan.seccomp.is_some() && plan.limits.is_some());
    }

    #[test]
    fn a_workspace_over_the_sandboxs_own_places_is_refused() {
        for root in ["/", "/usr", "/tmp", "/home", "/proc/self", "/dev/shm/x"] {
            let error = plan(Tier::T2, root, &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TierUnavailable, "{root}");
        }
        assert!(plan(Tier::T2, "/usr/src/app", &[]).is_ok());
        assert!(plan(Tier::T2, "/home/haft/x", &[]).is_ok());
        assert!(plan(Tier::Host, "/srv/app", &[]).is_err());
    }

    #[test]
    fn beside_a_workspace_in_the_home_nothing_can_be_written() {
        let listed = places(&plan(Tier::T2, "/home/me/src/app", &[]).unwrap());
        let at = |text: &str| listed.iter().position(|place| place == text).unwrap();
        let home = at("in memory  /home/me  1024 MiB");
        assert!(home < at("made up    /home/me/.gitconfig"));
        assert!(home < at("in memory  /home/me/src  0 MiB"));
        assert!(at("in memory  /home/me/src  0 MiB") < at("writable   /home/me/src/app"));
        assert!(at("writable   /home/me/src/app") < at("sealed     /home/me/src"));
        let direct = places(&plan(Tier::T2, "/home/me/app", &[]).unwrap());
        assert!(!direct.contains(&"sealed     /home/me/app".to_owned()));
    }

    #[test]
    fn a_workspace_that_contains_the_home_does_not_become_it() {
        let plan = plan(Tier::T2, "/home/me", &[]).unwrap();
        assert_eq!(plan.environment["HOME"], "/home/haft");
        assert_eq!(plan.environment["PATH"], "/usr/games:/usr/bin");
    }

    #[test]
    fn a_name_that_is_no_account_is_not_written_into_the_list_of_accounts() {
        for (user, account) in [("dana", "dana"), ("x:0:0\nroot", "haft"), ("", "haft")] {
            let environment = [("USER".to_owned(), user.to_owned())].into();
            assert_eq!(super::account(&environment), account);
        }
    }

    #[test]
    fn a_person_can_read_it() {
        let text = plan(Tier::T2, "/srv/app", &[]).unwrap().to_string();
        for line in [
            "tier t2",
            "  read-only  /srv/app/.git/config",
            "  change         /srv/app",
            "  in memory  /tmp  1024 MiB",
            "  HOME=/home/me",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}
