//! What the person at the terminal is asked, and how they may answer. The questions are drawn in
//! `view` and printed through `terminal`; neither knows that anybody is asked.

mod approve;
pub(crate) mod confirm;
pub(crate) mod grant_choice;

pub(crate) use approve::{
    AnswerSource, TerminalApprover, ask_for_wish, somebody_is_there, typed_after,
};
