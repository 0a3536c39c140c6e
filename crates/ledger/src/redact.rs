//! Removes secrets from what is stored: values the host names, and the shapes of common tokens.
//!
//! Works on the strings inside a body before it is written, so that escapes in the stored form
//! cannot hide a secret. It never touches what a model reads or edits.

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{OnceLock, RwLock},
};

use regex::{Regex, RegexSet};
use serde_json::Value;

/// Replaces a secret in the record.
pub const REDACTED: &str = "[redacted]";

/// The shortest exact value that is redacted; a shorter one would blank out ordinary words.
pub const MIN_SECRET_BYTES: usize = 6;

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
    exact: RwLock<Vec<String>>,
}

impl Redactor {
    /// Redacts the common shapes and these exact values.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let redactor = Self {
            hints: OnceLock::new(),
            any: OnceLock::new(),
            patterns: [const { OnceLock::new() }; PATTERNS.len()],
            exact: RwLock::new(Vec::new()),
        };
        for secret in secrets {
            redactor.add(&secret);
        }
        redactor
    }

    /// Adds an exact value, such as one a vault has just handed out. Its hexadecimal and
    /// percent-encoded forms are redacted too. Returns whether it was added: values shorter than
    /// [`MIN_SECRET_BYTES`] or beyond [`MAX_SECRETS`] are not.
    pub fn add(&self, secret: &str) -> bool {
        let Ok(mut exact) = self.exact.write() else {
            return false;
        };
        if secret.len() < MIN_SECRET_BYTES || exact.len() >= MAX_SECRETS * 3 {
            return false;
        }
        for form in [secret.to_owned(), hex(secret), percent(secret)] {
            if !exact.contains(&form) {
                exact.push(form);
            }
        }
        // Longest first, so that a secret that contains another leaves nothing behind.
        exact.sort_by_key(|form| std::cmp::Reverse(form.len()));
        true
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

fn hex(text: &str) -> String {
    let mut hex = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_pattern_compiles() {
        let redactor = Redactor::new([]);
        assert!(Regex::new(HINTS).is_ok());
        assert_eq!(redactor.any().len(), PATTERNS.len());
        for (index, pattern) in PATTERNS.iter().enumerate() {
            assert!(redactor.pattern(index).is_some(), "{pattern}");
        }
    }

    #[test]
    fn common_shapes_are_found_and_ordinary_text_is_left() {
        let redactor = Redactor::new(["horse-battery".to_owned()]);
        let check = |text: &str, expect: &str| assert_eq!(redactor.text(text), expect, "{text}");
        check("key AKIAIOSFODNN7EXAMPLE end", "key [redacted] end");
        check("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[redacted]");
        check("github_pat_0123456789abcdefghijAB", "[redacted]");
        check("glpat-0123456789abcdefghij", "[redacted]");
        check("AIza0123456789abcdefghijABCDEFGHIJ01234", "[redacted]");
        check("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]");
        check(
            "aws_secret_access_key = 0123456789abcdefghijABCDEFGHIJ0123456789",
            "aws_secret_access_key = [redacted]",
        );
        check("mariadb -uroot -pS3cretPw", "mariadb -uroot -p[redacted]");
        check("a1://:x@", "a1://:[redacted]@");
        check("token='x", "token='[redacted]");
        check("xoxb-1234567890-abcdef", "[redacted]");
        check("sk-proj-abcdefghijklmnop1234", "[redacted]");
        check("PGPASSWORD=hunter22 psql", "PGPASSWORD=[redacted] psql");
        check(
            "{\"password\": \"hunter22\"}",
            "{\"password\": \"[redacted]\"}",
        );
        check(
            "curl -H 'Authorization: Bearer abc.def-123'",
            "curl -H 'Authorization: Bearer [redacted]'",
        );
        check(
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b",
            "a [redacted] b",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
        check(
            "DB_PASSWORD = \"hunter2 with spaces\" next",
            "DB_PASSWORD = \"[redacted]\" next",
        );
        check("--password='a long one' x", "--password='[redacted]' x");
        check("--token abcdef -v", "--token [redacted] -v");
        check(
            r#"{\"token\": \"a b\", \"n\": \"c\"}"#,
            r#"{\"token\": \"[redacted]\", \"n\": \"c\"}"#,
        );
        check(
            r#"secret = "one \" two" three"#,
            r#"secret = "[redacted]" three"#,
        );
        check("SECRET='cut off\nnext", "SECRET='[redacted]\nnext");
        check("password=my\\ pass x", "password=[redacted] x");
        check("mysql -uroot -pS3cretPw db", "mysql -uroot -p[redacted] db");
        check("sshpass -p 'a b' ssh x", "sshpass -p [redacted] ssh x");
        check("curl -u ada:pw http://x", "curl -u ada:[redacted] http://x");
        check("postgres://ada:pw1@db/x", "postgres://ada:[redacted]@db/x");
        check("the horse-battery staple", "the [redacted] staple");
        check("686f7273652d62617474657279", "[redacted]");
        for plain in [
            "cargo test --workspace",
            "src/token.rs",
            "desk-top risk-taking",
            "max_tokens: 12",
            "password = \"\"; user = \"ada\"",
            "PASSWORD=\"[redacted]\"",
            "mysql -h db -p",
            "ssh -p2222 host; cp -pr a b; mkdir -p src/token",
            "cargo run --token --verbose",
            "http://localhost:8080/a@b",
        ] {
            check(plain, plain);
        }
    }

    /// A made-up value of this length, in a token's alphabet.
    fn made_up(length: usize) -> String {
        "Q1w2E3r4T5y6U7i8O9p0"
            .chars()
            .cycle()
            .take(length)
            .collect()
    }

    fn hexadecimal(length: usize) -> String {
        "0f1e2d3c4b5a6978".chars().cycle().take(length).collect()
    }

    /// Each text with the part that must be removed.
    fn thirty_eight_shapes() -> Vec<(String, String)> {
        let (long, hex) = (made_up(64), hexadecimal(64));
        let upper = long.to_ascii_uppercase();
        let prefixed = [
            ("sk_live_", &long[..24]),
            ("rk_test_", &long[..24]),
            ("whsec_", &long[..32]),
            ("npm_", &long[..36]),
            ("hf_", &long[..34]),
            ("dop_v1_", &hex[..]),
            ("shpat_", &hex[..32]),
            ("glsa_", &long[..41]),
            ("figd_", &long[..40]),
            ("lin_api_", &long[..40]),
            ("ntn_", &long[..46]),
            ("sntrys_", &long[..50]),
            ("pscale_tkn_", &long[..43]),
            ("sbp_", &hex[..40]),
            ("rubygems_", &hex[..48]),
            ("dckr_pat_", &long[..27]),
            ("gsk_", &long[..52]),
            ("r8_", &long[..37]),
            ("xai-", &long[..60]),
            ("dapi", &hex[..32]),
            ("tskey-auth-", &long[..30]),
            ("GOCSPX-", &long[..28]),
            ("ya29.", &long[..60]),
            ("dp.pt.", &long[..43]),
            ("hvs.", &long[..24]),
            ("AGE-SECRET-KEY-1", &upper[..58]),
            ("pypi-", &long[..60]),
            ("SK", &hex[..32]),
            ("ATATT3", &long[..60]),
            ("NRAK-", &upper[..27]),
            ("LS0tLS1CRUdJTiBQUklWQVRF", &long[..60]),
            ("https://hooks.slack.com/services/T0/B0/", &long[..24]),
            (
                "https://discord.com/api/webhooks/123456789012345678/",
                &long[..60],
            ),
            ("123456789:AA", &long[..33]),
            ("DefaultEndpointsProtocol=https;AccountKey=", &long[..60]),
            ("Cookie: session=", &long[..30]),
        ];
        let mut shapes: Vec<(String, String)> = prefixed
            .iter()
            .map(|(prefix, value)| (format!("{prefix}{value}"), (*value).to_owned()))
            .collect();
        let sendgrid = format!("SG.{}.{}", &long[..22], &long[..43]);
        shapes.push((sendgrid, long[..43].to_owned()));
        let discord = format!("M{}.{}.{}", &long[..23], &long[..6], &long[..38]);
        shapes.push((discord, long[..38].to_owned()));
        shapes
    }

    #[test]
    fn au_12_thirty_eight_shapes_are_found_wherever_they_stand() {
        let redactor = Redactor::new([]);
        let shapes = thirty_eight_shapes();
        assert_eq!(shapes.len(), 38);
        for (shape, secret) in shapes {
            for text in [
                shape.clone(),
                format!("a line with {shape} in it"),
                format!("{{\"x\": \"{shape}\"}}"),
                format!("export X={shape}\n"),
            ] {
                let clean = redactor.text(&text);
                assert!(!clean.contains(&secret), "{text}: {clean}");
                assert!(clean.contains(REDACTED), "{text}: {clean}");
            }
        }
    }

    #[test]
    fn au_12_twenty_look_alikes_are_left() {
        let redactor = Redactor::new([]);
        let certificate = format!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS{}", made_up(60));
        for text in [
            "commit 0f1e2d3c4b5a69780f1e2d3c4b5a69780f1e2d3c",
            "npm_config_registry_and_other_settings_of_npm",
            "npm_package_version",
            "hf_hub_download(repo_id)",
            "pypi-publish",
            "dapi is a word",
            "r8_g8_b8",
            "SKU 0f1e2d3c4b5a",
            "SG.json",
            "xai-org/grok",
            "sbp_total",
            "https://slack.com/help",
            "https://discord.com/channels/1/2",
            "12:30:45 AAA",
            "sig=short",
            "design=AccountKeys",
            "cookiecutter: a tool",
            "550e8400-e29b-41d4-a716-446655440000",
            "ya29 degrees",
            certificate.as_str(),
        ] {
            assert_eq!(redactor.text(text), text);
        }
    }

    #[test]
    fn fields_with_secret_names_are_blanked_whatever_they_hold() {
        let redactor = Redactor::new([]);
        let mut value = json!({
            "user": "ada", "api_key": "x", "token": ["y"], "n": 1, "secret": 12,
            "password": {"value": "z"}, "passwd": null, "passphrase": true,
        });
        assert!(redactor.value(&mut value));
        assert_eq!(
            value,
            json!({
                "user": "ada", "api_key": REDACTED, "token": REDACTED, "n": 1,
                "secret": REDACTED, "password": REDACTED, "passwd": null, "passphrase": true,
            })
        );
        assert!(!redactor.value(&mut value));
    }

    #[test]
    fn an_exact_value_is_found_in_each_of_its_forms() {
        let redactor = Redactor::new(["a b/c~d".to_owned()]);
        let check = |text: &str, expect: &str| assert_eq!(redactor.text(text), expect, "{text}");
        check("x a b/c~d y", "x [redacted] y");
        check("?q=a%20b%2Fc~d&n=1", "?q=[redacted]&n=1");
        check("6120622f637e64", "[redacted]");
    }

    #[test]
    fn the_shortest_and_the_last_exact_values_count() {
        let redactor = Redactor::new([]);
        assert!(!redactor.add("five5"));
        assert!(redactor.add("sixsix"));
        assert_eq!(redactor.text("sixsix"), REDACTED);
        // Each has three forms.
        for n in 1..MAX_SECRETS {
            assert!(redactor.add(&format!("secret/{n}")), "{n}");
        }
        assert!(redactor.text("secret/1023").contains(REDACTED));
    }

    #[test]
    fn a_secret_among_others_is_reported_and_removed_at_any_depth() {
        let redactor = Redactor::new(["horse-battery".to_owned()]);
        let check = |mut value: Value, expect: Option<Value>| {
            let before = value.clone();
            assert_eq!(redactor.value(&mut value), expect.is_some(), "{before}");
            assert_eq!(value, expect.unwrap_or(before));
        };

        check(
            json!(["a", "horse-battery", "b"]),
            Some(json!(["a", REDACTED, "b"])),
        );
        check(
            json!(["horse-battery", "horse-battery"]),
            Some(json!([REDACTED, REDACTED])),
        );
        check(
            json!({"a": ["horse-battery"], "b": 1}),
            Some(json!({"a": [REDACTED], "b": 1})),
        );
        check(
            json!({"a": "horse-battery", "b": "horse-battery"}),
            Some(json!({"a": REDACTED, "b": REDACTED})),
        );
        check(
            json!({"the horse-battery": 1, "z": "a"}),
            Some(json!({"the [redacted]": 1, "z": "a"})),
        );
        check(
            json!({"token": "", "secret": [], "password": REDACTED}),
            None,
        );
        check(json!(["a", {"b": "c"}]), None);
    }
}
