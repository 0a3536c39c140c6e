//! What a command touches according to its words: files it reads and writes, hosts it connects to.
//! Paths are compared by name; the back end resolves where they really lead.

use std::borrow::Cow;

use haft_contract::{Access, PathMode, WorkPath};

use crate::protected::protecting_rule;

use super::{
    changes::is_flag,
    options::has,
    parsed::Redirection,
    word::{Value, Word},
};

/// Special files to which anything may be written.
const SINKS: [&str; 4] = ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];
/// How many directories are tracked through a script.
const MAX_DIRECTORIES: usize = 8;
/// How many words of one command are considered as paths.
const MAX_TOUCHES: usize = 64;

/// Something a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandTouch {
    pub(crate) access: Access,
    pub(crate) how: TouchOrigin,
    /// Whether everything beneath it is touched too, if a rule names something there.
    pub(crate) tree: bool,
}

/// Why a command touches something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TouchOrigin {
    /// A word of the command names it, so whatever allows those words allows this.
    Named,
    /// Something other than the words does: a redirection, a hidden effect.
    Beside,
    /// A word may be a path.
    Maybe,
}

/// The directories a script may be in at some point. `cd` adds one, and none is ever removed,
/// because the `cd` may not have run.
#[derive(Debug, Clone)]
pub(super) struct Directories<'r> {
    pub(super) root: &'r str,
    places: Vec<WorkPath>,
    /// Where it is if every `cd` worked.
    here: Option<WorkPath>,
    /// Whether there may be others.
    lost: bool,
}

/// Where a written path leads.
pub(super) enum PathTarget {
    /// Nothing relevant.
    Nowhere,
    /// One of these workspace paths.
    Inside(Vec<WorkPath>),
    /// Outside the workspace; this is its path by name.
    Outside(Option<WorkPath>),
    /// To a host.
    Host(String, u16),
    /// Perhaps one of these, perhaps elsewhere.
    Lost(Vec<WorkPath>),
}

impl<'r> Directories<'r> {
    pub(super) fn new(root: &'r str, cwd: &WorkPath) -> Self {
        Self {
            root,
            places: vec![cwd.clone()],
            here: Some(cwd.clone()),
            lost: false,
        }
    }

    /// Applies a `cd`.
    pub(super) fn change(&mut self, to: Option<&Word>) {
        let target = to.and_then(Word::text).filter(|text| *text != "-");
        self.here = target.and_then(|target| self.resolve_here(target));
        match target.map(|target| self.place(target)) {
            Some(PathTarget::Inside(places)) => {
                for place in places {
                    if !self.places.contains(&place) {
                        self.places.push(place);
                    }
                }
                self.lost |= self.places.len() > MAX_DIRECTORIES;
                self.places.truncate(MAX_DIRECTORIES);
            }
            Some(
                PathTarget::Nowhere
                | PathTarget::Outside(_)
                | PathTarget::Host(..)
                | PathTarget::Lost(_),
            )
            | None => {
                self.lost = true;
            }
        }
    }

    /// Where a written path leads if every `cd` worked; `None` if that is not in the workspace.
    fn resolve_here(&self, text: &str) -> Option<WorkPath> {
        if text.starts_with('/') {
            let path = WorkPath::parse(&folded(text), self.root).ok();
            return path.filter(|_| self.root != "/");
        }
        let here = self.here.as_ref().filter(|_| !text.starts_with('~'))?;
        WorkPath::parse(&format!("{here}/{text}"), self.root).ok()
    }

    /// Whether a written path leads to something in the workspace if every `cd` worked.
    pub(super) fn is_inside_from_here(&self, text: &str) -> bool {
        self.resolve_here(text).is_some()
    }

    /// A written path as absolute paths; unchanged if it leads out of the workspace.
    fn absolute(&self, text: &str) -> Vec<String> {
        match self.place(text) {
            PathTarget::Inside(paths) | PathTarget::Lost(paths) => paths
                .iter()
                .map(|path| format!("{}/{path}", self.root.trim_end_matches('/')))
                .collect(),
            PathTarget::Nowhere | PathTarget::Outside(_) | PathTarget::Host(..) => {
                vec![text.to_owned()]
            }
        }
    }

