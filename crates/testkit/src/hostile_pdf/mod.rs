//! PDFs made to hurt whoever reads them: what refers to itself, what unpacks without end, what lies
//! about its lengths. Each is smaller than four megabytes.

mod content;

use std::fmt::Write as _;

use crate::pdf::{HELVETICA, PdfMaker, lines};

/// What a PDF is called, and what makes it: several are large.
pub type HostilePdf = (&'static str, Box<dyn Fn() -> Vec<u8> + Send + Sync>);

/// Packs bytes as `/FlateDecode` unpacks them.
pub type Deflate = fn(&[u8]) -> Vec<u8>;

/// All of them.
pub fn all(deflate: Deflate) -> Vec<HostilePdf> {
    let groups = [
        circles(),
        bombs(deflate),
        tables(),
        nested(),
        content::drawings(),
        content::placed(deflate),
        content::fonts(deflate),
        malformed(),
    ];
    groups.into_iter().flatten().collect()
}

fn pdf(name: &'static str, make: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> HostilePdf {
    (name, Box::new(make))
}

/// A page that draws this.
fn page(name: &'static str, content: impl Fn() -> String + Send + Sync + 'static) -> HostilePdf {
    pdf(name, move || {
        PdfMaker::with_pages(&[&content()], HELVETICA).finish()
    })
}

/// An ordinary page whose objects are then changed.
fn changed(
    name: &'static str,
    change: impl Fn(&mut PdfMaker) + Send + Sync + 'static,
) -> HostilePdf {
    pdf(name, move || {
        let mut file = PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["words"])], HELVETICA);
        change(&mut file);
        file.finish()
    })
}

fn circles() -> Vec<HostilePdf> {
    vec![
        changed("a tree of pages in itself", |file| {
            file.set(
                2,
                "<< /Type /Pages /Kids [2 0 R 2 0 R 3 0 R 2 0 R] /Count 9 >>",
            );
        }),
        changed("pages that are each other's parents", |file| {
            file.set(2, "<< /Kids [5 0 R 6 0 R] >>");
            file.add("<< /Kids [6 0 R 2 0 R] >>");
            file.add("<< /Kids [5 0 R 2 0 R 3 0 R] >>");
        }),
        changed("a deep tree of pages", |file| {
            file.set(2, "<< /Kids [5 0 R] >>");
            for number in 6..5000 {
                file.add(format!("<< /Kids [{number} 0 R {number} 0 R] >>"));
            }
        }),
        changed("references in a circle", |file| {
            file.set(2, "5 0 R");
            file.add("6 0 R");
            file.add("5 0 R");
        }),
        changed("a root that is itself", |file| file.set(1, "1 0 R")),
        changed("a length that is its own stream", |file| {
            file.set(4, "<< /Length 4 0 R >>\nstream\nBT (x) Tj ET\nendstream");
        }),
        changed("lengths in a circle", |file| {
            file.set(4, "<< /Length 5 0 R >>\nstream\nx\nendstream");
            file.add("<< /Length 4 0 R >>\nstream\ny\nendstream");
        }),
        changed("a font that descends from itself", |file| {
            file.set(
                3,
                "<< /Type /Page /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
            );
            file.add(
                "<< /Subtype /Type0 /Encoding 5 0 R /ToUnicode 5 0 R /DescendantFonts [5 0 R] /W 5 0 R >>",
            );
        }),
    ]
}

