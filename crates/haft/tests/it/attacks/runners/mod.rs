//! The cases, or parts of cases, that data cannot say, by the name the data uses.

mod changes;
mod places;
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
        other => panic!("{}: there is no runner `{other}`", case.id),
    }
}
