//! Everything between a command and the person at the terminal. Nothing is printed except through
//! [`Output`], and nothing reaches a terminal without [`sanitise`].

mod approve;
pub(crate) mod confirm;
mod output;
mod page;
mod progress;
pub(crate) mod sanitise;

pub(crate) use approve::{TerminalApprover, somebody_is_there};
pub(crate) use output::{Format, Output, Wanted, hint};
pub(crate) use page::{Page, Style};
pub(crate) use progress::Watcher;
