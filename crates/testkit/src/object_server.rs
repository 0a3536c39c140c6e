//! An object storage of a test's own: moto, which speaks the S3 protocol, on loopback, gone with the
//! test. `HAFT_OBJECT_SERVER` says where its program is installed.
#![expect(clippy::disallowed_methods, reason = "starts a server for a test")]

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::{Mutex, mpsc},
};

use regex::Regex;

use crate::PATIENCE;

/// The bucket that there is from the start.
const BUCKET: &str = "artifacts";

/// Who asks. The server verifies no signature, but wants one.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
    SignedHeaders=host, Signature=0";

/// The secret that the settings have, for tests that look for it.
pub const SECRET_KEY: &str = "a-secret-key-that-no-record-may-have";

/// A running server with an empty bucket. What it holds is gone when it stops.
#[derive(Debug)]
pub struct ObjectServer {
    server: Mutex<Child>,
    authority: String,
}

/// An object of the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name.
    pub key: String,
    /// How long it is.
    pub bytes: u64,
}

impl ObjectServer {
    /// Starts one.
    pub fn start() -> Self {
        let program = env::var("HAFT_OBJECT_SERVER");
        let program =
            program.expect("HAFT_OBJECT_SERVER names the moto_server that `.ci/run` installs");
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                &program,
                "-H",
                "127.0.0.1",
                "-p",
                "0",
            ])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (started, child) = mpsc::sync_channel(1);
        // It ends with the thread that started it, and that one ends with the test, however the test does.
        std::thread::spawn(move || {
            started.send(command.spawn().unwrap()).unwrap();
            loop {
                std::thread::park();
            }
        });
        let mut child = child.recv().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let authority = authority(&mut said);
        // What it says from now on is read, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let server = Self {
            server: Mutex::new(child),
            authority,
        };
        server.expect_ok("PUT", "", b"");
        server
    }

    /// Where a ledger keeps its artifacts on this server.
    pub fn address(&self) -> String {
        format!("s3://{BUCKET}/kept")
    }

    /// The settings that reach it, by the names of their environment variables.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.authority)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "the-id-of-a-key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ]
    }

    /// The first thousand objects whose name begins with this, in order.
    pub fn objects(&self, prefix: &str) -> Vec<StoredObject> {
        let listed = self.expect_ok("GET", &format!("?list-type=2&prefix={prefix}"), b"");
        let listed = String::from_utf8(listed).unwrap();
        let object = Regex::new(r"<Key>(.*?)</Key>.*?<Size>(\d+)</Size>").unwrap();
        let found = object.captures_iter(&listed);
        found
            .map(|found| StoredObject {
                key: found[1].to_owned(),
                bytes: found[2].parse().unwrap(),
            })
            .collect()
    }

    /// How many objects have been begun in parts and not been completed.
    pub fn unfinished(&self) -> usize {
        let listed = self.expect_ok("GET", "?uploads", b"");
        String::from_utf8(listed)
            .unwrap()
            .matches("<Upload>")
            .count()
    }

    /// Writes an object behind the ledger's back.
    pub fn put(&self, key: &str, content: &[u8]) {
        self.expect_ok("PUT", &format!("/{key}"), content);
    }

    /// The content of an object.
    pub fn get(&self, key: &str) -> Vec<u8> {
        self.expect_ok("GET", &format!("/{key}"), b"")
    }

    /// Removes an object behind the ledger's back.
    pub fn remove(&self, key: &str) {
        self.expect_ok("DELETE", &format!("/{key}"), b"");
    }

    /// Ends the server at once; connections are refused from then on.
    pub fn stop(&self) {
        let mut server = self.server.lock().unwrap();
        let _ = server.kill();
        let _ = server.wait();
    }

    /// Has the server accept connections and answer nothing.
    pub fn freeze(&self) {
        let id = self.server.lock().unwrap().id().to_string();
        let frozen = Command::new("kill").args(["-STOP", &id]).status();
        assert!(frozen.unwrap().success());
    }

    fn expect_ok(&self, method: &str, path: &str, content: &[u8]) -> Vec<u8> {
        let (status, body) = self.request(method, path, content);
        let text = String::from_utf8_lossy(&body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {text}"
        );
        body
    }

    fn request(&self, method: &str, path: &str, content: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} /{BUCKET}{path} HTTP/1.0\r\nHost: {}\r\nAuthorization: {AUTHORIZATION}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            self.authority,
            content.len(),
        )
        .unwrap();
        stream.write_all(content).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.expect("a head") + 4);
        let head = String::from_utf8(answer).unwrap();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body)
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads where the server listens from what it says at its start.
fn authority(said: &mut impl std::io::BufRead) -> String {
    let address = Regex::new(r"Running on http://(\S+)").unwrap();
    let mut all = String::new();
    for line in said.lines() {
        let line = line.unwrap();
        if let Some(found) = address.captures(&line) {
            return found[1].to_owned();
        }
        all.push_str(&line);
        all.push('\n');
    }
    panic!("the server did not start: {all}");
}
