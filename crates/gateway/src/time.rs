//! Moments on the wire: RFC 3339 in UTC.

use haft_contract::host::Timestamp;

/// A moment as programs read it.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}

/// The moment that a program wrote, if it is one.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(at.as_microsecond()))
}
