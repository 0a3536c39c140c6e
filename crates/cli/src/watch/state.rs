//! What the watch screen shows: the questions, where the person is among them, and the last
//! message. Plain data; `update.rs` changes it, `render.rs` draws it.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{
    CallId, PlanDigest,
    host::{AgentQuestionId, Approval, ApprovalId, AskedQuestion, Timestamp},
};
use haft_host::recorded_question::shown_in;
use serde_json::Value;

use super::{agent_question::AnswerScreen, detail::Detail};
use crate::{
    terminal::visible,
    view::{question, table::cut_beginning},
};

/// From this many questions on, those of one kind share a line until the person wants otherwise.
const MANY: usize = 20;

/// How much of a workspace's root a line shows: its end.
const MAX_WORKSPACE_COLUMNS: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScreenSize {
    /// In columns.
    pub(super) width: u16,
    /// In rows.
    pub(super) height: u16,
}

impl ScreenSize {
    /// The rows between the title and the two lines at the bottom.
    pub(super) fn body(self) -> usize {
        usize::from(self.height.saturating_sub(4)).max(1)
    }
}

/// The parts of a question that the list needs.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: ApprovalId,
    pub(super) call: CallId,
    pub(super) digest: PlanDigest,
    pub(super) form: Option<Arc<Value>>,
    pub(super) agent: String,
    pub(super) summary: String,
    /// The root of its workspace, as its form shows it.
    pub(super) workspace: Option<String>,
    /// What it has in common with others: the agent, the tool and the program.
    pub(super) kind: String,
    pub(super) asked: Timestamp,
    pub(super) expires: Timestamp,
}

impl Item {
    pub(super) fn of(approval: Approval) -> Self {
        let agent = visible::line(approval.principal.agent.as_str());
        let workspace = shown_in(&approval).map(visible::line);
        let workspace = workspace.map(|root| cut_beginning(&root, MAX_WORKSPACE_COLUMNS));
        let kind = match &approval.form {
            Some(form) => question::kind(form),
            None => format!("{agent} (contains a secret)"),
        };
        Self {
            id: approval.id,
            call: approval.call,
            digest: approval.digest,
            agent,
            workspace,
            summary: visible::line(&approval.summary),
            kind,
            asked: approval.asked,
            expires: approval.expires,
            form: approval.form,
        }
    }
}

/// One line of the list.
#[derive(Debug, Clone)]
pub(super) enum Row {
    /// One question.
    One(Arc<Item>),
    /// Several of one kind, oldest first.
    Group(Vec<Arc<Item>>),
    /// A question of an agent, which is no approval.
    Asks(Arc<AskedQuestion>),
}

/// What a row is found by again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowId {
    /// An approval, or the oldest of several.
    Approval(ApprovalId),
    /// A question of an agent.
    AgentQuestion(AgentQuestionId),
}

impl Row {
    /// The approval it represents, or the oldest of them; none for a question of an agent.
    pub(super) fn first(&self) -> Option<&Arc<Item>> {
        match self {
            Self::One(item) => Some(item),
            Self::Group(items) => items.first(),
            Self::Asks(_) => None,
        }
    }

    /// What it is found by again.
    pub(super) fn id(&self) -> Option<RowId> {
        match self {
            Self::One(_) | Self::Group(_) => self.first().map(|item| RowId::Approval(item.id)),
            Self::Asks(asked) => Some(RowId::AgentQuestion(asked.id)),
        }
    }
}

/// Whether questions of one kind share a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grouping {
    /// If there are many.
    Automatic,
    /// Always.
    Grouped,
    /// Never.
    Single,
}

/// What a person is doing.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// Viewing the list, of all questions or of one kind.
    List,
    /// Viewing one question.
    Detail(Box<Detail>),
    /// Viewing what an agent asks, and answering it.
    Answer(Box<AnswerScreen>),
    /// Confirming that all questions of a kind are refused.
    RefuseAll(Vec<Arc<Item>>),
    /// Reading what the keys do.
    Help(Box<Mode>),
}

/// Everything the screen shows.
#[derive(Debug, Clone)]
pub(super) struct WatchState {
    pub(super) size: ScreenSize,
    pub(super) now: Timestamp,
    /// The open questions, oldest first.
    pub(super) items: Vec<Arc<Item>>,
    /// What agents ask, oldest first.
    pub(super) agents_ask: Vec<Arc<AskedQuestion>>,
    /// Whether questions of several workspaces are shown, so that each names its own.
    pub(super) names_workspaces: bool,
    /// Whether the record has been read yet.
    pub(super) looked: bool,
    pub(super) grouping: Grouping,
    /// The kind being viewed, if any.
    pub(super) within: Option<String>,
    /// The selected row.
    pub(super) selected: usize,
    pub(super) mode: Mode,
    /// The last message.
    pub(super) said: Option<String>,
    /// The person's home directory, which questions write as `~`.
    pub(super) home: Option<String>,
}

impl WatchState {
    /// The state before the record has been read.
    pub(super) fn new(size: ScreenSize) -> Self {
        Self {
            size,
            now: Timestamp(0),
            items: Vec::new(),
            agents_ask: Vec::new(),
            names_workspaces: false,
            looked: false,
            grouping: Grouping::Automatic,
            within: None,
            selected: 0,
            mode: Mode::List,
            said: None,
            home: None,
        }
    }

    /// Sets the person's home directory.
    pub(super) fn home(mut self, home: Option<String>) -> Self {
        self.home = home;
        self
    }

    /// The question being viewed, if nobody has said yet why it is asked.
    pub(super) fn unexplained(&self) -> Option<&Arc<Item>> {
        match &self.mode {
            Mode::Detail(detail) if !detail.explained => Some(&detail.item),
            Mode::Detail(_) | Mode::Answer(_) | Mode::List | Mode::RefuseAll(_) | Mode::Help(_) => {
                None
            }
        }
    }

    /// Whether questions of one kind share a line now.
    pub(super) fn grouped(&self) -> bool {
        match self.grouping {
            Grouping::Automatic => self.items.len() >= MANY,
            Grouping::Grouped => true,
            Grouping::Single => false,
        }
    }

    /// The lines of the list. What agents ask comes last, so that it pushes no approval out of sight.
    pub(super) fn rows(&self) -> Vec<Row> {
        if let Some(kind) = &self.within {
            let within = self.items.iter().filter(|item| item.kind == *kind);
            return within.cloned().map(Row::One).collect();
        }
        let mut rows = self.rows_of_approvals();
        rows.extend(self.agents_ask.iter().cloned().map(Row::Asks));
        rows
    }

    fn rows_of_approvals(&self) -> Vec<Row> {
        if !self.grouped() {
            return self.items.iter().cloned().map(Row::One).collect();
        }
        let mut kinds: BTreeMap<&str, Vec<Arc<Item>>> = BTreeMap::new();
        for item in &self.items {
            kinds.entry(&item.kind).or_default().push(Arc::clone(item));
        }
        let mut rows: Vec<Row> = kinds
            .into_values()
            .map(|mut items| match (items.len(), items.pop()) {
                (1, Some(item)) => Row::One(item),
                (_, item) => {
                    items.extend(item);
                    Row::Group(items)
                }
            })
            .collect();
        rows.sort_by_key(|row| row.first().map(|item| item.id));
        rows
    }
}
