//! The programs that are measured, as they lie beside this one, and a home for Haft to run in.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Once,
};

use tempfile::TempDir;

/// A program of the workspace, built like this one: `haft` or `examples/bare_server`.
pub(super) fn built(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    BUILD.call_once(build);
    let here = std::env::current_exe().unwrap();
    let profile = here.parent().and_then(Path::parent).unwrap();
    let program = profile.join(name);
    assert!(program.is_file(), "`{name}` is not built");
    program
}

/// Builds what is measured. `cargo bench` builds only this program, and one that is out of date would
/// give the figures of yesterday.
fn build() {
    // Set where cargo runs this program; started by hand, it measures what is there.
    let Some(cargo) = std::env::var_os("CARGO") else {
        return;
    };
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "bench"
    };
    // The whole workspace, because a part of it would be built with other features.
    let words = [
        "build",
        "--workspace",
        "--bins",
        "--examples",
        "--locked",
        "--profile",
    ];
    let status = Command::new(cargo).args(words).arg(profile).status();
    assert!(status.unwrap().success(), "the programs cannot be built");
}

/// A file of the installed peers (`.ci/peers`).
pub(super) fn peer(name: &str) -> PathBuf {
    let peers = std::env::var_os("HAFT_MCP_PEERS");
    let peers = peers.expect("HAFT_MCP_PEERS names the directory `.ci/run` installs peers in");
    let peer = Path::new(&peers).join(name);
    assert!(peer.exists(), "{} is not installed", peer.display());
    peer
}

/// A process that is ended with its measurement.
pub(super) struct RunningProgram(pub(super) Child);

impl RunningProgram {
    /// Starts a program whose output is read and whose input stays open.
    pub(super) fn start(command: &mut Command) -> Self {
        Self::start_noting(command.stderr(Stdio::null()))
    }

    /// The same with standard error as the command has it.
    pub(super) fn start_noting(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// The address in what it prints on standard output.
    pub(super) fn prints_address(&mut self) -> String {
        address_in(self.0.stdout.take().unwrap())
    }

    /// The address in what it notes on standard error.
    pub(super) fn notes_address(&mut self) -> String {
        address_in(self.0.stderr.take().unwrap())
    }

    /// Bytes of it in memory.
    pub(super) fn resident_bytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().split_whitespace().next().unwrap();
        kilobytes.parse::<f64>().unwrap() * 1024.0
    }

    /// CPU seconds it has used.
    pub(super) fn cpu(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let nanoseconds = tasks.map(|task| {
            // A thread that has just ended has no file any more.
            let times = std::fs::read_to_string(task.unwrap().path().join("schedstat"));
            let times = times.unwrap_or_default();
            let first = times.split_whitespace().next();
            first.map_or(0.0, |time| time.parse::<f64>().unwrap())
        });
        nanoseconds.sum::<f64>() / 1e9
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first address in some output, which is read to its end beside everything else: a program that
/// cannot print any more ends.
fn address_in(output: impl Read + Send + 'static) -> String {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let mut words = line.split_whitespace();
        words
            .find(|word| word.starts_with("http://"))
            .map(str::to_owned)
    });
    std::thread::spawn(move || lines.for_each(drop));
    address.expect("an address")
}

/// A home and a workspace with a file of 4 KB, in which the built `haft` runs.
pub(super) struct Home {
    folder: TempDir,
}

impl Home {
    /// A workspace whose trusted configuration is this text.
    pub(super) fn with(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder };
        std::fs::create_dir(home.workspace()).unwrap();
        std::fs::write(home.workspace().join("haft.toml"), configuration).unwrap();
        let line = "sixty-three characters and an end of line make a round figure..\n";
        std::fs::write(home.workspace().join("file"), line.repeat(64)).unwrap();
        home.run(&["trust"]);
        home
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The program, ready to be started.
    pub(super) fn haft(&self, words: &[&str]) -> Command {
        let mut command = Command::new(built("haft"));
        command
            .args(words)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("USER", "ada");
        command
    }

    /// Runs it to its end and gives what it printed.
    pub(super) fn run(&self, words: &[&str]) -> String {
        let mut child = RunningProgram::start(&mut self.haft(words));
        let mut input = child.0.stdin.take().unwrap();
        // Nothing is asked here; a program that asks ends.
        let _ = input.write_all(b"\n");
        drop(input);
        let mut output = String::new();
        let stdout = child.0.stdout.take().unwrap();
        BufReader::new(stdout).read_to_string(&mut output).unwrap();
        assert!(
            child.0.wait().unwrap().success(),
            "haft {words:?}: {output}"
        );
        output.trim().to_owned()
    }
}
