//! Attempts through Unix sockets: to services of the host by path and by abstract name, with and
//! without a connection, and descriptors passed either way.

use std::{
    io::{IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::{
        fd::AsFd as _,
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
    time::Duration,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::attempt::{Arguments, Attempt, Control, Unusable, Verdict};

/// How long to wait for an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "unix-connect",
        about: "connects to a socket by its path, and sends a text",
        arguments: "PATH [TEXT]",
        control: Control::Anyone,
        run: |given| stream(given, Name::Path),
    },
    Attempt {
        name: "abstract-connect",
        about: "connects to a socket by its abstract name, and sends a text",
        arguments: "NAME [TEXT]",
        control: Control::Anyone,
        run: |given| stream(given, Name::Abstract),
    },
    Attempt {
        name: "unix-send",
        about: "sends a datagram to a socket by its path, without connecting",
        arguments: "PATH TEXT",
        control: Control::Anyone,
        run: |given| datagram(given, Name::Path),
    },
    Attempt {
        name: "abstract-send",
        about: "sends a datagram to a socket by its abstract name, without connecting",
        arguments: "NAME TEXT",
        control: Control::Anyone,
        run: |given| datagram(given, Name::Abstract),
    },
    Attempt {
        name: "unix-bind",
        about: "makes a socket at a path",
        arguments: "PATH",
        control: Control::Anyone,
        run: |given| {
            let bound = UnixDatagram::bind(given.text(0)?);
            Ok(Verdict::of_io("bind", bound))
        },
    },
    Attempt {
        name: "descriptor-send",
        about: "connects to a socket by its path and sends it a descriptor",
        arguments: "PATH",
        control: Control::Anyone,
        run: descriptor_send,
    },
    Attempt {
        name: "descriptor-receive",
        about: "connects to a socket by its path, sends a text and waits for a descriptor",
        arguments: "PATH [TEXT]",
        control: Control::Anyone,
        run: descriptor_receive,
    },
];

/// How a socket is named.
#[derive(Debug, Clone, Copy)]
enum Name {
    Path,
    Abstract,
}

impl Name {
    fn address(self, word: &str) -> Result<SocketAddr, Unusable> {
        match self {
            Self::Path => SocketAddr::from_pathname(word),
            Self::Abstract => SocketAddr::from_abstract_name(word),
        }
        .map_err(|error| Unusable::new(format!("`{word}` does not name a socket: {error}")))
    }
}

fn stream(given: &Arguments<'_>, name: Name) -> Result<Verdict, Unusable> {
    let address = name.address(given.text(0)?)?;
    let text = given.optional(1).unwrap_or_default();
    let sent =
        UnixStream::connect_addr(&address).and_then(|mut stream| stream.write_all(text.as_bytes()));
    Ok(Verdict::of_io("connect", sent))
}

fn datagram(given: &Arguments<'_>, name: Name) -> Result<Verdict, Unusable> {
    let address = name.address(given.text(0)?)?;
    let text = given.text(1)?;
    let sent =
        UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(text.as_bytes(), &address));
    Ok(Verdict::of_io("send", sent))
}

fn descriptor_send(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let stream = match UnixStream::connect(given.text(0)?) {
        Ok(stream) => stream,
        Err(error) => return Ok(Verdict::of_io::<()>("connect", Err(error))),
    };
    let sent = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sent));
    let text = [IoSlice::new(b"x")];
    let made = rustix::net::sendmsg(&stream, &text, &mut control, SendFlags::NOSIGNAL);
    Ok(Verdict::of("sendmsg with a descriptor", made))
}

fn descriptor_receive(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let text = given.optional(1).unwrap_or_default();
    let connected = UnixStream::connect(given.text(0)?).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    });
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) => return Ok(Verdict::of_io::<()>("connect", Err(error))),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 256];
    let mut room = [IoSliceMut::new(&mut bytes)];
    // Being stopped for a while interrupts what has a time limit.
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&stream, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)
    });
    if let Err(errno) = received {
        return Ok(Verdict::refused(errno, "recvmsg"));
    }
    let count: usize = control
        .drain()
        .map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.count(),
            _ => 0,
        })
        .sum();
    Ok(if count > 0 {
        Verdict::succeeded(format!("{count} descriptors came"))
    } else {
        Verdict::stopped("no descriptor came")
    })
}
