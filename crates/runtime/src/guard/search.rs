//! Guarded search: only planned trees, without the paths this principal may not read.

use haft_contract::{
    BoxFuture, WorkPath,
    ops::{FindQuery, FindResults, GrepQuery, GrepResults, OpsError, SearchOps},
};

use super::Guard;

impl SearchOps for Guard {
    fn grep<'a>(&'a self, query: GrepQuery<'a>) -> BoxFuture<'a, Result<GrepResults, OpsError>> {
        Box::pin(async move {
            let path = self.readable(query.path)?;
            let query = GrepQuery {
                path: &path,
                withheld: &self.withheld,
                ..query
            };
            self.operations().search.grep(query).await
        })
    }

    fn find<'a>(&'a self, query: FindQuery<'a>) -> BoxFuture<'a, Result<FindResults, OpsError>> {
        Box::pin(async move {
            let path = self.readable(query.path)?;
            let query = FindQuery {
                path: &path,
                withheld: &self.withheld,
                ..query
            };
            self.operations().search.find(query).await
        })
    }

    fn withholds(&self, withheld: &[String], path: &WorkPath) -> Result<bool, OpsError> {
        self.operations().search.withholds(withheld, path)
    }
}
