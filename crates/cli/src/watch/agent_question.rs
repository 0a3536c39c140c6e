//! A question of an agent on the watch screen: what the agent wrote, behind its margin, and the answer
//! that is being typed. It is no approval and none of an approval's keys answers it. What an answer may
//! be is decided by `AgentQuestion::meant`, here as everywhere.

use std::sync::Arc;

use haft_contract::{
    agent_question::MAX_REPLY_BYTES,
    host::{AgentQuestionId, AskedQuestion, GivenReply, Timestamp},
};

use super::{
    state::ScreenSize,
    update::{Key, NOT_OPEN, TIME_TO_LOOK, WatchAction},
};

/// An answer to a question of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplyChoice {
    pub(super) id: AgentQuestionId,
    pub(super) reply: GivenReply,
}

/// One question of an agent, and what the person is typing.
#[derive(Debug, Clone)]
pub(super) struct AnswerScreen {
    pub(super) asked: Arc<AskedQuestion>,
    pub(super) lines: Vec<String>,
    pub(super) top: usize,
    opened: Timestamp,
    /// Whether it is still open.
    pub(super) open: bool,
    /// The answer being typed.
    pub(super) typed: Option<String>,
}

/// What a key comes to.
pub(super) enum AnswerStep {
    /// The question stays on the screen, perhaps with a message.
    Stay(Option<&'static str>),
    /// Back to the list, without an answer.
    Back,
    /// An answer is given.
    Reply(WatchAction),
}

impl AnswerScreen {
    /// Opens a question at its beginning.
    pub(super) fn open(asked: Arc<AskedQuestion>, now: Timestamp) -> Self {
        Self {
            lines: asked.question.lines(asked.principal.agent.as_str()),
            asked,
            top: 0,
            opened: now,
            open: true,
            typed: None,
        }
    }

    /// Handles a key.
    pub(super) fn pressed(&mut self, key: Key, size: ScreenSize, now: Timestamp) -> AnswerStep {
        if let Some(typed) = self.typed.take() {
            return self.typing(typed, key);
        }
        let last = self.lines.len().saturating_sub(size.body());
        let page = size.body();
        match key {
            Key::Up | Key::Char('k') => self.top = self.top.saturating_sub(1),
            Key::Down | Key::Char('j') => self.top = (self.top + 1).min(last),
            Key::PageUp | Key::Char('b') => self.top = self.top.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.top = (self.top + page).min(last),
            Key::Home => self.top = 0,
            Key::End => self.top = last,
            Key::Escape | Key::Backspace | Key::Char('q' | 'h') => return AnswerStep::Back,
            Key::Enter | Key::Char('x' | '0'..='9') if !self.open => {
                return AnswerStep::Stay(Some(NOT_OPEN));
            }
            Key::Enter => self.typed = Some(String::new()),
            Key::Char('x') => return self.reply(GivenReply::Decline),
            Key::Char(digit @ '0'..='9') => return self.chosen(digit, now),
            Key::Char('y' | 'n' | 'a' | 'r') => {
                let no_approval = "this is not an approval: enter types an answer, q goes back";
                return AnswerStep::Stay(Some(no_approval));
            }
            Key::Interrupt | Key::Char(_) => {}
        }
        AnswerStep::Stay(None)
    }

    /// A digit is one of the answers that are offered, and never an answer in the person's own words.
    fn chosen(&self, digit: char, now: Timestamp) -> AnswerStep {
        let question = &self.asked.question;
        let meant = question.meant(&digit.to_string());
        let Some(meant) = meant.filter(|text| question.chosen(text).is_some()) else {
            return AnswerStep::Stay(Some("there is no such answer: enter types one"));
        };
        if now.since(self.opened) < TIME_TO_LOOK {
            return AnswerStep::Stay(Some("read it first: press the number again to answer"));
        }
        self.reply(GivenReply::Text(meant))
    }

    fn typing(&mut self, mut typed: String, key: Key) -> AnswerStep {
        match key {
            Key::Escape => return AnswerStep::Stay(None),
            Key::Enter if typed.trim().is_empty() => {
                return AnswerStep::Stay(Some("nothing was typed: x gives no answer"));
            }
            Key::Enter if self.asked.question.meant(&typed).is_none() => {
                self.typed = Some(typed);
                let offered = "it takes one of the answers above: type its number or its words";
                return AnswerStep::Stay(Some(offered));
            }
            Key::Enter => return self.reply(GivenReply::Text(typed)),
            Key::Backspace => {
                typed.pop();
            }
            Key::Char(c) if typed.len() + c.len_utf8() <= MAX_REPLY_BYTES => typed.push(c),
            Key::Char(_)
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Interrupt => {}
        }
        self.typed = Some(typed);
        AnswerStep::Stay(None)
    }

    fn reply(&self, reply: GivenReply) -> AnswerStep {
        AnswerStep::Reply(WatchAction::Reply(Box::new(ReplyChoice {
            id: self.asked.id,
            reply,
        })))
    }
}
