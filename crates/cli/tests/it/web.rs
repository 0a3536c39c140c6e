//! `web_fetch` in the program itself: fetched, read by its own helper, labelled, and quoted from the
//! record when the server is long gone.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use serde_json::json;

use crate::support::Stage;

const PAGE: &str = "<title>Tea</title><nav><a href=/>Home</a></nav><main><h1>Tea</h1><p>Boil <b>fresh</b>\n\
    water, and wait for three minutes before you pour it away again.</p></main>";

/// A server that answers this many requests, and where it is.
fn server(requests: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().take(requests) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = PAGE.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/html\r\n\
                 content-length: {length}\r\n\r\n"
            );
            let _ = stream.write_all((head + PAGE).as_bytes());
        }
    });
    port
}

fn config(port: u16, policy: &str) -> String {
    format!(
        "[policy]\npreset = \"careful\"\n{policy}\n\n[tools.web_fetch]\ntype = \"web_fetch\"\n\
         config = {{ private_hosts = [\"127.0.0.1:{port}\"] }}\n"
    )
}

#[test]
fn a_page_is_fetched_and_quoted_from_the_record() {
    let port = server(1);
    let config = config(port, "allow = [\"web_fetch(127.0.0.1)\"]");
    let stage = Stage::with_config(&config.replace(" }\n", ", keep_pages = true }\n"));
    let url = json!({ "url": format!("http://127.0.0.1:{port}/tea") }).to_string();
    let text = stage.haft(&["call", "web_fetch", &url]).ok();
    assert!(text.contains("# Tea\n\nBoil **fresh** water"), "{text}");
    assert!(!text.contains("Home"), "{text}");
    // The server answers nobody any more.
    let found = stage.json(&["cite", "last", "Boil **fresh** water, and wait", "--json"]);
    assert_eq!(
        (&found["found"], &found["found_in"]),
        (&json!(true), &json!("markdown")),
        "{found}"
    );
    assert_eq!(found["bytes"], PAGE.len());
    let said = stage.haft(&["cite", "last", "Boil fresh water,"]).ok();
    assert!(
        said.starts_with("found at character 5 of the page as text"),
        "{said}"
    );
    assert!(
        said.contains(&format!("url      http://127.0.0.1:{port}/tea")),
        "{said}"
    );
    let other = stage.haft(&["cite", "last", "Boil stale water"]);
    assert_eq!(other.code, 1, "{}", other.all());
    let said = other.all();
    assert!(
        said.contains("not found in the page as it was fetched"),
        "{said}"
    );
    stage.haft(&["call", "list", "path=."]).ok();
    let refused = stage.haft(&["cite", "last", "x"]);
    assert!(
        refused.all().contains("fetched no page"),
        "{}",
        refused.all()
    );
}

#[test]
fn a_page_that_was_shown_whole_is_quoted_from_the_result_whatever_the_tool_is_called() {
    let port = server(3);
    let renamed = config(port, "allow = [\"@all\"]").replace("[tools.web_fetch]", "[tools.pages]");
    let stage = Stage::with_config(&renamed);
    let url = |more: &str| format!("{{\"url\": \"http://127.0.0.1:{port}/tea\"{more}}}");
    stage.haft(&["call", "pages", &url("")]).ok();
    let found = stage.json(&["cite", "last", "Boil **fresh** water,", "--json"]);
    assert_eq!(
        (&found["found_in"], &found["blake3"], &found["bytes"]),
        (&json!("result"), &json!(null), &json!(PAGE.len())),
        "{found}"
    );
    assert_eq!(stage.haft(&["cite", "last", "Boil stale water"]).code, 1);
    stage
        .haft(&["call", "pages", &url(", \"mode\": \"outline\"")])
        .ok();
    let url = url(", \"mode\": \"text\", \"max_chars\": 10");
    stage.haft(&["call", "pages", &url]).ok();
    let found = stage.json(&["cite", "last", "before you pour it", "--json"]);
    assert_eq!(found["found"], true, "the rest is kept: {found}");
    assert_eq!(found["blake3"].as_str().map(str::len), Some(64));
}

#[test]
fn what_was_read_of_the_web_counts_for_rules() {
    let port = server(2);
    let policy = "allow = [\"web_fetch(127.0.0.1)\", \"write\"]\n\
                  deny = [{ rule = \"write\", after = [\"web:127.0.0.1\"] }]\n\
                  ask = [{ rule = \"list\", after = [\"web:*\"] }]";
    let stage = Stage::with_config(&config(port, policy));
    let write = [
        "call",
        "--session",
        "a",
        "write",
        r#"{"path": "x", "content": "y"}"#,
    ];
    let list = ["call", "--ask", "never", "--session", "a", "list", "path=."];
    stage.haft(&write).ok();
    stage.haft(&list).ok();
    let url = json!({ "url": format!("http://127.0.0.1:{port}/") }).to_string();
    stage
        .haft(&["call", "--session", "a", "web_fetch", &url])
        .ok();
    let denied = stage.haft(&write);
    assert!(denied.all().contains("web:127.0.0.1"), "{}", denied.all());
    assert_ne!(denied.code, 0);
    assert_ne!(stage.haft(&list).code, 0);
    // Another session has read nothing.
    let other = [
        "call",
        "--session",
        "b",
        "write",
        r#"{"path": "z", "content": "y"}"#,
    ];
    stage.haft(&other).ok();
}

