//! A real terminal multiplexer of the test's own: started on a socket in the test's directory, asked
//! what its windows show, and ended with the test.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use crate::support::{Stage, eventually};

/// A tmux server with windows of one size.
pub(crate) struct Tmux<'s> {
    stage: &'s Stage,
    /// Columns and rows.
    size: (u16, u16),
    windows: usize,
}

/// One of its windows.
#[derive(Clone, Copy)]
pub(crate) struct Window(usize);

impl<'s> Tmux<'s> {
    /// With windows of 80 by 24.
    pub(crate) fn new(stage: &'s Stage) -> Self {
        Self::sized(stage, (80, 24))
    }

    /// With windows of so many columns and rows.
    pub(crate) fn sized(stage: &'s Stage, size: (u16, u16)) -> Self {
        Self {
            stage,
            size,
            windows: 0,
        }
    }

    /// Starts the program in a window of its own.
    pub(crate) fn haft(&mut self, args: &[&str]) -> Window {
        self.run(&[], args)
    }

    /// The same with variables.
    pub(crate) fn run(&mut self, variables: &[&str], args: &[&str]) -> Window {
        self.program(variables, &[&[env!("CARGO_BIN_EXE_haft")], args].concat())
    }

    /// Starts another program in a window of its own.
    pub(crate) fn program(&mut self, variables: &[&str], words: &[&str]) -> Window {
        let quote = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
        let words: Vec<String> = words.iter().map(quote).collect();
        let variables: Vec<String> = variables.iter().map(quote).collect();
        let window = Window(self.windows);
        // The shell keeps the exit code in a file: tmux was seen to miss the end of a child, and
        // then a window is dead for ever with no status. It waits through signals meant for the program.
        let line = format!(
            "trap : INT TERM HUP; env {} {}; echo $? >'{}'",
            variables.join(" "),
            words.join(" "),
            self.code(window).display(),
        );
        if self.windows == 0 {
            let (columns, rows) = (self.size.0.to_string(), self.size.1.to_string());
            let mut start = vec!["new-session", "-d", "-x", &columns, "-y", &rows];
            // A window stays to be looked at when its program has ended.
            start.extend([
                line.as_str(),
                ";",
                "set-option",
                "-g",
                "remain-on-exit",
                "on",
            ]);
            self.tmux(&start);
        } else {
            self.tmux(&["new-window", "-d", &line]);
        }
        self.windows += 1;
        window
    }

    /// What a window shows.
    pub(crate) fn screen(&self, window: Window) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &target(window)])
    }

    /// What a window shows, with the codes for colours.
    pub(crate) fn coloured(&self, window: Window) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-t", &target(window)])
    }

    /// Waits until a window shows a text.
    pub(crate) fn until(&self, window: Window, text: &str) -> String {
        let mut last = String::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(text, || {
                last = self.screen(window);
                last.contains(text).then(|| last.clone())
            })
        }));
        shown.unwrap_or_else(|_| panic!("{text:?} never appears in:\n{last}"))
    }

    /// Presses keys, by their names.
    pub(crate) fn press(&self, window: Window, keys: &[&str]) {
        let target = target(window);
        let mut words = vec!["send-keys", "-t", &target];
        words.extend(keys);
        self.tmux(&words);
    }

    /// Types a text as it is.
    pub(crate) fn types(&self, window: Window, text: &str) {
        self.tmux(&["send-keys", "-t", &target(window), "-l", text]);
    }

    /// What tmux knows about a window.
    pub(crate) fn about(&self, window: Window, what: &str) -> String {
        let format = format!("#{{{what}}}");
        let said = self.tmux(&["display-message", "-p", "-t", &target(window), &format]);
        said.trim().to_owned()
    }

    /// Waits for the program of a window to end; its exit code.
    pub(crate) fn ended(&self, window: Window) -> i32 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("the program of the window ends", || {
                let code = std::fs::read_to_string(self.code(window)).ok()?;
                code.trim().parse().ok()
            })
        }));
        ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.screen(window)))
    }

    /// Whether the program of a window still runs.
    pub(crate) fn runs(&self, window: Window) -> bool {
        !self.code(window).exists()
    }

    /// The process id of a window's program.
    pub(crate) fn process(&self, window: Window) -> String {
        let shell = self.about(window, "pane_pid");
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let children = children.unwrap();
        let mut children = children.split_whitespace();
        let process = children.next().unwrap().to_owned();
        assert_eq!(children.next(), None, "the shell runs one program");
        process
    }

    /// Where the exit code of a window's program is kept.
    fn code(&self, window: Window) -> PathBuf {
        self.stage.home.join(format!("ended-{}", window.0))
    }

    pub(crate) fn tmux(&self, words: &[&str]) -> String {
        let ran = self.command(words);
        assert!(
            ran.status.success(),
            "tmux {words:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        String::from_utf8(ran.stdout).unwrap()
    }

    fn command(&self, words: &[&str]) -> Output {
        Command::new("tmux")
            .arg("-S")
            .arg(self.stage.home.join("tmux"))
            .args(["-f", "/dev/null", "-u"])
            .args(words)
            .current_dir(&self.stage.work)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.stage.home)
            .env("USER", "ada")
            .env("TZ", "UTC")
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // The shell of a window waits through the hang-up, and what it runs never hears of it.
        let panes = self
            .command(&["list-panes", "-a", "-F", "-#{pane_pid}"])
            .stdout;
        let panes = String::from_utf8_lossy(&panes).into_owned();
        self.command(&["kill-server"]);
        let _ = Command::new("kill")
            .args(["-KILL", "--"])
            .args(panes.split_whitespace())
            .stderr(Stdio::null())
            .status();
    }
}

fn target(window: Window) -> String {
    format!(":{}", window.0)
}