fn bombs(deflate: Deflate) -> Vec<HostilePdf> {
    let drawing = move |name, make: fn(Deflate) -> (String, Vec<u8>)| {
        // Packed once: tests of readers measure the memory of their own process.
        let (filter, bytes) = make(deflate);
        changed(name, move |file| {
            let number = file.add_stream(&filter, &bytes);
            file.set(
                3,
                format!("<< /Type /Page /Contents {number} 0 R /Resources << /Font << {HELVETICA} >> >> >>"),
            );
        })
    };
    let mut all = vec![
        drawing("a bomb of blanks", |deflate| {
            (
                "/Filter /FlateDecode".to_owned(),
                deflate(&vec![b' '; 30_000_000]),
            )
        }),
        drawing("a bomb in a bomb", |deflate| {
            let inner = deflate(&deflate(&vec![b' '; 30_000_000]));
            ("/Filter [/FlateDecode /FlateDecode]".to_owned(), inner)
        }),
        drawing("a bomb of text", |deflate| {
            let content =
                "BT /F1 9 Tf 9 9 Td ".to_owned() + &"(aaaaaaaaaaaaaaaaaaaaaaaa)Tj ".repeat(400_000);
            (
                "/Filter /FlateDecode".to_owned(),
                deflate(content.as_bytes()),
            )
        }),
        drawing("a hundred filters", |deflate| {
            (
                format!("/Filter [{}]", "/FlateDecode ".repeat(100)),
                deflate(b"x"),
            )
        }),
        drawing("a bomb of zeros in base 85", |_| {
            ("/Filter /ASCII85Decode".to_owned(), vec![b'z'; 3_900_000])
        }),
        drawing("runs of one byte", |_| {
            (
                "/Filter [/RunLengthDecode /RunLengthDecode]".to_owned(),
                [129, 129].repeat(1_900_000),
            )
        }),
        drawing("codes that mean nothing", |_| {
            (
                "/Filter /LZWDecode".to_owned(),
                [0x80, 0x0b, 0x60, 0x50].repeat(900_000),
            )
        }),
        drawing("codes that grow", |_| {
            // Each code is the one before with its first byte once more.
            let mut bits = format!("{:09b}", 256);
            for code in 65..66 {
                let _ = write!(bits, "{code:09b}");
            }
            for code in 258..4000 {
                let width = match code {
                    0..=510 => 9,
                    511..=1022 => 10,
                    1023..=2046 => 11,
                    _ => 12,
                };
                let _ = write!(bits, "{code:0width$b}");
            }
            let bytes = bits.as_bytes().chunks(8).map(|byte| {
                byte.iter()
                    .fold(0_u8, |value, bit| value << 1 | (bit - b'0'))
            });
            (
                "/Filter [/LZWDecode /LZWDecode]".to_owned(),
                bytes.collect(),
            )
        }),
        drawing("a row as wide as the world", |deflate| {
            (
                "/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 99999999999999 /Colors 9999 >>"
                    .to_owned(),
                deflate(b"some bytes"),
            )
        }),
        drawing("rows that differ", |deflate| {
            (
                "/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 1 >>".to_owned(),
                deflate(&vec![4; 8_000_000]),
            )
        }),
    ];
    let packed = deflate(&vec![b' '; 20_000_000]);
    all.push(changed("a bomb drawn a thousand times", move |file| {
        let bomb = file.add_stream("/Filter /FlateDecode", &packed);
        let parts = format!("{bomb} 0 R ").repeat(1000);
        file.set(3, format!("<< /Type /Page /Contents [{parts}] >>"));
    }));
    let file = PdfMaker::with_pages(&["x"], HELVETICA).finish_packed(move |bytes| {
        let bomb = [bytes, &vec![b' '; 30_000_000]].concat();
        ("/Filter /FlateDecode", deflate(&bomb))
    });
    all.push(pdf("objects packed in a bomb", move || file.clone()));
    all
}

fn tables() -> Vec<HostilePdf> {
    let table = |name, make: fn(usize) -> String| {
        pdf(name, move || {
            let whole = PdfMaker::with_pages(&["x"], HELVETICA).finish();
            let at = whole.windows(4).position(|part| part == b"xref");
            let at = at.expect("a file has a table");
            [&whole[..at], make(at).as_bytes()].concat()
        })
    };
    let packed = |name, entries: &'static str| {
        pdf(name, move || {
            let mut file = PdfMaker::with_pages(&["x"], HELVETICA).finish();
            let at = file.len();
            let table = format!(
                "9 0 obj\n<< /Type /XRef /Root 1 0 R /Length 40 {entries} >>\nstream\n{}\nendstream\nendobj\nstartxref\n{at}\n%%EOF",
                "\u{1}".repeat(40)
            );
            file.extend(table.into_bytes());
            file
        })
    };
    vec![
        table("a table of four billion objects", |at| {
            format!(
                "xref\n0 4294967295\n0000000000 65535 f \ntrailer << /Root 1 0 R >>\nstartxref\n{at}\n%%EOF"
            )
        }),
        table("a table before itself", |at| {
            format!(
                "xref\n0 1\n0000000000 65535 f \ntrailer << /Root 1 0 R /Prev {at} /XRefStm {at} >>\nstartxref\n{at}\n%%EOF"
            )
        }),
        table("a table beyond the end", |_| {
            "startxref\n18446744073709551615\n%%EOF".to_owned()
        }),
        table("places that are wrong", |at| {
            format!(
                "xref\n0 5\n{}trailer << /Root 1 0 R >>\nstartxref\n{at}\n%%EOF",
                "9999999999 00000 n \n".repeat(5)
            )
        }),
        table("all objects at one place", |at| {
            format!(
                "xref\n0 90000\n{}trailer << /Root 1 0 R >>\nstartxref\n{at}\n%%EOF",
                "0000000017 00000 n \n".repeat(90_000)
            )
        }),
        table("a hundred thousand ends", |_| {
            "trailer << /Root 1 0 R /Size 5 >>\n".repeat(100_000)
        }),
        packed("rows without a width", "/W [0 0 0] /Size 99999999"),
        packed(
            "rows of great width",
            "/W [99999999999 8 9223372036854775807] /Size 9",
        ),
        packed(
            "ranges without end",
            "/W [1 1 0] /Index [0 9223372036854775807 9223372036854775807 9]",
        ),
        packed(
            "numbers below nothing",
            "/W [-1 -1 -1] /Index [-5 -5] /Size -9",
        ),
        pdf("a stream of objects in itself", || {
            let mut file =
                PdfMaker::with_pages(&["x"], HELVETICA).finish_packed(|bytes| ("", bytes.to_vec()));
            let text = String::from_utf8_lossy(&file)
                .replace("/N 4", "/N 99999999")
                .replace("/First ", "/Extends 5 0 R /First 9");
            file = text.into_bytes();
            file
        }),
        pdf("a hundred thousand objects without an end", || {
            let mut file = "%PDF-1.4\n".to_owned();
            for number in 0..100_000 {
                let _ = writeln!(file, "{number} 0 obj << /A (");
            }
            file.into_bytes()
        }),
        pdf("a hundred thousand streams without an end", || {
            let mut file = "%PDF-1.4\n".to_owned();
            for number in 0..60_000 {
                let _ = writeln!(file, "{number} 0 obj<</Length 9>>stream");
            }
            file.into_bytes()
        }),
    ]
}

