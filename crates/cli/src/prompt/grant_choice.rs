//! What a person may choose beyond *once*: one of the proposed rules, where it applies and how
//! long. This is the wording, for the prompt and for `haft approve --always`; what an agent's form
//! offers is in `haft_host::grant_choice`. The code that stores the choice checks it first.

use std::time::Duration;

use haft_contract::host::{GrantBreadth, GrantProposal, GrantRequest, GrantScope, Timestamp};

use crate::{
    terminal::{Page, Style, visible},
    view::time,
};

/// The longest duration of a timed grant: a year.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// How long a grant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantDuration {
    /// Until somebody revokes it.
    Revoked,
    /// This long.
    For(Duration),
    /// For this many calls.
    Calls(u32),
}

impl GrantDuration {
    /// Parses what a person typed: nothing, `30m`, `12h`, `7d`, or a number of calls such as `10x`.
    pub(crate) fn read(typed: &str) -> Result<Self, String> {
        const WANTED: &str =
            "write a time such as 30m, 12h or 7d, a number of calls such as 10x, or leave it empty";
        let typed = typed.trim();
        if typed.is_empty() {
            return Ok(Self::Revoked);
        }
        let unit = typed.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = typed.split_at(unit.unwrap_or(typed.len()));
        let number: u32 = number.parse().map_err(|_| WANTED.to_owned())?;
        let seconds = match unit {
            "x" if number > 0 => return Ok(Self::Calls(number)),
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(WANTED.to_owned()),
        };
        let lasting = Duration::from_secs(u64::from(number) * seconds);
        if lasting.is_zero() || lasting > LONGEST {
            return Err(
                "choose from one minute to one year, or leave it empty for no end".to_owned(),
            );
        }
        Ok(Self::For(lasting))
    }
}

/// The scopes, numbered.
pub(crate) fn scopes_in_words(scopes: &[GrantScope]) -> Page {
    let mut page = Page::new();
    for (number, scope) in (1..).zip(scopes) {
        page = page
            .styled(Style::Strong, format!("{number:>8}  "))
            .text(in_words(scope))
            .end();
    }
    page
}

/// Where a grant applies, in words.
fn in_words(scope: &GrantScope) -> String {
    let bound = visible::line(scope.shown());
    match scope {
        GrantScope::Session(_) => format!("in this session ({bound}), in every workspace"),
        GrantScope::Project(_) => format!("in this project ({bound}), for every agent"),
        GrantScope::Agent(_) => format!("for this agent ({bound}), everywhere"),
    }
}

/// The grant a person has composed.
pub(crate) fn wish(
    proposal: &GrantProposal,
    scope: GrantScope,
    lasting: GrantDuration,
    now: Timestamp,
) -> GrantRequest {
    let (until, uses) = match lasting {
        GrantDuration::Revoked => (None, None),
        GrantDuration::For(time) => (Some(now.after(time)), None),
        GrantDuration::Calls(calls) => (None, Some(calls)),
    };
    GrantRequest {
        rules: proposal.rules.clone(),
        scope,
        until,
        uses,
    }
}

/// The proposals, numbered.
pub(crate) fn proposals(proposals: &[GrantProposal]) -> Page {
    let mut page = Page::new();
    for (number, proposal) in (1..).zip(proposals) {
        page = page
            .styled(Style::Strong, format!("{number:>8}  "))
            .text(format!("{}: ", breadth(proposal.breadth)))
            .text(visible::line(&proposal.meaning))
            .end();
        for rule in &proposal.rules {
            page = page
                .styled(Style::Dim, "          │ ")
                .text(visible::line(rule))
                .end();
        }
    }
    page
}

/// The exact rules and bounds of a grant, as they will be stored.
pub(crate) fn exactly(wish: &GrantRequest) -> Page {
    let mut page = Page::new();
    for rule in &wish.rules {
        page = page
            .styled(Style::Dim, "allows    ")
            .styled(Style::Strong, visible::line(rule))
            .end();
    }
    page = page.field("where", in_words(&wish.scope));
    match (wish.until, wish.uses) {
        (Some(until), _) => page.field("until", time::local(until)),
        (None, Some(1)) => page.field("for", "one more call"),
        (None, Some(uses)) => page.field("for", format!("{uses} more calls")),
        (None, None) => page.field("until", "somebody revokes it (`haft grants revoke`)"),
    }
}

fn breadth(breadth: GrantBreadth) -> &'static str {
    match breadth {
        GrantBreadth::Exact => "exactly this",
        GrantBreadth::Prefix => "what begins like it",
        GrantBreadth::Program => "this program here",
        GrantBreadth::Hosts => "these hosts",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_a_count_or_nothing() {
        for (typed, lasting) in [
            ("", Some(GrantDuration::Revoked)),
            ("30m", Some(GrantDuration::For(Duration::from_mins(30)))),
            ("7d", Some(GrantDuration::For(Duration::from_hours(7 * 24)))),
            (" 12h ", Some(GrantDuration::For(Duration::from_hours(12)))),
            ("10x", Some(GrantDuration::Calls(10))),
            ("0x", None),
            ("0m", None),
            ("10", None),
            ("999999d", None),
            ("-1h", None),
            ("5mh", None),
            ("soon", None),
        ] {
            assert_eq!(GrantDuration::read(typed).ok(), lasting, "{typed:?}");
        }
    }
}
