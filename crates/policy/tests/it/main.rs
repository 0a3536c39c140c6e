//! What the policy promises, by requirement, mistake and attack.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod attacks;
mod days;
mod decide;
mod decision_cache;
mod fuzz;
mod grants;
mod in_doubt;
mod labels;
mod load;
mod masks;
mod mistakes;
mod notation;
mod presets;
mod properties;
mod reference;
mod requirements;
mod shell;
mod shell_options;
mod shell_properties;
mod tenants_and_users;
mod who_asks;
mod world;
