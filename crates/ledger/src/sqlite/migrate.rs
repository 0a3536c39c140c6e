//! The schema, as numbered migrations built into the program. A record from a newer program is
//! refused, never guessed at.

use sqlx::{Connection as _, SqliteConnection};

use super::connect::OpenError;

/// The newest schema this program knows.
#[expect(
    clippy::cast_possible_wrap,
    reason = "a handful of steps, and `TryFrom` is not const"
)]
pub const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// One migration for each version; a migration never changes once released.
const STEPS: [&str; 5] = [
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_approvals.sql"),
    include_str!("../../migrations/0003_used.sql"),
    include_str!("../../migrations/0004_workspaces.sql"),
    include_str!("../../migrations/0005_accepted.sql"),
];

/// Migrates a record to the newest schema.
pub(crate) async fn migrate(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await?;
    let done = match usize::try_from(found) {
        Ok(done) if done <= STEPS.len() => done,
        Ok(_) | Err(_) => {
            return Err(OpenError::NewerSchema {
                found,
                known: SCHEMA_VERSION,
            });
        }
    };
    for step in STEPS.iter().skip(done) {
        sqlx::raw_sql(*step).execute(&mut *transaction).await?;
    }
    if done < STEPS.len() {
        sqlx::raw_sql(set_version(STEPS.len()))
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// A pragma takes no parameters.
fn set_version(version: usize) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("PRAGMA user_version = {version}"))
}
