//! What PDFs become.

use haft_documents::{Cut, Document, Extractor, Form, Kind, ReadableText, read};
use haft_testkit::pdf::{HELVETICA, PdfMaker, lines};

pub(crate) fn pdf(bytes: &[u8], form: Form) -> ReadableText {
    read(&Document {
        bytes,
        kind: Kind::Pdf,
        charset: None,
        url: "https://example.com/paper.pdf",
        form,
    })
}

#[track_caller]
fn check(file: &PdfMaker, markdown: &str) -> ReadableText {
    let reading = pdf(&file.finish(), Form::Markdown);
    assert_eq!(reading.text, markdown);
    reading
}

/// A page whose content is this, with a font for it.
#[track_caller]
fn check_font(font: &str, more: &[(&str, &[u8])], content: &str, text: &str) -> ReadableText {
    let content = format!("BT /F1 12 Tf 72 700 Td {content} ET");
    let mut file = PdfMaker::with_pages(&[&content], &format!("/F1 {font}"));
    for (entries, bytes) in more {
        if bytes.is_empty() {
            file.add(*entries);
        } else {
            file.add_stream(entries, bytes);
        }
    }
    check(&file, &format!("## Page 1\n\n{text}\n"))
}

pub(crate) fn deflated(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6)
}

const LEFT: [&str; 4] = [
    "The left column begins here and it",
    "goes on for several lines of prose",
    "that have about the same length and",
    "ends with a sentence that is short.",
];
const RIGHT: [&str; 4] = [
    "The right column is read after the",
    "left one, and not line by line with",
    "it as they stand beside each other",
    "on the page that they both are on.",
];

#[test]
fn lines_become_paragraphs_and_larger_ones_headings() {
    let page = [
        lines(72, 720, 18, 20, &["On Tea"]),
        lines(
            72,
            690,
            10,
            12,
            &[
                "Boil fresh water, and pour it over the leaves while it is still",
                "boiling. Wait for three minutes, and for four if you like it some-",
                "what stronger.",
            ],
        ),
        lines(72, 630, 10, 12, &["Green tea wants less heat."]),
        lines(72, 600, 10, 12, &["let x = 1;", "let y = 2;"]),
    ];
    let file = PdfMaker::with_pages(
        &[&page.concat(), &lines(72, 700, 10, 12, &["The end."])],
        HELVETICA,
    );
    let reading = check(
        &file,
        "## Page 1\n\n### On Tea\n\nBoil fresh water, and pour it over the leaves while it is still \
         boiling. Wait for three minutes, and for four if you like it somewhat stronger.\n\n\
         Green tea wants less heat.\n\nlet x = 1;\nlet y = 2;\n\n## Page 2\n\nThe end.\n",
    );
    assert_eq!(reading.extractor, Extractor::PdfText);
    assert_eq!(reading.cut, []);
    let headings: Vec<(u8, &str, usize)> = reading
        .headings
        .iter()
        .map(|heading| (heading.level, heading.text.as_str(), heading.offset))
        .collect();
    assert_eq!(
        headings,
        [(2, "Page 1", 0), (3, "On Tea", 11), (2, "Page 2", 219)]
    );
    let plain = pdf(&file.finish(), Form::Text).text;
    assert!(plain.starts_with("Page 1\n\nOn Tea\n\nBoil"), "{plain}");
}

#[test]
fn columns_are_read_one_after_the_other_and_tables_by_rows() {
    let title = lines(
        120,
        740,
        14,
        16,
        &["A Title That Stands Above Both Columns Of It"],
    );
    let notes =
        ["A note that is as wide as the whole page is, and therefore stands below both of them."];
    let page = [
        title,
        lines(72, 700, 10, 12, &LEFT),
        // Not on the same lines.
        lines(320, 695, 10, 12, &RIGHT),
        lines(72, 600, 10, 12, &notes),
    ];
    let file = PdfMaker::with_pages(&[&page.concat()], HELVETICA);
    let (left, right) = (LEFT.join(" "), RIGHT.join(" "));
    check(
        &file,
        &format!(
            "## Page 1\n\n### A Title That Stands Above Both Columns Of It\n\n{left}\n\n{right}\n\n{}\n",
            notes[0]
        ),
    );
    let table = [
        lines(72, 700, 10, 14, &["Name", "Assam", "Sencha"]),
        lines(200, 700, 10, 14, &["Heat", "100", "70"]),
        lines(300, 700, 10, 14, &["Minutes", "4", "2"]),
    ];
    let file = PdfMaker::with_pages(&[&table.concat()], HELVETICA);
    check(
        &file,
        "## Page 1\n\nName   Heat   Minutes\nAssam   100   4\nSencha   70   2\n",
    );
}

