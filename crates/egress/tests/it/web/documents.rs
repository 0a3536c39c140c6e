//! Answers made to hurt: what each is called, and what is said.

use std::{fmt::Write as _, time::Duration};

use haft_testkit::hostile_pdf;

use super::site::{Say, gzip, ok, with_head};

/// What an answer is called, and the answer.
pub(crate) type HostileAnswer = (String, Box<dyn Fn() -> Say + Send + Sync>);

/// All of them.
pub(crate) fn all() -> Vec<HostileAnswer> {
    let groups = [
        nested(),
        repeated(),
        encoded(),
        streamed(),
        malformed(),
        disguised(),
        pdfs(),
    ];
    groups.into_iter().flatten().collect()
}

fn answer(name: &str, say: impl Fn() -> Say + Send + Sync + 'static) -> HostileAnswer {
    (name.to_owned(), Box::new(say))
}

fn page(name: &str, make: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> HostileAnswer {
    answer(name, move || ok("text/html", make()))
}

fn nested() -> Vec<HostileAnswer> {
    let tags = [
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
        "button",
        "svg",
        "form",
        "select",
        "dl><dd",
        "template",
        "pre",
        "ruby",
        "x-y",
        "iframe",
    ];
    let each = tags.into_iter().map(|tag| {
        let open = format!("<{tag}>");
        page(&format!("nested {tag}"), move || {
            open.repeat(30_000).into_bytes()
        })
    });
    each.collect()
}

fn repeated() -> Vec<HostileAnswer> {
    let texts = [
        ("end tags", "</div></p>", 100_000),
        (
            "entities",
            "&amp;&#x1F600;&CounterClockwiseContourIntegral;",
            20_000,
        ),
        ("ampersands", "&", 2_000_000),
        ("comments", "<!--x-->", 200_000),
        ("less than", "<", 2_000_000),
        ("unended attributes", "<a b='", 300_000),
        ("scripts in scripts", "<script><!--<script>", 60_000),
        ("cells", "<td>x", 300_000),
        ("bold and italic", "<b><i></b></i>", 100_000),
        ("paragraphs", "<p>x</p>", 200_000),
        ("links", "<a href=/x>y</a> ", 100_000),
        ("backticks", "<code>`</code>", 100_000),
        ("zero bytes", "\0", 2_000_000),
        ("one line", "x", 3_900_000),
        ("hidden characters", "\u{e0041}\u{202e}", 300_000),
        ("combining characters", "e\u{301}\u{302}", 500_000),
    ];
    let each = texts
        .into_iter()
        .map(|(name, text, times)| page(name, move || text.repeat(times).into_bytes()));
    let mut all: Vec<HostileAnswer> = each.collect();
    all.push(page("attributes", || {
        let mut tag = "<p".to_owned();
        for number in 0..200_000 {
            let _ = write!(tag, " a{number}=b");
        }
        (tag + ">x").into_bytes()
    }));
    all.push(page("random bytes", || {
        let mut seed = 1_u64;
        let next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(2_000_000).collect()
    }));
    all
}

fn encoded() -> Vec<HostileAnswer> {
    const ZIPPED: &str = "content-type: text/html\r\ncontent-encoding: gzip\r\n";
    // Packed once, piece by piece: the test measures its own memory.
    let bomb = gzip(&vec![b' '; 8_000_000]).repeat(50);
    let mut all = vec![
        answer("gzip bomb", move || with_head(ZIPPED, &bomb)),
        answer("gzip bomb of tags", || {
            with_head(ZIPPED, &gzip("<b>".repeat(1_300_000).as_bytes()))
        }),
        answer("gzip of gzip", || {
            with_head(ZIPPED, &gzip(&gzip(&vec![0; 10_000_000])))
        }),
        answer("truncated gzip", || {
            let whole = gzip("some text <b>".repeat(9000).as_bytes());
            with_head(ZIPPED, &whole[..whole.len() / 2])
        }),
        answer("no gzip", || with_head(ZIPPED, b"<p>not compressed")),
        answer("gzip with an endless name", || {
            let mut bytes = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 255];
            bytes.resize(3_000_000, b'a');
            with_head(ZIPPED, &bytes)
        }),
    ];
    let encodings = [
        "br",
        "zstd",
        "deflate",
        "gzip, gzip",
        "gzip\r\ncontent-encoding: gzip",
    ];
    all.extend(encodings.into_iter().map(|encoding| {
        let head = format!("content-type: text/html\r\ncontent-encoding: {encoding}\r\n");
        answer(&format!("encoding {encoding:?}"), move || {
            with_head(&head, &[0x28; 5000])
        })
    }));
    let charsets = [
        "utf-16",
        "utf-7",
        "gb18030",
        "iso-2022-jp",
        "x-user-defined",
        "replacement",
        "\u{0}",
    ];
    all.extend(charsets.into_iter().map(|charset| {
        let head = format!(
            "content-type: text/html; charset={}\r\n",
            charset.escape_default()
        );
        answer(&format!("wrong charset {charset:?}"), move || {
            with_head(&head, &(0..=255).cycle().take(300_000).collect::<Vec<u8>>())
        })
    }));
    all
}

