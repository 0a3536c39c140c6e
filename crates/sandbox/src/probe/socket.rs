//! Attempts on the network: sockets of every family, packets to a given address, changes to routes,
//! and which interfaces are visible.
#![expect(unsafe_code, reason = "odd socket families have no safe wrapper")]

use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    raw::call,
};

/// How long a connection may take.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "socket",
        about: "makes a socket of a family, by the word for it",
        arguments: "FAMILY",
        control: Control::Machine,
        run: |given| socket(given, &[]),
    },
    Attempt {
        name: "socket-reached",
        about: "asks for a socket of a family; that the kernel has none counts as reached",
        arguments: "FAMILY",
        control: Control::OwnNamespace,
        run: |given| socket(given, NOT_BUILT_IN),
    },
    Attempt {
        name: "tcp-connect",
        about: "connects to an address and port, and sends a text",
        arguments: "ADDRESS PORT [TEXT]",
        control: Control::Anyone,
        run: tcp_connect,
    },
    Attempt {
        name: "tcp-listen",
        about: "listens on a port of an address",
        arguments: "ADDRESS PORT",
        control: Control::Anyone,
        run: |given| {
            let bound = TcpListener::bind(address(given)?);
            Ok(Verdict::of_io("bind and listen", bound))
        },
    },
    Attempt {
        name: "udp-send",
        about: "sends a datagram to an address and port",
        arguments: "ADDRESS PORT TEXT",
        control: Control::Anyone,
        run: |given| udp(given, given.text(2)?.as_bytes()),
    },
    Attempt {
        name: "dns-query",
        about: "asks a name server at an address and port for a name, by a datagram of its own",
        arguments: "ADDRESS PORT NAME",
        control: Control::Anyone,
        run: |given| udp(given, &dns_query(given.text(2)?)),
    },
    Attempt {
        name: "icmp-send",
        about: "sends an echo request to an address (IPv4)",
        arguments: "ADDRESS",
        control: Control::OwnNamespace,
        run: icmp_send,
    },
    Attempt {
        name: "add-address",
        about: "gives the loopback interface another address by netlink",
        arguments: "",
        control: Control::OwnNamespace,
        run: |_| Ok(add_address()),
    },
    Attempt {
        name: "interfaces",
        about: "looks for network interfaces other than loopback, with their hardware addresses",
        arguments: "",
        control: Control::Machine,
        run: |_| Ok(interfaces()),
    },
];

/// The word for each family, and the arguments that make a socket of it.
const FAMILIES: &[(&str, [i32; 3])] = &[
    ("unix", [libc::AF_UNIX, libc::SOCK_STREAM, 0]),
    ("tcp", [libc::AF_INET, libc::SOCK_STREAM, 0]),
    ("tcp6", [libc::AF_INET6, libc::SOCK_STREAM, 0]),
    ("udp", [libc::AF_INET, libc::SOCK_DGRAM, 0]),
    ("udp6", [libc::AF_INET6, libc::SOCK_DGRAM, 0]),
    (
        "sctp",
        [libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP],
    ),
    (
        "mptcp",
        [libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP],
    ),
    (
        "udplite",
        [libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE],
    ),
    (
        "icmp",
        [libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP],
    ),
    ("raw", [libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP]),
    (
        "raw6",
        [libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6],
    ),
    ("packet", [libc::AF_PACKET, libc::SOCK_RAW, 0]),
    (
        "netlink-route",
        [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE],
    ),
    (
        "netlink-audit",
        [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT],
    ),
    (
        "netlink-netfilter",
        [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER],
    ),
    (
        "netlink-uevent",
        [
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_KOBJECT_UEVENT,
        ],
    ),
    (
        "netlink-generic",
        [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC],
    ),
    ("vsock", [libc::AF_VSOCK, libc::SOCK_STREAM, 0]),
    ("alg", [libc::AF_ALG, libc::SOCK_SEQPACKET, 0]),
    ("bluetooth", [libc::AF_BLUETOOTH, libc::SOCK_RAW, 1]),
    ("xdp", [libc::AF_XDP, libc::SOCK_RAW, 0]),
    ("tipc", [libc::AF_TIPC, libc::SOCK_SEQPACKET, 0]),
    ("key", [libc::AF_KEY, libc::SOCK_RAW, 2]),
    ("can", [libc::AF_CAN, libc::SOCK_RAW, 1]),
    ("rds", [libc::AF_RDS, libc::SOCK_SEQPACKET, 0]),
    ("smc", [43, libc::SOCK_STREAM, 0]),
    ("qipcrtr", [42, libc::SOCK_DGRAM, 0]),
    ("nfc", [libc::AF_NFC, libc::SOCK_SEQPACKET, 0]),
    ("phonet", [libc::AF_PHONET, libc::SOCK_DGRAM, 0]),
    ("ppp", [libc::AF_PPPOX, libc::SOCK_STREAM, 0]),
    ("llc", [libc::AF_LLC, libc::SOCK_STREAM, 0]),
    ("ieee802154", [libc::AF_IEEE802154, libc::SOCK_DGRAM, 0]),
    ("appletalk", [libc::AF_APPLETALK, libc::SOCK_DGRAM, 0]),
    ("x25", [libc::AF_X25, libc::SOCK_SEQPACKET, 0]),
    ("ax25", [libc::AF_AX25, libc::SOCK_SEQPACKET, 0]),
    ("mctp", [45, libc::SOCK_DGRAM, 0]),
    ("kcm", [41, libc::SOCK_DGRAM, 0]),
];

