//! Where else questions are answered, as `[approvals]` of `haft.toml` says: at a webhook, and on the
//! person's desktop. They are asked beside the terminal or the agent's client; the first answer
//! counts.

use haft_contract::{
    Principal, SealedPlan,
    host::{AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver},
};

use crate::{
    DesktopApprover, FirstAnswer, Webhook, WebhookKey, ancestry,
    config::{Env, approval_places::ApprovalPlaces, secrets::read_secret},
};

/// The approvers that are configured.
#[derive(Debug, Default)]
pub struct OtherPlaces(Configured);

#[derive(Debug, Default)]
enum Configured {
    #[default]
    Nothing,
    Desktop(DesktopApprover),
    Webhook(Box<Webhook>),
    Both(Box<FirstAnswer<DesktopApprover, Webhook>>),
}

impl OtherPlaces {
    /// The configured ones, and notes for a person about those that cannot be used. One that cannot
    /// be used answers nothing, so nothing is allowed by it.
    pub fn of(places: &ApprovalPlaces, env: &Env) -> (Self, Vec<String>) {
        let mut notes = Vec::new();
        // What a call has started asks nobody: an agent would reach its own notification.
        if ancestry::started_by_a_call().is_some() {
            return (Self::default(), notes);
        }
        let (mut desktop, mut webhook) = (None, None);
        if places.desktop() {
            desktop = env
                .session_bus
                .clone()
                .and_then(|bus| DesktopApprover::find(bus, env.home_text()));
            if desktop.is_none() {
                notes.push(
                    "questions are not shown on the desktop: that takes a session bus \
                     (DBUS_SESSION_BUS_ADDRESS) and the program `notify-send`"
                        .to_owned(),
                );
            }
        }
        if let Some(settings) = places.webhook() {
            let made = read_secret(&settings.key).and_then(|key| {
                let key = WebhookKey::new(key.as_bytes());
                key.and_then(|key| Webhook::new(&settings.url, key))
                    .map_err(|error| error.to_string())
            });
            match made {
                Ok(made) => webhook = Some(made),
                Err(why) => notes.push(format!("questions are not sent to the webhook: {why}")),
            }
        }
        let configured = match (desktop, webhook) {
            (None, None) => Configured::Nothing,
            (Some(desktop), None) => Configured::Desktop(desktop),
            (None, Some(webhook)) => Configured::Webhook(Box::new(webhook)),
            (Some(desktop), Some(webhook)) => {
                Configured::Both(Box::new(FirstAnswer::new(desktop, webhook)))
            }
        };
        (Self(configured), notes)
    }
}

impl Approver for OtherPlaces {
    fn nobody(&self, _: &Principal, _: &SealedPlan) -> Option<String> {
        matches!(self.0, Configured::Nothing).then(nobody_configured)
    }

    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        match &self.0 {
            Configured::Nothing => ApprovalAnswer::NobodyThere {
                reason: nobody_configured(),
            },
            Configured::Desktop(desktop) => desktop.ask(request).await,
            Configured::Webhook(webhook) => webhook.ask(request).await,
            Configured::Both(both) => both.ask(request).await,
        }
    }

    fn nobody_replies(&self, principal: &Principal) -> Option<String> {
        match &self.0 {
            Configured::Nothing => Some(nobody_configured()),
            Configured::Desktop(desktop) => desktop.nobody_replies(principal),
            Configured::Webhook(webhook) => webhook.nobody_replies(principal),
            Configured::Both(both) => both.nobody_replies(principal),
        }
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        match &self.0 {
            Configured::Nothing => AgentQuestionAnswer::NobodyThere {
                reason: nobody_configured(),
            },
            Configured::Desktop(desktop) => desktop.put(request).await,
            Configured::Webhook(webhook) => webhook.put(request).await,
            Configured::Both(both) => both.put(request).await,
        }
    }
}

fn nobody_configured() -> String {
    "no other place to answer questions is configured".to_owned()
}
