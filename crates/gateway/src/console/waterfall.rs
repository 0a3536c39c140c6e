//! Where the time of a call went: one bar for each stage, from the events on record. The table says the
//! same in words; the bars are a picture of it.

use std::time::Duration;

use maud::{Markup, html};

use super::text::{between, length};
use crate::events::EventView;

/// The width of the picture, in its own units.
const WIDTH: u32 = 1_000;

/// The least width of a bar, so that a short stage is seen.
const LEAST: u32 = 6;

/// A stage that has ended.
struct StageBar {
    name: &'static str,
    class: &'static str,
    begins: Duration,
    took: Duration,
}

/// What a call did until this event, and how it is coloured.
fn stage_before(event: &str, has_started: bool) -> Option<(&'static str, &'static str)> {
    Some(match event {
        "resolved" => ("find the tool", "prepare"),
        "validated" => ("check the input", "prepare"),
        "planned" => ("plan", "prepare"),
        "decided" => ("decide", "decide"),
        "approval_asked" => ("ask", "decide"),
        "approval_answered" => ("wait for a person", "wait"),
        "granted" => ("keep the standing approval", "decide"),
        "admitted" => ("wait for its turn", "wait"),
        "started" => ("record the start", "prepare"),
        "settled" if has_started => ("run", "run"),
        "settled" => ("end", "prepare"),
        // What happens while it runs is part of the run.
        _ => return None,
    })
}

fn stages(events: &[EventView]) -> Vec<StageBar> {
    let Some(first) = events.first() else {
        return Vec::new();
    };
    let (mut stages, mut has_started) = (Vec::new(), false);
    let mut begins = Duration::ZERO;
    for event in events {
        let ends = between(&first.at, &event.at).unwrap_or(begins).max(begins);
        if let Some((name, class)) = stage_before(&event.event, has_started) {
            stages.push(StageBar {
                name,
                class,
                begins,
                took: ends.saturating_sub(begins),
            });
            begins = ends;
        }
        has_started |= event.event == "started";
    }
    stages
}

/// The stages of a call.
pub(super) fn waterfall(events: &[EventView]) -> Markup {
    let stages = stages(events);
    let whole = stages.iter().map(|stage| stage.begins + stage.took).max();
    let whole = whole.unwrap_or_default().max(Duration::from_micros(1));
    html! {
        table.waterfall {
            caption.off { "The stages of this call and how long each took" }
            thead.off { tr { th scope="col" { "Stage" } th scope="col" { "Share" } th scope="col" { "Time" } } }
            tbody {
                @for stage in &stages {
                    @let (x, width) = place(stage, whole);
                    tr {
                        th scope="row" { (stage.name) }
                        td.bar aria-hidden="true" {
                            svg viewBox={ "0 0 " (WIDTH) " 12" } preserveAspectRatio="none" height="12" {
                                rect.track x="0" y="5" width=(WIDTH) height="1" {}
                                rect.(stage.class) x=(x) y="1" width=(width) height="10" rx="2" {}
                            }
                        }
                        td.took { (length(stage.took)) }
                    }
                }
            }
        }
    }
}

/// Where a bar begins and how wide it is.
fn place(stage: &StageBar, whole: Duration) -> (u32, u32) {
    let share = |time: Duration| {
        let units = time.as_micros() * u128::from(WIDTH) / whole.as_micros().max(1);
        u32::try_from(units).unwrap_or(WIDTH).min(WIDTH)
    };
    let width = share(stage.took).max(LEAST);
    (share(stage.begins).min(WIDTH.saturating_sub(width)), width)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn event(name: &str, second: u32) -> EventView {
        EventView {
            id: 1,
            at: format!("2026-01-31T12:00:{second:02}Z"),
            event: name.to_owned(),
            body: Value::Null,
        }
    }

    #[test]
    fn what_happens_while_a_call_runs_is_part_of_the_run() {
        let events = [
            event("opened", 0),
            event("planned", 1),
            event("decided", 2),
            event("started", 3),
            event("file_changed", 5),
            event("settled", 9),
        ];
        let stages = stages(&events);
        let last = stages.last().unwrap();
        assert_eq!((last.name, last.took), ("run", Duration::from_secs(6)));
        let (x, width) = place(last, Duration::from_secs(9));
        assert_eq!((x, width), (333, 666));
    }

    #[test]
    fn a_call_that_never_started_did_not_run() {
        let events = [event("opened", 0), event("decided", 1), event("settled", 1)];
        let names: Vec<_> = stages(&events).iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["decide", "end"]);
    }
}