/// What a kernel built without a family answers, and none of our filters does.
const NOT_BUILT_IN: &[Errno] = &[
    Errno::AFNOSUPPORT,
    Errno::PROTONOSUPPORT,
    Errno::SOCKTNOSUPPORT,
];

fn socket(given: &Arguments<'_>, reached: &[Errno]) -> Result<Verdict, Unusable> {
    let word = given.text(0)?;
    let (_, [family, kind, protocol]) = FAMILIES
        .iter()
        .find(|(known, _)| *known == word)
        .ok_or_else(|| Unusable::new(format!("there is no family `{word}`")))?;
    let opened = open(*family, *kind, *protocol);
    Ok(Verdict::reached(word, opened, reached))
}

/// Makes a socket and leaves it open until this process ends.
fn open(family: i32, kind: i32, protocol: i32) -> Result<usize, Errno> {
    let words = [family as usize, kind as usize, protocol as usize];
    // SAFETY: numbers only.
    unsafe { call(libc::SYS_socket, words) }
}

fn address(given: &Arguments<'_>) -> Result<SocketAddr, Unusable> {
    Ok(SocketAddr::new(ip(given)?, given.number(1)?))
}

fn ip(given: &Arguments<'_>) -> Result<IpAddr, Unusable> {
    let word = given.text(0)?;
    word.parse()
        .map_err(|_| Unusable::new(format!("`{word}` is not an IP address")))
}

fn tcp_connect(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let to = address(given)?;
    let text = given.optional(2).unwrap_or_default();
    let sent = TcpStream::connect_timeout(&to, CONNECT_WAIT)
        .and_then(|mut stream| stream.write_all(text.as_bytes()));
    Ok(Verdict::of_io(&format!("connect to {to}"), sent))
}

fn udp(given: &Arguments<'_>, bytes: &[u8]) -> Result<Verdict, Unusable> {
    let to = address(given)?;
    let from: IpAddr = if to.is_ipv4() {
        IpAddr::from([0; 4])
    } else {
        IpAddr::from([0_u16; 8])
    };
    let sent = UdpSocket::bind((from, 0)).and_then(|socket| socket.send_to(bytes, to));
    Ok(Verdict::of_io(&format!("send to {to}"), sent))
}