#[test]
fn three_columns_and_rows_that_are_drawn_in_any_order() {
    let column = |x: i32, name: &str| {
        let text = [
            format!("{name} one two three four five"),
            format!("{name} six seven eight nine ten"),
            format!("{name} eleven twelve thirteen"),
        ];
        let text: Vec<&str> = text.iter().map(String::as_str).collect();
        lines(x, 700, 9, 11, &text)
    };
    let page = [column(410, "c"), column(72, "a"), column(240, "b")].concat();
    let text = pdf(
        &PdfMaker::with_pages(&[&page], HELVETICA).finish(),
        Form::Text,
    )
    .text;
    let [a, b, c] = ["a eleven", "b one", "c one"].map(|part| text.find(part).unwrap());
    assert!(a < b && b < c, "{text}");
}

#[test]
fn fonts_say_what_their_codes_stand_for() {
    // Chinese and Japanese by a table of the font.
    let table = b"1 begincodespacerange <0000> <FFFF> endcodespacerange
        2 beginbfrange <0001> <0002> <65E5> <0010> <0011> [<672C> <8A9E>] endbfrange
        2 beginbfchar <0020> <0066006600690020> <0021> <D840DC0B> endbfchar";
    let cjk = "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 5 0 R
        /DescendantFonts [<< /Subtype /CIDFontType2 /DW 1000 /W [32 [2000]] >>] >>";
    check_font(
        cjk,
        &[("", table)],
        "<0001001000110021> Tj",
        "日本語\u{2000b}",
    );
    check_font(cjk, &[("", table)], "<00200001> Tj", "ffi 日");
    // The same by a charset that is only named.
    let named = |name: &str| {
        format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /{name} /DescendantFonts [<< >>] >>"
        )
    };
    check_font(&named("90ms-RKSJ-H"), &[], "<93FA967B8CEA41> Tj", "日本語A");
    check_font(&named("UniGB-UCS2-H"), &[], "<4E2D6587> Tj", "中文");
    // Names, of one byte each.
    let differences = "<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+X /FirstChar 1 /LastChar 6
        /Widths [500 500 500 500 500 500] /Encoding << /Differences [1 /T /e /adieresis /fi /uni20AC
        /Omega] >> >>";
    check_font(differences, &[], "<010203040506> Tj", "Teäfi€Ω");
    let mac = "<< /Type /Font /Subtype /TrueType /BaseFont /X /Encoding /MacRomanEncoding >>";
    check_font(mac, &[], "(caf\\216 \\322x\\323) Tj", "café “x”");
    let symbol = "<< /Type /Font /Subtype /Type1 /BaseFont /Symbol >>";
    check_font(symbol, &[], "(a+b) Tj", "α+β");
    // The font program itself has the names.
    let program =
        b"%!PS-AdobeFont-1.0\n/Encoding 256 array\n0 1 255 {1 index exch /.notdef put} for\n\
        dup 11 /alpha put\ndup 97 /ff put\nreadonly def\n";
    let embedded = "<< /Type /Font /Subtype /Type1 /BaseFont /CMMI10 /FontDescriptor
        << /Flags 4 /FontFile 5 0 R >> >>";
    check_font(embedded, &[("", program)], "<0B61> Tj", "αff");
    // Ligatures are letters, whoever says so.
    let ligature = "<< /Type /Font /Subtype /Type1 /BaseFont /X /ToUnicode 5 0 R >>";
    check_font(
        ligature,
        &[("", b"1 beginbfchar <01> <FB03> endbfchar")],
        "(o\\001ce) Tj",
        "office",
    );
}

#[test]
fn what_no_font_explains_is_said() {
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [<< >>] >>";
    let reading = check_font(
        font,
        &[],
        "<00010002> Tj",
        "(the fonts of this page do not say which characters they show)",
    );
    assert_eq!(
        reading.cut,
        [Cut::UnknownCharacters {
            characters: 2,
            first: 1
        }]
    );
    let mixed =
        "<< /Type /Font /Subtype /Type1 /BaseFont /X /Encoding << /Differences [1 /g17 /g18] >> >>";
    let reading = check_font(
        mixed,
        &[],
        "(some text \\001\\002 more) Tj",
        "some text � more",
    );
    assert_eq!(
        reading.cut,
        [Cut::UnknownCharacters {
            characters: 2,
            first: 1
        }]
    );
}

