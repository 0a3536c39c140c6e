//! A question to a person, drawn from its canonical form and nothing else, after checking that the
//! form is the one whose digest the answer will bind. The terminal, the watch screen, an agent's
//! form, the desktop's notification and the webhook all show this drawing; nothing else draws
//! questions.
//!
//! What happens comes first and is whole: every access, the whole diff, the whole command. What
//! only an auditor needs (ids, the digest, the raw input) is in [`QuestionDrawing::details`].
//!
//! Nothing hides: the agent's text goes through `screen_text/visible.rs`, and the first column is
//! Haft's. Text of the agent's follows a word of Haft's on the same line, or stands behind a
//! margin. A field this version does not know is shown as recorded.

mod access;
mod details;
mod effects;
mod headline;
mod preview;

use std::collections::BTreeSet;

use haft_contract::PlanDigest;
use serde_json::{Map, Value};

pub use self::headline::Headline;
use crate::screen_text::{TextLine, Tone, field, visible};

/// The start of a line of the agent's text that no word of Haft's precedes.
const MARGIN: &str = "  ";

/// The form is not the one that was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormMismatch;

/// How much room a drawing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomForText {
    /// As many lines as needed.
    Enough,
    /// The box of an agent that the person started, with a few lines of this many columns: of a
    /// change only the changed lines, of a sandboxed command only the command, of the reason as
    /// many words as fit, and not who asks, because that is the box's owner.
    Narrow(usize),
}

/// What a drawing says beside the form.
#[derive(Debug, Clone, Copy)]
pub struct DrawingContext<'a> {
    /// Why a person is asked, if it is known.
    pub why: Option<&'a str>,
    /// The home directory of the person who looks, which is written `~`.
    pub home: Option<&'a str>,
    /// How much room there is.
    pub room: RoomForText,
}

/// A question, drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionDrawing {
    /// What happens, in one line, and who asks.
    pub headline: Headline,
    /// Everything else that happens: the whole diff or command, every access, where it runs.
    pub effects: Vec<TextLine>,
    /// Why a person is asked.
    pub reason: Option<String>,
    /// What only an auditor needs.
    pub details: Vec<TextLine>,
}

/// One way to answer, with the key for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerKey {
    /// The key.
    pub key: char,
    /// What it does.
    pub words: &'static str,
}

/// The ways to answer at a terminal, in the order in which they are shown.
pub const ANSWER_KEYS: [AnswerKey; 5] = [
    AnswerKey {
        key: 'y',
        words: "allow once",
    },
    AnswerKey {
        key: 'a',
        words: "always…",
    },
    AnswerKey {
        key: 'n',
        words: "deny",
    },
    AnswerKey {
        key: 'r',
        words: "deny and say why",
    },
    AnswerKey {
        key: 'd',
        words: "details",
    },
];

/// The ways to answer on one line.
pub fn answer_keys() -> String {
    let keys = ANSWER_KEYS.map(|AnswerKey { key, words }| format!("{key} {words}"));
    keys.join(" · ")
}

/// Draws a question, if its form has this digest.
pub fn draw(
    form: &Value,
    digest: PlanDigest,
    cx: DrawingContext<'_>,
) -> Result<QuestionDrawing, FormMismatch> {
    let fields = form.as_object().ok_or(FormMismatch)?;
    if haft_runtime::digest_of(form) != digest {
        return Err(FormMismatch);
    }
    Ok(QuestionDrawing {
        headline: headline::draw(fields, cx),
        effects: effects::draw(fields, cx.room),
        reason: cx.why.map(|why| reason(why, cx.room)),
        details: details::draw(fields, digest),
    })
}

impl QuestionDrawing {
    /// Everything a person must have seen before a yes counts, for a place of this width.
    pub fn lines(&self, columns: Option<usize>) -> Vec<TextLine> {
        let mut lines = self.headline.lines(columns);
        lines.extend(self.effects.iter().cloned());
        if let Some(reason) = &self.reason {
            lines.push(vec![
                (Tone::Dim, format!("{ASKED_BECAUSE} ")),
                (Tone::Plain, reason.clone()),
            ]);
        }
        lines
    }

    /// The same as text without colours.
    pub fn text(&self) -> String {
        crate::screen_text::plain(&self.lines(None))
    }
}

