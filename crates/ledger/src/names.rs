//! Names as the database's numbers: tenants, sessions and principals are written once and referred
//! to by number. The numbers are remembered, because every call needs three of them.

use std::{collections::HashMap, sync::Arc};

use haft_contract::Principal;

use crate::{
    convert,
    store::{Connection, StoreError, values},
};

/// How many principals are remembered. When there are more, all are forgotten.
const MAX_REMEMBERED: usize = 16_384;

/// The numbers of a principal, and its stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrincipalIds {
    pub(crate) tenant: i64,
    pub(crate) session: i64,
    pub(crate) principal: i64,
    /// As it is stored and hashed.
    pub(crate) stored: Arc<str>,
}

/// The numbers this process has met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_stored: HashMap<Arc<str>, PrincipalIds>,
    /// The one before, because most calls are made by the same.
    last: Option<(Arc<Principal>, PrincipalIds)>,
}

impl Names {
    /// The numbers of a principal; new ones where it has none.
    pub(crate) async fn of(
        &mut self,
        connection: &mut dyn Connection,
        principal: &Arc<Principal>,
    ) -> Result<PrincipalIds, StoreError> {
        if let Some((last, ids)) = &self.last
            && (Arc::ptr_eq(last, principal) || last == principal)
        {
            return Ok(ids.clone());
        }
        // Holds only strings, so this cannot fail.
        let stored = serde_json::to_string(&convert::stored_principal(principal));
        let stored: Arc<str> = stored.unwrap_or_default().into();
        let ids = match self.by_stored.get(&stored) {
            Some(ids) => ids.clone(),
            None => self.write(connection, principal, stored).await?,
        };
        self.last = Some((Arc::clone(principal), ids.clone()));
        Ok(ids)
    }

    async fn write(
        &mut self,
        connection: &mut dyn Connection,
        principal: &Principal,
        stored: Arc<str>,
    ) -> Result<PrincipalIds, StoreError> {
        let tenant = number(
            connection,
            "INSERT INTO tenant (name) VALUES (?1) ON CONFLICT DO NOTHING",
            "SELECT id FROM tenant WHERE name = ?1",
            &values![principal.tenant.as_str()],
        )
        .await?;
        let session = number(
            connection,
            "INSERT INTO session (tenant, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            "SELECT id FROM session WHERE tenant = ?1 AND name = ?2",
            &values![tenant, principal.session.as_str()],
        )
        .await?;
        let principal = number(
            connection,
            "INSERT INTO principal (tenant, stored) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            "SELECT id FROM principal WHERE tenant = ?1 AND stored = ?2",
            &values![tenant, &*stored],
        )
        .await?;
        let ids = PrincipalIds {
            tenant,
            session,
            principal,
            stored: Arc::clone(&stored),
        };
        if self.by_stored.len() >= MAX_REMEMBERED {
            self.by_stored.clear();
        }
        self.by_stored.insert(stored, ids.clone());
        Ok(ids)
    }

    /// Forgets everything: the transaction that wrote some of it was undone.
    pub(crate) fn forget(&mut self) {
        self.by_stored.clear();
        self.last = None;
    }
}

/// A name's number: looked for first, because names are written once and used often.
async fn number(
    connection: &mut dyn Connection,
    insert: &str,
    select: &str,
    name: &[crate::store::Value<'_>],
) -> Result<i64, StoreError> {
    if let Some(found) = connection.scalar(select, name).await? {
        return Ok(found);
    }
    connection.execute_all(insert, &[name.to_vec()]).await?;
    connection.number(select, name).await
}
