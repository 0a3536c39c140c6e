//! PDFs made to hurt whoever reads them. What reading costs has a bound for the whole document, so each
//! of these ends like any other.

use std::time::{Duration, Instant};

use haft_documents::{Cut, Form, MAX_TEXT_BYTES};
use haft_testkit::{
    hostile_pdf,
    pdf::{HELVETICA, PdfMaker, lines},
};
use proptest::prelude::*;

use crate::pdf::{deflated, pdf};

/// Far more than any of these takes, and far less than anything quadratic would.
const LONG: Duration = Duration::from_secs(30);

#[test]
#[ignore = "ci: unpacks and draws for half a minute"]
fn each_ends_and_says_what_it_left_out() {
    for (name, make) in hostile_pdf::all(deflated) {
        let bytes = make();
        let began = Instant::now();
        let reading = pdf(&bytes, Form::Markdown);
        let took = began.elapsed();
        println!(
            "{took:>9.3?} {name} ({} bytes): {} bytes, {:?}",
            bytes.len(),
            reading.text.len(),
            reading.cut
        );
        assert!(took < LONG, "{name}: {took:?}");
        assert!(reading.text.len() <= MAX_TEXT_BYTES + 8, "{name}");
        assert!(bytes.len() < 4 * 1024 * 1024, "{name}");
    }
}

#[test]
fn work_that_has_no_end_is_given_up_and_said() {
    let all = hostile_pdf::all(deflated);
    for wanted in [
        "a bomb drawn a thousand times",
        "drawings in drawings, ten of each",
    ] {
        let (_, make) = all.iter().find(|(name, _)| *name == wanted).unwrap();
        let cut = pdf(&make(), Form::Text).cut;
        assert!(
            cut.iter().any(|cut| matches!(cut, Cut::Work(_))),
            "{wanted}: {cut:?}"
        );
    }
}

/// A file with something of everything, to change.
fn rich() -> Vec<u8> {
    let page = lines(72, 700, 10, 12, &["words and more words", "of two lines"]) + "/X1 Do";
    let mut file = PdfMaker::with_pages(&[&page, "BI /W 1 ID x EI"], HELVETICA);
    file.add_stream(
        "/Filter /FlateDecode",
        &deflated(b"1 beginbfrange <00> <FF> <0041> endbfrange"),
    );
    file.add("<< /Subtype /Type0 /Encoding /Identity-H /ToUnicode 7 0 R /DescendantFonts [<< /W [1 [2 3] 4 5 6] >>] >>");
    file.finish_packed(|bytes| ("", bytes.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_changed(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>()) {
        let mut bytes = rich();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        pdf(&bytes, Form::Text);
        bytes.truncate(cut.index(bytes.len()));
        pdf(&bytes, Form::Markdown);
    }

    #[test]
    fn whatever_a_page_draws(words in proptest::collection::vec(prop::sample::select(vec![
        "BT ", "ET ", "/F1 ", "9 ", "-1 ", "0.5 ", "1e9 ", "99999999999999 ", "Tf ", "Td ", "TD ", "Tm ", "T* ", "(a) ",
        "(a b) ", "<4142> ", "[(a) -500 (b)] ", "[ ", "] ", "<< ", ">> ", "Tj ", "TJ ", "' ", "\" ", "Tc ", "Tw ", "Tz ",
        "TL ", "Ts ", "Tr ", "q ", "Q ", "cm ", "re ", "f ", "g ", "rg ", "k ", "/X1 Do ", "BI ", "ID ", "EI ", "gs ", "sh ",
    ]), 0..200)) {
        let file = PdfMaker::with_pages(&[&words.concat()], HELVETICA);
        let reading = pdf(&file.finish(), Form::Text);
        prop_assert!(reading.text.starts_with("Page 1\n"));
    }
}
