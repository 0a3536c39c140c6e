//! What cgroups limit on this machine and what root would have to do for the rest, for
//! `haft doctor`.

use std::{collections::BTreeMap, fs};

use super::{
    hierarchy::{self, Controller, Version},
    parent::{CgroupError, CgroupParent, CgroupSetting, DEFAULT_PARENT},
};

/// What cgroups can limit on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupReport {
    /// For each controller, which version limits it; `None` where only limits per process apply.
    pub controllers: BTreeMap<Controller, Option<Version>>,
    /// Whether the kernel can kill a whole tree at once.
    pub kills_at_once: bool,
    /// What root can do about what is missing, as commands; `None` when nothing is.
    pub remedy: Option<String>,
}

impl CgroupReport {
    /// Checks this machine by making the directories commands would be put in, and removing them
    /// again.
    pub fn look(setting: &CgroupSetting) -> Result<Self, CgroupError> {
        let parent = CgroupParent::detect(setting)?;
        let held = parent
            .as_ref()
            .map(|parent| parent.controllers())
            .unwrap_or_default();
        let wanted = [Controller::Memory, Controller::Pids, Controller::Cpu];
        let missing = wanted.iter().any(|wanted| !held.contains_key(wanted));
        Ok(Self {
            controllers: wanted
                .into_iter()
                .map(|wanted| (wanted, held.get(&wanted).copied()))
                .collect(),
            kills_at_once: parent.is_some_and(|parent| parent.kills_at_once()),
            remedy: missing.then(|| remedy(setting)),
        })
    }
}

fn remedy(setting: &CgroupSetting) -> String {
    let name = match setting {
        CgroupSetting::Below(name) => name.to_string(),
        CgroupSetting::Auto | CgroupSetting::Off => DEFAULT_PARENT.to_owned(),
    };
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let found = hierarchy::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
    commands(&found, &name)
}

/// The commands that hand a directory of each hierarchy to this user.
fn commands(found: &[hierarchy::Hierarchy], name: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let first: Vec<String> = found
        .iter()
        .filter(|other| other.version == Version::V1)
        .map(|hierarchy| hierarchy.mount.join(name).display().to_string())
        .collect();
    if !first.is_empty() {
        let directories = first.join(" ");
        return format!("mkdir -p {directories} && chown -R {user} {directories}");
    }
    match found.iter().find(|other| other.version == Version::V2) {
        // A process moves only within the subtree its user owns, so it must already be in there; and
        // a directory has only the controllers that the one above it passes on.
        Some(hierarchy) => {
            let mount = hierarchy.mount.display();
            let directory = hierarchy.mount.join(name);
            let directory = directory.display();
            format!(
                "echo '+memory +pids +cpu' > {mount}/cgroup.subtree_control && \
             mkdir -p {directory}/run && chown -R {user} {directory} && \
             echo PID_OF_YOUR_SHELL > {directory}/run/cgroup.procs; \
             or in a systemd service: Delegate=yes and DelegateSubgroup=run"
            )
        }
        None => "mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mountinfo: &str, places: &str, expect: &[&str]) {
        let text = commands(&hierarchy::parse(mountinfo, places), "haft");
        for part in expect {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn root_is_told_exactly_what_to_hand_over() {
        check(
            "1 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             1 1 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
            "2:memory:/\n1:pids:/\n",
            &[
                "chown -R",
                "/sys/fs/cgroup/memory/haft /sys/fs/cgroup/pids/haft",
            ],
        );
        check(
            "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "0::/\n",
            &[
                "'+memory +pids +cpu' > /sys/fs/cgroup/cgroup.subtree_control",
                "mkdir -p /sys/fs/cgroup/haft/run",
                "Delegate=yes",
            ],
        );
        check("", "", &["mount -t cgroup2"]);
    }

    #[test]
    fn without_cgroups_nothing_is_kept_and_a_remedy_is_named() {
        let report = CgroupReport::look(&CgroupSetting::Off).expect("a report");
        assert!(report.controllers.values().all(Option::is_none));
        assert!(!report.kills_at_once);
        assert!(report.remedy.is_some());
    }
}
