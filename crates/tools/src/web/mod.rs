//! Tools that read the web. What they bring back is written by strangers: it is data and says so, and
//! the session is labelled with the host before anything of it arrives.

pub mod http;
pub mod web_fetch;
pub mod web_search;

mod address;
mod answer;
mod copies;
mod media_type;
mod page_outline;
mod search_providers;
mod search_results;
mod searching;
