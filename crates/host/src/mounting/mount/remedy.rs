//! Common causes that keep a server from starting, found by looking at its entry and this machine:
//! a file its sandbox does not show, a package it may not fetch. For people; nothing is decided
//! here.

use std::path::{Path, PathBuf};

use haft_backends::LocalOptions;
use haft_contract::ops::SandboxMode;
use haft_sandbox::{HostView, Profile};

use crate::config::{
    env, launcher,
    mcp::{CommandTarget, ServerSettings, Target},
};

/// What to write into a server's entry, if something in it is known to keep it from starting.
pub(super) fn remedy(server: &ServerSettings, profile: &Profile, own: &Path) -> Option<String> {
    let Target::Command(command) = &server.target else {
        return None;
    };
    let linked = linked(command);
    if command.mode != SandboxMode::Full {
        return linked;
    }
    let sandbox = Sandbox::of(command, profile, own);
    linked
        .or_else(|| sandbox.unseen(command))
        .or_else(|| sandbox.relative(command))
        .or_else(|| unfetched(command))
}

/// A program with a pinned hash that is only a link to the file with that hash.
fn linked(command: &CommandTarget) -> Option<String> {
    command.sha256?;
    let program = Path::new(command.argv.first()?);
    let leads_to = program.canonicalize().ok()?;
    (program.is_symlink()).then(|| {
        format!(
            "`sha256` needs the file itself, but `{}` is a link: write `{}` in `command`",
            program.display(),
            leads_to.display()
        )
    })
}

/// A package that the server's program has to fetch first, without a network to fetch it from.
fn unfetched(command: &CommandTarget) -> Option<String> {
    if command.network.is_some() {
        return None;
    }
    let (program, hosts) = launcher::fetches_from(&command.argv)?;
    let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
    Some(format!(
        "`{program}` fetches the package it runs, and a server has no network unless its entry says so: \
         sandbox = {{ network = [{}] }}",
        hosts.join(", ")
    ))
}

/// What a server's sandbox shows.
struct Sandbox {
    view: HostView,
    root: PathBuf,
}

impl Sandbox {
    fn of(command: &CommandTarget, profile: &Profile, own: &Path) -> Self {
        let view = HostView::look(&Profile {
            read_only: command.read_only.clone(),
            writable: command.writable.clone(),
            ..profile.clone()
        });
        Self {
            view,
            root: command.cwd.clone().unwrap_or_else(|| own.to_owned()),
        }
    }

    /// Whether a file of this machine is at the same path in the sandbox: the file itself, and its
    /// target if it is a link, such as the `python` of a virtual environment.
    fn shows(&self, path: &Path) -> bool {
        let beside = path.parent().and_then(|parent| parent.canonicalize().ok());
        let itself = beside.zip(path.file_name());
        let itself = itself.map_or_else(|| path.to_owned(), |(beside, name)| beside.join(name));
        let leads_to = path.canonicalize().unwrap_or_else(|_| itself.clone());
        self.holds(&itself) && self.holds(&leads_to)
    }

    fn holds(&self, real: &Path) -> bool {
        let links = self.view.links.iter().map(|(link, _)| link);
        let mut places = self
            .view
            .directories
            .iter()
            .chain(links)
            .chain(&self.view.settings)
            .chain(&self.view.toolchains)
            .chain(&self.view.read_only)
            .chain(&self.view.writable)
            .chain([&self.root]);
        places.any(|place| {
            let place = place.canonicalize().unwrap_or_else(|_| place.clone());
            real.starts_with(place)
        })
    }

    /// A file named in the command that exists but is not shown in the sandbox.
    fn unseen(&self, command: &CommandTarget) -> Option<String> {
        let (program, arguments) = command.argv.split_first()?;
        if !program.contains('/') && !self.finds(program) {
            return Some(elsewhere(program));
        }
        let words = [program].into_iter().chain(arguments);
        let hidden = words
            .map(Path::new)
            .find(|path| path.is_absolute() && path.exists() && !self.shows(path))?;
        let place = match hidden.parent() {
            // What a program needs is mostly next to it.
            Some(parent) if hidden.is_file() && parent != Path::new("/") => parent,
            Some(_) | None => hidden,
        };
        Some(format!(
            "its sandbox does not show `{}`: add \"{}\", or the directory that holds all it needs, to \
             `sandbox.read_only` of its entry (or to `writable`, if it must change it)",
            hidden.display(),
            place.display(),
        ))
    }

