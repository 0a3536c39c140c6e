//! A grant as a row: its columns, their signature, and what they mean.

use haft_contract::{
    AgentId, SessionId, TenantId, UserId, WorkspaceId,
    host::{Grant, GrantId, GrantScope, GrantedWorkspace, Timestamp},
    ops::BackendId,
};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use crate::seal::Seal;

/// Names the signed form below. Other columns or another order need another name.
const FORM: &str = "haft-ledger-grant-1";

/// The same for a grant in a workspace, which also signs the workspace's display name. Before
/// workspaces had ids, such a grant was signed under [`FORM`] and bound to the workspace's root.
const WORKSPACE_FORM: &str = "haft-ledger-grant-2";

/// The back end of grants from before workspaces had ids. A grant made on another back end has to
/// be given again.
const LOCAL_BACKEND: &str = "local";

/// Reads a row; `None` if this ledger did not sign it, or it cannot be understood.
pub(crate) fn read(row: &SqliteRow, key: &[u8; 32]) -> Result<Option<Grant>, sqlx::Error> {
    let text = |name: &str| row.try_get::<String, _>(name);
    let (scope, bound_to) = (text("scope")?, text("bound_to")?);
    let (tenant, user, id) = (text("tenant")?, text("user")?, text("id")?);
    let uses_left: Option<i64> = row.try_get("uses_left")?;
    let cause: Option<Vec<u8>> = row.try_get("cause")?;
    let shown: Option<String> = row.try_get("shown")?;
    let rule = text("rule")?;
    let made_by = text("made_by")?;
    let (until, made_at): (Option<i64>, i64) = (row.try_get("until_at")?, row.try_get("made_at")?);
    let bound = match (scope.as_str(), &shown) {
        ("project", Some(_)) => GrantBinding::Workspace,
        ("project", None) => GrantBinding::Root(bound_to.clone()),
        _ => GrantBinding::Other,
    };
    let understood = || {
        Some(Grant {
            id: GrantId::parse(&id)?,
            tenant: TenantId::parse(&tenant).ok()?,
            user: UserId::parse(&user).ok()?,
            rule,
            scope: match scope.as_str() {
                "session" => GrantScope::Session(SessionId::parse(&bound_to).ok()?),
                "project" => GrantScope::Project(match shown {
                    Some(shown) => GrantedWorkspace {
                        id: WorkspaceId::parse(&bound_to).ok()?,
                        shown,
                    },
                    None => GrantedWorkspace {
                        id: WorkspaceId::of_root(&BackendId::new(LOCAL_BACKEND), &bound_to),
                        shown: bound_to,
                    },
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
    let mac: &[u8] = row.try_get("mac")?;
    Ok(understood().filter(|grant| seal_of(grant, key, &bound).is(mac)))
}

/// Inserts a new grant; returns whether its id was free.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
    grant: &Grant,
) -> Result<bool, sqlx::Error> {
    let inserted = sqlx::query(
        "INSERT INTO grant_rule (tenant, id, user, rule, scope, bound_to, until_at, uses_left,
             made_by, made_at, cause, mac, shown)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING",
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
    .bind(shown_column(grant))
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Writes how many uses are left. A row from before workspaces had ids also gets its workspace.
pub(super) async fn update_uses(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
    grant: &Grant,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE grant_rule SET uses_left = ?3, mac = ?4, bound_to = ?5, shown = ?6
         WHERE tenant = ?1 AND id = ?2",
    )
    .bind(grant.tenant.as_str())
    .bind(grant.id.to_string())
    .bind(grant.uses_left)
    .bind(seal(grant, key).sign().as_slice())
    .bind(grant.scope.bound_to())
    .bind(shown_column(grant))
    .execute(connection)
    .await?;
    Ok(())
}

/// What a stored grant is bound to.
enum GrantBinding {
    /// A workspace, by its id.
    Workspace,
    /// A workspace, by its root: from before workspaces had ids.
    Root(String),
    /// A session or an agent.
    Other,
}

/// The display name of a grant's workspace.
fn shown_column(grant: &Grant) -> Option<&str> {
    match &grant.scope {
        GrantScope::Project(workspace) => Some(&workspace.shown),
        GrantScope::Session(_) | GrantScope::Agent(_) => None,
    }
}

/// The seal of a grant in its current form.
fn seal(grant: &Grant, key: &[u8; 32]) -> Seal {
    let bound = match &grant.scope {
        GrantScope::Project(_) => GrantBinding::Workspace,
        GrantScope::Session(_) | GrantScope::Agent(_) => GrantBinding::Other,
    };
    seal_of(grant, key, &bound)
}

fn seal_of(grant: &Grant, key: &[u8; 32], bound: &GrantBinding) -> Seal {
    let number = |number: Option<i64>| number.map(i64::to_be_bytes);
    let (form, bound_to) = match bound {
        GrantBinding::Workspace => (WORKSPACE_FORM, grant.scope.bound_to()),
        GrantBinding::Root(root) => (FORM, root.as_str()),
        GrantBinding::Other => (FORM, grant.scope.bound_to()),
    };
    let seal = Seal::new(form, key)
        .text(grant.tenant.as_str())
        .text(&grant.id.to_string())
        .text(grant.user.as_str())
        .text(&grant.rule)
        .text(grant.scope.as_str())
        .text(bound_to)
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
        );
    match bound {
        GrantBinding::Workspace => seal.text(grant.scope.shown()),
        GrantBinding::Root(_) | GrantBinding::Other => seal,
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;
    use crate::sqlite::migrate::migrate;

    const KEY: [u8; 32] = [7; 32];

    fn grant(scope: GrantScope) -> Grant {
        Grant {
            id: GrantId::new(),
            tenant: TenantId::local(),
            user: UserId::parse("ada").expect("an id"),
            rule: "bash(cargo test)".to_owned(),
            scope,
            until: None,
            uses_left: Some(2),
            made_by: "ada".to_owned(),
            made_at: Timestamp(1),
            cause: None,
        }
    }

    async fn stored(connection: &mut SqliteConnection) -> Option<Grant> {
        let row = sqlx::query("SELECT * FROM grant_rule").fetch_one(connection);
        read(&row.await.expect("a row"), &KEY).expect("columns")
    }

    /// A grant from before workspaces had ids holds in the workspace at its root, and gets the
    /// workspace's id when it is next written.
    #[tokio::test]
    async fn a_grant_for_a_root_becomes_one_for_its_workspace() {
        let mut connection = SqliteConnection::connect("sqlite::memory:")
            .await
            .expect("a store");
        migrate(&mut connection).await.expect("a schema");
        let workspace = GrantedWorkspace {
            id: WorkspaceId::of_root(&BackendId::new("local"), "/home/ada/haft"),
            shown: "/home/ada/haft".to_owned(),
        };
        let mut grant = grant(GrantScope::Project(workspace));
        insert(&mut connection, &KEY, &grant)
            .await
            .expect("written");
        assert_eq!(stored(&mut connection).await, Some(grant.clone()));
        // In its old form.
        let root = "/home/ada/haft".to_owned();
        let mac = seal_of(&grant, &KEY, &GrantBinding::Root(root.clone())).sign();
        let before = "UPDATE grant_rule SET bound_to = ?1, shown = NULL, mac = ?2";
        sqlx::query(before)
            .bind(&root)
            .bind(mac.as_slice())
            .execute(&mut connection)
            .await
            .expect("written");
        assert_eq!(stored(&mut connection).await, Some(grant.clone()));
        grant.uses_left = Some(1);
        update_uses(&mut connection, &KEY, &grant)
            .await
            .expect("written");
        assert_eq!(stored(&mut connection).await, Some(grant));
        // Its display name is signed too.
        let renamed = "UPDATE grant_rule SET shown = '/home/ada/other'";
        sqlx::query(renamed)
            .execute(&mut connection)
            .await
            .expect("written");
        assert_eq!(stored(&mut connection).await, None);
    }
}
