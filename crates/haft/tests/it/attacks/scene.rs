//! The place of one attack: a workspace, something worth stealing beside it whose path begins
//! with the workspace's own, and a record. Steps are done by hand, as an attacker who was there
//! before; everything else goes through Haft.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

use haft::{Haft, LocalOptions, contract::ops::Layer};
use haft_sandbox::jail::Mounts;
use tempfile::TempDir;

use super::{
    canary,
    corpus::{Case, Control, Person, Place, Step},
    outside::{self, Ear, Undo, Victim},
    place,
    spawn_with::SpawnWith,
};

/// The loosest policy there can be: what stops an attack is not a rule of ours.
const EVERYTHING: &str = "[policy]\npreset = \"workspace\"\nallow = [\"@all\"]\n";

/// A file as it is seen from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    link: Option<PathBuf>,
    content: Option<Vec<u8>>,
}

/// The largest file whose content is part of a snapshot.
const SNAPSHOT_BYTES: u64 = 1 << 20;

pub(crate) struct Scene {
    base: TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) canary: String,
    place: Place,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    files: Vec<fs::File>,
    sockets: Vec<UnixListener>,
    mounts: Vec<PathBuf>,
    ears: Vec<Ear>,
    victims: Vec<Victim>,
    undo: Vec<Undo>,
}

impl Scene {
    /// A scene for a case, with its steps done.
    pub(crate) fn of(case: &Case) -> Arc<Self> {
        Self::within(case, &std::env::temp_dir())
    }

    /// A scene on a file system in memory, where thousands of synced writes take seconds.
    pub(crate) fn in_memory(case: &Case) -> Arc<Self> {
        Self::within(case, Path::new("/dev/shm"))
    }

    fn within(case: &Case, directory: &Path) -> Arc<Self> {
        let base = tempfile::Builder::new()
            .prefix("attack-")
            .tempdir_in(directory)
            .unwrap();
        let root = base.path().canonicalize().unwrap();
        let scene = Self {
            workspace: match &case.workspace {
                Some(path) => PathBuf::from(path),
                None => root.join("app"),
            },
            // A string prefix of the workspace's path leads here.
            outside: root.join("app-evil"),
            data: root.join("data"),
            canary: canary::of(&case.id),
            place: case.place,
            held: Mutex::default(),
            base,
        };
        for directory in [&root.join("app"), &scene.data, &scene.outside.join(".ssh")] {
            fs::create_dir_all(directory).unwrap();
        }
        for file in ["secret", ".ssh/id_rsa"] {
            fs::write(scene.outside.join(file), &scene.canary).unwrap();
        }
        for step in &case.setup {
            scene.step(step);
        }
        Arc::new(scene)
    }

    /// A Haft over this scene: real files, real processes, real policy, real record.
    pub(crate) async fn haft(self: &Arc<Self>, case: &Case, said: &Said) -> Haft {
        self.haft_without(case, said, BTreeSet::new()).await
    }

    /// The same with some layers of the sandbox left out.
    pub(crate) async fn haft_without(
        self: &Arc<Self>,
        case: &Case,
        said: &Said,
        without: BTreeSet<Layer>,
    ) -> Haft {
        let mut local = self.options(case);
        local.sandbox.without = without;
        self.haft_with(case, said, local).await
    }

    /// The options of the workspace; `<outside>/shown` can be read in a sandbox.
    pub(crate) fn options(&self, case: &Case) -> LocalOptions {
        LocalOptions {
            cross_mounts: if case.cross_mounts {
                Mounts::Cross
            } else {
                Mounts::Refuse
            },
            sandbox: place::sandbox(&[&self.outside.join("shown")]),
            ..LocalOptions::default()
        }
    }

    /// The same with other options of the workspace.
    pub(crate) async fn haft_with(
        self: &Arc<Self>,
        case: &Case,
        said: &Said,
        local: LocalOptions,
    ) -> Haft {
        let rules = case.rules.as_deref().unwrap_or(EVERYTHING);
        let events = said.clone();
        let mode = place::mode(self.place);
        let opened = place::open(self.place, &self.workspace, local).await;
        let mut builder = opened
            .data_dir(&self.data)
            .policy_text("attack.toml", self.expand(rules))
            .sandbox("bash", mode)
            .sandbox("spawn_with", mode)
            .tool(SpawnWith)
            .on_event(move |happened| events.note(&format!("{happened:?}")));
        if case.person == Person::Approves {
            let (scene, meanwhile) = (Arc::clone(self), case.meanwhile.clone());
            let said = said.clone();
            builder = builder.approve_with(move |request| {
                said.note(&format!("{request:?}"));
                for step in &meanwhile {
                    scene.step(step);
                }
                async move { request.approve("person") }
            });
        }
        builder.build().await.unwrap()
    }

