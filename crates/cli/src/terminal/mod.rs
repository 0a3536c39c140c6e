//! Everything between a command and the person at the terminal. Nothing is printed except through
//! [`Output`], and nothing reaches a terminal without [`sanitise`].

mod approve;
pub(crate) mod confirm;
pub(crate) mod grant_choice;
mod output;
mod page;
mod progress;
pub(crate) mod sanitise;
pub(crate) mod visible;

pub(crate) use approve::{
    AnswerSource, TerminalApprover, ask_for_wish, somebody_is_there, typed_after,
};
pub(crate) use output::{ColorChoice, Format, Output, hint};
pub(crate) use page::{Colours, Page, Style, wrap};
pub(crate) use progress::Watcher;
