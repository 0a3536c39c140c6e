//! The workspaces that a credential may work in.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page::Page;
use crate::{Gateway, identify::Identified, problem::Problem};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A workspace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Workspace)]
pub(crate) struct WorkspaceView {
    /// Its id, which calls name.
    pub(crate) id: String,
    /// Its name, which calls may use as well.
    pub(crate) name: String,
    /// Where it is, as its machine sees it.
    pub(crate) root: String,
}

/// List the workspaces of this credential; the first one is meant where a request names none.
#[utoipa::path(
    get,
    path = "/v1/workspaces",
    tag = "workspaces",
    responses((status = 200, description = "All of them", body = Page<WorkspaceView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
) -> Result<Json<Page<WorkspaceView>>, Problem> {
    let items = who.workspaces(&gateway).map(|workspace| WorkspaceView {
        id: workspace.id.to_string(),
        name: workspace.name.clone(),
        root: workspace.root.clone(),
    });
    Ok(Json(Page::whole(items.collect())))
}
