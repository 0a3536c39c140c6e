//! What an IP address is for. Pure. Follows IANA's registries of special-purpose addresses. An IPv4
//! address embedded in an IPv6 one is classified as the IPv4 address, because that is where the
//! packet would end up.
//!
//! An address that is not known to be public counts as not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Anywhere on the Internet.
    Public,
    /// A metadata service, which hands out cloud credentials to anyone who can connect. Never
    /// granted.
    Metadata,
    /// No address at all, or "this network".
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// A network behind a carrier's address translation.
    Carrier,
    /// Neighbours on the same link.
    LinkLocal,
    /// A group of receivers.
    Multicast,
    /// Examples in documents.
    Documentation,
    /// Reserved, experimental, or set aside for measurements.
    Reserved,
    /// An IPv6 tunnel to an IPv4 address; the mechanism is obsolete.
    Tunnel,
}

impl AddressClass {
    /// The name used in denials.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Metadata => "a metadata address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Carrier => "a carrier-grade NAT address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Documentation => "a documentation address",
            Self::Reserved => "a reserved address",
            Self::Tunnel => "a tunnel address",
        }
    }
}

/// Addresses that hand out credentials: Amazon (also containers and pods), Google, Azure, Alibaba,
/// Oracle, Scaleway, Tencent.
const METADATA_V4: [Ipv4Addr; 8] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 42, 42),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// Host names of the same services.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
];

/// Suffixes that never lead to the Internet, or should not: RFC 6761, RFC 8375, and `internal`,
/// which is reserved for private use.
const PRIVATE_SUFFIXES: [&str; 7] = [
    "localhost",
    "local",
    "internal",
    "home.arpa",
    "test",
    "lan",
    "localdomain",
];

/// Classifies an address.
pub fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Whether a name is that of a cloud's metadata service.
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

