//! Moments and durations, for people and for programs.

use std::time::Duration;

use haft_contract::host::Timestamp;

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
        _ => format!("{:.1} s", exact / 1e6),
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
