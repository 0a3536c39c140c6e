//! What a turn yields while its calls run.

use std::sync::Arc;

use haft_contract::{
    CallId, ModelCallId, Outcome, ops::Stream, progress::RenderedProgress, streamed::StreamedItem,
};

use crate::question::Question;

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCall {
    pub(super) index: usize,
    pub(super) call: CallId,
    pub(super) model_call: Option<ModelCallId>,
    pub(super) tool: Option<String>,
}

impl TurnCall {
    /// Its place among the calls of the message, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Haft's id, under which the record has it. A malformed call is in no record.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// The provider's own id. Some servers send none.
    pub fn model_call(&self) -> Option<&str> {
        self.model_call.as_ref().map(ModelCallId::as_str)
    }

    /// The id that the answer carries: the provider's, or Haft's own if there was none.
    pub fn id(&self) -> String {
        match &self.model_call {
            Some(id) => id.to_string(),
            None => self.call.to_string(),
        }
    }

    /// The tool, as the model wrote it; `None` if the call cannot be read.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }
}

/// Something that happened in a turn.
#[derive(Debug)]
#[non_exhaustive]
pub enum TurnItem {
    /// A call reports progress.
    Progress {
        /// The call.
        call: Arc<TurnCall>,
        /// The newest report.
        progress: Box<RenderedProgress>,
    },
    /// A call has output, cleaned of what a terminal would act on.
    Output {
        /// The call.
        call: Arc<TurnCall>,
        /// Which stream it came from.
        stream: Stream,
        /// The text.
        text: String,
    },
    /// A call has a part of its result. The outcome has the whole.
    Item {
        /// The call.
        call: Arc<TurnCall>,
        /// The part.
        item: Box<StreamedItem>,
    },
    /// A call asks a person, and waits; its time does not run.
    Question {
        /// The call.
        call: Arc<TurnCall>,
        /// The question, to be answered here, or elsewhere by its id.
        question: Box<Question>,
    },
    /// A call has its outcome. Every call has exactly one such item, and none follows for it.
    Ended {
        /// The call.
        call: Arc<TurnCall>,
        /// The outcome.
        outcome: Arc<Outcome>,
    },
    /// Progress, output and items that were dropped because the turn was read too slowly. The
    /// outcomes miss nothing.
    Missed {
        /// How many.
        events: u64,
    },
}

impl TurnItem {
    /// The call it is about; `None` for what concerns several.
    pub fn call(&self) -> Option<&TurnCall> {
        match self {
            Self::Progress { call, .. }
            | Self::Output { call, .. }
            | Self::Item { call, .. }
            | Self::Question { call, .. }
            | Self::Ended { call, .. } => Some(call),
            Self::Missed { .. } => None,
        }
    }
}
