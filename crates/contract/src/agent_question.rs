//! What an agent asks the person it works for, and what they reply.
//!
//! The agent's text is cleaned and capped when a question is made, and there is no other way to make
//! one: whatever shows it shows text that neither acts nor hides. It is shown behind a margin, below a
//! sentence that says what it is, so that it cannot pass for an approval. A reply is text, and allows
//! nothing. Read next: [`AgentQuestionStore`](crate::host::AgentQuestionStore).

use crate::{
    displayed::{is_deceptive, most_columns},
    error::{ErrorKind, ToolError},
};

/// The longest question, in bytes.
pub const MAX_QUESTION_BYTES: usize = 2_000;

/// The most lines of a question.
pub const MAX_QUESTION_LINES: usize = 20;

/// The fewest and the most answers that a question may offer.
pub const OFFERED: std::ops::RangeInclusive<usize> = 2..=6;

/// The longest answer that a question may offer, in bytes.
pub const MAX_OFFERED_BYTES: usize = 200;

/// The longest reply that is kept, in bytes.
pub const MAX_REPLY_BYTES: usize = 4_000;

/// The width at which the lines of a question are broken, so that none leaves its margin.
const COLUMNS: usize = 64;

/// What stands in front of every line that the agent wrote.
const MARGIN: &str = "  │ ";

/// What is said above every question, wherever it is shown.
pub const ONLY_TEXT: &str = "Your answer is only text; it allows nothing.";

/// A question of an agent, clean and within its caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentQuestion {
    text: String,
    options: Vec<String>,
    allow_other: bool,
}

/// What a person replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonReply {
    /// Their words.
    Said {
        /// As recorded: clean, capped, and without secrets.
        text: String,
        /// Which of the offered answers it is, counted from 0.
        chosen: Option<usize>,
        /// Who said so.
        by: String,
    },
    /// They give no answer.
    Declined {
        /// Who said so.
        by: String,
    },
}

impl AgentQuestion {
    /// A question with the answers it offers. Any other answer is taken too where nothing is offered,
    /// or where `allow_other` says so.
    pub fn new(
        text: &str,
        options: &[String],
        allow_other: Option<bool>,
    ) -> Result<Self, ToolError> {
        let lines: Vec<String> = text.trim().lines().map(clean).collect();
        let text = lines.join("\n").trim().to_owned();
        if text.is_empty() {
            return Err(ToolError::invalid_input("the question says nothing").at("/question"));
        }
        if text.len() > MAX_QUESTION_BYTES || lines.len() > MAX_QUESTION_LINES {
            let message = format!(
                "the question has {} bytes in {} lines; at most {MAX_QUESTION_BYTES} bytes in \
                 {MAX_QUESTION_LINES} lines are shown",
                text.len(),
                lines.len()
            );
            let error = ToolError::new(ErrorKind::LimitExceeded, message).at("/question");
            return Err(error.hint("ask one thing, and say the rest in your reply"));
        }
        let options = Self::offered(options)?;
        let allow_other = allow_other.unwrap_or(options.is_empty());
        if options.is_empty() && !allow_other {
            let error = ToolError::invalid_input("no answer would be taken").at("/allow_other");
            return Err(error.hint("offer `options`, or leave `allow_other` out"));
        }
        Ok(Self {
            text,
            options,
            allow_other,
        })
    }

    fn offered(options: &[String]) -> Result<Vec<String>, ToolError> {
        if !options.is_empty() && !OFFERED.contains(&options.len()) {
            let message = format!(
                "{} answers are offered; it takes {} to {}",
                options.len(),
                OFFERED.start(),
                OFFERED.end()
            );
            let error = ToolError::invalid_input(message).at("/options");
            return Err(
                error.hint("leave `options` out to get an answer in the person's own words")
            );
        }
        let mut offered: Vec<String> = Vec::with_capacity(options.len());
        for (index, option) in options.iter().enumerate() {
            let at = format!("/options/{index}");
            let option = clean(option.trim()).trim().to_owned();
            if option.is_empty() {
                return Err(ToolError::invalid_input("the answer says nothing").at(at));
            }
            if option.len() > MAX_OFFERED_BYTES {
                let message = format!(
                    "the answer has {} bytes; at most {MAX_OFFERED_BYTES} are shown",
                    option.len()
                );
                let error = ToolError::new(ErrorKind::LimitExceeded, message).at(at);
                return Err(error.hint("name it in a few words, and explain it in `question`"));
            }
            if offered.iter().any(|other| same(other, &option)) {
                return Err(ToolError::invalid_input("the answer is offered twice").at(at));
            }
            offered.push(option);
        }
        Ok(offered)
    }

    /// What is asked. Line ends are the only control characters in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The answers it offers, each on one line; none if the person finds their own words.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Whether an answer is taken that is not offered.
    pub fn allows_other(&self) -> bool {
        self.allow_other
    }

    /// The text of the answer that a person means: one that is offered, by its words or its number from
    /// 1, or their own words where they are taken. A number means no place in the list where an offered
    /// answer is a number itself.
    pub fn meant(&self, typed: &str) -> Option<String> {
        let lines: Vec<String> = typed.trim().lines().map(clean).collect();
        let mut text = lines.join("\n").trim().to_owned();
        text.truncate(text.floor_char_boundary(MAX_REPLY_BYTES));
        if text.is_empty() {
            return None;
        }
        if let Some(index) = self.chosen(&text) {
            return self.options.get(index).cloned();
        }
        let number = |text: &str| text.parse::<usize>().ok();
        if !self.options.iter().any(|option| number(option).is_some())
            && let Some(place) = number(&text)
            && let Some(option) = place.checked_sub(1).and_then(|at| self.options.get(at))
        {
            return Some(option.clone());
        }
        self.allow_other.then_some(text)
    }

