//! A grant as a row: its columns, their signature, and what they mean.

use haft_contract::{
    AgentId, SessionId, TenantId, UserId,
    host::{Grant, GrantId, GrantScope, Timestamp},
};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use crate::seal::Seal;

/// Names what is signed below. Other columns or another order get another name.
const FORM: &str = "haft-ledger-grant-1";

/// Reads a row; `None` when this ledger did not sign it, or it makes no sense.
pub(crate) fn read(row: &SqliteRow, key: &[u8; 32]) -> Result<Option<Grant>, sqlx::Error> {
    let text = |name: &str| row.try_get::<String, _>(name);
    let (scope, bound_to) = (text("scope")?, text("bound_to")?);
    let (tenant, user, id) = (text("tenant")?, text("user")?, text("id")?);
    let uses_left: Option<i64> = row.try_get("uses_left")?;
    let cause: Option<Vec<u8>> = row.try_get("cause")?;
    let rule = text("rule")?;
    let made_by = text("made_by")?;
    let (until, made_at): (Option<i64>, i64) = (row.try_get("until_at")?, row.try_get("made_at")?);
    let understood = || {
        Some(Grant {
            id: GrantId::parse(&id)?,
            tenant: TenantId::parse(&tenant).ok()?,
            user: UserId::parse(&user).ok()?,
            rule,
            scope: match scope.as_str() {
                "session" => GrantScope::Session(SessionId::parse(&bound_to).ok()?),
                "project" => GrantScope::Project(bound_to),
                "agent" => GrantScope::Agent(AgentId::parse(&bound_to).ok()?),
                _ => return None,
            },
            until: until.map(Timestamp),
            uses_left: match uses_left {
                Some(left) => Some(u32::try_from(left).ok()?),
                None => None,
            },
            made_by,
            made_at: Timestamp(made_at),
            cause: match cause {
                Some(cause) => Some(Uuid::from_slice(&cause).ok()?.into()),
                None => None,
            },
        })
    };
    let mac: &[u8] = row.try_get("mac")?;
    Ok(understood().filter(|grant| seal(grant, key).is(mac)))
}

/// Writes the row of a new grant; says whether its id was free.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
    grant: &Grant,
) -> Result<bool, sqlx::Error> {
    let inserted = sqlx::query(
        "INSERT INTO grant_rule (tenant, id, user, rule, scope, bound_to, until_at, uses_left,
             made_by, made_at, cause, mac)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
    )
    .bind(grant.tenant.as_str())
    .bind(grant.id.to_string())
    .bind(grant.user.as_str())
    .bind(&grant.rule)
    .bind(grant.scope.as_str())
    .bind(grant.scope.bound_to())
    .bind(grant.until.map(|until| until.0))
    .bind(grant.uses_left)
    .bind(&grant.made_by)
    .bind(grant.made_at.0)
    .bind(grant.cause.map(|call| call.as_uuid().as_bytes().to_vec()))
    .bind(seal(grant, key).sign().as_slice())
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Writes how many uses are left.
pub(super) async fn update_uses(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
    grant: &Grant,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE grant_rule SET uses_left = ?3, mac = ?4 WHERE tenant = ?1 AND id = ?2")
        .bind(grant.tenant.as_str())
        .bind(grant.id.to_string())
        .bind(grant.uses_left)
        .bind(seal(grant, key).sign().as_slice())
        .execute(connection)
        .await?;
    Ok(())
}

fn seal(grant: &Grant, key: &[u8; 32]) -> Seal {
    let number = |number: Option<i64>| number.map(i64::to_be_bytes);
    Seal::new(FORM, key)
        .text(grant.tenant.as_str())
        .text(&grant.id.to_string())
        .text(grant.user.as_str())
        .text(&grant.rule)
        .text(grant.scope.as_str())
        .text(grant.scope.bound_to())
        .maybe(
            number(grant.until.map(|until| until.0))
                .as_ref()
                .map(<[u8; 8]>::as_slice),
        )
        .maybe(
            number(grant.uses_left.map(i64::from))
                .as_ref()
                .map(<[u8; 8]>::as_slice),
        )
        .text(&grant.made_by)
        .number(grant.made_at.0)
        .maybe(
            grant
                .cause
                .map(|call| *call.as_uuid().as_bytes())
                .as_ref()
                .map(<[u8; 16]>::as_slice),
        )
}
