//! The API: one file for each resource, with its routes, its handlers and what it writes. A new endpoint
//! is one file and one line here.
#![expect(
    unused_qualifications,
    reason = "what utoipa writes for parameters names their types by whole paths"
)]

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod call_view;
pub(crate) mod calls;
pub(crate) mod grants;
pub(crate) mod keys;
pub(crate) mod outcome_view;
pub(crate) mod output;
pub(crate) mod page;
mod plans;
pub(crate) mod policy;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod streams;
pub(crate) mod tools;
pub(crate) mod undo;
pub(crate) mod workspaces;

use utoipa_axum::router::OpenApiRouter;

use crate::Gateway;

/// Every endpoint of the API, with its description.
pub(crate) fn endpoints() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .merge(calls::routes())
        .merge(streams::routes())
        .merge(output::routes())
        .merge(undo::routes())
        .merge(plans::routes())
        .merge(tools::routes())
        .merge(approvals::routes())
        .merge(grants::routes())
        .merge(sessions::routes())
        .merge(workspaces::routes())
        .merge(policy::routes())
        .merge(stats::routes())
        .merge(audit::routes())
        .merge(keys::routes())
}
