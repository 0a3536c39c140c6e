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
        "existence" => Box::pin(places::existence(case, verdict)).await,
        "ignored_case" => Box::pin(places::ignored_case(case, verdict)).await,
        "hard_link" => Box::pin(places::hard_link(case, verdict)).await,
        "copy_is_no_link" => Box::pin(changes::copy_is_no_link(case, verdict)).await,
        "capability" => Box::pin(changes::capability(case, verdict)).await,
        "spool" => Box::pin(changes::spool(case, verdict)).await,
        "race_reads" => Box::pin(races::reads(case, verdict)).await,
        "race_changes" => Box::pin(races::changes(case, verdict)).await,
        "flood" => Box::pin(floods::flood(case, verdict)).await,
        "long_line" => Box::pin(floods::long_line(case, verdict)).await,
        "sparse" => Box::pin(inputs::sparse(case, verdict)).await,
        "json" => Box::pin(inputs::json(case, verdict)).await,
        "grandchild" => Box::pin(processes::grandchild(case, verdict)).await,
        "stubborn" => Box::pin(processes::stubborn(case, verdict)).await,
        "cancelled" => Box::pin(processes::cancelled(case, verdict)).await,
        other => panic!("{}: there is no runner `{other}`", case.id),
    }
}
