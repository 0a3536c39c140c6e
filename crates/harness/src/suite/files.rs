//! What every `FileOps` must do. The rules are in `docs/spec/backend.md`; the suite is
//! `file_suite!`.

mod change;
mod copy;
mod inspect;
mod reach;
mod write;

pub use change::*;
pub use copy::*;
pub use inspect::*;
pub use reach::*;
pub use write::*;

super::suite! { $
    /// One test per case of the file suite, for a [`BackendFixture`](crate::suite::fixture::BackendFixture).
    file_suite, files:
    resolve_follows_links_beneath_the_root,
    resolve_knows_the_root,
    resolve_keeps_the_rest_of_a_missing_path,
    resolve_refuses_a_link_that_leaves,
    resolve_refuses_a_dangling_link_that_leaves,
    resolve_never_answers_with_a_link,
    resolve_refuses_too_many_links,
    no_operation_crosses_a_link,
    no_operation_opens_a_final_link,
    nothing_outside_is_touched,
    special_files_are_refused_at_once,
    odd_names_are_plain_names,
    stat_tells_kind_size_and_mode,
    stat_does_not_follow_a_final_link,
    reads_are_ranged,
    a_reader_keeps_the_file_it_opened,
    missing_things_are_not_found,
    a_directory_is_no_file,
    a_file_is_no_directory,
    list_is_sorted_and_typed,
    list_goes_to_its_depth,
    list_stops_at_its_limit_and_counts_the_rest,
    list_leaves_out_what_is_ignored_or_withheld,
    list_shows_links_without_following_them,
    list_can_be_cancelled,
    a_write_reports_what_it_did,
    a_write_creates_missing_parents,
    a_write_is_all_or_nothing,
    a_write_leaves_no_other_file,
    a_write_keeps_the_mode_without_set_id,
    a_write_can_say_the_mode,
    a_write_expecting_a_version_refuses_another,
    a_write_expecting_nothing_refuses_a_file,
    every_change_has_its_own_version,
    append_adds_and_creates,
    make_dir_makes_parents_and_repeats,
    make_dir_refuses_a_file,
    remove_takes_one_file,
    remove_takes_a_tree_only_when_told,
    remove_never_follows_a_link,
    remove_refuses_the_root,
    rename_moves_files_and_directories,
    rename_obeys_overwrite,
    rename_refuses_a_place_beneath_itself,
    copy_is_complete_and_keeps_the_mode,
    copy_onto_itself_is_an_error,
    copy_obeys_overwrite,
    copy_never_truncates_first,
    a_cancelled_copy_leaves_the_destination,
    copy_reports_progress_upward,
}