    /// Where a written path leads.
    pub(super) fn place(&self, text: &str) -> PathTarget {
        if text.is_empty() || SINKS.contains(&text) {
            return PathTarget::Nowhere;
        }
        if let Some(rest) = ["/dev/tcp/", "/dev/udp/"]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix))
        {
            let (host, port) = rest.split_once('/').unwrap_or((rest, ""));
            return PathTarget::Host(host.to_owned(), port.parse().unwrap_or(0));
        }
        let text = &*without_aliases(text);
        let outside =
            || PathTarget::Outside(WorkPath::relative(text.trim_start_matches(['/', '~'])).ok());
        if text.starts_with('~') {
            return outside();
        }
        if text.starts_with('/') {
            return match WorkPath::parse(&folded(text), self.root) {
                Ok(path) if self.root != "/" => PathTarget::Inside(vec![path]),
                Ok(_) | Err(_) => outside(),
            };
        }
        let mut places = Vec::with_capacity(self.places.len());
        for directory in &self.places {
            // Up and out, and perhaps back in through the workspace's name.
            let around = || {
                let absolute = folded(&format!("{}/{directory}/{text}", self.root));
                WorkPath::parse(&absolute, self.root).ok()
            };
            let path = WorkPath::parse(&format!("{directory}/{text}"), self.root).ok();
            let around = path.or_else(|| around().filter(|_| self.root != "/"));
            let Some(path) = around else {
                let name = text.rsplit("../").next().unwrap_or_default();
                return PathTarget::Outside(WorkPath::relative(name).ok());
            };
            places.push(path);
        }
        if self.lost {
            PathTarget::Lost(places)
        } else {
            PathTarget::Inside(places)
        }
    }
}

/// The result of considering words as paths.
#[derive(Debug, Default)]
pub(super) struct TouchedPaths {
    pub(super) touches: Vec<CommandTouch>,
    /// Paths that are or may be outside the workspace.
    pub(super) outside: Vec<String>,
    /// What was considered as a path, as written.
    pub(super) named: Vec<(PathMode, String)>,
    /// Whether files are touched that are known only when it runs.
    pub(super) vague: bool,
}

