//! MCP for many principals: whoever a credential names, in the workspace the request names. The protocol
//! itself is behind `host`.

use axum::{
    extract::{Query, Request, State},
    response::Response,
};
use serde::Deserialize;

use crate::{
    Gateway,
    identify::{CALL, Identified},
    problem::Problem,
};

/// In which workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct McpQuery {
    /// By id or name; without it the first one of the credential.
    workspace: Option<String>,
}

/// Answers a message of the protocol, in whichever era it is written.
pub(crate) async fn answer(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(query): Query<McpQuery>,
    request: Request,
) -> Result<Response, Problem> {
    who.needs(CALL)?;
    let workspace = who.workspace(&gateway, query.workspace.as_deref())?;
    let principal = who.principal(None, None)?;
    let answer = gateway
        .mcp()
        .answer(principal, workspace.id.clone(), request)
        .await;
    Ok(answer.map(axum::body::Body::new))
}
