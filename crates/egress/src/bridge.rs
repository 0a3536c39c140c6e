//! The part of the way out that runs inside a sandbox: a port on its loopback that leads to the
//! proxy's Unix socket, because few programs can talk to a proxy over such a socket.
//!
//! One thread and plain `poll`: it runs under the limits of the command it serves. It decides
//! nothing and holds nothing; a command that kills it loses its own way out. Where a rule names a
//! port of the machine's loopback, the same port leads there, so that a program that knows nothing
//! about proxies reaches a development database where it expects it.

use std::{
    convert::Infallible,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_contract::egress::{EgressRules, Host, HostRule};
use rustix::event::{PollFd, PollFlags, poll};

/// The most connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 100;

/// The most bytes held for each direction of a connection.
const BUFFER_BYTES: usize = 16 * 1024;

/// The most ports of the machine that are forwarded.
const MAX_FORWARDS: usize = 16;

/// The longest answer of the proxy to a request for a tunnel.
const MAX_ANSWER_BYTES: usize = 4 * 1024;

/// A port of the machine's own loopback that a rule names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forward {
    /// The address on both sides.
    pub address: IpAddr,
    /// The host as written in the rule.
    pub host: Host,
    /// The port on both sides.
    pub port: u16,
}

impl Forward {
    /// The ports of the machine's loopback that rules name, at most sixteen.
    pub fn of(rules: &EgressRules) -> Vec<Self> {
        let named = rules.allow.iter().filter_map(|rule| {
            let (host, port) = (rule.host()?, rule.port()?);
            let address = match host {
                Host::Address(address) if address.is_loopback() => *address,
                Host::Name(name) if name == "localhost" => Ipv4Addr::LOCALHOST.into(),
                Host::Address(_) | Host::Name(_) => return None,
            };
            Some(Self {
                address,
                host: host.clone(),
                port,
            })
        });
        let mut forwards: Vec<Self> = Vec::new();
        for forward in named.take(MAX_FORWARDS) {
            let at = (forward.address, forward.port);
            if !forwards
                .iter()
                .any(|known| (known.address, known.port) == at)
            {
                forwards.push(forward);
            }
        }
        forwards
    }
}

/// The open ports of a bridge.
#[derive(Debug)]
pub struct Bridge {
    doors: Vec<OpenPort>,
}

#[derive(Debug)]
struct OpenPort {
    listener: TcpListener,
    /// What to send the proxy first; empty for programs that talk to it themselves.
    request: String,
}

impl Bridge {
    /// Opens the proxy's port and those of the machine. Connections made from then on wait until
    /// the bridge is served.
    pub fn open(port: u16, forwards: &[Forward]) -> io::Result<Self> {
        let mut doors = vec![OpenPort::open(
            (Ipv4Addr::LOCALHOST, port).into(),
            String::new(),
        )?];
        for forward in forwards.iter().take(MAX_FORWARDS) {
            let target = format!("{}:{}", forward.host, forward.port);
            doors.push(OpenPort::open(
                (forward.address, forward.port).into(),
                format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
            )?);
        }
        Ok(Self { doors })
    }

    /// Serves until an error.
    pub fn serve(&self, socket: &Path) -> io::Result<Infallible> {
        let mut pairs: Vec<BridgedPair> = Vec::new();
        loop {
            let full = pairs.len() >= MAX_CONNECTIONS;
            let mut waiting: Vec<PollFd<'_>> = Vec::new();
            for door in &self.doors {
                let interest = if full {
                    PollFlags::empty()
                } else {
                    PollFlags::IN
                };
                waiting.push(PollFd::new(&door.listener, interest));
            }
            for pair in &pairs {
                // A socket that is not waited for is left out: its hang-up would be reported
                // forever.
                let interest = pair.up.interest(&pair.down);
                if !interest.is_empty() {
                    waiting.push(PollFd::new(&pair.program, interest));
                }
                let interest = pair.down.interest(&pair.up);
                if !interest.is_empty() {
                    waiting.push(PollFd::new(&pair.proxy, interest));
                }
            }
            match poll(&mut waiting, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let knocked: Vec<bool> = waiting
                .iter()
                .take(self.doors.len())
                .map(|door| door.revents().contains(PollFlags::IN))
                .collect();
            drop(waiting);
            pairs.retain_mut(|pair| pair.step().is_ok_and(|open| open));
            for (door, _) in self
                .doors
                .iter()
                .zip(knocked)
                .filter(|(_, knocked)| *knocked)
            {
                // A program that has gone, or a proxy that cannot take more, does not end the
                // bridge.
                if let Ok(pair) = door.accept(socket) {
                    pairs.push(pair);
                }
            }
        }
    }
}

impl OpenPort {
    fn open(at: SocketAddr, request: String) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, request })
    }

    fn accept(&self, socket: &Path) -> io::Result<BridgedPair> {
        let (program, _) = self.listener.accept()?;
        let proxy = UnixStream::connect(socket)?;
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        proxy.set_nonblocking(true)?;
        let answer = if self.request.is_empty() {
            TunnelAnswer::Passed
        } else {
            TunnelAnswer::Awaited
        };
        Ok(BridgedPair {
            program,
            proxy,
            up: BridgeDirection::holding(self.request.as_bytes()),
            down: BridgeDirection::holding(&[]),
            answer,
        })
    }
}

