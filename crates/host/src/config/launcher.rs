//! Programs that fetch a package and run it: `npx`, `uvx`, `pipx` and the like. Without an exact
//! version they run whatever was published last, so a command without one is refused.

use std::path::Path;

/// A command that fetches a package without an exact version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpinnedCommand {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// A program that fetches what it runs.
struct Launcher {
    /// Its name, and the words after it that make it fetch.
    words: &'static [&'static str],
    /// The option that names the package if it is not the first argument.
    package: &'static [&'static str],
    /// Options that name additional packages.
    more: &'static [&'static str],
    /// Other options that take a value.
    valued: &'static [&'static str],
    /// How its packages are pinned.
    pinned: VersionPin,
}

/// How a version is pinned.
#[derive(Clone, Copy)]
enum VersionPin {
    /// `name@1.2.3`.
    Npm,
    /// `name==1.2.3`, or for uvx `name@1.2.3`.
    Python,
}

const NPM_VALUED: &[&str] = &["-c", "--call", "-w", "--workspace", "--registry", "--cache"];
const UV_VALUED: &[&str] = &[
    "-p",
    "--python",
    "--index",
    "--index-url",
    "--default-index",
    "--cache-dir",
    "--directory",
    "--refresh-package",
];

const LAUNCHERS: &[Launcher] = &[
    npm(&["npx"]),
    npm(&["pnpx"]),
    npm(&["bunx"]),
    npm(&["npm", "exec"]),
    npm(&["npm", "x"]),
    npm(&["pnpm", "dlx"]),
    npm(&["yarn", "dlx"]),
    npm(&["bun", "x"]),
    Launcher {
        words: &["uvx"],
        package: &["--from"],
        more: &["-w", "--with"],
        valued: UV_VALUED,
        pinned: VersionPin::Python,
    },
    Launcher {
        words: &["uv", "tool", "run"],
        package: &["--from"],
        more: &["-w", "--with"],
        valued: UV_VALUED,
        pinned: VersionPin::Python,
    },
    Launcher {
        words: &["pipx", "run"],
        package: &["--spec"],
        more: &[],
        valued: &["--python", "--index-url", "--pip-args", "--path"],
        pinned: VersionPin::Python,
    },
];

const fn npm(words: &'static [&'static str]) -> Launcher {
    Launcher {
        words,
        package: &["-p", "--package"],
        more: &[],
        valued: NPM_VALUED,
        pinned: VersionPin::Npm,
    }
}

/// Shells, which would hide what is started.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "busybox"];

/// Options of `env` whose value is the next word.
const ENV_VALUED: [&str; 4] = ["-u", "--unset", "-C", "--chdir"];

/// Checks a command: everything it fetches must have an exact version.
pub fn check(argv: &[String]) -> Result<(), UnpinnedCommand> {
    let words: Vec<&str> = unwrapped(argv);
    let Some((program, rest)) = words.split_first() else {
        return Ok(());
    };
    let program = name_of(program);
    if SHELLS.contains(&program) && rest.iter().any(|word| runs_text(word)) {
        return Err(UnpinnedCommand {
            message: format!(
                "`{program}` would run a script, so it is not clear which program it starts"
            ),
            hint:
                "write the program and its arguments as a list, such as [\"node\", \"server.js\"]; \
                   variables go to `env`, the directory to `cwd`; for more than that, write a \
                   script and name it: [\"/bin/sh\", \"/path/to/start.sh\"]"
                    .to_owned(),
        });
    }
    let Some(launcher) = launcher(program, rest) else {
        return Ok(());
    };
    let arguments = rest.get(launcher.words.len() - 1..).unwrap_or_default();
    let named = launcher.words.join(" ");
    let packages = launcher.packages(arguments);
    if packages.is_empty() {
        return Err(UnpinnedCommand {
            message: format!("`{named}` does not name a package"),
            hint: launcher.example("PACKAGE"),
        });
    }
    match packages.iter().find(|package| !launcher.is_pinned(package)) {
        None => Ok(()),
        Some(package) => Err(UnpinnedCommand {
            message: format!(
                "`{named}` would run whatever version of `{package}` was published last"
            ),
            hint: launcher.example(bare(package)),
        }),
    }
}

/// The program of a command that fetches what it runs, and the hosts it fetches from.
pub fn fetches_from(argv: &[String]) -> Option<(String, &'static [&'static str])> {
    let words: Vec<&str> = unwrapped(argv);
    let (program, rest) = words.split_first()?;
    let launcher = launcher(name_of(program), rest)?;
    let hosts: &[&str] = match launcher.pinned {
        VersionPin::Npm => &["registry.npmjs.org"],
        VersionPin::Python => &["pypi.org", "files.pythonhosted.org"],
    };
    Some((launcher.words.join(" "), hosts))
}

fn launcher(program: &str, rest: &[&str]) -> Option<&'static Launcher> {
    LAUNCHERS.iter().find(|launcher| {
        let (first, more) = launcher.words.split_first().unwrap_or((&"", &[]));
        *first == program && rest.starts_with(more)
    })
}