#[test]
fn a_denied_address_is_denied_by_its_names_and_forms() {
    let port = server(1);
    let url = |host: &str| json!({ "url": format!("http://{host}:{port}/") }).to_string();
    let config = |policy: &str| {
        let named = format!("[\"localhost:{port}\", \"[::ffff:127.0.0.1]:{port}\"]");
        config(port, policy).replace(&format!("[\"127.0.0.1:{port}\"]"), &named)
    };
    for rule in ["host(127.0.0.1)", "web_fetch(127.0.0.1)"] {
        let policy = format!("allow = [\"web_fetch\"]\ndeny = [\"{rule}\", \"host(::1)\"]");
        let stage = Stage::with_config(&config(&policy));
        for host in ["localhost", "[::ffff:127.0.0.1]"] {
            let refused = stage.haft(&["call", "web_fetch", &url(host)]);
            assert_ne!(refused.code, 0, "{rule} {host}: {}", refused.all());
            assert!(
                refused.all().contains("den"),
                "{rule} {host}: {}",
                refused.all()
            );
        }
    }
    // It is there for those whom no rule denies it.
    let stage = Stage::with_config(&config(
        "allow = [\"web_fetch\"]\ndeny = [\"host(127.0.0.2)\"]",
    ));
    stage.haft(&["call", "web_fetch", &url("localhost")]).ok();
}

#[test]
fn presets_ask_before_a_host_and_a_private_one_needs_its_name() {
    let port = server(0);
    let stage = Stage::with_config(&config(port, ""));
    let url = |host: &str| json!({ "url": format!("http://{host}/") }).to_string();
    let asked = stage.haft(&["call", "--ask", "never", "web_fetch", &url("example.com")]);
    assert_ne!(asked.code, 0, "{}", asked.all());
    let check = stage.haft(&["policy", "check", "web_fetch", &url("example.com")]);
    assert!(check.all().contains("ask"), "{}", check.all());
    let stage = Stage::with_config(&config(port, "allow = [\"web_fetch\"]"));
    for host in [
        "127.0.0.2",
        "localhost",
        "169.254.169.254",
        "[::1]",
        "10.0.0.1",
        "0x7f000001",
    ] {
        let refused = stage.haft(&["call", "web_fetch", &url(host)]);
        assert_ne!(refused.code, 0, "{host}: {}", refused.all());
    }
    let wrong = config(port, "").replace("127.0.0.1:", "*.internal:");
    let stage = Stage::new();
    stage.write("haft.toml", wrong);
    let said = stage.haft(&["trust"]);
    assert_ne!(said.code, 0);
    assert!(said.all().contains("`private_hosts`"), "{}", said.all());
}

#[test]
fn trust_names_what_tools_may_do_that_they_could_not() {
    let stage = Stage::with_config("[policy]\npreset = \"careful\"\n");
    stage.write(
        "haft.toml",
        config(8080, "").replace(" }\n", ", max_bytes = 20971520 }\n"),
    );
    let said = stage.haft(&["trust"]).ok();
    for loosened in [
        "loosens   the tool `web_fetch` is on",
        "loosens   `web_fetch` may reach `127.0.0.1:8080`, wherever it is",
        "loosens   `web_fetch` takes answers of up to 20971520 bytes",
    ] {
        assert!(said.contains(loosened), "{said}");
    }
    stage.write("haft.toml", config(8081, ""));
    let said = stage.json(&["trust", "--json"]);
    let only = "`web_fetch` may reach `127.0.0.1:8081`, wherever it is";
    assert_eq!(said["loosens"], json!([only]), "{said}");
}

#[test]
fn what_is_secret_in_an_address_is_sent_and_not_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = thread::spawn(move || {
        let (mut stream, mut head) = (listener.accept().unwrap().0, [0; 4096]);
        let read = stream.read(&mut head).unwrap();
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
        let _ = stream.write_all(answer.as_bytes());
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let stage = Stage::with_config(&config(port, "allow = [\"web_fetch(127.0.0.1)\"]"));
    let query = "part=7&X-Amz-Signature=f00dcafe01&key=short1";
    let url = json!({ "url": format!("http://127.0.0.1:{port}/a?{query}") }).to_string();
    stage.haft(&["call", "web_fetch", &url]).ok();
    let asked = asked.join().unwrap();
    assert!(
        asked.starts_with(&format!("GET /a?{query} HTTP/1.1")),
        "{asked}"
    );
    for shown in [
        stage.haft(&["show", "last", "--json"]).ok(),
        stage.haft(&["log", "--json"]).ok(),
        stage.haft(&["log", "export", "-"]).all(),
    ] {
        assert!(
            !shown.contains("f00dcafe01") && !shown.contains("short1"),
            "{shown}"
        );
    }
    let shown = stage.haft(&["show", "last", "--json"]).ok();
    assert!(
        shown.contains("part=7&X-Amz-Signature=[redacted]&key=[redacted]"),
        "{shown}"
    );
}
