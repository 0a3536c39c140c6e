//! Finds the call a person means: by its id, a prefix of its id, or `last`.

use haft_contract::{
    CallId, TenantId,
    host::{CallFilter, CallQuery, History, StoredCall},
};

use crate::error::{HostError, HostErrorKind, unreadable_record};

/// How many calls back an abbreviated id is looked up.
const MAX_CALLS: usize = 20_000;

/// How many candidates of an ambiguous id are named.
const MAX_NAMED: usize = 5;

/// The call with an id or an abbreviated id, wherever it was made, or the last one that a filter means.
pub async fn call(
    history: &impl History,
    id: &str,
    last_of: CallFilter,
) -> Result<StoredCall, HostError> {
    let tenant = TenantId::local();
    if let Some(id) = CallId::parse(id) {
        let call = history
            .call(&tenant, id)
            .await
            .map_err(|error| unreadable_record(&error))?;
        return call.ok_or_else(|| unknown(&id.to_string()));
    }
    let last = id == "last";
    let is_everywhere = !last || last_of.workspaces.is_empty();
    let query = CallQuery {
        filter: if last { last_of } else { CallFilter::default() },
        limit: if last { 1 } else { MAX_CALLS },
        ..CallQuery::default()
    };
    let calls = history
        .calls(&tenant, &query)
        .await
        .map_err(|error| unreadable_record(&error))?;
    if last {
        return calls.into_iter().next().ok_or_else(|| {
            if is_everywhere {
                return HostError::new(
                    HostErrorKind::NotFound,
                    "nothing has been recorded yet",
                    "make a call: haft call list path=.",
                );
            }
            HostError::new(
                HostErrorKind::NotFound,
                "nothing has been recorded in this workspace yet",
                "make a call (haft call list path=.), or look with `haft log --all-workspaces`",
            )
        });
    }
    let wanted = id.to_ascii_lowercase();
    let fits = |call: &StoredCall| !wanted.is_empty() && call.id.to_string().starts_with(&wanted);
    let mut found: Vec<StoredCall> = calls.into_iter().filter(fits).collect();
    match (found.len(), found.pop()) {
        (1, Some(call)) => Ok(call),
        (0, _) | (_, None) => Err(unknown(id)),
        (several, Some(last)) => {
            let mut named: Vec<String> = found
                .iter()
                .rev()
                .take(MAX_NAMED - 1)
                .map(|call| call.id.to_string())
                .collect();
            named.insert(0, last.id.to_string());
            Err(HostError::new(
                HostErrorKind::NotFound,
                format!("{several} ids begin with `{id}`"),
                format!("give more of it: {}", named.join(", ")),
            ))
        }
    }
}

fn unknown(id: &str) -> HostError {
    HostError::new(
        HostErrorKind::NotFound,
        format!("no call `{id}` is on record"),
        "`haft log` lists the calls; `last` is the newest one",
    )
}
