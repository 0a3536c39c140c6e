//! A server of an API on this machine, which notes every byte it is sent.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

/// A server, and the requests it was sent, whole.
pub(crate) struct Api {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Api {
    pub(crate) fn start(answers: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let (mut whole, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if lines.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    whole.push_str(&line);
                }
                let mut body = vec![0; length];
                lines.read_exact(&mut body).unwrap();
                whole.push_str("\r\n");
                whole.push_str(&String::from_utf8(body).unwrap());
                let answer = answers(&whole);
                noted.lock().unwrap().push(whole);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, asked }
    }

    /// One that says the same to everybody.
    pub(crate) fn saying(status: u16, body: &str) -> Self {
        let said = answer(status, "", body);
        Self::start(move |_| said.clone())
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// An answer in JSON, with more headers.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