    /// Replaces what stands for something of this scene.
    pub(crate) fn expand(&self, text: &str) -> String {
        let held = self.held.lock().unwrap();
        let descriptor = held
            .files
            .last()
            .map_or(-1, std::os::fd::AsRawFd::as_raw_fd);
        let mut text = text.to_owned();
        for ear in &held.ears {
            text = text.replace(ear.word.0, &ear.word.1);
        }
        if let Some(victim) = held.victims.last() {
            text = text.replace("<victim>", &victim.id().to_string());
        }
        text = text.replace("<probe>", "<helper> __haft-helper probe");
        if text.contains("<helper>") {
            text = text.replace("<helper>", place::helper().to_str().unwrap());
        }
        let text = text
            .replace("<ws>", self.workspace.to_str().unwrap())
            .replace("<outside>", self.outside.to_str().unwrap())
            .replace("<data>", self.data.to_str().unwrap())
            .replace("<home>", &std::env::var("HOME").unwrap_or_default())
            .replace(
                "<hostname>",
                rustix::system::uname().nodename().to_str().unwrap(),
            )
            .replace("<unique>", &self.unique())
            .replace("<key>", &(std::process::id() + 7_000_000).to_string())
            .replace("<fd>", &descriptor.to_string())
            .replace("<pid>", &std::process::id().to_string())
            .replace("<canary>", &self.canary);
        repeat(&text)
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.workspace.join(self.expand(path))
    }

