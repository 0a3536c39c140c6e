//! A period before now, as a person writes it: `90s`, `10m`, `2h`, `7d`, `4w`.

use std::{str::FromStr, time::Duration};

use haft_contract::host::Timestamp;

/// How long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeTime(Duration);

impl RelativeTime {
    /// The period itself.
    pub fn period(self) -> Duration {
        self.0
    }

    /// The moment this long before another.
    pub fn before(self, now: Timestamp) -> Timestamp {
        let micros = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX);
        Timestamp(now.0.saturating_sub(micros))
    }
}

impl FromStr for RelativeTime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "a number and a unit: 90s, 10m, 2h, 7d or 4w";
        let unit = text.char_indices().next_back().ok_or(WANTED)?;
        let (number, seconds) = match unit {
            (at, 's') => (text.get(..at), 1),
            (at, 'm') => (text.get(..at), 60),
            (at, 'h') => (text.get(..at), 60 * 60),
            (at, 'd') => (text.get(..at), 24 * 60 * 60),
            (at, 'w') => (text.get(..at), 7 * 24 * 60 * 60),
            _ => return Err(WANTED),
        };
        let number: u32 = number.unwrap_or("").parse().map_err(|_| WANTED)?;
        Ok(Self(Duration::from_secs(u64::from(number) * seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_time_and_nothing_else_is() {
        let seconds = |text: &str| text.parse::<RelativeTime>().map(|ago| ago.0.as_secs());
        for (text, expect) in [
            ("90s", 90),
            ("10m", 600),
            ("2h", 7200),
            ("7d", 604_800),
            ("4w", 2_419_200),
        ] {
            assert_eq!(seconds(text), Ok(expect), "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "-7d",
            "7 d",
            "1.5h",
            "7days",
            "99999999999d",
            "7ä",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
        let ago: RelativeTime = "1s".parse().unwrap();
        assert_eq!(ago.before(Timestamp(5_000_000)), Timestamp(4_000_000));
    }
}
