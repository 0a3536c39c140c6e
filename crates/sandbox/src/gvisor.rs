//! Tier 3: a sandbox plan as a bundle for `runsc`, which runs the command on its own kernel
//! (gVisor) instead of this machine's. Writes files and builds a command line; `launch.rs` starts
//! it, below the same init as any other tier, so that it ends when Haft does.
//!
//! Must not pretend: what the plan asks for and this tier cannot do is an error. An unprivileged
//! user is root inside, but a root that owns only what the user owns outside and has no
//! capabilities.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Component, Path, PathBuf},
};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, Tier},
};
use serde::Serialize;

use crate::{
    limits::{LimitKeepers, ProcessResource},
    mounts::{INIT, Mount},
    plan::SandboxPlan,
    request::{Program, Streams},
};

/// Where `runsc` is looked for. Never in a search path, which might include a workspace.
pub(super) const PLACES: [&str; 3] = [
    "/usr/bin/runsc",
    "/usr/local/bin/runsc",
    "/opt/gvisor/runsc",
];

/// The root directory, below the bundle.
const ROOT: &str = "root";

/// The state of `runsc`, below the bundle, so that it is removed with it.
const STATE: &str = "state";

/// Files that are mounted, below the bundle.
const MADE: &str = "made";

/// Keeps gVisor from giving the command this machine's network or Unix sockets.
const CONFINED: [&str; 3] = ["--network=none", "--host-uds=none", "--ignore-cgroups"];

/// The configuration for `runsc`, and what its root directory must hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    config: String,
    links: Vec<(PathBuf, PathBuf)>,
    files: Vec<(PathBuf, String)>,
    directories: Vec<PathBuf>,
    /// Files that lie in an empty file system of the plan, where only a mount can put them. The
    /// index of each is its name below [`MADE`].
    made: Vec<String>,
}

/// Who runs `runsc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// The machine's root; the command runs as this user and group.
    Root {
        /// The user.
        user: u32,
        /// The group.
        group: u32,
    },
    /// Anybody else.
    User,
}

impl Runner {
    /// The user this process runs as. The machine's root runs commands as itself, as in every other
    /// tier.
    fn this_process() -> Self {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        if user.is_root() {
            Self::Root {
                user: user.as_raw(),
                group: group.as_raw(),
            }
        } else {
            Self::User
        }
    }
}

/// Writes the bundle of a plan to a directory that is empty and private, and returns the plan that
/// runs it: `runsc` below an init, without confinement around it.
pub(crate) fn wrap(
    plan: &SandboxPlan,
    runsc: &Path,
    directory: &Path,
    id: &str,
) -> Result<SandboxPlan, OpsError> {
    let runner = Runner::this_process();
    Bundle::new(plan, runner)?
        .write(directory)
        .map_err(|error| {
            let why = format!("the bundle for gVisor cannot be written: {}", error.kind());
            OpsError::new(ErrorKind::TierUnavailable, why)
        })?;
    Ok(SandboxPlan {
        tier: plan.tier,
        namespaces: None,
        landlock: None,
        seccomp: None,
        limits: None,
        egress: None,
        identities: plan.identities.clone(),
        program: Program::Path(runsc.display().to_string()),
        arguments: arguments(runsc, directory, id, runner),
        environment: BTreeMap::new(),
        root: directory.to_owned(),
        cwd: ".".into(),
        streams: plan.streams,
    })
}

impl Bundle {
    /// The bundle for a plan.
    pub(super) fn new(plan: &SandboxPlan, runner: Runner) -> Result<Self, OpsError> {
        let namespaces = plan
            .namespaces
            .as_ref()
            .ok_or_else(|| cannot("run without namespaces"))?;
        if plan.egress.is_some() {
            return Err(cannot("reach a network"));
        }
        let mut places = namespaces.mounts.iter().map(Mount::at);
        if let Some(place) = places.find(|place| place.to_str().is_none()) {
            let what = "show or hide a place whose name is not UTF-8";
            let place = place.display();
            return Err(cannot(&format!("{what} (rename `{place}`)")));
        }
        let mut bundle = Self {
            config: String::new(),
            links: Vec::new(),
            files: Vec::new(),
            directories: Vec::new(),
            made: Vec::new(),
        };
        let mounts = namespaces
            .mounts
            .iter()
            .filter_map(|mount| bundle.mount(mount))
            .collect();
        let config = Config {
            oci_version: "1.0.0",
            process: process(plan, runner)?,
            root: Root {
                path: ROOT,
                readonly: true,
            },
            hostname: namespaces.hostname,
            mounts,
            linux: Linux {
                namespaces: ["pid", "mount", "ipc", "uts", "network"]
                    .map(|kind| Namespace { kind }),
            },
        };
        bundle.config =
            serde_json::to_string(&config).map_err(|_| cannot("take this command line"))?;
        Ok(bundle)
    }

