//! Ends standing approvals of tools that are not what they were when somebody allowed them.

use std::collections::BTreeSet;

use haft_contract::{TenantId, host::Ledger as _};
use haft_host::Record;
use haft_policy::GrantRule;

use super::{App, GrantPlace, Stop, close, living, place_of};
use crate::commands::scope::WorkspaceArgs;

/// Ends what stands for these tools in this workspace, and returns the rules. Where there is no record,
/// there is nothing to end.
pub(crate) async fn end_outdated(app: &App, tools: &BTreeSet<String>) -> Result<Vec<String>, Stop> {
    if tools.is_empty() || !Record::exists(&app.places()?) {
        return Ok(Vec::new());
    }
    let ledger = app.record().await?;
    let mut ended = Vec::new();
    let here = WorkspaceArgs {
        all_workspaces: false,
    };
    let scope = app.scope_of(here, &ledger).await?;
    for grant in living(&ledger).await? {
        let rule = GrantRule::parse(&grant.rule);
        // A rule that is not understood any more stands for nothing.
        let names_one = rule.is_ok_and(|rule| tools.iter().any(|tool| rule.names_tool(tool)));
        if !names_one || place_of(&grant, &ledger, &scope).await? == GrantPlace::Elsewhere {
            continue;
        }
        let revoked = ledger.grants().revoke(&TenantId::local(), grant.id).await;
        revoked.map_err(|error| Stop::ledger(&error))?;
        ended.push(grant.rule);
    }
    close(&ledger).await?;
    Ok(ended)
}
