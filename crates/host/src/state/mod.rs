//! What Haft keeps in its data directory besides the record: small files, readable by their owner
//! alone. `foreign.rs` changes files elsewhere, which people keep themselves.
#![expect(
    clippy::disallowed_methods,
    reason = "reads and writes Haft's own files and those a person asked it to change, which no workspace confines"
)]

pub mod failures;
pub mod foreign;
pub mod http_token;
pub mod logins;
pub mod pins;
pub mod private;
pub mod running;
