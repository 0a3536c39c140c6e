//! What a grant covers in a question: one access, or one command of a script.
//!
//! At least as narrow as the same rule in `allow`. In addition, a star never matches a word that
//! makes a program do something else, or a path outside the workspace; and what is not fully
//! understood is covered only by a rule that is the whole script, word for word.

use haft_contract::{
    Access, PathScope,
    access::{PathAccess, ProcessAct, SoleAccess},
    host::{Question, ToolFacts},
};

use super::rule::GrantRule;
use crate::{
    engine::JudgedQuestion,
    facts::{CallFacts, CommandPart, CommandReading, Item},
    judge::DecidingCause,
    pattern::{Pattern, PatternKind},
    rule::{Selector, name_matches},
    segment::is_confined,
    shell::{Segment, TouchOrigin, Value},
    text_pattern::TextPattern,
};

impl GrantRule {
    /// Whether it answers for the person who would be asked about this.
    pub(super) fn covers(&self, question: &Question<'_>, judged: &JudgedQuestion<'_>) -> bool {
        let crosses = CallFacts::of(question).crosses && self.selector.is_by_pattern();
        if !self.selects(&question.tool) || !self.is_for_action(question) || crosses {
            return false;
        }
        let Item { access, part, .. } = judged.item;
        match (access, part) {
            (_, CommandPart::Refused(_)) => false,
            (None, _) => self.pattern.is_none(),
            (Some(_), CommandPart::Segment(segment, reading)) => {
                // Files in the workspace may say something else tomorrow.
                is_confined(segment, CallFacts::of(question))
                    && self.covers_command(question, segment, reading, &judged.judgement.cause)
            }
            (Some(_), CommandPart::Touch(segment, reading, touch)) => {
                self.covers_touch(segment, reading, touch.how)
            }
            (Some(access), CommandPart::Whole) => self.covers_access(access, question.tool.touches),
        }
    }

    fn is_for_action(&self, question: &Question<'_>) -> bool {
        let planned = question.plan.action();
        let action = self.action.as_ref();
        action.is_none_or(|action| planned.is_some_and(|planned| action.matches(planned)))
    }

    fn selects(&self, tool: &ToolFacts<'_>) -> bool {
        match &self.selector {
            Selector::Named(name) => *name == tool.key.tool,
            Selector::Provided(key) => key == tool.key,
            Selector::Like(glob) => name_matches(glob, tool.key.tool.as_str()),
            Selector::Group(_) | Selector::Accesses(_) => false,
        }
    }

    fn covers_command(
        &self,
        question: &Question<'_>,
        segment: &Segment,
        reading: &CommandReading,
        cause: &DecidingCause,
    ) -> bool {
        let Some(pattern) = &self.pattern else {
            // A tool that runs one fixed program vouches for it; a shell does not.
            return !reading.analysis.is_script() && segment.unclear.is_empty();
        };
        if is_whole(pattern, reading) {
            return true;
        }
        // Whether a deny or ask rule applies cannot be settled by covering a part.
        if *cause == DecidingCause::Unclear {
            return false;
        }
        let covered = pattern
            .command
            .as_ref()
            .is_some_and(|command| command.covers(segment, CallFacts::of(question).held));
        // The rule spells out the module, which is the hazard; what it runs must be held.
        let foreseen = if self.is_for_module() {
            CallFacts::of(question).held
        } else {
            segment.hazards.is_empty()
        };
        covered
            && (!pattern.is_wild_text()
                || (foreseen && stays_inside(segment, question.plan.workspace())))
    }

    /// What a command touches is covered if the words that name it are spelled out.
    fn covers_touch(&self, segment: &Segment, reading: &CommandReading, how: TouchOrigin) -> bool {
        let Some(pattern) = &self.pattern else {
            return false;
        };
        let spelt_out = || {
            let command = pattern.command.as_ref();
            how == TouchOrigin::Named
                && !pattern.is_wild_text()
                && command.is_some_and(|command| command.covers(segment, true))
        };
        is_whole(pattern, reading) || spelt_out()
    }