fn streamed() -> Vec<HostileAnswer> {
    let stream = |name: &str, head: &'static str, piece: Vec<u8>, times: u64, pause: u64| {
        answer(name, move || {
            let head = format!("HTTP/1.1 200 OK\r\n{head}");
            let pause = Duration::from_millis(pause);
            Say::Endlessly(head.into_bytes(), piece.clone(), times, pause)
        })
    };
    let (much, chunked) = (vec![b'x'; 65536], "transfer-encoding: chunked\r\n\r\n");
    vec![
        stream(
            "ten gigabytes",
            "content-length: 10000000000\r\n\r\n",
            much.clone(),
            160_000,
            0,
        ),
        stream("ten gigabytes without a length", "\r\n", much, 160_000, 0),
        stream(
            "endless chunks",
            chunked,
            b"5\r\n<b>ab\r\n".to_vec(),
            u64::MAX,
            0,
        ),
        stream(
            "a byte at a time",
            "content-length: 99999\r\n\r\n",
            b"x".to_vec(),
            99_999,
            200,
        ),
        stream(
            "chunks at a time",
            chunked,
            b"1\r\nx\r\n".to_vec(),
            100_000,
            200,
        ),
        stream("endless headers", "", b"a: b\r\n".to_vec(), u64::MAX, 0),
        stream("a header at a time", "", b"a: b\r\n".to_vec(), 100_000, 200),
        stream("one endless header", "a: ", vec![b'x'; 4096], u64::MAX, 0),
        answer("silence", || Say::Nothing),
    ]
}

fn malformed() -> Vec<HostileAnswer> {
    let answers: [(&str, &'static [u8]); 10] = [
        ("nothing at all", b""),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("an older HTTP", b"<html>hello"),
        ("a status that is none", b"HTTP/1.1 999999 OK\r\n\r\n"),
        (
            "a negative length",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx",
        ),
        (
            "two lengths",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 9\r\n\r\nx",
        ),
        (
            "less than promised",
            b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nx",
        ),
        (
            "a chunk that is none",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx",
        ),
        (
            "a chunk too large",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
        ),
        (
            "a location with a line break",
            b"HTTP/1.1 302 Go\r\nlocation: /a\rSet-Cookie: b\r\ncontent-length: 0\r\n\r\n",
        ),
    ];
    let each = answers.into_iter();
    each.map(|(name, bytes)| answer(name, move || Say::Bytes(bytes.to_vec())))
        .collect()
}

fn pdfs() -> Vec<HostileAnswer> {
    let deflate = |bytes: &[u8]| miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6);
    let each = hostile_pdf::all(deflate).into_iter();
    let mut all: Vec<HostileAnswer> = each
        .map(|(name, make)| {
            answer(&format!("PDF: {name}"), move || {
                ok("application/pdf", make())
            })
        })
        .collect();
    all.push(answer("PDF: a page called one", || {
        ok("application/pdf", "<html><p>text")
    }));
    all
}

fn disguised() -> Vec<HostileAnswer> {
    let gif = [b"GIF89a/*".as_slice(), &[b'<'; 5000], b"<script>"].concat();
    let program = [b"MZ\x90\0".as_slice(), &[0; 9000]].concat();
    vec![
        page("a picture that is a page", move || gif.clone()),
        page("a PDF that is a page", || {
            b"%PDF-1.4\n<html><script>alert(1)</script>".to_vec()
        }),
        page("a program that is a page", move || program.clone()),
        page("an archive that is a page", || {
            b"PK\x03\x04<html><p>x".to_vec()
        }),
        answer("laughing entities", || {
            let mut text = "<!DOCTYPE l [<!ENTITY a0 \"lol\">".to_owned();
            for number in 1..40 {
                let before = number - 1;
                let _ = write!(text, "<!ENTITY a{number} \"&a{before};&a{before};\">");
            }
            ok("application/xhtml+xml", text + "]><p>&a39;</p>")
        }),
        answer("deep JSON", || {
            ok("application/json", "[".repeat(1_000_000))
        }),
        answer("long Markdown", || {
            ok("text/markdown", "# a\n```\n".repeat(300_000))
        }),
        answer("a type that is none", || {
            with_head(&format!("content-type: {}\r\n", "a/".repeat(2000)), b"text")
        }),
    ]
}
