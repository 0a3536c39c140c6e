//! A chart of calls, drawn by the server: one column for each day. The table below it says the same in
//! numbers.

use maud::{Markup, html};

use super::text::{count, grouped};
use crate::api::stats::UsageView;

/// How many days a chart has.
pub(super) const MAX_DAYS: usize = 42;

/// The size of the picture, in its own units.
const WIDTH: u64 = 840;
const HEIGHT: u64 = 180;

/// The room for one column at most.
const MAX_STEP: u64 = 56;

/// The parts of a column, from the bottom up.
struct ColumnParts {
    went_ahead: u64,
    failed: u64,
    denied: u64,
}

impl ColumnParts {
    fn of(day: &UsageView) -> Self {
        Self {
            went_ahead: day
                .calls
                .saturating_sub(day.failed)
                .saturating_sub(day.denied),
            failed: day.failed,
            denied: day.denied,
        }
    }

    fn heights(&self, most: u64) -> [(&'static str, u64); 3] {
        let height = |calls: u64| calls.saturating_mul(HEIGHT) / most.max(1);
        [
            ("ok", height(self.went_ahead)),
            ("failed", height(self.failed)),
            ("denied", height(self.denied)),
        ]
    }
}

/// Calls by day, the oldest on the left.
pub(super) fn by_day(days: &[UsageView]) -> Markup {
    let shown: Vec<&UsageView> = days.iter().take(MAX_DAYS).collect();
    let most = shown.iter().map(|day| day.calls).max().unwrap_or(0);
    let columns = u64::try_from(shown.len()).unwrap_or(1).max(1);
    let step = (WIDTH / columns).min(MAX_STEP);
    let total: u64 = shown.iter().map(|day| day.calls).sum();
    let told = format!(
        "{} in {}, at most {} in one day",
        count(total, "call", "calls"),
        count(columns, "day", "days"),
        grouped(most)
    );
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 2) } role="img" aria-label=(told) preserveAspectRatio="xMinYMax meet" {
                line.base x1="0" x2=(WIDTH) y1=(HEIGHT + 1) y2=(HEIGHT + 1) {}
                @for (index, day) in (0_u64..).zip(shown.iter().rev()) { (column(index, day, step, most)) }
            }
            figcaption {
                span.key.ok { "went ahead" } span.key.failed { "failed" } span.key.denied { "denied" }
                " " span.dim { (told) }
            }
        }
    }
}

fn column(index: u64, day: &UsageView, step: u64, most: u64) -> Markup {
    let (mut top, mut parts) = (HEIGHT, Vec::new());
    for (class, height) in ColumnParts::of(day).heights(most) {
        top = top.saturating_sub(height);
        if height > 0 {
            parts.push((class, top, height));
        }
    }
    let gap = if step > 12 { 4 } else { 1 };
    html! {
        g {
            title { (day.group) ": " (count(day.calls, "call", "calls")) }
            @for (class, y, height) in parts {
                rect.(class) x=(index * step + gap / 2) y=(y) width=(step.saturating_sub(gap).max(1)) height=(height) {}
            }
        }
    }
}
