//! Combines the parts: parses a script, extracts wrapped commands from their wrappers, and
//! determines for each command what it does, what it touches and what about it is unclear.

use haft_contract::{PathMode, WorkPath, access::Command};

use super::{
    builtins::changes_shell,
    changes::{
        COMPILERS, assignments_of_dd, attached_outputs, changes, copies, is_source,
        paths_in_revisions, response_files, selects_by_pattern, target_directories, works_on_trees,
        writes_what_a_file_names,
    },
    characters::strange,
    concern::{self, CommandConcerns, CommandPlace, Concern, WordRole},
    doubts::{program_and_words, variables},
    entry::Class,
    hazard::{Hazard, hazards},
    legible::is_legible,
    limits::{MAX_COMMANDS, MAX_WRAPPERS, Refusal},
    may_name::{BEFORE_PATHS, may_be_protected, may_name, paths_in, without_option},
    opinion,
    options::has,
    parse,
    parsed::{Assignment, FlatCommand, ParsedCommand, Redirection, SecondOpinion},
    quoted_path::quoted_paths,
    segment::{Segment, name_of},
    star::{runs_files, unlisted},
    table::{KnownCommand, known},
    touch::{Directories, TouchOrigin, TouchedPaths, names_a_directory_to_go_to, runs},
    unclear::UnclearReason,
    whole_lines,
    word::{Value, Word},
    wrapper::{InnerCommand, inner, is_transparent, reads},
};

/// Directories where a bare name's programs are found.
const STANDARD: [&str; 6] = [
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/usr/local/sbin/",
];

/// Whether there is a parser. Without one, no command is understood, so none is allowed.
const CAN_READ_COMMANDS: bool = cfg!(feature = "shell");

/// What is known about a command before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    segments: Vec<Segment>,
    scripted: bool,
}

impl Analysis {
    /// Its commands, in order; a wrapper comes before what it wraps. Never empty.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether a shell reads it.
    pub(crate) fn is_script(&self) -> bool {
        self.scripted
    }
}

/// Analyses a command that runs in `cwd` of a workspace; `root` is the workspace's absolute path as
/// people know it.
pub fn analyse(command: &Command, cwd: &WorkPath, root: &str) -> Result<Analysis, Refusal> {
    if !CAN_READ_COMMANDS {
        // Not even one whose words are known: some of them run others.
        return Err(Refusal::NoParser);
    }
    let root = if root.starts_with('/') { root } else { "/" };
    let mut analyst = Analyst {
        directories: Directories::new(root, cwd),
        segments: Vec::new(),
        scripts: Vec::new(),
    };
    let scripted = match command {
        Command::Shell(script) => {
            analyst.script(script, &[], 0)?;
            if strange(script)
                && let Some(first) = analyst.segments.first_mut()
            {
                first.unclear.push(UnclearReason::Characters);
            }
            if ends_in_the_background(script)
                && let Some(last) = analyst.segments.last_mut()
            {
                last.concerns.push(Concern::Stays);
            }
            true
        }
        Command::Argv(argv) => {
            let simple = ParsedCommand {
                text: command.text(),
                assignments: Vec::new(),
                words: argv.iter().map(Word::literal).collect(),
                redirections: Vec::new(),
                beside: Vec::new(),
                unclear: Vec::new(),
            };
            analyst.simple(simple, &[], 0)?;
            false
        }
    };
    for segment in &mut analyst.segments {
        segment.legible = is_legible(&segment.unclear, &segment.words);
    }
    analyst.ask_the_other()?;
    Ok(Analysis {
        segments: analyst.segments,
        scripted,
    })
}

struct Analyst<'r> {
    directories: Directories<'r>,
    segments: Vec<Segment>,
    /// Every parsed script, for the second parser.
    scripts: Vec<Script>,
}

/// Whether all words a program receives have been seen.
#[derive(PartialEq, Eq)]
enum WordsSeen {
    All,
    /// Some are in a response file.
    Partly,
}

struct Script {
    text: String,
    commands: Vec<FlatCommand>,
    complete: bool,
}

