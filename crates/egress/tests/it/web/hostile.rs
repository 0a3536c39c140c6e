//! Answers made to hurt whoever fetches or reads them. Each costs its own call: the host goes on, its
//! memory does not grow with what was sent, and every call ends within its time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::Terminal;
use haft_testkit::{Harness, PATIENCE};
use haft_tools::web::web_fetch::WebFetchConfig;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{
    at_home,
    site::{Say, Site, gzip, ok, with_head},
};

/// How long each call may take.
const WITHIN: Duration = Duration::from_secs(8);

/// The most bytes of an answer that are taken.
const TAKEN: usize = 4 * 1024 * 1024;

/// How much the memory of the host may grow: a few answers at a time, and what is kept of them.
const GROWTH_KB: u64 = 224 * 1024;

/// Every document: what it is called, what is said.
fn documents() -> Vec<(String, Box<dyn Fn() -> Say + Send + Sync>)> {
    let mut all: Vec<(String, Box<dyn Fn() -> Say + Send + Sync>)> = Vec::new();
    let mut page = |name: &str, make: Box<dyn Fn() -> Vec<u8> + Send + Sync>| {
        all.push((name.to_owned(), Box::new(move || ok("text/html", make()))));
    };
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
    ] {
        let open = format!("<{tag}>");
        page(
            &format!("nested {tag}"),
            Box::new(move || open.repeat(30_000).into_bytes()),
        );
    }
    let repeated = |text: &'static str, times: usize| -> Box<dyn Fn() -> Vec<u8> + Send + Sync> {
        Box::new(move || text.repeat(times).into_bytes())
    };
    page("end tags", repeated("</div></p>", 100_000));
    page(
        "entities",
        repeated("&amp;&#x1F600;&CounterClockwiseContourIntegral;", 20_000),
    );
    page("ampersands", repeated("&", 2_000_000));
    page("comments", repeated("<!--x-->", 200_000));
    page("less than", repeated("<", 2_000_000));
    page("unended attributes", repeated("<a b='", 300_000));
    page(
        "scripts in scripts",
        repeated("<script><!--<script>", 60_000),
    );
    page("cells", repeated("<td>x", 300_000));
    page("bold and italic", repeated("<b><i></b></i>", 100_000));
    page("paragraphs", repeated("<p>x</p>", 200_000));
    page("links", repeated("<a href=/x>y</a> ", 100_000));
    page("backticks", repeated("<code>`</code>", 100_000));
    page("zero bytes", repeated("\0", 2_000_000));
    page("one line", repeated("x", 3_900_000));
    page("hidden characters", repeated("\u{e0041}\u{202e}", 300_000));
    page("combining characters", repeated("e\u{301}\u{302}", 500_000));
    page(
        "attributes",
        Box::new(|| {
            let attributes: String = (0..200_000).map(|n| format!(" a{n}=b")).collect();
            format!("<p{attributes}>x").into_bytes()
        }),
    );
    page(
        "random bytes",
        Box::new(|| {
            let mut seed = 1_u64;
            let next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            };
            std::iter::repeat_with(next).take(2_000_000).collect()
        }),
    );
    let mut say =
        |name: &str, make: Box<dyn Fn() -> Say + Send + Sync>| all.push((name.to_owned(), make));
    for charset in [
        "utf-16",
        "utf-7",
        "gb18030",
        "iso-2022-jp",
        "x-user-defined",
        "replacement",
        "\u{0}",
    ] {
        let head = format!(
            "content-type: text/html; charset={}\r\n",
            charset.escape_default()
        );
        say(
            &format!("wrong charset {charset:?}"),
            Box::new(move || {
                with_head(&head, &(0..=255).cycle().take(300_000).collect::<Vec<u8>>())
            }),
        );
    }
    let html = "content-type: text/html\r\n";
    let zipped = "content-type: text/html\r\ncontent-encoding: gzip\r\n";
    say(
        "gzip bomb",
        // Packed once, piece by piece: this test measures its own memory.
        {
            let bomb = gzip(&vec![b' '; 8_000_000]).repeat(50);
            Box::new(move || with_head(zipped, &bomb))
        },
    );
    say(
        "gzip bomb of tags",
        Box::new(move || with_head(zipped, &gzip("<b>".repeat(1_300_000).as_bytes()))),
    );
    say(
        "gzip of gzip",
        Box::new(move || with_head(zipped, &gzip(&gzip(&vec![0; 10_000_000])))),
    );
    say(
        "truncated gzip",
        Box::new(move || {
            let whole = gzip("some text <b>".repeat(9000).as_bytes());
            with_head(zipped, &whole[..whole.len() / 2])
        }),
    );
    say(
        "no gzip",
        Box::new(move || with_head(zipped, b"<p>not compressed")),
    );
    say(
        "gzip with an endless name",
        Box::new(move || {
            let mut bytes = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 255];
            bytes.resize(3_000_000, b'a');
            with_head(zipped, &bytes)
        }),
    );
    for encoding in [
        "br",
        "zstd",
        "deflate",
        "gzip, gzip",
        "gzip\r\ncontent-encoding: gzip",
    ] {
        let head = format!("{html}content-encoding: {encoding}\r\n");
        say(
            &format!("encoding {encoding:?}"),
            Box::new(move || with_head(&head, &[0x28; 5000])),
        );
    }
    let stream = |length: &'static str,
                  piece: &'static [u8],
                  times: u64,
                  pause: u64|
     -> Box<dyn Fn() -> Say + Send + Sync> {
        Box::new(move || {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{length}\r\n");
            Say::Endlessly(
                head.into_bytes(),
                piece.repeat(1),
                times,
                Duration::from_millis(pause),
            )
        })
    };
    let headers = |piece: &'static str, pause: u64| -> Box<dyn Fn() -> Say + Send + Sync> {
        Box::new(move || {
            let head = b"HTTP/1.1 200 OK\r\na: ".to_vec();
            Say::Endlessly(head, piece.into(), u64::MAX, Duration::from_millis(pause))
        })
    };
    say(
        "ten gigabytes",
        stream(
            "content-length: 10000000000\r\n",
            &[b'x'; 65536],
            160_000,
            0,
        ),
    );
    say(
        "ten gigabytes without a length",
        stream("", &[b'y'; 65536], 160_000, 0),
    );
    say(
        "endless chunks",
        stream(
            "transfer-encoding: chunked\r\n",
            b"5\r\n<b>ab\r\n",
            u64::MAX,
            0,
        ),
    );
    say(
        "a byte at a time",
        stream("content-length: 100000\r\n", b"x", 100_000, 200),
    );
    say(
        "chunks at a time",
        stream(
            "transfer-encoding: chunked\r\n",
            b"1\r\nx\r\n",
            100_000,
            200,
        ),
    );
    say("endless headers", headers("a: b\r\n", 0));
    say("a header at a time", headers("a: b\r\n", 200));
    say(
        "one endless header",
        headers(
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            0,
        ),
    );
    say("silence", Box::new(|| Say::Nothing));
    let raw = |bytes: &'static [u8]| -> Box<dyn Fn() -> Say + Send + Sync> {
        Box::new(move || Say::Bytes(bytes.to_vec()))
    };
    say("nothing at all", raw(b""));
    say("no HTTP", raw(b"SSH-2.0-OpenSSH_9.2\r\n"));
    say("an older HTTP", raw(b"<html>hello"));
    say("a status that is none", raw(b"HTTP/1.1 999999 OK\r\n\r\n"));
    say(
        "a negative length",
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx"),
    );
    say(
        "two lengths",
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 9\r\n\r\nx"),
    );
    say(
        "less than promised",
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nx"),
    );
    say(
        "a chunk that is none",
        raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx"),
    );
    say(
        "a chunk too large",
        raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nx"),
    );
    say(
        "a location with a line break",
        raw(b"HTTP/1.1 302 Go\r\nlocation: /a\rSet-Cookie: b\r\ncontent-length: 0\r\n\r\n"),
    );
    say(
        "a picture that is a page",
        Box::new(|| {
            ok(
                "text/html",
                [b"GIF89a/*".as_slice(), &[b'<'; 5000], b"<script>"].concat(),
            )
        }),
    );
    say(
        "a PDF that is a page",
        Box::new(|| ok("text/html", b"%PDF-1.4\n<html><script>alert(1)</script>")),
    );
    say(
        "a program that is a page",
        Box::new(|| ok("text/html", [b"MZ\x90\0".as_slice(), &[0; 9000]].concat())),
    );
    say(
        "an archive that is a page",
        Box::new(|| ok("text/html", b"PK\x03\x04<html><p>x")),
    );
    say(
        "laughing entities",
        Box::new(|| {
            let mut text = "<!DOCTYPE l [<!ENTITY a0 \"lol\">".to_owned();
            for n in 1..40 {
                text.push_str(&format!("<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1));
            }
            ok("application/xhtml+xml", text + "]><p>&a39;</p>")
        }),
    );
    say(
        "deep JSON",
        Box::new(|| ok("application/json", "[".repeat(1_000_000))),
    );
    say(
        "long Markdown",
        Box::new(|| ok("text/markdown", "# a\n```\n".repeat(300_000))),
    );
    say(
        "a type that is none",
        Box::new(|| with_head(&format!("content-type: {}\r\n", "a/".repeat(2000)), b"text")),
    );
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_made_to_hurt_costs_its_own_call() {
    let documents = Arc::new(documents());
    assert!(documents.len() >= 60, "{}", documents.len());
    let served = Arc::clone(&documents);
    let site = Site::start(move |path| {
        let number = path.trim_start_matches('/').parse::<usize>();
        match number.ok().and_then(|number| served.get(number)) {
            Some((_, say)) => say(),
            None => ok("text/html", "<p>an ordinary page"),
        }
    });
    let config = WebFetchConfig {
        max_bytes: Some(TAKEN),
        ..WebFetchConfig::default()
    };
    let harness = Arc::new(at_home(&[site.port], config).build());
    ordinary(&harness, &site).await;
    let before = resident_kb();
    let most = Arc::new(AtomicU64::new(0));
    let (places, mut running) = (Arc::new(Semaphore::new(4)), Vec::new());
    for (number, (name, _)) in documents.iter().enumerate() {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let (harness, most) = (Arc::clone(&harness), Arc::clone(&most));
        let (url, name) = (site.url(&format!("/{number}")), name.clone());
        running.push(tokio::spawn(async move {
            let request = harness
                .request("web_fetch", json!({ "url": url }))
                .timeout(WITHIN);
            let began = Instant::now();
            let outcome = harness.runtime.call(request).await;
            let took = began.elapsed();
            drop(place);
            most.fetch_max(resident_kb(), Ordering::Relaxed);
            let kind = outcome.error.as_ref().map(|error| error.message.clone());
            println!(
                "{:9} {took:>9.3?} {name}: {}",
                outcome.terminal,
                kind.unwrap_or_default()
            );
            assert!(took < WITHIN + PATIENCE, "{name}: {took:?}");
            let ended = [
                Terminal::Succeeded,
                Terminal::Failed,
                Terminal::TimedOut,
                Terminal::Denied,
            ];
            assert!(ended.contains(&outcome.terminal), "{name}: {outcome:?}");
            let text = outcome.model_text();
            assert!(text.len() < 300_000, "{name}");
            assert_ne!(
                outcome.error.as_ref().map(|error| error.kind),
                Some(haft_contract::ErrorKind::Internal),
                "{name}"
            );
            outcome.terminal
        }));
    }
    let mut ends = Vec::new();
    for one in running {
        ends.push(one.await.unwrap());
    }
    ordinary(&harness, &site).await;
    let grown = most.load(Ordering::Relaxed).saturating_sub(before);
    let read = ends
        .iter()
        .filter(|end| **end == Terminal::Succeeded)
        .count();
    println!(
        "{} documents, {read} read; the host grew by {grown} kB at most",
        ends.len()
    );
    assert!(grown < GROWTH_KB, "{grown} kB");
}

async fn ordinary(harness: &Harness, site: &Site) {
    // Each time another address, so that it is no copy.
    let url = site.url(&format!("/fine?{}", site.asked().len()));
    let outcome = harness.succeed("web_fetch", json!({ "url": url })).await;
    assert!(outcome.model_text().contains("an ordinary page"));
}

/// The memory this process has now.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
