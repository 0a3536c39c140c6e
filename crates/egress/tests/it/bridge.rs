//! The bridge inside a sandbox: a port of the loopback that leads to the proxy's socket.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use haft_egress::EgressProxy;
use haft_testkit::helper_program;

use crate::{
    proxy,
    server::{CANARY, Server},
};

/// A helper process with a bridge; ended when dropped.
pub(crate) struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn bridge(proxy: &EgressProxy, port: u16, more: &[&str]) -> Helper {
    let child = Command::new(helper_program())
        .args(["__haft-helper", "bridge", "--port", &port.to_string()])
        .arg("--socket")
        .arg(proxy.socket())
        .args(more)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    Helper(child)
}

/// Connects once the bridge is up.
fn dial(port: u16) -> TcpStream {
    let until = Instant::now() + haft_testkit::PATIENCE;
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "no bridge: {error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn get(port: u16, target: &str) -> String {
    let mut stream = dial(port);
    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_through_the_bridge_meets_the_same_rules() {
    let server = Server::on_loopback();
    let target = format!("127.0.0.1:{}", server.port());
    let proxy = proxy(&[&target]);
    let port = free_port();
    let _bridge = bridge(&proxy, port, &[]);
    assert!(get(port, &target).contains(CANARY));
    assert!(get(port, "127.0.0.1:1").starts_with("HTTP/1.1 403 haft refused to connect"));
    assert_eq!(server.visits(server.port()).len(), 1);
}

/// A program that is refused while it still sends reads why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_read_by_a_program_that_still_sends() {
    let proxy = proxy(&[""; 0]);
    let port = free_port();
    let _bridge = bridge(&proxy, port, &[]);
    for _ in 0..20 {
        let mut stream = dial(port);
        let request =
            "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000";
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(b"\r\n\r\n").unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sending = thread::spawn(move || writer.write_all(&vec![b'x'; 100_000]));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("sandbox.network.allow"), "{answer}");
        sending.join().unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_goes_both_ways_at_once_and_ends_are_passed_on() {
    const BYTES: usize = 4 * 1024 * 1024;
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut writer = stream.try_clone().unwrap();
            thread::spawn(move || std::io::copy(&mut stream, &mut writer).map(drop));
        }
    });
    let proxy = proxy(&[&target]);
    let port = free_port();
    let _bridge = bridge(&proxy, port, &[]);
    let talks: Vec<_> = (0..8_u8)
        .map(|number| {
            let target = target.clone();
            thread::spawn(move || {
                let mut stream = dial(port);
                write!(stream, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
                let mut head = [0; 39];
                stream.read_exact(&mut head).unwrap();
                assert!(head.starts_with(b"HTTP/1.1 200 ") && head.ends_with(b"\r\n\r\n"));
                let mut writer = stream.try_clone().unwrap();
                let sending = thread::spawn(move || {
                    writer.write_all(&vec![number; BYTES]).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                sending.join().unwrap();
                assert!(back.len() == BYTES && back.iter().all(|byte| *byte == number));
            })
        })
        .collect();
    for talk in talks {
        talk.join().unwrap();
    }
}

/// In a network of its own, a program that knows nothing of proxies reaches a port that a rule names
/// where it expects it, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_port_of_the_machine_is_where_it_is_expected() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // As a database may, it speaks first.
        stream.write_all(b"ready\n").unwrap();
        let mut said = [0; 3];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&said).unwrap();
    });
    let other = Server::on_loopback();
    let named = format!("127.0.0.1:{port}");
    let proxy = proxy(&[&named]);
    let script = r#"
        ip link set lo up
        hear() { exec 3<>"/dev/tcp/127.0.0.1/$1" && { printf hi. >&3; cat <&3; }; }
        (hear "$3") 2>/dev/null && echo "a route without the bridge"
        "$1" __haft-helper bridge --port 8118 --socket "$2" --forward "127.0.0.1:$3" \
            --forward "127.0.0.1:$4" &
        for try in $(seq 500); do
            (exec 3<>/dev/tcp/127.0.0.1/8118) 2>/dev/null && break
            sleep 0.02
        done
        echo "named: $(hear "$3")"
        echo "other: $(hear "$4")"
        kill $!
    "#;
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "--",
            "bash",
            "-c",
            script,
            "bash",
        ])
        .arg(helper_program())
        .arg(proxy.socket())
        .args([port, other.port()].map(|port| port.to_string()))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "named: ready\nhi.\nother: \n", "{output:?}");
    assert!(other.visits(other.port()).is_empty());
    let refused = format!("connect to 127.0.0.1:{}", other.port());
    assert_eq!(proxy.refusals()[0].what, refused);
}
