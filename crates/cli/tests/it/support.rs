//! A home, a workspace and a way to run the program in them. Output is made the same on every
//! machine before it is compared: paths, ids, times and hashes become words.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

/// When a test gives up waiting for what must come about. Says nothing about how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// A home and a workspace.
pub(crate) struct Stage {
    _folder: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) work: PathBuf,
}

/// Another program, started like this one.
pub(crate) fn same_as(like: &Command, mut other: Command) -> Command {
    other.args(like.get_args()).env_clear();
    for (name, value) in like.get_envs() {
        other.env(name, value.expect("variables are set, not removed"));
    }
    other.current_dir(like.get_current_dir().expect("a directory"));
    other.stdin(Stdio::null());
    other
}

/// What the program printed and how it ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    /// An empty home and an empty workspace.
    pub(crate) fn bare() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, work) = (root.join("home"), root.join("work"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&work).unwrap();
        Self {
            _folder: folder,
            home,
            work,
        }
    }

    /// A workspace after `haft init`.
    pub(crate) fn new() -> Self {
        let stage = Self::bare();
        stage.haft(&["init"]).ok();
        stage
    }

    /// A workspace whose trusted configuration is this text.
    pub(crate) fn with_config(text: &str) -> Self {
        let stage = Self::bare();
        stage.write("haft.toml", text);
        stage.haft(&["trust"]).ok();
        stage
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.work.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.work.join(path)).unwrap()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.work.join(path).exists()
    }

    /// The program, ready to be started in the workspace.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.prepare(Command::new(env!("CARGO_BIN_EXE_haft")), args)
    }

    /// The same under `script`, which gives it a terminal.
    fn in_terminal(&self, args: &[&str]) -> Command {
        let quote = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
        let words: Vec<String> = args.iter().map(quote).collect();
        let line = format!("exec {} {}", env!("CARGO_BIN_EXE_haft"), words.join(" "));
        let mut command = self.prepare(Command::new("script"), &["-qefc", &line, "/dev/null"]);
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        command
    }

    fn prepare(&self, mut command: Command, args: &[&str]) -> Command {
        command
            .args(args)
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("USER", "ada")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program with nobody there.
    pub(crate) fn haft(&self, args: &[&str]) -> Ran {
        self.haft_with(args, "")
    }

    /// Runs the program with text on standard input.
    pub(crate) fn haft_with(&self, args: &[&str], stdin: &str) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A program that does not read its input may close it early.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let ended = child.wait_with_output().unwrap();
        Ran {
            code: ended.status.code().expect("the program ended by itself"),
            stdout: String::from_utf8(ended.stdout).unwrap(),
            stderr: String::from_utf8(ended.stderr).unwrap(),
        }
    }

    /// Runs the program and reads what it printed as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.haft(args);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.all()))
    }

    /// Starts the program in a terminal.
    pub(crate) fn terminal(&self, args: &[&str]) -> Terminal {
        let mut child = self
            .in_terminal(args)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            child,
            receiver,
            seen: Vec::new(),
        }
    }

    /// Makes text the same on every machine.
    pub(crate) fn normal(&self, text: &str) -> String {
        let mut text = text
            .replace(self.work.to_str().unwrap(), "[WORK]")
            .replace(self.home.to_str().unwrap(), "[HOME]");
        for (pattern, word) in [
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
                "[CALL]",
            ),
            (r"(?m)^[0-9a-f]{8}-[0-9a-f]{4}(-7[0-9a-f-]*)?", "[CALL]"),
            (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[TIME]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[TIME]"),
            (r"\d\d-\d\d \d\d:\d\d:\d\d", "[TIME]"),
            (r"[0-9a-f]{64}", "[SHA256]"),
            (r"sha256:[0-9a-f]{10}([0-9a-f]{14})?\b", "[VERSION]"),
            (r"\d+(\.\d)? (µs|ms|s)\b", "[DURATION]"),
            (r#""(\w+)_us":\d+"#, r#""${1}_us":[MICROSECONDS]"#),
        ] {
            text = Regex::new(pattern)
                .unwrap()
                .replace_all(&text, word)
                .into_owned();
        }
        text
    }
}

impl Ran {
    /// Requires success and returns standard output.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.all());
        self.stdout
    }

    /// Requires this exit code and returns standard error.
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}", self.all());
        self.stderr
    }

    pub(crate) fn all(&self) -> String {
        format!(
            "exit code {}\n--- stdout\n{}--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// The program in a terminal.
pub(crate) struct Terminal {
    child: Child,
    receiver: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Terminal {
    /// Waits until the screen shows a text.
    pub(crate) fn until(&mut self, text: &str) -> String {
        self.until_times(text, 1)
    }

    /// Waits until the screen has shown a text so many times.
    pub(crate) fn until_times(&mut self, text: &str, times: usize) -> String {
        let started = Instant::now();
        while self.screen().matches(text).count() < times {
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.receiver.recv_timeout(left) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(error) => panic!("no {text:?} ({error}) in {}", self.screen()),
            }
        }
        self.screen()
    }

    /// Types something.
    pub(crate) fn types(&mut self, text: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Waits for the end; returns the exit code and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.receiver.recv_timeout(left) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("it does not end ({error}): {}", self.screen()),
            }
        }
        drop(self.child.stdin.take());
        let code = wait(&mut self.child).code().expect("ended by itself");
        (code, self.screen())
    }

    /// Everything shown so far.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }
}

/// Waits for a child, but not for ever.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    eventually("the program ends", || child.try_wait().unwrap())
}

/// Asks again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The file of the record.
pub(crate) fn database(stage: &Stage) -> PathBuf {
    let record = stage.home.join(".local/share/haft/record");
    let mut found = fs::read_dir(&record)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    found
        .find(|path| {
            path.extension()
                .is_some_and(|end| end == "db" || end == "sqlite")
        })
        .unwrap_or_else(|| panic!("no database in {}", Path::new(&record).display()))
}
