//! The in-memory implementations pass the suites they were written beside.

mod circles;
mod engine_names;
mod files;
mod ledger;
mod plain_words;
mod process;
mod sample;
mod search;
mod spec;
mod tidy;
mod vocabulary;
