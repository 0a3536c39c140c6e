//! How text and moments look on a page.
//!
//! Names, summaries and output come from agents. `maud` escapes what a browser would take for markup;
//! what would only look like something else (controls, direction overrides, letters without width) is
//! spelt out here, as on a terminal.

use std::time::Duration;

use haft_contract::host::{Clock as _, Timestamp};
use haft_host::screen_text::{sanitise, visible};
use haft_runtime::SystemClock;
use maud::{Markup, html};

use crate::time;

/// A text on one line, in which nothing hides.
pub(super) fn seen(text: &str) -> String {
    visible::line(text)
}

/// A text of several lines; line ends and tabs stay.
pub(super) fn block(text: &str) -> String {
    sanitise::block(text)
}

/// Text that stands where it may be cut: a summary in a list.
pub(super) fn short(text: &str, most: usize) -> String {
    cut(visible::line(text), most)
}

/// Cuts text that is spelt out already.
pub(super) fn cut(seen: String, most: usize) -> String {
    if seen.chars().count() <= most {
        return seen;
    }
    let kept: String = seen.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A value that a form carries and nobody reads, as JSON: in it, too, nothing hides.
pub(super) fn carried(value: &impl serde::Serialize) -> String {
    sanitise::json(&serde_json::to_string(value).unwrap_or_default())
}

/// A moment, as an age that the script keeps up to date.
pub(super) fn moment(text: &str) -> Markup {
    let Some(at) = time::parse(text) else {
        return html! { (seen(text)) };
    };
    html! {
        time datetime=(text) title=(absolute(text)) { (age(at, SystemClock.now())) }
    }
}

/// A moment with its date and time of day.
pub(super) fn date(text: &str) -> Markup {
    html! { time.fixed datetime=(text) { (absolute(text)) } }
}

/// A moment as people write it, in UTC.
fn absolute(text: &str) -> String {
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    parsed.map_or_else(
        |_| seen(text),
        |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// How long ago a moment is, or how far ahead.
fn age(at: Timestamp, now: Timestamp) -> String {
    let micros = now.0.saturating_sub(at.0);
    let seconds = micros.unsigned_abs() / 1_000_000;
    let long = match seconds {
        0..=4 => return "now".to_owned(),
        5..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    };
    if micros >= 0 {
        format!("{long} ago")
    } else {
        format!("in {long}")
    }
}

/// How long something took.
pub(super) fn length(took: Duration) -> String {
    let micros = took.as_micros();
    match micros {
        0..1_000 => "<1 ms".to_owned(),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", took.as_secs_f64()),
        _ => {
            let seconds = took.as_secs();
            let (minutes, rest) = (seconds / 60, seconds % 60);
            if minutes < 60 {
                format!("{minutes} min {rest} s")
            } else {
                format!("{} h {} min", minutes / 60, minutes % 60)
            }
        }
    }
}

/// How long it was from one moment to another.
pub(super) fn between(from: &str, to: &str) -> Option<Duration> {
    let (from, to) = (time::parse(from)?, time::parse(to)?);
    let micros = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
    Some(Duration::from_micros(micros))
}

/// A count of things with its word: `1 call`, `2 calls`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{} {many}", grouped(number))
    }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An address with one value that may have any characters.
pub(super) fn address(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        for (millis, expect) in [
            (0, "<1 ms"),
            (12, "12 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (3_700_000, "1 h 1 min"),
        ] {
            assert_eq!(length(Duration::from_millis(millis)), expect);
        }
    }

    #[test]
    fn ages_go_both_ways() {
        let now = Timestamp(1_000_000_000_000);
        for (seconds, expect) in [
            (0, "now"),
            (-30, "30 s ago"),
            (-120, "2 min ago"),
            (7_200, "in 2 h"),
            (-200_000, "2 d ago"),
        ] {
            let at = Timestamp(now.0 + seconds * 1_000_000);
            assert_eq!(age(at, now), expect);
        }
    }

    #[test]
    fn nothing_hides_in_text() {
        assert_eq!(seen("a\u{202e}b"), "a⟨U+202E⟩b");
        assert_eq!(short("abcdef", 4), "abc…");
        assert!(!block("a\u{1b}[31mb\n").contains('\u{1b}'));
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(
            address("/calls", &[("search", "a&b"), ("tool", "")]),
            "/calls?search=a%26b"
        );
    }
}
