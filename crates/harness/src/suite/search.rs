//! What every `SearchOps` must do. The rules are in `docs/spec/backend.md`; the suite is
//! `search_suite!`.

mod find;
mod grep;

pub use find::*;
pub use grep::*;

super::suite! { $
    /// One test per case of the search suite, for a [`BackendFixture`](crate::suite::fixture::BackendFixture).
    search_suite, search:
    grep_tells_path_line_and_text,
    grep_is_ordered_by_path_then_line,
    grep_stops_at_its_limit_and_says_so,
    grep_passes_over_its_offset,
    grep_shows_context_once,
    grep_counts_and_names_files,
    grep_takes_fixed_text_literally,
    grep_ignores_case_when_asked,
    grep_spans_lines_when_asked,
    grep_cuts_long_lines_and_counts_the_rest,
    grep_keeps_to_its_glob_and_type,
    grep_searches_one_file_or_one_folder,
    grep_respects_ignores,
    grep_withholds_what_may_not_be_read,
    grep_never_leaves_the_workspace,
    grep_refuses_a_bad_pattern,
    grep_refuses_a_pattern_that_is_too_large,
    grep_takes_no_text_for_a_flag,
    grep_survives_bytes_that_are_no_text,
    grep_tells_what_it_finds,
    grep_can_be_cancelled,
    find_matches_root_files_with_a_leading_star,
    find_matches_names_at_any_depth_without_a_slash,
    find_matches_below_its_path,
    find_filters_by_kind,
    find_sorts_as_asked,
    find_pages_and_tells_the_total,
    find_respects_ignores,
    find_withholds_what_may_not_be_read,
    find_ends_in_a_circle_of_links,
    find_never_leaves_the_workspace,
    find_refuses_a_bad_pattern,
    find_needs_a_directory_that_is_there,
    find_can_be_cancelled,
}
