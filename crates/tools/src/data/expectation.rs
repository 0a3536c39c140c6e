//! What a database expects of a statement, in words for the person who is asked about it. The statement
//! is not run for that, and a database that says nothing keeps nobody from answering.

use std::{fmt::Write as _, time::Duration};

use haft_contract::{
    context::PreviewContext,
    ops::{DatabaseQuery, StatementEstimate},
    preview::PreviewPart,
};

use super::database_query::counted;

/// How long a database is asked. A person waits meanwhile.
const EXPECTATION_WAIT: Duration = Duration::from_secs(3);

/// The most tables that are named.
const MAX_TABLES: usize = 5;

/// A statement that a person is asked about.
pub(super) struct AskedStatement<'a> {
    pub(super) source: &'a str,
    pub(super) statement: &'a str,
    pub(super) parameters: &'a [serde_json::Value],
    /// How many rows it must change, if it changes any.
    pub(super) expect_rows: Option<u64>,
    pub(super) writes: bool,
    /// The functions it calls that the operator lists.
    pub(super) functions: &'a [String],
}

/// Asks the database, and says what it expects.
pub(super) async fn expectation(asked: AskedStatement<'_>, cx: &PreviewContext) -> PreviewPart {
    let query = DatabaseQuery {
        source: asked.source,
        statement: asked.statement,
        parameters: asked.parameters,
        writes: false,
        expect_rows: None,
        within: EXPECTATION_WAIT,
        cancel: &cx.cancel,
    };
    let mut not_kept = None;
    let mut text = if let Some(function) = asked.functions.first() {
        format!(
            "the database was not asked what it expects: that may already run `{function}`, which the \
             statement calls"
        )
    } else {
        match cx.databases.explain(query).await {
            Ok(estimate) => {
                not_kept.clone_from(&estimate.not_kept);
                words(&estimate, asked.writes)
            }
            Err(error) => format!(
                "the database did not say what it expects: {}",
                error.message()
            ),
        }
    };
    if let (true, Some(rows)) = (asked.writes, asked.expect_rows) {
        let _ = write!(
            text,
            "; unless it changes exactly {}, it changes nothing",
            counted(rows)
        );
    }
    if let (true, Some(why)) = (asked.writes, not_kept) {
        let _ = write!(text, "; it cannot be undone: {why}");
    }
    PreviewPart::Note(text)
}

fn words(estimate: &StatementEstimate, writes: bool) -> String {
    let mut text = match (estimate.rows, writes) {
        (Some(rows), true) => format!("the database expects to change {}", about(rows)),
        (Some(rows), false) => format!("the database expects to find {}", about(rows)),
        (None, _) => "the database does not say how many rows it expects".to_owned(),
    };
    let mut scans: Vec<_> = estimate.scans.iter().collect();
    // The largest first, and before them those of which nobody knows how large they are.
    scans.sort_by_key(|scan| std::cmp::Reverse(scan.rows.unwrap_or(u64::MAX)));
    let named = scans.iter().take(MAX_TABLES).map(|scan| match scan.rows {
        Some(rows) => format!("`{}` ({})", scan.table, about(rows)),
        None => format!("`{}`", scan.table),
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        text.push_str(", and to read no table as a whole");
    } else {
        let _ = write!(text, ", and to read the whole of {}", named.join(", "));
        let more = scans.len() - named.len();
        if more > 0 {
            let _ = write!(text, " and {more} more tables");
        }
    }
    text
}

/// A number in two digits. An approval binds what is shown, and the same question a moment later should
/// not be another one because a few rows came.
fn about(rows: u64) -> String {
    let mut unit = 1;
    while rows / unit >= 100 {
        unit *= 10;
    }
    match rows {
        1 => "about 1 row".to_owned(),
        _ => format!("about {} rows", rows / unit * unit),
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::ops::TableScan;

    use super::*;

    #[test]
    fn an_estimate_is_a_sentence() {
        let scan = |table: &str, rows| TableScan {
            table: table.to_owned(),
            rows,
        };
        let mut estimate = StatementEstimate {
            rows: Some(12_345),
            scans: vec![scan("a", Some(1)), scan("b", None), scan("c", Some(999))],
            ..StatementEstimate::default()
        };
        assert_eq!(
            words(&estimate, true),
            "the database expects to change about 12000 rows, and to read the whole of `b`, `c` \
             (about 990 rows), `a` (about 1 row)"
        );
        estimate.scans = (0..7)
            .map(|i| scan(&format!("t{i}"), Some(7 - i)))
            .collect();
        assert!(words(&estimate, false).ends_with("`t4` (about 3 rows) and 2 more tables"));
        assert_eq!(
            words(&StatementEstimate::default(), false),
            "the database does not say how many rows it expects, and to read no table as a whole"
        );
    }

    #[test]
    fn a_few_rows_more_are_the_same_number() {
        for (rows, text) in [
            (0, "about 0 rows"),
            (99, "about 99 rows"),
            (100, "about 100 rows"),
            (1_049, "about 1000 rows"),
            (u64::MAX, "about 18000000000000000000 rows"),
        ] {
            assert_eq!(about(rows), text);
        }
    }
}