/// A program and its connection to the proxy.
struct BridgedPair {
    program: TcpStream,
    proxy: UnixStream,
    up: BridgeDirection,
    down: BridgeDirection,
    answer: TunnelAnswer,
}

/// How far the proxy's answer to a request for a tunnel is.
enum TunnelAnswer {
    Awaited,
    Passed,
}

/// One direction of a pair.
struct BridgeDirection {
    held: Vec<u8>,
    state: Flow,
}

/// How far one direction has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    /// Its source has ended; buffered bytes still have to be passed on.
    Ended,
    /// The end has been passed on too.
    Closed,
}

impl BridgedPair {
    /// Moves what can be moved; `false` once both directions have ended.
    fn step(&mut self) -> io::Result<bool> {
        self.up.fill(&mut self.program)?;
        self.down.fill(&mut self.proxy)?;
        self.up.drain(&mut self.proxy)?;
        if matches!(self.answer, TunnelAnswer::Passed) || self.pass_answer()? {
            self.down.drain(&mut self.program)?;
        }
        if self.up.ends() {
            self.proxy.shutdown(Shutdown::Write)?;
        }
        if self.down.ends() {
            self.program.shutdown(Shutdown::Write)?;
        }
        Ok(self.up.state != Flow::Closed || self.down.state != Flow::Closed)
    }

    /// Strips the proxy's answer from what the program will read; fails if the proxy refused.
    fn pass_answer(&mut self) -> io::Result<bool> {
        let held = &mut self.down.held;
        let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") else {
            let hopeless = held.len() > MAX_ANSWER_BYTES || self.down.state != Flow::Open;
            return if hopeless { Err(refused()) } else { Ok(false) };
        };
        if !held.starts_with(b"HTTP/1.1 200 ") {
            return Err(refused());
        }
        held.drain(..end + 4);
        self.answer = TunnelAnswer::Passed;
        Ok(true)
    }
}

impl BridgeDirection {
    fn holding(bytes: &[u8]) -> Self {
        Self {
            held: bytes.to_vec(),
            state: Flow::Open,
        }
    }

    /// What to poll for at the source of this direction, which is the other one's destination.
    fn interest(&self, other: &Self) -> PollFlags {
        let mut interest = PollFlags::empty();
        if self.state == Flow::Open && self.held.len() < BUFFER_BYTES {
            interest |= PollFlags::IN;
        }
        if !other.held.is_empty() {
            interest |= PollFlags::OUT;
        }
        interest
    }

    fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        if self.state != Flow::Open || self.held.len() >= BUFFER_BYTES {
            return Ok(());
        }
        let mut buffer = [0; BUFFER_BYTES];
        match from.read(&mut buffer) {
            Ok(0) => self.state = Flow::Ended,
            // What it sent before is still passed on.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.state = Flow::Ended;
            }
            Ok(count) => self.held.extend(buffer.iter().take(count)),
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn drain(&mut self, to: &mut impl Write) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        match to.write(&self.held) {
            Ok(count) => drop(self.held.drain(..count)),
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether to pass the end on now; true once.
    fn ends(&mut self) -> bool {
        let ends = self.state == Flow::Ended && self.held.is_empty();
        if ends {
            self.state = Flow::Closed;
        }
        ends
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

/// The helper mode `bridge`: `--port P --socket PATH`, then any number of `--forward HOST:PORT`.
pub fn run(arguments: &[String]) -> ExitCode {
    let Some((port, socket, rules)) = read(arguments) else {
        return ExitCode::from(2);
    };
    let bridge = Bridge::open(port, &Forward::of(&rules));
    match bridge.and_then(|bridge| bridge.serve(&socket)) {
        Ok(never) => match never {},
        Err(_) => ExitCode::FAILURE,
    }
}

fn read(arguments: &[String]) -> Option<(u16, PathBuf, EgressRules)> {
    let (mut port, mut socket, mut rules) = (None, None, EgressRules::default());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--port" => port = Some(value.parse().ok()?),
            "--socket" => socket = Some(PathBuf::from(value)),
            "--forward" => rules.allow.push(HostRule::parse(value).ok()?),
            _ => return None,
        }
    }
    Some((port?, socket?, rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_ports_of_this_machine_are_led_to() {
        let allow = [
            "127.0.0.1:5432",
            "localhost:5432",
            "localhost:3000",
            "[::1]:80",
            "localhost",
            "10.0.0.1:80",
            "example.com:80",
            "*.localhost:80",
        ];
        let rules = EgressRules {
            allow: allow.map(|text| HostRule::parse(text).expect(text)).into(),
            deny: Vec::new(),
        };
        let shown: Vec<String> = Forward::of(&rules)
            .into_iter()
            .map(|forward| format!("{} {}", forward.host, forward.port))
            .collect();
        assert_eq!(shown, ["127.0.0.1 5432", "localhost 3000", "[::1] 80"]);
    }
}
