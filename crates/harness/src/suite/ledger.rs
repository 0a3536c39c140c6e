//! What every ledger must do. The rules are in `docs/spec/ledger.md`; the suite is
//! `ledger_suite!`.

mod acceptance;
mod agent_questions;
mod approvals;
mod artifacts;
mod facts;
mod grants;
mod history;
mod memories;
mod replay;
mod script;
mod write;

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{History, Ledger},
};

pub use acceptance::*;
pub use agent_questions::*;
pub use approvals::*;
pub use artifacts::*;
pub use facts::*;
pub use grants::*;
pub use history::*;
pub use memories::*;
pub use replay::*;
pub use write::*;

use crate::MemoryLedger;

super::suite! { $
    /// One test per case of the ledger suite, for a [`LedgerFixture`](crate::suite::ledger::LedgerFixture).
    ledger_suite, ledger:
    a_settled_call_is_recorded,
    an_open_call_has_no_outcome,
    events_keep_their_order_and_time,
    passing_events_are_not_kept,
    only_the_first_settlement_counts,
    nothing_follows_a_settlement,
    settling_never_lacks_room,
    many_calls_at_once_are_all_recorded,
    a_durable_append_survives_reopening,
    a_settlement_survives_reopening,
    flushing_makes_everything_durable,
    open_calls_are_unknown_after_reopening,
    a_file_is_seen_per_session,
    spilled_output_belongs_to_its_session,
    sharing_a_session_id_shares_nothing,
    workspaces_do_not_see_each_other,
    a_session_knows_whose_tools_it_used,
    mc_27_a_start_is_refused_when_its_session_has_read_more,
    calls_are_newest_first_and_limited,
    calls_can_be_followed,
    calls_filter_by_session_and_outcome,
    calls_are_found_by_what_they_touched,
    odd_search_text_is_only_text,
    sessions_are_most_recent_first,
    calls_filter_by_workspace_agent_tool_and_time,
    calls_are_paged_newest_first,
    open_calls_are_listed_until_they_end,
    sessions_and_workspaces_are_told_apart,
    calls_are_counted_in_groups,
    tenants_do_not_see_each_other,
    calls_are_replayed_in_batches,
    a_replayed_call_has_what_was_decided,
    changes_come_back_as_they_happened,
    an_untouched_chain_is_intact,
    a_changed_record_is_named,
    an_artifact_comes_back_as_it_was,
    the_same_bytes_are_one_artifact,
    artifacts_are_read_in_ranges,
    an_unfinished_artifact_leaves_nothing,
    a_missing_artifact_is_not_found,
    an_artifact_survives_reopening,
    the_same_question_is_asked_once,
    a_closed_question_is_asked_anew,
    ap_13_open_questions_of_a_session_are_limited,
    only_the_first_answer_counts,
    an_answer_is_not_withdrawn_with_its_question,
    whoever_waits_is_told,
    open_questions_are_listed,
    ap_01_an_approval_starts_one_call,
    ap_02_an_answer_binds_the_plan,
    ap_06_nobody_answers_their_own_question,
    ap_04_another_tenants_question_is_unknown,
    ap_05_a_closed_question_takes_no_answer,
    ap_10_a_question_survives_reopening,
    an_agents_question_is_asked_and_received_once,
    an_agents_question_is_no_approval_and_an_approval_no_question,
    whoever_waits_for_an_agents_question_is_told,
    an_agents_question_ends,
    an_agents_question_survives_reopening,
    a_grant_holds_where_it_was_made_for,
    a_grant_knows_its_workspace_by_id,
    a_grant_ends,
    a_sessions_grants_end_with_it,
    a_grant_is_found_by_its_keys,
    a_counted_grant_is_used_up,
    grants_survive_reopening,
    a_memory_belongs_to_its_agent_and_user,
    a_memory_is_forgotten_by_its_owner_alone,
    memories_of_an_owner_are_limited,
    what_a_memory_was_made_of_counts_as_read,
    an_accepted_call_waits_for_whoever_claims_it,
    the_same_request_is_accepted_once,
    a_claim_is_exclusive,
    a_claim_is_refused_where_there_is_nothing_to_claim,
    a_superseded_claim_can_start_nothing,
    a_superseded_claim_cannot_settle,
    a_claimed_call_outlives_whoever_claimed_it,
    a_started_call_in_doubt_is_unknown,
    a_started_call_that_may_be_repeated_is_claimed_again,
    followers_miss_nothing,
    what_a_session_read_is_seen_by_the_other_instance,
}

/// A fresh, empty ledger and access behind its back. One fixture serves one case.
#[allow(
    async_fn_in_trait,
    reason = "suites run on one thread and need no `Send`"
)]
pub trait LedgerFixture {
    /// The side that writes the record.
    fn ledger(&self) -> Arc<dyn Ledger>;

    /// The side that reads the record.
    fn history(&self) -> Arc<dyn History>;

    /// A second instance on the same store, as another process would open it.
    async fn another(&self) -> Arc<dyn Ledger>;

    /// Abandons the ledger as `kill -9` would, without flushing, and reopens the same store. The
    /// case has dropped everything it held of the old one.
    async fn reopen(&mut self);

    /// Changes the stored content of one record behind the ledger's back.
    async fn tamper(&self, tenant: &TenantId, sequence: u64);

    /// How many artifacts are kept, including unfinished ones.
    async fn kept_artifacts(&self) -> usize;
}

/// The in-memory ledger, tested by the suite and an example of a fixture.
#[derive(Default)]
pub struct MemoryLedgerFixture(MemoryLedger);

impl MemoryLedgerFixture {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }
}

impl LedgerFixture for MemoryLedgerFixture {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.0.clone())
    }

    fn history(&self) -> Arc<dyn History> {
        Arc::new(self.0.clone())
    }

    async fn another(&self) -> Arc<dyn Ledger> {
        Arc::new(self.0.clone())
    }

    async fn reopen(&mut self) {
        self.0 = self.0.after_crash();
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        self.0.tamper(tenant.as_str(), sequence);
    }

    async fn kept_artifacts(&self) -> usize {
        self.0.kept_artifacts()
    }
}
