//! What a command touches, as far as its words say: files it reads and writes, hosts it connects
//! to. Paths are compared by name; where they really lead is the back end's business.

use haft_contract::{Access, PathMode, WorkPath};

use crate::protected::protecting_rule;

use super::{
    options::has,
    parse::Redirection,
    word::{Value, Word},
};

/// Files that are no files, to which anything may be written.
const SINKS: [&str; 4] = ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];
/// How many directories are followed through a script.
const MAX_DIRECTORIES: usize = 8;
/// How many words of one command are looked at as paths.
const MAX_TOUCHES: usize = 64;

/// Something a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) access: Access,
    pub(crate) how: How,
}

/// How a command comes to touch something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A word of the command names it, so whatever allows those words allows this.
    Named,
    /// Something beside the words does: a redirection, a hidden effect.
    Beside,
    /// A word may be a path.
    Maybe,
}

/// The directories a script may be in at some point. `cd` adds one, and nothing takes one away,
/// because it may not have been reached.
#[derive(Debug, Clone)]
pub(super) struct Directories<'r> {
    root: &'r str,
    places: Vec<WorkPath>,
    /// Whether there may be others.
    lost: bool,
}

/// Where a written path leads.
pub(super) enum Place {
    /// Nowhere that matters.
    Nowhere,
    /// To one of these.
    Inside(Vec<WorkPath>),
    /// Out of the workspace; by name it looks like this.
    Outside(Option<WorkPath>),
    /// To a host.
    Host(String, u16),
    /// Perhaps to one of these, perhaps elsewhere.
    Lost(Vec<WorkPath>),
}

impl<'r> Directories<'r> {
    pub(super) fn new(root: &'r str, cwd: &WorkPath) -> Self {
        Self {
            root,
            places: vec![cwd.clone()],
            lost: false,
        }
    }

    /// Follows a `cd`.
    pub(super) fn change(&mut self, to: Option<&Word>) {
        let target = to.and_then(Word::text).filter(|text| *text != "-");
        match target.map(|target| self.place(target)) {
            Some(Place::Inside(places)) => {
                for place in places {
                    if !self.places.contains(&place) {
                        self.places.push(place);
                    }
                }
                self.lost |= self.places.len() > MAX_DIRECTORIES;
                self.places.truncate(MAX_DIRECTORIES);
            }
            Some(Place::Nowhere | Place::Outside(_) | Place::Host(..) | Place::Lost(_)) | None => {
                self.lost = true;
            }
        }
    }

    /// A written path as absolute ones; as written where it leads out of the workspace.
    fn absolute(&self, text: &str) -> Vec<String> {
        match self.place(text) {
            Place::Inside(paths) | Place::Lost(paths) => paths
                .iter()
                .map(|path| format!("{}/{path}", self.root.trim_end_matches('/')))
                .collect(),
            Place::Nowhere | Place::Outside(_) | Place::Host(..) => vec![text.to_owned()],
        }
    }

    /// Where a written path leads.
    pub(super) fn place(&self, text: &str) -> Place {
        if text.is_empty() || SINKS.contains(&text) {
            return Place::Nowhere;
        }
        if let Some(rest) = ["/dev/tcp/", "/dev/udp/"]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix))
        {
            let (host, port) = rest.split_once('/').unwrap_or((rest, ""));
            return Place::Host(host.to_owned(), port.parse().unwrap_or(0));
        }
        let outside =
            || Place::Outside(WorkPath::relative(text.trim_start_matches(['/', '~'])).ok());
        if text.starts_with('~') {
            return outside();
        }
        if text.starts_with('/') {
            return match WorkPath::parse(text, self.root) {
                Ok(path) if self.root != "/" => Place::Inside(vec![path]),
                Ok(_) | Err(_) => outside(),
            };
        }
        let mut places = Vec::with_capacity(self.places.len());
        for directory in &self.places {
            let Ok(path) = WorkPath::parse(&format!("{directory}/{text}"), self.root) else {
                let name = text.rsplit("../").next().unwrap_or_default();
                return Place::Outside(WorkPath::relative(name).ok());
            };
            places.push(path);
        }
        if self.lost {
            Place::Lost(places)
        } else {
            Place::Inside(places)
        }
    }
}

/// What came of looking at words as paths.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) touches: Vec<Touch>,
    /// Paths that are outside the workspace, or may be.
    pub(super) outside: Vec<String>,
    /// What was looked at as a path, as written.
    pub(super) named: Vec<(PathMode, String)>,
    /// Whether files are touched that are known only when it runs.
    pub(super) vague: bool,
}

