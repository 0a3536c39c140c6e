//! Programs that fetch a package and run it: `npx`, `uvx`, `pipx` and the like. Without an exact
//! version they run whatever was published last, so a command without one is refused. What it
//! would fetch can be asked for ([`unpinned`]) and written into it ([`pin`]); `package_versions/`
//! finds the versions.

use std::{ops::Range, path::Path};

/// A command that fetches a package without an exact version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpinnedCommand {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// Where a package comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageIndex {
    /// npm's registry.
    Npm,
    /// The Python Package Index.
    Python,
}

/// A package that a command fetches without an exact version, by a name that an index knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnpinnedPackage {
    /// Where it comes from.
    pub index: PackageIndex,
    /// Its name, without extras.
    pub name: String,
    /// The tag that was asked for; `latest` if none was.
    pub tag: String,
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
    /// Where its packages come from, which also says how a version is written: `name@1.2.3`, or
    /// `name==1.2.3`.
    index: PackageIndex,
}

const NPM_VALUED: &[&str] = &["-c", "--call", "-w", "--workspace", "--registry", "--cache"];
const UV_VALUED: &[&str] = &[
    "-p",
    "--python",
    "--index",
    "--index-url",
    "--default-index",
    "--extra-index-url",
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
        index: PackageIndex::Python,
    },
    Launcher {
        words: &["uv", "tool", "run"],
        package: &["--from"],
        more: &["-w", "--with"],
        valued: UV_VALUED,
        index: PackageIndex::Python,
    },
    Launcher {
        words: &["pipx", "run"],
        package: &["--spec"],
        more: &[],
        valued: &["--python", "--index-url", "--pip-args", "--path"],
        index: PackageIndex::Python,
    },
];

const fn npm(words: &'static [&'static str]) -> Launcher {
    Launcher {
        words,
        package: &["-p", "--package"],
        more: &[],
        valued: NPM_VALUED,
        index: PackageIndex::Npm,
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
    let named = launcher.words.join(" ");
    let packages = launcher.packages(argv);
    if packages.is_empty() {
        return Err(UnpinnedCommand {
            message: format!("`{named}` does not name a package"),
            hint: launcher.example("PACKAGE"),
        });
    }
    let packages = packages.iter().map(|place| place.text(argv));
    match packages
        .into_iter()
        .find(|package| !launcher.is_pinned(package))
    {
        None => Ok(()),
        Some(package) => Err(UnpinnedCommand {
            message: format!(
                "`{named}` would run whatever version of `{package}` was published last"
            ),
            hint: launcher.example(bare(package)),
        }),
    }
}

/// The packages that a command fetches without an exact version, as far as an index knows their
/// names. One at an address or in a repository is not among them.
pub fn unpinned(argv: &[String]) -> Vec<UnpinnedPackage> {
    let Some(launcher) = of_command(argv) else {
        return Vec::new();
    };
    let packages = launcher.packages(argv);
    packages
        .iter()
        .filter_map(|place| launcher.unpinned(place.text(argv)))
        .collect()
}

/// The command with exact versions where there are none and one is known.
pub fn pin(
    argv: &[String],
    version_of: impl Fn(&UnpinnedPackage) -> Option<String>,
) -> Vec<String> {
    let mut pinned = argv.to_vec();
    let Some(launcher) = of_command(argv) else {
        return pinned;
    };
    // From the end, so that the places of those before stay what they are.
    for place in launcher.packages(argv).iter().rev() {
        let package = place.text(argv);
        let version = launcher.unpinned(package);
        let version = version.and_then(|unpinned| version_of(&unpinned));
        if let Some((version, word)) = version.zip(pinned.get_mut(place.word)) {
            let exact = launcher.exactly(bare(package), &version);
            if launcher.is_pinned(&exact) && word.get(place.range.clone()).is_some() {
                word.replace_range(place.range.clone(), &exact);
            }
        }
    }
    pinned
}

/// The command without the versions of what it fetches, to compare it with another.
pub fn without_versions(argv: &[String]) -> Vec<String> {
    let mut plain = argv.to_vec();
    let packages = of_command(argv).map(|launcher| launcher.packages(argv));
    for place in packages.unwrap_or_default().iter().rev() {
        let package = bare(place.text(argv)).to_owned();
        if let Some(word) = plain.get_mut(place.word)
            && word.get(place.range.clone()).is_some()
        {
            word.replace_range(place.range.clone(), &package);
        }
    }
    plain
}

/// The program of a command that fetches what it runs, and the hosts it fetches from.
pub fn fetches_from(argv: &[String]) -> Option<(String, &'static [&'static str])> {
    let launcher = of_command(argv)?;
    let hosts: &[&str] = match (launcher.index, launcher.words) {
        (PackageIndex::Npm, ["yarn", ..]) => &["registry.yarnpkg.com"],
        (PackageIndex::Npm, _) => &["registry.npmjs.org"],
        (PackageIndex::Python, _) => &["pypi.org", "files.pythonhosted.org"],
    };
    Some((launcher.words.join(" "), hosts))
}

