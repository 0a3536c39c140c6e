//! Why a tier is not available on this machine and what to do about it, as commands to copy.
//!
//! [`HostFacts::gather`] collects, [`remedies`] decides and is pure, so that it can be tested for
//! machines we do not have. Control groups have their own report (`cgroup/report.rs`). Nothing here
//! changes anything: a person decides whether to run the commands.

use std::{fs, path::Path};

use haft_contract::ops::Tier;

use crate::{
    bubblewrap, gvisor,
    landlock::{ABI_FOR_T1, ABI_FOR_T2, kernel_abi},
};

/// The facts about this machine that decide which tiers are available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    /// How software is installed here.
    pub packages: Option<PackageManager>,
    /// Whether bubblewrap is installed.
    pub bubblewrap: ProgramPresence,
    /// Whether gVisor is installed.
    pub runsc: ProgramPresence,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, which some distributions add.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`.
    pub apparmor_restricts: Option<u64>,
    /// The container this runs in.
    pub container: Option<Container>,
    /// The version of Landlock; 0 if there is none.
    pub landlock: i32,
    /// The active security modules, as the kernel lists them.
    pub security_modules: Option<String>,
    /// The release of the kernel.
    pub kernel: String,
    /// Whether this process runs as root.
    pub root: bool,
}

/// Whether a program is installed where only root could have put it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramPresence {
    /// It is.
    Installed,
    /// It is not.
    #[default]
    Absent,
}

/// A way to install software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageManager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, RHEL.
    Dnf,
    /// Arch.
    Pacman,
    /// openSUSE.
    Zypper,
    /// Alpine.
    Apk,
}

/// What runs the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes.
    Kubernetes,
    /// Something else.
    Other,
}

/// A problem, and the commands that fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What is wrong, as a sentence without a full stop.
    pub problem: String,
    /// The commands that fix it, line by line.
    pub commands: Vec<String>,
}

impl Remedy {
    fn new<const N: usize>(problem: impl Into<String>, commands: [&str; N]) -> Self {
        Self {
            problem: problem.into(),
            commands: commands.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// How to make a tier available. Empty if no known problem is in the way.
pub fn remedies(facts: &HostFacts, tier: Tier) -> Vec<Remedy> {
    match tier {
        Tier::Host | Tier::InProcess => Vec::new(),
        Tier::T1 => landlock(facts, ABI_FOR_T1).into_iter().collect(),
        Tier::T2 => {
            let namespaces = user_namespaces(facts);
            install_bubblewrap(facts)
                .into_iter()
                .chain(namespaces)
                .chain(landlock(facts, ABI_FOR_T2))
                .collect()
        }
        Tier::T3 => install_gvisor(facts).into_iter().collect(),
    }
}

/// What to do when nothing seems to be missing and the tier still does not start.
pub fn last_resort(facts: &HostFacts, tier: Tier) -> Vec<Remedy> {
    match (tier, facts.container) {
        (Tier::T2, Some(container)) => vec![in_container(container)],
        (Tier::T2, None) => vec![Remedy::new(
            "this kernel or its policy keeps bubblewrap from making namespaces",
            [
                "bwrap --unshare-all --ro-bind / / true    # says why",
                "sudo dmesg | tail                         # names the policy that refused",
            ],
        )],
        (Tier::Host | Tier::InProcess | Tier::T1 | Tier::T3, _) => Vec::new(),
    }
}

fn install_bubblewrap(facts: &HostFacts) -> Option<Remedy> {
    if facts.bubblewrap == ProgramPresence::Installed {
        return None;
    }
    let problem = "bubblewrap is not installed where only root can put it";
    Some(match facts.packages {
        Some(PackageManager::Apt) => {
            Remedy::new(problem, ["sudo apt-get install --yes bubblewrap"])
        }
        Some(PackageManager::Dnf) => Remedy::new(problem, ["sudo dnf install -y bubblewrap"]),
        Some(PackageManager::Pacman) => Remedy::new(problem, ["sudo pacman -S bubblewrap"]),
        Some(PackageManager::Zypper) => Remedy::new(problem, ["sudo zypper install bubblewrap"]),
        Some(PackageManager::Apk) => Remedy::new(problem, ["sudo apk add bubblewrap"]),
        None => Remedy::new(
            problem,
            ["# install the package `bubblewrap`, 0.8 or newer, to /usr/bin/bwrap"],
        ),
    })
}

fn user_namespaces(facts: &HostFacts) -> Vec<Remedy> {
    let mut found = Vec::new();
    if facts.max_user_namespaces == Some(0) {
        found.push(Remedy::new(
            "user namespaces are turned off (user.max_user_namespaces is 0)",
            [
                "sudo sysctl -w user.max_user_namespaces=15000",
                "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-haft.conf",
            ],
        ));
    }
    if facts.unprivileged_userns_clone == Some(0) && !facts.root {
        found.push(Remedy::new(
            "only root may make user namespaces (kernel.unprivileged_userns_clone is 0)",
            [
                "sudo sysctl -w kernel.unprivileged_userns_clone=1",
                "echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-haft.conf",
            ],
        ));
    }
    found
}

/// What to do about AppArmor's restriction. A profile can exempt bubblewrap from it, so it matters
/// only if the tier does not start.
pub fn apparmor(facts: &HostFacts) -> Option<Remedy> {
    if facts.apparmor_restricts != Some(1) {
        return None;
    }
    Some(Remedy::new(
        "AppArmor keeps bubblewrap from using user namespaces \
         (kernel.apparmor_restrict_unprivileged_userns is 1); a profile can allow it for bubblewrap alone",
        [
            "printf '%s\\n' 'abi <abi/4.0>,' 'include <tunables/global>' \
             'profile bwrap /usr/bin/bwrap flags=(unconfined) {' '  userns,' '}' \
             | sudo tee /etc/apparmor.d/bwrap",
            "sudo apparmor_parser -r /etc/apparmor.d/bwrap",
            "# or for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ],
    ))
}

fn in_container(container: Container) -> Remedy {
    let problem = "the container's own confinement keeps bubblewrap from making namespaces; either \
                   allow it when the container is started, or let the container be the sandbox \
                   (`[tools.bash] sandbox = \"basic\"` uses T1 in it)";
    match container {
        Container::Docker => Remedy::new(
            problem,
            [
                "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined …",
            ],
        ),
        Container::Podman => Remedy::new(
            problem,
            ["podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …"],
        ),
        Container::Kubernetes => Remedy::new(
            problem,
            [
                "# in the pod: hostUsers: false, and in the container's securityContext: \
             seccompProfile: {type: Unconfined}, procMount: Unmasked",
            ],
        ),
        Container::Other => Remedy::new(
            problem,
            ["# allow clone, unshare and mount with new user namespaces, and an unmasked /proc"],
        ),
    }
}