impl Touched {
    /// Adds what one word leads to.
    pub(super) fn word(&mut self, at: &Directories<'_>, word: &Word, mode: PathMode, how: How) {
        match &word.value {
            Value::Literal(text) => self.text(at, text, mode, how),
            Value::Glob(glob) => {
                self.vague = true;
                self.name(mode, glob);
                // A glob leads nowhere its directory does not.
                let fixed = glob.split(['*', '?', '[']).next().unwrap_or_default();
                let directory = fixed
                    .rsplit_once('/')
                    .map_or(".", |(directory, _)| directory);
                if glob.contains("..") {
                    self.outside.push(glob.clone());
                } else if fixed.starts_with(['/', '~']) {
                    match at.place(directory) {
                        Place::Inside(_) => {}
                        Place::Nowhere | Place::Outside(_) | Place::Host(..) | Place::Lost(_) => {
                            self.outside.push(glob.clone());
                        }
                    }
                }
            }
            Value::Given | Value::Unknown => self.vague = true,
        }
    }

    fn name(&mut self, mode: PathMode, text: &str) {
        if self.named.len() < MAX_TOUCHES {
            self.named.push((mode, text.to_owned()));
        }
    }

    pub(super) fn text(&mut self, at: &Directories<'_>, text: &str, mode: PathMode, how: How) {
        if self.touches.len() >= MAX_TOUCHES {
            self.vague = true;
            self.outside.push(text.to_owned());
            return;
        }
        let place = at.place(text);
        let path = matches!(place, Place::Inside(_) | Place::Lost(_) | Place::Outside(_));
        if path && (how != How::Maybe || text.contains(['/', '.'])) {
            self.name(mode, text);
        }
        let mut add = |path: WorkPath| {
            let access = match mode {
                PathMode::Read => Access::read(path),
                PathMode::Write => Access::write(path),
            };
            self.touches.push(Touch { access, how });
        };
        match place {
            Place::Nowhere => {}
            Place::Inside(paths) => paths.into_iter().for_each(add),
            Place::Lost(paths) => {
                paths.into_iter().for_each(add);
                self.vague = true;
                if how != How::Maybe {
                    self.outside.push(text.to_owned());
                }
            }
            Place::Outside(path) => {
                if let Some(path) = path {
                    add(path);
                }
                if how != How::Maybe {
                    self.outside.push(text.to_owned());
                }
            }
            Place::Host(host, port) => self.touches.push(Touch {
                access: Access::Host { host, port },
                how: How::Beside,
            }),
        }
    }

    /// A copy into a directory gets the name of what is copied. Where that would be a protected name,
    /// nobody can tell from the words whether it is written.
    pub(super) fn copied_into(
        &mut self,
        at: &Directories<'_>,
        paths: &[(usize, PathMode)],
        words: &[Word],
    ) {
        let Some(((last, _), sources)) = paths.split_last() else {
            return;
        };
        let target = words.get(*last).map(Word::shown).unwrap_or_default();
        for (place, _) in sources {
            let source = words.get(*place).map(Word::shown).unwrap_or_default();
            let name = source.trim_end_matches('/').rsplit('/').next();
            let path = format!("{target}/{}", name.unwrap_or_default());
            if let Place::Inside(paths) = at.place(&path)
                && paths
                    .iter()
                    .any(|path| protecting_rule(path.as_str()).is_some())
            {
                self.outside.push(path);
            }
        }
    }

    /// Adds what a redirection opens.
    pub(super) fn redirection(&mut self, at: &Directories<'_>, redirection: &Redirection) {
        let target = &redirection.target;
        let descriptor = |text: &str| {
            text.is_empty() || text == "-" || text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let modes: &[PathMode] = match redirection.operator.as_str() {
            "<" => &[PathMode::Read],
            "<&" | ">&" if target.text().is_some_and(descriptor) => return,
            "<&-" | ">&-" => return,
            "<>" => &[PathMode::Read, PathMode::Write],
            _ => &[PathMode::Write],
        };
        if target.text().is_none() {
            self.outside.push(target.raw.clone());
        }
        for mode in modes {
            self.word(at, target, *mode, How::Beside);
        }
    }
}

/// Programs that run the file they are given.
const RUN_A_FILE: &str = "sh bash dash zsh ksh mksh ash fish source . python python2 python3 pypy pypy3 \
     perl ruby node nodejs bun deno php lua luajit";

/// The programs and scripts a command runs: a bare name, or absolute paths.
pub(super) fn runs(at: &Directories<'_>, name: &str, words: &[Word]) -> Vec<String> {
    let Some(program) = words.first().and_then(Word::text) else {
        return Vec::new();
    };
    let mut found = if program.contains('/') {
        at.absolute(program)
    } else {
        vec![program.to_owned()]
    };
    if has(RUN_A_FILE, name) {
        let script = words.iter().skip(1).find(|word| !word.may_be_option());
        if let Some(script) = script.and_then(Word::text) {
            found.extend(at.absolute(script));
        }
    }
    found
}

/// The operands of programs that change files: which words they write, and which they read.
pub(super) fn changes(program: &str, words: &[Word]) -> Option<Vec<(usize, PathMode)>> {
    let operands: Vec<usize> = words
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, word)| !word.shown().starts_with('-'))
        .map(|(place, _)| place)
        .collect();
    let all = |mode| {
        operands
            .iter()
            .map(|place| (*place, mode))
            .collect::<Vec<_>>()
    };
    let last_written = || {
        let mut found = all(PathMode::Read);
        if let Some((_, mode)) = found.last_mut() {
            *mode = PathMode::Write;
        }
        found
    };
    let into = words.iter().any(|word| {
        let text = word.shown();
        text.starts_with("-t") || text.starts_with("--t")
    });
    let found = match program {
        "mv" => {
            let mut found = all(PathMode::Read);
            found.extend(all(PathMode::Write));
            found
        }
        "tee" | "touch" | "mkdir" | "rmdir" | "rm" | "unlink" | "shred" | "truncate" | "patch"
        | "mkfifo" | "mknod" | "ex" | "ed" => all(PathMode::Write),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => {
            all(PathMode::Write).into_iter().skip(1).collect()
        }
        "cp" | "install" | "ln" | "rsync" | "scp" if into => all(PathMode::Write),
        "cp" | "install" | "ln" | "rsync" | "scp" => last_written(),
        "uniq" | "xxd" if operands.len() > 1 => last_written(),
        "sed" | "gsed" if has_letter(words, 'i', "in-place") => all(PathMode::Write),
        "sort" | "curl" | "gcc" | "cc" | "clang" | "tree" | "go" => values(words, 'o', "output"),
        "wget" => values(words, 'O', "output-document"),
        "git" => values(words, '\0', "output"),
        _ => return None,
    };
    (!found.is_empty()).then_some(found)
}

