//! What pages draw without end, and fonts that lie.

use std::fmt::Write as _;

use super::{Deflate, HostilePdf, changed, page, pdf};
use crate::pdf::{HELVETICA, PdfMaker, lines};

/// Drawings, pictures and pages.
pub(super) fn drawings() -> Vec<HostilePdf> {
    vec![
        changed("a drawing in itself", |file| {
            file.set(
                3,
                "<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 4 0 R >> >> >>",
            );
            file.set(4, "<< /Subtype /Form /Length 5 /Resources << /XObject << /X 4 0 R >> >> >>\nstream\n/X Do\nendstream");
        }),
        changed("drawings in drawings, ten of each", |file| {
            file.set(
                3,
                "<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>",
            );
            file.set(4, "<< /Length 5 >>\nstream\n/X Do\nendstream");
            for number in 6..30 {
                let content = "/X Do ".repeat(10);
                file.add_stream(
                    &format!("/Subtype /Form /Resources << /XObject << /X {number} 0 R >> >>"),
                    content.as_bytes(),
                );
            }
        }),
        page("places beyond all places", || {
            "99999999 0 0 99999999 99999999 99999999 cm ".repeat(50) + "BT /F1 9 Tf (x) Tj ET"
        }),
        page("sizes that are none", || {
            "BT /F1 0 Tf (a) Tj /F1 -1e400 Tf (b) Tj 0 Tz (c) Tj 999999999999999999999999 Ts (d) Tj"
                .to_owned()
        }),
        page("a picture without an end", || {
            format!("BI /W 1 ID {}", "E I".repeat(1_000_000))
        }),
        page("pictures", || "BI ID x EI ".repeat(300_000)),
        page("painted areas", || {
            "0 0 1 1 re f 1 g BT /F1 9 Tf (a) Tj ET ".repeat(60_000)
        }),
        pdf("a hundred thousand pages that are one", || {
            let mut file = PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["words"])], HELVETICA);
            file.set(
                2,
                format!(
                    "<< /Kids [{}] /Count 99999999 >>",
                    "<< /Contents 4 0 R >> ".repeat(100_000)
                ),
            );
            file.finish()
        }),
        pdf("pages that inherit much", || {
            let mut file = PdfMaker::with_pages(&["x"; 1500], HELVETICA);
            let kids = (0..1500).fold(String::new(), |mut kids, index| {
                let _ = write!(kids, "{} 0 R ", 3 + 2 * index);
                kids
            });
            let much = (0..20_000).fold(String::new(), |mut much, number| {
                let _ = write!(much, "/F{number} [1 2 3] ");
                much
            });
            file.set(
                2,
                format!("<< /Kids [{kids}] /Resources << /Font << {much} >> >> >>"),
            );
            for index in 0..1500 {
                file.set(
                    3 + 2 * index,
                    format!("<< /Contents {} 0 R >>", 4 + 2 * index),
                );
            }
            file.finish()
        }),
    ]
}

/// Signs in places where no text has them.
pub(super) fn placed(deflate: Deflate) -> Vec<HostilePdf> {
    let each = |name, make: fn(u32) -> String, count: u32| {
        let content = (0..count).fold("BT /F1 9 Tf ".to_owned(), |mut content, number| {
            content.push_str(&make(number));
            content
        });
        let packed = deflate(content.as_bytes());
        pdf(name, move || {
            let mut file = PdfMaker::with_pages(&["x"], HELVETICA);
            file.set(4, "null");
            let number = file.add_stream("/Filter /FlateDecode", &packed);
            file.set(
                3,
                format!("<< /Type /Page /MediaBox [0 0 9999 9999] /Contents {number} 0 R /Resources << /Font << {HELVETICA} >> >> >>"),
            );
            file.finish()
        })
    };
    vec![
        each(
            "signs at one place",
            |_| "(i)Tj -2 0 Td ".to_owned(),
            300_000,
        ),
        each(
            "signs all over the page",
            |number| {
                let (x, y) = scattered(number);
                format!("1 0 0 1 {x} {y} Tm(a)Tj ")
            },
            150_000,
        ),
        each(
            "each line a little below",
            |number| {
                format!(
                    "1 0 0 1 9 {}.{:03} Tm(a)Tj ",
                    9000 - number / 1000,
                    999 - number % 1000
                )
            },
            100_000,
        ),
        each(
            "one line as long as the page",
            |number| {
                format!(
                    "1 0 0 1 {}.{:03} 500 Tm(a)Tj ",
                    number / 100 * 20,
                    number % 100
                )
            },
            40_000,
        ),
        each(
            "each sign turned",
            |number| {
                format!(
                    "1 0.{number:06} -0.{number:06} 1 {} {} Tm(a)Tj ",
                    number % 900,
                    number % 700
                )
            },
            100_000,
        ),
        each(
            "a table of a hundred thousand cells",
            |number| {
                format!(
                    "1 0 0 1 {} {} Tm(a)Tj ",
                    number % 300 * 30,
                    number / 300 * 20
                )
            },
            100_000,
        ),
        each(
            "columns in columns",
            |number| {
                let column = number % 7;
                format!(
                    "1 0 0 1 {} {} Tm(a word and many others of it)Tj ",
                    column * 1400,
                    9000 - number / 7 * 12
                )
            },
            5000,
        ),
    ]
}

