//! Moments and durations, for people and for programs.

use std::time::Duration;

use haft_contract::host::Timestamp;

use super::moment::zoned;

/// RFC 3339 in UTC, for programs.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}

/// The local date and time of day.
pub(crate) fn local(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => at
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => at.0.to_string(),
    }
}

/// The local day and time, as short as a list needs it; with the year if it is not this one.
pub(crate) fn short(at: Timestamp) -> String {
    let at = zoned(at);
    let this_year = jiff::Zoned::now().year();
    if at.year() == this_year {
        at.strftime("%m-%d %H:%M:%S").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// The local time of day.
pub(crate) fn of_day(at: Timestamp) -> String {
    zoned(at).strftime("%H:%M:%S").to_string()
}

/// A duration a person can read.
pub(crate) fn duration(microseconds: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown with one digit after the point"
    )]
    let exact = microseconds as f64;
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..1_000_000 => format!("{:.1} ms", exact / 1e3),
        1_000_000..10_000_000 => format!("{:.1} s", exact / 1e6),
        10_000_000..60_000_000 => format!("{} s", microseconds / 1_000_000),
        60_000_000..3_600_000_000 => {
            let seconds = microseconds / 1_000_000;
            parts((seconds / 60, "min"), (seconds % 60, "s"))
        }
        3_600_000_000..172_800_000_000 => {
            let minutes = microseconds / 60_000_000;
            parts((minutes / 60, "h"), (minutes % 60, "min"))
        }
        _ => {
            let hours = microseconds / 3_600_000_000;
            parts((hours / 24, "d"), (hours % 24, "h"))
        }
    }
}

/// A number and its unit, and what is left if it is not nothing.
fn parts((number, unit): (u64, &str), (rest, smaller): (u64, &str)) -> String {
    match rest {
        0 => format!("{number} {unit}"),
        rest => format!("{number} {unit} {rest} {smaller}"),
    }
}

/// An elapsed or remaining time, in one unit: `5s`, `12m`, `3h`, `9d`.
pub(crate) fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        for (micros, said) in [
            (7, "7 µs"),
            (1_500, "1.5 ms"),
            (1_200_000, "1.2 s"),
            (184_000_000, "3 min 4 s"),
            (120_000_000, "2 min"),
            (7_380_000_000, "2 h 3 min"),
            (266_400_000_000, "3 d 2 h"),
        ] {
            assert_eq!(duration(micros), said);
        }
    }
}
