//! Pages made to hurt whoever reads them. What reading costs grows with the page and with nothing
//! else, so each of these takes no longer than a page of its size.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use haft_documents::{Cut, Document, Form, Kind, MAX_TEXT_BYTES, read};
use proptest::prelude::*;

/// Far more than any of these takes, and far less than anything quadratic would.
const LONG: Duration = Duration::from_secs(20);

fn check(name: &str, page: &str) -> Vec<Cut> {
    let began = Instant::now();
    let mut cut = Vec::new();
    for form in [Form::Markdown, Form::Text, Form::Raw] {
        let reading = read(&Document {
            bytes: page.as_bytes(),
            kind: Kind::Html,
            charset: None,
            url: "https://example.com/",
            form,
        });
        assert!(reading.text.len() <= MAX_TEXT_BYTES + 8, "{name}");
        assert!((0.0..=1.0).contains(&reading.kept_ratio), "{name}");
        cut.extend(reading.cut);
    }
    assert!(began.elapsed() < LONG, "{name}: {:?}", began.elapsed());
    cut
}

#[test]
fn nested_without_end() {
    for tag in [
        "div",
        "table",
        "table><tr><td",
        "ul><li",
        "blockquote",
        "b",
        "a href=x",
        "span",
        "font",
        "i><b",
        "p",
        "button",
        "svg",
        "form",
        "select",
        "dl><dd",
        "template",
        "pre",
        "h1",
        "q",
        "ruby",
        "x-y",
    ] {
        let close = tag.split(['>', ' ']).next().unwrap_or_default();
        let deep = format!("<{tag}>").repeat(5_000);
        let cut = check(
            tag,
            &format!("{deep}text{}", format!("</{close}>").repeat(5_000)),
        );
        let known = [
            "a href=x", "p", "button", "h1", "template", "svg", "select", "pre",
        ];
        assert!(!cut.is_empty() || known.contains(&tag), "{tag}");
        check(tag, &format!("<{tag}>x").repeat(5_000));
    }
}

#[test]
fn wide_without_end() {
    let cells = format!("<table><tr>{}", "<td>x".repeat(24_000));
    check("cells", &cells);
    check(
        "rows",
        &format!("<table>{}", "<tr><td>a<td>b".repeat(12_000)),
    );
    check(
        "attributes",
        &(0..50_000).fold("<p".to_owned(), |mut tag, number| {
            let _ = write!(tag, " a{number}=b");
            tag
        }),
    );
    check(
        "classes",
        &format!("<div class='{}'>x", "nav ".repeat(100_000)),
    );
    check("links", &"<a href=/x>y</a> ".repeat(5_000));
    check("end tags", &"</div>".repeat(50_000));
    check(
        "entities",
        &"&amp;&lt;&#x1F600;&CounterClockwiseContourIntegral;".repeat(5_000),
    );
    check("unended entity", &"&".repeat(500_000));
    check("comments", &"<!--x-->".repeat(60_000));
    check("unended comment", &format!("<!--{}", "-".repeat(500_000)));
    check("unended tag", &format!("<{}", "a".repeat(500_000)));
    check(
        "unended attribute",
        &format!("<a href='{}", "b".repeat(500_000)),
    );
    check(
        "unended script",
        &format!("<script>{}", "<!--<script>".repeat(20_000)),
    );
    check("cdata", &"<![CDATA[x]]>".repeat(20_000));
    check(
        "backticks",
        &format!("<code>{}</code>", "`".repeat(200_000)),
    );
    check("spaces", &format!("<p>{}x", " \n\t".repeat(100_000)));
    check("breaks", &format!("<p>{}x", "<br>".repeat(20_000)));
    check("bold", &"<b> <i> </i></b>".repeat(12_000));
    check("long line", &"x".repeat(1_500_000));
    check("long code", &format!("<pre>{}", "a\n".repeat(300_000)));
    check("lists of lists", &"<ul><li>".repeat(30_000));
    check("nothing", "");
    check("zero bytes", &"\0".repeat(100_000));
}

#[test]
fn more_than_fits_is_cut_and_said() {
    assert!(check("text", &format!("<p>{}", "word ".repeat(850_000))).contains(&Cut::Text));
    assert!(check("nodes", &"<p>x</p>".repeat(30_000)).contains(&Cut::Nodes));
    // Each line of a deep quotation repeats what stands before it.
    let quoted = format!("{}{}", "<blockquote>".repeat(200), "<p>x</p>".repeat(4_000));
    check("amplified", &quoted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        for (kind, form) in [(Kind::Html, Form::Markdown), (Kind::Markdown, Form::Text), (Kind::Plain, Form::Raw)] {
            read(&Document { bytes: &bytes, kind, charset: None, url: "x", form });
        }
    }

    #[test]
    fn whatever_the_tags(tags in proptest::collection::vec(
        prop::sample::select(vec![
            "<p>", "</p>", "<table>", "</table>", "<tr>", "<td>", "<li>", "<ul>", "</ul>", "<b>", "</b>", "<pre>",
            "</pre>", "<h1>", "</h2>", "<a href='//[' >", "</a>", "text ", "<br>", "</br>", "<head>", "<body>",
            "</html>", "<dd>", "<code>", "</code>", "<blockquote>", "&#0;", "<svg>", "<script>", "</script>", "é",
            "<caption>", "<th>", "<select>", "<option>", "<img alt=x src='http://[::1'>", "<nav>", "<main>",
        ]), 0..120)) {
        let page = tags.concat();
        let reading = read(&Document {
            bytes: page.as_bytes(), kind: Kind::Html, charset: None, url: "https://e.x/", form: Form::Markdown,
        });
        prop_assert!(reading.text.is_empty() || reading.text.ends_with('\n'));
    }
}
