//! How wide the signs of the fonts are that every reader has, and that files therefore do not describe.

use std::collections::BTreeMap;

/// From the blank to the tilde, in thousandths.
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// The same of the other.
const TIMES: [u16; 95] = [
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500,
    500, 500, 500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611,
    556, 722, 722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722,
    722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500,
    278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541,
];

/// The width of every sign of a typewriter.
const COURIER: f64 = 600.0;

/// Adds the widths of the font that has this name or is most like it.
pub(super) fn add(name: &[u8], widths: &mut BTreeMap<u32, f64>) {
    let is = |wanted: &[u8]| super::tables::find(name, wanted).is_some();
    if is(b"Courier") || is(b"Mono") {
        widths.extend((32..256).map(|code| (code, COURIER)));
        return;
    }
    let listed = if is(b"Times") || is(b"Roman") || is(b"Serif") {
        TIMES
    } else {
        HELVETICA
    };
    widths.extend((32..).zip(listed.map(f64::from)));
}
