//! The user's own git settings, without what runs a program, leads elsewhere or holds a secret.
//!
//! A sandboxed command finds them as `~/.gitconfig`: without a name and an address git makes no
//! commit. They are read by a parser of our own and written anew from a list of harmless keys.
//! Running `git config` instead would obey includes and whatever else a newer git reads there.

use std::{fmt::Write as _, io::Read as _, iter::Peekable, path::Path, str::Chars};

use super::is_own;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The most settings that are taken over.
const MAX_SETTINGS: usize = 512;

/// The longest value that is taken over, in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// Where git reads its settings below the home. A later file wins.
const FILES: [&str; 2] = [".config/git/config", ".gitconfig"];

/// What the file begins with.
const HEAD: &str = "# Made by Haft from your own settings. What runs a program, includes a file or \
                    holds a secret is left out.\n";

/// Sections whose settings are all harmless: colours, and which advice is given.
const SECTIONS: [&str; 2] = ["advice", "color"];

/// Harmless settings, in lower case. None of them names a program, a merge strategy, a file to read
/// or a server.
const KEYS: &[(&str, &[&str])] = &[
    ("user", &["name", "email", "useconfigonly"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("init", &["defaultbranch"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "commentchar",
            "eol",
            "precomposeunicode",
            "quotepath",
            "safecrlf",
            "whitespace",
        ],
    ),
    ("apply", &["whitespace"]),
    ("blame", &["coloring", "date", "showemail"]),
    ("branch", &["autosetupmerge", "autosetuprebase", "sort"]),
    ("checkout", &["defaultremote"]),
    ("column", &["branch", "status", "tag", "ui"]),
    ("commit", &["cleanup", "status", "verbose"]),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "colormovedws",
            "context",
            "indentheuristic",
            "interhunkcontext",
            "mnemonicprefix",
            "noprefix",
            "renamelimit",
            "renames",
            "statgraphwidth",
            "submodule",
            "wserrorhighlight",
        ],
    ),
    ("fetch", &["prune", "prunetags"]),
    ("format", &["pretty"]),
    (
        "grep",
        &["column", "extendedregexp", "linenumber", "patterntype"],
    ),
    (
        "log",
        &["abbrevcommit", "date", "decorate", "follow", "mailmap"],
    ),
    (
        "merge",
        &[
            "conflictstyle",
            "ff",
            "log",
            "renamelimit",
            "renames",
            "stat",
        ],
    ),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    (
        "rebase",
        &[
            "abbreviatecommands",
            "autosquash",
            "autostash",
            "missingcommitscheck",
            "stat",
            "updaterefs",
        ],
    ),
    ("rerere", &["autoupdate", "enabled"]),
    ("safe", &["directory"]),
    ("stash", &["showpatch", "showstat"]),
    (
        "status",
        &[
            "branch",
            "relativepaths",
            "short",
            "showstash",
            "showuntrackedfiles",
            "submodulesummary",
        ],
    ),
    ("tag", &["sort"]),
    ("versionsort", &["suffix"]),
];

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// In lower case.
    section: String,
    subsection: Option<String>,
    /// In lower case.
    key: String,
    /// `None` is a key alone, which means true.
    value: Option<String>,
}

/// The harmless git settings in a home, as the text of a settings file; `None` if there are none.
pub(crate) fn harmless_git_settings(home: &Path) -> Option<String> {
    let settings: Vec<Setting> = FILES
        .iter()
        .filter_map(|file| parse(&read(&home.join(file))?))
        .flatten()
        .filter(Setting::is_harmless)
        .take(MAX_SETTINGS)
        .collect();
    (!settings.is_empty()).then(|| render(&settings))
}

