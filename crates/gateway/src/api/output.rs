//! The whole output of a call, page by page, whatever its result left out. It is read from where it is
//! kept, one page at a time, and never held whole.

use axum::{
    Json,
    extract::{Path, Query, State},
};
use haft_contract::host::{ArtifactId, Ledger as _, StoredCall};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    calls::{result_of, visible},
    outcome_view::ContentView,
};
use crate::{
    Gateway,
    identify::Identified,
    limits::MAX_OUTPUT_PAGE,
    problem::{Problem, ProblemKind},
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(output))
}

/// Which part of the output.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OutputQuery {
    /// The first byte.
    #[param(minimum = 0, default = 0)]
    #[serde(default)]
    offset: u64,
    /// How many bytes at most.
    #[param(minimum = 1, maximum = 262_144, default = 65_536)]
    limit: Option<usize>,
}

/// A page of output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputPage {
    /// Where it begins, in bytes.
    pub(crate) offset: u64,
    /// The text. Bytes that are no text are shown as `\u{fffd}`.
    pub(crate) text: String,
    /// Where the next page begins, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_offset: Option<u64>,
    /// How many bytes there are in all, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
}

/// How much a page has if nobody says.
pub(crate) const OUTPUT_PAGE: usize = 64 * 1024;

/// Read the output of a call.
///
/// All of it, also what the result left out.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}/output",
    tag = "calls",
    params(("id" = String, Path, description = "The call's id"), OutputQuery),
    responses((status = 200, description = "A page of it", body = OutputPage)),
)]
async fn output(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
    Query(query): Query<OutputQuery>,
) -> Result<Json<OutputPage>, Problem> {
    let limit = query.limit.unwrap_or(OUTPUT_PAGE);
    output_page(&gateway, &who, &id, query.offset, limit)
        .await
        .map(Json)
}

pub(crate) async fn output_page(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
    offset: u64,
    limit: usize,
) -> Result<OutputPage, Problem> {
    if !(1..=MAX_OUTPUT_PAGE).contains(&limit) {
        return Err(Problem::new(
            ProblemKind::BadRequest,
            format!("`limit` is from 1 to {MAX_OUTPUT_PAGE}"),
        ));
    }
    let call = visible(gateway, who, id).await?;
    if let Some(artifact) = spilled(gateway, who, &call).await? {
        return artifact_page(gateway, who, artifact, offset, limit).await;
    }
    let result = result_of(gateway, who, &call).await?;
    let content = result.map(|result| result.content).unwrap_or_default();
    let text: String = content
        .into_iter()
        .filter_map(|content| match content {
            ContentView::Text { text } => Some(text),
            ContentView::Bytes { .. } | ContentView::Link { .. } => None,
        })
        .collect::<Vec<_>>()
        .join("\n");
    Ok(page_of(text.as_bytes(), offset, limit))
}

/// Where the whole output is kept, if the result left some out.
async fn spilled(
    gateway: &Gateway,
    who: &Identified,
    call: &StoredCall,
) -> Result<Option<ArtifactId>, Problem> {
    let events = gateway.history().events(who.tenant(), call.id).await?;
    let settled = events.iter().rev().find(|event| event.kind == "settled");
    let artifact = settled.and_then(|event| event.body.pointer("/facts/artifact"));
    Ok(artifact.and_then(|stored| {
        let hash = stored.get("hash")?.as_str()?;
        ArtifactId::from_hex(hash, stored.get("bytes")?.as_u64()?)
    }))
}

async fn artifact_page(
    gateway: &Gateway,
    who: &Identified,
    artifact: ArtifactId,
    offset: u64,
    limit: usize,
) -> Result<OutputPage, Problem> {
    let gone = || {
        Problem::new(ProblemKind::Gone, "this output is not kept any more")
            .hint("`[limits]` in haft.toml says how long output is kept")
    };
    let store = gateway.ledger().artifacts_of(who.tenant());
    let open = store.open(artifact).await.map_err(|_| gone())?;
    let bytes = open.read_at(offset, limit).await.map_err(|_| gone())?;
    let total = artifact.bytes;
    let mut page = page_of(&bytes, 0, limit);
    page.offset = offset;
    let end = offset.saturating_add(len(&bytes));
    page.next_offset = (end < total && !bytes.is_empty()).then_some(end);
    page.total = Some(total);
    Ok(page)
}

/// A page of bytes that are held.
fn page_of(bytes: &[u8], offset: u64, limit: usize) -> OutputPage {
    let from = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let rest = bytes.get(from..).unwrap_or_default();
    let page = rest.get(..limit).unwrap_or(rest);
    let end = offset.saturating_add(len(page));
    OutputPage {
        offset,
        text: String::from_utf8_lossy(page).into_owned(),
        next_offset: (page.len() < rest.len()).then_some(end),
        total: Some(len(bytes)),
    }
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
