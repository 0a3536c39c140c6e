//! Pages of a list: how many entries, and where the next page begins.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    limits::{MAX_PAGE, PAGE},
    problem::{Problem, ProblemKind},
};

/// Which page of a list.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// How many entries at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T: ToSchema> {
    /// The entries.
    pub(crate) items: Vec<T>,
    /// The cursor of the next page, if there may be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl PageQuery {
    pub(crate) fn of(limit: Option<usize>, cursor: Option<String>) -> Self {
        Self { limit, cursor }
    }

    pub(crate) fn parts(self) -> (Option<usize>, Option<String>) {
        (self.limit, self.cursor)
    }

    /// How many entries.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(PAGE);
        if (1..=MAX_PAGE).contains(&limit) {
            return Ok(limit);
        }
        Err(Problem::new(
            ProblemKind::BadRequest,
            format!("`limit` is from 1 to {MAX_PAGE}"),
        ))
    }

    /// The position before which the page lies.
    pub(crate) fn before(&self) -> Result<Option<u64>, Problem> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let position = cursor.parse().map_err(|_| {
            Problem::new(ProblemKind::BadRequest, "`cursor` is none of a page before")
                .hint("send `next` of the page before as it was")
        })?;
        Ok(Some(position))
    }
}

impl<T: ToSchema> Page<T> {
    /// A list that has only one page.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
