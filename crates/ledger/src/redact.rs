//! Removes secrets from what is stored: values the host names, and the shapes of common tokens.
//!
//! Works on the strings inside a body before it is written, so that escapes in the stored form
//! cannot hide a secret. It never touches what a model reads or edits.

mod disguised;

use std::{
    borrow::Cow,
    sync::{OnceLock, RwLock},
};

pub use haft_contract::secret::{MIN_SECRET_BYTES, REDACTED};
use haft_contract::{
    secret::Secret,
    url_secrets::{may_have_url_secrets, without_url_secrets},
};
use regex::{Regex, RegexSet};
use serde_json::Value;

/// The most exact values one ledger redacts.
pub const MAX_SECRETS: usize = 1_024;

/// Field names that mark their content as a secret. Compared in lower case without `_` and `-`.
const SECRET_FIELDS: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "clientsecret",
    "token",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "apikey",
    "privatekey",
    "secretaccesskey",
    "authorization",
    "cookie",
    "setcookie",
];

/// A name that announces a secret, with the separator (`DB_PASSWORD=`, `"api_key": `, `--token `),
/// and how the secret begins.
macro_rules! named {
    ($value:literal) => {
        concat!(
            r#"(?P<keep>(?:(?i-u:password|passwd|passphrase|secret|token|api[_-]?key)\\?["']?"#,
            r#"\s{0,4}[:=]\s{0,4}|--[A-Za-z0-9-]{0,40}(?i-u:password|passwd|passphrase|secret|token|"#,
            r#"api-key)\s{1,4})"#,
            $value
        )
    };
}