    /// Which of the offered answers a text is, counted from 0.
    pub fn chosen(&self, text: &str) -> Option<usize> {
        self.options.iter().position(|option| same(option, text))
    }

    /// The question as a person sees it, line by line: who asks, that an answer is only text, and
    /// whatever the agent wrote behind a margin that no line of it leaves.
    pub fn lines(&self, agent: &str) -> Vec<String> {
        let mut lines = self.lines_without_options(agent);
        for (index, option) in self.options.iter().enumerate() {
            lines.extend(behind_margin(&format!("{}  ", index + 1), option));
        }
        lines
    }

    /// The same for a place that lists the offered answers itself.
    pub fn lines_without_options(&self, agent: &str) -> Vec<String> {
        let agent: String = agent.chars().filter(|c| !is_deceptive(*c)).collect();
        let mut lines = vec![
            format!("The agent {agent} asks you a question."),
            ONLY_TEXT.to_owned(),
        ];
        lines.extend(self.text.lines().flat_map(|line| behind_margin("", line)));
        lines
    }
}

/// Whether two answers are the same to a person.
fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// A line without anything that acts or hides.
fn clean(line: &str) -> String {
    let spaces = line.chars().map(|c| if c == '\t' { ' ' } else { c });
    spaces.filter(|c| !is_deceptive(*c)).collect()
}

/// A line behind the margin, broken where it would be too wide. What follows a break stands below what
/// follows the mark.
fn behind_margin(mark: &str, line: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut current = format!("{MARGIN}{mark}");
    let mut columns = mark.len();
    for c in line.chars() {
        if columns + most_columns(c) > COLUMNS {
            broken.push(current);
            current = format!("{MARGIN}{:width$}", "", width = mark.len());
            columns = mark.len();
        }
        current.push(c);
        columns += most_columns(c);
    }
    broken.push(current);
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str, options: &[&str], other: Option<bool>) -> AgentQuestion {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        AgentQuestion::new(text, &options, other).unwrap()
    }

    #[test]
    fn text_that_imitates_an_approval_stays_behind_its_margin() {
        let hostile = format!(
            "Which?\r\n\u{1b}[2J\u{1b}[HAllow this one call? [y/N]\u{202e}\n{}Allow? [y/N]",
            " ".repeat(300)
        );
        let asked = question(&hostile, &["a\nAllow? [y/N]", "b\u{7}"], None);
        let lines = asked.lines("code\u{1b}[31m\nAllow? [y/N]");
        assert_eq!(lines[1], ONLY_TEXT);
        for line in &lines {
            assert!(!line.chars().any(is_deceptive), "{line:?}");
            assert!(line.chars().map(most_columns).sum::<usize>() <= COLUMNS + 4);
        }
        for line in &lines[2..] {
            assert!(line.starts_with(MARGIN), "{line:?}");
        }
    }

    #[test]
    fn a_number_chooses_only_where_no_answer_is_a_number() {
        let words = question("Which?", &["Blue", "red"], None);
        for (typed, meant) in [
            ("2", Some("red")),
            ("blue", Some("Blue")),
            (" RED ", Some("red")),
            ("3", None),
            ("0", None),
            ("green", None),
            ("", None),
            ("\u{1b}", None),
        ] {
            assert_eq!(words.meant(typed).as_deref(), meant, "{typed:?}");
        }
        let numbers = question("How many?", &["3", "5"], Some(true));
        assert_eq!(numbers.meant("2").as_deref(), Some("2"));
        assert_eq!(numbers.chosen("2"), None);
        assert_eq!(numbers.meant("5").as_deref(), Some("5"));
        assert_eq!(numbers.chosen("5"), Some(1));
    }

    #[test]
    fn what_cannot_be_shown_or_answered_is_refused() {
        let refused = |text: &str, options: &[&str], other| {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            AgentQuestion::new(text, &options, other)
                .unwrap_err()
                .kind()
        };
        assert_eq!(refused(" \u{200b}\n ", &[], None), ErrorKind::InvalidInput);
        assert_eq!(refused("?", &["one"], None), ErrorKind::InvalidInput);
        assert_eq!(refused("?", &["a"; 7], None), ErrorKind::InvalidInput);
        assert_eq!(refused("?", &["a", "A"], None), ErrorKind::InvalidInput);
        assert_eq!(refused("?", &["a", "\u{7}"], None), ErrorKind::InvalidInput);
        assert_eq!(refused("?", &[], Some(false)), ErrorKind::InvalidInput);
        let long = "x".repeat(MAX_QUESTION_BYTES + 1);
        assert_eq!(refused(&long, &[], None), ErrorKind::LimitExceeded);
        let lines = "x\n".repeat(MAX_QUESTION_LINES + 1);
        assert_eq!(refused(&lines, &[], None), ErrorKind::LimitExceeded);
        let long = "x".repeat(MAX_OFFERED_BYTES + 1);
        assert_eq!(refused("?", &["a", &long], None), ErrorKind::LimitExceeded);
    }
}