    /// Writes the bundle to a directory that is empty and private.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let make = |path: &Path| {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o755).create(path)
        };
        let root = directory.join(ROOT);
        make(&root)?;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(directory.join(STATE))?;
        for path in &self.directories {
            make(&below(&root, path))?;
        }
        for (at, target) in &self.links {
            symlink(target, below(&root, at))?;
        }
        for (at, text) in &self.files {
            let path = below(&root, at);
            path.parent().map_or(Ok(()), make)?;
            fs::write(path, text)?;
        }
        make(&directory.join(MADE))?;
        for (index, text) in self.made.iter().enumerate() {
            fs::write(directory.join(MADE).join(index.to_string()), text)?;
        }
        fs::write(directory.join("config.json"), &self.config)
    }

    /// One mount for `runsc`; `None` for what it mounts itself, what it does not need, and what is
    /// put into the root directory instead.
    fn mount(&mut self, mount: &Mount) -> Option<OciMount> {
        let bind = |source: &PathBuf, at: &PathBuf, access| OciMount {
            destination: at.clone(),
            kind: "bind",
            source: source.clone(),
            options: vec!["rbind".to_owned(), String::from(access)],
        };
        match mount {
            // gVisor starts the command itself.
            Mount::ReadOnly { at, .. } if at == Path::new(INIT) => None,
            Mount::ReadOnly { source, at } => Some(bind(source, at, "ro")),
            Mount::Writable { source, at } => Some(bind(source, at, "rw")),
            Mount::Link { target, at } => {
                self.links.push((at.clone(), target.clone()));
                None
            }
            Mount::Memory { at, bytes, mode } => {
                // It has its own `/dev`, which exists only once it runs.
                if !at.starts_with("/dev") {
                    self.directories.push(at.clone());
                }
                Some(OciMount {
                    destination: at.clone(),
                    kind: "tmpfs",
                    source: "tmpfs".into(),
                    options: vec![format!("size={bytes}"), format!("mode={mode:o}")],
                })
            }
            Mount::File { at, text } if self.is_in_memory(at) => {
                // Relative to the bundle.
                let source = Path::new(MADE).join(self.made.len().to_string());
                self.made.push(text.clone());
                Some(bind(&source, at, "ro"))
            }
            Mount::File { at, text } => {
                self.files.push((at.clone(), text.clone()));
                None
            }
            Mount::Processes { at } => Some(OciMount {
                destination: at.clone(),
                kind: "proc",
                source: "proc".into(),
                options: Vec::new(),
            }),
            // It has its own devices, and its root is read-only.
            Mount::Devices { .. } | Mount::Seal { .. } => None,
        }
    }

    /// Whether a path lies in an empty file system that was mounted before it.
    fn is_in_memory(&self, path: &Path) -> bool {
        self.directories.iter().any(|place| path.starts_with(place))
    }
}

/// The command line that runs a bundle, starting with the program.
pub(super) fn arguments(runsc: &Path, bundle: &Path, id: &str, runner: Runner) -> Vec<String> {
    let mut arguments = vec![
        runsc.display().to_string(),
        format!("--root={}", bundle.join(STATE).display()),
    ];
    match runner {
        Runner::Root { .. } => {}
        Runner::User => arguments.push("--rootless".to_owned()),
    }
    arguments.extend(CONFINED.map(str::to_owned));
    arguments.extend([
        "run".to_owned(),
        "--bundle".to_owned(),
        bundle.display().to_string(),
        id.to_owned(),
    ]);
    arguments
}

