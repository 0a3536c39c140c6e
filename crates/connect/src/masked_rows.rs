//! Masks columns of rows on their way to whoever asked, whatever database they come from.

use haft_contract::{
    BoxFuture,
    ops::{KeepRows, TakeRows, WantedRows},
};
use serde_json::Value;

use crate::sql::MaskedResult;

/// What stands for every masked value, for one that is null too: whether there is a value is one thing
/// more to know, and equal values are not to be told from others.
pub const MASKED_VALUE: &str = "[masked]";

/// Takes rows for somebody who must not see some columns.
pub(crate) struct MaskedRows<'r> {
    rows: &'r mut dyn TakeRows,
    masked: MaskedResult,
    /// Of each column, whether it is masked; none until the columns are known.
    places: Option<Vec<bool>>,
}

impl<'r> MaskedRows<'r> {
    pub(crate) fn new(rows: &'r mut dyn TakeRows, masked: MaskedResult) -> Self {
        Self {
            rows,
            masked,
            places: None,
        }
    }
}

impl TakeRows for MaskedRows<'_> {
    fn columns(&mut self, names: &[String]) {
        if self.masked.is_some() {
            self.places = Some(self.masked.places(names));
        }
        self.rows.columns(names);
    }

    fn rows(&mut self, mut rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        if self.masked.is_some() {
            for row in &mut rows {
                for (place, value) in row.iter_mut().enumerate() {
                    let places = self.places.as_ref();
                    let masked = places.and_then(|places| places.get(place));
                    // What nothing is known of is masked.
                    if masked.copied().unwrap_or(true) {
                        *value = Value::String(MASKED_VALUE.to_owned());
                    }
                }
            }
        }
        self.rows.rows(rows)
    }

    fn keeper(&mut self) -> Option<&mut dyn KeepRows> {
        self.rows.keeper()
    }
}
