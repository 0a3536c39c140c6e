//! Where people meet this Haft: through the `haft` program, or in a program that embeds it. Decides
//! whether a hint may name a command of `haft`.
//!
//! Every hint that names one is here and nowhere else below the program itself, so that a model or an
//! embedder is never told to run a command they do not have. It is a fact of the process: the program
//! says so first in `main`, and whoever says nothing embeds Haft.

use std::{borrow::Cow, sync::OnceLock};

/// What people reach this Haft through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Surface {
    /// Another program, whose author or operator acts on hints. The default.
    #[default]
    Embedded,
    /// The `haft` program: its commands may be named.
    Program,
}

static OF_THIS_PROCESS: OnceLock<Surface> = OnceLock::new();

/// A step that somebody can take, said for whoever can take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep<'a> {
    /// Find out why the record does not work.
    CheckRecord,
    /// Find the first bad row of the record.
    VerifyRecord,
    /// See which calls there were.
    ListCalls,
    /// See which tools there are.
    ListTools,
    /// Find out which sandbox is missing, and how to get it: this, if it is known.
    CheckSandbox(Option<&'a str>),
    /// Look at what a mounted server offers, and accept it.
    AcceptServer(&'a str),
    /// Learn what a mounted server offers that was never started.
    LearnServer(&'a str),
    /// See what a mounted server offers.
    ReviewServer(&'a str),
    /// See which servers are mounted.
    ListServers,
    /// Log in to a mounted server.
    LogIn(&'a str),
    /// Log in again, from the start.
    LogInAgain,
    /// Trust a file that has changed.
    TrustAgain,
    /// Name another directory as the workspace.
    NameWorkspace,
}

impl Surface {
    /// The surface of this process.
    pub fn of_this_process() -> Self {
        OF_THIS_PROCESS.get().copied().unwrap_or_default()
    }

    /// Makes this process the `haft` program. Only its `main` calls this, before anything else.
    pub fn is_the_program() {
        let _ = OF_THIS_PROCESS.set(Self::Program);
    }

    /// The step in words, as a clause to put into a hint.
    pub fn words(self, step: NextStep<'_>) -> Cow<'static, str> {
        match self {
            Self::Program => program_words(step),
            Self::Embedded => embedded_words(step),
        }
    }
}

impl NextStep<'_> {
    /// The step in words for this process.
    pub fn words(self) -> Cow<'static, str> {
        Surface::of_this_process().words(self)
    }

    /// The same as text of its own.
    pub fn text(self) -> String {
        self.words().into_owned()
    }
}

fn program_words(step: NextStep<'_>) -> Cow<'static, str> {
    match step {
        NextStep::CheckRecord => "`haft doctor` checks the record".into(),
        NextStep::VerifyRecord => "`haft log verify` names the place".into(),
        NextStep::ListCalls => "`haft log` lists the calls".into(),
        NextStep::ListTools => "`haft tools` lists the tools".into(),
        NextStep::CheckSandbox(_) => {
            "`haft doctor` says what is missing and the command that installs it".into()
        }
        NextStep::AcceptServer(server) => {
            format!("a person can look at it with `haft mcp review {server}` and accept it").into()
        }
        NextStep::LearnServer(server) => format!("run `haft mcp review {server}`").into(),
        NextStep::ReviewServer(server) => {
            format!("`haft mcp review {server} --all` shows what the server `{server}` offers")
                .into()
        }
        NextStep::ListServers => "`haft mcp status` lists those that are".into(),
        NextStep::LogIn(server) => {
            format!("a person can log in with `haft mcp login {server}`").into()
        }
        NextStep::LogInAgain => "start again with `haft mcp login`".into(),
        NextStep::TrustAgain => "run `haft trust` again".into(),
        NextStep::NameWorkspace => "name an existing directory with `--workspace`".into(),
    }
}

fn embedded_words(step: NextStep<'_>) -> Cow<'static, str> {
    match step {
        NextStep::CheckRecord => "whoever runs this program has to look at its record".into(),
        NextStep::VerifyRecord => "verifying the record names the place".into(),
        NextStep::ListCalls => "the record lists the calls".into(),
        NextStep::ListTools => "list the tools to see their names".into(),
        NextStep::CheckSandbox(Some(remedy)) => remedy.to_owned().into(),
        NextStep::CheckSandbox(None) => {
            "whoever runs this program has to set up the sandbox on this machine".into()
        }
        NextStep::AcceptServer(server) => {
            format!("whoever runs this program has to accept what the server `{server}` offers")
                .into()
        }
        NextStep::LearnServer(_) => "it has to be started and accepted first".into(),
        NextStep::ReviewServer(server) => {
            format!("the server `{server}` offers no such tool, as far as it is known").into()
        }
        NextStep::ListServers => "name a server that is".into(),
        NextStep::LogIn(server) => {
            format!("whoever runs this program has to log in to the server `{server}`").into()
        }
        NextStep::LogInAgain => "start the login again".into(),
        NextStep::TrustAgain => "accept it again".into(),
        NextStep::NameWorkspace => "open a directory that exists".into(),
    }
}