impl Launcher {
    /// The packages that are fetched.
    fn packages<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut found = Vec::new();
        let mut more = Vec::new();
        let mut first = None;
        let mut rest = arguments.iter().copied();
        while let Some(word) = rest.next() {
            if first.is_some() {
                break;
            }
            if word == "--" {
                first = rest.next();
                break;
            }
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value)),
                Some(_) | None => (word, None),
            };
            if self.package.contains(&option) {
                found.extend(value.or_else(|| rest.next()));
            } else if self.more.contains(&option) {
                let packages = value.or_else(|| rest.next()).unwrap_or_default();
                more.extend(packages.split(','));
            } else if self.valued.contains(&option) {
                if value.is_none() {
                    rest.next();
                }
            } else if !word.starts_with('-') {
                first = Some(word);
            }
        }
        if found.is_empty() {
            found.extend(first);
        }
        found.extend(more);
        found
    }

    fn is_pinned(&self, package: &str) -> bool {
        match self.pinned {
            VersionPin::Npm => {
                // The first letter may be the `@` of a scope.
                let version = package.get(1..).and_then(|rest| rest.rsplit_once('@'));
                version.is_some_and(|(_, version)| is_exact(version, 3))
            }
            VersionPin::Python => {
                let version = package.split_once("==").or_else(|| package.split_once('@'));
                version.is_some_and(|(_, version)| is_exact(version, 2))
            }
        }
    }

    fn example(&self, package: &str) -> String {
        let version = match self.pinned {
            VersionPin::Npm => "@1.2.3",
            VersionPin::Python => "==1.2.3",
        };
        format!("name the exact version, such as \"{package}{version}\"")
    }
}

/// Whether a version means exactly one release: numbers, possibly with a pre-release or build
/// suffix.
fn is_exact(version: &str, least_numbers: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    if !version.chars().all(plain) {
        return false;
    }
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = numbers.split('.');
    let count = numbers.split('.').count();
    count >= least_numbers && parts.all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
}

/// The package without a version.
fn bare(package: &str) -> &str {
    let end = package
        .char_indices()
        .skip(1)
        .find(|(_, c)| matches!(c, '@' | '=' | '>' | '<' | '~' | '!'))
        .map_or(package.len(), |(at, _)| at);
    package.get(..end).unwrap_or(package)
}

/// The command without a leading `env` and its variables.
fn unwrapped(argv: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = argv.iter().map(String::as_str).collect();
    while words.first().is_some_and(|word| name_of(word) == "env") {
        words.remove(0);
        while let Some(word) = words
            .first()
            .copied()
            .filter(|word| word.starts_with('-') || word.contains('='))
        {
            words.remove(0);
            if ENV_VALUED.contains(&word) && !words.is_empty() {
                words.remove(0);
            }
        }
    }
    words
}

fn runs_text(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('c')
}

fn name_of(program: &str) -> &str {
    Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Result<(), UnpinnedCommand> {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        check(&argv)
    }

    #[test]
    fn mc_25_what_is_fetched_has_an_exact_version() {
        for fine in [
            "npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv",
            "npx -y -p left-pad@1.3.0 left-pad",
            "/usr/bin/npx --yes --package=left-pad@1.3.0-rc.1 left-pad",
            "npm exec -- server@1.0.0",
            "uvx mcp-server-git==2026.1.2",
            "uvx --from mcp-server-git@2026.1.2 mcp-server-git",
            "uv tool run --python 3.12 mcp-server-git==1.2",
            "pipx run --spec tool==1.0 tool",
            "node server.js",
            "python3 -m server",
            "npm start",
            "env -i A=b node server.js",
            "uvx --with a==1.0,b==2.0 server==1.0",
            "env -u A npx server@1.0.0",
        ] {
            assert_eq!(of(fine), Ok(()), "{fine}");
        }
        for bad in [
            "npx -y @modelcontextprotocol/server-filesystem /srv",
            "npx server@latest",
            "npx server@^1.2.3",
            "npx server@1",
            "npx server@1.2",
            "npx server@1.x.0",
            "npx -p server@1.0.0 -p other other",
            "npx",
            "npx github:someone/server",
            "npx https://example.org/a.tgz",
            "npm exec server",
            "pnpm dlx server",
            "bunx server",
            "uvx server",
            "uvx server>=1.0",
            "uvx --with other server==1.0",
            "uvx --with=a==1.0,b server==1.0",
            "env -u A npx server",
            "uvx --from git+https://example.org/x server==1.0",
            "pipx run server",
            "env A=b npx server",
            "/opt/node/bin/npx server",
            "sh -c npx",
            "bash -lc npx",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
        let refused = of("npx -y @scope/server@latest").unwrap_err();
        assert!(refused.message.contains("`@scope/server@latest`"));
        assert!(
            refused.hint.contains("\"@scope/server@1.2.3\""),
            "{}",
            refused.hint
        );
    }
}