/// Where a number puts something, as if by chance.
fn scattered(number: u32) -> (u32, u32) {
    let mixed = number.wrapping_mul(2_654_435_761);
    (mixed % 9973, mixed / 9973 % 9967)
}

/// Fonts and their tables.
pub(super) fn fonts(deflate: Deflate) -> Vec<HostilePdf> {
    let font = move |name, font: &'static str, table: fn() -> String| {
        pdf(name, move || {
            let content = "BT /F1 9 Tf 9 9 Td ".to_owned() + &"<00010203FFFF>Tj ".repeat(2000);
            let mut file =
                PdfMaker::with_pages(&[&content], &format!("/F1 << /Type /Font {font} >>"));
            file.add_stream("/Filter /FlateDecode", &deflate(table().as_bytes()));
            file.finish()
        })
    };
    vec![
        font(
            "a range of all codes",
            "/Subtype /Type1 /ToUnicode 5 0 R",
            || "1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange ".repeat(10_000),
        ),
        font(
            "a list of what codes are",
            "/Subtype /Type1 /ToUnicode 5 0 R",
            || {
                format!(
                    "1 beginbfrange <FFFFFFF0> <FFFFFFFF> [{}] endbfrange",
                    "<0041> ".repeat(250_000)
                )
            },
        ),
        font(
            "long words for one code",
            "/Subtype /Type1 /ToUnicode 5 0 R",
            || format!("1 beginbfchar <01> <{}> endbfchar", "0041".repeat(900_000)),
        ),
        font(
            "halves of characters",
            "/Subtype /Type1 /ToUnicode 5 0 R",
            || "1 beginbfchar <01> <D83D> <02> <DC00DC00> <03> <0000> endbfchar".to_owned(),
        ),
        font(
            "widths without end",
            "/Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /W [0 9223372036854775807 5 9223372036854775807 [1 2 3]] /DW -9999999999 >>]",
            String::new,
        ),
        font(
            "differences beyond the table",
            "/Subtype /Type1 /Encoding << /Differences [9223372036854775807 /A /B -5 /C 255 /D /E /F] >>",
            String::new,
        ),
        font(
            "codes of no length",
            "/Subtype /Type0 /Encoding 5 0 R /DescendantFonts [<< >>]",
            || {
                "2 begincodespacerange <> <> <FFFFFFFFFFFFFF> <00> endcodespacerange 1 begincidrange <0000> <FFFF> 99999999999 endcidrange".to_owned()
            },
        ),
        font(
            "a program without an end",
            "/Subtype /Type1 /FontDescriptor << /FontFile 5 0 R >>",
            || {
                format!(
                    "/Encoding {}",
                    "dup 99999999999999999999 /A put ".repeat(90_000)
                )
            },
        ),
        font(
            "signs that are drawn, of no size",
            "/Subtype /Type3 /FontMatrix [0 0 0 0 0 0] /FontBBox [0 0 0 0] /FirstChar -3 /Widths [1 2]",
            String::new,
        ),
    ]
}
