//! *Always*, away from where the call was made: the rules a person could accept, and storing them.

use haft_contract::host::{Approval, Clock as _, Grant, GrantProposal, GrantRequest, Ledger as _};
use haft_host::{HostErrorKind, asked_again};
use haft_runtime::SystemClock;

use super::RecordedQuestions;
use crate::{commands::App, exit::Exit, stop::Stop};

/// The rules that would allow calls like the one a question is about, narrowest first.
pub(super) async fn proposals(question: &Approval, app: &App) -> Result<Vec<GrantProposal>, Stop> {
    let found = asked_again::proposals(question, &app.env, app.global.overrides()).await;
    found.map_err(|error| match error.kind() {
        HostErrorKind::Refused => Stop::new(Exit::NotAnswered, error.message(), error.hint()),
        _ => error.into(),
    })
}

/// Stores the grant a person chose and returns it.
pub(super) async fn keep(
    desk: &RecordedQuestions,
    question: &Approval,
    wish: &GrantRequest,
) -> Result<Vec<Grant>, Stop> {
    let now = SystemClock.now();
    let wished = wish.grants(&question.principal, &desk.name, now, question.call);
    let store = desk.ledger.grants();
    for grant in &wished {
        let kept = store.add(grant.clone()).await;
        kept.map_err(|error| Stop::ledger(&error))?;
    }
    Ok(wished)
}