impl Analyst<'_> {
    fn script(&mut self, text: &str, inside: &[String], depth: usize) -> Result<(), Refusal> {
        let parsed = parse(text)?;
        self.scripts.push(Script {
            text: text.to_owned(),
            commands: parsed.commands.iter().map(FlatCommand::of).collect(),
            complete: parsed.complete,
        });
        if parsed.commands.is_empty() {
            // Only comments, or nothing at all.
            self.push(blank(text, inside))?;
        }
        let odd = |command: &ParsedCommand| command.unclear.contains(&UnclearReason::Syntax);
        let mut unread = if !parsed.complete || parsed.commands.iter().any(odd) {
            whole_lines::commands(text)
        } else {
            Vec::new()
        };
        unread.retain(|command| {
            let known = |known: &ParsedCommand| known.words == command.words;
            !parsed.commands.iter().any(known)
        });
        for command in parsed.commands.into_iter().chain(unread) {
            self.simple(command, inside, depth)?;
        }
        Ok(())
    }

    fn push(&mut self, segment: Segment) -> Result<(), Refusal> {
        if self.segments.len() >= MAX_COMMANDS {
            return Err(Refusal::TooManyCommands);
        }
        self.segments.push(segment);
        Ok(())
    }

    fn simple(
        &mut self,
        simple: ParsedCommand,
        inside: &[String],
        depth: usize,
    ) -> Result<(), Refusal> {
        if depth > MAX_WRAPPERS {
            return Err(Refusal::TooManyWrappers);
        }
        let ParsedCommand {
            text,
            assignments,
            words,
            redirections,
            beside,
            mut unclear,
        } = simple;
        unclear.extend(variables(&assignments, &words));
        unclear.extend(program_and_words(&words));
        let program = words.first().and_then(Word::text).unwrap_or_default();
        let program = program.to_owned();
        let name = name_of(&program).to_owned();
        let found = inner(&name, &words);
        let ordinary =
            program == name || STANDARD.iter().any(|dir| program == format!("{dir}{name}"));
        let entry = known(&name, &words).filter(|_| ordinary);
        let passes_on = (is_transparent(&name) || name == "xargs")
            && matches!(found, InnerCommand::Words { .. } | InnerCommand::Nothing);
        let mut class = match &entry {
            Some(entry) => entry.class,
            None if passes_on && ordinary => Class::Looks,
            None => Class::Unknown,
        };
        if entry.is_none() && changes_shell(&name) {
            unclear.push(UnclearReason::Shell(name.clone()));
        }
        let mut touched = TouchedPaths::default();
        match &entry {
            Some(entry) => self.listed(&name, &words, entry, &mut touched),
            None => self.unlisted(&name, &words, passes_on, &mut touched),
        }
        let seen = self.otherwise_named(&name, &words, class, &mut touched);
        if !touched.outside.is_empty() || seen == WordsSeen::Partly {
            class = Class::Unknown;
        }
        let named = touched.outside.len();
        for redirection in &redirections {
            touched.redirection(&self.directories, redirection);
        }
        unclear.extend(
            touched
                .outside
                .iter()
                .skip(named)
                .cloned()
                .map(UnclearReason::Place),
        );
        touched.vague |= words.iter().any(names_a_directory_to_go_to);
        let reading = self.read(entry.as_ref(), &words, &assignments, &redirections, inside);
        match name.as_str() {
            "cd" | "pushd" => self.directories.change(words.get(1)),
            "popd" => self.directories.change(None),
            _ => {}
        }
        if found == InnerCommand::Hidden {
            unclear.push(UnclearReason::Wrapper(name.clone()));
        }
        let hazards = hazards_beside(entry.as_ref(), &name, &words);
        let mut unlisted = match &found {
            // All its own options were known, and what it runs is judged separately.
            InnerCommand::Words { .. } | InnerCommand::Several(_) | InnerCommand::Script(_) => {
                Vec::new()
            }
            InnerCommand::Nothing | InnerCommand::Hidden if ordinary => unlisted(&name, &words),
            InnerCommand::Nothing | InnerCommand::Hidden => unlisted("", &words),
        };
        if !entry.as_ref().is_some_and(|entry| entry.exact) {
            // Whatever option it belongs to, it may be written.
            unlisted.extend(may_be_protected(&self.directories, &words));
        }
        let runs_files = ordinary && runs_files(&name, &words);
        let runs = runs(&self.directories, &name, &words);
        let may_name = may_name(&self.directories, &words, &redirections);
        let quoted = quoted_paths(&self.directories, &name, &words, &beside);
        let place = self.segments.len();
        self.push(Segment {
            text,
            inside: inside.to_vec(),
            assignments: assignments.into_iter().map(|one| one.raw).collect(),
            words,
            beside,
            runs,
            may_name,
            touches: touched.touches,
            names: touched.named,
            quoted,
            unclear,
            routine: is_routine(reading.routine.as_deref(), &hazards),
            hazards,
            unlisted,
            class,
            runs_files,
            vague: touched.vague,
            concerns: reading.concerns,
            loses: reading.loses,
            legible: false,
        })?;
        self.inside(place, &name, found, inside, depth)
    }

    /// What would concern a person about a command. Called before its `cd` is applied.
    fn read(
        &self,
        entry: Option<&KnownCommand>,
        words: &[Word],
        assignments: &[Assignment],
        redirections: &[Redirection],
        inside: &[String],
    ) -> CommandConcerns {
        let name = name_of(words.first().and_then(Word::text).unwrap_or_default());
        let is_path =
            |entry: &KnownCommand, place: usize| entry.paths.iter().any(|(path, _)| *path == place);
        let by_find = inside.last().is_some_and(|outer| outer == "find");
        let finder = self
            .segments
            .iter()
            .rev()
            .find(|segment| by_find && segment.name() == Some("find"));
        concern::read(&CommandPlace {
            name,
            words,
            assignments,
            redirections,
            directories: &self.directories,
            finder: finder.map(|segment| segment.words.as_slice()),
            role: &|place| match entry.filter(|entry| entry.exact && place > 0) {
                Some(entry) if is_path(entry, place) => WordRole::Path,
                Some(_) => WordRole::Text,
                None => WordRole::Unknown,
            },
        })
    }

    /// Analyses what a command runs.
    fn inside(
        &mut self,
        outer: usize,
        name: &str,
        found: InnerCommand,
        inside: &[String],
        depth: usize,
    ) -> Result<(), Refusal> {
        let mut via = inside.to_vec();
        via.push(name.to_owned());
        match found {
            InnerCommand::Nothing | InnerCommand::Hidden => Ok(()),
            InnerCommand::Words { words, variables } => {
                let assignments = variables.into_iter().map(|name| Assignment {
                    raw: name.clone(),
                    name,
                    literal: true,
                });
                let simple = ParsedCommand {
                    assignments: assignments.collect(),
                    ..of_words(words)
                };
                self.simple(simple, &via, depth + 1)
            }
            InnerCommand::Several(commands) => commands
                .into_iter()
                .try_for_each(|words| self.simple(of_words(words), &via, depth + 1)),
            InnerCommand::Script(text) => match self.script(&text, &via, depth + 1) {
                // Not a script: the outer command cannot be understood.
                Err(Refusal::Syntax) => {
                    if let Some(outer) = self.segments.get_mut(outer) {
                        outer.unclear.push(UnclearReason::Wrapper(name.to_owned()));
                    }
                    Ok(())
                }
                other => other,
            },
        }
    }

    /// Files that words name other than as a path.
    fn otherwise_named(
        &self,
        name: &str,
        words: &[Word],
        class: Class,
        touched: &mut TouchedPaths,
    ) -> WordsSeen {
        for word in reads(name, words) {
            touched.word(&self.directories, &word, PathMode::Read, TouchOrigin::Named);
        }
        if name == "git" && class != Class::Runs {
            for path in paths_in_revisions(words) {
                touched.text(&self.directories, path, PathMode::Read, TouchOrigin::Named);
            }
        }
        touched.vague |= selects_by_pattern(name, words) || writes_what_a_file_names(name, words);
        let responses = response_files(name, words);
        for path in &responses {
            touched.text(&self.directories, path, PathMode::Read, TouchOrigin::Named);
        }
        // The words in the file may name any other file.
        touched.vague |= !responses.is_empty();
        if responses.is_empty() {
            WordsSeen::All
        } else {
            WordsSeen::Partly
        }
    }

    /// What the words of a command that fits its entry touch.
    fn listed(&self, name: &str, words: &[Word], entry: &KnownCommand, touched: &mut TouchedPaths) {
        let whole = works_on_trees(name, words);
        for (place, mode) in &entry.paths {
            for word in words.get(*place).map(without_option).unwrap_or_default() {
                let before = touched.touches.len();
                touched.word(&self.directories, &word, *mode, TouchOrigin::Named);
                if whole && is_source(&entry.paths, *place) {
                    touched.mark_trees(before);
                }
            }
        }
        if matches!(name, "cp" | "mv") {
            touched.copied_into(&self.directories, &entry.paths, words, whole);
        }
        if !entry.exact {
            self.maybe(words, touched);
        }
    }

    /// What the words of a program without an entry may touch.
    fn unlisted(&self, name: &str, words: &[Word], passes_on: bool, touched: &mut TouchedPaths) {
        let mut all_known = passes_on;
        if let Some(changed) = changes(name, words) {
            let how = match name {
                "sort" | "curl" | "tree" | "go" | "wget" | "git" | "uniq" | "xxd" => {
                    TouchOrigin::Beside
                }
                _ if has(COMPILERS, name) => TouchOrigin::Beside,
                _ => TouchOrigin::Named,
            };
            all_known |= how == TouchOrigin::Named;
            let whole = works_on_trees(name, words);
            for (place, mode) in &changed {
                if let Some(word) = words.get(*place) {
                    let before = touched.touches.len();
                    touched.word(&self.directories, word, *mode, how);
                    if whole && is_source(&changed, *place) {
                        touched.mark_trees(before);
                    }
                }
            }
            if copies(name) {
                touched.copied_into(&self.directories, &changed, words, whole);
            }
        }
        for path in target_directories(name, words) {
            let before = touched.touches.len();
            touched.text(&self.directories, path, PathMode::Write, TouchOrigin::Named);
            touched.mark_trees(before);
        }
        for path in attached_outputs(name, words) {
            touched.text(
                &self.directories,
                &path,
                PathMode::Write,
                TouchOrigin::Beside,
            );
        }
        if name == "dd" {
            for (path, mode) in assignments_of_dd(words) {
                touched.text(&self.directories, path, mode, TouchOrigin::Named);
            }
        }
        if !all_known {
            self.maybe(words, touched);
        }
    }

    /// To an unknown program any word may be a path.
    fn maybe(&self, words: &[Word], touched: &mut TouchedPaths) {
        for word in words.iter().skip(1) {
            match &word.value {
                Value::Literal(text) => {
                    // In a cluster, only what follows the first letter or looks like a path.
                    let likely = |path: &&str| {
                        let letters = text.len() - path.len();
                        let cluster = text.starts_with('-') && !text.contains(BEFORE_PATHS);
                        !path.starts_with('-')
                            && (!cluster || letters <= 2 || path.contains(['/', '.']))
                    };
                    for path in paths_in(text)
                        .filter(likely)
                        .filter(|path| is_pathlike(path))
                    {
                        let before = touched.touches.len();
                        touched.text(&self.directories, path, PathMode::Read, TouchOrigin::Maybe);
                        // It may be a directory that is read recursively.
                        touched.mark_possible_trees(before);
                    }
                }
                Value::Glob(_) | Value::Given | Value::Unknown => touched.vague = true,
            }
        }
    }

    /// Asks the second parser about everything the first one considers clear, and about what the
    /// first one does not consider a script.
    fn ask_the_other(&mut self) -> Result<(), Refusal> {
        let clear = self
            .segments
            .iter()
            .all(|segment| segment.unclear.is_empty());
        for script in &self.scripts {
            let doubt = if script.complete {
                if !clear {
                    // It cannot compare what is unclear, but it can refuse to read it.
                    let refused = opinion(&script.text, &script.commands) == SecondOpinion::Refuses;
                    if let Some(first) = self.segments.first_mut().filter(|_| refused) {
                        first.legible = false;
                    }
                    continue;
                }
                match opinion(&script.text, &script.commands) {
                    SecondOpinion::Agrees => continue,
                    SecondOpinion::Differs | SecondOpinion::Refuses | SecondOpinion::Silent => {
                        UnclearReason::Disagreement
                    }
                }
            } else {
                match opinion(&script.text, &script.commands) {
                    SecondOpinion::Refuses => return Err(Refusal::Syntax),
                    SecondOpinion::Agrees | SecondOpinion::Differs | SecondOpinion::Silent => {
                        UnclearReason::Syntax
                    }
                }
            };
            if let Some(first) = self.segments.first_mut() {
                first.unclear.push(doubt);
                first.legible = false;
            }
        }
        Ok(())
    }
}

