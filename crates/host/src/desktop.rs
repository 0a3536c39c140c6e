//! Asks the person through their desktop's notifications.
//!
//! A yes counts only where the whole question fits into the notification; otherwise it only says
//! that a question waits, and where to answer. What an agent runs in a sandbox cannot press the
//! button: the session bus is not in there.

use std::time::Duration;

use haft_backends::{Notification, NotifySend};
use haft_contract::host::{ApprovalAnswer, ApprovalRequest, Approver, Clock as _};
use haft_runtime::SystemClock;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    question::{self, DrawingContext, QuestionDrawing, RoomForText},
    screen_text::{TextLine, most_columns, plain},
};

/// How many columns of a notification's line every desktop shows.
const COLUMNS: usize = 44;

/// How many lines of a notification's body every desktop shows; GNOME cuts after six.
const MAX_LINES: usize = 6;

/// How many notifications may be on the screen at once. A flood of questions waits elsewhere.
const MAX_SHOWN: usize = 3;

/// How long a notification is on its way and on the screen before a yes counts. A click meant for
/// something else has arrived by then.
const TIME_TO_LOOK: Duration = Duration::from_millis(500);

const ALLOW: &str = "allow";
const DENY: &str = "deny";

/// An approver that asks through the desktop.
#[derive(Debug)]
pub struct DesktopApprover {
    notify: NotifySend,
    home: Option<String>,
    room: Semaphore,
}

impl DesktopApprover {
    /// For the session bus at this address; `None` if notifications cannot be shown.
    pub fn find(bus: String, home: Option<String>) -> Option<Self> {
        Some(Self {
            notify: NotifySend::find(bus)?,
            home,
            room: Semaphore::new(MAX_SHOWN),
        })
    }
}

impl Approver for DesktopApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let cx = DrawingContext {
            why: Some(&request.decision.reason),
            home: self.home.as_deref(),
            room: RoomForText::Enough,
        };
        let Ok(drawing) = question::draw(&request.form, request.digest, cx) else {
            let reason = "what would be shown is not what would run".to_owned();
            return ApprovalAnswer::NobodyThere { reason };
        };
        let Ok(_shown) = self.room.try_acquire() else {
            return ApprovalAnswer::Elsewhere;
        };
        let left = request.expires.since(SystemClock.now());
        let (notification, whole) = match whole(&drawing, left) {
            Some(notification) => (notification, true),
            None => (waits(&drawing, left), false),
        };
        let began = Instant::now();
        let shown = tokio::time::timeout(left, self.notify.show(&notification)).await;
        let by = format!("{} (desktop)", request.principal.user);
        match shown {
            Ok(Ok(Some(pressed))) => match pressed.as_str() {
                ALLOW if whole && began.elapsed() >= TIME_TO_LOOK => request.approve(by),
                DENY if whole => request.refuse(by, None),
                _ => ApprovalAnswer::Elsewhere,
            },
            // Dismissed, which is no answer.
            Ok(Ok(None)) | Err(_) => ApprovalAnswer::Elsewhere,
            Ok(Err(why)) => {
                tracing::warn!(why, "the desktop could not be asked");
                ApprovalAnswer::NobodyThere { reason: why }
            }
        }
    }
}

/// The notification with the whole question, if it fits.
fn whole(drawing: &QuestionDrawing, shown_for: Duration) -> Option<Notification> {
    let summary = drawing.headline.title();
    let mut lines = drawing.lines(None);
    // The first line is the summary.
    lines.remove(0);
    let rows = |line: &TextLine| {
        let pieces = line.iter().flat_map(|(_, piece)| piece.chars());
        let columns: usize = pieces.map(most_columns).sum();
        columns.div_ceil(COLUMNS).max(1)
    };
    let fits = summary.chars().map(most_columns).sum::<usize>() <= COLUMNS
        && lines.iter().map(rows).sum::<usize>() <= MAX_LINES;
    fits.then(|| Notification {
        summary,
        body: plain(&lines).trim_end().to_owned(),
        buttons: vec![(ALLOW, "Allow once"), (DENY, "Deny")],
        shown_for,
    })
}

/// The notification that a question waits elsewhere.
fn waits(drawing: &QuestionDrawing, shown_for: Duration) -> Notification {
    let tool: String = drawing.headline.tool.chars().take(COLUMNS / 2).collect();
    Notification {
        summary: format!("Haft asks about {tool}"),
        body: "The question is too long to be shown here.\n\
               Answer it in a terminal: haft approvals --watch"
            .to_owned(),
        buttons: Vec::new(),
        shown_for,
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::PlanDigest;
    use serde_json::{Value, json};

    use super::*;

    fn drawing(script: &str) -> QuestionDrawing {
        let form: Value = json!({
            "tool": "builtin/bash",
            "principal": {"agent": "claude-code", "kind": "main"},
            "workspace": "/home/ada/demo",
            "input": {"command": script},
            "accesses": [{"kind": "command", "command": {"shell": script}, "cwd": "."}],
            "backend": "local",
            "tier": "t2",
            "preview": [],
        });
        let digest: PlanDigest = haft_runtime::digest_of(&form);
        let cx = DrawingContext {
            why: Some("no rule allows running it, so preset `careful` asks"),
            home: Some("/home/ada"),
            room: RoomForText::Enough,
        };
        question::draw(&form, digest, cx).unwrap()
    }

    #[test]
    fn a_question_that_fits_is_shown_whole_with_buttons() {
        let shown = whole(&drawing("touch made"), Duration::from_secs(1)).unwrap();
        assert_eq!(shown.summary, "bash touch made");
        assert_eq!(
            shown.body,
            "by        claude-code · main · ~/demo\nwhere     in a sandbox; no network\n\
             asked because no rule allows running it (preset careful)"
        );
        assert_eq!(shown.buttons.len(), 2);
    }

    #[test]
    fn ap_08_what_does_not_fit_has_no_buttons_and_shows_nothing_of_it() {
        for script in [
            "x".repeat(COLUMNS),
            "漢".repeat(COLUMNS / 2),
            "touch a\ntouch b\ntouch c\ntouch d".to_owned(),
        ] {
            let drawing = drawing(&script);
            assert_eq!(whole(&drawing, Duration::ZERO), None, "{script}");
            let waits = waits(&drawing, Duration::ZERO);
            assert!(waits.buttons.is_empty());
            assert!(!waits.body.contains("touch"), "{waits:?}");
        }
    }
}