/// The text of a settings file that is not too large and that nobody else wrote.
fn read(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    if !found.is_file() || !is_own(path) {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    let read = file
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .ok()?;
    (u64::try_from(read).ok()? <= MAX_FILE_BYTES).then_some(text)
}

impl Setting {
    fn is_harmless(&self) -> bool {
        let value = self.value.as_deref().unwrap_or_default();
        // A control character that cannot be written as git writes it is nobody's name or colour.
        let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
        let subsection = self.subsection.as_deref().unwrap_or_default();
        if value.len() > MAX_VALUE_BYTES
            || !value.chars().all(is_plain)
            || subsection.chars().any(char::is_control)
        {
            return false;
        }
        let (section, key) = (self.section.as_str(), self.key.as_str());
        if SECTIONS.contains(&section) {
            return true;
        }
        if self.subsection.is_some() {
            return false;
        }
        if section == "alias" {
            return is_harmless_alias(value);
        }
        KEYS.iter()
            .any(|(of, keys)| *of == section && keys.contains(&key))
    }
}

/// Whether an alias only names a git command. One that begins with `!` is a shell command, options
/// before the command set anything, and an address may have a password in it.
fn is_harmless_alias(value: &str) -> bool {
    // `@{upstream}`, `@~1` and `@` alone are revisions; `token@host` is not.
    let is_revision = |rest: &str| {
        let next = rest.chars().next();
        next.is_none_or(|next| next.is_whitespace() || matches!(next, '{' | '~' | '^' | '.' | ':'))
    };
    let mut after = value.match_indices('@').map(|(at, mark)| at + mark.len());
    value.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !value.contains("://")
        && after.all(|at| value.get(at..).is_some_and(is_revision))
}

/// Writes settings so that git reads exactly these.
fn render(settings: &[Setting]) -> String {
    let mut text = HEAD.to_owned();
    for setting in settings {
        // Writing to a `String` cannot fail.
        let _ = match &setting.subsection {
            None => writeln!(text, "[{}]", setting.section),
            Some(name) => writeln!(text, "[{} \"{}\"]", setting.section, escape(name)),
        };
        let _ = match &setting.value {
            None => writeln!(text, "\t{}", setting.key),
            Some(value) => writeln!(text, "\t{} = \"{}\"", setting.key, escape(value)),
        };
    }
    text
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// Reads the settings of a file. `None` if git would not read it either: half of a file may mean
/// something else than the whole.
fn parse(text: &str) -> Option<Vec<Setting>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    let mut reader = SettingsReader(text.chars().peekable());
    let mut section = None;
    let mut settings = Vec::new();
    while let Some(next) = reader.0.peek().copied() {
        match next {
            '#' | ';' => reader.skip_line(),
            '[' => section = Some(reader.section()?),
            c if c.is_ascii_whitespace() => {
                reader.0.next();
            }
            _ => {
                let (section, subsection) = section.clone()?;
                let key = reader.key()?;
                let value = reader.value().ok()?;
                settings.push(Setting {
                    section,
                    subsection,
                    key,
                    value,
                });
            }
        }
    }
    Some(settings)
}

/// A value that git would not read.
struct Malformed;

/// Reads the parts of a settings file, as `git-config(1)` describes them.
struct SettingsReader<'t>(Peekable<Chars<'t>>);