/// Whether the last command of a script is left running: `server &`.
fn ends_in_the_background(script: &str) -> bool {
    let script = script.trim_end();
    script.ends_with('&') && !script.ends_with("&&")
}

/// The hazards of a command; those its table entry accounts for are marked.
fn hazards_beside(entry: Option<&KnownCommand>, name: &str, words: &[Word]) -> Vec<Hazard> {
    let mut found = hazards(name, words);
    for hazard in &mut found {
        hazard.accounted = entry.is_some_and(|entry| entry.accounted.contains(&hazard.place));
    }
    found
}

/// Whether a command has a routine form that knows every word that might do something else.
fn is_routine(known: Option<&[usize]>, hazards: &[Hazard]) -> bool {
    let is_known = |known: &[usize]| {
        let mut hazards = hazards.iter();
        hazards.all(|hazard| hazard.accounted || known.contains(&hazard.place))
    };
    known.is_some_and(is_known)
}

fn is_pathlike(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn of_words(words: Vec<Word>) -> ParsedCommand {
    let raw: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    ParsedCommand {
        text: raw.join(" "),
        assignments: Vec::new(),
        words,
        redirections: Vec::new(),
        beside: Vec::new(),
        unclear: Vec::new(),
    }
}

fn blank(text: &str, inside: &[String]) -> Segment {
    Segment {
        text: text.to_owned(),
        inside: inside.to_vec(),
        assignments: Vec::new(),
        words: Vec::new(),
        beside: Vec::new(),
        runs: Vec::new(),
        may_name: Vec::new(),
        touches: Vec::new(),
        names: Vec::new(),
        quoted: Vec::new(),
        unclear: Vec::new(),
        hazards: Vec::new(),
        unlisted: Vec::new(),
        class: Class::Unknown,
        runs_files: false,
        vague: false,
        concerns: Vec::new(),
        loses: false,
        routine: false,
        legible: false,
    }
}
