//! What is slow, long, many or odd at the proxy: it ends, in time, and costs little.

use std::{
    fs,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    net::{IpAddr, TcpListener},
    os::fd::AsFd as _,
    thread,
    time::{Duration, Instant},
};

use haft_egress::{EgressProxy, ProxyOptions, Timing};
use haft_testkit::PATIENCE;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};

use crate::{
    Names, Script,
    ask::{self, Answer, Way},
    proxy, proxy_with, rules,
    server::{CANARY, Server},
};

/// The limits of the proxy. What keeps within them here takes no time of its own.
const SHORT: Duration = Duration::from_secs(1);

fn hurried(allow: &[impl AsRef<str>]) -> EgressProxy {
    proxy_with(allow, |options| {
        options.timing = Timing {
            request: SHORT,
            connect: SHORT,
            idle: SHORT,
            total: 2 * SHORT,
        };
    })
}

fn refusals(proxy: &EgressProxy) -> String {
    let refusals = proxy.refusals();
    let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_18_a_head_that_comes_byte_by_byte_is_ended() {
    let proxy = hurried(&[""; 0]);
    let mut stream = ask::dial(proxy.socket());
    let mut writer = stream.try_clone().unwrap();
    thread::spawn(move || {
        for byte in b"GET http://a/ HTTP/1.1\r\nX: "
            .iter()
            .chain([b'x'; 500].iter())
        {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let answer = ask::rest(&mut stream);
    assert!(answer.contains("took too long"), "{answer}");
    assert!(refusals(&proxy).contains("took too long"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_18_silence_before_and_inside_a_tunnel_is_ended() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = hurried(&[&target]);
    let mut silent = ask::dial(proxy.socket());
    let mut socks = ask::dial(proxy.socket());
    socks.write_all(&[5]).unwrap();
    let mut tunnel = ask::dial(proxy.socket());
    let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
    tunnel.write_all(request.as_bytes()).unwrap();
    assert!(ask::head(&mut tunnel).starts_with("HTTP/1.1 200 "));
    for stream in [&mut silent, &mut socks, &mut tunnel] {
        assert_eq!(ask::rest(stream), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_18_a_body_without_end_is_ended_at_the_total() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = hurried(&[&target]);
    let mut stream = ask::dial(proxy.socket());
    let head = format!(
        "POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    while stream.write_all(b"1\r\nx\r\n").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it goes on and on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_18_a_head_or_hello_without_end_is_refused() {
    let proxy = proxy(&["127.0.0.1:1"]);
    let flood = |start: &[u8]| {
        let mut stream = ask::dial(proxy.socket());
        stream.write_all(start).unwrap();
        let more = vec![b'x'; 4096];
        let mut sent = 0;
        // The proxy stops reading, answers and closes.
        while sent < 64 * 1024 * 1024 && stream.write_all(&more).is_ok() {
            sent += more.len();
        }
        sent
    };
    assert!(flood(b"GET http://a/") < 4 * 1024 * 1024);
    assert!(flood(b"GET http://a/ HTTP/1.1\r\nX: ") < 4 * 1024 * 1024);
    assert!(
        refusals(&proxy).contains("too long"),
        "{}",
        refusals(&proxy)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_cap_wait_and_are_served_later() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = proxy_with(&[&target], |options| options.max_connections = 2);
    let held = [ask::dial(proxy.socket()), ask::dial(proxy.socket())];
    let socket = proxy.socket().to_owned();
    let asked = thread::spawn({
        let target = target.clone();
        move || ask::ask(&socket, Way::Plain, &target)
    });
    // Waiting is the only way to show that something does not happen.
    thread::sleep(Duration::from_millis(300));
    assert!(!asked.is_finished(), "it should wait for a place");
    assert!(server.visits(0).is_empty());
    drop(held);
    let answer = asked.join().unwrap();
    assert!(
        matches!(&answer, Answer::Passed(text) if text.contains(CANARY)),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_on_one_connection_reaches_nobody() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = proxy(&[&target]);
    let one = format!("GET http://{target}/1 HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let two = format!("GET http://{target}/2 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    let answer = ask::send(proxy.socket(), (one + &two).as_bytes());
    assert!(
        matches!(&answer, Answer::Passed(text) if text.contains(CANARY)),
        "{answer:?}"
    );
    let visits = server.visits(server.port());
    assert_eq!(visits.len(), 1);
    let said = String::from_utf8_lossy(&visits[0].said).into_owned();
    assert!(
        said.contains("GET /1 HTTP/1.1") && !said.contains("evil"),
        "{said}"
    );
    assert!(said.contains("connection: close"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_arrive_whole_and_nothing_behind_them() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = proxy(&[&target]);
    let bodies = [
        ("Content-Length: 5", "hellorest", "hello"),
        (
            "Transfer-Encoding: chunked",
            "5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\nrest",
            "5\r\nhello\r\n0\r\n\r\n",
        ),
    ];
    for (header, sent, expect) in bodies {
        let head = format!(
            "POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\n{header}\r\nProxy-Authorization: \
             s\r\n\r\n"
        );
        let answer = ask::send(proxy.socket(), (head + sent).as_bytes());
        assert!(
            matches!(&answer, Answer::Passed(text) if text.contains(CANARY)),
            "{answer:?}"
        );
        let visits = server.visits(server.port());
        let said = String::from_utf8_lossy(&visits[0].said).into_owned();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, expect);
        assert!(!head.to_ascii_lowercase().contains("proxy-"), "{head}");
    }
}

/// SB-10: a descriptor sent along with a request goes nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sb_10_the_proxy_accepts_no_descriptor() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = proxy(&[&target]);
    let name = "descriptor-of-the-attacker";
    let open = || {
        let entries = fs::read_dir("/proc/self/fd").unwrap();
        let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links
            .filter(|link| link.to_string_lossy().contains(name))
            .count()
    };
    let mut stream = ask::dial(proxy.socket());
    let sent = memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(open(), 1, "the control: this process would show it");
    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let descriptors = [sent.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let bytes = [IoSlice::new(request.as_bytes())];
    sendmsg(&stream, &bytes, &mut control, SendFlags::empty()).unwrap();
    drop(sent);
    let answer = ask::rest(&mut stream);
    assert!(answer.contains(CANARY), "{answer}");
    assert_eq!(open(), 0, "the proxy holds what it was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_neither_http_nor_socks5_is_refused() {
    let proxy = hurried(&[""; 0]);
    for start in [
        &b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00"[..],
        b"\x16\x03\x01\x00\x05hello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
    ] {
        let answer = ask::send(proxy.socket(), start);
        assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    }
    // UDP and listening by SOCKS5, which would carry QUIC.
    for command in [2, 3] {
        let mut stream = ask::dial(proxy.socket());
        stream.write_all(&[5, 1, 0]).unwrap();
        stream
            .write_all(&[5, command, 0, 1, 0, 0, 0, 0, 0, 80])
            .unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3], 7, "{reply:?}");
    }
    assert!(refusals(&proxy).contains("SOCKS5 CONNECT"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_speaks_first_is_heard() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 hello\r\n").unwrap();
        let mut said = [0; 6];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&said).unwrap();
    });
    let proxy = proxy(&[&target]);
    let mut stream = ask::dial(proxy.socket());
    stream
        .write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes())
        .unwrap();
    assert!(ask::head(&mut stream).starts_with("HTTP/1.1 200 "));
    let mut banner = [0; 11];
    stream.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"220 hello\r\n");
    stream.write_all(b"EHLO\r\n").unwrap();
    assert_eq!(ask::rest(&mut stream), "EHLO\r\n");
    let traffic = proxy.traffic();
    assert_eq!(
        (traffic.connections, traffic.sent, traffic.received),
        (1, 6, 17)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_leaves_nothing_behind() {
    let proxy = proxy(&[""; 0]);
    let socket = proxy.socket().to_owned();
    let directory = socket.parent().unwrap().to_owned();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&directory).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let mut stream = ask::dial(&socket);
    stream.write_all(b"GET").unwrap();
    drop(proxy);
    assert!(!directory.exists());
    assert_eq!(ask::rest(&mut stream), "", "its connections end with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_kept_once_and_in_bounds() {
    let proxy = proxy(&[""; 0]);
    for round in 0..2 {
        for number in 0..40 {
            ask::ask(
                proxy.socket(),
                Way::Connect,
                &format!("host-{number}.example:443"),
            );
        }
        assert_eq!(proxy.refusals().len(), 32, "round {round}");
    }
    let first = &proxy.refusals()[0];
    assert_eq!(first.what, "connect to host-0.example:443");
    assert_eq!(
        first.why,
        "no rule allows it; add `host-0.example:443` to `sandbox.network.allow` in haft.toml to \
         allow it"
    );
}

/// Deny wins over every allow, by name and by what a name leads to, also through a translation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_denied_is_denied_by_every_name() {
    let leads_to = |name: &str, address: &str| {
        let address = address.parse::<IpAddr>().unwrap();
        (name.to_owned(), vec![vec![address]])
    };
    let names = Names::from([
        leads_to("plain.example", "198.17.0.1"),
        leads_to("translated.example", "64:ff9b::198.17.0.1"),
        leads_to("bad.example", "198.17.0.2"),
    ]);
    let options = ProxyOptions {
        resolver: Script::new(&names),
        ..ProxyOptions::default()
    };
    let allow = ["*.example", "bad.example:8080", "198.17.0.1"];
    let rules = rules(&allow, &["198.17.0.1", "bad.example"]);
    let proxy = EgressProxy::start(rules, &options).unwrap();
    let targets = [
        "plain.example:80",
        "translated.example:80",
        "198.17.0.1:80",
        "bad.example:443",
        "bad.example:8080",
    ];
    for target in targets {
        let answer = ask::ask(proxy.socket(), Way::Connect, target);
        let Answer::Refused(text) = &answer else {
            panic!("{target}: {answer:?}");
        };
        assert!(text.contains("`sandbox.network.deny`"), "{text}");
    }
    assert_eq!(proxy.traffic().connections, 0);
}
