//! Programs that run whatever their words, their input or a file says: shells, interpreters,
//! wrappers and runners. A star after such a name would match any program at all, so they are never
//! granted by prefix; a command that is spelled out to the end is.

/// Grouped by kind, so that gaps are visible.
const RUNNERS: &[&str] = &[
    // Shells, and their builtins that run something.
    "sh bash dash zsh ksh mksh ash fish csh tcsh rbash pwsh powershell eval source . exec builtin \
     command trap coproc busybox toybox",
    // Interpreters.
    "python python2 python3 pypy pypy3 ipython perl ruby irb node nodejs bun deno tsx ts-node php lua \
     luajit tclsh expect guile scheme racket sbcl clojure elixir erl escript julia R Rscript octave \
     ghci runghc groovy jshell scala kotlin swift osascript awk gawk mawk nawk original-awk sed gsed \
     ed ex vi vim nvim emacs gdb lldb sqlite3 psql mysql redis-cli jq",
    // Wrappers.
    "env timeout gtimeout nice ionice nohup stdbuf setsid time taskset chroot unshare nsenter setpriv \
     fakeroot script flock xargs parallel watch entr strace ltrace valgrind catchsegv systemd-run at \
     batch crontab find fd fdfind ssh tmux screen prlimit chrt choom numactl ld.so",
    // Archivers that run a program given by one letter in a cluster: `tar xIf program a`.
    "tar gtar bsdtar",
    // Wrappers that add rights.
    "sudo doas su runuser pkexec",
    // Package, recipe and container runners.
    "npx pnpx bunx uvx pipx uv poetry pipenv rye hatch conda mamba make gmake bmake just task rake ant \
     mage invoke fab ninja mise asdf direnv nix nix-shell docker podman nerdctl kubectl vagrant \
     flatpak snap bwrap runsc nsjail firejail rustup bundle bundler pdm java dotnet gradle gradlew mvn \
     mvnw gh",
];

/// Whether a program, named without its directory, runs whatever it is told to. Versions count as
/// the program: `python3.12`.
pub(super) fn is_runner(program: &str) -> bool {
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let listed = |name: &str| {
        let mut names = RUNNERS.iter().flat_map(|line| line.split_whitespace());
        names.any(|known| known == name)
    };
    let loader = program.starts_with("ld-linux") || program.starts_with("ld-musl");
    loader || listed(program) || (!bare.is_empty() && listed(bare))
}

/// Modules of Python that do one thing each, to files of the workspace: tests and checks. Not here:
/// what installs, serves, or runs any program (`pip`, `http.server`, `tox`).
const MODULES: [&str; 8] = [
    "pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint",
];

/// Whether words are Python with one of its [`MODULES`]: `python3 -m pytest`. What such a command
/// runs comes from the workspace, so it is granted by prefix only where a sandbox without network
/// holds it.
pub(super) fn is_known_module<'w>(words: impl IntoIterator<Item = &'w str>) -> bool {
    let mut words = words.into_iter();
    let program = words.next().and_then(|program| program.rsplit('/').next());
    let bare = |program: &str| {
        let version = |c: char| c.is_ascii_digit() || c == '.';
        program.trim_end_matches(version).to_owned()
    };
    let python = program.map(bare).is_some_and(|name| name == "python");
    python
        && words.next() == Some("-m")
        && words.next().is_some_and(|module| MODULES.contains(&module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_known_in_every_version() {
        for program in [
            "env",
            "python3.12",
            "bash",
            "lua5.4",
            "npx",
            "make",
            ".",
            "sudo",
            "ld.so",
            "ld-linux-x86-64.so.2",
            "gh",
            "rustup",
            "tar",
        ] {
            assert!(is_runner(program), "{program}");
        }
        for program in ["cargo", "git", "ls", "npm", "pytest", "sha256sum", "", "3"] {
            assert!(!is_runner(program), "{program}");
        }
    }
    #[test]
    fn a_module_is_known_by_its_name_only() {
        let known = |text: &str| is_known_module(text.split(' '));
        for text in [
            "python3 -m pytest",
            "python -m unittest",
            ".venv/bin/python3.12 -m mypy",
        ] {
            assert!(known(text), "{text}");
        }
        for text in [
            "python3",
            "python3 -m",
            "python3 -m pip",
            "python3 -m http.server",
            "python3 -I -m pytest",
            "python3 -c pytest",
            "ipython -m pytest",
            "node -m pytest",
            "",
        ] {
            assert!(!known(text), "{text}");
        }
    }
}
