//! How many tools there are, and those that cannot be offered because something is missing, with
//! what to do. Tools that lack the same thing are one line.

use std::collections::BTreeMap;

use haft_contract::erased::WithheldUntil;
use haft_runtime::registry::Snapshot;

use super::check::Check;

const NAME: &str = "tools";

/// The most tools named in a line.
const MAX_NAMED: usize = 8;

/// One line for the tools that are ready, and one for each thing that is missing.
pub(super) fn checks(tools: &Snapshot) -> Vec<Check> {
    let mut lacking: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let entries = tools.page(0, tools.len());
    for entry in entries.iter().filter(|entry| entry.is_listed()) {
        let Some(withheld) = entry.withheld() else {
            continue;
        };
        match withheld.until {
            // What a person has to accept is told with its server.
            WithheldUntil::Accepted => {}
            WithheldUntil::Ready | WithheldUntil::TierAvailable => {
                let names = lacking.entry((&withheld.reason, &withheld.hint));
                names.or_default().push(entry.key().tool.as_str());
            }
        }
    }
    let ready = entries.iter().filter(|entry| entry.withheld().is_none());
    let mut checks = vec![Check::ok(NAME, format!("{} tools", ready.count()))];
    for ((reason, hint), names) in lacking {
        let detail = format!("{} not offered: {reason}", listed(&names));
        checks.push(Check::warn(NAME, detail, hint));
    }
    checks
}

fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    match names.len().checked_sub(MAX_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more {verb}", shown.join(", ")),
        Some(_) | None => format!("{} {verb}", shown.join(", ")),
    }
}
