//! Two people asked at once: the first answer counts.

use haft_contract::host::ApprovalAnswer;

/// Waits for the first answer of two. One who reaches nobody, or leaves the answer to the record,
/// leaves it to the other.
pub async fn first_answer(
    one: impl Future<Output = ApprovalAnswer> + Send,
    other: impl Future<Output = ApprovalAnswer> + Send,
) -> ApprovalAnswer {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (first, second) = tokio::select! {
        said = &mut one => (said, &mut other as &mut (dyn Future<Output = _> + Send + Unpin)),
        said = &mut other => (said, &mut one as _),
    };
    if is_an_answer(&first) {
        return first;
    }
    in_doubt(first, second.await)
}

/// Whether somebody answered, rather than leaving it to others.
fn is_an_answer(said: &ApprovalAnswer) -> bool {
    match said {
        ApprovalAnswer::Approved { .. } | ApprovalAnswer::Refused { .. } => true,
        ApprovalAnswer::Elsewhere
        | ApprovalAnswer::NobodyThere { .. }
        | ApprovalAnswer::Failed { .. }
        | ApprovalAnswer::Expired => false,
    }
}

/// What counts when the first left it open: the second, unless that reached nobody and the first
/// knows that the question can still be answered.
fn in_doubt(first: ApprovalAnswer, second: ApprovalAnswer) -> ApprovalAnswer {
    match (&first, &second) {
        (
            ApprovalAnswer::Elsewhere,
            ApprovalAnswer::NobodyThere { .. }
            | ApprovalAnswer::Failed { .. }
            | ApprovalAnswer::Expired,
        ) => first,
        _ => second,
    }
}
