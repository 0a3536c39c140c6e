//! How long calls may run unless they ask for another time, where a host says so instead of the
//! tools: for all of them, for one, or for one action of one. What a model reads about the tool says
//! the value in force. A tool's maximum stays.

use std::{collections::BTreeMap, time::Duration};

use haft_contract::{ProviderId, ToolKey, ToolSpec, spec::Deadline};
use serde_json::Value;

/// Run times by tool and action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeouts {
    default: Option<Duration>,
    named: BTreeMap<String, Duration>,
}

impl Timeouts {
    /// None but the tools' own.
    pub fn new() -> Self {
        Self::default()
    }

    /// For every tool without an entry, except those of mounted servers.
    #[must_use]
    pub fn default_of_all(mut self, time: Duration) -> Self {
        self.default = Some(time);
        self
    }

    /// For a tool (`bash`), or for one action of one (`browser.download`). An action with a time of
    /// its own keeps it unless it is named itself: it needs another than the rest of its tool.
    #[must_use]
    pub fn of(mut self, name: impl Into<String>, time: Duration) -> Self {
        self.named.insert(name.into(), time);
        self
    }

    /// Changes what a tool says about itself to what is in force.
    pub(super) fn apply(&self, key: &ToolKey, spec: &mut ToolSpec, schema: &mut Value) {
        let name = key.tool.as_str();
        let own = [
            ProviderId::builtin(),
            ProviderId::script(),
            ProviderId::embedded(),
        ];
        let default = self.default.filter(|_| own.contains(&key.provider));
        if let Some(time) = self.named.get(name).copied().or(default) {
            let before = spec.deadline;
            spec.deadline.default = time.min(before.maximum);
            restate(spec, schema, before);
        }
        let mut changed = Vec::new();
        for action in &mut spec.actions {
            let of_action = self.named.get(&format!("{name}.{}", action.name));
            let Some(time) = of_action else { continue };
            let time = (*time).min(action.deadline.maximum);
            if time != action.deadline.default {
                changed.push(format!("`{}` {}", action.name, in_words(time)));
            }
            action.deadline.default = time;
        }
        if !changed.is_empty() {
            let sentence = format!(" Actions may run: {}.", changed.join(", "));
            spec.description.push_str(&sentence);
        }
    }
}

/// Makes a tool's texts say its new default: in place of the old one, or else in a sentence.
fn restate(spec: &mut ToolSpec, schema: &mut Value, before: Deadline) {
    let (old, new) = (before.default, spec.deadline.default);
    if old == new {
        return;
    }
    let said = (in_words(old), in_words(new));
    if spec.description.contains(&said.0) {
        spec.description = spec.description.replace(&said.0, &said.1);
    } else if spec.actions.is_empty() {
        // Where actions have times of their own, a sentence about every call would be untrue.
        let sentence = format!(" A call may run {}.", said.1);
        spec.description.push_str(&sentence);
    }
    let defaults = |time: Duration| format!("Defaults to {},", time.as_millis());
    let (old, new) = (defaults(old), defaults(new));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties.into_iter().flatten() {
        if let Some(Value::String(text)) = property.get_mut("description")
            && text.contains(&old)
        {
            *text = text.replace(&old, &new);
        }
    }
}

fn in_words(time: Duration) -> String {
    if time == Duration::from_secs(1) {
        "1 second".to_owned()
    } else if time.subsec_millis() == 0 {
        format!("{} seconds", time.as_secs())
    } else {
        format!("{} milliseconds", time.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{ActionName, ToolName};
    use serde_json::json;

    use super::*;

    fn seconds(spec: &ToolSpec, action: Option<&'static str>) -> u64 {
        let action = action.map(ActionName::from);
        spec.deadline_of(action.as_ref()).default.as_secs()
    }

    #[test]
    fn an_action_has_its_own_time_and_a_tool_goes_before_the_default() {
        let of = Duration::from_secs;
        let spec = || {
            ToolSpec::new("x", "Runs 30 seconds.")
                .deadline(Deadline::new(of(30), of(100)))
                .action("download", Deadline::new(of(50), of(500)))
                .action("open", Deadline::new(of(5), of(20)))
        };
        let check = |timeouts: Timeouts, provider: ProviderId, expect: [u64; 3]| {
            let key = ToolKey::new(provider, ToolName::parse("browser").unwrap());
            let mut spec = spec();
            timeouts.apply(&key, &mut spec, &mut json!({}));
            let found = [None, Some("download"), Some("open")].map(|name| seconds(&spec, name));
            assert_eq!(found, expect);
            let said = format!("{} seconds", expect[0]);
            assert!(spec.description.contains(&said), "{}", spec.description);
        };
        let builtin = ProviderId::builtin;
        check(Timeouts::new(), builtin(), [30, 50, 5]);
        let default = || Timeouts::new().default_of_all(of(60));
        check(default(), builtin(), [60, 50, 5]);
        check(default().of("browser", of(10)), builtin(), [10, 50, 5]);
        let both = default().of("browser.download", of(400));
        check(both, builtin(), [60, 400, 5]);
        // The maximum stays, and a mounted server has a setting of its own.
        check(
            Timeouts::new().of("browser", of(900)),
            builtin(),
            [100, 50, 5],
        );
        check(default(), ProviderId::parse("mcp-x").unwrap(), [30, 50, 5]);
    }

    #[test]
    fn a_description_names_the_actions_whose_time_is_another() {
        let of = Duration::from_secs;
        let described = |timeouts: Timeouts| {
            let key = ToolKey::new(ProviderId::builtin(), ToolName::parse("process").unwrap());
            let short = Deadline::new(of(30), of(30));
            let mut spec = ToolSpec::new("x", "Works with processes.")
                .deadline(short)
                .action("list", short)
                .action("poll", Deadline::new(of(330), of(330)));
            timeouts.apply(&key, &mut spec, &mut json!({}));
            spec.description
        };
        let unchanged = "Works with processes.";
        // No action obeys the time of the tool here, so nothing is said of it.
        assert_eq!(described(Timeouts::new().default_of_all(of(20))), unchanged);
        let same = Timeouts::new().of("process.poll", of(330));
        assert_eq!(described(same), unchanged);
        let both = Timeouts::new()
            .of("process.poll", of(1))
            .of("process.list", of(900));
        assert_eq!(
            described(both.of("process.list", of(5))),
            "Works with processes. Actions may run: `list` 5 seconds, `poll` 1 second."
        );
    }
}
