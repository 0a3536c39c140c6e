//! A second opinion: an independent parser reads the same script. A script counts as understood
//! only if both find the same words in the same commands.
//!
//! It is asked only about scripts that look simple, so anything it does not know is a disagreement.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::{
    ParserOptions, TokenizerOptions,
    ast::{
        Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, IoFileRedirectTarget,
        IoRedirect, Pipeline, SimpleCommand,
    },
    parse_tokens, uncached_tokenize_str,
};

use super::{
    limits::{MAX_SECOND_BRACKETS, MAX_SECOND_BYTES, MAX_SECOND_GROUPS, MAX_SECOND_OPENERS},
    parsed::{FlatCommand, SecondOpinion},
};

/// Compares what the first parser found with what the second one finds.
pub(super) fn opinion(script: &str, commands: &[FlatCommand]) -> SecondOpinion {
    let brackets = script
        .bytes()
        .filter(|byte| matches!(byte, b'(' | b'{' | b'[' | b'`'))
        .count();
    if script.len() > MAX_SECOND_BYTES || brackets > MAX_SECOND_BRACKETS || is_too_deep(script) {
        return SecondOpinion::Silent;
    }
    // The parser may panic, which counts as a disagreement.
    catch_unwind(AssertUnwindSafe(|| read(script))).map_or(
        SecondOpinion::Differs,
        |read| match read {
            Read::Refused => SecondOpinion::Refuses,
            Read::Unknown => SecondOpinion::Differs,
            Read::Commands(theirs) => {
                if theirs == commands {
                    SecondOpinion::Agrees
                } else {
                    SecondOpinion::Differs
                }
            }
        },
    )
}

/// Whether the nesting may be too deep for the second parser. Counts words anywhere, so it errs on
/// the careful side.
fn is_too_deep(script: &str) -> bool {
    const OPENERS: [&str; 6] = ["if", "elif", "else", "while", "until", "time"];
    const CONSTRUCTS: [&str; 5] = ["case", "for", "select", "function", "coproc"];
    // A line continuation can split a word.
    let script = script.replace("\\\n", "");
    let words = || script.split(|c: char| !c.is_alphanumeric());
    let openers = words().filter(|word| OPENERS.contains(word)).count();
    let constructs = words().filter(|word| CONSTRUCTS.contains(word)).count();
    let negations = script.matches('!').count();
    constructs + groups(&script) > MAX_SECOND_GROUPS
        || openers + constructs + negations > MAX_SECOND_OPENERS
}

/// How many literal `{`, and how many `(` that do not start a substitution.
fn groups(script: &str) -> usize {
    let after = script.bytes().skip(1).map(Some).chain([None]);
    let before = std::iter::once(None).chain(script.bytes().map(Some));
    let places = script.bytes().zip(before).zip(after);
    places
        .filter(|((byte, before), after)| match byte {
            b'{' => after.is_none_or(|after| b" \t\r\n|&;()<>".contains(&after)),
            b'(' => *before != Some(b'$'),
            _ => false,
        })
        .count()
}

enum Read {
    Refused,
    Unknown,
    Commands(Vec<FlatCommand>),
}

fn read(script: &str) -> Read {
    let Ok(tokens) = uncached_tokenize_str(script, &TokenizerOptions::default()) else {
        return Read::Refused;
    };
    let Ok(program) = parse_tokens(&tokens, &ParserOptions::default()) else {
        return Read::Refused;
    };
    let mut found = Vec::new();
    let known = program
        .complete_commands
        .iter()
        .all(|list| compound(list, &mut found).is_some());
    if known {
        Read::Commands(found)
    } else {
        Read::Unknown
    }
}

fn compound(list: &CompoundList, found: &mut Vec<FlatCommand>) -> Option<()> {
    for item in &list.0 {
        pipeline(&item.0.first, found)?;
        for more in &item.0.additional {
            let (brush_parser::ast::AndOr::And(next) | brush_parser::ast::AndOr::Or(next)) = more;
            pipeline(next, found)?;
        }
    }
    Some(())
}

fn pipeline(pipeline: &Pipeline, found: &mut Vec<FlatCommand>) -> Option<()> {
    // The first parser treats `time` as an ordinary program.
    let timed = pipeline.timed.is_some();
    for (place, part) in pipeline.seq.iter().enumerate() {
        let first = found.len();
        command(part, found)?;
        if timed && place == 0 {
            let flat = found.get_mut(first)?;
            flat.words.insert(0, "time".to_owned());
        }
    }
    Some(())
}

fn command(command: &Command, found: &mut Vec<FlatCommand>) -> Option<()> {
    match command {
        Command::Simple(command) => found.push(simple(command)?),
        Command::Compound(inner, redirections) => {
            let first = found.len();
            match inner {
                CompoundCommand::BraceGroup(group) => compound(&group.list, found)?,
                CompoundCommand::Subshell(group) => compound(&group.list, found)?,
                CompoundCommand::IfClause(clause) => {
                    compound(&clause.condition, found)?;
                    compound(&clause.then, found)?;
                    for branch in clause.elses.iter().flatten() {
                        if let Some(condition) = &branch.condition {
                            compound(condition, found)?;
                        }
                        compound(&branch.body, found)?;
                    }
                }
                CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                    compound(&clause.0, found)?;
                    compound(&clause.1.list, found)?;
                }
                CompoundCommand::Arithmetic(_)
                | CompoundCommand::ArithmeticForClause(_)
                | CompoundCommand::ForClause(_)
                | CompoundCommand::CaseClause(_)
                | CompoundCommand::Coprocess(_) => return None,
            }
            let count = redirections.as_ref().map_or(0, |list| files(&list.0));
            if count > 0 {
                match found.get_mut(first..) {
                    Some([only]) => only.redirections += count,
                    _ => found.push(FlatCommand {
                        assignments: Vec::new(),
                        words: Vec::new(),
                        redirections: count,
                    }),
                }
            }
        }
        Command::Function(_) | Command::ExtendedTest(..) => return None,
    }
    Some(())
}

fn simple(command: &SimpleCommand) -> Option<FlatCommand> {
    let mut flat = FlatCommand {
        assignments: Vec::new(),
        words: Vec::new(),
        redirections: 0,
    };
    let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
    for item in prefix {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => {
                flat.redirections += files(std::slice::from_ref(redirection));
            }
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                flat.assignments.push(word.value.clone());
            }
            CommandPrefixOrSuffixItem::Word(_)
            | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => return None,
        }
    }
    flat.words
        .extend(command.word_or_name.iter().map(|word| word.value.clone()));
    for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => {
                flat.redirections += files(std::slice::from_ref(redirection));
            }
            // `name=value` after the program is an ordinary argument.
            CommandPrefixOrSuffixItem::AssignmentWord(_, word)
            | CommandPrefixOrSuffixItem::Word(word) => flat.words.push(word.value.clone()),
            CommandPrefixOrSuffixItem::ProcessSubstitution(..) => return None,
        }
    }
    Some(flat)
}

/// Redirections to and from files; here-documents are input, not files.
fn files(redirections: &[IoRedirect]) -> usize {
    redirections
        .iter()
        .filter(|redirection| match redirection {
            IoRedirect::File(_, _, target) => match target {
                IoFileRedirectTarget::Filename(_)
                | IoFileRedirectTarget::Fd(_)
                | IoFileRedirectTarget::ProcessSubstitution(..)
                | IoFileRedirectTarget::Duplicate(_) => true,
            },
            IoRedirect::OutputAndError(..) => true,
            IoRedirect::HereDocument(..) | IoRedirect::HereString(..) => false,
        })
        .count()
}
