//! Real programs in a real sandbox: what they reach through the proxy, and what they do not reach
//! without it.

use std::{
    fs,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use haft_contract::{
    WorkPath,
    access::Command,
    ops::{ChildExit, ExitStatus, Layer, Spawn, Tier},
};
use haft_egress::{Bridge, EgressProxy, ProxyOptions};

use crate::{
    Names, Script,
    corpus::{in_own_network, is_in_own_network},
    rules,
    sandboxed_workspace::SandboxedWorkspace,
    server::{CANARY, Server},
};

/// Runs a script in tier T2 that may reach these hosts.
async fn run(ws: &SandboxedWorkspace, allow: &[String], script: &str) -> (String, ChildExit) {
    let mut spawn = Spawn::new(
        Command::Shell(script.to_owned()),
        WorkPath::root(),
        Tier::T2,
    );
    spawn.egress = Some(rules(allow, &[]));
    ws.run(spawn).await
}

fn refused(exit: &ChildExit) -> Vec<&str> {
    let egress = exit
        .refusals
        .iter()
        .filter(|refusal| refusal.layer == Layer::Egress);
    egress.map(|refusal| refusal.what.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn programs_reach_what_is_named_and_are_told_of_the_rest() {
    let (named, other) = (Server::on_loopback(), Server::on_loopback());
    let (host, port, denied) = ("127.0.0.1", named.port(), other.port());
    let ws = SandboxedWorkspace::new();
    let script = format!(
        r#"
        echo "as a proxy: $(curl -sS --noproxy '' http://{host}:{port}/)"
        echo "as a tunnel: $(curl -sS --noproxy '' -p http://{host}:{port}/)"
        echo "by SOCKS: $(curl -sS --noproxy '' --socks5-hostname 127.0.0.1:8118 http://{host}:{port}/)"
        echo "without knowing of it: $(curl -sS http://{host}:{port}/)"
        echo "python: $(python3 -c '
import os, urllib.request as u
handler = u.ProxyHandler({{"http": os.environ["http_proxy"]}})
os.environ["no_proxy"] = ""
print(u.build_opener(handler).open("http://{host}:{port}/").read().decode())')"
        echo "denied: $(curl -sS --noproxy '' http://{host}:{denied}/)"
        echo "denied: $(curl -sS https://example.invalid/ 2>&1)"
        "#
    );
    let (output, exit) = run(&ws, &[format!("{host}:{port}")], &script).await;
    let expect = format!(
        "as a proxy: {CANARY}\nas a tunnel: {CANARY}\nby SOCKS: {CANARY}\n\
         without knowing of it: {CANARY}\npython: {CANARY}\n\
         denied: haft refused to connect to {host}:{denied}: the rule `{host}:{port}` does not cover \
         this port; add \
         `{host}:{denied}` to `sandbox.network.allow` in haft.toml to allow it\n"
    );
    assert!(output.starts_with(&expect), "{output}\n{expect}");
    assert!(output.contains("403"), "{output}");
    let hosts = [
        format!("connect to {host}:{denied}"),
        "connect to example.invalid:443".to_owned(),
    ];
    assert_eq!(refused(&exit), hosts);
    assert_eq!(named.visits(port).len(), 5);
    assert!(other.visits(denied).is_empty());
}

/// SS-19: with the proxy's variables ignored there is nowhere to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn ss_19_past_the_proxy_there_is_no_route() {
    let server = Server::on_loopback();
    let port = server.port();
    TcpStream::connect(("127.0.0.1", port)).expect("the control: outside it is reached");
    assert_eq!(server.visits(port).len(), 1);
    let ws = SandboxedWorkspace::new();
    let script = format!(
        r#"
        curl -sS --noproxy '*' http://127.0.0.1:{port}/ 2>&1
        curl -sS --noproxy '*' http://198.17.0.1/ 2>&1
        env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy curl -sS http://198.17.0.1/ 2>&1
        python3 - <<'X'
import socket, errno
def to(family, kind, address):
    try:
        s = socket.socket(family, kind)
        s.settimeout(5)
        s.connect(address)
        s.send(b"x")
        print("REACHED", address)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error))
to(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port}))
to(socket.AF_INET, socket.SOCK_STREAM, ("198.17.0.1", 80))
to(socket.AF_INET, socket.SOCK_DGRAM, ("198.17.0.1", 53))
to(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
to(socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700::1111", 443))
X
        ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1
        "#
    );
    let (output, exit) = run(&ws, &["198.17.0.1".to_owned()], &script).await;
    assert!(
        !output.contains("REACHED") && !output.contains(CANARY),
        "{output}"
    );
    let errors = [
        "ECONNREFUSED",
        "ENETUNREACH",
        "ENETUNREACH",
        "ENETUNREACH",
        "ENETUNREACH",
    ];
    assert!(output.contains(&errors.join("\n")), "{output}");
    assert!(output.trim_end().ends_with("\n    lo"), "{output}");
    // Told although no packet could have left: the outcome must not leave a model guessing.
    assert_eq!(
        refused(&exit),
        [
            "connect to 198.17.0.1:80",
            "connect to 198.17.0.1:53",
            "connect to 169.254.169.254:80",
            "connect to [2606:4700::1111]:443"
        ]
    );
    assert!(server.visits(port).is_empty());
}

