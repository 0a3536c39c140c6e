//! Whether the record is as it was written.

use axum::{Json, extract::State};
use haft_contract::host::Verification;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    identify::{Identified, READ},
    problem::Problem,
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(verify))
}

/// The result of verifying the record of a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Verification)]
pub(crate) struct VerificationView {
    /// Whether every record is as it was written.
    pub(crate) intact: bool,
    /// How many records were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<u64>,
    /// The first bad record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_bad: Option<u64>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Verify the record.
///
/// Computes the hash chains of this tenant again and names the first bad record, also when the end was cut
/// off or an older copy put back.
#[utoipa::path(
    post,
    path = "/v1/audit/verify",
    tag = "audit",
    responses((status = 200, description = "The result", body = VerificationView)),
)]
async fn verify(
    State(gateway): State<Gateway>,
    who: Identified,
) -> Result<Json<VerificationView>, Problem> {
    verified(&gateway, &who).await.map(Json)
}

pub(crate) async fn verified(
    gateway: &Gateway,
    who: &Identified,
) -> Result<VerificationView, Problem> {
    who.needs(READ)?;
    Ok(match gateway.history().verify(who.tenant()).await? {
        Verification::Intact { records } => VerificationView {
            intact: true,
            records: Some(records),
            first_bad: None,
            reason: None,
        },
        Verification::Broken { sequence, reason } => VerificationView {
            intact: false,
            records: None,
            first_bad: Some(sequence),
            reason: Some(reason),
        },
    })
}
