//! Turns events into the next state and the actions to take. Pure: the time is passed in, and
//! neither the terminal nor the store is touched, so every key can be tested.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    PlanDigest,
    host::{Approval, ApprovalId, AskedQuestion, GivenVerdict, Timestamp},
};

use super::{
    agent_question::{AnswerScreen, AnswerStep, ReplyChoice},
    detail::Detail,
    state::{Grouping, Item, Mode, Row, RowId, ScreenSize, WatchState},
};

/// How long a question is on the screen before a key that answers it counts. A key already on its way when it
/// appeared has arrived by then.
pub(super) const TIME_TO_LOOK: Duration = Duration::from_millis(300);

/// The longest reason that can be typed, in characters.
const MAX_REASON_CHARS: usize = 500;

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A key.
    Pressed(Key),
    /// The screen has a new size.
    Resized(ScreenSize),
    /// The open questions, oldest first.
    Fresh(Vec<Approval>),
    /// What agents ask, oldest first.
    AgentsAsk(Vec<AskedQuestion>),
    /// The record could not be read.
    Trouble(String),
    /// The record was read for why a question is asked.
    Explained {
        /// The question.
        id: ApprovalId,
        /// Why, if the record knows.
        why: Option<String>,
    },
    /// An answer was accepted, or not.
    Answered {
        /// The answer given.
        given: Box<AnswerChoice>,
        /// The question's new state, or why the answer was not accepted.
        result: Result<Approval, String>,
    },
    /// An answer to an agent was accepted, or why not.
    Replied(Result<(), String>),
}

/// A key that this screen uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
    Char(char),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Answer a question.
    Answer(Box<AnswerChoice>),
    /// Answer what an agent asks.
    Reply(Box<ReplyChoice>),
    /// End the program.
    Leave,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerChoice {
    pub(super) id: ApprovalId,
    /// The digest of what was on the screen.
    pub(super) digest: PlanDigest,
    pub(super) verdict: GivenVerdict,
    /// A summary for the message afterwards.
    pub(super) summary: String,
}

impl AnswerChoice {
    fn wish(item: &Item, verdict: GivenVerdict) -> WatchAction {
        WatchAction::Answer(Box::new(Self {
            id: item.id,
            digest: item.digest,
            verdict,
            summary: item.summary.clone(),
        }))
    }
}

impl WatchState {
    /// Handles an event and returns the actions to take.
    pub(super) fn update(&mut self, event: Event, now: Timestamp) -> Vec<WatchAction> {
        self.now = now;
        match event {
            Event::Pressed(Key::Interrupt) => return vec![WatchAction::Leave],
            Event::Pressed(key) => return self.pressed(key),
            Event::Resized(size) => self.resized(size),
            Event::Fresh(pending) => self.fresh(pending),
            Event::AgentsAsk(asked) => self.agents_ask(asked),
            Event::Replied(result) => {
                self.said = Some(match result {
                    Ok(()) => "answered".to_owned(),
                    Err(why) => format!("not answered: {why}"),
                });
            }
            Event::Trouble(why) => self.said = Some(format!("the record cannot be read: {why}")),
            Event::Explained { id, why } => self.explained(id, why.as_deref()),
            Event::Answered { given, result } => self.answered(&given, result),
        }
        Vec::new()
    }

