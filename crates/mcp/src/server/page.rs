//! Lists in pages. A cursor names the last entry of the page before it, so that a list that changes
//! between two pages neither repeats nor skips what stayed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rmcp::{ErrorData, model::PaginatedRequestParams};

/// How long a client may treat a list as fresh. Changes are announced, so this only matters for
/// clients that do not listen.
pub(super) const FRESH_MS: u64 = 60_000;

/// The longest cursor that is read, in bytes; those made here are far shorter.
const MAX_CURSOR_BYTES: usize = 8 * 1024;

/// A page of entries sorted by key, and the cursor of the next page.
pub(super) fn page<T, K: AsRef<str>>(
    entries: Vec<T>,
    key: impl Fn(&T) -> K,
    request: Option<&PaginatedRequestParams>,
    size: usize,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let cursor = request.and_then(|request| request.cursor.as_deref());
    let after = cursor.map(read).transpose()?;
    let mut left: Vec<T> = match &after {
        None => entries,
        Some(after) => {
            let behind = |entry: &T| key(entry).as_ref() > after.as_str();
            entries.into_iter().filter(behind).collect()
        }
    };
    let more = left.len() > size;
    left.truncate(size);
    let next = left
        .last()
        .filter(|_| more)
        .map(|last| write(key(last).as_ref()));
    Ok((left, next))
}

fn write(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(last)
}

fn read(cursor: &str) -> Result<String, ErrorData> {
    let bytes = (cursor.len() <= MAX_CURSOR_BYTES)
        .then(|| URL_SAFE_NO_PAD.decode(cursor).ok())
        .flatten();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| {
            ErrorData::invalid_params(
                "the cursor is not one of this list; leave it out to begin again",
                None,
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_pages(mut entries: Vec<&'static str>, size: usize) -> Vec<Vec<&'static str>> {
        entries.sort_unstable();
        let mut pages = Vec::new();
        let mut cursor = None;
        loop {
            let request = PaginatedRequestParams::default().with_cursor(cursor);
            let (found, next) =
                page(entries.clone(), |entry| *entry, Some(&request), size).unwrap();
            pages.push(found);
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn pages_hold_everything_once_and_in_order() {
        assert_eq!(
            all_pages(vec!["c", "a", "e", "b", "d"], 2),
            [vec!["a", "b"], vec!["c", "d"], vec!["e"]]
        );
        assert_eq!(all_pages(vec!["a", "b"], 2), [vec!["a", "b"]]);
        assert_eq!(all_pages(vec![], 2), [Vec::<&str>::new()]);
    }

    #[test]
    fn a_cursor_of_somebody_elses_is_an_error() {
        for cursor in ["%%%", "_w", &"a".repeat(MAX_CURSOR_BYTES + 1)] {
            let request = PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned()));
            assert!(page(vec!["a"], |entry| *entry, Some(&request), 2).is_err());
        }
    }
}
