//! The schema, as numbered migrations built into the program. A record from a newer program is
//! refused, never guessed at.

use super::connection::WritingConnection;
use crate::{open_error::OpenError, store::Connection};

/// The newest schema this program knows.
#[expect(
    clippy::cast_possible_wrap,
    reason = "a handful of steps, and `TryFrom` is not const"
)]
pub const SCHEMA_VERSION: i64 = SCHEMA.len() as i64;

/// The tables of a record as SQLite makes them: one step for each version of the schema. A step never
/// changes (`tests/it/schema_steps.rs` knows each), and later versions of Haft add steps. `call_text`
/// is the one that only SQLite needs: it is how SQLite finds text.
pub const SCHEMA: &[&str] = &[
    include_str!("schema/0001_record.sql"),
    include_str!("schema/0002_facts.sql"),
    include_str!("schema/0003_memory.sql"),
    include_str!("schema/0004_question_kind.sql"),
    include_str!("schema/0005_gateway.sql"),
];

/// Tells this record from the one before the first release, whose versions had the same numbers.
const APPLICATION: i64 = 0x6861_6674;

/// Migrates a record to the newest schema.
pub(super) async fn migrate(connection: &mut WritingConnection) -> Result<(), OpenError> {
    connection.begin().await?;
    let writing: &mut dyn Connection = connection;
    let found: i64 = writing
        .scalar("PRAGMA user_version", &[])
        .await?
        .unwrap_or(0);
    let application = writing.number("PRAGMA application_id", &[]).await?;
    if found > 0 && application != APPLICATION {
        return Err(OpenError::OlderForm);
    }
    let done = match usize::try_from(found) {
        Ok(done) if done <= SCHEMA.len() => done,
        Ok(_) | Err(_) => {
            return Err(OpenError::NewerSchema {
                found,
                known: SCHEMA_VERSION,
            });
        }
    };
    for step in SCHEMA.iter().skip(done) {
        connection.run_script(step)?;
    }
    if done < SCHEMA.len() {
        // A pragma takes no values.
        let version = SCHEMA.len();
        connection.run_script(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}"
        ))?;
    }
    Ok(connection.commit().await?)
}
