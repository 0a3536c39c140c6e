//! Takes a script's own secrets out of what it prints, before the model or the record see any of it, and
//! a provider's key out of what it answers.
//!
//! This is against accidents (a debug line, an error that quotes a request). A script that is set on
//! telling its secret can spell it in a way nobody knows; that is why scripts are trusted by hash and
//! reach only the hosts they name.

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::secret::{MIN_SECRET_BYTES, REDACTED, Secret};
use serde_json::{Map, Value};

/// The spellings of secrets that are recognized: as they are, in hexadecimal, percent-encoded, and
/// each as JSON escapes it.
#[derive(Debug, Default)]
pub(crate) struct SecretForms {
    /// Longest first, so that a secret that contains another leaves nothing behind.
    forms: Vec<Vec<u8>>,
}

impl SecretForms {
    /// The spellings of these secrets.
    pub(crate) fn of<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let plain = secrets.into_iter().flat_map(Secret::forms);
        let all = plain.flat_map(|form| [escaped(&form), form]);
        let different: BTreeSet<Vec<u8>> = all.map(String::into_bytes).collect();
        let mut forms: Vec<Vec<u8>> = different.into_iter().collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self { forms }
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.forms.is_empty() {
            return text.to_owned();
        }
        let (clean, _) = self.clean(text.as_bytes(), More::Nothing);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Takes secrets out of every string and every name of a value.
    pub(crate) fn value(&self, value: &mut Value) {
        if self.forms.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                let cleaned = std::mem::take(fields).into_iter().map(|(name, mut field)| {
                    self.value(&mut field);
                    (self.text(&name), field)
                });
                *fields = cleaned.collect::<Map<_, _>>();
            }
            Value::Number(number) => {
                if self
                    .forms
                    .iter()
                    .any(|form| form == number.to_string().as_bytes())
                {
                    *value = Value::from(REDACTED);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Bytes without secrets, and how many of them were looked at: if more may follow, the end is
    /// left where it could be the beginning of a secret.
    fn clean(&self, bytes: &[u8], more: More) -> (Vec<u8>, usize) {
        let mut clean = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let begins = |form: &Vec<u8>| form.len() > rest.len() && form.starts_with(rest);
            let begun = self.forms.iter().any(begins);
            if begun && more == More::MayFollow {
                break;
            }
            let whole = self.forms.iter().find(|form| rest.starts_with(form));
            // Most of a secret that was cut off is still a secret.
            let length = match whole {
                Some(form) => form.len(),
                None if begun && rest.len() >= MIN_SECRET_BYTES => rest.len(),
                None => {
                    clean.extend(rest.first());
                    at += 1;
                    continue;
                }
            };
            clean.extend_from_slice(REDACTED.as_bytes());
            at += length;
        }
        (clean, at)
    }
}

/// Whether more bytes may follow those at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    MayFollow,
    Nothing,
}

/// A text as it is written inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inside = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inside.unwrap_or(text).to_owned()
}

/// Takes secrets out of one stream, however it is cut into chunks. It never holds more than the
/// longest spelling of a secret.
#[derive(Debug)]
pub(super) struct SecretFilter {
    forms: Arc<SecretForms>,
    held: Vec<u8>,
}

impl SecretFilter {
    /// A filter for these secrets.
    pub(super) fn new(forms: Arc<SecretForms>) -> Self {
        Self {
            forms,
            held: Vec::new(),
        }
    }

    /// What can be passed on now.
    pub(super) fn take(&mut self, chunk: Vec<u8>) -> Vec<u8> {
        if self.forms.forms.is_empty() {
            return chunk;
        }
        self.held.extend(chunk);
        let (clean, looked_at) = self.forms.clean(&self.held, More::MayFollow);
        self.held.drain(..looked_at);
        clean
    }

    /// What was held back, when nothing more comes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.forms.clean(&held, More::Nothing).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(secrets: &[&str]) -> Arc<SecretForms> {
        let secrets: Vec<Secret> = secrets
            .iter()
            .filter_map(|text| Secret::new(*text))
            .collect();
        Arc::new(SecretForms::of(&secrets))
    }

    /// The text, cut into chunks of each size, always becomes the same.
    fn check(secrets: &[&str], text: &str, expect: &str) {
        let forms = forms(secrets);
        for size in 1..=text.len() {
            let mut filter = SecretFilter::new(Arc::clone(&forms));
            let mut clean = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                clean.extend(filter.take(chunk.to_vec()));
            }
            clean.extend(filter.finish());
            assert_eq!(
                String::from_utf8(clean).unwrap(),
                expect,
                "chunks of {size}"
            );
        }
    }

    #[test]
    fn r8_a_secret_is_found_however_the_output_is_cut() {
        check(
            &["hunter2hunter3"],
            "key=hunter2hunter3;",
            "key=[redacted];",
        );
        check(
            &["hunter2hunter3"],
            "hunter2hunter2hunter3",
            "hunter2[redacted]",
        );
        check(
            &["hunter2hunter3"],
            "hunter2 and hunter",
            "hunter2 and [redacted]",
        );
        check(&["hunter2hunter3"], "a hunt", "a hunt");
        check(
            &["abcdef", "abcdefghij"],
            "abcdefghij abcdef",
            "[redacted] [redacted]",
        );
        check(&[], "anything", "anything");
    }

    #[test]
    fn r8_a_secret_is_found_in_its_other_spellings() {
        check(
            &["p\"ss wörd"],
            r#"{"a":"p\"ss wörd"} p%22ss%20w%C3%B6rd 702273732077c3b67264"#,
            r#"{"a":"[redacted]"} [redacted] [redacted]"#,
        );
    }

    #[test]
    fn r8_a_secret_is_found_in_every_part_of_a_value() {
        let mut value = serde_json::json!({"k 123456": ["123456", 123_456, {"b": true}]});
        forms(&["123456"]).value(&mut value);
        let expect = serde_json::json!({"k [redacted]": ["[redacted]", "[redacted]", {"b": true}]});
        assert_eq!(value, expect);
    }
}