/// Shapes of secrets. The groups `keep` and `after`, if present, are kept around the mark.
///
/// Only words ignore case: folding the case of a class such as `[^"]` covers all of Unicode, and
/// took half of a program's startup time.
const PATTERNS: [&str; 27] = [
    // PEM private keys, complete or truncated.
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\z)",
    r"\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{16}\b",
    r#"(?P<keep>(?i-u:aws_secret_access_key)["']?\s*[:=]\s*["']?)[A-Za-z0-9/+=]{40}"#,
    r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b",
    r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
    r"\bglpat-[A-Za-z0-9_-]{20,64}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}",
    r"\bsk-[A-Za-z0-9_-]{16,250}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"(?P<keep>\b(?i-u:authorization)[^A-Za-z0-9_]{1,5}(?i-u:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{6,}",
    // A quoted value extends to its closing quote, or without one to the end of its line. Double
    // quotes, single quotes, and double quotes inside quoted text.
    named!(r#"")(?:(?:[^"\\]|\\[\s\S])+(?P<after>")|[^"\n]+)"#),
    named!(r"')(?:[^']+(?P<after>')|[^'\n]+)"),
    named!(r#"\\")(?:(?:[^"\\]|\\\\\\"|\\[^"])+(?P<after>\\")|[^"\n]+)"#),
    // An unquoted value.
    r#"(?P<keep>(?i-u:password|passwd|passphrase|secret|token|api[_-]?key)\\?["']?\s{0,4}[:=]\s{0,4})(?:[^\s"'&;,\\\[\]{}]|\\ ){4,}"#,
    r#"(?P<keep>--[A-Za-z0-9-]{0,40}(?i-u:password|passwd|passphrase|secret|token|api-key)\s{1,4})[^\s"'&;,\\\[\]{}-](?:[^\s"'&;,\\\[\]{}]|\\ ){3,}"#,
    // `mysql -psecret`, `sshpass -p secret`: elsewhere `-p` is a port or a path.
    r#"(?P<keep>\b(?:(?:mysql|mariadb)[a-z-]{0,20}\b[^\n|;&]*?\s-p|sshpass\s+-p\s*))(?:'[^']+'|"[^"]+"|[^\s"'\[-][^\s"']*)"#,
    r#"(?P<keep>\bcurl\b[^\n|;&]*?\s(?:-u|--user)[\s=]{0,4}["']?[^\s:"']{1,128}:)[^\s"'\[]+"#,
    // Tokens with a well-known prefix.
    concat!(
        r"\b(?:[spr]k_(?:live|test)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,250}|npm_[A-Za-z0-9]{36}\b|",
        r"hf_[A-Za-z0-9]{30,250}|d(?:op|oo|or)_v1_[a-f0-9]{64}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}|",
        r"gl(?:sa|c)_[A-Za-z0-9_=]{32,250}|figd_[A-Za-z0-9_-]{30,250}|lin_api_[A-Za-z0-9]{32,250}|",
        r"ntn_[A-Za-z0-9]{40,250}|sntry[su]_[A-Za-z0-9_=/+-]{40,250}|pscale_(?:tkn|pw)_[A-Za-z0-9._-]{32,250}|",
        r"sbp_[a-f0-9]{40}|rubygems_[a-f0-9]{48}|dckr_pat_[A-Za-z0-9_-]{20,250}|gsk_[A-Za-z0-9]{40,250}|",
        r"r8_[A-Za-z0-9]{37}|xai-[A-Za-z0-9]{40,250}|pplx-[A-Za-z0-9]{40,250}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|",
        r"NRAK-[A-Z0-9]{27}|ATATT3[A-Za-z0-9_=-]{50,250}|ATBB[A-Za-z0-9]{28,250}|dapi[a-f0-9]{32}|",
        r"tskey-(?:auth|api|client)-[A-Za-z0-9-]{16,250}|GOCSPX-[A-Za-z0-9_-]{20,250}|ya29\.[A-Za-z0-9_-]{20,250}|",
        r"dp\.(?:pt|st|ct)\.[A-Za-z0-9]{40,250}|hv[sbr]\.[A-Za-z0-9_-]{24,250}|",
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}|AGE-SECRET-KEY-1[A-Z0-9]{50,100}|",
        r"pypi-[A-Za-z0-9_-]{50,250}|SK[a-f0-9]{32}\b|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,250})",
    ),
    r"(?P<keep>hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9/_-]{20,250}",
    r"(?P<keep>discord(?:app)?\.com/api/webhooks/[0-9]{15,22}/)[A-Za-z0-9_-]{40,250}",
    // Telegram and Discord bots.
    r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,35}",
    r"\b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}\b",
    r"(?P<keep>\b(?:AccountKey|SharedAccessKey|sig)=)[A-Za-z0-9+/%=]{40,250}",
    r#"(?P<keep>\b(?i-u:set-cookie|cookie)["']?\s{0,2}:\s{0,4}["']?)[^\s"'\[][^\r\n"']{4,}"#,
    // A private key in base64: its first line names the type.
    r"LS0tLS1CRUdJTiB(?:QUklWQVRF|SU0EgUFJJVk|FQyBQUklWQVR|PUEVOU1NIIFB|EU0EgUFJJVk|FTkNSWVBURUQg|QR1AgUFJJVk)[A-Za-z0-9+/=]*",
    // `scheme://user:secret@host`.
    r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,128}:)[^\s/@]{1,256}(?P<after>@)",
];

/// A word or mark from each of [`PATTERNS`]: a text without any of these cannot match a pattern.
/// Checking for them takes a fraction of the time of the patterns, and most text has none.
const HINTS: &str = concat!(
    "-----BEGIN |AKIA|ASIA|AGPA|AROA|AIDA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-|AIza|eyJ|",
    "(?i-u:authorization|password|passwd|passphrase|secret|token|api[_-]?key)|",
    "mysql|mariadb|sshpass|curl|://|",
    "[spr]k_(?:live|test)_|whsec_|npm_|hf_|_v1_|shp[a-z]{2}_|gl(?:sa|c)_|figd_|lin_api_|ntn_|sntry|pscale_|sbp_|",
    "rubygems_|dckr_|gsk_|r8_|xai-|pplx-|PMAK-|NRAK-|ATATT3|ATBB|dapi|tskey-|GOCSPX-|ya29|dp\\.[psc]t|hv[sbr]\\.|",
    "SG\\.|AGE-SECRET|pypi-|SK[a-f0-9]{8}|atlasv1|slack\\.com|discord|:AA|[MNO][A-Za-z0-9_-]{22,28}\\.|",
    "AccountKey|SharedAccessKey|sig=|(?i-u:cookie)|LS0tLS1",
);

