//! Finds the question a person means, by its id or a prefix of it.

use haft_contract::TenantId;
use haft_contract::host::{Approval, ApprovalId};

use super::RecordedQuestions;
use crate::{exit::Exit, stop::Stop, view::question::MAX_LISTED};

/// How many candidates of an ambiguous id are named.
const MAX_NAMED: usize = 5;

/// The question with an id, or the open one with an abbreviated id.
pub(super) async fn question(desk: &RecordedQuestions, id: &str) -> Result<Approval, Stop> {
    if let Some(id) = ApprovalId::parse(id) {
        let found = desk.store.get(&TenantId::local(), id).await;
        let found = found.map_err(|error| Stop::ledger(&error))?;
        return found.ok_or_else(|| unknown(&id.to_string()));
    }
    let wanted = id.to_ascii_lowercase();
    let fits =
        |approval: &Approval| !wanted.is_empty() && approval.id.to_string().starts_with(&wanted);
    let mut found = desk.pending(MAX_LISTED).await?;
    found.retain(fits);
    match found.as_slice() {
        [_] => found.pop().ok_or_else(|| unknown(id)),
        [] => Err(unknown(id)),
        several => {
            let named = several
                .iter()
                .take(MAX_NAMED)
                .map(|approval| approval.id.to_string());
            Err(Stop::new(
                Exit::NotFound,
                format!("`{id}` is the beginning of {} ids", several.len()),
                format!("give more of it: {}", named.collect::<Vec<_>>().join(", ")),
            ))
        }
    }
}

fn unknown(id: &str) -> Stop {
    Stop::new(
        Exit::NotFound,
        format!("there is no open question `{id}`"),
        "`haft approvals` lists the open questions",
    )
}
