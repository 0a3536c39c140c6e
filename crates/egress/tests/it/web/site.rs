//! A server on the loopback that answers each path as the test says, byte for byte.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use miniz_oxide::deflate::compress_to_vec;

/// What is said to one request.
pub(crate) enum Say {
    /// These bytes.
    Bytes(Vec<u8>),
    /// First these bytes, then these again and again, this many times, with a pause in between.
    Endlessly(Vec<u8>, Vec<u8>, u64, Duration),
    /// Nothing, and the connection stays open.
    Nothing,
}

pub(crate) struct Site {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Answers by path and query.
    pub(crate) fn start(say: impl Fn(&str) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, say) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(say));
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (say, noted) = (Arc::clone(&say), Arc::clone(&noted));
                let stream = stream.unwrap();
                thread::spawn(move || answer(stream, &*say, &noted));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The heads of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    say: &(impl Fn(&str) -> Say + ?Sized),
    asked: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(head);
    // A reader that has enough goes away; that is no fault of the server's.
    match say(&path) {
        Say::Bytes(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Say::Endlessly(first, again, times, pause) => {
            let _ = stream.write_all(&first);
            for _ in 0..times {
                if stream.write_all(&again).is_err() {
                    return;
                }
                if !pause.is_zero() {
                    thread::sleep(pause);
                }
            }
        }
        Say::Nothing => {
            let _ = stream.read(&mut [0]);
        }
    }
}

/// An answer with a body.
pub(crate) fn ok(media_type: &str, body: impl AsRef<[u8]>) -> Say {
    with_head(&format!("content-type: {media_type}\r\n"), body.as_ref())
}

/// The same with other headers.
pub(crate) fn with_head(headers: &str, body: &[u8]) -> Say {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    Say::Bytes([head.as_bytes(), body].concat())
}

pub(crate) fn redirect(status: u16, to: &str) -> Say {
    let head = format!(
        "HTTP/1.1 {status} Go\r\nconnection: close\r\ncontent-length: 0\r\nlocation: {to}\r\n\r\n"
    );
    Say::Bytes(head.into_bytes())
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [&head[..], &compress_to_vec(bytes, 6), &[0; 8]].concat()
}
