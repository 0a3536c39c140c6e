//! A grant as a row: its columns, their signature, and what they mean.

use haft_contract::{
    AgentId, SessionId, TenantId, UserId, WorkspaceId,
    host::{Grant, GrantId, GrantScope, GrantedWorkspace, Timestamp},
};
use uuid::Uuid;

use crate::{
    seal::Seal,
    store::{Connection, Row, Statement, StoreError, values},
};

/// Names the signed form below, which leaves out only `changed`. Other columns or another order need another name.
const FORM: &str = "haft-ledger-grant-3";

/// Reads a row; `None` if this ledger did not sign it, or it cannot be understood.
pub(crate) fn read(row: &Row, key: &[u8; 32]) -> Result<Option<Grant>, StoreError> {
    let text = |name: &str| row.get::<String>(name);
    let (scope, bound_to) = (text("scope")?, text("bound_to")?);
    let (tenant, user, id) = (text("tenant")?, text("person")?, text("id")?);
    let uses_left: Option<i64> = row.get("uses_left")?;
    let cause: Option<Vec<u8>> = row.get("cause")?;
    let shown: Option<String> = row.get("shown")?;
    let rule = text("rule")?;
    let made_by = text("made_by")?;
    let (until, made_at): (Option<i64>, i64) = (row.get("until_at")?, row.get("made_at")?);
    let understood = || {
        Some(Grant {
            id: GrantId::parse(&id)?,
            tenant: TenantId::parse(&tenant).ok()?,
            user: UserId::parse(&user).ok()?,
            rule,
            scope: match scope.as_str() {
                "session" => GrantScope::Session(SessionId::parse(&bound_to).ok()?),
                "project" => GrantScope::Project(GrantedWorkspace {
                    id: WorkspaceId::parse(&bound_to).ok()?,
                    shown: shown?,
                }),
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
    let mac: &[u8] = row.get("mac")?;
    Ok(understood().filter(|grant| seal(grant, key).is(mac)))
}

/// The row of a grant, if there is one.
pub(super) async fn find(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    id: GrantId,
) -> Result<Option<Row>, StoreError> {
    connection
        .optional(
            "SELECT * FROM grant_rule WHERE tenant = ?1 AND id = ?2",
            &values![tenant.as_str(), &id.to_string()],
        )
        .await
}

/// The same, and nobody else changes it before the transaction ends.
pub(super) async fn find_locked(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    id: GrantId,
) -> Result<Option<Row>, StoreError> {
    let id = id.to_string();
    let mut select = Statement::new("SELECT * FROM grant_rule WHERE tenant = ");
    select.value(tenant.as_str()).text(" AND id = ").value(&id);
    select.text(connection.row_lock());
    Ok(select.query(connection).await?.into_iter().next())
}

/// Inserts a new grant, by the change with this number; returns whether its id was free.
pub(super) async fn insert(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    grant: &Grant,
    change: i64,
) -> Result<bool, StoreError> {
    let cause = grant.cause.map(|call| *call.as_uuid().as_bytes());
    let inserted = connection
        .execute(
            "INSERT INTO grant_rule (tenant, id, person, rule, scope, bound_to, until_at, uses_left,
             made_by, made_at, cause, mac, shown, changed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING",
            values![
                grant.tenant.as_str(),
                &grant.id.to_string(),
                grant.user.as_str(),
                &grant.rule,
                grant.scope.as_str(),
                grant.scope.bound_to(),
                grant.until.map(|until| until.0),
                grant.uses_left,
                &grant.made_by,
                grant.made_at.0,
                cause.as_ref(),
                seal(grant, key).sign().as_slice(),
                shown_column(grant),
                change
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Writes how many uses are left, by the change with this number.
pub(super) async fn update_uses(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    grant: &Grant,
    change: i64,
) -> Result<(), StoreError> {
    connection
        .execute(
            "UPDATE grant_rule SET uses_left = ?3, mac = ?4, changed = ?5
             WHERE tenant = ?1 AND id = ?2",
            values![
                grant.tenant.as_str(),
                &grant.id.to_string(),
                grant.uses_left,
                seal(grant, key).sign().as_slice(),
                change
            ],
        )
        .await?;
    Ok(())
}

/// The display name of a grant's workspace.
fn shown_column(grant: &Grant) -> Option<&str> {
    match &grant.scope {
        GrantScope::Project(workspace) => Some(&workspace.shown),
        GrantScope::Session(_) | GrantScope::Agent(_) => None,
    }
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
        .text(grant.scope.shown())
}