#[test]
fn words_are_told_apart_by_their_places() {
    let page = "BT /F1 10 Tf 72 700 Td [(T)80(ogether)-300(apart)] TJ ET
        BT /F1 10 Tf 72 640 Td 3 Tw (wide words) Tj ET
        BT /F1 10 Tf 1 0 0 1 72 600 Tm (One) Tj 1 0 0 1 100 600 Tm (two) Tj ET
        q 2 0 0 2 0 0 cm BT /F1 5 Tf 36 270 Td (scaled) Tj 2 Ts (up) Tj ET Q";
    let file = PdfMaker::with_pages(&[page], HELVETICA);
    check(
        &file,
        "## Page 1\n\nTogether apart\n\nwide words\n\nOne two\n\nscaledup\n",
    );
}

#[test]
fn turned_text_is_read_by_itself() {
    let page = [
        lines(72, 700, 10, 12, &["The text of the page is level."]),
        "BT /F1 10 Tf 0 1 -1 0 40 300 Tm (Up the margin) Tj ET
         BT /F1 40 Tf 0.707 0.707 -0.707 0.707 100 300 Tm (DRAFT) Tj ET"
            .to_owned(),
    ];
    let file = PdfMaker::with_pages(&[&page.concat()], HELVETICA);
    check(
        &file,
        "## Page 1\n\nThe text of the page is level.\n\nUp the margin\n\n### DRAFT\n",
    );
}

#[test]
fn drawings_in_drawings_and_pictures_between_text() {
    let page = "q 1 0 0 1 72 700 cm /X1 Do Q BI /W 1 /H 1 /BPC 8 ID \u{7}(x) Tj EI
        BT /F1 10 Tf 72 650 Td (after) Tj ET";
    let mut file = PdfMaker::with_pages(&[page], HELVETICA);
    file.set(
        3,
        format!("<< /Type /Page /Contents [4 0 R] /Resources << /Font << {HELVETICA} >> /XObject << /X1 5 0 R >> >> >>"),
    );
    file.add_stream(
        "/Type /XObject /Subtype /Form /Matrix [1 0 0 1 10 10]",
        b"BT /F1 10 Tf 0 0 Td (inside) Tj ET",
    );
    check(&file, "## Page 1\n\ninside\n\nafter\n");
}

#[test]
fn pages_without_text_say_what_they_are() {
    let picture = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 ID x EI Q";
    let file = PdfMaker::with_pages(
        &["", picture, &lines(72, 700, 10, 12, &["words"]), picture],
        HELVETICA,
    );
    let reading = check(
        &file,
        "## Page 1\n\n(this page has no text)\n\n## Page 2\n\n(this page is a picture without text)\n\n\
         ## Page 3\n\nwords\n\n## Page 4\n\n(this page is a picture without text)\n",
    );
    assert_eq!(reading.cut, [Cut::Pictures { pages: 2, first: 2 }]);
    let empty = PdfMaker::with_pages(&[], HELVETICA);
    assert_eq!(pdf(&empty.finish(), Form::Markdown).cut, [Cut::NoPages]);
}

#[test]
fn an_encrypted_file_is_said_to_be_one() {
    let mut file = PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["secret"])], HELVETICA);
    file.trailer = "/Encrypt << /Filter /Standard /V 4 >>".to_owned();
    let reading = pdf(&file.finish(), Form::Markdown);
    assert_eq!(
        (reading.text.as_str(), &reading.cut[..]),
        ("", &[Cut::Encrypted][..])
    );
}

#[test]
fn objects_in_streams_and_tables_that_are_streams() {
    let mut file = PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["packed"])], HELVETICA);
    file.trailer = "/Info << /Title (\\376\\377\\000T\\000\\351) >>".to_owned();
    for packed in [
        file.finish_packed(|bytes| ("", bytes.to_vec())),
        file.finish_packed(|bytes| ("/Filter /FlateDecode", deflated(bytes))),
        // Each row of the table says how it differs from the one above.
        file.finish_packed(|bytes| {
            if bytes.len() % 7 != 0 || bytes.first() != Some(&0) {
                return ("/Filter [/FlateDecode]", deflated(bytes));
            }
            let (mut rows, mut above) = (Vec::new(), [0_u8; 7]);
            for row in bytes.chunks(7) {
                rows.push(2);
                rows.extend(
                    row.iter()
                        .zip(above)
                        .map(|(byte, above)| byte.wrapping_sub(above)),
                );
                above.copy_from_slice(row);
            }
            (
                "/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 7 >>",
                deflated(&rows),
            )
        }),
    ] {
        let reading = pdf(&packed, Form::Markdown);
        assert_eq!(reading.text, "## Page 1\n\npacked\n");
        assert_eq!(reading.title.as_deref(), Some("Té"));
        assert_eq!(reading.cut, []);
    }
}

