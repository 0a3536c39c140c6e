//! The providers whose tools a session has used, itself or by way of a memory: what its labels are made
//! of.

use haft_contract::{SessionId, TenantId};

use crate::{
    reading::row_limit,
    store::{Connection, StoreError, values},
};

/// The providers whose tools a session's calls were started with, except the built-in one, and those
/// of the memories it has read.
pub(crate) async fn providers_used(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let rows = connection
        .query(
            "SELECT u.provider AS provider FROM tenant t
             JOIN session s ON s.tenant = t.id AND s.name = ?2
             JOIN provider_used u ON u.tenant = t.id AND u.session = s.id
             WHERE t.name = ?1
             UNION SELECT provider FROM memory_source WHERE tenant = ?1 AND session = ?2
             ORDER BY provider LIMIT ?3",
            &values![tenant.as_str(), session.as_str(), row_limit(limit)],
        )
        .await?;
    rows.iter().map(|row| row.get("provider")).collect()
}
