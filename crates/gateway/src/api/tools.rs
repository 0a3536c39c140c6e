//! The tools on offer to a credential, in the words of whichever model is to be given them.

use axum::{
    Json,
    extract::{Path, Query, State},
};
use haft_runtime::registry::{Entry, Format};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page::Page;
use crate::{
    Gateway,
    identify::{CALL, Identified},
    problem::{Problem, ProblemKind},
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(look_up))
}

/// Which tools, and how they are written.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ToolsQuery {
    /// `mcp`, `openai` or `anthropic`: how `definition` is written.
    #[param(default = "mcp")]
    format: Option<String>,
    /// Only tools whose name or description has this.
    search: Option<String>,
    /// In this workspace, by id or name; without it in the first one of the credential.
    workspace: Option<String>,
}

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tool)]
pub(crate) struct ToolView {
    /// The name that a call takes.
    pub(crate) name: String,
    /// Where it is from.
    pub(crate) provider: String,
    /// What it is for.
    pub(crate) description: String,
    /// Its definition, as the API of a model's provider takes it.
    #[schema(value_type = Object)]
    pub(crate) definition: Value,
}

impl ToolView {
    fn of(entry: &Entry, format: Format) -> Self {
        let key = entry.key();
        Self {
            name: key.tool.to_string(),
            provider: key.provider.to_string(),
            description: entry.spec().description.clone(),
            definition: entry.rendering(format).clone(),
        }
    }
}

fn format(word: Option<&str>) -> Result<Format, Problem> {
    match word {
        None | Some("mcp") => Ok(Format::Mcp),
        Some("openai") => Ok(Format::OpenAi),
        Some("anthropic") => Ok(Format::Anthropic),
        Some(_) => Err(Problem::new(
            ProblemKind::BadRequest,
            "`format` is `mcp`, `openai` or `anthropic`",
        )),
    }
}

async fn offered(
    gateway: &Gateway,
    who: &Identified,
    workspace: Option<&str>,
) -> Result<Vec<std::sync::Arc<Entry>>, Problem> {
    who.needs(CALL)?;
    let principal = who.principal(None, None)?;
    let named = who.workspace(gateway, workspace)?;
    let opened = gateway.runtime().workspace(&principal, &named.id).await;
    let opened = opened.map_err(|error| {
        tracing::warn!(?error, "a workspace could not be opened");
        Problem::new(ProblemKind::Unavailable, "the workspace cannot be opened")
    })?;
    Ok(opened.tools_for(&principal))
}

/// The tools that a caller may be given, as MCP has them.
pub(crate) async fn given(gateway: &Gateway, who: &Identified) -> Result<Vec<ToolView>, Problem> {
    let offered = offered(gateway, who, None).await?;
    let view = |entry: &std::sync::Arc<Entry>| ToolView::of(entry, Format::Mcp);
    Ok(offered.iter().map(view).collect())
}

/// List the tools that this credential may be given.
#[utoipa::path(
    get,
    path = "/v1/tools",
    tag = "tools",
    params(ToolsQuery),
    responses((status = 200, description = "All of them, by name", body = Page<ToolView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(query): Query<ToolsQuery>,
) -> Result<Json<Page<ToolView>>, Problem> {
    let format = format(query.format.as_deref())?;
    let words = query.search.unwrap_or_default().to_lowercase();
    let offered = offered(&gateway, &who, query.workspace.as_deref()).await?;
    let wanted = offered.iter().filter(|entry| {
        let name = entry.key().tool.as_str().to_lowercase();
        name.contains(&words) || entry.spec().description.to_lowercase().contains(&words)
    });
    let items = wanted.map(|entry| ToolView::of(entry, format)).collect();
    Ok(Json(Page::whole(items)))
}

/// Look a tool up.
#[utoipa::path(
    get,
    path = "/v1/tools/{name}",
    tag = "tools",
    params(("name" = String, Path, description = "The tool's name"), ToolsQuery),
    responses((status = 200, description = "The tool", body = ToolView)),
)]
async fn look_up(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(name): Path<String>,
    Query(query): Query<ToolsQuery>,
) -> Result<Json<ToolView>, Problem> {
    let format = format(query.format.as_deref())?;
    let offered = offered(&gateway, &who, query.workspace.as_deref()).await?;
    let found = offered
        .iter()
        .find(|entry| entry.key().tool.as_str() == name);
    let found = found.ok_or_else(|| Problem::not_found("tool"))?;
    Ok(Json(ToolView::of(found, format)))
}
