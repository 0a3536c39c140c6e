//! A moment as a person writes it: `2h` ago, `today`, `yesterday`, `2026-11-18`, or a whole time.

use haft_contract::host::Timestamp;
use haft_host::relative_time::RelativeTime;
use jiff::{Zoned, civil, tz::TimeZone};

/// What is accepted, for help and errors.
const WANTED: &str = "such as 2h, 7d, today, yesterday, 2026-11-18 or 2026-11-18T14:30:00Z";

/// A moment, or a day.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Moment {
    /// So long before now.
    Ago(RelativeTime),
    /// A whole day, so many days before this one.
    DaysAgo(i64),
    /// A whole day.
    Day(civil::Date),
    /// A time of day, here.
    Here(civil::DateTime),
    /// A moment everywhere.
    At(jiff::Timestamp),
}

/// Reads a moment.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "today" => return Ok(Moment::DaysAgo(0)),
        "yesterday" => return Ok(Moment::DaysAgo(1)),
        _ => {}
    }
    if let Ok(ago) = text.parse() {
        return Ok(Moment::Ago(ago));
    }
    if let Ok(at) = text.parse() {
        return Ok(Moment::At(at));
    }
    let is_day = !text.contains(['T', 't', ' ', ':']);
    if is_day && let Ok(day) = text.parse() {
        return Ok(Moment::Day(day));
    }
    if let Ok(here) = text.parse() {
        return Ok(Moment::Here(here));
    }
    Err(WANTED.to_owned())
}

impl Moment {
    /// The moment itself; of a day, its beginning.
    pub(crate) fn begin(&self, now: Timestamp) -> Timestamp {
        self.at(now, 0)
    }

    /// The moment itself; of a day, its end.
    pub(crate) fn end(&self, now: Timestamp) -> Timestamp {
        self.at(now, 1)
    }

    fn at(&self, now: Timestamp, days: i64) -> Timestamp {
        let here = zoned(now);
        let day = |date: civil::Date| {
            let date = date.checked_add(jiff::Span::new().days(days));
            let start = date.and_then(|date| date.to_zoned(TimeZone::system()));
            start.map_or(now, |start| of(start.timestamp()))
        };
        match self {
            Self::Ago(ago) => ago.before(now),
            Self::DaysAgo(ago) => {
                let date = here.date().checked_sub(jiff::Span::new().days(*ago));
                date.map_or(now, day)
            }
            Self::Day(date) => day(*date),
            Self::Here(time) => {
                let there = time.to_zoned(TimeZone::system());
                there.map_or(now, |there| of(there.timestamp()))
            }
            Self::At(at) => of(*at),
        }
    }
}

/// A moment on this machine's clock.
pub(crate) fn zoned(at: Timestamp) -> Zoned {
    let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::system())
}

fn of(at: jiff::Timestamp) -> Timestamp {
    Timestamp(at.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let hour = 3_600_000_000;
        // 2026-11-18, noon in UTC; a day begins at most half a day earlier or later elsewhere.
        let now = Timestamp(1_795_003_200_000_000);
        let begin = |text: &str| moment(text).unwrap().begin(now).0;
        let end = |text: &str| moment(text).unwrap().end(now).0;
        assert_eq!(begin("2h"), now.0 - 2 * hour);
        assert_eq!(end("2h"), now.0 - 2 * hour);
        assert_eq!(begin("2026-11-18T10:00:00Z"), now.0 - 2 * hour);
        assert_eq!(begin("2026-11-18T12:00:00+02:00"), now.0 - 2 * hour);
        assert!(begin("today") <= now.0 && now.0 < end("today"));
        assert_eq!(end("yesterday"), begin("today"));
        assert_eq!(end("2026-11-17"), begin("2026-11-18"));
        let noon = begin("2026-11-18T12:00:00") - begin("2026-11-18");
        assert_eq!(noon, 12 * hour);
        assert_eq!(begin("2026-11-18 12:00"), begin("2026-11-18T12:00:00"));
        for text in ["", "soon", "2026-13-01", "18.11.2026", "-2h", "12:00"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
