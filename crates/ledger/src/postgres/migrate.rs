//! The schema, as numbered steps built into the program, made by whoever may; and what a role must not be.

use super::connection::PostgresConnection;
use crate::{
    open_error::OpenError,
    store::{Connection, StoreError, values},
};

/// The newest schema this program knows.
const SCHEMA_VERSION: i64 = 5;

/// One step for each version; a step never changes: `tests/it/schema_steps.rs` knows each.
const STEPS: [&str; 5] = [
    include_str!("schema/0001_record.sql"),
    include_str!("schema/0002_facts.sql"),
    include_str!("schema/0003_memory.sql"),
    include_str!("schema/0004_question_kind.sql"),
    include_str!("schema/0005_gateway.sql"),
];

/// Held while the schema is made, so that one process makes it.
const MIGRATING: i64 = 0x4864 << 48;

/// How many months have their part of the record ahead of time.
const MONTHS_AHEAD: i64 = 3;

/// How long making them waits for those who use the record.
const MONTHS_WAIT: &str = "2s";

/// Brings the schema up to date, if this role may.
pub(super) async fn migrate(connection: &mut PostgresConnection) -> Result<(), OpenError> {
    refuse_privileged_role(connection).await?;
    let mut found = version(connection).await?;
    if found < SCHEMA_VERSION {
        connection.begin().await?;
        let made = make(connection).await;
        match made {
            Ok(()) => connection.commit().await?,
            Err(error) => {
                connection.rollback().await?;
                return Err(error);
            }
        }
        found = version(connection).await?;
    }
    if found > SCHEMA_VERSION {
        return Err(OpenError::NewerSchema {
            found,
            known: SCHEMA_VERSION,
        });
    }
    if let Err(error) = make_months(connection).await {
        // Its rows are kept all the same, in the part for what has no month.
        tracing::warn!(%error, "the record's parts for the next months could not be made");
    }
    Ok(())
}

/// Makes the parts of this month and of the next ones, where they are not there. That waits until nobody
/// reads the record, and whoever comes next waits for it: so it soon gives up, to be tried again later.
pub(super) async fn make_months(connection: &mut PostgresConnection) -> Result<(), StoreError> {
    connection.begin().await?;
    let wait = "SELECT set_config('lock_timeout', ?1, true)";
    let months = "SELECT make_months(?1::bigint::integer)";
    let made = match connection.query(wait, &values![MONTHS_WAIT]).await {
        Ok(_) => connection.query(months, &values![MONTHS_AHEAD]).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(_) => connection.commit().await,
        Err(error) => {
            connection.rollback().await?;
            Err(error)
        }
    }
}

async fn make(connection: &mut PostgresConnection) -> Result<(), OpenError> {
    let lock = "SELECT pg_advisory_xact_lock(?1)";
    connection.query(lock, &values![MIGRATING]).await?;
    // Another process may have made it meanwhile.
    let done = usize::try_from(version(connection).await?).unwrap_or(usize::MAX);
    if done == 0 {
        let schema = connection
            .run_script("CREATE SCHEMA IF NOT EXISTS haft")
            .await;
        schema.map_err(OpenError::NoSchema)?;
    }
    for step in STEPS.iter().skip(done) {
        connection
            .run_script(step)
            .await
            .map_err(OpenError::NoSchema)?;
    }
    Ok(())
}

/// The version of the schema; 0 if there is none.
async fn version(connection: &mut PostgresConnection) -> Result<i64, StoreError> {
    let connection: &mut dyn Connection = connection;
    let is_there = "SELECT count(to_regclass('haft.schema_version'))";
    if connection.number(is_there, &[]).await? == 0 {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM haft.schema_version";
    connection.number(newest, &[]).await
}

/// Row-level security does not hold for such a role, whatever the tables say.
async fn refuse_privileged_role(connection: &mut PostgresConnection) -> Result<(), OpenError> {
    let connection: &mut dyn Connection = connection;
    let privileged: Option<String> = connection
        .scalar(
            "SELECT rolname::text FROM pg_roles WHERE rolname = current_user
                 AND (rolsuper OR rolbypassrls)",
            &[],
        )
        .await?;
    match privileged {
        Some(role) => Err(OpenError::PrivilegedRole(role)),
        None => Ok(()),
    }
}
