//! Full text: words of settled calls, split here and not by the server, so that a word is the same on
//! every server whatever its language.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{search_words::tenant_token, store::TextSearch};

/// A longer word is found by its beginning. The server refuses words of two kilobytes.
const MAX_WORD_BYTES: usize = 256;

pub(super) const INDEX: &str = "INSERT INTO call_text (listed, tenant, words)
    SELECT call.listed, tenant.id, array_to_tsvector(string_to_array(call.words, ' '))
    FROM unnest(?1::bigint[], ?2::text[]) AS call (listed, words), tenant WHERE tenant.name = ?3";

pub(super) const FIND: &str =
    "SELECT listed FROM find_text(?1::text::tsquery, ?2, ?3, true, ?4) AS listed";

pub(super) const FIND_NEXT: &str =
    "SELECT listed FROM find_text(?1::text::tsquery, ?2, ?3, false, ?4) AS listed";

/// The words of a text, each once, with its tenant as one of them.
pub(super) fn words(tenant: &str, text: &str) -> String {
    let mut words: BTreeSet<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(word)
        .collect();
    words.insert(tenant_token(tenant));
    let words: Vec<String> = words.into_iter().collect();
    words.join(" ")
}

/// Matches every word, as a prefix, in this tenant's calls. A word has letters and digits only, so that
/// quotes cannot end early.
pub(super) fn query(search: &TextSearch<'_>) -> String {
    let mut query = format!("'{}'", tenant_token(search.tenant));
    for searched in search.words {
        // Writing to a `String` cannot fail.
        let _ = write!(query, " & '{}':*", word(searched));
    }
    query
}

fn word(word: &str) -> String {
    let mut word = word.to_lowercase();
    word.truncate(word.floor_char_boundary(MAX_WORD_BYTES));
    word
}
