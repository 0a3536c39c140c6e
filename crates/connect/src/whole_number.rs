//! Estimates of databases, which count in fractions of rows.

/// A number without the decimals that nobody needs. None is negative.
pub(crate) fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates"
    )]
    let whole = number.ceil() as u64;
    whole
}