impl SettingsReader<'_> {
    fn skip_line(&mut self) {
        while self.0.next_if(|c| *c != '\n').is_some() {}
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some(c) = self.0.next_if(|c| is_part(*c)) {
            word.push(c.to_ascii_lowercase());
        }
        word
    }

    /// A section and its subsection.
    fn section(&mut self) -> Option<(String, Option<String>)> {
        self.0.next_if_eq(&'[')?;
        let name = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
        let spaces = self.word(|c| matches!(c, ' ' | '\t'));
        if name.is_empty() {
            return None;
        }
        let subsection = match self.0.next_if_eq(&'"') {
            Some(_) if !spaces.is_empty() => Some(self.subsection()?),
            Some(_) => return None,
            None => None,
        };
        self.0.next_if_eq(&']')?;
        // The old way to write a subsection.
        match (name.split_once('.'), subsection) {
            (Some((section, old)), None) => Some((section.to_owned(), Some(old.to_owned()))),
            (Some(_), Some(_)) => None,
            (None, subsection) => Some((name, subsection)),
        }
    }

    /// The rest of a quoted subsection.
    fn subsection(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.0.next()? {
                '"' => return Some(name),
                '\n' => return None,
                '\\' => name.push(self.0.next().filter(|c| *c != '\n')?),
                c => name.push(c),
            }
        }
    }

    fn key(&mut self) -> Option<String> {
        let key = self.word(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_key = key.starts_with(|first: char| first.is_ascii_alphabetic());
        is_key.then_some(key)
    }

    /// A value up to the end of its line; `None` if there is only the key.
    fn value(&mut self) -> Result<Option<String>, Malformed> {
        self.word(|c| matches!(c, ' ' | '\t'));
        match self.0.peek() {
            None | Some('\n' | '#' | ';') => {
                self.skip_line();
                return Ok(None);
            }
            Some('=') => self.0.next(),
            Some(_) => return Err(Malformed),
        };
        self.word(|c| matches!(c, ' ' | '\t'));
        let mut value = String::new();
        // Spaces at the end count only if something follows them.
        let mut spaces = String::new();
        let mut is_quoted = false;
        loop {
            let Some(c) = self.0.next().filter(|c| *c != '\n') else {
                return if is_quoted {
                    Err(Malformed)
                } else {
                    Ok(Some(value))
                };
            };
            let c = match c {
                '"' => {
                    is_quoted = !is_quoted;
                    value.push_str(&std::mem::take(&mut spaces));
                    continue;
                }
                '#' | ';' if !is_quoted => {
                    self.skip_line();
                    continue;
                }
                ' ' | '\t' if !is_quoted => {
                    spaces.push(c);
                    continue;
                }
                '\\' => match self.0.next().ok_or(Malformed)? {
                    '\n' => continue,
                    'n' => '\n',
                    't' => '\t',
                    'b' => '\u{8}',
                    c @ ('"' | '\\') => c,
                    _ => return Err(Malformed),
                },
                c => c,
            };
            value.push_str(&std::mem::take(&mut spaces));
            value.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Vec<String> {
        let settings = parse(text).unwrap_or_default().into_iter();
        settings
            .filter(Setting::is_harmless)
            .map(|setting| {
                let value = setting.value.unwrap_or_default();
                format!("{}.{}={value}", setting.section, setting.key)
            })
            .collect()
    }

    #[test]
    fn a_name_an_address_and_plain_aliases_are_kept() {
        let text = "[user]\n\tname = Dana Developer ; herself\n\temail = \"dana@example.org\"\n\
                    [init] defaultBranch = main\n[alias]\nlast = log -1 \\\n  --format=%s\n\
                    [color \"diff\"]\nmeta = yellow\n[commit]\nverbose\n";
        assert_eq!(
            kept(text),
            [
                "user.name=Dana Developer",
                "user.email=dana@example.org",
                "init.defaultbranch=main",
                "alias.last=log -1   --format=%s",
                "color.meta=yellow",
                "commit.verbose=",
            ]
        );
    }

    #[test]
    fn an_alias_with_a_revision_is_kept() {
        let text = "[alias]\na = log @{upstream}..\nb = reset --soft @~1\nc = diff @\n";
        let kept_aliases = kept(text).len();
        assert_eq!(kept_aliases, 3);
    }

    #[test]
    fn what_runs_includes_leads_elsewhere_or_is_secret_is_left_out() {
        for text in [
            "[core]\nhooksPath = /tmp/hooks\npager = less\neditor = vi\nsshCommand = x\nfsmonitor = x\n",
            "[core]\nattributesFile = x\nexcludesFile = x\naskPass = x\nworktree = /\n",
            "[credential]\nhelper = store\n",
            "[credential \"https://example.org\"]\nusername = x\n",
            "[include]\npath = ~/.work\n[includeIf \"gitdir:~/work/\"]\npath = x\n",
            "[alias]\na = fetch https://token@example.org/x\nb = push ada:s3cret@example.org:x\n",
            "[alias]\na = fetch https://example.org/x\nb = remote add o me@example.org:x\n",
            "[alias]\nx = !curl example.org\ny = -c http.extraHeader=secret fetch\nz = \"\"\n",
            "[diff]\nexternal = x\n[diff \"pdf\"]\ntextconv = x\n[difftool \"x\"]\ncmd = x\n",
            "[filter \"lfs\"]\nsmudge = x\n[merge \"x\"]\ndriver = x\n[mergetool \"x\"]\ncmd = x\n",
            "[gpg]\nprogram = x\n[commit]\ngpgSign = true\ntemplate = x\n[tag]\ngpgSign = true\n",
            "[user]\nsigningKey = x\n[http]\nextraHeader = x\n[http.proxy]\nx = y\n[sendemail]\nsmtpPass = x\n",
            "[url \"https://token@example.org\"]\ninsteadOf = https://example.org\n",
            "[remote \"origin\"]\nurl = x\n[branch \"main\"]\nremote = x\n[user \"name\"]\nname = x\n",
            "[github]\ntoken = x\n[pager]\nlog = x\n[sequence]\neditor = x\n[uploadpack]\npackObjectsHook = x\n",
        ] {
            assert_eq!(kept(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_file_that_git_would_not_read_is_not_read() {
        for text in [
            "name = x\n",
            "[user\nname = x\n",
            "[user]\nname = \"x\n",
            "[user]\nname = \\q\n",
            "[user]\n1name = x\n",
            "[user]\nname x\n",
            "[\"user\"]\nname = x\n",
            "[user \"a\nname = x\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// A value cannot become a setting of its own on the way through.
    #[test]
    fn what_is_written_is_what_was_read() {
        let text = "[user]\nname = \"a\\n[core]\\npager = x \\\\ \\\" # ; \"\n[alias]\nx = log\n\
                    [color \"a\\\"]\\\\\"]\nui\n";
        let settings = parse(text).unwrap();
        assert!(settings.iter().all(Setting::is_harmless));
        assert_eq!(parse(&render(&settings)).unwrap(), settings);
    }

    #[test]
    fn both_files_are_read_and_a_large_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(harmless_git_settings(home.path()), None);
        std::fs::create_dir_all(home.path().join(".config/git")).unwrap();
        std::fs::write(home.path().join(FILES[0]), "[user]\nname = One\n").unwrap();
        std::fs::write(home.path().join(FILES[1]), "[user]\nname = Two\n").unwrap();
        let text = harmless_git_settings(home.path()).unwrap();
        let settings = "[user]\n\tname = \"One\"\n[user]\n\tname = \"Two\"\n";
        assert_eq!(text, format!("{HEAD}{settings}"));
        let large = usize::try_from(MAX_FILE_BYTES).unwrap();
        std::fs::write(home.path().join(FILES[1]), "#".repeat(large + 1)).unwrap();
        let text = harmless_git_settings(home.path()).unwrap();
        assert!(!text.contains("Two"), "{text}");
    }
}