/// A query for the address of a name, as in RFC 1035.
fn dns_query(name: &str) -> Vec<u8> {
    let mut query = vec![0x48, 0x46, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = label.as_bytes().get(..63).unwrap_or(label.as_bytes());
        query.push(u8::try_from(label.len()).unwrap_or_default());
        query.extend_from_slice(label);
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

fn icmp_send(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let IpAddr::V4(to) = ip(given)? else {
        return Err(Unusable::new("an IPv4 address is needed"));
    };
    // Unprivileged echo requests if the machine allows them, otherwise a raw socket.
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP)
        .or_else(|_| open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP));
    let made = socket.and_then(|socket| {
        let echo: [u8; 8] = [8, 0, 0xf7, 0xfe, 0, 0, 0, 1];
        let mut name = [0_u8; 16];
        let family = (libc::AF_INET as u16).to_ne_bytes();
        for (place, byte) in name
            .iter_mut()
            .zip(family.into_iter().chain([0, 0]).chain(to.octets()))
        {
            *place = byte;
        }
        let words = [
            socket,
            echo.as_ptr() as usize,
            echo.len(),
            0,
            name.as_ptr() as usize,
            name.len(),
        ];
        // SAFETY: message and address live until the call returns, with the lengths given.
        unsafe { call(libc::SYS_sendto, words) }
    });
    Ok(Verdict::of("echo request", made))
}

/// `RTM_NEWADDR` for 192.0.2.1/32 on interface 1, with the acknowledgement asked for.
#[rustfmt::skip]
const NEW_ADDRESS: [u8; 40] = [
    // Header: length 40, type 20 (RTM_NEWADDR), flags REQUEST|ACK|CREATE, sequence 1, port 0.
    40, 0, 0, 0, 20, 0, 0x05, 0x04, 1, 0, 0, 0, 0, 0, 0, 0,
    // Address: family 2, prefix 32, flags 0, scope 254 (host), interface 1.
    2, 32, 0, 254, 1, 0, 0, 0,
    // IFA_LOCAL and IFA_ADDRESS.
    8, 0, 2, 0, 192, 0, 2, 1,
    8, 0, 1, 0, 192, 0, 2, 1,
];

fn add_address() -> Verdict {
    let opened = open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
    let socket = match opened {
        Ok(socket) => socket,
        Err(errno) => return Verdict::refused(errno, "a netlink socket"),
    };
    let mut answer = [0_u8; 256];
    // SAFETY: the message and the room for the answer live until the calls return, with the lengths
    // given.
    let answered = unsafe {
        call(
            libc::SYS_sendto,
            [
                socket,
                NEW_ADDRESS.as_ptr() as usize,
                NEW_ADDRESS.len(),
                0,
                0,
                0,
            ],
        )
        .and_then(|_| {
            call(
                libc::SYS_recvfrom,
                [socket, answer.as_mut_ptr() as usize, answer.len(), 0, 0, 0],
            )
        })
    };
    // The error follows the header of the answer: 0, or an error number below 0.
    let error = answer
        .get(16..20)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i32::from_ne_bytes);
    match answered {
        Err(errno) => Verdict::refused(errno, "netlink"),
        Ok(_) if error == 0 => Verdict::succeeded("an address was added"),
        Ok(_) => Verdict::refused(Errno::from_raw_os_error(-error), "RTM_NEWADDR"),
    }
}

fn interfaces() -> Verdict {
    let mut list = std::ptr::null_mut::<libc::ifaddrs>();
    // SAFETY: the list is written to our pointer, and freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        let errno = super::raw::last_error();
        return Verdict::refused(errno, "getifaddrs");
    }
    let mut names = std::collections::BTreeSet::new();
    let mut next = list;
    // SAFETY: each entry is valid until the list is freed, and its name ends with a null byte.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        names.insert(name.to_string_lossy().into_owned());
        next = entry.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs` and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    names.remove("lo");
    if names.is_empty() {
        Verdict::stopped("only loopback")
    } else {
        Verdict::succeeded(names.into_iter().collect::<Vec<_>>().join(", "))
    }
}

/// Brings up the loopback interface of a new network namespace, so that packets have somewhere to
/// go.
pub(super) fn raise_loopback() -> Result<usize, Errno> {
    /// `struct ifreq` with flags.
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let mut request = Request {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short,
        rest: [0; 22],
    };
    for (place, byte) in request.name.iter_mut().zip(*b"lo") {
        *place = byte;
    }
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let words = [
        socket,
        libc::SIOCSIFFLAGS as usize,
        (&raw mut request) as usize,
    ];
    // SAFETY: the request has the layout the call expects and lives until it returns.
    unsafe { call(libc::SYS_ioctl, words) }
}
