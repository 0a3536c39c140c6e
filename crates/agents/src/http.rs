//! The parts of an HTTP/1.1 server that agents need from a model: one thread per connection, whole
//! bodies, keep-alive. It ends with the test process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// The largest request a model takes. Agents send the whole conversation with every request.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self {
            status: 200,
            media_type: "application/json",
            body: value.to_string(),
        }
    }

    /// Server-sent events. An empty event name is left out.
    pub(crate) fn events<'e>(events: impl IntoIterator<Item = (&'e str, String)>) -> Self {
        let event = |(name, data): (&str, String)| match name {
            "" => format!("data: {data}\n\n"),
            name => format!("event: {name}\ndata: {data}\n\n"),
        };
        Self {
            status: 200,
            media_type: "text/event-stream",
            body: events.into_iter().map(event).collect(),
        }
    }
}

/// Listens on a free loopback port.
pub(crate) fn serve(answer: Arc<dyn Fn(Request) -> Reply + Send + Sync>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || connected(connection, &*answer));
        }
    });
    address
}

/// Answers until the client is gone or sends something that is not HTTP.
fn connected(connection: TcpStream, answer: &(dyn Fn(Request) -> Reply + Send + Sync)) {
    let Ok(reading) = connection.try_clone() else {
        return;
    };
    let (mut reading, mut writing) = (BufReader::new(reading), connection);
    while let Some(request) = read(&mut reading) {
        let is_head = request.method == "HEAD";
        let Reply {
            status,
            media_type,
            body,
        } = answer(request);
        let mut message = format!(
            "HTTP/1.1 {status} -\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if !is_head {
            message.push_str(&body);
        }
        if writing.write_all(message.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reading: &mut BufReader<TcpStream>) -> Option<Request> {
    let start = line(reading)?;
    let mut words = start.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = line(reading)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "transfer-encoding" => chunked = true,
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = usize::from_str_radix(line(reading)?.trim(), 16).ok()?;
            take(reading, size, &mut body)?;
            line(reading)?;
            if size == 0 {
                break;
            }
        }
    } else {
        take(reading, length, &mut body)?;
    }
    Some(Request { method, path, body })
}

fn take(reading: &mut BufReader<TcpStream>, bytes: usize, body: &mut Vec<u8>) -> Option<()> {
    let most = MAX_BODY_BYTES.checked_sub(body.len())?;
    (bytes <= most).then_some(())?;
    let wanted = u64::try_from(bytes).ok()?;
    let read = reading.take(wanted).read_to_end(body).ok()?;
    (read == bytes).then_some(())
}

fn line(reading: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = reading.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