fn process(plan: &SandboxPlan, runner: Runner) -> Result<Process, OpsError> {
    let terminal = match plan.streams {
        Streams::Terminal => true,
        Streams::Pipes(0..=3) => false,
        Streams::Pipes(_) => return Err(cannot("give a command more than three streams")),
    };
    let (uid, gid) = match runner {
        Runner::Root { user, group } => (user, group),
        // The only account inside: this user, with what they own outside.
        Runner::User => (0, 0),
    };
    let mut args = plan.arguments.clone();
    match (&plan.program, args.first_mut()) {
        (Program::Path(path) | Program::Named(path), Some(first)) => first.clone_from(path),
        (Program::Path(_) | Program::Named(_), None) => return Err(cannot("run nothing")),
        (Program::Descriptor(_), _) => return Err(cannot("run a program pinned by its hash")),
    }
    let rlimits = plan.limits.iter().flat_map(|limits| {
        limits
            .per_process(LimitKeepers::CGROUP)
            .into_iter()
            .map(|limit| OciLimit {
                kind: match limit.resource {
                    ProcessResource::Processes => "RLIMIT_NPROC",
                    ProcessResource::Data => "RLIMIT_DATA",
                    ProcessResource::Cpu => "RLIMIT_CPU",
                    ProcessResource::FileSize => "RLIMIT_FSIZE",
                    ProcessResource::OpenFiles => "RLIMIT_NOFILE",
                    ProcessResource::Core => "RLIMIT_CORE",
                },
                soft: limit.soft,
                hard: limit.hard,
            })
    });
    Ok(Process {
        terminal,
        user: User { uid, gid },
        args,
        env: plan
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        cwd: plan.root.join(&plan.cwd),
        capabilities: Capabilities::default(),
        no_new_privileges: true,
        rlimits: rlimits.collect(),
    })
}

fn cannot(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!("tier `{}` cannot {what}; tier `{}` can", Tier::T3, Tier::T2),
    )
}

/// A path of the sandbox below the bundle's root. A plan cannot contain `..`, and it would not lead
/// out either.
fn below(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    root.iter().chain(parts).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    oci_version: &'static str,
    process: Process,
    root: Root,
    hostname: &'static str,
    mounts: Vec<OciMount>,
    linux: Linux,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    terminal: bool,
    user: User,
    args: Vec<String>,
    env: Vec<String>,
    cwd: PathBuf,
    capabilities: Capabilities,
    no_new_privileges: bool,
    rlimits: Vec<OciLimit>,
}

#[derive(Serialize)]
struct User {
    uid: u32,
    gid: u32,
}