/// How the line with the reason begins.
const ASKED_BECAUSE: &str = "asked because";

/// The reason as it follows [`ASKED_BECAUSE`]. That a person is asked needs no saying again.
fn reason(why: &str, room: RoomForText) -> String {
    let preset = why.split_once(", so preset `").and_then(|(said, rest)| {
        let (preset, rest) = rest.split_once("` asks")?;
        Some(format!("{said} (preset {preset}){rest}"))
    });
    let said = visible::line(preset.as_deref().unwrap_or(why));
    match room {
        RoomForText::Enough => said,
        RoomForText::Narrow(columns) => {
            whole_words(&said, columns.saturating_sub(ASKED_BECAUSE.len() + 1))
        }
    }
}

/// As many words of one of our lines as fit.
fn whole_words(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let mut kept = String::new();
    for word in line.split_inclusive(' ') {
        if kept.chars().count() + word.trim_end().chars().count() + 1 > columns {
            break;
        }
        kept.push_str(word);
    }
    format!("{}…", kept.trim_end())
}

/// The key for grouping many questions: the agent, the tool and the program or the kind of access.
pub fn kind(form: &Value) -> String {
    let tool = text(form.get("tool")).trim_start_matches(BUILT_IN);
    let agent = text(form.pointer("/principal/agent"));
    let first = items(form.get("preview"))
        .find(|part| text(part.get("kind")) == "command")
        .map(|part| text(part.get("text")))
        .or_else(|| {
            let command = items(form.get("accesses")).find_map(|access| access.get("command"))?;
            let argv = command.pointer("/argv/0");
            Some(text(command.get("shell").or(argv)))
        })
        .and_then(|command| command.split_whitespace().next());
    let what = first.or_else(|| {
        let access = headline::strongest(form.as_object()?)?;
        Some(text(access.get("mode").or_else(|| access.get("kind"))))
    });
    visible::line(&format!("{agent} {tool} {}", what.unwrap_or_default()))
}

/// The prefix of the names of Haft's own tools.
const BUILT_IN: &str = "builtin/";

fn is_built_in(form: &Map<String, Value>) -> bool {
    text(form.get("tool")).starts_with(BUILT_IN)
}

/// Letters in commands, paths and hosts that can be mistaken for others.
fn beware(form: &Map<String, Value>) -> Option<TextLine> {
    let mut letters = BTreeSet::new();
    for access in items(form.get("accesses")) {
        gather(access, &mut letters);
    }
    for part in items(form.get("preview")) {
        // A file's content may be in any language; its name is checked.
        match text(part.get("kind")) {
            "diff" => letters.extend(visible::letters(text(part.get("path")))),
            _ => gather(part, &mut letters),
        }
    }
    if letters.is_empty() {
        return None;
    }
    let named: Vec<String> = letters
        .iter()
        .map(|letter| format!("`{letter}` is U+{:04X}", u32::from(*letter)))
        .collect();
    Some(warning(&format!(
        "letters outside ASCII: {}",
        named.join(", ")
    )))
}

/// A line that warns.
fn warning(words: &str) -> TextLine {
    let mut line = field("beware", words);
    for ((tone, _), wanted) in line.iter_mut().zip([Tone::Bad, Tone::Warn]) {
        *tone = wanted;
    }
    line
}

fn gather(value: &Value, letters: &mut BTreeSet<char>) {
    match value {
        Value::String(text) => letters.extend(visible::letters(text)),
        Value::Array(items) => items.iter().for_each(|item| gather(item, letters)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, letters)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The hosts a sandboxed command may reach, all of them: they are part of what is approved.
fn network(rules: Option<&Value>) -> String {
    let written = |name: &str| {
        let rules = items(rules.and_then(|rules| rules.get(name)));
        rules
            .map(|rule| visible::line(text(Some(rule))))
            .collect::<Vec<_>>()
    };
    let (allowed, denied) = (written("allow"), written("deny"));
    match (allowed.is_empty(), denied.is_empty()) {
        (true, _) => "no network".to_owned(),
        (false, true) => format!("of the network {}", allowed.join(", ")),
        (false, false) => format!(
            "of the network {}, but not {}",
            allowed.join(", "),
            denied.join(", ")
        ),
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(form: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    let items = items(form.get(name));
    items.map(|item| text(Some(item))).collect()
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