fn landlock(facts: &HostFacts, needed: i32) -> Option<Remedy> {
    if facts.landlock >= needed {
        return None;
    }
    if facts.landlock > 0 {
        let since = if needed > ABI_FOR_T2 { "6.12" } else { "5.19" };
        return Some(Remedy::new(
            format!(
                "Landlock of this kernel ({}) has version {}, and {needed} is needed",
                facts.kernel, facts.landlock
            ),
            [format!("# use Linux {since} or newer").as_str()],
        ));
    }
    let modules = facts.security_modules.as_deref().unwrap_or_default().trim();
    if modules.is_empty() || modules.split(',').any(|module| module == "landlock") {
        return Some(Remedy::new(
            format!("this kernel ({}) offers no Landlock", facts.kernel),
            [
                "# use Linux 6.12 or newer with CONFIG_SECURITY_LANDLOCK=y; in a container, allow \
             landlock_create_ruleset, landlock_add_rule and landlock_restrict_self",
            ],
        ));
    }
    let grub = format!(
        "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&lsm=landlock,{modules} /' /etc/default/grub"
    );
    Some(Remedy::new(
        format!("Landlock is not among the active security modules ({modules})"),
        [grub.as_str(), "sudo update-grub && sudo reboot"],
    ))
}

fn install_gvisor(facts: &HostFacts) -> Option<Remedy> {
    if facts.runsc == ProgramPresence::Installed {
        return None;
    }
    let problem = "gVisor (runsc) is not installed; needed only to put another kernel between \
                   commands and this one";
    Some(match facts.packages {
        Some(PackageManager::Apt) => Remedy::new(problem, ["sudo apt-get install --yes runsc"]),
        Some(
            PackageManager::Dnf
            | PackageManager::Pacman
            | PackageManager::Zypper
            | PackageManager::Apk,
        )
        | None => Remedy::new(
            problem,
            ["# see https://gvisor.dev/docs/user_guide/install/ and put runsc in /usr/local/bin"],
        ),
    })
}

impl HostFacts {
    /// Collects the facts about this machine.
    pub fn gather() -> Self {
        let modules = fs::read_to_string("/sys/kernel/security/lsm").ok();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            packages: packages(),
            bubblewrap: found(bubblewrap::find().is_some()),
            runsc: found(gvisor::PLACES.iter().any(|place| Path::new(place).exists())),
            max_user_namespaces: setting("user/max_user_namespaces"),
            unprivileged_userns_clone: setting("kernel/unprivileged_userns_clone"),
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
            container: container(),
            landlock: kernel_abi().unwrap_or(0),
            security_modules: modules.map(|modules| modules.trim().to_owned()),
            kernel: kernel.trim().to_owned(),
            root: rustix::process::geteuid().is_root(),
        }
    }
}