/// Finds, in JSON, the names of [`SECRET_FIELDS`] however they are spelt, and characters that were
/// escaped though they need not be, behind which anything can hide.
const HINTS_IN_JSON: &str = concat!(
    r"(?i-u:p[_-]*a[_-]*s[_-]*s[_-]*(?:w[_-]*(?:o[_-]*r[_-]*)?d|p[_-]*h[_-]*r[_-]*a[_-]*s[_-]*e)|",
    r"s[_-]*e[_-]*c[_-]*r[_-]*e[_-]*t|t[_-]*o[_-]*k[_-]*e[_-]*n|a[_-]*p[_-]*i[_-]*k[_-]*e[_-]*y|",
    r"p[_-]*r[_-]*i[_-]*v[_-]*a[_-]*t[_-]*e[_-]*k[_-]*e[_-]*y|c[_-]*o[_-]*o[_-]*k[_-]*i[_-]*e|",
    r"a[_-]*u[_-]*t[_-]*h[_-]*o[_-]*r[_-]*i[_-]*z[_-]*a[_-]*t[_-]*i[_-]*o[_-]*n)|",
    r"\\u00[2-7]|",
);

/// The shortest text that a pattern can match, such as `a1://:x@`.
const MIN_PATTERN_BYTES: usize = 8;

/// Finds secrets and blanks them out.
#[derive(Debug)]
pub struct Redactor {
    /// [`HINTS`]. Compiled on first use, like the patterns, so that startup does not wait for it.
    hints: OnceLock<Option<Regex>>,
    /// All patterns at once.
    any: OnceLock<RegexSet>,
    /// Each pattern separately, compiled when it first matches: most never do.
    patterns: [OnceLock<Option<Regex>>; PATTERNS.len()],
    /// [`HINTS_IN_JSON`] and [`HINTS`], for encoded bodies.
    hints_in_json: OnceLock<Option<regex::bytes::Regex>>,
    exact: RwLock<Vec<String>>,
    /// The exact values as they are written inside a JSON string.
    exact_in_json: RwLock<Vec<String>>,
}