fn nested() -> Vec<HostilePdf> {
    vec![
        changed("lists in lists", |file| {
            file.set(2, format!("<< /Kids {}", "[".repeat(2_000_000)));
        }),
        changed("dictionaries in dictionaries", |file| {
            file.set(3, "<< /Resources ".repeat(200_000));
        }),
        page("lists in lists on a page", || "[".repeat(3_000_000)),
        page("lists within lists, closed", || {
            "[".repeat(900_000) + &"]".repeat(900_000) + " TJ"
        }),
        page("texts in texts", || "(".repeat(3_000_000)),
        page("a text without an end", || {
            format!("BT /F1 10 Tf ({}", "a".repeat(3_000_000))
        }),
        page("digits without an end", || {
            format!("BT /F1 {} Tf <{}", "9".repeat(900_000), "4".repeat(900_000))
        }),
        page("a list of a million numbers", || {
            format!("[{}] TJ", "0 ".repeat(1_500_000))
        }),
        page("comments", || "%\n".repeat(1_500_000)),
        page("states put aside", || "q ".repeat(1_500_000)),
        page("states taken back", || "Q ".repeat(1_500_000)),
        page("names of signs that mean numbers", || {
            "/#4#zz##41 ".repeat(300_000)
        }),
    ]
}

fn malformed() -> Vec<HostilePdf> {
    let length = |name, length: &'static str| {
        changed(name, move |file| {
            file.set(
                4,
                format!("<< /Length {length} >>\nstream\nBT /F1 9 Tf (x) Tj ET\nendstream"),
            );
        })
    };
    vec![
        length("a length below nothing", "-1"),
        length("a length beyond the end", "9223372036854775807"),
        length("a length that is too short", "3"),
        length("a length that is a name", "/Long"),
        pdf("half a file", || {
            let whole =
                PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["words"; 900])], HELVETICA)
                    .finish();
            whole[..whole.len() / 2].to_vec()
        }),
        pdf("a head alone", || b"%PDF-1.7\n".to_vec()),
        pdf("a page that is a PDF", || {
            let file =
                PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["words"])], HELVETICA).finish();
            [
                &b"%PDF-1.7\n<!DOCTYPE html><html><script>alert(1)</script><!--"[..],
                &file,
            ]
            .concat()
        }),
        pdf("random bytes", || {
            let mut seed = 1_u64;
            let next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_be_bytes()[0]
            };
            let bytes: Vec<u8> = std::iter::repeat_with(next).take(2_000_000).collect();
            [&b"%PDF-1.7\n"[..], &bytes].concat()
        }),
        pdf("words in any order", || {
            let words = [
                "obj ",
                "1 0 ",
                "endobj ",
                "stream\n",
                "endstream ",
                "<< ",
                ">> ",
                "[ ",
                "] ",
                "/Kids ",
                "/Type /ObjStm ",
                "R ",
                "xref ",
                "trailer ",
                "( ",
                ") ",
                "startxref ",
            ];
            let mut seed = 7_usize;
            let mut file = "%PDF-1.4\n".to_owned();
            for _ in 0..300_000 {
                seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345) % 2_147_483_648;
                file.push_str(words[seed / 65536 % words.len()]);
            }
            file.into_bytes()
        }),
        changed("a title without end", |file| {
            file.trailer = format!("/Info << /Title ({}) >>", "a\\\n".repeat(900_000));
        }),
        changed("encrypted by nobody", |file| {
            "/Encrypt 99 0 R".clone_into(&mut file.trailer);
        }),
    ]
}