/// Whether a name belongs to a private network, so that it may resolve to a private address. A
/// single-label name does: resolvers append whatever search domain the network supplies.
pub fn is_private_name(name: &str) -> bool {
    !name.contains('.')
        || PRIVATE_SUFFIXES.iter().any(|suffix| {
            name.strip_suffix(suffix)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

/// The IPv4 address embedded in this address, where a packet to it would end up, if there is one.
pub fn carried(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let [prefix @ .., high, low] = address.segments();
    let last = join(high, low);
    match prefix {
        // Written `::ffff:1.2.3.4`, `::ffff:0:1.2.3.4`, `64:ff9b::1.2.3.4`.
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => {
            Some(last)
        }
        // Written `::1.2.3.4`, but neither `::` nor `::1`.
        [0, 0, 0, 0, 0, 0] if high != 0 || low > 1 => Some(last),
        // 6to4 has it after the prefix, Teredo at the end and inverted, ISATAP in the interface.
        [0x2002, high, low, ..] => Some(join(high, low)),
        [0x2001, 0, ..] => Some(join(!high, !low)),
        [_, _, _, _, 0 | 0x200, 0x5efe] => Some(last),
        _ => None,
    }
}

fn join(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Carrier,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 88, 99, _] => AddressClass::Tunnel,
        [192, 0, 0, _] | [198, 18..=19, ..] | [240..=255, ..] => AddressClass::Reserved,
        [224..=239, ..] => AddressClass::Multicast,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    if let Some(inner) = carried(address.into()) {
        let inner = classify_v4(inner);
        let tunnel = matches!(address.segments(), [0x2002, ..] | [0x2001, 0, ..]);
        match (inner, tunnel) {
            (AddressClass::Public, true) => return AddressClass::Tunnel,
            (AddressClass::Public, false) => {}
            (inner, _) => return inner,
        }
        // What a NAT64 network returns in place of an IPv4 address.
        if matches!(address.segments(), [0x64, 0xff9b, 0, 0, 0, 0, ..]) {
            return AddressClass::Public;
        }
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        // Reserved for protocols: benchmarks, ORCHID, and others.
        [0x2001, 0..=0x1ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(class: AddressClass, addresses: &[&str]) {
        for text in addresses {
            let address: IpAddr = text.parse().expect(text);
            assert_eq!(classify(address), class, "{text}");
        }
    }

    #[test]
    fn ss_01_and_ss_04_metadata_in_every_form() {
        check(
            AddressClass::Metadata,
            &[
                "169.254.169.254",
                "::ffff:169.254.169.254",
                "0:0:0:0:0:ffff:a9fe:a9fe",
                "64:ff9b::a9fe:a9fe",
                "2002:a9fe:a9fe::",
                "::169.254.169.254",
                "2001:0:1:2:3:4:5601:5601",
                "2606:4700::5efe:169.254.169.254",
                "100.100.100.200",
                "168.63.129.16",
                "fd00:ec2::254",
                "fd20:ce::254",
            ],
        );
    }

    #[test]
    fn ss_02_to_ss_05_this_machine_in_every_form() {
        check(
            AddressClass::Loopback,
            &[
                "127.0.0.1",
                "127.255.255.255",
                "::1",
                "::ffff:127.0.0.1",
                "::ffff:7f00:1",
                "64:ff9b::7f00:1",
                "2002:7f00:1::",
                "::127.0.0.1",
                "fe80::5efe:127.0.0.1",
                "2606:4700::200:5efe:127.0.0.1",
                "::ffff:0:127.0.0.1",
                "2001:0:4136:e378:8000:63bf:80ff:fffe",
            ],
        );
        check(AddressClass::Unspecified, &["0.0.0.0", "0.1.2.3", "::"]);
    }

    #[test]
    fn ss_06_and_ss_07_what_is_not_public() {
        check(
            AddressClass::Private,
            &[
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "fc00::1",
                "fdff::1",
                "fec0::1",
            ],
        );
        check(AddressClass::Carrier, &["100.64.0.1", "100.127.255.255"]);
        check(AddressClass::LinkLocal, &["169.254.1.1", "fe80::1"]);
        check(
            AddressClass::Multicast,
            &["224.0.0.1", "239.1.1.1", "ff02::1"],
        );
        check(
            AddressClass::Documentation,
            &[
                "192.0.2.1",
                "198.51.100.1",
                "203.0.113.1",
                "2001:db8::1",
                "3fff::1",
            ],
        );
        check(
            AddressClass::Reserved,
            &[
                "192.0.0.1",
                "198.18.0.1",
                "198.19.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "100::1",
                "64:ff9b:1::1",
                "2001:2::1",
                "2001:10::1",
                "5f00::1",
                "4000::1",
                "::8.8.8.8",
                "::ffff:8.8.8.8",
            ],
        );
        check(
            AddressClass::Tunnel,
            &["192.88.99.1", "2002:808:808::1", "2001:0:1::f7f7:f7f7"],
        );
    }

    #[test]
    fn ss_08_neighbours_are_public() {
        check(
            AddressClass::Public,
            &[
                "198.17.255.255",
                "198.20.0.0",
                "172.15.255.255",
                "172.32.0.1",
                "100.63.255.255",
                "100.128.0.1",
                "192.0.1.1",
                "223.255.255.255",
                "169.253.255.255",
                "126.255.255.255",
                "2606:4700::1111",
                "2001:4860:4860::8888",
                "2a00::1",
                "64:ff9b::8.8.8.8",
            ],
        );
    }

    #[test]
    fn ss_11_private_names() {
        for name in [
            "localhost",
            "foo.localhost",
            "x.internal",
            "printer.local",
            "db",
        ] {
            assert!(is_private_name(name), "{name}");
        }
        for name in [
            "example.com",
            "notlocal.com",
            "mylocalhost.com",
            "internal.com",
        ] {
            assert!(!is_private_name(name), "{name}");
        }
    }
}