/// The launcher that a command starts with.
fn of_command(argv: &[String]) -> Option<&'static Launcher> {
    let words = unwrapped(argv);
    let (program, rest) = words.split_first()?;
    launcher(name_of(program), rest)
}

fn launcher(program: &str, rest: &[&str]) -> Option<&'static Launcher> {
    LAUNCHERS.iter().find(|launcher| {
        let (first, more) = launcher.words.split_first().unwrap_or((&"", &[]));
        *first == program && rest.starts_with(more)
    })
}

impl Launcher {
    /// The packages that are fetched, where the command names them.
    fn packages(&self, argv: &[String]) -> Vec<PackageWord> {
        let unwrapped = unwrapped(argv).len();
        let start = argv.len() - unwrapped + self.words.len();
        let mut found = Vec::new();
        let mut more = Vec::new();
        let mut first = None;
        let mut rest = argv.iter().map(String::as_str).enumerate().skip(start);
        while let Some((at, word)) = rest.next() {
            if first.is_some() {
                break;
            }
            if word == "--" {
                first = rest.next().map(|(at, word)| PackageWord::whole(at, word));
                break;
            }
            let (option, value) = match word.split_once('=') {
                Some((option, _)) if word.starts_with("--") => (
                    option,
                    Some(PackageWord {
                        word: at,
                        range: option.len() + 1..word.len(),
                    }),
                ),
                Some(_) | None => (word, None),
            };
            let mut value = || {
                let next = || rest.next().map(|(at, word)| PackageWord::whole(at, word));
                value.clone().or_else(next)
            };
            if self.package.contains(&option) {
                found.extend(value());
            } else if self.more.contains(&option) {
                more.extend(value().into_iter().flat_map(|list| list.split(argv)));
            } else if self.valued.contains(&option) {
                value();
            } else if !word.starts_with('-') {
                first = Some(PackageWord::whole(at, word));
            }
        }
        if found.is_empty() {
            found.extend(first);
        }
        found.extend(more);
        found
    }

    /// What to look for to pin a package; `None` if it is pinned, or not a name with or without a
    /// tag.
    fn unpinned(&self, package: &str) -> Option<UnpinnedPackage> {
        let name = bare(package);
        let tag = match package.get(name.len()..).unwrap_or_default() {
            "" => "latest",
            rest => rest.strip_prefix('@')?,
        };
        let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic())
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        // An index has no other tag for Python.
        let is_tag = is_tag && (self.index == PackageIndex::Npm || tag == "latest");
        let plain = |part: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(plain)
        };
        let (name, is_name) = match self.index {
            PackageIndex::Npm => {
                let scoped = name.strip_prefix('@').and_then(|name| name.split_once('/'));
                let is_name = scoped.map_or_else(|| plain(name), |(a, b)| plain(a) && plain(b));
                (name, is_name)
            }
            PackageIndex::Python => {
                let extras = name.strip_suffix(']').and_then(|name| name.split_once('['));
                let name = extras.map_or(name, |(name, _)| name);
                (name, plain(name))
            }
        };
        (is_tag && is_name && !self.is_pinned(package)).then(|| UnpinnedPackage {
            index: self.index,
            name: name.to_owned(),
            tag: tag.to_owned(),
        })
    }

    /// A package at an exact version.
    fn exactly(&self, package: &str, version: &str) -> String {
        match self.index {
            PackageIndex::Npm => format!("{package}@{version}"),
            PackageIndex::Python => format!("{package}=={version}"),
        }
    }

    fn is_pinned(&self, package: &str) -> bool {
        match self.index {
            PackageIndex::Npm => {
                // The first letter may be the `@` of a scope.
                let version = package.get(1..).and_then(|rest| rest.rsplit_once('@'));
                version.is_some_and(|(_, version)| is_exact(version, 3))
            }
            PackageIndex::Python => {
                let version = package.split_once("==").or_else(|| package.split_once('@'));
                version.is_some_and(|(_, version)| is_exact(version, 2))
            }
        }
    }

    fn example(&self, package: &str) -> String {
        let exact = self.exactly(package, "1.2.3");
        format!("name the exact version, such as \"{exact}\"")
    }
}

