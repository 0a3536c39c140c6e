//! `[approvals]` of `haft.toml`: where else, beside the terminal and the agent's client, questions
//! are answered. If several files speak of the desktop, any `false` wins; of webhooks, the first
//! file's wins, which is the operator's own.

use super::{
    file::{Reader, Table},
    secrets::SecretReference,
};

/// The keys of `[approvals]`.
const KEYS: [&str; 2] = ["desktop", "webhook"];

/// The keys of `[approvals.webhook]`.
const WEBHOOK_KEYS: [&str; 2] = ["url", "key"];

/// The `[approvals]` tables of one file, or of several merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalPlaces {
    desktop: Option<bool>,
    webhook: Option<WebhookSettings>,
}

/// `[approvals.webhook]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Where questions are posted.
    pub url: String,
    /// The key both sides sign with.
    pub key: SecretReference,
}

impl ApprovalPlaces {
    /// Adds the settings of another file.
    pub fn join(&mut self, other: Self) {
        self.desktop = match (self.desktop, other.desktop) {
            (Some(one), Some(other)) => Some(one && other),
            (one, other) => one.or(other),
        };
        self.webhook = self.webhook.take().or(other.webhook);
    }

    /// Whether questions are shown on the desktop. Off unless somebody turns it on: a notification
    /// appears where nobody asked for it, on a screen that is shared or locked, and shows what an
    /// agent is about to do.
    pub fn desktop(&self) -> bool {
        self.desktop.unwrap_or(false)
    }

    /// Who else may answer because of these settings, for the person who trusts them.
    pub fn lines(&self) -> Vec<String> {
        let desktop = self
            .desktop()
            .then(|| "notifications on the desktop".to_owned());
        let webhook = self.webhook.as_ref();
        let webhook = webhook.map(|webhook| format!("the webhook `{}`", webhook.url));
        desktop.into_iter().chain(webhook).collect()
    }

    /// The webhook, if there is one.
    pub fn webhook(&self) -> Option<&WebhookSettings> {
        self.webhook.as_ref()
    }
}

impl Reader<'_> {
    /// Reads `[approvals]`.
    pub(super) fn approval_places(&mut self, table: &Table<'_>) -> ApprovalPlaces {
        self.known_keys(table, "[approvals]", &KEYS);
        let mut places = ApprovalPlaces::default();
        if let Some(value) = table.get("desktop") {
            places.desktop = value.get_ref().as_bool();
            if places.desktop.is_none() {
                self.problem(
                    value.span().start,
                    "`desktop` must be true or false",
                    "write `desktop = true` to answer questions from notifications",
                );
            }
        }
        if let Some(webhook) = self.table(table, "webhook") {
            let at = table.get("webhook").map_or(0, |value| value.span().start);
            places.webhook = self.webhook(webhook, at);
        }
        places
    }

    fn webhook(&mut self, table: &Table<'_>, at: usize) -> Option<WebhookSettings> {
        self.known_keys(table, "[approvals.webhook]", &WEBHOOK_KEYS);
        let url = table.get("url").and_then(|value| value.get_ref().as_str());
        let key = table.get("key").and_then(|value| value.get_ref().as_str());
        let reference = key.and_then(SecretReference::parse);
        if url.is_none() {
            self.problem(
                at,
                "[approvals.webhook] has no `url`",
                "write `url = \"https://…\"`: the address that questions are posted to",
            );
        }
        if reference.is_none() {
            // The key itself is never repeated: it may be the secret, written in the wrong place.
            self.problem(
                table.get("key").map_or(at, |value| value.span().start),
                "`key` of [approvals.webhook] must say where the key is",
                "write `key = \"env:NAME\"` or `key = \"file:/absolute/path\"`; keep the key itself out of this file",
            );
        }
        Some(WebhookSettings {
            url: url?.to_owned(),
            key: reference?,
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file::parse;

    fn places(text: &str) -> Result<ApprovalPlaces, String> {
        let parsed = parse(&PolicySource::new("haft.toml", text));
        parsed
            .map(|file| file.asking.places)
            .map_err(|problems| format!("{problems:?}"))
    }

    #[test]
    fn the_desktop_is_asked_only_where_nobody_forbids_it() {
        assert!(!places("").unwrap().desktop());
        let (yes, no) = (
            "[approvals]\ndesktop = true\n",
            "[approvals]\ndesktop = false\n",
        );
        assert!(places(yes).unwrap().desktop());
        for (one, other) in [(yes, no), (no, yes)] {
            let mut joined = places(one).unwrap();
            joined.join(places(other).unwrap());
            assert!(!joined.desktop());
        }
        assert!(places("[approvals]\ndesktop = 1\n").is_err());
        assert!(places("[approvals]\ndeskto = true\n").is_err());
    }

    #[test]
    fn a_webhook_needs_an_address_and_a_reference_to_its_key() {
        let webhook = |keys: &str| places(&format!("[approvals.webhook]\n{keys}\n"));
        let right = webhook("url = \"https://x.example/hook\"\nkey = \"env:HOOK_KEY\"").unwrap();
        assert_eq!(right.webhook().unwrap().key.to_string(), "env:HOOK_KEY");
        for wrong in [
            "",
            "url = \"https://x.example\"",
            "key = \"env:A\"",
            "url = \"https://x.example\"\nkey = \"an actual secret key\"",
            "url = \"https://x.example\"\nkey = \"env:A\"\nretries = 3",
        ] {
            let said = webhook(wrong).unwrap_err();
            assert!(!said.contains("actual secret"), "{said}");
        }
    }

    #[test]
    fn the_first_files_webhook_wins() {
        let of = |host: &str| {
            let text = format!("[approvals.webhook]\nurl = \"https://{host}\"\nkey = \"env:A\"\n");
            places(&text).unwrap()
        };
        let mut joined = of("own.example");
        joined.join(of("project.example"));
        assert_eq!(joined.webhook().unwrap().url, "https://own.example");
    }
}
