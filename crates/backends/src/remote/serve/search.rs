//! Answers to searches, from the local back end.

use haft_contract::ops::{FindQuery, GrepQuery, OpsError, SearchOps};

use super::exchange::Exchange;
use crate::remote::{
    convert::{path, size},
    wire::{self, Reply},
};

pub(super) async fn grep(
    search: &dyn SearchOps,
    exchange: &Exchange,
    grep: wire::Grep,
) -> Result<Reply, OpsError> {
    let query = GrepQuery {
        pattern: &grep.pattern,
        path: &path(&grep.path)?,
        glob: grep.glob.as_deref(),
        file_type: grep.file_type.as_deref(),
        mode: grep.mode.into(),
        before: size(grep.before),
        after: size(grep.after),
        ignore_case: grep.ignore_case,
        fixed: grep.fixed,
        multiline: grep.multiline,
        limit: size(grep.limit),
        offset: size(grep.offset),
        max_line_bytes: size(grep.max_line_bytes),
        withheld: &grep.withheld,
        found: None,
        cancel: &exchange.cancel,
    };
    let results = search.grep(query).await?;
    exchange
        .send_json(&wire::GrepResults::from(results))
        .await?;
    Ok(Reply::Done)
}

pub(super) async fn find(
    search: &dyn SearchOps,
    exchange: &Exchange,
    find: wire::Find,
) -> Result<Reply, OpsError> {
    let query = FindQuery {
        pattern: &find.pattern,
        path: &path(&find.path)?,
        kind: find.kind.map(Into::into),
        sort: find.sort.into(),
        respect_ignores: find.respect_ignores,
        limit: size(find.limit),
        offset: size(find.offset),
        withheld: &find.withheld,
        found: None,
        cancel: &exchange.cancel,
    };
    let results = search.find(query).await?;
    exchange
        .send_json(&wire::FindResults::from(results))
        .await?;
    Ok(Reply::Done)
}