/// Where a command names a package: in which word, and which part of it.
#[derive(Debug, Clone)]
struct PackageWord {
    word: usize,
    range: Range<usize>,
}

impl PackageWord {
    fn whole(word: usize, text: &str) -> Self {
        Self {
            word,
            range: 0..text.len(),
        }
    }

    fn text<'a>(&self, argv: &'a [String]) -> &'a str {
        let word = argv.get(self.word);
        word.and_then(|word| word.get(self.range.clone()))
            .unwrap_or_default()
    }

    /// The parts of a list with commas.
    fn split(&self, argv: &[String]) -> Vec<Self> {
        let mut start = self.range.start;
        let parts = self.text(argv).split(',').map(|part| {
            let range = start..start + part.len();
            start = range.end + 1;
            Self {
                word: self.word,
                range,
            }
        });
        parts.collect()
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

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_known_version_is_written_where_the_command_names_the_package() {
        for (command, pinned) in [
            ("npx -y server /srv", "npx -y server@1.2.3 /srv"),
            ("npx -y @scope/server@latest", "npx -y @scope/server@1.2.3"),
            (
                "env A=b npx --package=server bin",
                "env A=b npx --package=server@1.2.3 bin",
            ),
            (
                "npx -p server@1.0.0 -p other x",
                "npx -p server@1.0.0 -p other@1.2.3 x",
            ),
            ("npm exec -- server", "npm exec -- server@1.2.3"),
            ("uvx server[cli]@latest", "uvx server[cli]==1.2.3"),
            (
                "uvx --with=a,b==2.0,c server",
                "uvx --with=a==1.2.3,b==2.0,c==1.2.3 server==1.2.3",
            ),
            ("uvx --from server bin", "uvx --from server==1.2.3 bin"),
            ("pipx run server", "pipx run server==1.2.3"),
            ("bunx server", "bunx server@1.2.3"),
        ] {
            let known = |_: &UnpinnedPackage| Some("1.2.3".to_owned());
            assert_eq!(pin(&words(command), known), words(pinned), "{command}");
            assert_eq!(of(pinned), Ok(()), "{pinned}");
            let plain = without_versions(&words(command));
            assert_eq!(plain, without_versions(&words(pinned)), "{command}");
        }
    }

    #[test]
    fn what_no_index_knows_by_its_name_is_not_pinned() {
        for command in [
            "node server.js",
            "npx server@1.2.3",
            "npx server@^1.2.3",
            "npx server@1",
            "npx ./server",
            "npx ../server",
            "npx github:someone/server",
            "npx https://example.org/a.tgz",
            "npx server@npm:other",
            "uvx server>=1.0",
            "uvx server@main",
            "uvx --from git+https://example.org/x server",
            "sh -c npx",
        ] {
            assert_eq!(unpinned(&words(command)), [], "{command}");
            let known = |_: &UnpinnedPackage| Some("1.2.3".to_owned());
            assert_eq!(pin(&words(command), known), words(command));
        }
        let found = unpinned(&words("npx -y @scope/server@next"));
        let wanted = UnpinnedPackage {
            index: PackageIndex::Npm,
            name: "@scope/server".to_owned(),
            tag: "next".to_owned(),
        };
        assert_eq!(found, [wanted]);
        // A version that is not exact is not written.
        let odd = pin(&words("npx server"), |_| Some("1.x".to_owned()));
        assert_eq!(odd, words("npx server"));
    }
}