#[test]
fn what_is_damaged_is_read_as_far_as_it_can_be() {
    let file = PdfMaker::with_pages(&[&lines(72, 700, 10, 12, &["still here"])], HELVETICA);
    let (whole, packed) = (
        file.finish(),
        file.finish_packed(|bytes| ("", bytes.to_vec())),
    );
    let table = whole.windows(4).position(|part| part == b"xref").unwrap();
    let without_table = whole[..table].to_vec();
    let text = String::from_utf8_lossy(&whole);
    let moved = [b"%PDF-1.4\n% more than there was\n", &whole[9..]].concat();
    let long = text.replace("/Length ", "/Length 9").into_bytes();
    for (name, bytes) in [
        ("no table", without_table),
        ("moved", moved),
        ("packed", packed[..packed.len() - 20].to_vec()),
    ] {
        let reading = pdf(&bytes, Form::Text);
        assert!(reading.text.contains("still here"), "{name}: {reading:?}");
        assert_eq!(reading.cut, [Cut::Damaged], "{name}");
    }
    assert!(pdf(&long, Form::Text).text.contains("still here"));
    let late = [b"junk before\n".as_slice(), &whole].concat();
    assert_eq!(pdf(&late, Form::Text).cut, []);
}

#[test]
fn what_nobody_sees_is_left_out_and_counted() {
    let seen = "BT /F1 10 Tf 72 700 Td (seen) Tj ET ";
    for (name, hidden) in [
        ("white", "1 g BT /F1 10 Tf 72 600 Td (abc) Tj ET"),
        ("white ink", "0 0 0 0 k BT /F1 10 Tf 72 600 Td (abc) Tj ET"),
        (
            "white in a space",
            "/DeviceRGB cs 1 1 1 sc BT /F1 10 Tf 72 600 Td (abc) Tj ET",
        ),
        ("tiny", "BT /F1 1 Tf 72 600 Td (abc) Tj ET"),
        (
            "shrunk",
            "q .01 0 0 .01 72 600 cm BT /F1 10 Tf (abc) Tj ET Q",
        ),
        ("outside", "BT /F1 10 Tf 72 -600 Td (abc) Tj ET"),
        ("to be searched", "BT 3 Tr /F1 10 Tf 72 600 Td (abc) Tj ET"),
        ("transparent", "/G1 gs BT /F1 10 Tf 72 600 Td (abc) Tj ET"),
    ] {
        let mut file = PdfMaker::with_pages(&[&format!("{seen}{hidden}")], HELVETICA);
        file.set(
            3,
            format!(
                "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << {HELVETICA} >>
                /ExtGState << /G1 << /ca 0 >> >> >> >>"
            ),
        );
        let reading = pdf(&file.finish(), Form::Text);
        assert_eq!(reading.text, "Page 1\n\nseen\n", "{name}");
        assert_eq!(reading.hidden_characters, 3, "{name}");
    }
    for (name, shown) in [
        (
            "white on black",
            "0 g 60 590 200 30 re f 1 g BT /F1 10 Tf 72 600 Td (abc) Tj ET",
        ),
        (
            "white on a picture",
            "q 612 0 0 792 0 0 cm BI /W 1 ID x EI Q 1 g BT /F1 10 Tf 72 600 Td (abc) Tj ET",
        ),
        (
            "searched over a picture",
            "q 612 0 0 792 0 0 cm BI /W 1 ID x EI Q BT 3 Tr /F1 10 Tf 72 600 Td (abc) Tj ET",
        ),
        ("black again", "1 g 0 g BT /F1 10 Tf 72 600 Td (abc) Tj ET"),
    ] {
        let file = PdfMaker::with_pages(&[&format!("{seen}{shown}")], HELVETICA);
        let reading = pdf(&file.finish(), Form::Text);
        assert_eq!(reading.text, "Page 1\n\nseen\n\nabc\n", "{name}");
    }
    // A sentence behind one sign, of which a person sees one letter.
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /X /ToUnicode 5 0 R >>";
    let table = format!("1 beginbfchar <41> <{}> endbfchar", "0061".repeat(200));
    check_font(font, &[("", table.as_bytes())], "(A) Tj", "aaaaaaaa");
}

#[test]
fn arabic_and_hebrew_are_read_from_the_right() {
    let table = b"1 begincodespacerange <00> <FF> endcodespacerange
        1 beginbfrange <80> <9A> <05D0> endbfrange 1 beginbfchar <20> <0020> endbfchar";
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /X /ToUnicode 5 0 R >>";
    // Drawn from left to right: the last letter of the line first.
    check_font(font, &[("", table)], "<8D8C8592208D858C99> Tj", "שלום עולם");
}
