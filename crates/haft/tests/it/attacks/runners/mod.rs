//! The cases, or parts of cases, that data cannot say, by the name the data uses.

mod answers;
mod approvals;
mod changes;
mod confinement;
mod crowds;
mod desk;
mod floods;
mod health;
mod inputs;
mod limits;
mod places;
mod processes;
mod races;
mod shown;
mod storage;
mod swapped_files;
mod swapper;
mod undo;

use super::{attempt::Verdict, corpus::Case};

/// Runs the function a case names.
pub(crate) async fn run(name: &str, case: &Case, verdict: &mut Verdict) {
    match name {
        "existence" => Box::pin(places::existence(case, verdict)).await,
        "ignored_case" => Box::pin(places::ignored_case(case, verdict)).await,
        "hard_link" => Box::pin(places::hard_link(case, verdict)).await,
        "mounted" => Box::pin(places::mounted(case, verdict)).await,
        "copy_is_no_link" => Box::pin(changes::copy_is_no_link(case, verdict)).await,
        "capability" => Box::pin(changes::capability(case, verdict)).await,
        "spool" => Box::pin(changes::spool(case, verdict)).await,
        "race_reads" => Box::pin(races::reads(case, verdict)).await,
        "race_changes" => Box::pin(races::changes(case, verdict)).await,
        "race_reads_for_long" => Box::pin(races::reads_for_long(case, verdict)).await,
        "race_changes_for_long" => Box::pin(races::changes_for_long(case, verdict)).await,
        "rebound" => Box::pin(races::rebound(case, verdict)).await,
        "flood" => Box::pin(floods::flood(case, verdict)).await,
        "long_line" => Box::pin(floods::long_line(case, verdict)).await,
        "sparse" => Box::pin(inputs::sparse(case, verdict)).await,
        "json" => Box::pin(inputs::json(case, verdict)).await,
        "grandchild" => Box::pin(processes::grandchild(case, verdict)).await,
        "stubborn" => Box::pin(processes::stubborn(case, verdict)).await,
        "cancelled" => Box::pin(processes::cancelled(case, verdict)).await,
        "fork_bomb" => Box::pin(limits::fork_bomb(case, verdict)).await,
        "memory" => Box::pin(limits::memory(case, verdict)).await,
        "spin" => Box::pin(limits::spin(case, verdict)).await,
        "bombs" => Box::pin(limits::bombs(case, verdict)).await,
        "slow_server" => Box::pin(limits::slow_server(case, verdict)).await,
        "full_disk" => Box::pin(storage::full_disk(case, verdict)).await,
        "many_files" => Box::pin(storage::many_files(case, verdict)).await,
        "descriptors" => Box::pin(storage::descriptors(case, verdict)).await,
        "stderr_flood" => Box::pin(storage::stderr_flood(case, verdict)).await,
        "crowd" => Box::pin(crowds::crowd(case, verdict)).await,
        "sessions" => Box::pin(crowds::sessions(case, verdict)).await,
        "unanswered" => Box::pin(crowds::unanswered(case, verdict)).await,
        "proxy_descriptors" => Box::pin(confinement::proxy_descriptors(case, verdict)).await,
        "frozen_init" => Box::pin(confinement::frozen_init(case, verdict)).await,
        "left_for_later" => Box::pin(confinement::left_for_later(case, verdict)).await,
        "daemons" => Box::pin(confinement::daemons(case, verdict)).await,
        "daemon_on_a_port" => Box::pin(confinement::daemon_on_a_port(case, verdict)).await,
        "missing_layer" => Box::pin(confinement::missing_layer(case, verdict)).await,
        "other_bwrap" => Box::pin(confinement::other_bwrap(case, verdict)).await,
        "two_tenants" => Box::pin(confinement::two_tenants(case, verdict)).await,
        "gvisor" => Box::pin(confinement::gvisor(case, verdict)).await,
        "used_twice" => Box::pin(approvals::used_twice(case, verdict)).await,
        "mutated" => Box::pin(approvals::mutated(case, verdict)).await,
        "other_world" => Box::pin(approvals::other_world(case, verdict)).await,
        "somebody_elses" => Box::pin(approvals::somebody_elses(case, verdict)).await,
        "no_longer_open" => Box::pin(approvals::no_longer_open(case, verdict)).await,
        "own_question" => Box::pin(answers::own_question(case, verdict)).await,
        "replayed" => Box::pin(answers::replayed(case, verdict)).await,
        "hidden_suffix" => Box::pin(shown::hidden_suffix(case, verdict)).await,
        "shown_is_run" => Box::pin(shown::shown_is_run(case, verdict)).await,
        "timeout_and_restart" => Box::pin(answers::timeout_and_restart(case, verdict)).await,
        "always_anything" => Box::pin(answers::always_anything(case, verdict)).await,
        "wide_prefix" => Box::pin(answers::wide_prefix(case, verdict)).await,
        "asked_flood" => Box::pin(approvals::flood(case, verdict)).await,
        "restart" => Box::pin(answers::restart(case, verdict)).await,
        "denied_meanwhile" => Box::pin(answers::denied_meanwhile(case, verdict)).await,
        "swapped_files" => Box::pin(swapped_files::named(case, verdict)).await,
        "many_named_files" => Box::pin(swapped_files::many(case, verdict)).await,
        "saved_by_others" => Box::pin(undo::saved_by_others(case, verdict)).await,
        "saved_by_others_for_long" => {
            Box::pin(undo::saved_by_others_for_long(case, verdict)).await;
        }
        "one_in_the_way" => Box::pin(undo::one_in_the_way(case, verdict)).await,
        "kept_rights" => Box::pin(undo::kept_rights(case, verdict)).await,
        "reserved_names" => Box::pin(undo::reserved_names(case, verdict)).await,
        "taken_name" => Box::pin(undo::taken_name(case, verdict)).await,
        "swapped_program" => Box::pin(swapped_files::program(case, verdict)).await,
        other => panic!("{}: there is no runner `{other}`", case.id),
    }
}
