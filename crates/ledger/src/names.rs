//! Names as the database's numbers: tenants, sessions and principals are written once and referred
//! to by number. The numbers are remembered, because every call needs three of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

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
    /// The numbers of principals, in their order; new ones for those that have none.
    pub(crate) async fn of_all(
        &mut self,
        connection: &mut dyn Connection,
        principals: impl IntoIterator<Item = &Arc<Principal>>,
    ) -> Result<Vec<PrincipalIds>, StoreError> {
        let mut found = Vec::new();
        let mut new = BTreeMap::new();
        for principal in principals {
            found.push(match self.known(principal) {
                Ok(ids) => Ok(ids),
                Err(stored) => {
                    new.insert(Arc::clone(&stored), &**principal);
                    Err(stored)
                }
            });
        }
        let written = self.write(connection, &new).await?;
        let ids = found.into_iter().map(|found| match found {
            Ok(ids) => Ok(ids),
            Err(stored) => written.get(&stored).cloned().ok_or_else(not_written),
        });
        ids.collect()
    }

    /// The numbers of one principal; new ones if it has none.
    pub(crate) async fn of(
        &mut self,
        connection: &mut dyn Connection,
        principal: &Arc<Principal>,
    ) -> Result<PrincipalIds, StoreError> {
        let ids = self.of_all(connection, [principal]).await?.pop();
        ids.ok_or_else(not_written)
    }

    /// The numbers of a principal, or its stored form if this process has not met it.
    fn known(&mut self, principal: &Arc<Principal>) -> Result<PrincipalIds, Arc<str>> {
        if let Some((last, ids)) = &self.last
            && (Arc::ptr_eq(last, principal) || last == principal)
        {
            return Ok(ids.clone());
        }
        // Holds only strings, so this cannot fail.
        let stored = serde_json::to_string(&convert::stored_principal(principal));
        let stored: Arc<str> = stored.unwrap_or_default().into();
        let Some(ids) = self.by_stored.get(&stored) else {
            return Err(stored);
        };
        self.last = Some((Arc::clone(principal), ids.clone()));
        Ok(ids.clone())
    }

    /// Writes what is new of these, by their stored form. All tenants come first, then all sessions, then
    /// all principals, each in order: two writers that met the same names in another order would each
    /// wait for the other, until the database undoes what one of them has done.
    async fn write(
        &mut self,
        connection: &mut dyn Connection,
        new: &BTreeMap<Arc<str>, &Principal>,
    ) -> Result<HashMap<Arc<str>, PrincipalIds>, StoreError> {
        let mut tenants = BTreeMap::new();
        let mut sessions = BTreeMap::new();
        for principal in new.values() {
            tenants.insert(&principal.tenant, 0);
            sessions.insert((&principal.tenant, &principal.session), (0, 0));
        }
        for (tenant, id) in &mut tenants {
            *id = number(
                connection,
                "INSERT INTO tenant (name) VALUES (?1) ON CONFLICT DO NOTHING",
                "SELECT id FROM tenant WHERE name = ?1",
                &values![tenant.as_str()],
            )
            .await?;
        }
        for ((name, session), ids) in &mut sessions {
            let tenant = tenants.get(name).copied().ok_or_else(not_written)?;
            let session = number(
                connection,
                "INSERT INTO session (tenant, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                "SELECT id FROM session WHERE tenant = ?1 AND name = ?2",
                &values![tenant, session.as_str()],
            )
            .await?;
            *ids = (tenant, session);
        }
        let mut written = HashMap::with_capacity(new.len());
        for (stored, principal) in new {
            let ids = sessions.get(&(&principal.tenant, &principal.session));
            let (tenant, session) = ids.copied().ok_or_else(not_written)?;
            let principal = number(
                connection,
                "INSERT INTO principal (tenant, stored) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                "SELECT id FROM principal WHERE tenant = ?1 AND stored = ?2",
                &values![tenant, &**stored],
            )
            .await?;
            let ids = PrincipalIds {
                tenant,
                session,
                principal,
                stored: Arc::clone(stored),
            };
            written.insert(Arc::clone(stored), ids);
        }
        if self.by_stored.len().saturating_add(written.len()) > MAX_REMEMBERED {
            self.by_stored.clear();
        }
        let remembered = written.iter().take(MAX_REMEMBERED);
        self.by_stored
            .extend(remembered.map(|(stored, ids)| (Arc::clone(stored), ids.clone())));
        Ok(written)
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

/// Every name that is asked for is written first, so nobody sees this.
fn not_written() -> StoreError {
    StoreError::Unreadable("a name has no number".to_owned())
}