    /// A file named in the command that exists relative to here, but not where the server runs.
    fn relative(&self, command: &CommandTarget) -> Option<String> {
        let (_, arguments) = command.argv.split_first()?;
        let mut words = arguments.iter().map(Path::new);
        let word = words
            .find(|word| word.is_relative() && word.is_file() && !self.root.join(word).exists())?;
        let whole = std::path::absolute(word).ok()?;
        Some(format!(
            "it runs in a directory of its own, where there is no `{}`: write the whole path in `command`, \
             and add \"{}\" to `sandbox.read_only` of its entry",
            word.display(),
            whole.parent().unwrap_or(&whole).display(),
        ))
    }

    /// Whether a program is found by its name alone.
    fn finds(&self, program: &str) -> bool {
        let search = LocalOptions::default().search_path;
        let system = search.split(':').map(PathBuf::from);
        let own = self.view.programs.iter().chain(&self.view.search);
        let mut places = system.chain(own.cloned());
        places.any(|place| place.join(program).exists())
    }
}

/// Where a program is that the sandbox does not find.
fn elsewhere(program: &str) -> String {
    let mut places = env::search_path().into_iter();
    match places.find(|place| place.join(program).is_file()) {
        Some(place) => format!(
            "`{program}` is in `{}`, where its sandbox does not look: write the whole path in \
             `command`, and add \"{}\" to `sandbox.read_only` of its entry",
            place.display(),
            place.display(),
        ),
        None => format!("there is no program `{program}`: install it, or correct `command`"),
    }
}

#[cfg(test)]
mod tests {
    use haft_mcp::{name::ToolNaming, pin::Filter};

    use super::*;

    fn command(argv: &[&str], read_only: &[&Path]) -> CommandTarget {
        CommandTarget {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: [].into(),
            cwd: None,
            mode: SandboxMode::Full,
            network: None,
            writable: Vec::new(),
            read_only: read_only.iter().map(|place| (*place).to_owned()).collect(),
            sha256: None,
        }
    }

    fn told(argv: &[&str], read_only: &[&Path]) -> Option<String> {
        let server = ServerSettings {
            id: haft_mcp::name::ServerId::parse("a").unwrap(),
            target: Target::Command(command(argv, read_only)),
            secrets: [].into(),
            naming: ToolNaming::Prefixed,
            trust_annotations: false,
            start_timeout: None,
            call_timeout: None,
            concurrency: None,
            idle: None,
            enabled: true,
            tools: Filter::default(),
            place: "haft.toml:1".to_owned(),
        };
        remedy(&server, &Profile::default(), Path::new("/nowhere"))
    }

    #[test]
    fn a_link_is_shown_when_it_and_what_it_leads_to_are() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let python = folder.join("python");
        std::os::unix::fs::symlink("/bin/sh", &python).unwrap();
        let argv = [python.to_str().unwrap()];
        let hint = told(&argv, &[]).unwrap();
        let wanted = format!("does not show `{}`", python.display());
        assert!(hint.contains(&wanted), "{hint}");
        assert_eq!(told(&argv, &[&folder]), None);
    }

    #[test]
    fn a_file_named_from_here_is_not_where_the_server_runs() {
        // This test runs in the crate's directory.
        let hint = told(&["/bin/sh", "Cargo.toml"], &[]).unwrap();
        assert!(
            hint.contains("no `Cargo.toml`: write the whole path"),
            "{hint}"
        );
        assert_eq!(told(&["/bin/sh", "not-there.sh"], &[]), None);
    }

    #[test]
    fn a_file_that_the_sandbox_does_not_show_is_named_with_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let script = tempfile::NamedTempFile::new_in(&folder).unwrap();
        let argv = ["/bin/sh", script.path().to_str().unwrap()];
        let hint = told(&argv, &[]).unwrap();
        let wanted = format!("add \"{}\"", folder.display());
        assert!(hint.contains(&wanted), "{hint}");
        assert!(hint.contains("`sandbox.read_only`"), "{hint}");
        assert_eq!(told(&argv, &[&folder]), None);
        assert_eq!(told(&["/bin/sh", "/not/there"], &[]), None);
    }

    #[test]
    fn a_program_that_fetches_its_package_needs_a_network() {
        let hint = told(&["/bin/sh"], &[]);
        assert_eq!(hint, None);
        let hint = unfetched(&command(&["npx", "-y", "server@1.0.0"], &[])).unwrap();
        assert!(
            hint.contains("network = [\"registry.npmjs.org\"]"),
            "{hint}"
        );
        let hint = unfetched(&command(&["uvx", "server==1.0"], &[])).unwrap();
        assert!(
            hint.contains("\"pypi.org\", \"files.pythonhosted.org\""),
            "{hint}"
        );
    }
}