    fn pressed(&mut self, key: Key) -> Vec<WatchAction> {
        self.said = None;
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::Help(before) => {
                self.mode = *before;
                Vec::new()
            }
            before if key == Key::Char('?') && !is_typing(&before) => {
                self.mode = Mode::Help(Box::new(before));
                Vec::new()
            }
            Mode::List => self.in_list(key),
            Mode::Detail(detail) => self.in_detail(detail, key),
            Mode::Answer(screen) => self.in_answer(screen, key),
            Mode::RefuseAll(items) => self.in_refuse_all(items, key),
        }
    }

    fn in_list(&mut self, key: Key) -> Vec<WatchAction> {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let page = self.size.body();
        match key {
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.selected = (self.selected + page).min(last),
            Key::Home => self.selected = 0,
            Key::End | Key::Char('G') => self.selected = last,
            Key::Char('g') => {
                self.grouping = if self.grouped() {
                    Grouping::Single
                } else {
                    Grouping::Grouped
                };
                self.within = None;
                self.selected = 0;
            }
            Key::Escape | Key::Char('q') if self.within.is_some() => {
                self.within = None;
                self.selected = 0;
            }
            Key::Char('q') => return vec![WatchAction::Leave],
            Key::Enter | Key::Char('l' | 'y' | 'n' | 'r' | 'a') => match rows.get(self.selected) {
                // Whatever the answer will be, the question is shown first.
                Some(Row::One(item)) => self.look_at(Arc::clone(item)),
                Some(Row::Asks(asked)) => {
                    let screen = AnswerScreen::open(Arc::clone(asked), self.now);
                    self.mode = Mode::Answer(Box::new(screen));
                }
                Some(Row::Group(items)) if key == Key::Char('n') => {
                    self.mode = Mode::RefuseAll(items.clone());
                }
                Some(Row::Group(items)) => {
                    self.within = items.first().map(|item| item.kind.clone());
                    self.selected = 0;
                }
                None => {}
            },
            Key::Escape | Key::Backspace | Key::Interrupt | Key::Char(_) => {}
        }
        Vec::new()
    }

    fn look_at(&mut self, item: Arc<Item>) {
        let detail = Detail::open(item, self.size, self.now, self.home.clone());
        self.mode = Mode::Detail(Box::new(detail));
    }

    fn in_answer(&mut self, mut screen: Box<AnswerScreen>, key: Key) -> Vec<WatchAction> {
        match screen.pressed(key, self.size, self.now) {
            AnswerStep::Back => Vec::new(),
            AnswerStep::Reply(reply) => vec![reply],
            AnswerStep::Stay(said) => {
                self.said = said.map(str::to_owned);
                self.mode = Mode::Answer(screen);
                Vec::new()
            }
        }
    }

    fn agents_ask(&mut self, asked: Vec<AskedQuestion>) {
        let selected = self.selected_row();
        self.agents_ask = asked.into_iter().map(Arc::new).collect();
        self.select(selected);
        let mut mode = &mut self.mode;
        while let Mode::Help(before) = mode {
            mode = before;
        }
        if let Mode::Answer(screen) = mode
            && screen.open
            && !self.agents_ask.iter().any(|it| it.id == screen.asked.id)
        {
            screen.open = false;
            screen.typed = None;
            self.said = Some(NOT_OPEN.to_owned());
        }
    }

    fn selected_row(&self) -> Option<RowId> {
        self.rows().get(self.selected).and_then(Row::id)
    }

    /// Selects a row again: the selection follows its question, not its position.
    fn select(&mut self, selected: Option<RowId>) {
        let rows = self.rows();
        let place = rows.iter().position(|row| row.id() == selected);
        self.selected = place.unwrap_or_else(|| self.selected.min(rows.len().saturating_sub(1)));
    }

    fn explained(&mut self, id: ApprovalId, why: Option<&str>) {
        let size = self.size;
        if let Mode::Detail(detail) = &mut self.mode
            && detail.item.id == id
        {
            detail.explain(why, size);
        }
    }

    fn in_detail(&mut self, mut detail: Box<Detail>, key: Key) -> Vec<WatchAction> {
        if let Some(reason) = detail.reason.take() {
            return self.in_reason(detail, reason, key);
        }
        let page = self.size.body();
        let size = self.size;
        let top = detail.top;
        match key {
            Key::Up | Key::Char('k') => detail.scroll_to(top.saturating_sub(1), size),
            Key::Down | Key::Char('j') => detail.scroll_to(top + 1, size),
            Key::PageUp | Key::Char('b') => detail.scroll_to(top.saturating_sub(page), size),
            Key::PageDown | Key::Char(' ') => detail.scroll_to(top + page, size),
            Key::Home | Key::Char('g') => detail.scroll_to(0, size),
            Key::End | Key::Char('G') => detail.scroll_to(usize::MAX, size),
            Key::Char('q' | 'h') | Key::Escape | Key::Backspace => return Vec::new(),
            Key::Char('y') => {
                if let Some(wish) = self.yes(&mut detail) {
                    return vec![wish];
                }
            }
            Key::Char('n') if detail.open => {
                return vec![AnswerChoice::wish(
                    &detail.item,
                    GivenVerdict::Refuse { reason: None },
                )];
            }
            Key::Char('r') if detail.open => detail.reason = Some(String::new()),
            Key::Char('n' | 'r') => self.said = Some(NOT_OPEN.to_owned()),
            Key::Char('d') => detail.toggle_details(size),
            Key::Char('a') => {
                self.said = Some(format!(
                    "to keep a rule: haft approve {} --always",
                    detail.item.id
                ));
            }
            Key::Enter | Key::Interrupt | Key::Char(_) => {}
        }
        self.mode = Mode::Detail(detail);
        Vec::new()
    }

    /// A yes counts only after the whole question has been on the screen for a moment.
    fn yes(&mut self, detail: &mut Detail) -> Option<WatchAction> {
        if !detail.open {
            self.said = Some(NOT_OPEN.to_owned());
        } else if let Some(why) = detail.unshown() {
            self.said = Some(why.as_str().to_owned());
        } else if let Some(unseen) = detail.unseen() {
            detail.scroll_to(unseen, self.size);
            // Seen is not yet read: the next yes counts from here.
            detail.opened = self.now;
            self.said = Some(match detail.unseen() {
                Some(_) => {
                    "you have not seen all of it yet: read the rest, then press y".to_owned()
                }
                None => "you had not seen this part yet: press y again to allow it".to_owned(),
            });
        } else if self.now.since(detail.opened) < TIME_TO_LOOK {
            self.said = Some("read it first: press y again to allow it".to_owned());
        } else {
            return Some(AnswerChoice::wish(&detail.item, GivenVerdict::Approve));
        }
        None
    }

    fn in_reason(
        &mut self,
        mut detail: Box<Detail>,
        mut reason: String,
        key: Key,
    ) -> Vec<WatchAction> {
        match key {
            Key::Enter => {
                let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                return vec![AnswerChoice::wish(
                    &detail.item,
                    GivenVerdict::Refuse { reason },
                )];
            }
            Key::Escape => {
                self.mode = Mode::Detail(detail);
                return Vec::new();
            }
            Key::Backspace => {
                reason.pop();
            }
            Key::Char(c) if reason.chars().count() < MAX_REASON_CHARS => reason.push(c),
            Key::Char(_)
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Interrupt => {}
        }
        detail.reason = Some(reason);
        self.mode = Mode::Detail(detail);
        Vec::new()
    }

    /// Refusing many at once only prevents things; there is no such key for allowing them.
    fn in_refuse_all(&mut self, items: Vec<Arc<Item>>, key: Key) -> Vec<WatchAction> {
        if key != Key::Char('y') {
            self.said = Some("none refused".to_owned());
            return Vec::new();
        }
        let refuse =
            |item: &Arc<Item>| AnswerChoice::wish(item, GivenVerdict::Refuse { reason: None });
        items.iter().map(refuse).collect()
    }

    fn resized(&mut self, size: ScreenSize) {
        self.size = size;
        let mut mode = &mut self.mode;
        while let Mode::Help(before) = mode {
            mode = before;
        }
        if let Mode::Detail(detail) = mode {
            detail.fit(size);
        }
    }

    fn fresh(&mut self, pending: Vec<Approval>) {
        self.looked = true;
        let selected = self.selected_row();
        // Forms are drawn once; a known question is kept as it was.
        let known = |approval: &Approval| {
            let found = self
                .items
                .binary_search_by_key(&approval.id, |item| item.id);
            found.ok().and_then(|index| self.items.get(index)).cloned()
        };
        let mut items: Vec<Arc<Item>> = pending
            .into_iter()
            .map(|approval| known(&approval).unwrap_or_else(|| Arc::new(Item::of(approval))))
            .collect();
        items.sort_by_key(|item| item.id);
        self.items = items;
        if let Some(kind) = &self.within
            && !self.items.iter().any(|item| item.kind == *kind)
        {
            self.within = None;
        }
        self.select(selected);
        let mut mode = &mut self.mode;
        while let Mode::Help(before) = mode {
            mode = before;
        }
        if let Mode::Detail(detail) = mode
            && detail.open
            && !self.items.iter().any(|item| item.id == detail.item.id)
        {
            detail.open = false;
            detail.reason = None;
            self.said = Some(NOT_OPEN.to_owned());
        }
    }

    fn answered(&mut self, given: &AnswerChoice, result: Result<Approval, String>) {
        self.said = Some(match result {
            Ok(approval) => format!("{}: {}", approval.state.as_str(), given.summary),
            Err(why) => format!("not answered: {why}"),
        });
        self.mode = Mode::List;
    }
}

pub(super) const NOT_OPEN: &str =
    "no longer open: it was answered elsewhere, or its call has ended";

fn is_typing(mode: &Mode) -> bool {
    match mode {
        Mode::Detail(detail) => detail.reason.is_some(),
        Mode::Answer(screen) => screen.typed.is_some(),
        Mode::List | Mode::RefuseAll(_) | Mode::Help(_) => false,
    }
}