/// All sets empty.
#[derive(Serialize, Default)]
struct Capabilities {
    bounding: [&'static str; 0],
    effective: [&'static str; 0],
    inheritable: [&'static str; 0],
    permitted: [&'static str; 0],
    ambient: [&'static str; 0],
}

#[derive(Serialize)]
struct OciLimit {
    #[serde(rename = "type")]
    kind: &'static str,
    soft: u64,
    hard: u64,
}

#[derive(Serialize)]
struct Root {
    path: &'static str,
    readonly: bool,
}

#[derive(Serialize)]
struct OciMount {
    destination: PathBuf,
    #[serde(rename = "type")]
    kind: &'static str,
    source: PathBuf,
    options: Vec<String>,
}

#[derive(Serialize)]
struct Linux {
    namespaces: [Namespace; 5],
}

#[derive(Serialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, os::unix::fs::MetadataExt, process::Command};

    use super::*;
    use crate::{
        HostView, Limits, Profile,
        jail::FileId,
        profile::SANDBOX_HOME,
        request::{SandboxRequest, Workspace},
    };

    fn plan(root: &Path, script: &str, streams: Streams) -> SandboxPlan {
        let stat = fs::metadata(root).expect("a root");
        SandboxPlan::new(SandboxRequest {
            tier: Tier::T3,
            view: &HostView::look(&Profile::default()),
            workspace: Workspace {
                root: root.to_owned(),
                identity: FileId {
                    device: stat.dev(),
                    inode: stat.ino(),
                },
                protected: Vec::new(),
                covered: Vec::new(),
                hidden: Vec::new(),
            },
            cover: None,
            private: "/nonexistent".into(),
            egress: None,
            limits: &Limits::default(),
            helper: Path::new("/usr/bin/haft"),
            program: Program::Named("sh".to_owned()),
            arguments: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
            environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            cwd: PathBuf::new(),
            streams,
            without: &BTreeSet::new(),
        })
        .expect("a plan")
    }

    fn runner() -> Runner {
        match rustix::process::geteuid().as_raw() {
            0 => Runner::Root { user: 0, group: 0 },
            _ => Runner::User,
        }
    }

    /// Runs a script and returns its output and exit code.
    fn run(root: &Path, script: &str) -> (String, Option<i32>) {
        let directory = tempfile::tempdir().expect("a directory");
        let bundle =
            Bundle::new(&plan(root, script, Streams::Pipes(3)), runner()).expect("a bundle");
        bundle.write(directory.path()).expect("written");
        let runsc = Path::new("/usr/bin/runsc");
        let [program, rest @ ..] = &*arguments(runsc, directory.path(), "t", runner()) else {
            panic!("no arguments");
        };
        let output = Command::new(program)
            .args(rest)
            .env_clear()
            .output()
            .expect("runsc, from the package of that name, is installed");
        let text = [output.stdout, output.stderr].concat();
        (
            String::from_utf8_lossy(&text).into_owned(),
            output.status.code(),
        )
    }

    #[test]
    #[ignore = "ci: needs gVisor"]
    fn sb_38_the_kernel_is_gvisors_and_the_machines_places_are_not_there() {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("in"), "from outside\n").expect("written");
        let secret = tempfile::tempdir().expect("a directory");
        fs::write(secret.path().join("canary"), "hunter2").expect("written");
        let script = format!(
            "dmesg; uname -r; cat in; echo made > out; pwd; echo $HOME; id -u; \
             cat {}/canary; echo x > /usr/x; echo x > /etc/x; exit 7",
            secret.path().display()
        );
        let (text, code) = run(root.path(), &script);
        assert_eq!(code, Some(7), "{text}");
        assert!(text.contains("Starting gVisor"), "{text}");
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("read");
        assert!(!text.contains(release.trim()), "{text}");
        assert!(text.contains("from outside"), "{text}");
        assert!(
            text.contains(&format!("{}\n{SANDBOX_HOME}\n", root.path().display())),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(
            fs::read_to_string(root.path().join("out")).expect("made"),
            "made\n"
        );
        assert_eq!(text.matches("cannot create").count(), 2, "{text}");
        assert!(!Path::new("/usr/x").exists() && !Path::new("/etc/x").exists());
        let made = fs::metadata(root.path().join("out")).expect("made");
        assert_eq!(made.uid(), rustix::process::geteuid().as_raw());
        // The control: outside, the canary can be read.
        assert_eq!(
            fs::read(secret.path().join("canary")).expect("read"),
            b"hunter2"
        );
    }

    #[test]
    fn what_this_tier_cannot_do_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        let check = |change: fn(&mut SandboxPlan), why: &str| {
            let mut plan = plan(root.path(), "true", Streams::Pipes(3));
            change(&mut plan);
            let error = Bundle::new(&plan, runner()).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::TierUnavailable);
            assert!(error.to_string().contains(why), "{error}");
        };
        check(|plan| plan.streams = Streams::Pipes(4), "three streams");
        check(|plan| plan.program = Program::Descriptor(3), "pinned");
        check(|plan| plan.namespaces = None, "namespaces");
        let egress = |plan: &mut SandboxPlan| {
            plan.egress = Some(crate::request::Egress {
                socket: "/x".into(),
                port: 1,
                forwards: Vec::new(),
            });
        };
        check(egress, "network");
    }

    #[test]
    fn a_command_line_gives_nothing_of_the_machines_network() {
        let line = arguments(
            Path::new("/usr/bin/runsc"),
            Path::new("/b"),
            "7",
            Runner::User,
        );
        assert_eq!(
            line.join(" "),
            "/usr/bin/runsc --root=/b/state --rootless --network=none --host-uds=none \
             --ignore-cgroups run --bundle /b 7"
        );
        let root = Runner::Root { user: 1, group: 1 };
        let line = arguments(Path::new("/usr/bin/runsc"), Path::new("/b"), "7", root);
        assert!(!line.contains(&"--rootless".to_owned()));
    }

    #[test]
    fn nothing_is_written_outside_the_bundle() {
        let root = Path::new("/b/root");
        assert_eq!(
            below(root, Path::new("/etc/../../x")),
            Path::new("/b/root/etc/x")
        );
    }
}