/// `of=FILE` of `dd` and the like: the text after the sign.
pub(super) fn assignments_of_dd(words: &[Word]) -> Vec<(&str, PathMode)> {
    words
        .iter()
        .filter_map(|word| {
            let text = word.shown();
            let read = text.strip_prefix("if=").map(|path| (path, PathMode::Read));
            read.or_else(|| text.strip_prefix("of=").map(|path| (path, PathMode::Write)))
        })
        .collect()
}

fn has_letter(words: &[Word], letter: char, long: &str) -> bool {
    words.iter().any(|word| {
        let text = word.shown();
        match text.strip_prefix("--") {
            Some(name) => {
                let name = name.split_once('=').map_or(name, |(name, _)| name);
                !name.is_empty() && long.starts_with(name)
            }
            None => text.starts_with('-') && text.contains(letter),
        }
    })
}

/// The words that follow an option which names an output file.
fn values(words: &[Word], letter: char, long: &str) -> Vec<(usize, PathMode)> {
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate().skip(1) {
        let text = word.shown();
        let following = match text.strip_prefix("--") {
            Some(name) => !name.is_empty() && !name.contains('=') && long.starts_with(name),
            None => text.starts_with('-') && text.ends_with(letter),
        };
        if following && place + 1 < words.len() {
            found.push((place + 1, PathMode::Write));
        }
    }
    found
}

/// Output files that are written into their option: `--output=f`, `-of`.
pub(super) fn attached_outputs(program: &str, words: &[Word]) -> Vec<String> {
    let (letter, long) = match program {
        "sort" | "curl" | "gcc" | "cc" | "clang" | "tree" => (Some('o'), "output"),
        "wget" => (Some('O'), "output-document"),
        "git" => (None, "output"),
        _ => return Vec::new(),
    };
    words
        .iter()
        .skip(1)
        .filter_map(|word| {
            let text = word.shown();
            if let Some(name) = text.strip_prefix("--") {
                let (name, value) = name.split_once('=')?;
                return (!name.is_empty() && long.starts_with(name)).then(|| value.to_owned());
            }
            let cluster = text.strip_prefix('-')?;
            let (_, value) = cluster.split_once(letter?)?;
            (!value.is_empty()).then(|| value.to_owned())
        })
        .collect()
}

/// The paths in `rev:path`, `:path`, `:0:path` and `-L1,5:path` of Git.
pub(super) fn paths_in_revisions(words: &[Word]) -> Vec<&str> {
    let texts = words.iter().skip(1).map(Word::shown);
    texts
        .filter(|text| !text.starts_with("--"))
        .flat_map(|text| {
            // Every colon may be the one before the path.
            let starts = text.match_indices(':').map(|(at, _)| at + 1);
            starts.filter_map(|start| text.get(start..))
        })
        .map(|path| {
            // `:(top)path` and `:/path` are pathspecs.
            let magic = path.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            magic.map_or(path, |(_, path)| path).trim_start_matches('/')
        })
        .filter(|path| !path.is_empty())
        .collect()
}

/// Programs that take more words from `FILE` where one of theirs is `@FILE`.
const RESPONSES: &str = "strings readelf nm size objdump objcopy strip ar ranlib addr2line c++filt \
     elfedit ld as gcc g++ cc c++ clang clang++ javac java rustc";

/// The files that are named by `@FILE`.
pub(super) fn response_files(program: &str, words: &[Word]) -> Vec<String> {
    if !has(RESPONSES, program) {
        return Vec::new();
    }
    let texts = words.iter().skip(1).map(Word::shown);
    texts
        .filter_map(|text| text.strip_prefix('@'))
        .map(str::to_owned)
        .collect()
}