fn found(is_there: bool) -> ProgramPresence {
    if is_there {
        ProgramPresence::Installed
    } else {
        ProgramPresence::Absent
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    text.trim().parse().ok()
}

fn packages() -> Option<PackageManager> {
    [
        ("/usr/bin/apt-get", PackageManager::Apt),
        ("/usr/bin/dnf", PackageManager::Dnf),
        ("/usr/bin/pacman", PackageManager::Pacman),
        ("/usr/bin/zypper", PackageManager::Zypper),
        ("/sbin/apk", PackageManager::Apk),
    ]
    .into_iter()
    .find(|(program, _)| Path::new(program).exists())
    .map(|(_, packages)| packages)
}

fn container() -> Option<Container> {
    let exists = |path: &str| Path::new(path).exists();
    if exists("/var/run/secrets/kubernetes.io") {
        Some(Container::Kubernetes)
    } else if exists("/run/.containerenv") {
        Some(Container::Podman)
    } else if exists("/.dockerenv") {
        Some(Container::Docker)
    } else if exists("/run/host/container-manager") || exists("/dev/lxd") {
        Some(Container::Other)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that lacks nothing.
    fn good() -> HostFacts {
        HostFacts {
            packages: Some(PackageManager::Apt),
            bubblewrap: ProgramPresence::Installed,
            runsc: ProgramPresence::Installed,
            max_user_namespaces: Some(10_000),
            unprivileged_userns_clone: Some(1),
            apparmor_restricts: Some(0),
            container: None,
            landlock: 7,
            security_modules: Some("capability,landlock,yama".to_owned()),
            kernel: "6.18.0".to_owned(),
            root: false,
        }
    }

    fn check(facts: &HostFacts, tier: Tier, expect: &[&str]) {
        let commands: Vec<String> = remedies(facts, tier)
            .into_iter()
            .flat_map(|remedy| remedy.commands)
            .collect();
        assert_eq!(commands.len(), expect.len(), "{commands:?}");
        for (command, part) in commands.iter().zip(expect) {
            assert!(command.contains(part), "{part}: {commands:?}");
        }
    }

    #[test]
    fn sb_34_a_machine_that_has_everything_needs_nothing() {
        for tier in Tier::ALL {
            check(&good(), tier, &[]);
        }
        assert_eq!(apparmor(&good()), None);
    }

    #[test]
    fn sb_34_bubblewrap_is_installed_with_what_the_machine_installs_with() {
        for (packages, command) in [
            (
                Some(PackageManager::Apt),
                "sudo apt-get install --yes bubblewrap",
            ),
            (Some(PackageManager::Dnf), "sudo dnf install -y bubblewrap"),
            (Some(PackageManager::Pacman), "sudo pacman -S bubblewrap"),
            (
                Some(PackageManager::Zypper),
                "sudo zypper install bubblewrap",
            ),
            (Some(PackageManager::Apk), "sudo apk add bubblewrap"),
            (None, "/usr/bin/bwrap"),
        ] {
            let facts = HostFacts {
                packages,
                bubblewrap: ProgramPresence::Absent,
                ..good()
            };
            check(&facts, Tier::T2, &[command]);
            check(&facts, Tier::T1, &[]);
        }
    }

    #[test]
    fn sb_34_a_kernel_setting_that_forbids_namespaces_is_named_with_its_line() {
        let facts = HostFacts {
            max_user_namespaces: Some(0),
            ..good()
        };
        let lines = [
            "sysctl -w user.max_user_namespaces=15000",
            "user.max_user_namespaces=15000 | sudo tee",
        ];
        check(&facts, Tier::T2, &lines);
        let facts = HostFacts {
            unprivileged_userns_clone: Some(0),
            ..good()
        };
        let lines = [
            "sysctl -w kernel.unprivileged_userns_clone=1",
            "kernel.unprivileged_userns_clone=1 | sudo tee",
        ];
        check(&facts, Tier::T2, &lines);
        let root = HostFacts {
            root: true,
            ..facts
        };
        check(&root, Tier::T2, &[]);
    }

    #[test]
    fn sb_34_apparmor_and_containers_have_their_own_way_out() {
        let facts = HostFacts {
            apparmor_restricts: Some(1),
            ..good()
        };
        let remedy = apparmor(&facts).expect("a remedy");
        assert!(remedy.commands.concat().contains("apparmor_parser -r"));
        for (container, part) in [
            (Container::Docker, "docker run --security-opt seccomp"),
            (Container::Podman, "podman run"),
            (Container::Kubernetes, "hostUsers: false"),
            (Container::Other, "unmasked /proc"),
        ] {
            let facts = HostFacts {
                container: Some(container),
                ..good()
            };
            let remedy = last_resort(&facts, Tier::T2);
            let commands = remedy.first().map(|remedy| remedy.commands.concat());
            assert!(commands.is_some_and(|commands| commands.contains(part)));
        }
    }

    #[test]
    fn sb_34_landlock_is_turned_on_or_the_kernel_is_too_old() {
        let off = HostFacts {
            landlock: 0,
            security_modules: Some("capability,yama,apparmor".to_owned()),
            ..good()
        };
        let lines = ["lsm=landlock,capability,yama,apparmor", "update-grub"];
        check(&off, Tier::T1, &lines);
        check(&off, Tier::T2, &lines);
        let old = HostFacts {
            landlock: 3,
            kernel: "6.1.0".to_owned(),
            ..good()
        };
        check(&old, Tier::T1, &["use Linux 6.12 or newer"]);
        check(&old, Tier::T2, &[]);
        let none = HostFacts {
            landlock: 0,
            security_modules: None,
            ..good()
        };
        check(&none, Tier::T2, &["CONFIG_SECURITY_LANDLOCK"]);
    }
}