/// The proxy's socket itself is no other way, and no way for descriptors (SB-10).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn sb_10_the_socket_in_the_sandbox_takes_requests_only() {
    let server = Server::on_loopback();
    let port = server.port();
    let ws = SandboxedWorkspace::new();
    let script = format!(
        r#"
        echo secret > marked-by-the-attacker
        python3 - <<'X'
import socket, array
def ask(text, *descriptors):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/haft/proxy")
    socket.send_fds(s, [text.encode()], list(descriptors))
    data, ancillary, flags, _ = s.recvmsg(65536, 1024)
    print(len(ancillary), data.decode().splitlines()[-1])
marked = open("marked-by-the-attacker")
ask("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", marked.fileno())
ask("GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", marked.fileno())
X
        rm -f /run/haft/proxy 2>/dev/null && echo REMOVED
        sleep 0.2
        "#
    );
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let held = thread::spawn(move || {
        let mut most = 0;
        while !ended.load(Ordering::Relaxed) {
            let entries = fs::read_dir("/proc/self/fd").unwrap();
            let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
            let marked = |link: &std::path::PathBuf| link.to_string_lossy().contains("marked-by");
            most = most.max(links.filter(marked).count());
            thread::sleep(std::time::Duration::from_millis(5));
        }
        most
    });
    let (output, exit) = run(&ws, &[format!("127.0.0.1:{port}")], &script).await;
    over.store(true, Ordering::Relaxed);
    assert!(
        output.starts_with(&format!("0 {CANARY}\n0 haft refused to connect")),
        "{output}"
    );
    assert!(!output.contains("REMOVED"), "{output}");
    assert_eq!(refused(&exit), ["connect to 169.254.169.254:80"]);
    assert_eq!(
        held.join().unwrap(),
        0,
        "Haft holds a descriptor it was sent"
    );
}

/// A server that a command starts is reached on the sandbox's own loopback, rules or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn a_server_of_the_commands_own_is_not_behind_the_proxy() {
    let ws = SandboxedWorkspace::new();
    let script = "echo own > page; python3 -m http.server 8000 >/dev/null 2>&1 &
        for try in $(seq 300); do
            curl -sf http://127.0.0.1:8000/page && break; sleep 0.05
        done; curl -sS http://localhost:8000/page; kill $!";
    let (output, exit) = run(&ws, &["docs.rs".to_owned()], script).await;
    assert_eq!(output, "own\nown\n");
    assert_eq!(exit.status, ExitStatus::Code(0));
    assert_eq!(exit.refusals, []);
}

/// What curl and Python say first is understood: TLS for the host of the tunnel passes, for another
/// it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_18_hellos_of_real_programs_are_understood() {
    if !is_in_own_network() {
        return in_own_network("confined::ss_18_hellos_of_real_programs_are_understood");
    }
    let server = Server::everywhere(&[443]);
    let names = Names::from([(
        "good.example".to_owned(),
        vec![vec!["198.17.0.1".parse().unwrap()]],
    )]);
    let options = ProxyOptions {
        resolver: Script::new(&names),
        ..ProxyOptions::default()
    };
    let proxy = EgressProxy::start(rules(&["good.example"], &[]), &options).unwrap();
    let bridge = Bridge::open(8118, &[]).unwrap();
    let socket = proxy.socket().to_owned();
    thread::spawn(move || bridge.serve(&socket).map(drop));
    let python = |asks: &str| {
        let script = format!(
            "import socket, ssl
s = socket.create_connection(('127.0.0.1', 8118))
s.send(b'CONNECT good.example:443 HTTP/1.1\\r\\n\\r\\n')
assert b' 200 ' in s.recv(1000)
context = ssl._create_unverified_context()
context.check_hostname = False
try: context.wrap_socket(s, server_hostname={asks})
except ssl.SSLError as error: print(error.reason)"
        );
        vec!["python3".to_owned(), "-c".to_owned(), script]
    };
    let curl = "curl -sS -k -x http://127.0.0.1:8118 https://good.example/";
    let curl = curl.split(' ').map(str::to_owned).collect();
    let say = |command: Vec<String>| {
        let output = std::process::Command::new(&command[0])
            .args(&command[1..])
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for command in [curl, python("'good.example'")] {
        let said = say(command);
        let visits = server.visits(443);
        assert!(
            visits.len() == 1 && visits[0].said.starts_with(&[0x16]),
            "{said} {visits:?}"
        );
    }
    assert_eq!(proxy.refusals(), []);
    for asks in ["'evil.example'", "None"] {
        let said = say(python(asks));
        assert!(said.contains("UNRECOGNIZED_NAME"), "{said}");
        assert!(server.visits(443).iter().all(|visit| visit.said.is_empty()));
    }
    assert_eq!(proxy.refusals().len(), 2);
}
