//! Whether a call would connect somewhere that the sandbox's own network does not reach.
//!
//! The network namespace refuses such a connection anyway, but with an error that says nothing
//! about a sandbox. Checking first lets the outcome say so. Like every look at the command's
//! memory, it decides nothing that the kernel would not decide as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::filter::{Call, read_memory};

/// The port on which names are looked up by default.
const NAME_SERVICE: u16 = 53;

/// Where a connection leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// Inside the sandbox: its loopback, a Unix socket, or nothing the kernel understands.
    Own,
    /// The name service port on its own loopback, where nobody answers.
    Names,
    /// Anywhere else.
    Outside(SocketAddr),
}

/// The destination of a `connect`.
pub(super) fn destination(call: &Call) -> Destination {
    let address = call.arguments.get(1).copied().unwrap_or_default();
    // An Internet address is at most this long; a longer one belongs to another family.
    let mut bytes = [0_u8; 28];
    match read_memory(call.pid, address, &mut bytes) {
        Ok(got) => bytes.get(..got).map_or(Destination::Own, judge),
        // The kernel will hit the same fault.
        Err(_) => Destination::Own,
    }
}

fn judge(bytes: &[u8]) -> Destination {
    let Some(address) = parse(bytes) else {
        return Destination::Own;
    };
    let ip = address.ip().to_canonical();
    if !ip.is_loopback() && !ip.is_unspecified() {
        return Destination::Outside(SocketAddr::new(ip, address.port()));
    }
    if address.port() == NAME_SERVICE {
        return Destination::Names;
    }
    Destination::Own
}

fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: IpAddr = match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Ipv4Addr::from(octets).into()
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expect: Destination) {
        let address: SocketAddr = address.parse().unwrap();
        let family = match address {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let mut bytes = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
        bytes.extend(address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => {
                bytes.extend([0; 4]);
                bytes.extend(ip.octets());
            }
        }
        assert_eq!(judge(&bytes), expect, "{address}");
    }

    #[test]
    fn only_what_leads_out_is_told_of() {
        check("127.0.0.1:8080", Destination::Own);
        check("0.0.0.0:80", Destination::Own);
        check("[::1]:80", Destination::Own);
        check("[::ffff:127.0.0.1]:80", Destination::Own);
        check("127.0.0.1:53", Destination::Names);
        let outside = |text: &str| Destination::Outside(text.parse().unwrap());
        check("93.184.216.34:443", outside("93.184.216.34:443"));
        check("169.254.169.254:80", outside("169.254.169.254:80"));
        check("[2001:db8::1]:443", outside("[2001:db8::1]:443"));
        check("[::ffff:10.0.0.1]:5432", outside("10.0.0.1:5432"));
        assert_eq!(judge(&[]), Destination::Own);
        assert_eq!(judge(&[1, 0, b'/', b'x']), Destination::Own);
    }
}