    fn covers_access(&self, access: &Access, touches: Option<SoleAccess>) -> bool {
        let Some(pattern) = &self.pattern else {
            // Typed text may be a command.
            let typed = matches!(
                access,
                Access::Process(process) if matches!(process.act, ProcessAct::Write(_))
            );
            return !typed;
        };
        let says = |text: &str| {
            let words = pattern.words.as_ref();
            words.is_some_and(|words| words.matches(text))
        };
        match access {
            Access::Path(path) => covers_path(pattern, path),
            // A file and a host may have one name, and a person was asked about one of them, unless the
            // tool touches hosts alone. A rule names a host whatever its port.
            Access::Host { host, .. } => {
                let is_host =
                    pattern.kind() == PatternKind::Host || touches == Some(SoleAccess::Hosts);
                is_host && pattern.matches_host(host)
            }
            Access::Database { source, writes } => {
                let database = source.split('.').next().unwrap_or_default();
                // A text without `writes` was agreed to for reading.
                let named = !*writes && (says(source) || says(database));
                named || pattern.matches_database(source, *writes)
            }
            Access::Message { channel, target } => {
                says(&format!("{channel}:{target}")) || pattern.matches_message(channel, target)
            }
            Access::Custom(custom) => says(&custom.to_string()),
            Access::Command(_) | Access::Process(_) | Access::RemoteTool { .. } => false,
        }
    }
}

/// Whether a pattern is the whole script, word for word.
fn is_whole(pattern: &Pattern, reading: &CommandReading) -> bool {
    matches!(&pattern.words, Some(TextPattern::Literal(text)) if *text == reading.text)
}

/// A path is covered only if both it and its target are.
fn covers_path(pattern: &Pattern, access: &PathAccess) -> bool {
    let Some(path) = &pattern.path else {
        return false;
    };
    let mut places = std::iter::once(&access.path).chain(&access.resolved);
    places.all(|place| match access.scope {
        PathScope::File => path.matches(place.as_str()),
        PathScope::Tree => path.covers_tree(place.as_str()),
    })
}

/// Whether no word names a path outside the workspace.
fn stays_inside(segment: &Segment, workspace: &str) -> bool {
    segment.words.iter().skip(1).all(|word| match &word.value {
        Value::Literal(text) | Value::Glob(text) => {
            paths_in(text).all(|path| is_inside(path, workspace)) && !names_a_file(text)
        }
        Value::Given | Value::Unknown => false,
    })
}

/// Every part of a word that a program may interpret as a path: the word, what follows a sign
/// (`if=x`, `@x`, `--file=x`, `a:x`), and what may be the value in a cluster of letters (`-Cx`).
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let cluster = match text.strip_prefix('-') {
        Some(letters) => {
            1 + letters
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(0)
        }
        None => 0,
    };
    let part_of_name = |c: char| c.is_alphanumeric() || "_-./~".contains(c);
    let signs = text
        .char_indices()
        .filter(move |(at, c)| {
            let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
            // `https://host/path`: host rules handle the host.
            let host = |rest: &str| rest.starts_with(|c: char| c != '/');
            let url = *c == ':' && rest.strip_prefix("//").is_some_and(host);
            !part_of_name(*c) && !url
        })
        .map(|(at, c)| at + c.len_utf8());
    let starts = (0..=cluster).chain(signs);
    starts.filter_map(|start| text.get(start..))
}

/// Whether a word is or contains a file URL.
fn names_a_file(text: &str) -> bool {
    text.to_ascii_lowercase().contains("file:")
}

fn is_inside(text: &str, workspace: &str) -> bool {
    if text.split('/').any(|component| component == "..") || text.starts_with('~') {
        return false;
    }
    let beneath = |rest: &str| rest.is_empty() || rest.starts_with('/');
    !text.starts_with('/') || text.strip_prefix(workspace).is_some_and(beneath)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_wherever_it_is_attached() {
        let stays = |text: &str| paths_in(text).all(|path| is_inside(path, "/w"));
        for text in [
            "src/a",
            "--x=src/a",
            "if=a",
            "@a/b",
            "-p",
            "-C/w/a",
            "--depth=3",
            "https://x/y",
            "HEAD~3",
            "main..dev",
            "--",
            "-",
            "",
        ] {
            assert!(stays(text), "{text}");
        }
        for text in [
            "-C/etc",
            "-xC/etc",
            "-C../x",
            "-I..",
            "if=/etc/passwd",
            "@/etc/passwd",
            "@~/x",
            "--x=/etc",
            "--x=~/a",
            "--x=a,/etc",
            "--x=a/../../b",
            "x:///etc",
            "a:/etc",
            "a:../b",
        ] {
            assert!(!stays(text), "{text}");
        }
    }

    #[test]
    fn a_path_is_inside_the_workspace_or_not() {
        for text in [
            "src",
            "./a/b",
            "/w",
            "/w/src",
            "a..b",
            "--flag",
            "https://x/y",
        ] {
            assert!(is_inside(text, "/w"), "{text}");
        }
        for text in [
            "/",
            "/etc",
            "/wide",
            "~",
            "~/x",
            "..",
            "a/../../b",
            "/w/../etc",
        ] {
            assert!(!is_inside(text, "/w"), "{text}");
        }
    }
}