impl Redactor {
    /// Redacts the common shapes and these exact values.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let redactor = Self {
            hints: OnceLock::new(),
            any: OnceLock::new(),
            patterns: [const { OnceLock::new() }; PATTERNS.len()],
            hints_in_json: OnceLock::new(),
            exact: RwLock::new(Vec::new()),
            exact_in_json: RwLock::new(Vec::new()),
        };
        for secret in secrets {
            redactor.add(&secret);
        }
        redactor
    }

    /// Adds an exact value, such as one a vault has just handed out. Its hexadecimal and
    /// percent-encoded forms are redacted too. Returns whether it is redacted: values shorter
    /// than [`MIN_SECRET_BYTES`] or beyond [`MAX_SECRETS`] are not.
    pub fn add(&self, secret: &str) -> bool {
        let Ok(mut exact) = self.exact.write() else {
            return false;
        };
        let Some(secret) = Secret::new(secret) else {
            return false;
        };
        let forms = secret.forms();
        if forms.iter().all(|form| exact.contains(form)) {
            return true;
        }
        if exact.len() >= MAX_SECRETS * 3 {
            return false;
        }
        for form in forms {
            if !exact.contains(&form) {
                exact.push(form);
            }
        }
        if let Ok(mut written) = self.exact_in_json.write() {
            written.clear();
            written.extend(exact.iter().map(|form| in_json(form)));
        }
        // Longest first, so that a secret that contains another leaves nothing behind.
        exact.sort_by_key(|form| std::cmp::Reverse(form.len()));
        true
    }

    /// Whether an encoded body may hold a secret. Most hold none, and are not looked at again.
    pub(crate) fn may_hold_secret(&self, json: &[u8]) -> bool {
        let hints = self.hints_in_json.get_or_init(|| {
            let hints = [HINTS_IN_JSON, HINTS].concat();
            regex::bytes::Regex::new(&hints).ok()
        });
        if hints.as_ref().is_none_or(|hints| hints.is_match(json)) {
            return true;
        }
        let Ok(exact) = self.exact_in_json.read() else {
            return true;
        };
        // Encoded by this program, so it is text.
        std::str::from_utf8(json).is_ok_and(|json| {
            exact.iter().any(|secret| json.contains(secret.as_str())) || may_have_url_secrets(json)
        })
    }

    /// The text without its secrets; borrowed when it holds none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        if text.len() < MIN_SECRET_BYTES {
            return clean;
        }
        if let Ok(exact) = self.exact.read() {
            for secret in exact.iter() {
                if clean.contains(secret.as_str()) {
                    clean = Cow::Owned(clean.replace(secret.as_str(), REDACTED));
                }
            }
        }
        if let Cow::Owned(without) = without_url_secrets(&clean) {
            clean = Cow::Owned(without);
        }
        if !self.may_match(&clean) {
            return clean;
        }
        for index in self.any().matches(&clean) {
            if let Some(pattern) = self.pattern(index) {
                let marked = pattern.replace_all(&clean, mark);
                // An existing mark is not a secret.
                if marked != clean {
                    clean = Cow::Owned(marked.into_owned());
                }
            }
        }
        clean
    }

    fn may_match(&self, text: &str) -> bool {
        let hints = self.hints.get_or_init(|| Regex::new(HINTS).ok());
        // The hints are a constant that a test compiles; without them every text is searched.
        text.len() >= MIN_PATTERN_BYTES && hints.as_ref().is_none_or(|hints| hints.is_match(text))
    }

    fn any(&self) -> &RegexSet {
        // The patterns are constants, and a test compiles each of them.
        self.any
            .get_or_init(|| RegexSet::new(PATTERNS).unwrap_or_default())
    }

    fn pattern(&self, index: usize) -> Option<&Regex> {
        let (place, text) = (self.patterns.get(index)?, PATTERNS.get(index)?);
        place.get_or_init(|| Regex::new(text).ok()).as_ref()
    }

    /// A JSON text without the secrets that its field names reveal; `None` if it is not JSON or has
    /// no such field.
    pub(crate) fn json(&self, text: &str) -> Option<String> {
        let mut value: Value = serde_json::from_str(text).ok()?;
        match &value {
            Value::Object(_) | Value::Array(_) => {}
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        }
        self.value(&mut value).then(|| value.to_string())
    }

    /// Blanks out secrets in every string of a value; returns whether there were any.
    pub fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => {
                let clean = match self.text(text) {
                    Cow::Borrowed(_) => return false,
                    Cow::Owned(clean) => clean,
                };
                *text = clean;
                true
            }
            Value::Array(items) => {
                let mut changed = false;
                for item in items {
                    changed |= self.value(item);
                }
                changed
            }
            Value::Object(fields) => {
                let mut changed = false;
                for (name, field) in fields.iter_mut() {
                    if is_secret_field(name) && holds_something(field) {
                        *field = Value::String(REDACTED.to_owned());
                        changed = true;
                    } else {
                        changed |= self.value(field);
                    }
                }
                let secret_names: Vec<String> = fields
                    .keys()
                    .filter(|name| matches!(self.text(name), Cow::Owned(_)))
                    .cloned()
                    .collect();
                for name in secret_names {
                    if let Some(field) = fields.remove(&name) {
                        fields.insert(self.text(&name).into_owned(), field);
                        changed = true;
                    }
                }
                changed
            }
        }
    }
}

fn mark(found: &regex::Captures<'_>) -> String {
    let group = |name| found.name(name).map_or("", |kept| kept.as_str());
    format!("{}{REDACTED}{}", group("keep"), group("after"))
}

fn is_secret_field(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_FIELDS.contains(&plain.as_str())
}

/// Whether a field contains anything that could be a secret, at any depth.
fn holds_something(field: &Value) -> bool {
    match field {
        Value::String(text) => !text.is_empty() && text != REDACTED,
        Value::Number(_) => true,
        Value::Array(items) => items.iter().any(holds_something),
        Value::Object(fields) => fields.values().any(holds_something),
        Value::Null | Value::Bool(_) => false,
    }
}

/// A text as it is written inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inside = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inside.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests;
