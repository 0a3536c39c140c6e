//! Numbers as bars and sparklines, for a terminal that has no more than letters.

/// The eighths of a block, from the side.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The heights of a sparkline.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of at most this many columns for a share of the greatest number. What is not nothing is seen.
pub(crate) fn bar(number: u64, greatest: u64, columns: u64) -> String {
    if number == 0 || greatest == 0 {
        return String::new();
    }
    let eighths = u128::from(number) * u128::from(columns) * 8 / u128::from(greatest);
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).max(1);
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{rest}", "█".repeat(eighths / 8))
}

/// One character for each number, as high as its share of the greatest; a dot for nothing.
pub(crate) fn sparkline(numbers: &[u64]) -> String {
    let greatest = numbers.iter().copied().max().unwrap_or(0);
    numbers
        .iter()
        .map(|number| {
            if *number == 0 {
                return '·';
            }
            let height = u128::from(*number) * 8 / u128::from(greatest.max(1));
            let height = usize::try_from(height).unwrap_or(8).clamp(1, 8);
            HEIGHTS.get(height - 1).copied().unwrap_or(' ')
        })
        .collect()
}

/// Bytes a person can read.
pub(crate) fn bytes(bytes: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown with one digit after the point"
    )]
    let exact = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", exact / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", exact / 1e6),
        _ => format!("{:.1} GB", exact / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_shares_and_never_hide_what_is_there() {
        assert_eq!(bar(0, 10, 8), "");
        assert_eq!(bar(10, 10, 8), "████████");
        assert_eq!(bar(5, 10, 8), "████");
        assert_eq!(bar(1, 1_000_000, 8), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX, 4), "████");
        assert_eq!(sparkline(&[0, 1, 4, 8]), "·▁▄█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[u64::MAX]), "█");
    }

    #[test]
    fn bytes_are_said_in_one_unit() {
        for (number, said) in [
            (999, "999 B"),
            (1_500, "1.5 kB"),
            (2_000_000, "2.0 MB"),
            (3_100_000_000, "3.1 GB"),
        ] {
            assert_eq!(bytes(number), said);
        }
    }
}
