//! A loopback that commands share: who reaches whose server, and that nothing else is shared.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    access::Command,
    egress::EgressRules,
    ops::{ExitStatus, ProcessHandle, SharedLoopback, Spawn, Tier},
};

use crate::workspace::{Workspace, at, finish, sandbox_options};

/// Serves one word to everybody who connects, and says when it is ready.
const SERVER: &str = "exec python3 -c \"
import socket
s = socket.create_server(('127.0.0.1', 8123))
a = socket.socket(socket.AF_UNIX)
a.bind('\\0haft-abstract')
a.listen()
print('ready', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b'hello from the server')
    c.close()
\"";

const CLIENT: &str = "python3 -c \"
import socket
print(socket.create_connection(('127.0.0.1', 8123), 5).recv(99).decode())
\" 2>&1";

fn spawn(script: &str, loopback: Option<&str>) -> Spawn {
    Spawn {
        loopback: loopback.map(SharedLoopback::new),
        ..Spawn::new(Command::Shell(script.to_owned()), at("."), Tier::T2)
    }
}

async fn serve(ws: &Workspace, loopback: Option<&str>) -> Box<dyn ProcessHandle> {
    let mut server = ws.start(spawn(SERVER, loopback)).await;
    let first = server.next_chunk().await.unwrap();
    assert_eq!(first.bytes, b"ready\n");
    server
}

async fn ask(ws: &Workspace, spawn: Spawn) -> (String, ExitStatus) {
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (output, exit.status)
}

async fn stop(mut child: Box<dyn ProcessHandle>) {
    child.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_command_reaches_the_server_of_another_on_the_same_loopback_alone() {
    let ws = Workspace::sandboxed(sandbox_options());
    let server = serve(&ws, Some("a")).await;
    let (said, status) = ask(&ws, spawn(CLIENT, Some("a"))).await;
    assert_eq!(
        (said.trim(), status),
        ("hello from the server", ExitStatus::Code(0))
    );

    for other in [spawn(CLIENT, Some("b")), spawn(CLIENT, None)] {
        let (said, status) = ask(&ws, other).await;
        assert_eq!(status, ExitStatus::Code(1), "{said}");
        assert!(said.contains("Connection refused"), "{said}");
    }
    // Whoever shared a network with a proxy in it would share the proxy.
    let with_network = Spawn {
        egress: Some(Arc::new(EgressRules::default())),
        ..spawn(CLIENT, Some("a"))
    };
    let (said, _) = ask(&ws, with_network).await;
    assert!(said.contains("Connection refused"), "{said}");
    stop(server).await;
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn nothing_but_the_loopback_is_shared() {
    let ws = Workspace::sandboxed(sandbox_options());
    let server = serve(&ws, Some("a")).await;
    // The host's own loopback is another one.
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let looks = format!(
        "exec 2>&1; ip -br address 2>/dev/null || cat /proc/net/dev; cat /proc/[0-9]*/comm | grep -c python; \
         touch /tmp/x; ls /tmp; id -u; unshare -U true && echo nested; \
         grep CapEff /proc/self/status; \
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; true"
    );
    let (alone, status) = ask(&ws, spawn(&looks, None)).await;
    assert_eq!(status, ExitStatus::Code(0), "{alone}");
    let (shared, status) = ask(&ws, spawn(&looks, Some("a"))).await;
    assert_eq!(status, ExitStatus::Code(0), "{shared}");
    assert_eq!(shared, alone, "what a command sees of the machine");
    assert!(
        !shared.contains("nested") && !shared.contains("reached"),
        "{shared}"
    );

    // Landlock keeps abstract sockets apart where the kernel can.
    let abstractly = "python3 -c \"
import socket
socket.socket(socket.AF_UNIX).connect('\\0haft-abstract')
print('connected')
\" 2>&1";
    let (said, _) = ask(&ws, spawn(abstractly, Some("a"))).await;
    let scoped = haft_sandbox::kernel_abi() >= Some(6);
    assert_eq!(said.contains("connected"), !scoped, "{said}");
    stop(server).await;
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_loopback_ends_with_its_last_command() {
    let ws = Workspace::sandboxed(sandbox_options());
    let first = serve(&ws, Some("a")).await;
    // What went through it shows which one it is; the kernel gives its number to the next one.
    let look = "awk '$1 == \"lo:\" { print ($2 > 0 ? \"used\" : \"new\") }' /proc/net/dev";
    let script = format!("(exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null; {look}; exec sleep 60");
    let mut second = ws.start(spawn(&script, Some("a"))).await;
    let used = second.next_chunk().await.unwrap().bytes;
    assert_eq!(used, b"used\n");
    stop(first).await;
    // The second still uses it, so a third is in the same one.
    let (again, _) = ask(&ws, spawn(look, Some("a"))).await;
    assert_eq!(again, "used\n");
    stop(second).await;
    // What a command held is let go when its last process is reaped, which is after its end is told.
    let mut other = String::new();
    for _ in 0..100 {
        let status;
        (other, status) = ask(&ws, spawn(look, Some("a"))).await;
        assert_eq!(status, ExitStatus::Code(0));
        if other == "new\n" {
            break;
        }
    }
    assert_eq!(other, "new\n");
    // Descriptors keep it alive, not a process.
    let made = ["-o", "args=", "--ppid", &std::process::id().to_string()].map(str::to_owned);
    let running = std::process::Command::new("ps")
        .args(made)
        .output()
        .unwrap();
    let running = String::from_utf8_lossy(&running.stdout).into_owned();
    assert!(!running.contains("loopback"), "{running}");
}
