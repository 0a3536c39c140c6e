//! Search over a local workspace, with ripgrep's libraries in this process.
//!
//! Files are opened through the jail, and nothing a model writes is ever a flag of another program.
//! Hidden files are searched like others; `.git` and what ignore files leave out are not. Results
//! are bounded while they are collected, so a pattern that matches everything costs no more memory
//! than the requested page.

mod find;
mod grep;
mod hits;
mod lines;

use std::sync::Arc;

use haft_contract::{
    WorkPath,
    future::BoxFuture,
    ops::{FindQuery, FindResults, FindSort, GrepQuery, GrepResults, OpsError, SearchOps},
};
use haft_sandbox::{jail::Jail, pool::blocking};

use self::{find::FindJob, grep::GrepJob};
use super::walk::{Globs, Ignores};

/// Search over a local workspace.
#[derive(Debug)]
pub(crate) struct LocalSearch {
    jail: Arc<Jail>,
}

impl LocalSearch {
    pub(crate) fn new(jail: Arc<Jail>) -> Self {
        Self { jail }
    }
}

impl SearchOps for LocalSearch {
    fn grep<'a>(&'a self, query: GrepQuery<'a>) -> BoxFuture<'a, Result<GrepResults, OpsError>> {
        Box::pin(async move {
            // Cancelled with the caller's token, and also when the caller stops waiting.
            let stop = query.cancel.child_token();
            let _stop_when_dropped = stop.clone().drop_guard();
            let job = GrepJob::new(&query, stop)?;
            let jail = Arc::clone(&self.jail);
            let results = blocking(move || job.run(&jail)).await?;
            if query.offset > 0 {
                query.tell_page(&results);
            }
            Ok(results)
        })
    }

    fn find<'a>(&'a self, query: FindQuery<'a>) -> BoxFuture<'a, Result<FindResults, OpsError>> {
        Box::pin(async move {
            let stop = query.cancel.child_token();
            let _stop_when_dropped = stop.clone().drop_guard();
            let job = FindJob::new(&query, stop)?;
            let jail = Arc::clone(&self.jail);
            let results = blocking(move || job.run(&jail)).await?;
            if query.offset > 0 || query.sort != FindSort::Path {
                query.tell_page(&results);
            }
            Ok(results)
        })
    }

    fn withholds(&self, withheld: &[String], path: &WorkPath) -> Result<bool, OpsError> {
        withholds(withheld, path)
    }
}

/// Whether these patterns withhold a path, or a directory above it. Looks only at names, so it
/// works for a workspace anywhere.
pub(crate) fn withholds(withheld: &[String], path: &WorkPath) -> Result<bool, OpsError> {
    let globs = Globs::new(withheld, Ignores::Respect)?;
    Ok(path
        .ancestors()
        .any(|path| globs.withholds(path.as_bytes())))
}
