//! What Haft keeps in its data directory besides the record: small files, readable by their owner
//! alone.
#![expect(
    clippy::disallowed_methods,
    reason = "reads and writes Haft's own files, which no workspace confines"
)]

pub mod failures;
pub mod http_token;
pub mod logins;
pub mod pins;
pub mod private;
pub mod running;
