//! The cases, or parts of cases, that data cannot say, by the name the data uses.

mod changes;
mod floods;
mod health;
mod inputs;
mod places;
mod processes;
mod races;
mod swapper;

use super::{attempt::Verdict, corpus::Case};

/// Runs the function a case names.
pub(crate) async fn run(name: &str, case: &Case, verdict: &mut Verdict) {
    match name {
        "existence" => places::existence(case, verdict).await,
        "ignored_case" => places::ignored_case(case, verdict).await,
        "hard_link" => places::hard_link(case, verdict).await,
        "copy_is_no_link" => changes::copy_is_no_link(case, verdict).await,
        "capability" => changes::capability(case, verdict).await,
        "spool" => changes::spool(case, verdict).await,
        "race_reads" => races::reads(case, verdict).await,
        "race_changes" => races::changes(case, verdict).await,
        "flood" => floods::flood(case, verdict).await,
        "long_line" => floods::long_line(case, verdict).await,
        "sparse" => inputs::sparse(case, verdict).await,
        "json" => inputs::json(case, verdict).await,
        "grandchild" => processes::grandchild(case, verdict).await,
        "stubborn" => processes::stubborn(case, verdict).await,
        "cancelled" => processes::cancelled(case, verdict).await,
        other => panic!("{}: there is no runner `{other}`", case.id),
    }
}
