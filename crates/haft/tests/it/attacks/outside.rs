//! What an attacker in a sandbox aims at on the machine outside: listeners that count what they
//! hear, and a process of the same user. All of it ends with the scene that holds it.

use std::{
    io::Read as _,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram, UnixListener},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{corpus::Listening, place};

/// How long a listener waits before it looks whether it should end.
const TURN: Duration = Duration::from_millis(20);

/// A listener of the machine.
pub(crate) struct Ear {
    /// The word that stands for it, and what that is.
    pub(crate) word: (&'static str, String),
    heard: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ear {
    /// Begins to listen. Names in the abstract name space are made from the path.
    pub(crate) fn open(on: Listening, path: &Path) -> Self {
        let heard = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let name = || path.display().to_string().replace('/', "-");
        let (word, listen): (_, Box<dyn FnMut() -> bool + Send>) = match on {
            Listening::Tcp => {
                let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
                socket.set_nonblocking(true).unwrap();
                let port = socket.local_addr().unwrap().port();
                (
                    ("<tcp>", port.to_string()),
                    Box::new(move || socket.accept().is_ok()),
                )
            }
            Listening::Udp => {
                let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                socket.set_nonblocking(true).unwrap();
                let port = socket.local_addr().unwrap().port();
                (
                    ("<udp>", port.to_string()),
                    Box::new(move || socket.recv(&mut [0; 2048]).is_ok()),
                )
            }
            Listening::Unix => {
                let socket = UnixListener::bind(path).unwrap();
                (("<unix>", path.display().to_string()), accepting(socket))
            }
            Listening::Abstract => {
                let address = SocketAddr::from_abstract_name(name()).unwrap();
                let socket = UnixListener::bind_addr(&address).unwrap();
                (("<abstract>", name()), accepting(socket))
            }
            Listening::UnixDatagram => {
                let socket = UnixDatagram::bind(path).unwrap();
                (
                    ("<datagram>", path.display().to_string()),
                    receiving(socket),
                )
            }
            Listening::AbstractDatagram => {
                let address = SocketAddr::from_abstract_name(name()).unwrap();
                let socket = UnixDatagram::bind_addr(&address).unwrap();
                (("<abstract-datagram>", name()), receiving(socket))
            }
        };
        let thread = thread::spawn({
            let (heard, ended) = (Arc::clone(&heard), Arc::clone(&ended));
            let mut listen = listen;
            move || {
                while !ended.load(Ordering::Relaxed) {
                    if listen() {
                        heard.fetch_add(1, Ordering::Relaxed);
                    } else {
                        thread::sleep(TURN);
                    }
                }
            }
        });
        Self {
            word,
            heard,
            ended,
            thread: Some(thread),
        }
    }

    /// How often it was reached since it was last asked, once everything under way has arrived.
    pub(crate) fn heard(&self) -> usize {
        thread::sleep(TURN * 2);
        self.heard.swap(0, Ordering::Relaxed)
    }
}

fn accepting(socket: UnixListener) -> Box<dyn FnMut() -> bool + Send> {
    socket.set_nonblocking(true).unwrap();
    Box::new(move || socket.accept().is_ok())
}

fn receiving(socket: UnixDatagram) -> Box<dyn FnMut() -> bool + Send> {
    socket.set_nonblocking(true).unwrap();
    Box::new(move || socket.recv(&mut [0; 2048]).is_ok())
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A process of the same user that only waits.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(place::helper())
            .args(["__haft-helper", "probe", "hold"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It prints its id when it is ready.
        let _ = child.stdout.as_mut().unwrap().read(&mut [0; 64]).unwrap();
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it is still there.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a script outside, as whoever runs the tests.
pub(crate) fn run(script: &str, directory: &Path) -> (bool, String) {
    let output = Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

/// A script that undoes something when a scene ends. The scene's directory is gone by then.
pub(crate) struct Undo(pub(crate) String);

impl Drop for Undo {
    fn drop(&mut self) {
        run(&self.0, Path::new("/"));
    }
}
