//! A progress report as its client shows it: in one line, without secrets, with the time that is left.

use std::time::Duration;

use haft_contract::progress::RenderedProgress;
use serde_json::Value;

use crate::foreign;

/// The most characters of a line of output that are shown.
const LINE_CHARS: usize = 120;

/// From here on the time left is shown in minutes.
const IN_MINUTES: Duration = Duration::from_mins(3);

/// Removes secrets from a text.
pub(super) type RedactText = Box<dyn Fn(&str) -> String + Send + Sync>;

/// A line of output or an item: escaped and cut, because a program wrote it.
pub(super) fn of_line(
    mut report: RenderedProgress,
    left: Option<Duration>,
    redact: Option<&RedactText>,
) -> RenderedProgress {
    let line = redacted(&report.status, redact);
    report.status = foreign::shown_within(&line, LINE_CHARS);
    with_time(report, left)
}

/// What a tool said about its own progress. What a mounted server said stays as it said it, apart
/// from secrets.
pub(super) fn of_tool(
    mut report: RenderedProgress,
    left: Option<Duration>,
    redact: Option<&RedactText>,
) -> RenderedProgress {
    report.status = redacted(&report.status, redact);
    if report.detail.get("progress").is_some_and(Value::is_number) {
        return report;
    }
    with_time(report, left)
}

fn redacted(text: &str, redact: Option<&RedactText>) -> String {
    redact.map_or_else(|| text.to_owned(), |redact| redact(text))
}

/// Adds how long it will take if the tool knows, and otherwise how long it may.
fn with_time(mut report: RenderedProgress, left: Option<Duration>) -> RenderedProgress {
    let time = match (report.remaining, left) {
        (Some(remaining), _) => format!("about {} left", words(remaining)),
        (None, Some(left)) => format!("at most {} left", words(left)),
        (None, None) => return report,
    };
    report.status = match report.status.as_str() {
        "" => time,
        status => format!("{status} ({time})"),
    };
    report
}

fn words(time: Duration) -> String {
    if time >= IN_MINUTES {
        format!("{} min", time.as_secs() / 60)
    } else {
        format!("{} s", time.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::Progress;

    use super::*;

    fn report(status: &str) -> RenderedProgress {
        Progress::of(1, None, status).detail(Value::Null)
    }

    #[test]
    fn a_line_is_harmless_and_says_how_long_it_may_take() {
        let redact: RedactText = Box::new(|text| text.replace("hunter2", "[redacted]"));
        let left = Some(Duration::from_secs(118));
        let shown = of_line(report("pass hunter2 \u{1b}[31m"), left, Some(&redact));
        assert_eq!(
            shown.status,
            "pass [redacted] \\u{1b}[31m (at most 118 s left)"
        );
        let long = of_line(
            report(&"x".repeat(500)),
            Some(Duration::from_mins(10)),
            None,
        );
        assert_eq!(
            long.status,
            format!("{}… (at most 10 min left)", "x".repeat(LINE_CHARS))
        );
    }

    #[test]
    fn an_estimate_counts_more_than_the_deadline() {
        let half = Progress::of(1, Some(2), "copying").elapsed(Duration::from_secs(7));
        let left = Some(Duration::from_secs(100));
        let shown = of_tool(half.detail(Value::Null), left, None);
        assert_eq!(shown.status, "copying (about 7 s left)");
    }

    #[test]
    fn what_a_mounted_server_says_is_passed_on() {
        let told = Progress::of(1, None, "half").detail(serde_json::json!({"progress": 0.5}));
        let shown = of_tool(told, Some(Duration::from_secs(9)), None);
        assert_eq!(shown.status, "half");
    }
}