    /// Does one step.
    pub(crate) fn step(&self, step: &Step) {
        match step {
            Step::File { path, text } => put(&self.at(path), self.expand(text).as_bytes()),
            Step::FileOfBytes { name, text } => {
                use std::os::unix::ffi::OsStringExt as _;
                let bytes = (0..name.len() / 2)
                    .map(|at| u8::from_str_radix(&name[at * 2..at * 2 + 2], 16).unwrap());
                let name = std::ffi::OsString::from_vec(bytes.collect());
                put(&self.workspace.join(name), text.as_bytes());
            }
            Step::Directory { path } => fs::create_dir_all(self.at(path)).unwrap(),
            Step::Symlink { path, to } => link(&self.expand(to), &self.at(path)),
            Step::Chain { path, to, links } => {
                let path = self.expand(path);
                let name = |link: u32| match link {
                    0 => path.clone(),
                    link => format!("{path}-{link}"),
                };
                for number in 0..*links - 1 {
                    link(&name(number + 1), &self.at(&name(number)));
                }
                link(&self.expand(to), &self.at(&name(links - 1)));
            }
            Step::Hardlink { path, to } => fs::hard_link(self.at(to), self.at(path)).unwrap(),
            Step::Fifo { path } => {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mkfifoat(rustix::fs::CWD, self.at(path), mode).unwrap();
            }
            Step::Socket { path } => {
                let socket = UnixListener::bind(self.at(path)).unwrap();
                self.held.lock().unwrap().sockets.push(socket);
            }
            Step::Mode { path, mode } => {
                fs::set_permissions(self.at(path), fs::Permissions::from_mode(*mode)).unwrap();
            }
            Step::Rename { path, to } => fs::rename(self.at(path), self.at(to)).unwrap(),
            Step::Remove { path } => {
                let path = self.at(path);
                if fs::symlink_metadata(&path).unwrap().is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
            Step::Bind { path, to } => {
                let (path, to) = (self.at(path), self.at(to));
                let status = Command::new("mount")
                    .arg("--bind")
                    .arg(to)
                    .arg(&path)
                    .status();
                assert!(status.unwrap().success(), "mount failed");
                self.held.lock().unwrap().mounts.push(path);
            }
            Step::HoldOpen { path } => {
                let file = fs::File::open(self.at(path)).unwrap();
                self.held.lock().unwrap().files.push(file);
            }
            Step::Deep { path, directories } => {
                let deep = self.at(path).join("d/".repeat(*directories));
                put(&deep.join("bottom.txt"), b"bottom\n");
            }
            Step::Fill { path, byte, times } => {
                put(&self.at(path), byte.repeat(*times).as_bytes());
            }
            Step::Sparse { path, bytes } => {
                let file = fs::File::create(self.at(path)).unwrap();
                file.set_len(*bytes).unwrap();
            }
            Step::Run { command, undo } => {
                let (worked, text) = outside::run(&self.expand(command), &self.workspace);
                assert!(worked, "`{command}` failed: {text}");
                let undo = Undo(self.expand(undo));
                self.held.lock().unwrap().undo.push(undo);
            }
            Step::Listen { on, path } => {
                let path = match path.as_str() {
                    "" => self.outside.join("listener"),
                    path => self.at(path),
                };
                let ear = Ear::open(*on, &path);
                self.held.lock().unwrap().ears.push(ear);
            }
            Step::Victim => {
                let victim = Victim::start();
                self.held.lock().unwrap().victims.push(victim);
            }
            Step::Inheritable { path } => {
                let file = fs::File::open(self.at(path)).unwrap();
                rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
                self.held.lock().unwrap().files.push(file);
            }
        }
    }

    /// A word that no other scene has.
    fn unique(&self) -> String {
        let name = self.base.path().file_name().unwrap();
        name.to_str().unwrap().to_owned()
    }

    /// Whether anything of the machine was reached that should not have been.
    pub(crate) fn reached(&self) -> Result<(), String> {
        let mut held = self.held.lock().unwrap();
        for ear in &held.ears {
            let heard = ear.heard();
            if heard > 0 {
                return Err(format!("the listener {} heard {heard}", ear.word.0));
            }
        }
        if held.victims.iter_mut().any(|victim| !victim.lives()) {
            return Err("a process outside was ended".to_owned());
        }
        Ok(())
    }

    /// Runs the attack without Haft; says why it did not succeed, if it did not.
    pub(crate) fn control(&self, control: &Control) -> Result<(), String> {
        let output = Command::new("bash")
            .arg("-c")
            .arg(self.expand(&control.run))
            .current_dir(&self.workspace)
            .env("OUTSIDE", &self.outside)
            .env("WS", &self.workspace)
            .output()
            .unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if let Some(sees) = &control.sees
            && !text.contains(&self.expand(sees))
        {
            return Err(format!("`{}` printed {text:.300}", control.run));
        }
        if let Some(makes) = &control.makes
            && !self.at(makes).exists()
        {
            return Err(format!(
                "`{}` did not make {makes}: {text:.300}",
                control.run
            ));
        }
        Ok(())
    }

    /// Everything beside the workspace and the record, as seen from outside.
    pub(crate) fn around(&self) -> BTreeMap<PathBuf, Seen> {
        let mut seen = BTreeMap::new();
        snapshot(&self.outside, &mut seen);
        seen
    }

    /// Everything in the workspace, as seen from outside; nothing of a directory of the machine.
    pub(crate) fn inside(&self) -> BTreeMap<PathBuf, Seen> {
        let mut seen = BTreeMap::new();
        if self.workspace.starts_with(self.base.path()) {
            snapshot(&self.workspace, &mut seen);
        }
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for mount in &self.held.lock().unwrap().mounts {
            let _ = Command::new("umount").arg(mount).status();
        }
    }
}

/// Everything Haft said while a case ran.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<String>>);

impl Said {
    pub(crate) fn note(&self, text: &str) {
        let mut said = self.0.lock().unwrap();
        said.push_str(text);
        said.push('\n');
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn link(to: &str, path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(to, path).unwrap();
}

/// Replaces `<x*300>` by three hundred times `x`.
fn repeat(text: &str) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        done.push_str(before);
        let repeated = after.split_once('>').and_then(|(inner, tail)| {
            let (what, times) = inner.rsplit_once('*')?;
            Some((what.repeat(times.parse().ok()?), tail))
        });
        if let Some((repeated, tail)) = repeated {
            done.push_str(&repeated);
            rest = tail;
        } else {
            done.push('<');
            rest = after;
        }
    }
    done.push_str(rest);
    done
}

fn snapshot(directory: &Path, seen: &mut BTreeMap<PathBuf, Seen>) {
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let small = metadata.is_file() && metadata.len() <= SNAPSHOT_BYTES;
        let found = Seen {
            inode: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            link: fs::read_link(&path).ok(),
            content: small.then(|| fs::read(&path).ok()).flatten(),
        };
        seen.insert(path, found);
    }
}
