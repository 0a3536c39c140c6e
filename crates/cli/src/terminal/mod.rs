//! How text reaches the person at the terminal. Nothing is printed except through [`Output`], and
//! nothing reaches a terminal without [`sanitise`]. What a person is asked is in `prompt`.

mod output;
mod page;
mod progress;

pub(crate) use haft_host::screen_text::{sanitise, visible};
pub(crate) use output::{ColorChoice, Format, JsonLists, Output, hint};
pub(crate) use page::{Colours, Page, Style, columns, stderr_columns, wrap};
pub(crate) use progress::{Watcher, bar};