impl TouchedPaths {
    /// Adds what one word leads to.
    pub(super) fn word(
        &mut self,
        at: &Directories<'_>,
        word: &Word,
        mode: PathMode,
        how: TouchOrigin,
    ) {
        match &word.value {
            Value::Literal(text) => self.text(at, text, mode, how),
            Value::Glob(glob) => {
                self.vague = true;
                self.name(mode, glob);
                // A glob cannot leave its directory.
                let fixed = glob.split(['*', '?', '[']).next().unwrap_or_default();
                let directory = fixed
                    .rsplit_once('/')
                    .map_or(".", |(directory, _)| directory);
                if glob.contains("..") {
                    self.outside.push(glob.clone());
                } else if fixed.starts_with(['/', '~']) {
                    match at.place(directory) {
                        PathTarget::Inside(_) => {}
                        PathTarget::Nowhere
                        | PathTarget::Outside(_)
                        | PathTarget::Host(..)
                        | PathTarget::Lost(_) => {
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

    pub(super) fn text(
        &mut self,
        at: &Directories<'_>,
        text: &str,
        mode: PathMode,
        how: TouchOrigin,
    ) {
        if self.touches.len() >= MAX_TOUCHES {
            self.vague = true;
            self.outside.push(text.to_owned());
            return;
        }
        let place = at.place(text);
        let path = matches!(
            place,
            PathTarget::Inside(_) | PathTarget::Lost(_) | PathTarget::Outside(_)
        );
        if path && (how != TouchOrigin::Maybe || text.contains(['/', '.'])) {
            self.name(mode, text);
        }
        let mut add = |path: WorkPath| {
            let access = match mode {
                PathMode::Read => Access::read(path),
                PathMode::Write => Access::write(path),
            };
            self.touches.push(CommandTouch {
                access,
                how,
                tree: false,
            });
        };
        match place {
            PathTarget::Nowhere => {}
            PathTarget::Inside(paths) => paths.into_iter().for_each(add),
            PathTarget::Lost(paths) => {
                paths.into_iter().for_each(add);
                self.vague = true;
                if how != TouchOrigin::Maybe {
                    self.outside.push(text.to_owned());
                }
            }
            PathTarget::Outside(path) => {
                if let Some(path) = path {
                    add(path);
                }
                if how != TouchOrigin::Maybe {
                    self.outside.push(text.to_owned());
                }
            }
            PathTarget::Host(host, port) => self.touches.push(CommandTouch {
                access: Access::Host { host, port },
                how: TouchOrigin::Beside,
                tree: false,
            }),
        }
    }

    /// Marks what was added since as touched recursively.
    pub(super) fn mark_trees(&mut self, since: usize) {
        for touch in self.touches.iter_mut().skip(since) {
            touch.tree = matches!(&touch.access, Access::Path(_));
        }
    }

    /// The same for what may be touched. Excludes the root: a command over the whole workspace
    /// would match every rule about something in it.
    pub(super) fn mark_possible_trees(&mut self, since: usize) {
        for touch in self.touches.iter_mut().skip(since) {
            touch.tree = matches!(&touch.access, Access::Path(path) if !path.path.is_root());
        }
    }

    /// A copy into a directory gets the name of what is copied, and the words do not say whether
    /// the target is one. If that would be a protected name, it asks.
    pub(super) fn copied_into(
        &mut self,
        at: &Directories<'_>,
        paths: &[(usize, PathMode)],
        words: &[Word],
        whole: bool,
    ) {
        let Some(((last, _), sources)) = paths.split_last() else {
            return;
        };
        let target = words.get(*last).map(Word::shown).unwrap_or_default();
        let exactly = words
            .iter()
            .any(|word| is_flag(word, 'T', "no-target-directory"));
        let parents = words.iter().any(|word| word.shown().starts_with("--par"));
        if whole {
            let how = if exactly {
                TouchOrigin::Named
            } else {
                TouchOrigin::Maybe
            };
            self.written(at, target, how, true);
        }
        for (place, _) in sources {
            let source = words.get(*place).map(Word::shown).unwrap_or_default();
            let name = source.trim_end_matches('/').rsplit('/').next();
            let name = name.filter(|_| !parents).unwrap_or(source);
            let path = format!("{target}/{name}");
            if let PathTarget::Inside(paths) = at.place(&path)
                && paths
                    .iter()
                    .any(|path| protecting_rule(path.as_str()).is_some())
            {
                self.outside.push(path.clone());
            }
            if !exactly && words.get(*place).is_some_and(|word| word.text().is_some()) {
                self.written(at, &path, TouchOrigin::Named, whole);
            }
        }
    }

    /// Adds a write that no word names.
    fn written(&mut self, at: &Directories<'_>, text: &str, how: TouchOrigin, tree: bool) {
        let (PathTarget::Inside(paths) | PathTarget::Lost(paths)) = at.place(text) else {
            return;
        };
        for path in paths {
            if self.touches.len() >= MAX_TOUCHES {
                self.vague = true;
                return;
            }
            let tree = tree && !path.is_root();
            self.touches.push(CommandTouch {
                access: Access::write(path),
                how,
                tree,
            });
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
            self.word(at, target, *mode, TouchOrigin::Beside);
        }
    }
}

/// Resolves a path whose first part is an alias for the process's location: `~+`, `/proc/self/cwd`,
/// `/proc/self/root`.
fn without_aliases(text: &str) -> Cow<'_, str> {
    let relative = |rest: &str| match rest.trim_start_matches('/') {
        "" => ".".to_owned(),
        rest => rest.to_owned(),
    };
    if let Some(rest) = text.strip_prefix("~+")
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Cow::Owned(relative(rest));
    }
    if !text.starts_with('/') {
        return Cow::Borrowed(text);
    }
    let path = folded(text);
    let process = path
        .strip_prefix("/proc/")
        .and_then(|rest| rest.split_once('/'));
    let rest = match process {
        Some((process, rest)) if process.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(("self" | "thread-self", rest)) => rest,
        Some(_) | None => return Cow::Borrowed(text),
    };
    let beneath = |name: &str| {
        let rest = rest.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    match (beneath("cwd"), beneath("root")) {
        (Some(rest), _) => Cow::Owned(relative(rest)),
        (None, Some(rest)) => Cow::Owned(format!("/{}", rest.trim_start_matches('/'))),
        (None, None) => Cow::Borrowed(text),
    }
}

/// An absolute path without `.` and `..`, resolved textually.
fn folded(text: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            name => components.push(name),
        }
    }
    format!("/{}", components.join("/"))
}

/// Programs that run the file they are given.
pub(super) const RUN_A_FILE: &str = "sh bash dash zsh ksh mksh ash fish source . python python2 python3 pypy pypy3 \
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
        let script = words
            .iter()
            .skip(1)
            .take_while(|word| !gives_code(name, word))
            .find(|word| !word.may_be_option());
        if let Some(script) = script.and_then(Word::text) {
            found.extend(at.absolute(script));
        }
    }
    found
}

/// Whether an option makes the next word code or the name of a module, so that no file is run:
/// `python3 -c 'print(1)'`, `node -e …`. Lua also runs the file after `-e`, so it is not here.
fn gives_code(name: &str, word: &Word) -> bool {
    let Some(option) = word.text().filter(|text| text.starts_with('-')) else {
        return false;
    };
    let short = |letters: &[char]| {
        // Letters may be combined, and the last one takes the next word: `-Ic`.
        !option.starts_with("--") && option.ends_with(letters)
    };
    if name.starts_with("python") || name.starts_with("pypy") {
        return short(&['c', 'm']);
    }
    match name {
        "perl" => short(&['e', 'E']),
        "ruby" => short(&['e']),
        "node" | "nodejs" | "bun" => short(&['e', 'p']) || ["--eval", "--print"].contains(&option),
        "php" => short(&['r']),
        _ => false,
    }
}

/// Whether a word names a directory the program changes to first, so that its other words do not
/// name what they seem to.
pub(super) fn names_a_directory_to_go_to(word: &Word) -> bool {
    let text = word.shown();
    ["-C", "--directory", "--chdir"]
        .iter()
        .any(|option| text.starts_with(option))
}
